package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ledger keeps what was asked and what was answered: every request is answered, and none too often.
type ledger struct {
	last     RequestID
	requests map[RequestID]*askedFor
}

type askedKind int

const (
	proposal askedKind = iota
	reading
	handing
)

type askedFor struct {
	kind    askedKind
	asked   *member
	life    int
	floor   Index // the highest index that anybody had applied when a read was asked for
	answers []Answer
}

func (l *ledger) open(m *member, kind askedKind) RequestID {
	l.last++
	r := &askedFor{kind: kind, asked: m, life: m.lives}
	for i := range m.w.decided {
		r.floor = max(r.floor, i)
	}
	l.requests[l.last] = r
	return l.last
}

// answered holds an answer against what it answers.
func (l *ledger) answered(t testing.TB, a Answer) {
	r := l.requests[a.RequestID]
	require.NotNil(t, r, "an answer to a request id that nobody holds: %+v", a)
	r.answers = append(r.answers, a)
	first := r.answers[0]
	switch {
	case r.kind == proposal && len(r.answers) == 2:
		require.Equal(t, AnswerAccepted, first.Kind, "only an accepted proposal is answered again: %+v", r.answers)
		require.Contains(t, []AnswerKind{AnswerNotApplied, AnswerUnknown}, a.Kind)
	case r.kind == proposal:
		require.Contains(t, []AnswerKind{AnswerAccepted, AnswerRefused}, a.Kind)
	case r.kind == reading && a.Kind == AnswerReadSafe:
		require.GreaterOrEqual(t, a.ID.Index, r.floor, "a read sees everything that was applied before it")
	}
	if r.kind == proposal {
		require.LessOrEqual(t, len(r.answers), 2, "a proposal is answered twice at most: %+v", r.answers)
	} else {
		require.Len(t, r.answers, 1, "a request is answered once: %+v", r.answers)
	}
	if a.Kind == AnswerNotApplied {
		require.NotEqual(t, a.ID, r.asked.w.decided[a.ID.Index], "what is said not to be applied never is")
	}
}

// settled requires that everything asked in a life that still goes on has its answer.
func (l *ledger) settled(t testing.TB) {
	for requestID, r := range l.requests {
		if r.asked.core == nil || r.asked.lives != r.life {
			continue
		}
		require.NotEmpty(t, r.answers, "request %d of %s is not answered", requestID, r.asked.id)
		if a := r.answers[0]; len(r.answers) == 1 && a.Kind == AnswerAccepted {
			require.Equal(t, a.ID, r.asked.w.decided[a.ID.Index], "an accepted proposal is applied, or answered again")
			require.LessOrEqual(t, a.ID.Index, r.asked.applied)
		}
	}
}

// notApplied requires that what was said not to be applied was not.
func (l *ledger) notApplied(t testing.TB) {
	for requestID, r := range l.requests {
		for _, a := range r.answers {
			if a.Kind == AnswerNotApplied {
				require.NotEqual(t, a.ID, r.asked.w.decided[a.ID.Index], "request %d", requestID)
			}
		}
	}
}
