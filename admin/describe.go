package admin

import (
	"slices"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// describeMembers returns the configuration, and the node's knowledge of its members.
func describeMembers(c node.Members, n node.Status) Members {
	out := Members{
		ID: string(n.ID), Cluster: n.ClusterName, Term: uint64(n.Term), Leader: string(n.Leader), Tolerance: n.Tolerance,
		Index: uint64(c.Index), Committed: c.Committed, Level: c.Level, AppVersionMin: n.AppVersionMin, Phase: phaseOf(c.Configuration),
		Members: make([]ClusterMember, 0, len(c.Configuration.Members)), Change: changeOf(c),
	}
	if c.LeaseDuration > 0 {
		out.LeaseDuration = c.LeaseDuration.String()
	}
	if n.Cluster != (raft.ClusterID{}) {
		out.ClusterID = n.Cluster.String()
	}
	for _, m := range c.Configuration.Members {
		described := ClusterMember{
			ID: string(m.ID), Incarnation: m.Incarnation.String(), Address: m.Address, URL: m.Meta,
			Kind: m.Kind.String(), Priority: priorityOf(c.Configuration, m), Standing: standingOf(c.Configuration, m), LastContactMS: -1,
		}
		for _, seen := range n.Members {
			if seen.Peer() == m.Peer() {
				described.Problem, described.Replace, described.CatchUp = seen.Problem, seen.Replace, catchUpOf(n, seen)
				described.Protocol, described.Release, described.AppVersion = seen.Protocol, seen.Release, seen.Announced
				if seen.LastContact >= 0 {
					described.LastContactMS = milliseconds(seen.LastContact)
				}
			}
		}
		out.Members = append(out.Members, described)
	}
	for _, r := range c.Removed {
		out.Removed = append(out.Removed, Removed{ID: string(r.Peer.ID), Incarnation: r.Peer.Incarnation.String(), Index: uint64(r.Index)})
	}
	for _, d := range n.Departing {
		out.Departing = append(out.Departing, Departing{
			ID: string(d.ID), Incarnation: d.Incarnation.String(), Index: uint64(d.Removal), LeftMS: milliseconds(d.Left),
			Address: d.Dialed, Connected: d.Connected,
		})
	}
	return out
}

// phaseOf describes a joint configuration, with the former and the new voters; "" if the configuration is not joint.
func phaseOf(c raft.Configuration) string {
	if !c.Joint() {
		return ""
	}
	var before, after []string
	for _, p := range c.Outgoing {
		before = append(before, string(p.ID))
	}
	for _, m := range c.Voters() {
		after = append(after, string(m.ID))
	}
	return "joint: " + strings.Join(before, " ") + " → " + strings.Join(after, " ")
}

// changeOf describes the running change; nil if there is none.
func changeOf(c node.Members) *Changing {
	switch {
	case c.Index == 0:
		return nil
	case c.Joint():
		return &Changing{Stage: StageJoint}
	case c.Changing():
		waits := &Changing{Stage: StageCatchesUp}
		for _, m := range c.Configuration.Members {
			if m.Next == raft.NextVoter {
				waits.Waiting = append(waits.Waiting, string(m.ID))
			}
		}
		return waits
	case !c.Committed:
		return &Changing{Stage: StageCommits}
	}
	return nil
}

// priorityOf returns the priority of a member that votes, or is to vote; nil for another member.
func priorityOf(c raft.Configuration, m raft.Member) *int {
	if m.Next != raft.NextVoter && c.VotesIn(m.Peer()) == 0 {
		return nil
	}
	number := m.Priority.Number()
	return &number
}

// standingOf returns the role of a member in the running change.
func standingOf(c raft.Configuration, m raft.Member) string {
	was := slices.Contains(c.Outgoing, m.Peer())
	switch {
	case m.Next == raft.NextVoter:
		return StandingJoins
	case m.Next == raft.NextLearner:
		return StandingDemoted
	case m.Next == raft.NextRemoved:
		return StandingRemoved
	case c.Joint() && m.Kind == raft.Voter && !was:
		return StandingEnters
	case was && m.Kind != raft.Voter:
		return StandingLeaves
	case m.Kind == raft.Learner:
		return StandingLearner
	}
	return StandingVoter
}

// catchUpOf returns the progress of a member that does not vote yet; nil if this node does not lead.
func catchUpOf(n node.Status, m node.MemberStatus) *CatchUp {
	if n.Role != raft.Leader || m.Kind != raft.Learner {
		return nil
	}
	c := &CatchUp{Match: uint64(m.Match), Last: uint64(n.Last.Index)}
	if is := m.CatchUp; is != nil && !is.Ready {
		c.Rate, c.LeftMS, c.IdleMS = is.Rate, milliseconds(is.Left), milliseconds(is.Idle)
	}
	if sent := n.Snapshot.Sending; sent != nil && sent.Peer == m.ID {
		c.Snapshot = describeTransfer(sent)
	}
	return c
}
