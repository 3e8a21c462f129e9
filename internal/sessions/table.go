// Package sessions makes retried commands take effect once (dissertation §6.3). It has the entries of sessions, the table of
// sessions that every member keeps beside its FSM, and the FSM that keeps it. Package session is its public face. It has no
// clock: a session expires by the stamps of the entries, which are the same on every member.
package sessions

import (
	"bytes"
	"slices"

	"github.com/coxswain/raft"
)

// Table is the sessions of a cluster as of one entry of the log: the same on every member that has applied up to there. The
// calls of Take must not depend on how the entries come in batches. So the stored bytes, which depend on answers, count only
// where they are known: see Unsure.
type Table struct {
	limits   Limits
	now      int64 // highest stamp of an entry of a session
	sessions map[raft.Index]*session
	oldest   *session // the one that was used first; they are linked in the order of used
	newest   *session
	bytes    int64
	changes  *changes // nil: they are not needed
}

// session is what the table knows of one session. There may be many.
type session struct {
	id           ID
	used         int64  // stamp of its last entry
	floor        uint64 // the highest that was seen
	answers      []answer
	older, newer *session
	window       uint16
	gone         bool // it is in the table no longer
	changed      bool // since the last call of changes.take
}

// answer is the stored answer to one command, at or above the floor. Answers are sorted by number.
type answer struct {
	number uint64
	data   []byte // nil: it is not known yet, see Finish; see also tooLarge
}

// What a session and an answer count in Limits.Bytes, about as much as they take.
const (
	sessionBytes = 160
	answerBytes  = 32
)

// NewTable returns an empty table.
func NewTable() *Table { return &Table{sessions: make(map[raft.Index]*session)} }

// Len returns the number of sessions, some of which may have expired.
func (t *Table) Len() int { return len(t.sessions) }

// Bytes returns what the table takes, as far as Limits.Bytes counts it.
func (t *Table) Bytes() int64 { return t.bytes }

// Effect is a command that has taken effect, until its answer is known.
type Effect struct {
	New     bool // it takes effect now: the FSM's answer is to be given to Finish; else it repeats one whose answer is not known yet
	session *session
	number  uint64
}

// Take decides about an entry of a session. The answer is final, unless there is an effect. The command shares the entry's data.
func (t *Table) Take(e *raft.Entry) (command []byte, a Answer, effect Effect) {
	r, err := DecodeRequest(e.Data)
	if err != nil {
		return nil, Answer{Outcome: Malformed}, Effect{}
	}
	t.advance(e.Time)
	if r.Kind == Open {
		return nil, t.open(e.Index, r), Effect{}
	}
	s := t.sessions[r.ID.Index]
	if s == nil || s.id != r.ID {
		return nil, Answer{Outcome: Expired}, Effect{}
	}
	if r.Kind == Close {
		t.remove(s)
		return nil, Answer{Outcome: Closed}, Effect{}
	}
	t.use(s)
	a, effect = t.command(s, r.Number, r.Floor)
	return r.Data, a, effect
}

// advance removes the sessions whose time has passed. Time is that of the entries, and never falls.
func (t *Table) advance(stamp int64) {
	if stamp > t.now {
		t.now = stamp
		t.changes.meta()
	}
	for t.oldest != nil && t.now-t.oldest.used > int64(t.limits.Idle) {
		t.remove(t.oldest)
	}
}

// open adds a session. The limits of the newest opening count for all, unless it is refused.
func (t *Table) open(index raft.Index, r Request) Answer {
	switch {
	case len(t.sessions) >= r.Limits.Sessions:
		return Answer{Outcome: Sessions, Limit: uint64(r.Limits.Sessions)}
	case t.bytes >= r.Limits.Bytes:
		return Answer{Outcome: Bytes, Limit: uint64(r.Limits.Bytes)}
	}
	t.limits = r.Limits
	t.changes.meta()
	r.ID.Index = index
	t.add(&session{id: r.ID, used: t.now, floor: 1, window: uint16(r.Limits.Window)})
	return Answer{Outcome: Opened}
}

// command decides about a command of a session:
//
//	"the state machine tracks, for each client session, the latest serial number it has processed for the client, along with the
//	associated response. If it receives a command whose serial number has already been executed, it responds immediately without
//	re-executing the request." (§8)
//
// Since the commands of a session may be under way at the same time, the table keeps an answer for each number that the client
// may still ask for.
func (t *Table) command(s *session, number, floor uint64) (Answer, Effect) {
	t.raise(s, floor)
	i, known := s.find(number)
	switch {
	case number < s.floor:
		return Answer{Outcome: Answered, Floor: s.floor}, Effect{}
	case known && s.answers[i].data == nil:
		return Answer{}, Effect{false, s, number}
	case known:
		return stored(s.answers[i].data), Effect{}
	case number >= s.floor+uint64(s.window):
		return Answer{Outcome: Beyond, Floor: s.floor, Limit: uint64(s.window)}, Effect{}
	case t.bytes >= t.limits.Bytes:
		return Answer{Outcome: Bytes, Limit: uint64(t.limits.Bytes)}, Effect{}
	}
	s.answers = slices.Insert(s.answers, i, answer{number: number})
	t.bytes += answerBytes
	return Answer{}, Effect{true, s, number}
}

// Finish stores the FSM's answer to a command that has taken effect, and returns the result of the entry, which the table shares.
func (t *Table) Finish(e Effect, result []byte) []byte {
	a := Answer{Outcome: Applied, Data: result}
	if len(result) > AnswerBytesMax {
		a = Answer{Outcome: TooLarge, Limit: uint64(len(result))}
	}
	data := a.Encode()
	s := e.session
	if i, known := s.find(e.number); known && !s.gone {
		s.answers[i].data = data
		t.bytes += int64(len(data))
		t.changes.answer(s, &s.answers[i])
	}
	return data
}

// Unsure reports whether the next entry may depend on the answers to that many commands, which are not known yet. An opening
// brings a limit of its own, which may be lower.
func (t *Table) Unsure(next *raft.Entry, pending int) bool {
	return pending > 0 && (opens(next) || t.bytes+int64(pending)*(1+AnswerBytesMax) >= t.limits.Bytes)
}

func opens(e *raft.Entry) bool { return len(e.Data) > 1 && Kind(e.Data[1]) == Open }

// stored returns the answer that the table has stored.
func stored(data []byte) Answer {
	a, _ := DecodeAnswer(data) // Encode has made it
	return a
}

// raise raises the floor of a session, and forgets the answers below it. A command in a late copy of an earlier attempt carries
// an earlier floor.
func (t *Table) raise(s *session, floor uint64) {
	if floor <= s.floor {
		return
	}
	s.floor = floor
	n, _ := s.find(floor)
	for i := range s.answers[:n] {
		t.forget(s, &s.answers[i])
	}
	s.answers = slices.Delete(s.answers, 0, n)
}

// forget stops counting an answer.
func (t *Table) forget(s *session, a *answer) {
	t.bytes -= answerBytes + int64(len(a.data))
	t.changes.forget(s, a)
}

// use makes a session the newest one.
func (t *Table) use(s *session) {
	t.unlink(s)
	s.used = t.now
	t.link(s)
	t.changes.session(s)
}

func (t *Table) add(s *session) {
	t.sessions[s.id.Index] = s
	t.bytes += sessionBytes
	t.link(s)
	t.changes.session(s)
}

func (t *Table) remove(s *session) {
	delete(t.sessions, s.id.Index)
	t.unlink(s)
	s.gone = true
	t.bytes -= sessionBytes
	for i := range s.answers {
		t.forget(s, &s.answers[i])
	}
	t.changes.session(s)
}

// link makes s the newest session.
func (t *Table) link(s *session) {
	s.newer = nil
	if s.older = t.newest; s.older != nil {
		s.older.newer = s
	} else {
		t.oldest = s
	}
	t.newest = s
}

func (t *Table) unlink(s *session) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		t.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		t.newest = s.older
	}
}

func (s *session) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(s.answers, number, func(a answer, n uint64) int {
		switch {
		case a.number < n:
			return -1
		case a.number > n:
			return 1
		}
		return 0
	})
}

// unused reports whether there never was an entry of a session.
func (t *Table) unused() bool { return t.now == 0 && len(t.sessions) == 0 }

// Equal reports whether both tables are the same in every field, for tests.
func (t *Table) Equal(other *Table) bool { return bytes.Equal(t.encode(), other.encode()) }

// Encoded returns the table as it is in a snapshot, for tests. Equal tables have equal bytes.
func (t *Table) Encoded() []byte { return t.encode() }
