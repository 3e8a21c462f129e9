package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
	"github.com/coxswain/raft/internal/sim"
)

// Forwarded writes: a client writes through a member that does not lead. Package forward runs as it does in a node. The network
// doubles, delays and reorders its messages like all others, and members restart in between. The invariants of writes judge
// them: however often a write is sent, G11 allows one effect, and H4 none once its client was told that there is none.

// forwarding is a process's part in forwarding.
type forwarding struct {
	sender    *forward.Sender
	receiver  *forward.Receiver
	sent      map[uint64]raft.RequestID // the requests without an answer, by counter
	last      uint64                    // the counter of the last one
	committed raft.Configuration        // the newest that is known to be committed
}

// relayed is a request of another member that this member carries out.
type relayed struct {
	message raft.Message
	forward raft.Forward
	until   raft.Time // the deadline of its client, on this member's clock; 0: none
}

// forwardsMax and forwardBytesMax are the limits of one sender. They are low, so that they are reached.
const (
	forwardsMax     = 4
	forwardBytesMax = 1 << 10
)

// shapeForwards makes clients write through any member, while leaders change and messages arrive twice and late.
func shapeForwards(s *sim.Stream, p *Profile) {
	millisecond := sim.In(time.Millisecond)
	shapeElections(s, p)
	p.Network.Duplicate, p.Network.Loss = s.LogUniform(10_000, 300_000), s.LogUniform(1000, 200_000)
	p.Node.Connections, p.Node.Handshakes = s.Coin(), s.IntN(3) == 0
	p.Faults = append(p.Faults, FaultRate{Crash, s.LogTime(150*millisecond, 1000*millisecond), s.LogTime(millisecond, 50*millisecond)})
	for _, kind := range []FaultKind{Partition, Wipe} {
		if s.Coin() {
			p.Faults = append(p.Faults, FaultRate{kind, s.LogTime(sim.In(time.Second), p.Length), s.LogTime(sim.In(50*time.Millisecond), sim.In(time.Second))})
		}
	}
	p.Load.Forwards, p.Load.Transfers = s.LogUniform(300_000, sim.Million), s.IntN(2)*50_000
	p.Load.Clients, p.Load.Think, p.Load.Patience = 4+s.IntN(9), s.LogTime(5*millisecond, 50*millisecond), s.LogTime(500*millisecond, 4000*millisecond)
	if s.Coin() {
		shapeHistory(s, p)
	}
}

// beginForwards gives a process that starts its sender and its receiver.
func (n *node) beginForwards() {
	if load := &n.c.profile.Load; load.Forwards == 0 && load.ForwardsChanges == 0 {
		return
	}
	n.forwarding = forwarding{
		sender:   forward.NewSender(n.peer(), n.disk.startCount),
		receiver: forward.NewReceiver(n.peer(), n.disk.startCount, forward.Limits{Requests: forwardsMax, Bytes: forwardBytesMax}),
		sent:     make(map[uint64]raft.RequestID),
	}
}

// forward begins a write through a member that does not lead. It returns 0 if that member does not run.
func (w *workload) forward(n *node, client int) raft.RequestID {
	if n.core == nil {
		return 0
	}
	key, serial := uint8(w.random.IntN(w.c.profile.Load.Keys)), uint64(len(w.writes))
	w.writes = append(roomy(w.writes, 1), attempt{key: key})
	r := request{kind: writeRequest, state: answeredUnknown, client: client, node: n, serial: serial, key: key, floor: w.c.check.committed()}
	if w.forwards.Coin() {
		r.deadline = n.now().Mono + 1 + raft.Time(w.forwards.Exponential(w.c.profile.Load.Patience/4))
	}
	t := w.ask(r)
	n.relay(t)
	return t
}

// relay sends a request to the leader, if this member knows one that takes it. Otherwise it tries again later.
func (n *node) relay(t raft.RequestID) {
	w := n.c.work
	r := &w.requests[t]
	s := &n.status
	leader, term := n.leaderFor(r)
	to := n.c.at(leader)
	switch {
	case s.Role == raft.Leader || n.closing || r.errand != nil && n.c.phase != safetyPhase:
		n.endRelay(t, forward.Failed) // a node would carry it out here
		return
	case leader.ID == "" || to == nil:
		n.relayLater(t)
		return
	case min(n.protocol(), to.protocol()) < raft.ProtocolForwarding:
		n.endRelay(t, forward.Failed)
		return
	}
	kind, data := r.forwarded(t)
	target := forward.Target{Peer: leader, StartCount: to.disk.startCount, Term: term}
	p, now := &n.forwarding, n.now().Mono
	m, ok := p.sender.Send(now, target, kind, data, r.deadline)
	if !ok {
		n.endRelay(t, forward.Failed)
		return
	}
	counter := m.Body.(raft.Forward).Counter
	n.c.holds(counter > p.last, "H6", "%s sends request %d with the counter %d after %d", n, t, counter, p.last)
	n.c.holds(r.deadline == 0 || now < r.deadline, "H6", "%s sends request %d at %v; its client has waited until %v", n, t, now, r.deadline)
	p.last, p.sent[counter] = counter, t
	m.Cluster = s.Cluster
	if r.errand == nil {
		n.c.stats.Forwards++
	} else {
		n.c.stats.Errands++
	}
	n.transmit(m, 64+len(data))
}

// relayAgain sends a request again, unless its client has given up. It carries out a request that another member has sent.
func (n *node) relayAgain(t raft.RequestID) {
	if n.c.work.requests[t].relayed != nil {
		n.carriesOut(t)
		return
	}
	if !n.c.work.awaits(t) {
		n.endRelay(t, forward.Failed)
		return
	}
	n.relay(t)
}

// awaits reports whether the client or the admin of a request still waits for its answer.
func (w *workload) awaits(t raft.RequestID) bool {
	if r := &w.requests[t]; r.kind != changeRequest {
		return w.clients[r.client].open == t
	}
	return w.c.admins.admins[w.requests[t].client].open == t
}

// relayLater sends a request again after a pause.
func (n *node) relayLater(t raft.RequestID) {
	n.later(1+n.c.work.forwards.Exponential(n.c.profile.ElectionTimeout/3), event{kind: evRelay, a: int64(t)})
}

// endRelay ends a request through this member.
func (n *node) endRelay(t raft.RequestID, next forward.Next) {
	w := n.c.work
	r := &w.requests[t]
	switch {
	case r.errand != nil:
		n.endErrand(t, next)
	case next == forward.Done:
		r.state, r.applied = answeredWell, true
		n.c.stats.Forwarded++
		n.c.holds(w.writes[r.serial].acked, "G10", "%s tells its client that write %d is applied; no leader has applied it", n, r.serial)
		w.record(r, r.serial)
	case next == forward.Failed:
		r.state = answeredNo
		n.c.check.recordNeverApplied(r, raft.Answer{Kind: raft.AnswerNotApplied})
	}
	w.done(t, "") // not the leader: its client goes on writing through other members
}

func isForward(b raft.Body) bool {
	switch b.(type) {
	case raft.Forward, raft.ForwardReply:
		return true
	}
	return false
}

// forwarded handles a message of package forward. A process that is frozen loses it.
func (n *node) forwarded(m raft.Message) {
	switch body := m.Body.(type) {
	case raft.Forward:
		if !n.frozen {
			n.takesForward(m, body)
		}
	case raft.ForwardReply:
		if !n.frozen {
			n.takesReply(m, body)
		}
	}
}

func (n *node) takesForward(m raft.Message, f raft.Forward) {
	s, p, w := &n.status, &n.forwarding, n.c.work
	if f.Kind != raft.ForwardPropose && n.c.phase != safetyPhase {
		return // it would disturb the second phase, and the network may lose it
	}
	now := forward.State{Transferring: n.core.HoldsProposals(), Committed: p.committed, InForce: s.Config, NoRemoteChanges: n.noRemoteChanges}
	if s.Role == raft.Leader {
		now.Term = s.Term
	}
	v := p.receiver.Receive(m, f, now)
	mine := m.To == n.peer() && f.ToStart == n.disk.startCount
	n.c.holds(mine || v == forward.Silent, "H6", "%s answers a request for the start %d of %s", n, f.ToStart, n.c.title(m.To))
	switch v {
	case forward.Silent:
	case forward.CarryOut:
		n.checkForward(m, f)
		r := &relayed{message: m, forward: f}
		if f.Left > 0 {
			r.until = n.now().Mono + f.Left
		}
		t := w.ask(w.taken(n, r))
		random, rare := w.forwards, 8
		if w.requests[t].errand != nil {
			random, rare = w.errands, 3
		}
		if w.c.phase != safetyPhase || random.IntN(rare) > 0 {
			n.carriesOut(t)
		} else { // its goroutine waits for a processor, and leaders may change meanwhile
			n.later(1+sim.Time(random.IntN(int(3*n.c.profile.ElectionTimeout))), event{kind: evRelay, a: int64(t)})
		}
	default:
		n.replies(m, f, raft.ForwardReply{Outcome: v.Outcome()})
	}
}

// checkForward checks what holds for a request that a leader takes from another member.
func (n *node) checkForward(m raft.Message, f raft.Forward) {
	s, p := &n.status, &n.forwarding
	_, named := p.committed.Peer(m.From)
	n.c.holds(named, "H6", "%s carries out a request of %s, which is no member", n, n.c.title(m.From))
	n.c.holds(!n.noRemoteChanges || f.Kind == raft.ForwardPropose, "H6", "%s carries out a %v, but takes none of other members", n, f.Kind)
	n.c.holds(s.Role == raft.Leader && m.Term == s.Term, "H6", "%s, in term %d, carries out a request for the leader of term %d", n, s.Term, m.Term)
	n.c.holds(!n.core.HoldsProposals(), "H6", "%s carries out a request while it transfers its leadership", n)
	open := p.receiver.Open(m.From)
	n.c.holds(open <= forwardsMax, "H6", "%s carries out %d requests of %s at the same time", n, open, m.From.ID)
}

// carriesOut gives the core a request of another member, unless its client waits no longer.
func (n *node) carriesOut(t raft.RequestID) {
	r := &n.c.work.requests[t]
	if until := r.relayed.until; until > 0 && n.now().Mono >= until || r.errand != nil && n.c.phase != safetyPhase {
		r.state = answeredNo
		n.finishes(r, raft.ForwardNotApplied, raft.EntryID{})
		return
	}
	if r.state = unanswered; r.errand != nil {
		n.runErrand(t)
		return
	}
	data := r.relayed.forward.Data
	n.post(raft.Proposed{Proposals: []raft.Proposal{{RequestID: t, Term: r.relayed.message.Term, Kind: raft.EntryCommand, Data: data}}})
}

// finishes answers a request of another member that this member has carried out, or not.
func (n *node) finishes(r *request, outcome raft.ForwardOutcome, id raft.EntryID) {
	n.forwarding.receiver.Finish(r.relayed.message, r.relayed.forward)
	if r.errand != nil && outcome == raft.ForwardApplied {
		r.errand.done = true
	}
	n.replies(r.relayed.message, r.relayed.forward, raft.ForwardReply{Outcome: outcome, Index: id.Index, EntryTerm: id.Term})
}

func (n *node) replies(m raft.Message, f raft.Forward, reply raft.ForwardReply) {
	s := &n.status
	reply.Leader = raft.Peer{ID: s.Leader, Incarnation: s.LeaderIncarnation}
	answer := n.forwarding.receiver.Answer(m, f, s.Term, reply)
	if n.c.at(answer.To) != nil { // otherwise a stranger asked
		n.transmit(answer, 64)
	}
}

// outcomeOf says what an answer of the core means for the member that has forwarded the request. A change that was given up,
// and a transfer that did not end in time, were carried out; a node sends the error along.
func outcomeOf(a raft.Answer) raft.ForwardOutcome {
	switch {
	case a.Kind == raft.AnswerUnknown:
		return raft.ForwardUnknown
	case a.Kind == raft.AnswerChanged, a.Kind == raft.AnswerGivenUp, a.Kind == raft.AnswerTransferred, a.Refusal == raft.RefusedTimedOut:
		return raft.ForwardApplied
	case a.Kind == raft.AnswerNotApplied, a.Refusal == raft.RefusedNotLeader, a.Refusal == raft.RefusedTransferring, a.Refusal == raft.RefusedClosing:
		return raft.ForwardNotApplied
	}
	return raft.ForwardRefused
}

func (n *node) takesReply(m raft.Message, r raft.ForwardReply) {
	p := &n.forwarding
	next := p.sender.Answered(m, r)
	t := p.sent[r.Counter]
	if next == forward.Again {
		n.checkAgain(t, r.Outcome)
	}
	switch next {
	case forward.Ignore:
		return
	case forward.Again:
		n.relayLater(t)
	default:
		n.endRelay(t, next)
	}
	delete(p.sent, r.Counter)
}

// losesForwards ends the requests that were sent to a peer whose connection or start has ended.
func (n *node) losesForwards(peer raft.Peer) {
	p := &n.forwarding
	if p.sender == nil {
		return
	}
	for _, counter := range p.sender.Lost(peer) {
		n.endRelay(p.sent[counter], forward.Unknown)
		delete(p.sent, counter)
	}
}
