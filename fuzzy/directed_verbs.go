package fuzzy

import (
	"reflect"
	"slices"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the director's actions on messages, processes, disks and clocks, and its requests as a client.

// messageUnderWay is a message at its destination.
type messageUnderWay = sim.Delivery[envelope]

// hold keeps messages of some kinds between some members from arriving.
type hold struct {
	d        *director
	from, to []*node // nil: any
	bodies   []raft.Body
	fits     func(*raft.Message) bool // nil: any
	mode     holdMode
	over     bool
	kept     []messageUnderWay
}

type holdMode uint8

const (
	keep   holdMode = iota // they may be released
	lose                   // they never arrive
	record                 // they arrive, and may arrive again
)

// keeps reports whether a hold has taken an arriving message. d may be nil.
func (d *director) keeps(m messageUnderWay) bool { return d != nil && d.held(m) }

func (d *director) held(m messageUnderWay) bool {
	for _, h := range d.holds {
		if !h.over && h.matches(&m) {
			h.kept = append(h.kept, m)
			return h.mode != record
		}
	}
	return false
}

func (h *hold) matches(m *messageUnderWay) bool {
	same := func(b raft.Body) bool { return reflect.TypeOf(b) == reflect.TypeOf(m.Message.message.Body) }
	return (h.from == nil || slices.Contains(h.from, h.d.c.nodes[m.From])) &&
		(h.to == nil || slices.Contains(h.to, h.d.c.nodes[m.To])) &&
		(h.bodies == nil || slices.ContainsFunc(h.bodies, same)) &&
		(h.fits == nil || h.fits(&m.Message.message))
}

func (d *director) holding(mode holdMode, from, to []*node, bodies []raft.Body) *hold {
	h := &hold{d: d, mode: mode, from: from, to: to, bodies: bodies}
	d.holds = append(d.holds, h)
	var kinds []string
	for _, b := range bodies {
		kinds = append(kinds, typeName(b))
	}
	verb := [...]string{"hold", "lose", "record"}[mode]
	d.c.faulted("%s %s from %s to %s", verb, strings.Join(kinds, ", "), idsOf(from), idsOf(to))
	return h
}

func idsOf(nodes []*node) (s string) {
	for _, n := range nodes {
		s += n.name()
	}
	if s == "" {
		return "any"
	}
	return s
}

// these lists members. An empty list means all members.
func these(nodes ...*node) []*node { return nodes }

func (d *director) hold(from, to []*node, bodies ...raft.Body) *hold {
	return d.holding(keep, from, to, bodies)
}

func (d *director) lose(from, to []*node, bodies ...raft.Body) *hold {
	return d.holding(lose, from, to, bodies)
}

func (d *director) record(from, to []*node, bodies ...raft.Body) *hold {
	return d.holding(record, from, to, bodies)
}

// where restricts a hold to the messages for which fits returns true.
func (h *hold) where(fits func(*raft.Message) bool) *hold {
	h.fits = fits
	return h
}

// byThisLife restricts a hold to messages of the senders' present incarnations.
func (h *hold) byThisLife() *hold {
	var senders []raft.Peer
	for _, n := range h.from {
		senders = append(senders, n.peer())
	}
	return h.where(func(m *raft.Message) bool { return slices.Contains(senders, m.From) })
}

// some reports whether anything was held.
func (h *hold) some() bool { return len(h.kept) > 0 }

// stop ends a hold, but keeps the held messages.
func (h *hold) stop() { h.over = true }

// forget ends a hold and drops the held messages.
func (h *hold) forget() { h.over, h.kept = true, nil }

// release ends a hold, and delivers the held messages, one per step.
func (h *hold) release() {
	h.over = true
	if h.mode != keep {
		return
	}
	for _, m := range h.taken() {
		h.d.c.deliver(m)
		h.d.settle()
	}
}

// taken ends a hold, and returns the held messages.
func (h *hold) taken() []messageUnderWay {
	kept := h.kept
	h.over, h.kept = true, nil
	return kept
}

// arriveTogether delivers messages so that one step takes them all.
func (d *director) arriveTogether(messages ...messageUnderWay) {
	for _, m := range messages {
		d.c.deliver(m)
	}
	d.settle()
}

// forge changes a message and delivers it, although no member has sent it in this form.
func (d *director) forge(m messageUnderWay, change func(m *raft.Message)) {
	change(&m.Message.message)
	d.c.forged = true
	d.c.faulted("a forged %s arrives at %s", typeName(m.Message.message.Body), d.c.nodes[m.To].name())
	d.arriveTogether(m)
}

// Links.

func side(nodes ...*node) (set uint64) {
	for _, n := range nodes {
		set |= 1 << n.index
	}
	return set
}

// isolate cuts members off from all others.
func (d *director) isolate(how sim.Direction, nodes ...*node) {
	way := [...]string{"both ways", "they do not hear it", "it does not hear them"}[how]
	d.c.faulted("%s: cut off from the others, %s", idsOf(nodes), way)
	d.c.net.Links.Split(side(nodes...), how)
}

func (d *director) heal() {
	d.c.faulted("all links are up")
	d.c.net.Links.Heal(sim.Partitions)
}

// Processes and clocks.

func (d *director) start(nodes ...*node) {
	for _, n := range nodes {
		n.start()
	}
	d.settle()
}

// crash ends processes. Any part of their running writes may become durable.
func (d *director) crash(nodes ...*node) {
	for _, n := range nodes {
		n.crash()
	}
	d.settle()
}

// tear ends a process during a write. Only the term, vote and commit index of that write become durable.
func (d *director) tear(n *node) {
	n.disk.write(n, &raft.Write{Hard: n.queue[0].Hard, Commit: n.queue[0].Commit}, -1)
	n.queue, n.writing = nil, 0
	d.crash(n)
}

func (d *director) wipe(nodes ...*node) {
	for _, n := range nodes {
		n.crash()
		n.disk.wipe()
		d.c.faulted("%s has lost its disk", n.name())
	}
	d.settle()
}

// dieAfter ends a process in the middle of an output. The process ends before the effect with this number, counted from 1.
func (d *director) dieAfter(n *node, effects int) { n.dieAfter, n.deadFor = effects, sim.In(3600e9) }

func (d *director) suspend(n *node) {
	d.c.faulted("%s is suspended", n.name())
	n.freeze(true)
}

func (d *director) resume(n *node) {
	d.c.faulted("%s runs on", n.name())
	n.resume()
	d.settle()
}

// hurry makes a clock run several times as fast.
func (d *director) hurry(n *node, times int64) {
	n.clock.SetDrift(d.c.now(), (times-1)*sim.Million)
	n.arm()
}

// Disks and senders.

func (d *director) stall(n *node) {
	d.c.faulted("the disk of %s stalls", n.name())
	n.disk.stallTill = sim.Never
}

func (d *director) flow(n *node) {
	d.c.faulted("the disk of %s works again", n.name())
	n.disk.stallTill = 0
	if n.core != nil {
		n.endWrites()
	}
}

// deafen withholds Persisted from a member's loop, while the member's disk keeps writing.
func (d *director) deafen(n *node) { d.unheard[n] = []raft.Seq{} }

// hear delivers the withheld Persisted events.
func (d *director) hear(n *node) {
	seqs := d.unheard[n]
	delete(d.unheard, n)
	for _, seq := range seqs {
		n.post(raft.Persisted{Seq: seq})
		d.settle()
	}
}

func (d *director) keepsPersisted(n *node, seq raft.Seq) bool {
	if d == nil || d.unheard[n] == nil {
		return false
	}
	d.unheard[n] = append(d.unheard[n], seq)
	return true
}

// muffle stops the senders of a member, so that its messages wait in their queues.
func (d *director) muffle(n *node) { d.mute = n }

func (d *director) keepsSends(n *node) bool { return d != nil && d.mute == n }

// unmute runs the senders again.
func (d *director) unmute() {
	if n := d.mute; n != nil {
		d.mute = nil
		n.flush()
		d.settle()
	}
}

// Clients. Each request comes from its own client.

func (d *director) nextClient() int {
	d.client++
	return (d.client - 1) % len(d.c.work.clients)
}

// write proposes count writes in one event. It returns the request id of the last write.
func (d *director) write(n *node, count int) raft.RequestID {
	t := d.c.work.write(n, d.nextClient(), count)
	d.settle()
	return t
}

func (d *director) read(n *node) raft.RequestID {
	t := d.c.work.read(n, d.nextClient(), 0)
	d.settle()
	return t
}

func (d *director) transfer(n, to *node) raft.RequestID {
	t := d.c.work.transferTo(n, d.nextClient(), raft.TransferRequested{To: to.id})
	d.settle()
	return t
}

func (d *director) state(t raft.RequestID) answerState { return d.c.work.requests[t].state }

// written proposes a write to a leader that can commit it, and waits until the leader has applied it.
func (d *director) written(n *node) {
	t := d.write(n, 1)
	d.until(n.name()+" commits a write", func() bool { return d.state(t) == answeredWell })
}

// Elections.

func (n *node) leads() bool { return n.core != nil && n.status.Role == raft.Leader }

// patience returns the time for which a follower still waits for its leader before it campaigns.
func (n *node) patience() sim.Time {
	return n.clock.Shows(sim.Time(n.wakeAt)+n.born, n.c.now()) - n.c.now()
}

// last returns the end of the log in memory, committed or not.
func (n *node) last() raft.Index { return raft.Index(len(n.log)) }

// stores reports whether an entry is durable on this member.
func (n *node) stores(id raft.EntryID) bool {
	return int(id.Index) <= len(n.disk.log) && id.Index > 0 && n.disk.log[id.Index-1].entry.ID() == id
}

// progressOf returns a leader's knowledge about another member.
func (n *node) progressOf(peer *node) raft.PeerProgress {
	p := progressOn(&n.status, peer.peer())
	if p == nil {
		return raft.PeerProgress{}
	}
	return *p
}

// bootstrap starts all members, and waits until the bootstrapper (the first member) leads term 1.
func (d *director) bootstrap() {
	d.start(d.c.nodes...)
	a := d.c.nodes[0]
	d.until("the cluster is bootstrapped, and a leads it", func() bool {
		return a.leads() && !slices.ContainsFunc(d.c.nodes, func(n *node) bool { return n.applied < 2 && !d.c.profile.spare(n.index) })
	})
}

// onlyCandidate drops the vote and pre-vote requests of all other members.
func (d *director) onlyCandidate(n *node) *hold {
	return d.lose(nil, nil, raft.PreVoteRequest{}, raft.VoteRequest{}).where(func(m *raft.Message) bool {
		return d.c.at(m.From) != n
	})
}

// elect waits until a member leads, and keeps all others from campaigning meanwhile.
func (d *director) elect(n *node) {
	rivals := d.onlyCandidate(n)
	d.until(n.name()+" leads", n.leads)
	rivals.stop()
}

// standsInVain makes a member that lacks committed entries the only candidate. It fails the run if this member is elected.
func (d *director) standsInVain(n *node) {
	rivals := d.onlyCandidate(n)
	d.always(8, n.name()+", which lacks what is committed, does not lead", func() bool { return !n.leads() })
	rivals.stop()
}

// reignsOn returns a condition: the member still leads the term that it leads at the time of the call.
func (d *director) reignsOn(n *node) func() bool {
	term := n.status.Term
	return func() bool { return n.leads() && n.status.Term == term }
}

// nobodyLeads is a condition for always.
func (d *director) nobodyLeads() bool { return !slices.ContainsFunc(d.c.nodes, (*node).leads) }
