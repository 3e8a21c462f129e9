package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// noneAwake is the missing resource if no member with a term is left. At term 0 only the bootstrapper campaigns.
const noneAwake = "every member that took part in the first election has lost its disk"

// choose draws the core. If there can be no core, it names the missing resource.
func (l *liveness) choose() (core uint64, missing string) {
	c := l.c
	config, bootstrapped := l.configuration()
	if !bootstrapped {
		return l.chooseBootstrap()
	}
	if c.profile.Members.on() {
		return l.chooseAmong(c.standing())
	}
	var able, learners []int
	voters, awake := 0, -1
	for _, m := range config.Members {
		n := c.at(m.Peer())
		sound := !n.disk.damaged && n.disk.incarnation == m.Incarnation
		switch {
		case m.Kind == raft.Learner && sound:
			learners = append(learners, n.index)
		case m.Kind == raft.Learner:
		default:
			voters++
			if sound {
				able = append(able, n.index)
			}
		}
	}
	need := majority(voters)
	if len(able) < need {
		return 0, fmt.Sprintf("%d of %d voters have lost their disks", voters-len(able), voters)
	}
	if able = c.acquainted(able); len(able) < need {
		return 0, fmt.Sprintf("%d of %d voters have lost their disks, or were started too often for the others to tell whether these are older images",
			voters-len(able), voters)
	}
	for _, i := range able {
		if c.nodes[i].disk.hard.Term > 0 {
			awake = i
		}
	}
	if awake < 0 {
		return 0, noneAwake
	}
	able = l.leaveOut(able, need)
	for _, i := range pick(l.random, able, need+l.random.IntN(len(able)-need+1)) {
		core |= 1 << i
	}
	if !l.anyAwake(core) {
		core |= 1 << awake // at term 0 only the bootstrapper campaigns
	}
	for _, i := range learners {
		if l.random.Coin() {
			core |= 1 << i
		}
	}
	return core, ""
}

// acquainted leaves out nodes until no remaining node permanently rejects another one. It first leaves out the node that is
// in the most rejecting pairs. Two nodes cannot work together on any link if one cannot tell whether the other's disk is an
// older image.
func (c *cluster) acquainted(nodes []int) []int {
	nodes = slices.Clone(nodes)
	for {
		worst, most := -1, 0
		for at, i := range nodes {
			apart := 0
			for _, k := range nodes {
				if c.nodes[i].willRejectPermanently(c.nodes[k]) || c.nodes[k].willRejectPermanently(c.nodes[i]) {
					apart++
				}
			}
			if apart > most {
				worst, most = at, apart
			}
		}
		if worst < 0 {
			return nodes
		}
		nodes = slices.Delete(nodes, worst, worst+1)
	}
}

// leaveOut sometimes removes the leader from the core, if the other nodes suffice. The leader's disk will then stall or be
// full.
func (l *liveness) leaveOut(able []int, need int) []int {
	leader := l.c.leader()
	others := slices.DeleteFunc(slices.Clone(able), func(i int) bool { return i == leader })
	if len(others) == len(able) || len(others) < need || l.c.nodes[leader].frozen || l.random.IntN(3) > 0 {
		return able
	}
	l.doomed = l.c.nodes[leader]
	return others
}

// abandon leaves a node in its present state until the end of the run.
func (l *liveness) abandon(n *node) {
	switch s := &n.disk.segments; {
	case n.c.profile.Node.ApplyStallMax > 0 && (n == l.doomed || n.hang.till > l.c.now()):
		n.hang.till = sim.Never
	case n == l.doomed && s.log != nil && l.random.Coin():
		s.fillPermanently()
	case n == l.doomed || n.disk.stallTill > l.c.now():
		n.disk.stallTill = sim.Never
	case s.log != nil && s.fullTill > l.c.now():
		s.fillPermanently()
	}
	n.forever = true
	n.loops, n.dieAfter = 0, 0
	if !l.exiled {
		return
	}
	for i := range l.c.nodes {
		if i != n.index {
			l.c.net.Links.CutBoth(sim.Exiles, n.index, i)
		}
	}
}

// hideFollowers sometimes cuts links between the leader with the disk that will stall and some of its followers. The leader
// still hears a quorum without these followers.
func (l *liveness) hideFollowers() {
	if l.doomed == nil || l.random.Coin() {
		return
	}
	config, _ := l.configuration()
	heard := quorum(&config, func(p raft.Peer) bool { return l.healed(p) != nil || p == l.doomed.peer() })
	var able []int
	for i, n := range l.c.nodes {
		if votes(&config, n.peer()) && l.core>>i&1 == 1 {
			able = append(able, i)
		}
	}
	for _, i := range pick(l.random, able, 1+l.random.IntN(heard.spare())) {
		l.c.net.Links.CutBoth(sim.Exiles, l.doomed.index, i)
	}
}

// healed returns the node of the core whose disk carries an incarnation, or nil. A member of the past has no node.
func (l *liveness) healed(p raft.Peer) *node {
	n := l.c.at(p)
	if n == nil || n.peer() != p || l.core>>n.index&1 == 0 {
		return nil
	}
	return n
}

func (l *liveness) anyAwake(core uint64) bool {
	for _, n := range l.c.nodes {
		if core>>n.index&1 == 1 && n.disk.hard.Term > 0 {
			return true
		}
	}
	return false
}

// awakening returns the members of a cluster whose first term is being written to a disk. Such a cluster is not bootstrapped
// again.
func (c *cluster) awakening() []raft.Member {
	for _, n := range c.nodes {
		if n.core != nil && n.status.Term > 0 && len(n.log) > 0 {
			return n.log[0].config.Members
		}
	}
	return nil
}

// chooseBootstrap draws the core of a cluster that is not bootstrapped yet. All members must be in it, because the bootstrap
// needs them all.
func (l *liveness) chooseBootstrap() (core uint64, missing string) {
	for _, m := range l.c.awakening() {
		if l.c.at(m.Peer()).disk.incarnation != m.Incarnation {
			return 0, fmt.Sprintf("the disk of %s was emptied after the first election had begun", m.ID)
		}
	}
	for _, n := range l.c.nodes[:l.c.profile.Voters+l.c.profile.Learners] {
		if n.disk.damaged {
			return 0, fmt.Sprintf("the cluster is not bootstrapped, and the disk of %s is damaged", n.id)
		}
		if n.index == 0 && len(n.disk.ghosts) > 0 {
			return 0, "the bootstrapper's disk was emptied while it bootstrapped the cluster"
		}
		if f, holds := n.disk.bootstrap(); holds && f.Bootstrapper.ID != l.c.nodes[0].id {
			return 0, fmt.Sprintf("%s holds entry 1 of another list of members", n.id)
		}
		for _, other := range l.c.nodes {
			if n.rejectsPermanently(other) {
				return 0, fmt.Sprintf("%s was started too often before the bootstrap for %s to tell whether its disk is an older image", other.id, n.id)
			}
		}
		core |= 1 << n.index
	}
	return core, ""
}

// configuration returns the newest committed configuration. It returns false if the cluster is not bootstrapped yet.
func (l *liveness) configuration() (raft.Configuration, bool) {
	if newest := l.c.newestCommitted(); newest != nil {
		return newest.Configuration, true
	}
	return raft.Configuration{}, false
}

func pick(s *sim.Stream, from []int, k int) []int {
	var chosen []int
	for i, set := 0, s.Subset(len(from), k); i < len(from); i++ {
		if set>>i&1 == 1 {
			chosen = append(chosen, from[i])
		}
	}
	return chosen
}
