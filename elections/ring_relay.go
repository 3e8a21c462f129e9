package elections

import (
	"slices"

	"github.com/coxswain/raft/internal/sim"
)

// lapChoice is a choice of every ring.
const lapChoice = "A lap carries a random tag, so a member passes it once, even if a lost ACK made two copies of it."

// lap is a message that goes round the ring: ELECTION, or COORDINATOR.
type lap struct {
	coordinator bool
	starter     Rank
	tag         uint64 // tells the starter's laps apart, so that a copy is recognized
	hops        int    // how many it has made
	ranks       []Rank // the ranks that it has met, the highest of them, or the leader
}

func (l lap) Kind() string {
	if l.coordinator {
		return "COORDINATOR"
	}
	return "ELECTION"
}

func (l lap) Bytes() int { return HeaderBytes + RankBytes*(2+len(l.ranks)) + NumberBytes }

// same reports whether two messages are one lap.
func (l lap) same(m lap) bool {
	return l.coordinator == m.coordinator && l.starter == m.starter && l.tag == m.tag
}

// ack is ACK: the hop was made.
type ack struct{ lap lap }

func (ack) Kind() string { return "ACK" }

// Bytes returns the message's size: it names the lap, without its ranks.
func (ack) Bytes() int { return HeaderBytes + RankBytes + NumberBytes }

// The timers of the ring.
const (
	timerHop   = AlgorithmTimer + iota // the oldest hop in flight was not acknowledged in time
	timerRound                         // the wait for COORDINATOR
)

// hop is a lap on its way to the next member that lives.
type hop struct {
	lap lap
	to  Rank
	due sim.Time
}

// relay takes laps from member to member:
//
//	Members are ordered in a ring; each knows its successor and the ones behind it. Each hop is
//	acknowledged, silence for T skips to the next; messages carry starter and hop count; no token.
//
// A lost ACK makes two copies of one lap, so a member passes each lap once (choice).
type relay struct {
	underWay []hop // by due time; at most one for each starter and kind
	passed   []lap // the last lap of each starter and kind that was received, without ranks
}

// successor is the next in the ring, which is ordered by rank.
func successor(e *Env, r Rank) Rank { return r%Rank(e.N()) + 1 }

// newLap creates a lap that this member starts.
func (r *relay) newLap(e *Env, coordinator bool, ranks ...Rank) lap {
	return lap{coordinator: coordinator, starter: e.Self(), tag: e.Random().Uint64() | 1, ranks: ranks}
}

// arrive acknowledges a hop, and reports whether the lap is to be processed: a message past n hops is
// dropped.
func (r *relay) arrive(e *Env, from Rank, l lap) bool {
	named := l
	named.ranks = nil
	e.Send(from, ack{named})
	if slices.ContainsFunc(r.passed, named.same) || l.hops > e.N() {
		e.Rule("I have passed this on before, or it went too far: I drop it.")
		return false
	}
	r.passed = slices.DeleteFunc(r.passed, func(p lap) bool {
		return p.starter == l.starter && p.coordinator == l.coordinator
	})
	r.passed = append(r.passed, named)
	return true
}

// pass sends a lap to the successor. It reports whether the lap is home at once, because nobody else is in the ring.
func (r *relay) pass(e *Env, l lap) (home bool) {
	l.hops++
	r.underWay = slices.DeleteFunc(r.underWay, func(h hop) bool {
		return h.lap.starter == l.starter && h.lap.coordinator == l.coordinator
	})
	return r.offer(e, hop{lap: l, to: successor(e, e.Self())})
}

// offer sends a lap to one member.
func (r *relay) offer(e *Env, h hop) (home bool) {
	defer r.arm(e)
	if h.to == e.Self() {
		return true
	}
	h.due = e.Now() + e.Times().Answer
	r.underWay = append(r.underWay, h)
	e.Send(h.to, h.lap)
	return false
}

// arm sets the timer for the oldest hop in flight.
func (r *relay) arm(e *Env) {
	if len(r.underWay) == 0 {
		e.Stop(timerHop)
		return
	}
	e.Set(timerHop, max(0, r.underWay[0].due-e.Now()))
}

// onAck ends a hop.
func (r *relay) onAck(e *Env, from Rank, a ack) {
	before := len(r.underWay)
	r.underWay = slices.DeleteFunc(r.underWay, func(h hop) bool { return h.to == from && h.lap.same(a.lap) })
	if len(r.underWay) < before {
		e.Rule("The next in the ring has it: I need not skip it.")
	} else {
		e.Rule("This acknowledgement is late: I no longer wait for it.")
	}
	r.arm(e)
}

// skip sends the oldest lap that is not acknowledged to the member after the silent one. It returns that lap, and reports
// whether the lap is home now.
func (r *relay) skip(e *Env) (l lap, home bool) {
	if len(r.underWay) == 0 {
		return lap{}, false
	}
	e.Rule("The next in the ring does not acknowledge: I skip it.")
	h := r.underWay[0]
	r.underWay = slices.Delete(r.underWay, 0, 1)
	h.to = successor(e, h.to)
	return h.lap, r.offer(e, h)
}

// ringForm holds the methods in which the forms of the ring differ.
type ringForm interface {
	elect(e *Env)
	onLap(e *Env, l lap)  // a lap comes by
	onHome(e *Env, l lap) // a lap is back at its start, or nobody else is left in the ring
}

// ringMember is the part that all forms of the ring share.
type ringMember struct {
	seat
	relay
	form     ringForm
	mine     uint64 // the tag of its own ELECTION that has not come back; 0: none
	electing bool   // it takes part in an election, and has seen no COORDINATOR since; timerRound runs
}

// Start: an election also starts at initialisation.
func (m *ringMember) Start(e *Env) { m.form.elect(e) }

// circulate passes a lap on. A member that is alone in the ring is its own successor.
func (m *ringMember) circulate(e *Env, l lap) {
	if m.pass(e, l) {
		m.form.onHome(e, l)
	}
}

// Receive handles a message.
func (m *ringMember) Receive(e *Env, from Rank, message Message) {
	switch message := message.(type) {
	case Heartbeat:
		if m.hear(e, from) && !m.electing {
			e.Rule("I lead and hear another leader: I start an election.")
			m.form.elect(e)
		}
	case ack:
		m.onAck(e, from, message)
	case lap:
		if !m.arrive(e, from, message) {
			return
		}
		if message.starter == e.Self() {
			m.form.onHome(e, message)
		} else {
			m.form.onLap(e, message)
		}
	}
}

// obey sets the leader, and ends the wait for COORDINATOR.
func (m *ringMember) obey(e *Env, leader Rank) {
	m.electing = false
	e.Stop(timerRound)
	m.take(e, leader)
}

// Fire handles an expired timer.
func (m *ringMember) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		m.Beat(e, Heartbeat{e.Self()})
	case TimerSuspect:
		m.suspect()
		m.form.elect(e)
	case timerRound:
		m.electing = false
		m.form.elect(e)
	case timerHop:
		if l, home := m.skip(e); home {
			m.form.onHome(e, l)
		}
	}
}

// patience returns the time that a member waits for COORDINATOR. If a member sees no COORDINATOR within 2n·T, it starts again
// (choice).
func patience(e *Env) sim.Time { return 2 * sim.Time(e.N()) * e.Times().Answer }
