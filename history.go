package raft

import (
	"fmt"
	"sync"
)

// notesMax is how many of the latest notes are kept.
const notesMax = 4096

// history keeps the latest notes of the core, and why leadership last changed, for whoever looks into
// what went wrong.
type history struct {
	mu    sync.Mutex
	notes []Note // a ring once it is full
	next  int
	why   string
}

// add takes the notes of one Step.
func (h *history) add(notes []Note) {
	if len(notes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, note := range notes {
		if len(h.notes) < notesMax {
			h.notes = append(h.notes, note)
			continue
		}
		h.notes[h.next] = note
		h.next = (h.next + 1) % notesMax
	}
}

// all returns the notes, the oldest first.
func (h *history) all() []Note {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(append([]Note(nil), h.notes[h.next:]...), h.notes[:h.next]...)
}

// change remembers why leadership changed: the last decision of the Step in which it did.
func (h *history) change(from, to Leadership, notes []Note) (why string) {
	switch {
	case to.Leader != "" && from.Leader != "" && from.Leader != to.Leader:
		why = fmt.Sprintf("%s leads in term %d, after %s in term %d", to.Leader, to.Term, from.Leader, from.Term)
	case to.Leader != "":
		why = fmt.Sprintf("%s leads in term %d", to.Leader, to.Term)
	case from.Leader != "":
		why = fmt.Sprintf("no leader: %s led in term %d", from.Leader, from.Term)
	default:
		why = fmt.Sprintf("no leader: this member is a %v in term %d", to.Role, to.Term)
	}
	if len(notes) > 0 {
		why += fmt.Sprintf(" (%v)", notes[len(notes)-1])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
	return why
}

func (h *history) reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}
