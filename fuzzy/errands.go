package fuzzy

import (
	"encoding/binary"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
	"github.com/coxswain/raft/internal/sim"
)

// Forwarded changes of the members and transfers of leadership. They travel like forwarded writes (see forwards.go), and the
// leader carries them out like those of its own admins and clients. H7 judges their effects: the entry that a change begins
// with, and the TimeoutNow of a transfer.

// errand is a change or a transfer that is forwarded. The request of the member that was asked shares it with the requests of
// the leaders that carry it out.
type errand struct {
	effect raft.RequestID // of the leader that has carried it out; 0: none has
	done   bool           // a leader has answered that it has carried it out
	never  bool           // its client was told that it is not carried out
}

// drawErrands makes admins and clients ask members that forward. It uses its own stream.
func drawErrands(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.MembersConcern<<32)
	quarter, chance, priorities := s.IntN(4), s.LogUniform(300_000, sim.Million), s.LogUniform(100_000, 700_000)*s.IntN(2)
	switch {
	case p.Name == "forwards" && quarter < 2:
		drawMembers(s, p)
		drawAmbushes(s, p)
		p.Members.Priorities, p.Members.Think = priorities, s.LogTime(p.ElectionTimeout/5, p.ElectionTimeout)
		p.Load.Transfers = 50_000 * s.IntN(2)
		p.Faults = append(p.Faults, FaultRate{Close, s.LogTime(2*p.ElectionTimeout, 20*p.ElectionTimeout), s.LogTime(p.ElectionTimeout/10, 2*p.ElectionTimeout)})
	case p.Name == "forwards" && quarter == 2:
		p.Load.Transfers = 100_000
		p.Faults = append(p.Faults, FaultRate{Close, s.LogTime(2*p.ElectionTimeout, 20*p.ElectionTimeout), s.LogTime(p.ElectionTimeout/10, 2*p.ElectionTimeout)})
	case p.Name == "members" && quarter == 0:
	default:
		return
	}
	p.Load.ForwardsChanges = chance
}

// asked returns the member that an admin asks for a change, and whether it forwards the change.
func (w *workload) asked(n *node) (of *node, forwards bool) {
	if !w.errands.Chance(w.c.profile.Load.ForwardsChanges) {
		return n, false
	}
	for range 3 { // mostly one that follows a leader
		if n = w.c.nodes[w.errands.IntN(len(w.c.nodes))]; n.core != nil && n.status.Leader != "" && n.status.Role != raft.Leader {
			break
		}
	}
	return n, n.status.Role != raft.Leader
}

// changeThrough asks a member that does not lead for a change.
func (w *workload) changeThrough(n *node, admin int, ch *changing) raft.RequestID {
	w.c.faulted("admin %d asks %s, which forwards, if the members are those of %d, to %s", admin+1, n.name(), ch.ifIndex, ch.describe())
	return w.sendErrand(n, request{kind: changeRequest, client: admin, change: ch})
}

// sendErrand asks a member that does not lead for a change or a transfer.
func (w *workload) sendErrand(n *node, r request) raft.RequestID {
	r.node, r.state, r.errand = n, answeredUnknown, &errand{}
	if w.errands.Coin() {
		r.deadline = n.now().Mono + 1 + raft.Time(w.errands.Exponential(4*w.c.profile.ElectionTimeout))
	}
	t := w.ask(r)
	n.relay(t)
	return t
}

// leaderFor returns the leader to which a request is sent, and its term. A member, and also a stranger, that knows no leader
// may have heard of it elsewhere.
func (n *node) leaderFor(r *request) (raft.Peer, raft.Term) {
	s := &n.status
	if i := n.c.leader(); s.Leader == "" && i >= 0 && r.errand != nil && n.c.work.errands.Coin() {
		return n.c.nodes[i].peer(), n.c.nodes[i].status.Term
	}
	return raft.Peer{ID: s.Leader, Incarnation: s.LeaderIncarnation}, s.Term
}

// forwarded returns what a request looks like as a raft.Forward. That of a change or a transfer names the request.
func (r *request) forwarded(t raft.RequestID) (raft.ForwardKind, []byte) {
	switch r.kind {
	case changeRequest:
		return raft.ForwardChange, binary.LittleEndian.AppendUint64(nil, uint64(t))
	case transferRequest:
		return raft.ForwardTransfer, binary.LittleEndian.AppendUint64(nil, uint64(t))
	}
	data := make([]byte, commandBytesMin)
	binary.LittleEndian.PutUint64(data, r.serial)
	data[8] = r.key
	return raft.ForwardPropose, data
}

// taken returns the request of the leader that carries out a forwarded one.
func (w *workload) taken(n *node, of *relayed) request {
	f := of.forward
	number := binary.LittleEndian.Uint64(f.Data)
	r := request{state: answeredUnknown, client: -1, node: n, size: len(f.Data), floor: w.c.check.committed(), relayed: of} // until the core has it
	if f.Kind == raft.ForwardPropose {
		r.serial, r.key = number, f.Data[8]
		return r
	}
	origin := &w.requests[number]
	r.kind, r.errand, r.to = origin.kind, origin.errand, origin.to
	if ch := origin.change; ch != nil {
		r.change = &changing{Change: ch.Change, ifIndex: ch.ifIndex}
	}
	return r
}

// runErrand gives the core a change or a transfer that another member has forwarded.
func (n *node) runErrand(t raft.RequestID) {
	r := &n.c.work.requests[t]
	term := r.relayed.message.Term
	switch {
	case r.kind == transferRequest:
		n.post(raft.TransferRequested{RequestID: t, Term: term, To: r.to})
	case !n.letsJoin(r.change):
		r.state = answeredNo
		n.finishes(r, raft.ForwardRefused, raft.EntryID{})
	default:
		r.change.met, r.floor = configured(n.log), n.c.check.committed()
		n.post(raft.ChangeRequested{RequestID: t, Term: term, IfIndex: r.change.ifIndex, Change: r.change.Change})
	}
}

// endErrand ends a change or a transfer on the member that has forwarded it.
func (n *node) endErrand(t raft.RequestID, next forward.Next) {
	r := &n.c.work.requests[t]
	e := r.errand
	switch next {
	case forward.Done:
		r.state = answeredWell
		n.c.stats.ErrandsDone++
		n.c.holds(e.done, "H7", "%s says that request %d was carried out; no leader has said so", n, t)
	case forward.Failed:
		r.state, e.never = answeredNo, true
		n.c.holds(e.effect == 0, "H7", "%s says that request %d is not carried out; request %d has carried it out", n, t, e.effect)
	}
}

// checkAgain checks the answer after which a member may send a request again.
func (n *node) checkAgain(t raft.RequestID, o raft.ForwardOutcome) {
	n.c.holds(o == raft.ForwardNotApplied, "H6", "%s sends request %d again, whose outcome is %v", n, t, o)
	if e := n.c.work.requests[t].errand; e != nil {
		n.c.holds(e.effect == 0, "H7", "%s is told that request %d was not carried out; request %d has carried it out", n, t, e.effect)
	}
}

// checkTaken checks an answer of the core to a request that another member has forwarded.
func (k *checker) checkTaken(n *node, a raft.Answer) {
	r := &k.c.work.requests[a.RequestID]
	switch {
	case r.relayed == nil:
	case a.Kind == raft.AnswerAccepted:
		k.checkTermOf(n, r, a.ID.Term)
		k.recordEffect(n, a.RequestID)
	case a.Kind == raft.AnswerNotApplied && r.errand != nil:
		r.errand.effect = 0 // another entry is committed in its place
	}
}

// checkTermOf checks the term in which a core takes a request that another member has forwarded.
func (k *checker) checkTermOf(n *node, r *request, term raft.Term) {
	if r.relayed != nil && r.relayed.message.Term != term {
		k.broken("H6", "%s takes a request for the leader of term %d in term %d", n, r.relayed.message.Term, term)
	}
}

// checkOfTheTerm checks that a core keeps no change that was forwarded to the leader of an earlier term.
func (k *checker) checkOfTheTerm(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	for _, e := range events {
		ch, ok := e.(raft.ChangeRequested)
		refused := func(a raft.Answer) bool { return a.RequestID == ch.RequestID && outcomeOf(a) == raft.ForwardNotApplied }
		if ok && ch.Term != 0 && ch.Term < before.Term && !slices.ContainsFunc(out.Answers, refused) {
			k.broken("H6", "%s takes request %d, a change for the leader of term %d, in term %d", n, ch.RequestID, ch.Term, n.status.Term)
		}
	}
}

// recordEffect records that a leader's request to carry out a forwarded change or transfer takes effect.
func (k *checker) recordEffect(n *node, t raft.RequestID) {
	r := k.c.work.request(t)
	if r == nil || r.errand == nil || r.errand.effect == t {
		return
	}
	e := r.errand
	k.c.holds(e.effect == 0, "H7", "%s carries out by request %d what request %d has carried out", n, t, e.effect)
	k.c.holds(!e.never, "H7", "%s carries out by request %d what its client was told is not carried out", n, t)
	e.effect = t
}
