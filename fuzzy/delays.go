package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// delays holds the delays in the host of a core: in the writer's goroutine, in the connections for entries, and in the
// process as a whole. They draw from their own random stream.
type delays struct {
	random *sim.Stream
	idle   bool           // the writer has not taken what is queued yet
	stuck  *node          // the peer whose connection for entries accepts nothing; nil: none
	held   []raft.Message // the messages that wait for that connection
	dozes  int            // how many more times the process will pause
}

// drawCarries gives every other member a small limit of bytes per append. The limit is below the size of the largest
// commands.
func drawCarries(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<40)
	some, bytes := s.IntN(4) == 0, s.LogUniform(300, 3000)
	if some && p.World.quiet() && slices.Contains([]string{"swarm", "alone", "snapshots", "durable", "members"}, p.Name) {
		p.Node.Connections, p.Node.Carries, p.Load.BytesMax = true, bytes, 5000
	}
}

// drawRare draws settings that were added to the profiles later. It uses its own stream, so that a new draw here leaves the
// earlier draws unchanged.
func drawRare(seed Seed, p *Profile) {
	s, n, timeout := sim.NewStream(seed.Number, sim.Profile<<8), &p.Node, p.ElectionTimeout
	lateWrite, stuck := s.LogUniform(50_000, 500_000)*s.IntN(2), s.LogUniform(500, 20_000)*s.IntN(2)
	rare, long, strays := s.IntN(16), s.LogTime(20*timeout, 60*timeout), s.LogUniform(10_000, 100_000)
	lateWait := s.LogTime(timeout/30, timeout)
	batches := sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(timeout/30, timeout/2)}
	if p.Name != "calm" {
		n.LateWrite, n.LateWait = lateWrite, lateWait/4
	}
	switch p.Name {
	case "swarm", "history":
		n.Stuck = stuck
	case "elections":
		if n.Stuck = stuck; p.Voters == 2 { // the follower cannot win, so the same leader is elected again
			n.Stuck = 30_000
		}
	case "alone":
		n.Stuck = stuck
		if rare < 2 { // a member hears its leader but is not heard, for longer than a read may be retried
			p.Faults = []FaultRate{{Partition, long, long}}
			p.Length = max(p.Length, 3*long)
		}
	case "bootstrap":
		if rare == 0 && n.OtherLists == 0 && p.Voters > 1 {
			n.EmptiedAt, n.Handshakes = 1+s.IntN(p.Voters-1), true
		}
	case "slow":
		if rare < 8 {
			n.Dozes = 8
		}
	case "images":
		if rare < 8 {
			n.StepDelay = batches
		}
		if rare >= 6 { // what a member writes when it hears a leader waits for the mark that it writes then
			n.LateWrite, n.LateWait = sim.Million, lateWait
		}
		if rare%4 == 0 {
			p.Network.Misdeliver = strays
		}
	}
}

// beginWrite makes the writer take the queued writes. The writer takes them at once or, because a goroutine may run late,
// together with the writes that the loop queues meanwhile.
func (n *node) beginWrite() {
	late := n.c.profile.Node.LateWrite
	switch {
	case n.delays.idle:
	case late == 0 || n.writing > 0 || n.disk.healed || !n.delays.random.Chance(late):
		n.work()
	default:
		n.delays.idle = true
		n.later(n.delays.random.Exponential(n.c.profile.Node.LateWait), event{kind: evWork})
	}
}

// holdsBack reports whether a message waits for a stuck connection.
func (n *node) holdsBack(m raft.Message) bool {
	chance, d := n.c.profile.Node.Stuck, &n.delays
	if chance == 0 && d.stuck == nil || m.Lane() == raft.LaneUrgent || n.disk.healed {
		return false
	}
	to := n.c.at(m.To)
	if d.stuck == nil && d.random.Chance(chance) {
		n.stick(to)
	}
	if d.stuck != to {
		return false
	}
	if len(d.held) >= outboxMax {
		n.dropped(m, nil)
		return true
	}
	d.held = append(d.held, m)
	return true
}

// stick makes the connection for entries to a peer accept nothing for a while.
func (n *node) stick(to *node) {
	n.delays.stuck = to
	n.later(n.delays.random.Exponential(4*n.c.profile.ElectionTimeout), event{kind: evUnstick})
}

// unstick delivers the messages that waited for the stuck connection.
func (n *node) unstick() {
	held := n.delays.held
	n.delays.stuck, n.delays.held = nil, nil
	if len(held) > 0 && n.core != nil {
		n.deliver(held)
	}
}

// doze makes a process that has just resumed pause again soon, as on a machine that swaps.
func (n *node) doze() {
	d, timeout := &n.delays, n.c.profile.ElectionTimeout
	if d.dozes == 0 || n.core == nil || n.disk.healed {
		return
	}
	d.dozes--
	n.later(d.random.Between(timeout/10, timeout), event{kind: evDoze})
}

// fallAsleep pauses a dozing process.
func (n *node) fallAsleep() {
	timeout := n.c.profile.ElectionTimeout
	if n.disk.healed {
		return
	}
	n.freeze(false)
	n.later(n.delays.random.Between(timeout, 3*timeout), event{kind: evResume})
}

// asks makes a client read from the member now, and left-1 more times later.
func (n *node) asks(left int64) {
	if left == 0 {
		return
	}
	n.c.work.read(n, 0, 0)
	n.later(n.delays.random.Exponential(n.c.profile.ElectionTimeout/15), event{kind: evAsk, a: left - 1})
}

// herd makes two or three members read at the same time, so that their leader joins the reads into one round. The answers of
// the round, or those to the members, come late. Sometimes one of the members restarts meanwhile and reads again.
func (m *nemesis) herd(c *cluster) {
	leader, count, length := c.leader(), m.random.IntN(2), 1+m.random.Exponential(m.rate.For)
	for i, k := range m.order(len(c.nodes)) {
		n := c.nodes[k]
		if leader < 0 || k == leader || n.core == nil {
			continue
		}
		n.asks(int64(1 + m.random.IntN(4)))
		switch m.random.IntN(4) {
		case 0:
			c.net.Clog(leader, k, c.now()+length)
		case 1:
			c.net.Clog(k, leader, c.now()+length)
		case 2:
			n.later(m.random.Exponential(c.profile.ElectionTimeout/15), event{kind: evExit, a: 1})
			c.queue.Push(c.now()+c.profile.ElectionTimeout, event{kind: evAsk, node: int16(k), life: n.life + 1, a: 4})
		}
		if i > count {
			break
		}
	}
}

// stall stalls the disk of a leader that has found another member stale: that member cannot take over.
func (n *node) stall(length sim.Time) {
	if n.disk.healed || !slices.ContainsFunc(n.status.Peers, func(p raft.PeerProgress) bool { return p.State == "stale" }) {
		return
	}
	n.c.faulted("%v at %s", Stall, n.name())
	n.disk.stallTill = max(n.disk.stallTill, n.c.now()+length)
}

// emptyBootstrapper empties the bootstrapper's disk once enough other members hold entry 1. The profile sets this number of
// members. It does nothing if any member already has a term.
func (c *cluster) emptyBootstrapper() {
	holders := 0
	for _, n := range c.nodes {
		if n.disk.hard.Term > 0 {
			c.profile.Node.EmptiedAt = 0
			return
		}
		if n.index > 0 && len(n.disk.log) > 0 {
			holders++
		}
	}
	n := c.nodes[0]
	if holders < c.profile.Node.EmptiedAt || n.disk.damaged || c.phase != safetyPhase {
		return
	}
	c.profile.Node.EmptiedAt = 0
	c.faulted("%v at %s", Wipe, n.name())
	c.stats.Faults++
	c.stats.ByFault[Wipe]++
	n.crash()
	n.disk.wipe()
	n.forgetHands()
	n.restartIn(n.delays.random.Exponential(c.profile.ElectionTimeout))
}

// pauseFor pauses the process for d.
func (n *node) pauseFor(d sim.Time) {
	n.freeze(false)
	n.later(d, event{kind: evResume})
}

// freeze stops the process. If the machine is suspended, freeze also stops its clock.
func (n *node) freeze(clockToo bool) {
	n.frozen = true
	if clockToo {
		n.clock.Stop(n.c.now())
	}
}

func (n *node) thaw() {
	if n.frozen {
		n.frozen, n.stepping, n.armed = false, false, 0
		n.clock.Resume(n.c.now())
	}
}

// resume lets a frozen process continue.
func (n *node) resume() {
	if !n.frozen || n.forever {
		return
	}
	n.thaw()
	n.seen.cause = n.now().Mono // its vote may have become durable meanwhile, unknown to it
	deferred := n.deferred
	n.deferred = nil
	for _, e := range deferred {
		n.handle(e)
	}
	if n.core != nil {
		n.poke()
		n.arm()
		n.doze()
	}
}

// impatient reports whether a member's election timeout is so much shorter than the leader's that it may end between two of
// the leader's heartbeats. Several such members can elect another leader.
func (c *cluster) impatient(leader *node) bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.core != nil && 3*n.timeout() < leader.timeout() })
}
