package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariants of handshakes (see raft.Handshake).
//
//	I1  A member that durably remembers a later start or term of a disk takes no message from an older image of it.
//	I2  No member marks its store as an older image unless it is one.

// pedigree is what a disk keeps besides Raft's own state, and, of the same age, what is true of it: the starts
// that it descends from, and what its member has durably met.
type pedigree struct {
	lineage raft.Lineage
	memory  raft.Memory
	starts  []int32   // the numbers, counted over all nodes, of all starts of this disk
	met     []meeting // by node
}

// meeting is the newest start of another disk that was met, and the highest term that it showed.
type meeting struct {
	incarnation raft.Incarnation
	start       int32
	term        raft.Term
}

// begin is one more start of the disk.
func (r *pedigree) begin(c *cluster, nonce uint64) {
	c.starts++
	r.lineage = r.lineage.Begin(nonce)
	r.starts = append(slices.Clip(r.starts), c.starts)
}

// start is the number of the last start; 0 if there was none.
func (r *pedigree) start() int32 {
	if len(r.starts) == 0 {
		return 0
	}
	return r.starts[len(r.starts)-1]
}

func (r pedigree) clone() pedigree {
	r.met, r.starts = slices.Clone(r.met), slices.Clone(r.starts)
	return r // the rest is never changed in place
}

// hands is what a process has to do with handshakes.
type hands struct {
	memory  raft.Memory // what handshakes are judged by; the disk follows
	keeping bool        // the disk is at it
	keeps   int64       // ends of that which were planned: the last one counts
	mark    *raft.Mark
	admits  [][]int32   // by node: the starts whose messages are taken
	redial  []sim.Time  // by node: not before
	late    []lateHello // by node: to whom it is on its way

	bootstrap raft.Bootstrap // of the disk's entry 1, which has the hash first
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
}

// forgetHands is for another disk in the place of the one before.
func (n *node) forgetHands() {
	n.hands.admits, n.hands.redial = make([][]int32, len(n.c.nodes)), make([]sim.Time, len(n.c.nodes))
	if len(n.disk.met) == 0 {
		n.disk.met = make([]meeting, len(n.c.nodes))
	}
}

// takes reports whether messages of that start of a node are taken here. If not, and if both live, they shake
// hands; what was sent before that is lost.
func (n *node) takes(from *node, start int32) bool {
	if !n.c.profile.Node.Handshakes || slices.Contains(n.hands.admits[from.index], start) {
		return true
	}
	if from.core != nil && from.disk.start() == start {
		from.shake(n)
	}
	return false
}

// shake dials another node, but not at every message.
func (n *node) shake(to *node) {
	if c := n.c; c.now() >= n.hands.redial[to.index] {
		n.hands.redial[to.index] = c.now() + c.profile.ElectionTimeout/15
		c.shake(n, to)
	}
}

// shake is a handshake: the acceptor judges the caller first, and answers once its memory is durable.
func (c *cluster) shake(caller, acceptor *node) {
	links := c.net.Links
	if caller.core == nil || acceptor.core == nil || caller.frozen || acceptor.frozen ||
		!links.Up(caller.index, acceptor.index) || !links.Up(acceptor.index, caller.index) {
		return
	}
	if acceptor.judges(caller) {
		caller.judges(acceptor)
	}
}

// judges reports whether a node admits another one, as it is at this moment.
func (n *node) judges(peer *node) bool {
	hello := peer.handshake(peer.disk.memory).Hello(n.id, 0)
	heard := n.hears(peer, &hello, false)
	n.hearsLate(peer, &hello)
	if !heard || n.disk.memory.SeenOf(peer.peer()).Start != peer.disk.lineage.Last() {
		return false // or it is not durable yet
	}
	n.admit(peer)
	return true
}

// hears takes a Hello of another node, and does what follows from it; late: that has said another one since.
func (n *node) hears(peer *node, hello *raft.Hello, late bool) bool {
	h := n.handshake(n.hands.memory)
	verdict := h.Judge(*hello)
	n.c.check.judged(n, h, hello, &verdict)
	n.marked(verdict.Mark)
	if r := verdict.Rejection; r != nil {
		n.c.stats.Refusals++
		peer.marked(peer.handshake(peer.hands.memory).Told(*r))
	}
	if !late {
		n.c.check.told(n, peer)
		n.c.check.told(peer, n)
	}
	if verdict.Memory != nil {
		n.hands.memory = *verdict.Memory
		n.keep()
	}
	return verdict.Rejection == nil
}

func (n *node) handshake(memory raft.Memory) *raft.Handshake {
	h := &raft.Handshake{
		Self: n.peer(), ClusterName: "simulated", Term: n.disk.hard.Term, Lineage: n.disk.lineage, Memory: memory,
	}
	if len(n.disk.log) > 0 {
		if first := n.disk.log[0].hash; n.hands.first != first { // to decode it each time takes long
			n.hands.first = first
			n.hands.bootstrap, _ = n.disk.bootstrap()
		}
		h.Cluster, h.Bootstrapper, h.Config = n.hands.bootstrap.Cluster, n.hands.bootstrap.Bootstrapper, n.hands.bootstrap.Configuration
	}
	return h
}

// untold reports whether a node refuses another one for good because it cannot tell whether that one's disk is
// an older image: it has been started too often since they last met.
func (n *node) untold(peer *node) bool {
	if !n.c.profile.Node.Handshakes || n == peer || n.disk.lineage == nil || peer.disk.lineage == nil {
		return false
	}
	r := n.handshake(n.disk.memory).Judge(peer.handshake(peer.disk.memory).Hello(n.id, 0)).Rejection
	return r != nil && r.Reason == raft.RejectUnknownStart
}

// keep gives the disk the memory to write.
func (n *node) keep() {
	if !n.hands.keeping {
		n.hands.keeping = true
		n.endKeepingIn(n.disk.took(n))
	}
}

// endKeepingIn plans, or plans anew, when the disk has kept the memory.
func (n *node) endKeepingIn(d sim.Time) {
	n.hands.keeps++
	n.later(d, event{kind: evKept, a: n.hands.keeps})
}

// kept ends such a write: what it was given is durable, and those who wait for it are admitted.
func (n *node) kept() {
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

// condemned ends a node whose mark is durable: it never starts again.
func (n *node) condemned(m *raft.Mark) {
	n.c.holds(n.disk.epoch > 0, "I2", "%s marks its store, which never was an older image: %s", n.id, m.Detail)
	n.c.stats.Marked++
	n.c.faulted("%s ends for good: %v", n.id, m.Err())
	n.disk.damaged = true
	n.crash()
}

// admit takes the messages of a start from now on.
func (n *node) admit(peer *node) {
	start := peer.disk.start()
	n.c.holds(!peer.isOld(n), "I1", "%s admits %s, and has durably met a later life of its disk", n.id, peer.id)
	// The start is durable here; a term that this very handshake has shown may not be yet.
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

// admits reports whether a node takes the messages of another one's present start.
func (n *node) admits(peer *node) bool {
	return slices.Contains(n.hands.admits[peer.index], peer.disk.start())
}

// isOld reports whether a node's disk has gone back behind what another node has durably met of it.
func (n *node) isOld(by *node) bool {
	m := by.disk.met[n.index]
	if m.start == 0 || m.incarnation != n.disk.incarnation {
		return false
	}
	return !slices.Contains(n.disk.starts, m.start) || n.disk.hard.Term < m.term
}

// beyondPromise ends a run in which a member that has seen nothing newer takes an older image for what it was:
// that cannot be noticed at that moment, and what was acknowledged may be lost from here on.
func (c *cluster) beyondPromise(n, peer *node) {
	c.stats.Beyond++
	c.stats.Excuse = "an older image of " + string(peer.id) + " met " + string(n.id) + ", which has seen nothing newer"
	c.record(Record{Kind: "fault", Text: c.stats.Excuse})
	c.phase = ended
}
