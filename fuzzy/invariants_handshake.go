package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/handshake"
	"github.com/coxswain/raft/internal/sim"
)

// The invariants of handshakes (see handshake.View).
//
//	I1  If a member durably remembers a later start or term of a disk, it takes no message from an older image of that disk.
//	I2  A member marks its store as an older image only if the store is an older image.

// pedigree is the data that a disk keeps besides Raft's own state, together with the checker's record of the truth. The
// record has the starts from which the disk descends, and the starts of others that its member has durably met.
type pedigree struct {
	lineage raft.Lineage
	memory  raft.Sightings
	starts  []int32   // numbers of all starts of this disk, counted over all nodes
	met     []meeting // by node
}

// meeting is the newest start of another disk that a member has met, with the highest term that the disk has shown.
type meeting struct {
	incarnation raft.Incarnation
	start       int32
	term        raft.Term
}

// begin records one more start of the disk.
func (r *pedigree) begin(c *cluster, nonce uint64) {
	c.starts++
	r.lineage = r.lineage.Begin(nonce)
	r.starts = append(slices.Clip(r.starts), c.starts)
}

// start returns the number of the last start, or 0 if there was none.
func (r *pedigree) start() int32 {
	if len(r.starts) == 0 {
		return 0
	}
	return r.starts[len(r.starts)-1]
}

func (r pedigree) clone() pedigree {
	r.met, r.starts = slices.Clone(r.met), slices.Clone(r.starts)
	return r // the rest never changes in place
}

// hands is the state that a process keeps for handshakes.
type hands struct {
	memory  raft.Sightings // sightings by which hellos are judged; the disk gets them later
	keeping bool           // the disk is writing memory
	keeps   int64          // number of the last scheduled end of such a write; earlier ends do not count
	mark    *raft.Mark
	admits  [][]int32   // by node: the starts whose messages are accepted
	redial  []sim.Time  // by node: the earliest time of the next dial
	late    []lateHello // by receiver: a hello that may arrive late
	book    *book       // the peers that it dials; nil if members do not have to find each other

	bootstrap raft.Bootstrap // decoded from the disk's entry 1, whose hash is first
	first     uint64
}

func (n *node) beginHands() {
	n.hands.memory, n.hands.keeping, n.hands.mark = n.disk.memory, false, nil
	if n.hands.admits == nil {
		n.forgetHands()
	}
	clear(n.hands.redial)
	n.hands.late = make([]lateHello, len(n.c.nodes))
	if !n.c.profile.Node.Handshakes {
		return
	}
	for _, other := range n.c.nodes {
		if other != n {
			n.later(n.disk.hands.Exponential(n.c.profile.ElectionTimeout/30), event{kind: evShake, a: int64(other.index)})
		}
	}
	if n.hands.book != nil {
		n.later(n.c.redialTime(), event{kind: evRedial})
	}
}

// forgetHands resets the state for handshakes after the disk was replaced.
func (n *node) forgetHands() {
	n.hands.admits, n.hands.redial = make([][]int32, len(n.c.nodes)), make([]sim.Time, len(n.c.nodes))
	if len(n.disk.met) == 0 {
		n.disk.met = make([]meeting, len(n.c.nodes))
	}
}

// takes reports whether this node accepts messages of another node's start. If it does not, and both processes run, the two
// nodes shake hands. Messages sent before the handshake are lost.
func (n *node) takes(from *node, start int32) bool {
	if !n.c.profile.Node.Handshakes || slices.Contains(n.hands.admits[from.index], start) {
		return true
	}
	if from.core != nil && from.disk.start() == start {
		from.shake(n)
	}
	return false
}

// shake dials another node, unless it did so a moment ago.
func (n *node) shake(to *node) {
	if c := n.c; c.now() >= n.hands.redial[to.index] {
		n.hands.redial[to.index] = c.now() + c.profile.ElectionTimeout/15
		c.shake(n, to)
	}
}

// shake performs a handshake. First the acceptor judges the caller. It answers once its memory is durable.
func (c *cluster) shake(caller, acceptor *node) {
	links := c.net.Links
	if caller.core == nil || acceptor.core == nil || caller.frozen || acceptor.frozen ||
		!links.Up(caller.index, acceptor.index) || !links.Up(acceptor.index, caller.index) {
		return
	}
	if caller.hands.book == nil {
		if acceptor.judges(caller, caller.expects(acceptor), called) {
			caller.judges(acceptor, acceptor.expects(caller), calling)
		}
		return
	}
	for _, expected := range caller.calls(acceptor) {
		if acceptor.listens(caller, expected, called) && caller.listens(acceptor, caller.peer(), calling) {
			acceptor.admit(caller)
			caller.admit(acceptor)
			acceptor.isCalled(caller)
		}
	}
}

// hearing says how a Hello has arrived.
type hearing uint8

const (
	called  hearing = iota // from the caller, which is told about a rejection
	calling                // from the node that was called; the caller closes the connection and says nothing
	late                   // from a caller that has since sent another one
)

// judges makes a node judge a peer's present hello. The hello is meant for the member that the peer expects at this node.
// judges reports whether the node admits the peer.
func (n *node) judges(peer *node, expected raft.Peer, how hearing) bool {
	admits := n.listens(peer, expected, how)
	if admits {
		n.admit(peer)
	}
	return admits
}

// listens is judges without admitting the peer.
func (n *node) listens(peer *node, expected raft.Peer, how hearing) bool {
	hello := peer.hello(expected)
	heard := n.hears(peer, &hello, how)
	n.deliverLate(peer, &hello)
	if !heard || n.disk.memory.SeenOf(peer.peer()).Start != peer.disk.lineage.Last() {
		return false // rejected, or the start is not durable here yet
	}
	return true
}

// expects returns the identity under which this node knows another one, if this node does not have to find it. The identity
// has the incarnation in this node's configuration. If the configuration names no incarnation, it has the one that the other
// node has presented.
func (n *node) expects(to *node) raft.Peer {
	h, peer := n.handshake(n.disk.memory), to.peer()
	if !includes(&h.Config, peer) {
		for _, m := range h.Config.Members {
			if m.ID == to.id && n.c.at(m.Peer()) == to {
				peer = m.Peer()
			}
		}
	}
	return peer
}

// hello returns the Hello that the node sends on a connection to a member.
func (n *node) hello(to raft.Peer) raft.Hello {
	h := n.handshake(n.disk.memory).Hello(to, 0)
	if n.c.finds() {
		h.Address = n.place
	}
	return h
}

// isCalled is called after a caller has dialed this node and the connection is established.
func (n *node) isCalled(caller *node) {
	n.hands.book.Called(n.now().Mono, caller.hello(n.peer()), n.status.Cluster)
	n.hands.book.stale = true
}

// hears judges a Hello of another node and acts on the verdict.
func (n *node) hears(peer *node, hello *raft.Hello, how hearing) bool {
	h := n.handshake(n.hands.memory)
	verdict := h.Judge(*hello)
	n.c.check.checkVerdict(n, h, hello, &verdict)
	n.marked(verdict.Mark)
	if r := verdict.Rejection; r != nil {
		n.c.stats.Refusals++
		if told := peer.handshake(peer.hands.memory); hello.Expected.ID == n.id && how != calling { // otherwise another node answers there
			peer.marked(told.Told(*r))
			peer.toldRemoval(n, told.ToldRemoval(*r))
		}
	}
	meant := hello.Expected == n.peer() || hello.Expected == raft.Peer{ID: n.id} // or it only reports another node's starts
	if how != late && meant {
		n.c.check.checkOldImageMarks(n, peer)
		n.c.check.checkOldImageMarks(peer, n)
	}
	if verdict.Memory != nil {
		n.hands.memory = *verdict.Memory
		n.keep()
	}
	return verdict.Rejection == nil
}

func (n *node) handshake(memory raft.Sightings) *handshake.View {
	h := &handshake.View{
		Self: n.peer(), ClusterName: "simulated", Term: n.disk.hard.Term, Lineage: n.disk.lineage, Memory: memory,
	}
	if len(n.disk.log) > 0 {
		if first := n.disk.log[0].hash; n.hands.first != first { // decoding it each time would take too long
			n.hands.first = first
			n.hands.bootstrap, _ = n.disk.bootstrap()
		}
		h.Cluster, h.Bootstrapper = n.hands.bootstrap.Cluster, n.hands.bootstrap.Bootstrapper
		n.configures(h)
	}
	if recovered := n.disk.recovered(); recovered != (raft.ClusterID{}) {
		h.Cluster = recovered
	}
	return h
}

// configures sets two fields of a view: the configuration in force, and the removals that are known to be committed.
func (n *node) configures(h *handshake.View) {
	l, commit := configured(n.disk.log), raft.Index(0)
	if n.core != nil {
		l, commit = configured(n.log), n.status.Commit
	}
	if l == nil {
		return
	}
	h.Commit = commit
	h.Config, h.ConfigIndex = l.Configuration, l.index
	for l != nil && l.index > commit {
		l = l.before
	}
	if l != nil {
		h.Removed = l.Configuration.Removed
	}
}

// rejectsPermanently reports whether a node rejects a peer permanently. It does so if the peer has been started too often
// since the two last met. Then the node cannot tell whether the peer's disk is an older image.
func (n *node) rejectsPermanently(peer *node) bool { return n.rejectsStarts(peer, peer.disk.lineage) }

// willRejectPermanently reports whether rejectsPermanently will hold after the peer's next start.
func (n *node) willRejectPermanently(peer *node) bool {
	return n.rejectsStarts(peer, peer.disk.lineage.Begin(0))
}

// rejectsStarts reports whether a node cannot tell if a peer with these starts runs on an older image of its disk. It uses
// the starts that the node remembers durably, or will remember once its disk works again.
func (n *node) rejectsStarts(peer *node, starts raft.Lineage) bool {
	if !n.c.profile.Node.Handshakes || n == peer || n.disk.lineage == nil || peer.disk.lineage == nil {
		return false
	}
	hello := peer.hello(peer.expects(n))
	if n.c.finds() {
		hello = peer.hello(n.peer())
	}
	hello.Lineage, hello.StartCount = starts, starts.Last().Count
	return slices.ContainsFunc([]raft.Sightings{n.disk.memory, n.hands.memory}, func(m raft.Sightings) bool {
		r := n.handshake(m).Judge(hello).Rejection
		return r != nil && r.Reason == raft.RejectUnknownStart
	})
}

// keep begins to write the memory to the disk.
func (n *node) keep() {
	if !n.hands.keeping {
		n.hands.keeping = true
		n.endKeepingIn(n.disk.took(n))
	}
}

// endKeepingIn schedules, or reschedules, the end of the write that stores the memory.
func (n *node) endKeepingIn(d sim.Time) {
	n.hands.keeps++
	n.later(d, event{kind: evKept, a: n.hands.keeps})
}

// kept ends the write that stores the memory. Now the mark or the memory is durable, and the peers that wait for this shake
// hands again.
func (n *node) kept(number int64) {
	if number != n.hands.keeps {
		return
	}
	d := &n.disk
	if wait := d.stallTill - n.c.now(); wait > 0 {
		n.endKeepingIn(wait)
		return
	}
	n.hands.keeping = false
	if m := n.hands.mark; m != nil {
		n.condemned(m)
		return
	}
	d.memory = n.hands.memory
	if b := n.hands.book; b != nil {
		b.Memory(d.memory)
		b.stale = true
	}
	for _, other := range n.c.nodes {
		if other != n {
			n.c.shake(other, n)
		}
	}
}

// marked begins to write a mark.
func (n *node) marked(m *raft.Mark) {
	if m != nil && n.hands.mark == nil {
		n.hands.mark = m
		n.keep()
	}
}

// condemned ends a node whose mark is durable. It never starts again.
func (n *node) condemned(m *raft.Mark) {
	if m.Kind == raft.MarkContradicted {
		n.c.holds(n.c.forged || n.c.contradicts(), "N22", "%s marks its store (%v), but no disk has lost anything that justifies it", n, m.Err())
	} else {
		n.c.holds(n.disk.epoch > 0, "I2", "%s marks its store, which was never an older image: %s", n, m.Detail)
	}
	n.c.stats.Marked++
	n.c.faulted("%s ends permanently: %v", n.name(), m.Err())
	n.disk.damaged = true
	n.crash()
}

// admit accepts the messages of a peer's present start from now on.
func (n *node) admit(peer *node) {
	start := peer.disk.start()
	n.c.holds(!peer.isOld(n), "I1", "%s admits %s, but has durably met a later life of its disk", n, peer)
	// The start is durable here. The term that this handshake has shown may not be durable yet.
	n.disk.met[peer.index] = meeting{peer.disk.incarnation, start, n.disk.memory.SeenOf(peer.peer()).Term}
	if slices.Contains(n.hands.admits[peer.index], start) {
		return
	}
	n.hands.admits[peer.index] = append(n.hands.admits[peer.index], start)
	if peer.disk.lossy {
		n.c.beyondPromise(n, peer)
	}
	if n.c.profile.Node.Connections {
		n.c.connection(n, peer, true)
	}
}

// admits reports whether a node accepts the messages of a peer's present start.
func (n *node) admits(peer *node) bool {
	return slices.Contains(n.hands.admits[peer.index], peer.disk.start())
}

// isOld reports whether another node has durably met a newer state of a node's disk.
func (n *node) isOld(by *node) bool {
	m := by.disk.met[n.index]
	if m.start == 0 || m.incarnation != n.disk.incarnation {
		return false
	}
	return !slices.Contains(n.disk.starts, m.start) || n.disk.hard.Term < m.term
}

// beyondPromise ends a run in which a member admits an older image, because the member has never seen a newer state of that
// disk. No member can notice the old image now, and acknowledged writes may be lost later.
func (c *cluster) beyondPromise(n, peer *node) {
	c.stats.Beyond++
	c.stats.Excuse = "an older image of " + peer.name() + " met " + n.name() + ", which has seen nothing newer"
	c.record(Record{Kind: "fault", Text: c.stats.Excuse})
	c.phase = ended
}
