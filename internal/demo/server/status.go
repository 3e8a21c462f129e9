package server

import (
	"net/http"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
)

// status answers with the node's status.
func (s *Server) status(*http.Request, []byte) answer {
	status := describe(s.node.Status(), s.node.Members().Configuration)
	if view, err := s.store.View(); err == nil {
		status.Keys = view.Len()
	}
	return reply(http.StatusOK, status)
}

// transfer transfers the leadership to the member that ?to= names. Without a name, the node chooses the best candidate.
func (s *Server) transfer(r *http.Request, _ []byte) answer {
	if err := s.node.TransferLeadership(r.Context(), raft.NodeID(r.URL.Query().Get("to"))); err != nil {
		return s.failOrForward(r, nil, err)
	}
	return reply(http.StatusOK, api.Transferred{Leader: string(s.node.Status().Leader)})
}

func describe(n node.Status, c raft.Configuration) api.Status {
	status := api.Status{
		ID: string(n.ID), Incarnation: n.Incarnation.String(), StartCount: n.StartCount, ClusterName: n.ClusterName,
		Bootstrapped: n.Bootstrapped, Wiped: n.Wiped, Role: n.Role.String(), Term: uint64(n.Term), Leader: string(n.Leader),
		LeaderReason: n.LeaderReason, SlowElection: n.SlowElection, MajorityLost: n.MajorityLost, DiskStalled: n.DiskStalled, FSMHangs: n.FSMHangs, NoRoom: n.NoRoom,
		SmallDisk: n.SmallDisk, Tolerance: n.Tolerance, Missing: n.Missing,
		Base: uint64(n.Base.Index), Last: uint64(n.Last.Index), LogBytes: n.LogBytes, Snapshot: describeSnapshot(n.Snapshot), Persisted: uint64(n.Persisted), Commit: uint64(n.Commit), Applied: uint64(n.Applied),
		ApplyingMS: milliseconds(n.Applying), Pending: n.Pending, Members: make([]api.Member, 0, len(n.Members)),
		Phase: phaseOf(c), InOfficeMS: milliseconds(n.InOffice), BackoffMS: milliseconds(n.Backoff), Caretaker: n.Caretaker,
	}
	for _, id := range n.Successors {
		status.Successors = append(status.Successors, string(id))
	}
	if n.Role == raft.Leader {
		status.LeaderCause = n.Cause.String()
	}
	if n.Bootstrapped {
		status.Cluster = n.Cluster.String()
	}
	if n.LeaderMember != nil {
		status.LeaderURL = n.LeaderMember.Meta
	}
	if n.Certificate != nil {
		status.Certificate = n.Certificate.Problem
	}
	if n.Err != nil {
		status.Error = n.Err.Error()
	}
	for _, m := range n.Members {
		member := describeMember(m)
		member.Priority = priorityOf(c, m.Member)
		if standing := standingOf(c, m.Member); standing != api.StandingVoter {
			member.Standing = standing
		}
		status.Members = append(status.Members, member)
	}
	return status
}

func describeMember(m node.MemberStatus) api.Member {
	member := api.Member{
		ID: string(m.ID), Address: m.Address, URL: m.Meta, Kind: m.Kind.String(), Incarnation: m.Incarnation.String(),
		State: m.State, Match: uint64(m.Match), Lag: m.Lag, Connected: m.Connected, ConnectionErr: m.ConnectionErr,
		LastContactMS: -1, RoundTripMS: milliseconds(m.RoundTrip), Problem: m.Problem, Verdict: m.Verdict, Replace: m.Replace,
		Protocol: m.Protocol, Release: m.Release, BackoffMS: milliseconds(m.Backoff),
	}
	for _, d := range m.Differs {
		member.Differs = append(member.Differs, d.String())
	}
	if m.LastContact >= 0 {
		member.LastContactMS = milliseconds(m.LastContact)
	}
	return member
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
