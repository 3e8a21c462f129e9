package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has what members hear of clusters (raft.Heard): true, stale or false. It also has lists of initial members that
// leave addresses open.

// drawHeard draws runs in which members are told of clusters, and runs with open addresses. It uses its own stream.
func drawHeard(seed Seed, p *Profile) {
	s, timeout := sim.NewStream(seed.Number, sim.HandshakeConcern<<24), p.ElectionTimeout
	told, open, most := s.IntN(8), s.IntN(8), 0
	chance, after := sim.Pick(s, 200_000, 800_000), s.LogTime(timeout/20, 8*timeout)
	addresses := sim.Pick(s, 300_000, sim.Million)
	switch p.Name {
	case "bootstrap":
		most = 4
	case "swarm", "members":
		most = 1
	}
	if told < most {
		p.Node.Told, p.Node.ToldAfter = chance, after
	}
	if open < most {
		p.Node.OpenLists = addresses
	}
}

// hearsay decides what a process will hear, and which addresses its list leaves open.
func (n *node) hearsay() *sim.Stream {
	if n.rumors == nil {
		n.rumors = sim.NewStream(n.c.seed.Number, sim.HandshakeConcern<<32+sim.Concern(n.index))
	}
	return n.rumors
}

// leaveOpen returns the list without some addresses, unless the member is the one that bootstraps the cluster with it.
func (n *node) leaveOpen(list raft.Configuration) raft.Configuration {
	chance := n.c.profile.Node.OpenLists
	voters := list.Voters()
	if chance == 0 || len(voters) == 0 || voters[0].ID == n.id {
		return list
	}
	list.Members = slices.Clone(list.Members)
	for i := range list.Members {
		if m := &list.Members[i]; n.hearsay().Chance(chance) {
			m.Address, m.Meta = "", ""
		}
	}
	return list
}

// learnLater decides what a process learns only while it runs: its list, and that there is a cluster.
func (n *node) learnLater() {
	n.withhold()
	n.listenLater()
	n.seeksList()
}

// learns makes a running process learn that, or begin anew without it.
func (n *node) learns(e event) {
	switch e.kind {
	case evGiven:
		n.giveList()
	case evTold:
		n.hearOf(e.a)
	case evForget:
		n.unlearn()
	case evSeek:
		if e.a == n.seeking.turn { // otherwise it has sought since
			n.seek()
		}
	case evServe:
		n.serves(e.a)
	case evContact:
		n.contact(e.a)
	case evOverdue:
		n.desk.overdue(n, e.a)
	}
}

// The kinds of news.
const (
	newsTrue  = iota // a running member tells of its cluster
	newsStale        // a late answer: of the last cluster that has begun, as if a member of it had told
	newsFalse        // of a cluster that never existed
)

// listenLater decides whether and when a process that has started is told of a cluster.
func (n *node) listenLater() {
	p := &n.c.profile.Node
	if p.Told == 0 || n.c.phase != safetyPhase || !n.hearsay().Chance(p.Told) {
		return
	}
	n.later(n.hearsay().Exponential(p.ToldAfter), event{kind: evTold, a: int64(sim.Pick(n.hearsay(), newsTrue, newsTrue, newsStale, newsFalse))})
}

// hearOf tells the member of a cluster. Its operator sees that in its status, and restarts it some time later.
func (n *node) hearOf(kind int64) {
	c := n.c
	from := c.nodes[n.hearsay().IntN(len(c.nodes))]
	if kind == newsTrue {
		for range c.nodes {
			if from.core != nil && from.disk.hard.Term > 0 {
				break
			}
			from = c.nodes[(from.index+1)%len(c.nodes)]
		}
	}
	heard := raft.Heard{From: from.id}
	switch founded := c.check.founded; {
	case c.phase != safetyPhase:
		return
	case kind == newsFalse:
		heard.Cluster[0] = byte(1 + n.hearsay().IntN(255))
	case kind == newsTrue && from.core != nil && from.disk.hard.Term > 0:
		heard.Cluster = from.status.Cluster
	case kind == newsStale && len(founded) > 0:
		heard.Cluster = founded[len(founded)-1].Cluster
	default:
		return
	}
	c.stats.Told++
	c.faulted("%s is told by %s of cluster %v", n.name(), from.name(), heard.Cluster)
	n.post(heard)
	n.later(n.hearsay().Exponential(8*c.profile.ElectionTimeout), event{kind: evForget})
}

// hasHeard reports whether a running member bootstraps nothing because it was told of a cluster, or is about to be.
func (n *node) hasHeard() bool {
	waits := slices.ContainsFunc(n.inbox, func(e raft.Event) bool { _, told := e.(raft.Heard); return told })
	return n.core != nil && (waits || n.status.Heard.From != "")
}

// unlearn restarts a process that bootstraps nothing because of what it was told.
func (n *node) unlearn() {
	if n.hasHeard() && n.c.phase == safetyPhase {
		n.c.faulted("%s is restarted, to forget what it was told", n.name())
		n.exit(n.hearsay().Exponential(n.c.profile.ElectionTimeout))
	}
}
