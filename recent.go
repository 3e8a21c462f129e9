package raft

import "slices"

// recent keeps the latest of some durations.
type recent struct {
	last [8]Time
	next int
}

func (r *recent) add(d Time) {
	r.last[r.next] = d
	r.next = (r.next + 1) % len(r.last)
}

// max returns the longest of them; 0 if there are none.
func (r *recent) max() Time { return slices.Max(r.last[:]) }
