package fuzzy

import (
	"bytes"
	"maps"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
)

// The invariants of sessions.
//
//	G24  Every member gives to each entry of a session the answer of the rules, applied to the committed log one entry at a time, in batches of any size and after restarts and restorations. A state machine with sessions never fails. (dissertation §6.3)
//	G25  The configuration in force before the first entry of a session keeps out earlier releases, and no member of it is known to run one when it is appended.
//	H8   A command of a session takes effect at most once in the history of the cluster. All its attempts that are answered as applied get one answer. It has no effect if its client was told that none of its attempts has one.

// sessionRules is the table as its rules say it, without any care for speed.
type sessionRules struct {
	sessions map[raft.Index]*ruledSession
	now      int64
	limits   sessions.Limits
}

type ruledSession struct {
	id            sessions.ID
	used          int64
	floor, window uint64
	answers       map[uint64][]byte // results
}

// bytes returns what the table takes: 160 for each session, and 32 and the result for each answer.
func (s *sessionRules) bytes() (sum int64) {
	for _, one := range s.sessions {
		sum += 160
		for _, result := range one.answers {
			sum += 32 + int64(len(result))
		}
	}
	return sum
}

// judge returns the result that the rules want for an entry of a session. effect is the result if it takes effect now.
func (s *sessionRules) judge(e *raft.Entry, effect []byte) (result []byte, takes bool) {
	r, err := sessions.DecodeRequest(requestBytes(e))
	if err != nil {
		return sessions.Answer{Outcome: sessions.Malformed}.Encode(), false
	}
	s.now = max(s.now, e.Time)
	maps.DeleteFunc(s.sessions, func(_ raft.Index, one *ruledSession) bool { return s.now-one.used > int64(s.limits.Idle) })
	if r.Kind == sessions.Open {
		return s.open(e, r).Encode(), false
	}
	one := s.sessions[r.ID.Index]
	if one == nil || one.id != r.ID {
		return sessions.Answer{Outcome: sessions.Expired}.Encode(), false
	}
	if r.Kind == sessions.Close {
		delete(s.sessions, r.ID.Index)
		return sessions.Answer{Outcome: sessions.Closed}.Encode(), false
	}
	one.used, one.floor = s.now, max(one.floor, r.Floor)
	maps.DeleteFunc(one.answers, func(number uint64, _ []byte) bool { return number < one.floor })
	answer, known := one.answers[r.Number]
	switch {
	case r.Number < one.floor:
		return sessions.Answer{Outcome: sessions.Answered, Floor: one.floor}.Encode(), false
	case known:
		return answer, false
	case r.Number >= one.floor+one.window:
		return sessions.Answer{Outcome: sessions.Beyond, Floor: one.floor, Limit: one.window}.Encode(), false
	case s.bytes() >= s.limits.Bytes:
		return sessions.Answer{Outcome: sessions.Bytes, Limit: uint64(s.limits.Bytes)}.Encode(), false
	}
	one.answers[r.Number] = effect
	return effect, true
}

func (s *sessionRules) open(e *raft.Entry, r sessions.Request) sessions.Answer {
	switch l := r.Limits; {
	case len(s.sessions) >= l.Sessions:
		return sessions.Answer{Outcome: sessions.Sessions, Limit: uint64(l.Sessions)}
	case s.bytes() >= l.Bytes:
		return sessions.Answer{Outcome: sessions.Bytes, Limit: uint64(l.Bytes)}
	}
	if s.sessions == nil {
		s.sessions = map[raft.Index]*ruledSession{}
	}
	r.ID.Index, s.limits = e.Index, r.Limits
	s.sessions[e.Index] = &ruledSession{id: r.ID, used: s.now, floor: 1, window: uint64(r.Limits.Window), answers: map[uint64][]byte{}}
	return sessions.Answer{Outcome: sessions.Opened}
}

// checkSessionEntry checks what the machine of the committed log has made of an entry.
func (k *checker) checkSessionEntry(e *raft.Entry, result []byte) {
	l := k.machine.ledger
	if l == nil {
		return
	}
	if l.err != nil {
		k.broken("G24", "the state machine fails at entry %v: %v", e.ID(), l.err)
		return
	}
	if e.Kind != raft.EntrySession {
		return
	}
	k.checkEffects(e, l.effects)
	want, takes := k.rules.judge(e, result)
	if !bytes.Equal(want, result) || takes != (len(l.effects) > 0) {
		k.broken("G24", "entry %v of a session is answered with %x and has %d effects; the rules want %x", e.ID(), result, len(l.effects), want)
	}
}

// checkEffects counts the effects of commands.
func (k *checker) checkEffects(e *raft.Entry, effects []uint64) {
	for _, serial := range effects {
		c := k.c.work.sessions.commands[serial]
		if c == nil {
			k.broken("H8", "entry %v has the effect of command %d, which no session has", e.ID(), serial)
			return
		}
		c.effects++
		if c.effects > 1 {
			k.broken("H8", "command %d of session %v takes effect again, at %v", c.number, c.id, e.ID())
		}
		if c.never {
			k.broken("H8", "command %d of session %v takes effect at %v; its client was told that it had none", c.number, c.id, e.ID())
		}
	}
}

// checkFirstAnswer checks an answer that a client gets to its command.
func (k *checker) checkFirstAnswer(c *sessionCommand, answer []byte) {
	if c.effects != 1 || c.answer != nil && !bytes.Equal(c.answer, answer) {
		k.broken("H8", "command %d of session %v, with %d effects, is answered with %x after %x", c.number, c.id, c.effects, answer, c.answer)
	}
}

// checkToldNever records that the client of a command was told that no attempt has an effect.
func (k *checker) checkToldNever(c *sessionCommand) {
	if c.never = true; c.effects > 0 {
		k.broken("H8", "the client of command %d of session %v is told that it has no effect", c.number, c.id)
	}
}

// checkSessionAnswers checks the answers of a member.
func (k *checker) checkSessionAnswers(n *node, batch []*raft.Entry, results [][]byte) {
	if err := n.machine.ledger.err; err != nil {
		k.broken("G24", "%s: its state machine fails: %v", n, err)
		return
	}
	for i, e := range batch {
		if e.Index > k.committed() {
			return // checkApplied has reported this
		}
		if want := k.canonical[e.Index-1].answer; !bytes.Equal(results[i], want) {
			k.broken("G24", "%s answers entry %v, in a batch of %d, with %x; the answer is %x", n, e.ID(), len(batch), results[i], want)
		}
	}
}

// checkSessionAllowed checks an entry that a log has got. in is the configuration before it.
func (k *checker) checkSessionAllowed(n *node, e *raft.Entry, in *loggedConfig) {
	if e.Kind == raft.EntrySession && (in == nil || !in.Sessions) {
		k.broken("G25", "%s has entry %v of a session, but the configuration before it allows none", n, e.ID())
	}
}

// checkSessionsBegin checks the configuration that a leader has just appended.
func (k *checker) checkSessionsBegin(n *node, l *loggedConfig) {
	if !l.Sessions || l.before == nil || l.before.Sessions {
		return
	}
	for _, m := range l.Members {
		speaks, known := n.seen.speaks[m.Peer()]
		if known && speaks < raft.ProtocolSessions && m.Kind != raft.Leaving && m.Next != raft.NextRemoved {
			k.broken("G25", "%s allows sessions at %d, but %s speaks protocol %d", n, l.index, m.ID, speaks)
		}
	}
}
