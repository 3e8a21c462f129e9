package fuzzy

import (
	"slices"

	"github.com/coxswain/raft/internal/sim"
)

// absence is an injection of Away: a member is down or cut off until the leader no longer has the entries that the member
// lacks. Often the member leaves again while it is receiving a snapshot, so that the sender gives up.
type absence struct {
	node        int
	down        bool
	wiped       bool // its disk is emptied before it returns, in runs in which disks are wiped
	waits       bool // it has not left yet, and leaves when it receives a snapshot
	again       bool // this is its second absence
	since       sim.Time
	least, most sim.Time // bounds of the absence
}

// awayTimes is the longest time that a member waits for the leader's base to pass its log, as a multiple of the mean.
const awayTimes = 8

// sendAway begins an absence.
func (m *nemesis) sendAway(c *cluster, n *node) {
	a := absence{down: m.random.Coin(), wiped: m.random.IntN(16) == 0, again: m.random.Coin()}
	a.least, a.most = m.random.Exponential(m.rate.For), awayTimes*m.rate.For
	if n.index == c.leader() {
		n = c.nodes[(n.index+1)%len(c.nodes)]
	}
	if m.away != nil || n.core == nil || n.index == c.leader() {
		return
	}
	a.node = n.index
	m.away = &a
	m.depart(c)
	m.lookAway(c)
}

func (m *nemesis) depart(c *cluster) {
	a := m.away
	a.since, a.waits = c.now(), false
	if a.down {
		c.nodes[a.node].crash()
		return
	}
	c.isolate(c.nodes[a.node], true)
}

// receives reports whether a member is receiving a snapshot.
func (c *cluster) receives(to int) bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.core != nil && n.vault.out[to] != nil })
}

// isolate cuts a member off from all others, or connects it again.
func (c *cluster) isolate(n *node, cut bool) {
	for i := range c.nodes {
		switch {
		case i == n.index:
		case cut:
			c.net.Links.CutBoth(sim.Absences, n.index, i)
		default:
			c.net.Links.Mend(sim.Absences, n.index, i)
			c.net.Links.Mend(sim.Absences, i, n.index)
		}
	}
}

func (m *nemesis) lookAway(c *cluster) {
	wait := c.profile.ElectionTimeout / 2
	if m.away.waits {
		wait /= 10
	}
	c.queue.Push(c.now()+wait, event{kind: evAway, node: m.index})
}

// stayAway lets the member come back after the leader's base has passed the member's log, or after the longest time. A member
// that is away when the second phase begins never returns, unless the second phase heals it.
func (m *nemesis) stayAway(c *cluster) {
	a := m.away
	if c.phase != safetyPhase {
		return
	}
	n, leader, gone := c.nodes[a.node], c.leader(), c.now()-a.since
	passed := leader >= 0 && int(c.nodes[leader].status.Base.Index) > len(n.disk.log)
	switch {
	case a.waits && c.receives(a.node) && a.node != leader:
		c.faulted("%s is away again", n.name())
		m.depart(c)
	case a.waits && gone > a.most:
		m.away = nil
		return
	case !a.waits && (gone >= a.most || passed && gone >= a.least):
		m.comeBack(c, n, passed)
	}
	if m.away != nil {
		m.lookAway(c)
	}
}

// comeBack ends an absence, or its first part.
func (m *nemesis) comeBack(c *cluster, n *node, passed bool) {
	a := *m.away
	m.away = nil
	c.isolate(n, false)
	c.faulted("%s is back", n.name())
	if passed {
		c.stats.Passed++
	}
	if passed && a.again {
		m.away = &absence{node: a.node, waits: true, since: c.now(), least: awayTimes * a.least, most: a.most}
	}
	if !a.down || n.core != nil {
		return
	}
	if a.wiped && c.profile.injects(Wipe) && m.mayLose(c, n) {
		n.empty()
	}
	n.restartIn(0)
}
