package fuzzy

import (
	"math/bits"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/sim"
)

// image is a copy of a disk.
type image struct {
	pedigree
	incarnation raft.Incarnation
	hard        raft.HardState
	snapshot    raft.Snapshot
	files       *crashdisk.Tree
	base        raft.Base
	log         []slot
	commit      raft.Index
	saved       saved
	segments    segmented
}

func (d *disk) image() image {
	return image{
		d.pedigree.clone(), d.incarnation, d.hard, d.snapshot, d.files.tree.Clone(), d.base, slices.Clone(d.log), d.commit,
		d.saved.clone(), d.segments.copied(),
	}
}

// restore replaces the disk, or only its log, by an image. It keeps the former contents as a ghost, because the
// acknowledgements for these contents were true.
func (d *disk) restore(i image, whole bool) {
	same := d.hard == i.hard && len(d.log) == len(i.log)
	for k := 0; same && k < len(i.log); k++ {
		same = d.log[k].hash == i.log[k].hash
	}
	d.ghosts = append(d.ghosts, ghost{d.incarnation, d.log})
	d.snapshot, d.files.tree = i.snapshot, i.files
	d.files.cut()
	d.files.roomAgain() // the image is written to a disk that has room
	d.base, d.log, d.commit, d.epoch = i.base, i.log, i.commit, d.epoch+1
	d.segments.putBack(i.segments)
	if at := d.saved.applied.Index; whole || at > raft.Index(len(d.log)) || at > 0 && d.log[at-1].entry.ID() != d.saved.applied { // another log is refused
		d.saved = i.saved
	}
	if !whole {
		d.lie(d.ghosts[len(d.ghosts)-1].log)
		return
	}
	d.pedigree, d.hard = i.pedigree, i.hard
	d.startCount, d.lossy = d.lineage.Last().Count, d.lossy || !same
}

// lie records the first synced entry that the disk has lost.
func (d *disk) lie(before []slot) {
	for i := range before {
		if h, there := at(d.log, raft.Index(i+1)); !there || h != before[i].hash {
			d.lies = append(d.lies, lie{raft.Index(i + 1), before[i].hash, configured(before)})
			return
		}
	}
}

// forgot reports whether the disk has lost anything through an image.
func (d *disk) forgot() bool { return d.lossy || len(d.lies) > 0 }

// imaging is an injection of Image. First a disk is copied, and its node may be restarted. Then some of the other nodes are
// cut off, while the rest continues. These nodes may or may not have seen the new start. Finally the copy replaces the disk,
// and the rest crashes.
type imaging struct {
	node   int
	copied image
	apart  uint64   // the nodes that are cut off
	until  sim.Time // lastAlone: when it happens at the latest

	forgets forgetting
}

// forgetting is the part of its contents that a disk loses when it returns to an earlier state.
type forgetting int

const (
	wholeDisk  forgetting = iota // everything: it is an older image of the whole disk
	logAlone                     // the log: term, vote, starts and memory stay
	logAtOnce                    // the log; nobody is cut off or crashes meanwhile, so that the leader notices
	logUnheard                   // the log; the member cannot write its mark, and its leader has no other follower
	lastAlone                    // the last entry that was acknowledged, or what lies beside it, while the leader runs
)

// crowds is the mean number of images per image that comes with a crowd of strangers.
const crowds = 8

// The stages of an imaging.
const (
	imageApart int64 = iota
	imageBack
	imageEdge
)

// copyDisk is the first stage. It stays within the budget of disks that may be lost.
func (m *nemesis) copyDisk(c *cluster, n *node) {
	restarts := sim.Pick(m.random, 0, 1, 1, 1, 1, 2, 3, 63, 64, 65, 70)
	victim, wait := c.nodes[n.index%c.profile.Voters], m.random.Exponential(4*c.profile.ElectionTimeout)
	forgets := sim.Pick(m.random, wholeDisk, wholeDisk, wholeDisk, logAlone, logAtOnce, logUnheard, lastAlone, lastAlone, lastAlone)
	if !c.profile.Node.Handshakes {
		forgets = lastAlone // nothing else would be found out
	}
	if forgets == lastAlone && victim.index == c.leader() {
		victim = c.nodes[(victim.index+1)%c.profile.Voters]
	}
	if forgets == lastAlone && c.profile.Segments.On {
		forgets = logAtOnce
	}
	if m.image != nil || victim.core == nil || victim.disk.segments.ahead || victim.disk.hard.Term == 0 || !m.mayLose(c, victim) {
		return
	}
	m.image = &imaging{node: victim.index, copied: victim.disk.image(), forgets: forgets}
	if crowded := c.nodes[m.random.IntN(c.profile.Voters)]; crowded.core != nil && m.random.IntN(crowds) == 0 {
		crowded.crowd(strangersMax)
	}
	switch m.image.forgets {
	case lastAlone:
		m.image.until = c.now() + wait + 4*c.profile.ElectionTimeout
		c.queue.Push(c.now()+1, event{kind: evImage, node: m.index, a: imageEdge})
		return
	case logAtOnce, logUnheard:
		c.queue.Push(c.now()+wait, event{kind: evImage, node: m.index, a: imageBack})
		return
	}
	if restarts > 0 {
		victim.crash()
		victim.disk.restarts(c, restarts-1)
		victim.restartIn(m.random.Exponential(c.profile.ElectionTimeout))
	}
	c.queue.Push(c.now()+wait, event{kind: evImage, node: m.index, a: imageApart})
}

// restarts adds starts to the disk's lineage that no other member sees.
func (d *disk) restarts(c *cluster, count int) {
	for range count {
		d.begin(c, d.hands.Uint64())
	}
	d.startCount = d.lineage.Last().Count
}

// stage runs the next stage of an imaging.
func (m *nemesis) stage(c *cluster, stage int64) {
	i := m.image
	if i == nil || c.phase != safetyPhase {
		return
	}
	n := c.nodes[i.node]
	if n.disk.damaged || n.disk.files.spoiled || n.disk.incarnation != i.copied.incarnation {
		m.image = nil
		return
	}
	switch stage {
	case imageEdge:
		m.loseEdge(c, n)
		return
	case imageApart:
		m.setApart(c)
		c.queue.Push(c.now()+m.random.Exponential(8*c.profile.ElectionTimeout), event{kind: evImage, node: m.index, a: imageBack})
		return
	}
	m.image = nil
	m.putBack(c, n, i)
}

// edges is how often a nemesis looks for the edge of a log, in an election timeout.
const edges = 60

// loseEdge waits, for a limited time, until the leader's log begins at the entry that a follower has acknowledged last, or at
// the one before. Then it ends the follower's process, and cuts the follower's log at this edge.
func (m *nemesis) loseEdge(c *cluster, n *node) {
	i, d := m.image, &n.disk
	match, base := c.edge(n)
	if c.now() < i.until && (match == 0 || c.profile.Snapshots.On && base+1 < match) {
		c.queue.Push(c.now()+c.profile.ElectionTimeout/edges, event{kind: evImage, node: m.index, a: imageEdge})
		return
	}
	to := match - 1 + sim.Pick[raft.Index](m.random, 0, 0, 0, 1, 2)
	if m.image = nil; match == 0 {
		return
	}
	n.crash()
	if to < max(d.base.ID.Index, d.snapshot.ID.Index, d.saved.applied.Index, 1) || to >= raft.Index(len(d.log)) {
		n.restartIn(0)
		return
	}
	i.copied = d.image()
	i.copied.log, i.copied.commit = i.copied.log[:to], min(d.commit, to)
	c.stats.Edges++
	m.putBack(c, n, i)
}

// edge returns the last entry that a follower has acknowledged to its leader, and the base of the leader's log.
func (c *cluster) edge(n *node) (match, base raft.Index) {
	if l := c.leader(); l >= 0 && l != n.index {
		return c.nodes[l].progressOf(n).Match, c.nodes[l].status.Base.Index
	}
	return 0, 0
}

// setApart chooses as many other members as a majority can spare. Usually it cuts them off.
func (m *nemesis) setApart(c *cluster) {
	order, cut := m.order(c.profile.Voters), m.random.IntN(4) > 0
	for _, k := range order {
		if k != m.image.node && bits.OnesCount64(m.image.apart) < (c.profile.Voters-1)/2 {
			m.image.apart |= 1 << k
		}
	}
	if cut {
		c.net.Links.Heal(sim.Partitions)
		c.net.Links.Split(m.image.apart, sim.BothWays)
		c.faulted("image: %s", c.severed())
	}
}

// putBack replaces the disk by the copy. Usually it does so while the members that were cut off need the disk's vote.
func (m *nemesis) putBack(c *cluster, n *node, i *imaging) {
	restarts := sim.Pick(m.random, 0, 0, 1, 3, c.reachesBack(n, i)-1, c.reachesBack(n, i), c.reachesBack(n, i)+1)
	kill, heal := m.random.IntN(4) > 0, m.random.IntN(4) > 0
	wait, timeout, leader := m.random.Exponential(c.profile.ElectionTimeout), c.profile.ElectionTimeout, -1
	if i.forgets >= logAtOnce {
		kill, heal, restarts = i.forgets == logUnheard, false, 0
		if wait /= 4; i.forgets == lastAlone {
			wait *= sim.Pick[sim.Time](m.random, 1, 16) // the leader may compact what is lacking meanwhile
		}
		leader = c.leader()
	}
	n.crash()
	for _, other := range c.nodes {
		if kill && other != n && other.index != leader && i.apart>>other.index&1 == 0 {
			other.crash()
			other.restartIn(4*timeout + m.random.Exponential(m.rate.For))
		}
	}
	if heal {
		c.net.Links.Heal(sim.Partitions)
	}
	n.disk.restore(i.copied, i.forgets == wholeDisk)
	n.disk.restarts(c, restarts)
	n.forgetHands()
	if i.forgets == logUnheard {
		n.disk.stallTill = c.now() + 4*timeout
	}
	c.stats.Images++
	c.faulted("an older image of the disk of %s is put back: %s", n.name(), n.disk.describe())
	n.restartIn(wait)
	if i.forgets >= logAtOnce {
		m.aggravate(c, n, wait, leader)
	}
}

// reachesBack returns after how many further starts of an image, not counting its next one, the lineage begins at the newest
// start that any member has seen of the disk.
func (c *cluster) reachesBack(n *node, i *imaging) int {
	seen := uint64(1)
	for _, other := range c.nodes {
		seen = max(seen, other.disk.memory.SeenOf(n.peer()).Start.Count)
	}
	return max(int(seen+lineageMax-2-i.copied.lineage.Last().Count), 1)
}

// aggravate makes clients read from a member that has lost entries, shortly before its leader notices the loss. Sometimes it
// delays the leader's appends to that member, so that the leader's answers to reads arrive first. Sometimes it stalls the
// leader's disk soon after the loss.
func (m *nemesis) aggravate(c *cluster, n *node, wait sim.Time, leader int) {
	reads, stalls, sticks, timeout := m.random.IntN(60), m.random.Coin(), m.random.Coin(), c.profile.ElectionTimeout
	after, length := m.random.Between(timeout/4, 2*timeout), m.random.Between(2*timeout, 8*timeout)
	c.queue.Push(c.now()+wait+1, event{kind: evAsk, node: int16(n.index), life: n.life, a: int64(reads)})
	if leader < 0 || leader == n.index {
		return
	}
	if l := c.nodes[leader]; sticks && l.core != nil && l.delays.stuck == nil {
		l.stick(n)
	}
	if stalls {
		length += c.profile.Node.diskStallMax()
		c.queue.Push(c.now()+wait+after, event{kind: evStall, node: int16(leader), life: c.nodes[leader].life, a: int64(length)})
	}
}

// retireImages removes all disks that were replaced by an image. It does so before the second phase, because the members may
// not have noticed the replacement.
func (c *cluster) retireImages() {
	for _, n := range c.nodes {
		if n.disk.epoch > 0 && !n.disk.damaged {
			n.crash()
			n.disk.damaged = true
		}
	}
}
