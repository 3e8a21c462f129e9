package node

import (
	"fmt"
	"sync"

	"github.com/coxswain/raft"
)

// notesMax is how many of the latest notes are kept.
const notesMax = 4096

// history keeps the latest notes of the core, and why leadership last changed, for whoever looks into
// what went wrong.
type history struct {
	mu    sync.Mutex
	notes []datedNote // a ring once it is full
	next  int

	why     string          // the last change
	lost    raft.Leadership // the last one with a leader
	lostWhy string
}

// datedNote is a note and the wall-clock time of its Step.
type datedNote struct {
	raft.Note
	at int64
}

// add takes the notes of one Step.
func (h *history) add(at int64, notes []raft.Note) {
	if len(notes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, note := range notes {
		if len(h.notes) < notesMax {
			h.notes = append(h.notes, datedNote{note, at})
			continue
		}
		h.notes[h.next] = datedNote{note, at}
		h.next = (h.next + 1) % notesMax
	}
}

// all returns the notes, the oldest first.
func (h *history) all() []datedNote {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(append([]datedNote(nil), h.notes[h.next:]...), h.notes[:h.next]...)
}

// change remembers why leadership changed, and returns it as a sentence. notes are those of the Step in
// which it did.
func (h *history) change(from, to raft.Leadership, notes []raft.Note) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	cause := causeOf(notes)
	if from.Leader != "" {
		h.lost, h.lostWhy = from, cause
	}
	switch {
	case to.Leader != "" && h.lost.Leader != "":
		h.why = fmt.Sprintf("%s leads in term %d, after %s in term %d%s",
			to.Leader, to.Term, h.lost.Leader, h.lost.Term, h.lostWhy)
	case to.Leader != "":
		h.why = fmt.Sprintf("%s leads in term %d", to.Leader, to.Term)
	case h.lost.Leader != "":
		h.why = fmt.Sprintf("no leader: %s led in term %d%s", h.lost.Leader, h.lost.Term, h.lostWhy)
	default:
		h.why = fmt.Sprintf("no leader: this member is a %v in term %d%s", to.Role, to.Term, cause)
	}
	return h.why
}

// causeOf returns the decision that made the role change, in parentheses, if one is noted: it stands
// right before the last note of a change.
func causeOf(notes []raft.Note) string {
	for i := len(notes) - 1; i > 0; i-- {
		switch notes[i].Kind {
		case raft.NoteLeader, raft.NoteFollower, raft.NotePreCampaign, raft.NoteCampaign:
			return fmt.Sprintf(" (%v)", notes[i-1])
		}
	}
	return ""
}

func (h *history) reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}
