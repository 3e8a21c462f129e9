package fuzzy

import (
	"fmt"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// FaultKind is a class of faults that are injected at random times. sim.NetworkFaults has the faults of single messages.
type FaultKind int

// The kinds.
const (
	Crash FaultKind = iota
	PowerCut
	CrashLoop
	Pause
	Suspend
	Slow
	Partition
	Flap
	Clog
	Reset
	Stall
	DiskFailure
	Wipe
	Rot
	Drift
	Jump
	Usurp // one leader after another is cut off, and each returns when the next is cut off: Figure 8
	Close // a process is told to stop, and ends a little later
	Image // a disk is copied, and later replaced by the copy
	Full  // a disk has little room for snapshots, or none, for a while
	FileFault
	Away // a member is down or cut off until the leader's log begins after the end of its own

	// See faults_members.go.
	Decapitate // the leader dies, closes, pauses or is cut off at a moment of a configuration that it has appended
	Orphan     // the halves of a joint configuration are cut off from each other
	Exile      // a member that is being removed is cut off before it learns that
	Lag        // a member is cut off while further changes are made
	Churn      // the admins ask for changes without a pause
	Move       // see places.go: a member restarts at another address, two change places, or all move
	Hang       // see hangs.go: a state machine hangs, or all do
	Herd       // several members read at once, and their leader's answers come late

	// See news.go.
	Vanish   // a host loses its power, so that no connection breaks
	LateNews // some members hear late that a process has ended
	Lie      // members hear that a process has ended, which lives
	Favorite // the voter with the highest priority crashes

	Retune   // see given.go: a member runs with other limits for a while
	Blackout // see aside.go: the stores of a majority are damaged at once
	faultKinds
)

var faultNames = [faultKinds]string{
	"crash", "power cut", "crash loop", "pause", "suspend", "slow", "partition", "flap", "clog", "reset",
	"stall", "disk failure", "wipe", "rot", "drift", "jump", "usurp", "close", "image", "full", "file fault", "away",
	"decapitate", "orphan", "exile", "lag", "churn", "move", "hang", "herd", "vanish", "late news", "lie", "favorite", "retune", "blackout",
}

func (k FaultKind) String() string { return faultNames[k] }

// MarshalText names the kind in JSON.
func (k FaultKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// nemesis injects one class of faults. Each nemesis has its own random stream, so that the removal of one nemesis does not
// change the others.
type nemesis struct {
	rate       FaultRate
	index      int16
	random     *sim.Stream
	outages    *sim.Outages
	injections int64
	force      int64 // the injection in force: the latest one that was not skipped
	injected   []int // the nodes that it affects
	struck     int   // the node affected by the ambush in force
	image      *imaging
	away       *absence // the running absence; nil: none
}

func newNemeses(c *cluster) []*nemesis {
	var list []*nemesis
	n := len(c.nodes)
	for i, rate := range c.profile.Faults {
		m := &nemesis{rate: rate, index: int16(i)}
		m.random = sim.NewStream(c.seed.Number, sim.PartitionConcern<<8+sim.Concern(rate.Fault))
		if rate.Fault <= Slow {
			var f sim.OutageFaults
			f.Every[rate.Fault], f.For[rate.Fault] = rate.Every, rate.For
			m.outages = sim.NewOutages(c.seed.Number, n, f)[0]
		}
		list = append(list, m)
	}
	return list
}

func (m *nemesis) wait() sim.Time {
	if m.outages != nil {
		return m.outages.Wait()
	}
	return 1 + m.random.Exponential(m.rate.Every)
}

// inject lets a nemesis inject a fault. Only the safety phase has injections.
func (c *cluster) inject(i int) {
	if c.phase != safetyPhase {
		return
	}
	m := c.nemeses[i]
	m.injections++
	c.stats.Injections[m.rate.Fault] = m.injections
	length := 1 + m.random.Exponential(m.rate.For)
	var outage sim.Outage
	if m.outages != nil {
		outage = m.outages.Next() // drawn even if the injection is skipped
	}
	if c.edits.injects(m.rate.Fault, m.injections) {
		if !m.ambushes() { // whose injections are in force once they strike
			m.force = m.injections
		}
		c.stats.Faults++
		c.stats.ByFault[m.rate.Fault]++
		if m.outages != nil {
			c.outage(m, outage)
		} else if m.onOne(c) {
			c.queue.Push(c.now()+length, event{kind: evMend, node: m.index, a: m.force})
		}
	}
	next := m.wait()
	if again := m.random.IntN(4) > 0; again && m.rate.Fault == Usurp {
		next = m.random.Between(c.profile.ElectionTimeout/2, 4*c.profile.ElectionTimeout)
	}
	c.queue.Push(c.now()+next, event{kind: evFault, node: m.index})
}

func (c *cluster) faulted(format string, args ...any) {
	if c.trace != nil {
		c.record(Record{Kind: "fault", Text: fmt.Sprintf(format, args...)})
	}
}

// outage crashes processes.
func (c *cluster) outage(m *nemesis, o sim.Outage) {
	c.faulted("%v of %s for %v", o.Kind, c.names(o.Nodes), time.Duration(o.For).Round(time.Millisecond))
	for _, n := range c.nodes {
		if o.Nodes>>n.index&1 == 0 || n.core == nil {
			continue
		}
		switch o.Kind {
		case sim.Pause, sim.Suspend:
			if !n.frozen {
				n.freeze(o.Kind == sim.Suspend)
				n.delays.dozes = c.profile.Node.Dozes
				length := o.For
				if most := c.profile.Node.PauseMax; most > 0 {
					length = min(length, most)
				}
				n.later(length, event{kind: evResume})
			}
		case sim.Slow:
			n.slow = m.random.Exponential(c.profile.ElectionTimeout / 20)
			m.injected = append(m.injected[:0], n.index)
			c.queue.Push(c.now()+o.For, event{kind: evMend, node: m.index, a: m.force})
		default:
			n.deadFor, n.loops = o.For, o.Again
			if n.dieAfter = o.Effects; o.Effects == 0 {
				n.crash()
				n.restartIn(o.For)
			}
		}
	}
}

// onOne injects a fault into one node. It reports whether the fault must be mended later.
func (m *nemesis) onOne(c *cluster) bool {
	n := c.nodes[m.random.IntN(len(c.nodes))]
	other := c.nodes[m.random.IntN(len(c.nodes))]
	if m.rate.Fault != Partition && m.rate.Fault != Usurp && (m.rate.Fault < Decapitate || m.rate.Fault == Churn || m.rate.Fault == Hang || m.rate.Fault == Herd || m.rate.Fault == Retune) { // these record what they cut
		c.faulted("%v at %s", m.rate.Fault, n.name())
	}
	m.injected = append(m.injected[:0], n.index)
	switch m.rate.Fault {
	case Partition:
		m.partition(c, n.index)
		c.faulted("partition: %s", c.severed())
		return true
	case Usurp:
		m.usurp(c, n.index)
		c.faulted("usurp: %s", c.severed())
		return true
	case Flap:
		if n != other {
			m.injected = append(m.injected, other.index)
			c.queue.Push(c.now(), event{kind: evFlip, node: m.index, a: m.force})
		}
		return true
	case Clog:
		c.net.Clog(n.index, other.index, c.now()+m.random.Exponential(m.rate.For))
	case Reset:
		if n == other {
			break
		}
		if m.random.IntN(4) == 0 {
			c.net.Break(n.index, other.index, int(raft.LaneSnapshot))
		} else {
			c.reset(n.index, other.index)
		}
	case Stall:
		n.disk.stallTill = c.now() + m.random.Exponential(m.rate.For)
	case DiskFailure:
		n.disk.fails = true
	case Wipe, Rot, Blackout:
		m.lose(c, n)
	case Close:
		n.close(1+m.random.Exponential(c.profile.ElectionTimeout/2), m.random.Exponential(m.rate.For))
	case Image:
		m.copyDisk(c, n)
	case Full:
		m.fill(c, n)
	case FileFault:
		m.spoilFile(c, n)
	case Away:
		m.sendAway(c, n)
	case Decapitate, Orphan, Exile, Lag:
		m.beginAmbush(c)
	case Churn:
		c.admins.hurry(c.now() + 1 + m.random.Exponential(m.rate.For))
	case Move:
		return m.move(c, n, other)
	case Hang:
		m.hang(c, n)
	case Herd:
		m.herd(c)
	case Vanish, LateNews, Lie, Favorite:
		m.misinform(c, n)
	case Retune:
		m.retune(c, n)
		return true
	case Drift, Jump:
		return m.setClock(c, n)
	}
	return false
}

// setClock makes a node's clock run too fast or too slowly, or sets it. It reports whether that must be mended.
func (m *nemesis) setClock(c *cluster, n *node) bool {
	if m.rate.Fault == Drift {
		most := 100_000
		if c.profile.Leases.Duration > 0 {
			most = driftBound
		}
		n.clock.SetDrift(c.now(), int64(m.random.IntN(2*most)-most))
		return true
	}
	n.clock.Jump(int64(m.random.Between(0, sim.In(7200e9)-1) - sim.In(3600e9)))
	return false
}

// close requests a process to stop. The process exits after a delay, and restarts after another delay.
func (n *node) close(in, down sim.Time) {
	if n.core == nil || n.closing {
		return
	}
	n.closing = true
	n.c.work.release(n)
	n.post(raft.Closing{})
	n.later(in, event{kind: evExit, a: int64(down)})
}

// lose empties a disk or damages it permanently. At most a minority of the voters may lose their disks. Some runs exceed that
// budget, but even then one voter keeps its disk: without any disk, the cluster could only be bootstrapped again.
func (m *nemesis) lose(c *cluster, n *node) {
	if m.rate.Fault == Blackout {
		m.blackout(c)
		return
	}
	if !m.mayLose(c, n) {
		return
	}
	n.crash()
	if m.rate.Fault == Rot {
		n.disk.damaged = true
		return
	}
	n.empty()
	n.restartIn(m.random.Exponential(m.rate.For))
}

func (m *nemesis) mayLose(c *cluster, n *node) bool {
	if !n.keepsOne() || m.rate.Fault == Rot && c.profile.Members.Pace > 0 && c.newestCommitted() == nil {
		return false
	}
	if c.profile.Members.on() && c.newestCommitted() != nil {
		return !n.disk.damaged && !n.disk.files.spoiled && (c.profile.Beyond || c.spares(n))
	}
	lost := 0
	for _, other := range c.nodes[:c.profile.Voters] {
		if other.disk.spoiled() {
			lost++
		}
	}
	budget := (c.profile.Voters - 1) / 2
	if c.profile.Beyond {
		budget = c.profile.Voters - 1
	}
	return lost < budget && !n.disk.spoiled()
}

// partition cuts links in one of many ways.
func (m *nemesis) partition(c *cluster, node int) {
	links, n := c.net.Links, len(c.nodes)
	links.Heal(sim.Partitions)
	leader, other := c.leader(), (node+1+m.random.IntN(max(n-1, 1)))%n
	shape, some, chance := m.random.IntN(10), m.random.Uint64(), m.random.LogUniform(50_000, 700_000)
	if leader < 0 {
		leader = other
	}
	switch shape {
	case 0:
		links.Split(some, sim.BothWays)
	case 1:
		links.Split(1<<node, sim.Direction(some%3))
	case 2:
		links.Split(1<<leader, sim.Direction(some%3))
	case 3:
		links.Split(1<<leader|1<<node, sim.Direction(some%3))
	case 4:
		links.Split(some, sim.Direction(some>>60%3))
	case 5:
		links.Thin(m.random, chance, some&1 == 0)
	case 6:
		links.Bridge(node)
	case 7:
		links.ConstrainedElection(leader, c.laggard(leader))
	case 8:
		links.Chain(m.order(n))
	case 9:
		links.BehindBridge(leader, other)
	}
}

// usurp cuts the leader off. Sometimes one follower stays with the leader, and sometimes only one direction is cut.
func (m *nemesis) usurp(c *cluster, node int) {
	alone, direction := m.random.IntN(3) > 0, sim.Direction(m.random.IntN(8))
	leader := c.leader()
	if leader < 0 {
		return // its election is still in progress, so the former leader stays cut off
	}
	side := uint64(1) << leader
	if !alone {
		side |= 1 << node
	}
	if direction > sim.Inward {
		direction = sim.BothWays
	}
	c.net.Links.Heal(sim.Partitions)
	c.net.Links.Split(side, direction)
}

func (m *nemesis) order(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := m.random.IntN(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}

// mend ends the effect of an injection. It does nothing if a later injection has replaced this one, or if the effect has
// become permanent.
func (m *nemesis) mend(c *cluster, injection int64) {
	if injection != m.force || c.phase != safetyPhase {
		return
	}
	n := c.nodes[m.injected[0]]
	c.faulted("%v ends", m.rate.Fault)
	switch m.rate.Fault {
	case Partition, Usurp, Orphan, Decapitate:
		c.net.Links.Heal(sim.Partitions)
	case Exile, Lag:
		c.isolate(c.nodes[m.struck], false)
	case Flap:
		m.injected = m.injected[:1]
		c.net.Links.Heal(sim.Flaps)
	case Slow:
		n.slow = 0
	case Move:
		n.tellPlaces()
	case Retune:
		n.healLimits()
	case Drift:
		n.clock.SetDrift(c.now(), 0)
	}
}

// flip cuts or mends a flapping link. A link that still flaps in the second phase flaps until the end of the run.
func (c *cluster) flip(e event) {
	m := c.nemeses[e.node]
	if e.a != m.force || len(m.injected) < 2 {
		return
	}
	a, b := m.injected[0], m.injected[1]
	if c.live != nil && (c.live.core>>a)&(c.live.core>>b)&1 == 1 {
		return
	}
	if c.net.Links.Up(a, b) {
		c.net.Links.CutBoth(sim.Flaps, a, b)
	} else {
		c.net.Links.Mend(sim.Flaps, a, b)
		c.net.Links.Mend(sim.Flaps, b, a)
	}
	timeout := c.profile.ElectionTimeout
	period := sim.Pick(m.random, timeout/3, timeout, 2*timeout)
	c.queue.Push(c.now()+m.random.Between(period/2, period), e)
}

// leader returns the index of the leader of the newest term, or -1.
func (c *cluster) leader() int {
	found := -1
	for _, n := range c.nodes {
		if n.leads() && (found < 0 || n.status.Term > c.nodes[found].status.Term) {
			found = n.index
		}
	}
	return found
}

// laggard returns the index of the node with the shortest durable log, other than the leader.
func (c *cluster) laggard(leader int) int {
	found := -1
	for _, n := range c.nodes {
		if n.index != leader && (found < 0 || len(n.disk.log) < len(c.nodes[found].disk.log)) {
			found = n.index
		}
	}
	return max(found, 0)
}
