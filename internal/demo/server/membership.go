package server

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
)

// describeMembers returns the configuration, and the node's knowledge of its members.
func describeMembers(c node.Members, n node.Status) api.Members {
	out := api.Members{
		ID: string(n.ID), Cluster: n.ClusterName, Term: uint64(n.Term), Leader: string(n.Leader), Tolerance: n.Tolerance,
		Index: uint64(c.Index), Committed: c.Committed, Level: c.Level, Phase: phaseOf(c.Configuration),
		Members: make([]api.ClusterMember, 0, len(c.Configuration.Members)), Change: changeOf(c),
	}
	if n.Cluster != (raft.ClusterID{}) {
		out.ClusterID = n.Cluster.String()
	}
	for _, m := range c.Configuration.Members {
		described := api.ClusterMember{
			ID: string(m.ID), Incarnation: m.Incarnation.String(), Address: m.Address, URL: m.Meta,
			Kind: m.Kind.String(), Priority: priorityOf(c.Configuration, m), Standing: standingOf(c.Configuration, m), LastContactMS: -1,
		}
		for _, seen := range n.Members {
			if seen.Peer() == m.Peer() {
				described.Problem, described.Replace, described.CatchUp = seen.Problem, seen.Replace, catchUpOf(n, seen)
				described.Protocol, described.Release = seen.Protocol, seen.Release
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
	for _, d := range n.Departing {
		out.Departing = append(out.Departing, api.Departing{
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
	return "joint: " + api.List(before) + " → " + api.List(after)
}

// changeOf describes the running change; nil if there is none.
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

// catchUpOf returns the progress of a member that does not vote yet; nil if this node does not lead.
func catchUpOf(n node.Status, m node.MemberStatus) *api.CatchUp {
	if n.Role != raft.Leader || m.Kind != raft.Learner {
		return nil
	}
	c := &api.CatchUp{Match: uint64(m.Match), Last: uint64(n.Last.Index)}
	if is := m.CatchUp; is != nil && !is.Ready {
		c.Rate, c.LeftMS, c.IdleMS = is.Rate, milliseconds(is.Left), milliseconds(is.Idle)
	}
	if sent := n.Snapshot.Sending; sent != nil && sent.Peer == m.ID {
		c.Snapshot = describeTransfer(sent)
	}
	return c
}

// checkPlace returns an error if the address or the URL of a member cannot be used. Either may be "". The library accepts any
// address, because a program may have a resolver. This store has no resolver.
func checkPlace(id, address, url string) error {
	var wrong error
	if address != "" {
		wrong = api.CheckAddress(address)
	}
	if url != "" {
		wrong = cmp.Or(wrong, api.CheckURL(url))
	}
	if wrong != nil {
		return badChange("member %q: %v", id, wrong)
	}
	return nil
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkIncarnations refuses a change that names an unknown incarnation of a known id. It also refuses to give a vote to an id
// that belongs to both a voter and a learner. As in checkURLs, only the leader checks this. While a change is under way, the
// library judges the request instead, because the request may ask again for the same change.
func (s *Server) checkIncarnations(c raft.Change) error {
	members := s.node.Members()
	known := members.Configuration
	if s.node.Status().Role != raft.Leader || !members.Committed || known.Joint() || known.Changing() {
		return nil
	}
	named := slices.Concat(c.Promote, c.Demote, c.Remove)
	for _, r := range c.Replace {
		named = append(named, r.Old)
	}
	for _, u := range c.Update {
		named = append(named, u.Peer)
	}
	for _, p := range c.Promote {
		voter, _ := known.Member(p.ID)
		if by, _ := standsIn(known, voter.Peer(), p.ID); p.Incarnation == 0 && voter.Kind == raft.Voter && by.Kind == raft.Learner {
			return api.Errorf(api.MemberExists, fmt.Sprintf("raftkv members replace %s puts the learner in the place of the voter", p.ID),
				"the members were not changed: two members have the id %s, the voter with the incarnation %v, and the learner with %v",
				p.ID, voter.Incarnation, by.Incarnation)
		}
	}
	for _, p := range named {
		if _, found := known.Peer(p); found || p.Incarnation == 0 {
			continue
		}
		if m, found := known.Member(p.ID); found {
			return api.Errorf(api.UnknownMember, "raftkv members --json shows the incarnations",
				"the members were not changed: no %s has the incarnation %v; there is one with %v", p.ID, p.Incarnation, m.Incarnation)
		}
	}
	return nil
}

// checkURLs refuses to give a member the URL of another member, because requests would be forwarded to the wrong member. Only
// the leader checks this, because other members may know an older configuration.
func (s *Server) checkURLs(c raft.Change) error {
	if s.node.Status().Role != raft.Leader {
		return nil
	}
	given := map[raft.NodeID]string{} // URLs that the change gives, by member
	for _, m := range c.Add {
		given[m.ID] = m.Meta
	}
	for _, u := range c.Update {
		given[u.Peer.ID] = valueOf(u.Meta)
	}
	for _, p := range c.Remove {
		given[p.ID] = ""
	}
	for _, r := range c.Replace {
		given[r.Old.ID] = ""
		given[r.New.ID] = r.New.Meta
	}
	for id, url := range given {
		for _, m := range s.node.Members().Configuration.Members {
			if _, changes := given[m.ID]; url != "" && m.Meta == url && !changes {
				return api.Errorf(api.AddressInUse, "give each member its own URL; raftkv members shows them",
					"%s cannot have the URL %s: it is the URL of %s", id, url, m.ID)
			}
		}
	}
	return nil
}
