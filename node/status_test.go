package node

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// seenFrom returns the status of n1, which reaches the named members.
func seenFrom(role raft.Role, voters int, reached ...raft.NodeID) Status {
	s := Status{ID: "n1", Leadership: raft.Leadership{Term: 3, Role: role}, Bootstrapped: true}
	if role == raft.Leader {
		s.Leader = s.ID
	}
	for _, id := range []raft.NodeID{"n1", "n2", "n3", "n4", "n5"}[:voters] {
		m := MemberStatus{Member: raft.Member{ID: id}, LastContact: -1}
		if id == s.ID {
			m.State = "self"
		}
		for _, up := range reached {
			if up == id {
				m.Connected, m.LastContact = true, time.Millisecond
			}
		}
		s.Members = append(s.Members, m)
	}
	return s
}

func TestStatus_SaysHowManyMoreFailuresAreSurvived(t *testing.T) {
	notYet := seenFrom(raft.Follower, 3)
	notYet.Bootstrapped = false
	stale := seenFrom(raft.Leader, 3, "n2", "n3")
	stale.Members[2].LastContact = time.Minute
	lost := seenFrom(raft.Leader, 3, "n2", "n3")
	lost.Members[2].State = "stale"
	earlier := seenFrom(raft.Leader, 3, "n2", "n3")
	earlier.Members[1].State, earlier.Members[1].earlier = "replicate", true
	earlier.Members[2].State, earlier.Members[2].earlier = "snapshot", true
	unreadable := seenFrom(raft.Leader, 3, "n2", "n3")
	unreadable.Members[1].changed = true
	unreadable.Members[2].State, unreadable.Members[2].earlier, unreadable.Members[2].changed = "probe", true, true
	for _, row := range []struct {
		status Status
		want   string
	}{
		{seenFrom(raft.Leader, 3, "n2", "n3"), "the cluster survives 1 failure more: 3 of 3 voters can be reached"},
		{lost, "none: 2 of 3 voters count, and the next failure stops the cluster; " +
			"n3 does not count: it holds less than it has acknowledged"},
		{earlier, "none: 2 of 3 voters count, and the next failure stops the cluster; " +
			"n3 does not count until it is upgraded: it lacks entries that are compacted here"},
		{unreadable, "none: 2 of 3 voters count, and the next failure stops the cluster; " +
			"n3 does not count until it is upgraded: it cannot read how the members were changed"},
		{seenFrom(raft.Leader, 5, "n2", "n3", "n4", "n5"), "the cluster survives 2 failures more: 5 of 5 voters can be reached"},
		{seenFrom(raft.Leader, 3, "n2"), "none: 2 of 3 voters can be reached, and the next failure stops the cluster"},
		{stale, "none: 2 of 3 voters can be reached, and the next failure stops the cluster"},
		{seenFrom(raft.Follower, 3), "the cluster does not work as seen from here: 1 of 3 voters can be reached, 2 are needed"},
		{seenFrom(raft.Follower, 3, "n2", "n3"), "the cluster has no leader as seen from here: 3 of 3 voters can be reached, and a quorum is 2"},
		{seenFrom(raft.Leader, 1), "none: 1 of 1 voter can be reached, and the next failure stops the cluster"},
		{notYet, "no cluster is known here yet; a cluster of 3 voters survives 1 failure"},
		{Status{}, "no configuration is known here yet"},
	} {
		row.status.patience = time.Second
		row.status.judge()
		expect.Equal(t, row.want, row.status.Tolerance)
	}
}

func TestStatus_SaysWhyThereIsNoLeader(t *testing.T) {
	bootstrap := seenFrom(raft.Follower, 3)
	bootstrap.Bootstrapped, bootstrap.Missing = false, []string{"n2 has not answered", "n3 has not answered"}
	answered := bootstrap
	answered.Missing = nil
	waiting := seenFrom(raft.Follower, 3)
	waiting.ID, waiting.Bootstrapped = "n2", false
	unreached := waiting
	unreached.Missing = []string{"n3: connection refused"}
	const waits = "no cluster yet: this member waits for the bootstrapper, n1, which bootstraps it once every member of the list " +
		"has answered its probe, and whose status says who is missing"
	const lost = "; if n1 is permanently lost and every member says this, nothing was ever committed: empty all stores and start again"
	stalled := seenFrom(raft.Leader, 3, "n2")
	stalled.Leader, stalled.DiskStalled = "n1", true
	full := seenFrom(raft.Leader, 3, "n2")
	full.Leader, full.NoRoom = "n1", noRoom(errors.New("no space: /data/log"))
	alone := seenFrom(raft.Leader, 1)
	alone.Leader, alone.NoRoom = full.Leader, full.NoRoom
	led := seenFrom(raft.Follower, 3, "n2")
	led.Leader = "n2"
	refused := seenFrom(raft.Follower, 3)
	refused.Members[1].ConnectionErr, refused.Members[2].ConnectionErr = "start too long ago", "connection refused"
	for _, row := range []struct {
		status     Status
		last, want string
	}{
		{seenFrom(raft.Follower, 3), "x", "no leader: 1 of 3 voters can be reached, 2 are needed"},
		{refused, "x", "no leader: 1 of 3 voters can be reached, 2 are needed; n2: start too long ago; n3: connection refused"},
		{seenFrom(raft.Follower, 3, "n2"), "", "no leader: an election follows term 3"},
		{seenFrom(raft.Follower, 3, "n2"), "no leader: n3 led in term 2", "no leader: n3 led in term 2"},
		{led, "n2 leads in term 3, after n1 in term 2", "n2 leads in term 3, after n1 in term 2"},
		{stalled, "n1 leads in term 3", "n1 leads in term 3, but its disk has stalled: it refuses proposals, and transfers its leadership " +
			"as soon as a quorum of the others may be ahead of it"},
		{full, "n1 leads in term 3", "n1 leads in term 3, but its disk has no room for more entries of the log: make room, and it continues by itself " +
			"(no space: /data/log); until then it refuses proposals, and transfers leadership to the other voters in turn"},
		{alone, "n1 leads in term 3", "n1 leads in term 3, but its disk has no room for more entries of the log: make room, and it continues by itself " +
			"(no space: /data/log); until then it refuses proposals"},
		{answered, "", "no cluster yet: this member bootstraps it once every member of the list has answered"},
		{bootstrap, "", "no cluster yet: this member bootstraps it once every member of the list has answered; " +
			"n2 has not answered; n3 has not answered"},
		{waiting, "", waits + lost},
		{unreached, "", waits + "; seen from here, n3: connection refused" + lost},
		{Status{}, "", "no cluster yet: this member's store is empty and it has no list of initial members, so it waits to be added"},
		{Status{Wiped: true}, "", "this member's disk was emptied: the cluster knows it with another incarnation"},
		{Status{Err: raft.ErrClosed}, "", "this node has ended: " + raft.ErrClosed.Error()},
	} {
		row.status.patience = time.Second
		row.status.judge()
		expect.Equal(t, row.want, leaderReason(&row.status, row.last))
	}
}

// A member that waits for the bootstrap names the members that it has not heard from, even before a connection
// has failed.
func TestStatus_AMemberThatWaitsNamesWhomItHasNotHeard(t *testing.T) {
	members := seenFrom(raft.Follower, 3, "n1").Members
	members[0].State, members[1].State, members[2].Address = "", "self", "n3:1"
	waiting := raft.CoreStatus{ID: "n2", Uninitialized: true}
	expect.Equal(t, []string{"n3 has not been heard"}, missing(waiting, members))
	members[2].ConnectionErr = "connection refused"
	expect.Equal(t, []string{"n3: connection refused"}, missing(waiting, members))
	members[2].ConnectionErr = ""
	bootstrapper := raft.CoreStatus{ID: "n2", Uninitialized: true, Missing: []string{"n3 has not answered the probe"}}
	expect.Equal(t, bootstrapper.Missing, missing(bootstrapper, members), "said once")
	expect.Empty(t, missing(raft.CoreStatus{ID: "n2", Leadership: raft.Leadership{Term: 1}}, members))
}

func TestStatus_SaysWhatIsWrongWithEachMember(t *testing.T) {
	leader := seenFrom(raft.Leader, 5, "n2", "n3", "n4")
	leader.Members[2].LastContact = time.Minute
	leader.Members[3].LastContact = -1
	leader.Members[4].ConnectionErr = "connection refused"
	stale := seenFrom(raft.Leader, 2, "n2")
	stale.Members[1].State = "stale"
	follower := seenFrom(raft.Follower, 3, "n2")
	follower.Members[1].LastContact = time.Minute
	earlier := seenFrom(raft.Leader, 3, "n2", "n3")
	earlier.Members[1].State, earlier.Members[1].earlier = "replicate", true
	earlier.Members[2].State, earlier.Members[2].earlier = "snapshot", true
	unreadable := seenFrom(raft.Leader, 2, "n2")
	unreadable.Members[1].State, unreadable.Members[1].earlier, unreadable.Members[1].changed = "probe", true, true
	wiped, stalled, ended := seenFrom(raft.Follower, 1), seenFrom(raft.Leader, 1), seenFrom(raft.Follower, 1)
	wiped.Wiped, stalled.DiskStalled, ended.Err = true, true, raft.ErrClosed
	full := stalled
	full.NoRoom = noRoom(errors.New("no space: /data/log"))
	suspected := seenFrom(raft.Follower, 1)
	suspected.suspected = "n9"
	for _, row := range []struct {
		status Status
		want   []string
	}{
		{leader, []string{"", "", "it has not been heard for 1m0s", "it has not been heard", "connection refused"}},
		{stale, []string{"", "it holds less than it has acknowledged: replace it like one whose disk was lost"}},
		{follower, []string{"", "", "it is not connected"}},
		{earlier, []string{"", "", "it lacks entries that are compacted here, and its earlier release takes no snapshots: upgrade it"}},
		{unreadable, []string{"", "the members have been changed, and its earlier release cannot read that: upgrade it"}},
		{wiped, []string{"its disk was emptied: the cluster knows it with another incarnation"}},
		{suspected, []string{"its disk lacks what it acknowledged, as shown by n9, a leader that its configuration does not name: " +
			"it does not vote until its configuration names that leader, or a later leader has brought its log up to date"}},
		{stalled, []string{"its disk has stalled"}},
		{full, []string{"its disk has no room for more entries of the log: make room, and it continues by itself (no space: /data/log)"}},
		{ended, []string{"it has ended: " + raft.ErrClosed.Error()}},
	} {
		row.status.patience = time.Second
		row.status.judge()
		for i, m := range row.status.Members {
			expect.Equal(t, row.want[i], m.Problem)
		}
	}
}

func TestReady_SaysWhatItWaitsFor(t *testing.T) {
	const serves = "this member serves nothing yet: "
	status := func(role raft.Role, change func(*Status)) Status {
		s := seenFrom(role, 3, "n2", "n3")
		s.Leadership, s.LeaderReason = raft.Leadership{Term: 2, Leader: "n1", Role: role}, "n1 leads in term 2"
		s.Commit, s.Applied, s.Last, s.patience = 7, 7, raft.EntryID{Term: 2, Index: 7}, time.Second
		change(&s)
		s.judge()
		return s
	}
	for _, row := range []struct {
		status  Status
		refused error
		want    string
	}{
		{status(raft.Follower, func(s *Status) { s.Leader, s.LeaderReason = "", "no leader: why" }), raft.ErrOverloaded, "no leader: why"},
		{status(raft.Leader, func(s *Status) { s.DiskStalled, s.LeaderReason = true, "its disk" }), nil, "its disk"},
		{status(raft.Leader, func(s *Status) { s.NoRoom, s.LeaderReason = "its disk", "its disk" }), nil, "its disk"},
		{status(raft.Follower, func(s *Status) { s.DiskStalled = true }), nil, serves + "its disk has stalled"},
		{status(raft.Follower, func(s *Status) { s.DiskStalled, s.NoRoom = true, noRoom(errors.New("full")) }), nil,
			serves + "its disk has no room for more entries of the log: make room, and it continues by itself (full)"},
		{status(raft.Follower, func(s *Status) { s.Applied = 3 }), nil, "entries up to 7 are committed, and this member has applied those up to 3"},
		{status(raft.Leader, func(s *Status) { s.Last.Index = 9 }), nil, "this member leads, but the entries from 8 to 9 do not reach a quorum"},
		{status(raft.Leader, func(s *Status) { s.Last.Index, s.Members[2].hindered = 9, raft.HinderedStalled }), nil,
			"this member leads, but the entries from 8 to 9 do not reach a quorum; n3: its disk has stalled"},
		{status(raft.Follower, func(*Status) {}), ErrReadTimedOut, "reads are not confirmed: raft: the read was not confirmed in time"},
		{status(raft.Follower, func(*Status) {}), nil, "n1 leads in term 2"},
		{status(raft.Follower, func(s *Status) { s.Snapshot.Receiving = &Transfer{Done: 1 << 10, Total: 4 << 10} }), nil,
			serves + "it lacks entries that the leader has compacted, and is sent a snapshot: 1 of 4 KiB"},
		{status(raft.Follower, func(s *Status) { s.Snapshot.Restoring = &Transfer{Done: 1 << 10, Total: 4 << 10} }), nil,
			serves + "its state machine is being restored from a snapshot, 0s so far: 1 of 4 KiB"},
		{status(raft.Follower, func(s *Status) { s.Snapshot.ReceiveErr = raft.ErrClosed }), nil,
			"n1 leads in term 2; the last snapshot that it sent did not arrive: " + raft.ErrClosed.Error()},
	} {
		expect.Equal(t, row.want, unready(row.status, row.refused))
	}
}

func TestHistory_KeepsTheLatestNotes(t *testing.T) {
	h := &history{}
	for i := range 3 * traceEventsMax / 2 {
		h.add(int64(i), []raft.TraceEvent{{Index: raft.Index(i)}})
	}
	events := h.all()
	expect.Len(t, events, traceEventsMax)
	expect.Equal(t, raft.Index(traceEventsMax/2), events[0].Index)
	expect.Equal(t, raft.Index(3*traceEventsMax/2-1), events[traceEventsMax-1].Index)
	expect.Equal(t, int64(3*traceEventsMax/2-1), events[traceEventsMax-1].at)
}

func TestHistory_SaysWhyLeadershipLastChanged(t *testing.T) {
	h := &history{}
	follow := func(term raft.Term, leader raft.NodeID) raft.Leadership {
		return raft.Leadership{Term: term, Leader: leader}
	}
	expect.Equal(t, "n1 leads in term 1", h.change(follow(0, ""), follow(1, "n1"), nil))
	timeout := []raft.TraceEvent{{Kind: raft.TraceRefused, Peer: "x"}, {Kind: raft.TraceTimeout}, {Kind: raft.TracePreCampaign}, {Kind: raft.TraceVoteDenied}}
	expect.Equal(t, "no leader: n1 led in term 1 (election timeout)",
		h.change(follow(1, "n1"), raft.Leadership{Term: 1, Role: raft.PreCandidate}, timeout))
	expect.Equal(t, "no leader: n1 led in term 1 (election timeout)",
		h.change(raft.Leadership{Term: 1, Role: raft.PreCandidate}, raft.Leadership{Term: 2, Role: raft.Candidate}, nil))
	expect.Equal(t, "n2 leads in term 2, after n1 in term 1 (election timeout)",
		h.change(raft.Leadership{Term: 2, Role: raft.Candidate}, raft.Leadership{Term: 2, Leader: "n2", Role: raft.Leader}, []raft.TraceEvent{{Kind: raft.TraceLeader}}))
	newer := []raft.TraceEvent{{Kind: raft.TraceNewerTerm, Peer: "n3", Term: 2, Newer: 3}, {Kind: raft.TraceFollower, Peer: "n3", Term: 3}}
	expect.Equal(t, "n3 leads in term 3, after n2 in term 2 (term 3 of n3 is newer than 2)",
		h.change(raft.Leadership{Term: 2, Leader: "n2", Role: raft.Leader}, follow(3, "n3"), newer))
	h.change(follow(3, "n3"), follow(3, ""), timeout)
	expect.Equal(t, "n3 leads in term 3, and is heard again (election timeout)", h.change(follow(3, ""), follow(3, "n3"), nil))
}

func TestHistory_SaysWhyThisMemberTookOver(t *testing.T) {
	h := &history{}
	lead := raft.Leadership{Term: 2, Leader: "n2", Role: raft.Leader}
	h.change(raft.Leadership{}, raft.Leadership{Term: 1, Leader: "n1"}, nil)
	won := []raft.TraceEvent{{Kind: raft.TraceVoteGranted}, {Kind: raft.TraceLeader, Text: "11ms after the process of n1 had ended"}, {Kind: raft.TraceConfigCommitted}}
	expect.Equal(t, "n2 leads in term 2: it took over 11ms after the process of n1 had ended", h.change(raft.Leadership{Term: 2, Role: raft.Candidate}, lead, won))
	expect.Equal(t, "n2 leads in term 2", (&history{}).change(raft.Leadership{}, lead, []raft.TraceEvent{{Kind: raft.TraceLeader}}), "it bootstrapped the cluster")
}

func TestHistory_SaysSinceWhenTheLeaderLeads(t *testing.T) {
	h, first, none := &history{}, raft.Leadership{Term: 1, Leader: "n1"}, raft.Leadership{Term: 1}
	expect.Zero(t, h.inOffice(5, none))
	h.noteOffice(10, first)
	h.noteOffice(20, none)
	expect.Zero(t, h.inOffice(25, none))
	h.noteOffice(30, first)
	expect.EqualValues(t, 25, h.inOffice(35, first), "it was only not heard for a while")
	again := raft.Leadership{Term: 2, Leader: "n1"}
	expect.Zero(t, h.inOffice(35, again))
	h.noteOffice(40, again)
	expect.EqualValues(t, 2, h.inOffice(42, again))
}

func TestCounters_LeaderChangesByCause(t *testing.T) {
	c := newCounters()
	none := raft.Leadership{Term: 1, Role: raft.Candidate}
	c.changed(none, raft.Leadership{Term: 1, Leader: "n1", Role: raft.Leader}, raft.CauseNews)
	c.changed(raft.Leadership{Term: 1, Leader: "n1", Role: raft.Leader}, raft.Leadership{Term: 2, Leader: "n2"}, 0)
	c.changed(raft.Leadership{Term: 2, Leader: "n2"}, raft.Leadership{Term: 2, Role: raft.PreCandidate}, 0)
	c.changed(none, raft.Leadership{Term: 3, Leader: "n2"}, 0)
	expect.EqualValues(t, 2, c.followed.Load())
	for cause := range c.tookOver {
		want := 0
		if raft.Cause(cause) == raft.CauseNews {
			want = 1
		}
		expect.EqualValues(t, want, c.tookOver[cause].Load(), raft.Cause(cause))
	}
}

func TestHistogram_CountsIntoFixedBuckets(t *testing.T) {
	h := newHistogram([]float64{1, 10}, 1)
	for _, v := range []int64{0, 1, 2, 10, 11, 1000} {
		h.observe(v)
	}
	got := h.read()
	expect.Equal(t, []uint64{2, 2, 2}, got.Counts)
	expect.Equal(t, uint64(6), got.Count())
	expect.Equal(t, 1024.0, got.Sum)
}

func TestSlog_CarriesLevelNameAndArguments(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	l := Slog(slog.New(handler))
	l.Debug("silent")
	l.Named("raft").With("member", "n1").Named("tcp").Warn("refused", "port", hclog.Hex(255), "who", hclog.Fmt("%d-%d", 1, 2))
	l.ResetNamed("x").Error("bad")
	expect.Equal(t, "level=WARN msg=refused logger=raft.tcp member=n1 port=0xff who=1-2\nlevel=ERROR msg=bad logger=x\n", out.String())
	expect.True(t, l.IsInfo())
	expect.False(t, l.IsDebug())
	expect.Equal(t, hclog.Info, l.GetLevel())
	expect.Equal(t, "raft.tcp", l.Named("raft").Named("tcp").Name())
}
