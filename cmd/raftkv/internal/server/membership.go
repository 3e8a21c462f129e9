package server

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/node"
)

// describeMembers returns the configuration, and what the node knows of its members.
func describeMembers(c node.Members, n node.Status) api.Members {
	out := api.Members{
		ID: string(n.ID), Cluster: n.ClusterName, Term: uint64(n.Term), Leader: string(n.Leader), Tolerance: n.Tolerance,
		Index: uint64(c.Index), Committed: c.Committed, Level: c.Level, Phase: phaseOf(c.Configuration),
		Members: make([]api.ClusterMember, 0, len(c.Configuration.Members)), Change: changeOf(c),
	}
	for _, m := range c.Configuration.Members {
		described := api.ClusterMember{
			ID: string(m.ID), Incarnation: m.Incarnation.String(), Address: m.Address, URL: m.Meta,
			Kind: m.Kind.String(), Standing: standingOf(c.Configuration, m), LastContactMS: -1,
		}
		for _, seen := range n.Members {
			if seen.Peer() == m.Peer() {
				described.Problem, described.Replace, described.CatchUp = seen.Problem, seen.Replace, catchUpOf(n, seen)
				if seen.LastContact >= 0 {
					described.LastContactMS = milliseconds(seen.LastContact)
				}
			}
		}
		out.Members = append(out.Members, described)
	}
	for _, r := range c.Removed {
		out.Removed = append(out.Removed, api.Removed{ID: string(r.Peer.ID), Incarnation: r.Peer.Incarnation.String(), Index: uint64(r.Index)})
	}
	return out
}

// phaseOf says in words which voters are replaced by which; "" unless both must agree.
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
	return "joint: " + api.List(before) + " → " + api.List(after)
}

// changeOf describes the change that is running; nil if none is.
func changeOf(c node.Members) *api.Changing {
	switch {
	case c.Index == 0:
		return nil
	case c.Joint():
		return &api.Changing{Stage: api.StageJoint}
	case c.Changing():
		waits := &api.Changing{Stage: api.StageCatchesUp}
		for _, m := range c.Configuration.Members {
			if m.Next == raft.NextVoter {
				waits.Waiting = append(waits.Waiting, string(m.ID))
			}
		}
		return waits
	case !c.Committed:
		return &api.Changing{Stage: api.StageCommits}
	}
	return nil
}

// standingOf says what the running change makes of the member.
func standingOf(c raft.Configuration, m raft.Member) string {
	was := slices.Contains(c.Outgoing, m.Peer())
	switch {
	case m.Next == raft.NextVoter:
		return api.StandingJoins
	case m.Next == raft.NextLearner:
		return api.StandingDemoted
	case m.Next == raft.NextRemoved:
		return api.StandingRemoved
	case c.Joint() && m.Kind == raft.Voter && !was:
		return api.StandingEnters
	case was && m.Kind != raft.Voter:
		return api.StandingLeaves
	case m.Kind == raft.Learner:
		return api.StandingLearner
	}
	return api.StandingVoter
}

// catchUpOf says how far a member is that does not vote yet; nil if this node does not lead.
func catchUpOf(n node.Status, m node.MemberStatus) *api.CatchUp {
	if n.Role != raft.Leader || m.Kind != raft.Learner {
		return nil
	}
	c := &api.CatchUp{Match: uint64(m.Match), Last: uint64(n.Last.Index)}
	if sent := n.Snapshot.Sending; sent != nil && sent.Peer == m.ID {
		c.Snapshot = describeTransfer(sent)
	}
	return c
}
