package forward

import (
	"math/rand/v2"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

var toN1 = Target{Peer: n1, StartCount: 3, Term: 5}

func send(t *testing.T, s *Sender, to Target) raft.Forward {
	t.Helper()
	m, ok := s.Send(100, to, raft.ForwardPropose, []byte("x"), 0)
	require.True(t, ok)
	return m.Body.(raft.Forward)
}

func answer(counter uint64, o raft.ForwardOutcome) raft.ForwardReply {
	return raft.ForwardReply{StartCount: 7, Counter: counter, Outcome: o}
}

func TestSender_NamesBothStartsAndTheTerm(t *testing.T) {
	s := NewSender(n2, 7)
	m, ok := s.Send(100, toN1, raft.ForwardChange, []byte("x"), 150)
	require.True(t, ok)
	expect.Equal(t, raft.Message{From: n2, To: n1, Term: 5, Body: raft.Forward{
		StartCount: 7, Counter: 1, ToStart: 3, Left: 50, Kind: raft.ForwardChange, Data: []byte("x"),
	}}, m)
	m, ok = s.Send(100, Target{Peer: n3, StartCount: 8, Term: 6}, raft.ForwardPropose, nil, 0)
	require.True(t, ok)
	expect.Equal(t, raft.Message{From: n2, To: n3, Term: 6, Body: raft.Forward{
		StartCount: 7, Counter: 2, ToStart: 8, Kind: raft.ForwardPropose,
	}}, m, "no counter is used twice, for any receiver")
	expect.Equal(t, 2, s.Open())
}

func TestSender_NothingLeavesAtTheDeadline(t *testing.T) {
	s := NewSender(n2, 7)
	for _, now := range []raft.Time{150, 151} {
		_, ok := s.Send(now, toN1, raft.ForwardPropose, nil, 150)
		expect.False(t, ok)
	}
	expect.Zero(t, s.Open())
	expect.Equal(t, uint64(1), send(t, s, toN1).Counter)
}

// Only the answer "not applied" lets a request be sent again.
func TestSender_WhatFollowsFromAnAnswer(t *testing.T) {
	for _, row := range []struct {
		rule   string
		from   raft.Peer
		answer raft.ForwardReply
		want   Next
	}{
		{"it was carried out", n1, answer(1, raft.ForwardApplied), Done},
		{"it was not applied", n1, answer(1, raft.ForwardNotApplied), Again},
		{"it was refused", n1, answer(1, raft.ForwardRefused), Failed},
		{"the receiver does not know", n1, answer(1, raft.ForwardUnknown), Unknown},
		{"an outcome of a later release", n1, answer(1, 99), Unknown},
		{"no outcome", n1, answer(1, 0), Unknown},
		{"of another request", n1, answer(2, raft.ForwardNotApplied), Ignore},
		{"of another member", n3, answer(1, raft.ForwardNotApplied), Ignore},
		{"of another incarnation", peer("n1", 12), answer(1, raft.ForwardNotApplied), Ignore},
		{"for another start", n1, raft.ForwardReply{StartCount: 6, Counter: 1, Outcome: raft.ForwardNotApplied}, Ignore},
	} {
		s := NewSender(n2, 7)
		send(t, s, toN1)
		expect.Equal(t, Ignore, s.Answered(raft.Message{From: row.from, To: n3}, row.answer), "%s: for another member", row.rule)
		expect.Equal(t, row.want, s.Answered(toN2(row.from), row.answer), row.rule)
		if row.want == Ignore {
			expect.Equal(t, Done, s.Answered(toN2(n1), answer(1, raft.ForwardApplied)), "%s: it stays open", row.rule)
		}
		expect.Equal(t, Ignore, s.Answered(toN2(n1), answer(1, raft.ForwardApplied)), "%s: one answer counts", row.rule)
		expect.Zero(t, s.Open())
	}
}

// toN2 returns what an answer of a member to n2 comes in.
func toN2(p raft.Peer) raft.Message { return raft.Message{From: p, To: n2} }

// When a connection ends, the requests to that peer are decided for good.
func TestSender_AfterALostConnectionNoAnswerCounts(t *testing.T) {
	s := NewSender(n2, 7)
	for _, to := range []raft.Peer{n1, n3, n1, n1} {
		send(t, s, Target{Peer: to, StartCount: 3, Term: 5})
	}
	s.Forget(3)
	s.Forget(9)
	expect.Equal(t, []uint64{1, 4}, s.Lost(n1))
	expect.Empty(t, s.Lost(n1))
	expect.Equal(t, Ignore, s.Answered(toN2(n1), answer(1, raft.ForwardNotApplied)))
	expect.Equal(t, Ignore, s.Answered(toN2(n1), answer(3, raft.ForwardNotApplied)), "nobody waits for it")
	expect.Equal(t, Done, s.Answered(toN2(n3), answer(2, raft.ForwardApplied)), "another connection has not ended")
	expect.Equal(t, uint64(5), send(t, s, toN1).Counter)
}

// A network loses, doubles, delays and reorders messages. Receivers restart and lead in many terms. Whatever happens, no
// request is carried out twice, and one that was reported as not carried out never is.
func TestForward_NoRequestTakesEffectTwice(t *testing.T) {
	effects := 0
	for seed := range uint64(300) {
		w := newWorld(seed)
		for range 300 {
			w.step()
		}
		for value, times := range w.effects {
			require.LessOrEqual(t, times, 1, "seed %d: request %d", seed, value)
			require.False(t, w.failed[value], "seed %d: request %d was reported as not carried out", seed, value)
		}
		effects += len(w.effects)
	}
	expect.Greater(t, effects, 1500)
}

// world is one sender and two receivers with a bad network between them.
type world struct {
	rng       *rand.Rand
	sender    *Sender
	receivers []*host
	values    map[uint64]byte // of the open requests, by counter
	last      byte
	network   []raft.Message // on the way; a message that arrives may stay for a second time
	effects   map[byte]int
	failed    map[byte]bool // reported to the caller as not carried out
}

type host struct {
	self    raft.Peer
	start   uint64
	term    raft.Term
	r       *Receiver
	waiting []raft.Message // accepted, and not appended yet
}

func newWorld(seed uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), sender: NewSender(n2, 7), values: map[uint64]byte{}, effects: map[byte]int{}, failed: map[byte]bool{},
	}
	for _, p := range []raft.Peer{n1, n3} {
		w.receivers = append(w.receivers, &host{self: p, start: 1, term: 1, r: NewReceiver(p, 1, Limits{Requests: 4, Bytes: 100})})
	}
	return w
}

func (w *world) step() {
	h := w.receivers[w.rng.IntN(2)]
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		if w.last < 255 {
			w.last++
			w.send(h, w.last)
		}
	case 3, 4, 5, 6:
		w.arrive()
	case 7, 8:
		h.append(w)
	case 9:
		if w.rng.IntN(8) == 0 {
			h.term++
		}
	case 10:
		if w.rng.IntN(4) == 0 {
			h.start++
			h.r, h.waiting = NewReceiver(h.self, h.start, Limits{Requests: 4, Bytes: 100}), nil
		}
	case 11:
		for _, counter := range w.sender.Lost(h.self) {
			delete(w.values, counter)
		}
	}
}

func (w *world) send(to *host, value byte) {
	start, term := to.start, to.term-raft.Term(w.rng.IntN(2))
	m, _ := w.sender.Send(1, Target{to.self, start, term}, raft.ForwardPropose, []byte{value}, 0)
	w.values[m.Body.(raft.Forward).Counter] = value
	w.network = append(w.network, m)
}

func (w *world) arrive() {
	if len(w.network) == 0 {
		return
	}
	i := w.rng.IntN(len(w.network))
	m := w.network[i]
	if w.rng.IntN(3) == 0 {
		w.network = append(w.network[:i], w.network[i+1:]...)
	}
	if f, ok := m.Body.(raft.Forward); ok {
		h := w.receivers[0]
		if m.To == n3 {
			h = w.receivers[1]
		}
		h.receive(w, m, f)
		return
	}
	r := m.Body.(raft.ForwardReply)
	value := w.values[r.Counter]
	switch w.sender.Answered(m, r) {
	case Again:
		delete(w.values, r.Counter)
		if w.rng.IntN(2) == 0 {
			w.send(w.receivers[w.rng.IntN(2)], value)
		} else {
			w.failed[value] = true
		}
	case Failed:
		w.failed[value] = true
	}
}

func (h *host) receive(w *world, m raft.Message, f raft.Forward) {
	now := State{Term: h.term, Committed: members, Transferring: w.rng.IntN(5) == 0}
	switch v := h.r.Receive(m, f, now); v {
	case Silent:
	case CarryOut:
		h.waiting = append(h.waiting, m)
	default:
		w.network = append(w.network, h.r.Answer(m, f, h.term, raft.ForwardReply{Outcome: v.Outcome()}))
	}
}

// append does what the core does with the oldest request that waits: it checks the term in the step that appends.
func (h *host) append(w *world) {
	if len(h.waiting) == 0 {
		return
	}
	m := h.waiting[0]
	h.waiting = h.waiting[1:]
	f, reply := m.Body.(raft.Forward), raft.ForwardReply{Outcome: raft.ForwardNotApplied}
	if m.Term == h.term {
		w.effects[f.Data[0]]++
		reply.Outcome = raft.ForwardApplied
	}
	h.r.Finish(m, f)
	w.network = append(w.network, h.r.Answer(m, f, h.term, reply))
}
