package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// verdictCases holds, for each verdict, a status to which the verdict applies. If own is set, it is the status of the leader
// itself; otherwise it is the status of n3.
var verdictCases = map[string]struct {
	own  bool
	know func(s *Status, m *MemberStatus)
	says string
}{
	"ended":        {true, func(s *Status, _ *MemberStatus) { s.Err = raft.ErrClosed }, "it has ended: " + raft.ErrClosed.Error()},
	"emptied disk": {true, func(s *Status, _ *MemberStatus) { s.Wiped = true }, "its disk was emptied: the cluster knows it with another incarnation"},
	"older image": {false, func(_ *Status, m *MemberStatus) {
		m.Connected, m.ConnectionErr, m.refused = false, "connection refused", &raft.Rejection{Reason: raft.RejectStaleStart}
	}, "connection refused; when the two last met, " + strings.TrimPrefix((&raft.Rejection{Reason: raft.RejectStaleStart}).Error(), "raft: ")},
	"contradicted": {true, func(s *Status, _ *MemberStatus) { s.Err = &raft.ContradictedError{} }, "it has ended: " + (&raft.ContradictedError{}).Error()},
	"removed":      {true, func(s *Status, _ *MemberStatus) { s.Err = &raft.RemovedError{Index: 7} }, "it has ended: " + (&raft.RemovedError{Index: 7}).Error()},
	"two clusters": {false, func(_ *Status, m *MemberStatus) {
		m.Connected, m.refusal = false, &raft.Rejection{Reason: raft.RejectOtherCluster}
	}, "it is not connected; when the two last met, " + strings.TrimPrefix((&raft.Rejection{Reason: raft.RejectOtherCluster}).Error(), "raft: ")},
	"certificate refused": {false, func(_ *Status, m *MemberStatus) {
		m.Connected, m.ConnectionErr, m.badCertificate = false, "tls: unknown authority", true
	}, "tls: unknown authority"},
	"address changed": {false, func(_ *Status, m *MemberStatus) {
		m.Connected, m.ConnectionErr, m.Address, m.RefusedFor, m.LastContact = false, "connection refused", "n3:1", 9*time.Second, time.Second
	}, "it is heard, but not at its address n3:1: connection refused"},
	"no descriptors":  {true, func(s *Status, _ *MemberStatus) { s.NoRoom, s.noDescriptors = "too many open files", true }, "too many open files"},
	"lost entries":    {false, func(_ *Status, m *MemberStatus) { m.State = "stale" }, "it holds less than it has acknowledged: replace it like one whose disk was lost"},
	"not connected":   {false, func(_ *Status, m *MemberStatus) { m.Connected = false }, "it is not connected"},
	"not heard":       {false, func(_ *Status, m *MemberStatus) { m.LastContact = time.Minute }, "it has not been heard for 1m0s"},
	"suspected":       {false, hindered(raft.HinderedSuspected), "its disk lacks what it acknowledged, as shown by another member, a leader that its configuration does not name: it does not vote until its configuration names that leader, or a later leader has brought its log up to date"},
	"earlier release": {false, func(_ *Status, m *MemberStatus) { m.earlier, m.changed = true, true }, "the members have been changed, and its earlier release cannot read that: upgrade it"},
	"needs a snapshot": {false, func(s *Status, m *MemberStatus) {
		m.State, s.Snapshot.Sending = "snapshot", &Transfer{Peer: "n3", Done: 1 << 20, Total: 3 << 20, Left: 20 * time.Second}
	}, "it lacks entries that are compacted here, and is sent a snapshot: 1024 of 3072 KiB, 20s left"},
	"no room":      {false, hindered(raft.HinderedNoRoom | raft.HinderedStalled), "its disk has no room for more entries of the log: make room, and it continues by itself"},
	"disk stalled": {false, hindered(raft.HinderedStalled), "its disk has stalled"},
	"restoring":    {false, hindered(raft.HinderedRestoring), "its state machine is being restored from a snapshot"},
	"FSM hangs":    {false, hindered(raft.HinderedFSM), "its FSM hangs in a call of Apply"},
	"hindered":     {false, hindered(1 << 7), "it says that something keeps it from serving, which this member's release does not know: its own status says more"},
	"behind": {false, func(s *Status, m *MemberStatus) { s.Last.Index, m.Match, m.lags = 1273, 257, 12*time.Second },
		"it holds the log up to entry 257 of 1273, and has been behind for 12s"},
	"applies late": {true, func(s *Status, _ *MemberStatus) { s.Applied, s.Commit, s.appliesLate = 257, 1273, 12*time.Second },
		"it has applied 257 of 1273 committed entries, and has been behind for 12s"},
}

func hindered(by raft.Hindrance) func(*Status, *MemberStatus) {
	return func(_ *Status, m *MemberStatus) { m.hindered = by }
}

// A voter that cannot be part of a quorum does not count in Status.Tolerance, and the sentence names it and the reason.
func TestVerdicts_DecideWhoCounts(t *testing.T) {
	judged := 0
	for _, v := range verdicts {
		if v.says == nil {
			continue
		}
		judged++
		row, found := verdictCases[v.Name]
		if !expect.True(t, found, "no case for %q", v.Name) {
			continue
		}
		s := seenFrom(raft.Leader, 3, "n2", "n3")
		s.patience = time.Second
		m := &s.Members[2]
		if row.own {
			m = &s.Members[0]
		}
		row.know(&s, m)
		s.judge()
		expect.Equal(t, v.Name, m.Verdict)
		expect.Equal(t, row.says, m.Problem, v.Name)
		expect.Equal(t, v.Counts, strings.HasPrefix(s.Tolerance, "the cluster survives 1 failure more: 3 of 3 voters"), "%s: %s", v.Name, s.Tolerance)
		if why, named := strings.CutPrefix(s.Tolerance, "none: 2 of 3 voters count, and the next failure stops the cluster; n3 does not count"); named {
			expect.NotEmpty(t, why)
		}
	}
	expect.Len(t, verdictCases, judged)
}

// With two of three disks full, nothing can be written, and Status.Tolerance must say that the cluster does not work.
func TestVerdicts_AQuorumThatDoesNotCountIsSaid(t *testing.T) {
	s := seenFrom(raft.Leader, 3, "n2", "n3")
	s.patience = time.Second
	s.Members[1].hindered, s.Members[2].hindered = raft.HinderedNoRoom, raft.HinderedRestoring
	s.judge()
	expect.Equal(t, "the cluster does not work as seen from here: 1 of 3 voters count, 2 are needed; n2 does not count: its disk has no room for more "+
		"entries of the log: make room, and it continues by itself; n3 does not count: its state machine is being restored from a snapshot", s.Tolerance)
	s.Members[1].hindered, s.Members[2].hindered, s.NoRoom = 0, 0, noRoom(errors.New("full"))
	s.judge()
	expect.Contains(t, s.Tolerance, "none: 2 of 3 voters count, and the next failure stops the cluster; n1 does not count: its disk has no room")
}

// A learner that catches up is not "behind", because CatchUp shows its progress. A voter that lacks entries only for a moment
// is not "behind" either.
func TestVerdicts_BehindIsForVotersThatStayBehind(t *testing.T) {
	s := seenFrom(raft.Leader, 3, "n2", "n3")
	s.patience = time.Second
	s.Members[1].lags, s.Members[2].lags, s.Members[2].CatchUp = time.Second, time.Minute, &CatchUp{}
	s.judge()
	expect.Empty(t, s.Members[1].Problem+s.Members[2].Problem)
}

// Some rejections end a member: a peer rejects it because of an older image of its disk, or it rejects this member. Then the
// member cannot be reached. Its peers still know the reason.
func TestVerdicts_TheLastRejectionIsShownAfterTheConnection(t *testing.T) {
	stale := &raft.Rejection{Reason: raft.RejectStaleStart, From: raft.Peer{ID: "n1"}}
	for _, row := range []struct {
		rule string
		know func(m *MemberStatus)
		want string
	}{
		{"this member has refused it", func(m *MemberStatus) { m.refused = stale }, "connection refused; when the two last met, " + strings.TrimPrefix(stale.Error(), "raft: ")},
		{"it has refused this member", func(m *MemberStatus) { m.refusal = stale }, "connection refused; when the two last met, " + strings.TrimPrefix(stale.Error(), "raft: ")},
		{"the error says it", func(m *MemberStatus) {
			m.refusal, m.ConnectionErr = stale, "transport: "+strings.TrimPrefix(stale.Error(), "raft: ")
		}, "transport: " + strings.TrimPrefix(stale.Error(), "raft: ")},
		{"it is connected again", func(m *MemberStatus) { m.refused, m.Connected = stale, true }, ""},
	} {
		s := seenFrom(raft.Leader, 3, "n2", "n3")
		s.patience = time.Second
		s.Members[2].Connected, s.Members[2].ConnectionErr = false, "connection refused"
		row.know(&s.Members[2])
		s.judge()
		expect.Equal(t, row.want, s.Members[2].Problem, row.rule)
	}
}

// Each row says all that an operator needs, and no name, which is also the heading in the runbook, appears twice.
func TestVerdicts_AreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, v := range Verdicts() {
		expect.False(t, names[v.Name], v.Name)
		names[v.Name] = true
		expect.NotEmpty(t, v.Means, v.Name)
		expect.NotEmpty(t, v.Next, v.Name)
		expect.Contains(t, []Severity{Outage, Degraded, Notice}, v.Severity, v.Name)
		found, known := VerdictNamed(v.Name)
		expect.True(t, known)
		expect.Equal(t, v, found)
	}
	_, known := VerdictNamed("of a later release")
	expect.False(t, known)
}

// If leaders are lost too often, the status says so even while there is a leader, and suggests a long enough timeout. A
// leader counts as lost if another leader follows, if it leads again in a later term, or if there is none for a moment.
func TestHistory_ReportsALeaderThatIsLostTooOften(t *testing.T) {
	h, second := &history{}, raft.Time(time.Second)
	leads := func(term raft.Term, leader raft.NodeID) raft.Leadership {
		return raft.Leadership{Term: term, Leader: leader}
	}
	change := func(from, to raft.Leadership) {
		h.noteLoss(second, from, to, raft.ElectionStatus{Answer: raft.Time(12 * time.Millisecond)})
	}
	for i := range raft.Term(lossesOften - 3) {
		change(leads(i, ""), leads(i+1, "n1"))
		change(leads(i+1, "n1"), leads(i+1, ""))
	}
	change(leads(9, ""), leads(9, "n2"))
	change(leads(9, "n2"), leads(9, "n2")) // only its role has changed
	change(leads(9, "n2"), leads(10, "n3"))
	change(leads(10, "n3"), leads(11, "n3"))
	assert := expect.New(t)
	assert.Empty(h.unsettled(2*second, 10*time.Millisecond))
	change(leads(11, "n3"), leads(11, ""))
	assert.Equal("the leader was lost 7 times in the last 2m0s: unless it was stopped, moved or disconnected, the election timeout of 10ms is too short, "+
		"and the answer to a request for votes took up to 12ms: set it to 20ms or more on all members", h.unsettled(2*second, 10*time.Millisecond))
	assert.Contains(h.unsettled(2*second, time.Second), "the election timeout of 1s is too short: set it to 2s or more")
	assert.Empty(h.unsettled(second+raft.Time(lossesRecent)+1, time.Second))
	for range 2 * lossesMax {
		change(leads(11, "n3"), leads(11, ""))
	}
	assert.Len(h.losses, lossesMax)
}

// A leader that transfers its leadership is not lost, whether or not a member knows no leader for a moment.
func TestHistory_ATransferIsNoLoss(t *testing.T) {
	h, assert := &history{}, expect.New(t)
	change := func(from, to raft.Leadership) { h.noteLoss(0, from, to, raft.ElectionStatus{}) }
	leads := func(term raft.Term, leader raft.NodeID, byTransfer bool) raft.Leadership {
		return raft.Leadership{Term: term, Leader: leader, ByTransfer: byTransfer}
	}
	change(leads(1, "n1", false), leads(2, "", false))
	change(leads(2, "", false), leads(2, "n2", true))
	change(leads(2, "n2", true), leads(3, "n1", true))
	assert.Empty(h.losses)
	change(leads(3, "n1", true), leads(3, "", false)) // silent for a moment
	change(leads(3, "", false), leads(3, "n1", true))
	assert.Len(h.losses, 1, "it is the same term, so the transfer was an earlier one")
	change(leads(3, "n1", true), leads(4, "", false))
	change(leads(4, "", false), leads(4, "n2", false))
	assert.Len(h.losses, 2)
	change(leads(4, "n2", false), leads(5, "", false))
	change(leads(5, "", false), leads(6, "n3", true)) // the transfer to another member has failed
	assert.Len(h.losses, 3)
}
