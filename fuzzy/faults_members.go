package fuzzy

import (
	"math/bits"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the faults during changes of the members. Each injection waits for a certain moment of a change.

// moment is a point in the life of a configuration on the leader that appends it.
type moment int

const (
	configAppended  moment = iota // the step that appends it has ended, with no visible effect yet
	configPersisted               // it is on the leader's disk
	configSent                    // the first append with it has left
	configCommitted               // the leader knows it to be committed
	moments
)

// ambush is an injection that waits for a moment.
type ambush struct {
	m      *nemesis
	moment moment
	skip   int // number of such moments that pass before the injection
}

// await makes an injection wait for a moment. The injection replaces an earlier one of its class that still waits.
func (m *nemesis) await(c *cluster, at moment, skip int) {
	c.ambushes = slices.DeleteFunc(c.ambushes, func(a *ambush) bool { return a.m == m })
	c.ambushes = append(c.ambushes, &ambush{m, at, skip})
}

// reaches is called at each moment of a configuration l. n is the leader that has appended l.
func (c *cluster) reaches(n *node, at moment, l *loggedConfig) {
	c.lulls.reached()
	for i := 0; i < len(c.ambushes) && !c.lulls.resting() && c.phase == safetyPhase; i++ {
		a := c.ambushes[i]
		if a.moment != at || l.before == nil {
			continue
		}
		if a.skip--; a.skip >= 0 {
			continue
		}
		if a.m.injectAt(c, n, l) {
			c.ambushes = slices.DeleteFunc(c.ambushes, func(b *ambush) bool { return b == a })
			i--
		}
	}
}

// beginAmbush begins an injection of one of these classes.
func (m *nemesis) beginAmbush(c *cluster) {
	at, skip := moment(m.random.IntN(int(moments))), m.random.IntN(3)
	switch m.rate.Fault {
	case Orphan, Exile:
		at = configAppended
	case Lag:
		at = configCommitted
	}
	m.await(c, at, skip)
}

// injectAt injects the fault, unless the configuration does not suit it.
func (m *nemesis) injectAt(c *cluster, n *node, l *loggedConfig) bool {
	how, after, length := m.random.IntN(4), 1+m.random.IntN(4), 1+m.random.Exponential(m.rate.For)
	switch m.rate.Fault {
	case Decapitate:
		c.faulted("decapitate: %s at the configuration of entry %d", n.name(), l.index)
		m.stopLeader(c, n, how, after, length)
	case Orphan:
		if len(l.Outgoing) == 0 {
			return false
		}
		m.part(c, l, how)
		c.faulted("orphan: %s", c.severed())
		m.mendIn(c, length, n.index)
	case Exile:
		gone := m.leaving(c, l)
		if gone == nil {
			return false
		}
		m.mend(c, m.force)
		c.faulted("exile: %s", gone.name())
		c.isolate(gone, true)
		m.mendIn(c, length, gone.index)
	case Lag:
		late := c.nodes[m.random.IntN(len(c.nodes))]
		if late == n || !includes(&l.Configuration, late.peer()) || bits.OnesCount64(c.net.Links.Reach(late.index)) == 1 {
			return false
		}
		m.mend(c, m.force)
		c.faulted("lag: %s", late.name())
		c.isolate(late, true)
		m.mendIn(c, length, late.index)
	}
	return true
}

// ambushes reports whether the injections of a class wait for a moment of a change.
func (m *nemesis) ambushes() bool {
	return m.rate.Fault >= Decapitate && m.rate.Fault <= Lag
}

// mendIn schedules the end of an ambush for a node. The ambush ends at that time even if the next ambush is already waiting.
func (m *nemesis) mendIn(c *cluster, length sim.Time, node int) {
	m.struck = node
	m.force++
	c.queue.Push(c.now()+length, event{kind: evMend, node: m.index, a: m.force})
}

// stopLeader stops, pauses or cuts off the leader.
func (m *nemesis) stopLeader(c *cluster, n *node, how, after int, length sim.Time) {
	switch how {
	case 0:
		n.deadFor, n.dieAfter = length, after
	case 1:
		if !n.frozen {
			n.later(0, event{kind: evFreeze, a: int64(length)})
		}
	case 2:
		n.close(1+length/8, length)
	default:
		c.net.Links.Split(1<<n.index, sim.BothWays)
		m.mendIn(c, length, n.index)
	}
}

// part cuts a joint configuration apart. It cuts off one of the halves, either the whole half or only the members that are
// not in the other half.
func (m *nemesis) part(c *cluster, l *loggedConfig, how int) {
	incoming, outgoing := c.carriers(votersOf(&l.Configuration)), c.carriers(l.Outgoing)
	c.net.Links.Heal(sim.Partitions)
	switch how {
	case 0:
		c.net.Links.Split(incoming, sim.BothWays)
	case 1:
		c.net.Links.Split(outgoing, sim.BothWays)
	case 2:
		c.net.Links.Split(incoming&^outgoing, sim.BothWays)
	default:
		c.net.Links.Split(outgoing&^incoming, sim.BothWays)
	}
}

// carriers returns the nodes whose disks carry these incarnations.
func (c *cluster) carriers(peers []raft.Peer) (set uint64) {
	for _, p := range peers {
		if n := c.at(p); n.peer() == p {
			set |= 1 << n.index
		}
	}
	return set
}

// leaving returns a node whose member a configuration begins to remove, or has removed.
func (m *nemesis) leaving(c *cluster, l *loggedConfig) *node {
	for _, was := range l.before.Members {
		is := member(&l.Configuration, was.Peer())
		if is == nil || is.Kind == raft.Leaving || is.Next == raft.NextRemoved {
			if n := c.at(was.Peer()); n.peer() == was.Peer() && n.core != nil {
				return n
			}
		}
	}
	return nil
}

// momentsOf reports the moments that a configuration has reached in a step of its leader.
func (n *node) momentsOf(before *raft.CoreStatus) {
	if n.status.Role != raft.Leader {
		return
	}
	if l := configured(n.log); l != n.configBefore {
		n.c.reaches(n, configAppended, l)
	}
	if i := n.status.ConfigCommitted; i > before.ConfigCommitted {
		n.c.reaches(n, configCommitted, n.log[i-1].config)
	}
}
