package fuzzy

import (
	"cmp"
	"slices"
)

// span holds what is known about one value of a key: its write, and all reads of it.
type span struct {
	called int64 // when the write was called
	begun  int64 // when the last of the operations was called
	ended  int64 // when the first of them was answered
}

// linearizable reports whether the operations of one key, no two of which write the same value, could each have
// happened at one instant between call and answer: whether they have an order in which each read returns what the
// last write before it wrote, and in which an operation that was answered before another one was called comes
// before it. (Herlihy and Wing, Linearizability, 1990)
//
// That is NP-hard in general, but easy here, where each read names its write (Gibbons and Korach, Testing Shared
// Memories, 1997). In such an order no other write comes between a write and its reads, so all operations of a value
// move as one. Value A must come before B if an operation of A was answered before one of B was called: if A.ended <
// B.begun. An order exists unless these demands form a cycle. If there is a cycle, two values already form one: in a
// longer cycle without a shortcut, each value would have ended before the one in front of it, all the way around.
func linearizable(history []operation) bool {
	written := map[uint64]*span{0: {called: -1, begun: -1, ended: -1}} // initially a key holds nothing
	for _, o := range history {
		if o.write {
			written[o.serial] = &span{o.call, o.call, o.answer}
		}
	}
	for _, o := range history {
		s := written[o.serial]
		if s == nil || o.answer < s.called {
			return false // a read of a value that nobody had begun to write
		}
		s.begun, s.ended = max(s.begun, o.call), min(s.ended, o.answer)
	}
	byEnd := make([]*span, 0, len(written))
	for _, s := range written {
		byEnd = append(byEnd, s)
	}
	slices.SortFunc(byEnd, func(a, b *span) int { return cmp.Compare(a.ended, b.ended) })
	// Of the values before s in this list, at most one has a call after the end of s: two would contradict each other.
	latest := byEnd[0]
	for _, s := range byEnd[1:] {
		if s.ended < latest.begun && latest.ended < s.begun {
			return false
		}
		if s.begun > latest.begun {
			latest = s
		}
	}
	return true
}
