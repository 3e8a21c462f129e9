package raft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const diskStallMax = raft.Time(time.Second)

// stalledLeader returns a leader of the members in term 2. Its disk never finishes the write of its no-op, entry 3. The
// leader hears its followers in every round, and they hold the log durably up to acked.
func stalledLeader(t *testing.T, members string, acked map[raft.NodeID]raft.Index) *core {
	c := leaderOf(t, members, 2, 1)
	c.hear(acked)
	c.waitHearing(diskStallMax-electionTimeout, acked)
	return c
}

// hear lets each of the members answer the last heartbeat, and acknowledge entries up to the given index.
func (c *core) hear(acked map[raft.NodeID]raft.Index) raft.Output {
	var events []raft.Event
	for _, m := range membersNamed("bcde") {
		if i, up := acked[m.ID]; up {
			events = append(events, c.from(m.ID, 2, raft.HeartbeatReply{Round: c.beat}))
			if i > 0 {
				events = append(events, c.from(m.ID, 2, raft.AppendReply{Match: i}))
			}
		}
	}
	return c.step(events...)
}

// waitHearing lets time pass, round after round, and returns the trace events of that time.
func (c *core) waitHearing(d raft.Time, acked map[raft.NodeID]raft.Index) (events []raft.TraceEventKind) {
	for end := c.now + d; c.now < end; {
		events = append(events, traced(c.after(min(heartbeatPace, end-c.now)))...)
		events = append(events, traced(c.hear(acked))...)
	}
	return events
}

func (c *core) toldToCampaign() (ids []raft.NodeID) {
	for _, m := range c.out.Send {
		if _, ok := m.Body.(raft.TimeoutNow); ok {
			ids = append(ids, m.To.ID)
		}
	}
	return ids
}

// A leader with a stalled disk transfers its leadership if a quorum without it may be ahead. If there is no such quorum, it
// stays leader and refuses proposals (docs/divergence.md).
func TestStall_WhoGetsTheLeadership(t *testing.T) {
	type acks = map[raft.NodeID]raft.Index
	for _, row := range []struct {
		rule    string
		members string
		acked   acks // heard members, with their durable indexes; the leader's is 2
		target  []raft.NodeID
	}{
		{"a quorum without it is ahead", "abc", acks{"b": 3, "c": 3}, []raft.NodeID{"b"}},
		{"it does not count itself", "abc", acks{"b": 3, "c": 2}, nil},
		{"voters that are even with the leader are not ahead", "abc", acks{"b": 2, "c": 2}, nil},
		{"all stall", "abc", acks{"b": 0, "c": 0}, nil},
		{"a silent voter may elect a voter that is ahead", "abc", acks{"b": 3}, []raft.NodeID{"b"}},
		{"a silent voter does not help one that is not ahead", "abc", acks{"b": 2}, nil},
		{"two silent voters may elect one that is ahead", "abcde", acks{"b": 2, "c": 3}, []raft.NodeID{"c"}},
		{"two silent voters alone are no quorum", "abcde", acks{"b": 2, "c": 2}, nil},
		{"one silent voter and one that is ahead are no quorum of four", "abcd", acks{"b": 2, "c": 3}, nil},
		{"three of five are ahead", "abcde", acks{"b": 2, "c": 3, "d": 3, "e": 3}, []raft.NodeID{"c"}},
		{"two of five are no quorum", "abcde", acks{"b": 3, "c": 3, "d": 2, "e": 2}, nil},
		{"the other of two is no quorum", "ab", acks{"b": 3}, nil},
		{"nobody is there", "a", acks{}, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := stalledLeader(t, row.members, row.acked)
			events := c.waitHearing(electionTimeout-1, row.acked)
			assert.NotContains(t, events, raft.TraceDiskStalled, "not before its time")
			require.LessOrEqual(t, c.out.WakeAt, c.now+1, "it wakes for it")
			out := c.after(1)
			assert.Contains(t, traced(out), raft.TraceDiskStalled)
			assert.Equal(t, row.target, c.toldToCampaign())
			assert.Empty(t, out.Write.Then, "nothing waits for the disk")
			assert.Equal(t, raft.Leader, c.Leadership().Role, "until somebody is elected")

			refusal := raft.RefusedStalled
			if row.target != nil {
				refusal = raft.RefusedTransferring
			}
			assert.Equal(t, []raft.Answer{{
				RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: refusal, Leader: c.leaderOfAnswer(row.target),
			}}, c.propose("x").Answers)
			assert.True(t, c.Status().DiskStalled)
		})
	}
}

func (c *core) leaderOfAnswer(target []raft.NodeID) raft.NodeID {
	if len(target) == 0 {
		return ""
	}
	return target[0]
}

// A stale member will end, and votes for nobody. If the leader counted it as possibly ahead, it would give up its leadership
// for nothing, and the cluster would lose its reads.
func TestStall_WhoHasLostWhatItAcknowledgedGoesOnWithNobody(t *testing.T) {
	acked := map[raft.NodeID]raft.Index{"b": 3, "c": 2}
	c := stalledLeader(t, "abc", acked)
	c.receive("c", 2, raft.AppendConflict{Prev: 2, Hint: id(1, 0), Acknowledged: 2})
	require.Equal(t, "stale", c.progress("c").State)
	delete(acked, "c")
	notes := c.waitHearing(2*diskStallMax, acked)
	assert.Contains(t, notes, raft.TraceDiskStalled)
	assert.NotContains(t, notes, raft.TraceTransfer)
	assert.Equal(t, raft.Leader, c.Leadership().Role)
}

// durablyLeading returns a leader in term 2 whose log, with entry 9 at its end, is durable.
func durablyLeading(t *testing.T) *core {
	c := begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 1}, 1, 1, 1, 1, 1, 1, 1))
	c.electedBy("c")
	c.persist()
	return c
}

// The record of a snapshot can stall while the whole log is durable. Before another entry exists, nobody can be ahead of that
// disk. So the leader appends an entry, and transfers its leadership once the others have persisted it.
func TestStall_AtTheRecordOfASnapshot(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 9, "c": 9}
	stalled := func(t *testing.T) *core {
		c := durablyLeading(t)
		out := c.hear(both)
		require.NotNil(t, out.Keep)
		taken(c, out.Keep.Take, 1)
		assert.NotContains(t, c.waitHearing(diskStallMax-ms, both), raft.TraceDiskStalled)
		assert.NotContains(t, c.waitHearing(diskStallMax, both), raft.TraceTransfer, "nobody is ahead")
		require.True(t, c.Status().DiskStalled)
		require.Equal(t, id(10, 2), c.Status().Last, "one entry is enough")
		return c
	}
	c := stalled(t)
	assert.Equal(t, raft.RefusedStalled, c.propose("z").Answers[0].Refusal)
	c.hear(map[raft.NodeID]raft.Index{"b": 9, "c": 10})
	assert.Empty(t, c.toldToCampaign(), "c alone is not a quorum")
	c.hear(map[raft.NodeID]raft.Index{"b": 10, "c": 10})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())

	c = stalled(t)
	assert.NotContains(t, c.waitHearing(10*diskStallMax, both), raft.TraceTransfer, "their disks are stalled, too")
	assert.Equal(t, id(10, 2), c.Status().Last)
	assert.Equal(t, raft.RefusedStalled, c.propose("z").Answers[0].Refusal)
}

// A disk can hang while it has nothing to write. The leader detects this while entries wait to be committed or
// applied.
func TestStall_AnIdleDiskIsTriedWhileTheLogWaits(t *testing.T) {
	behind := map[raft.NodeID]raft.Index{"b": 7}
	tried := func(c *core) (hard *raft.HardState, after raft.Time) {
		for began := c.now; c.now < began+2*diskStallMax; c.hear(behind) {
			out := c.after(min(heartbeatPace, c.out.WakeAt-c.now))
			if out.Write.Hard != nil {
				assert.Nil(t, out.Write.Log)
				return out.Write.Hard, c.now - began
			}
		}
		return nil, 0
	}
	c := durablyLeading(t)
	for range 3 {
		hard, after := tried(c)
		require.NotNil(t, hard)
		assert.Equal(t, raft.HardState{Term: 2, Vote: peer("a")}, *hard, "the same again")
		assert.Equal(t, diskStallMax, after)
		c.persist()
	}
	hard, _ := tried(c)
	require.NotNil(t, hard)
	hard, _ = tried(c)
	assert.Nil(t, hard, "once is enough")
	assert.True(t, c.Status().DiskStalled)
	assert.Equal(t, id(10, 2), c.Status().Last, "the others may get ahead")

	c = durablyLeading(t)
	c.hear(map[raft.NodeID]raft.Index{"b": 9, "c": 9})
	hard, _ = tried(c)
	assert.NotNil(t, hard, "all is committed, but the FSM may hang with the disk")
	c.persist()
	c.step(raft.Applied{ID: id(9, 2)})
	hard, _ = tried(c)
	assert.Nil(t, hard, "all is applied")
	out := c.propose("x")
	assert.NotNil(t, out.Write.Log)
	assert.Nil(t, out.Write.Hard, "the pending write shows whether the disk works")
}

// A no-op lets others get ahead only if there are others.
func TestStall_NobodyCanBeAheadOfTheOnlyVoter(t *testing.T) {
	c := leaderOf(t, "a", 2, 1)
	c.persist()
	c.waitHearing(3*diskStallMax, nil)
	require.True(t, c.Status().DiskStalled, "nothing is applied, so the disk was checked")
	assert.Equal(t, id(3, 2), c.Status().Last)
}

// A member that the leader hears may be about to get ahead. It would be the better successor.
func TestStall_TheNoopHasTimeToArriveBeforeTheLeaderStepsDown(t *testing.T) {
	c, _ := lagging(t, nil)
	c.propose("x")
	c.persist()
	appended := raft.Time(0)
	for began := c.now; c.Leadership().Role == raft.Leader && c.now < began+4*diskStallMax; {
		c.after(heartbeatPace)
		if appended == 0 && c.Status().Last.Index == 11 {
			appended = c.now
		}
		c.echo("b", 0)
	}
	require.NotZero(t, appended)
	assert.Equal(t, raft.Follower, c.Leadership().Role, "c may be elected, and bring b a snapshot")
	assert.InDelta(t, float64(electionTimeout), float64(c.now-appended), float64(heartbeatPace))
}

// A stalled disk may be unable to read a snapshot. If another member has a working disk, it can become leader and send a
// snapshot to the member that needs one.
func TestStall_WhoNeedsASnapshotMayGoOnUnderAnother(t *testing.T) {
	for _, row := range []struct {
		rule   string
		c      raft.Index // durable index of c
		target []raft.NodeID
	}{
		{"with c, which is ahead", 10, []raft.NodeID{"c"}},
		{"not with c, which is not ahead", 9, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, _ := lagging(t, nil)
			require.Equal(t, "snapshot", progressOf(c, "b").State)
			c.propose("x")
			c.receive("c", 3, raft.AppendReply{Match: row.c})
			var told []raft.NodeID
			for range diskStallMax/heartbeatPace + 1 {
				c.after(heartbeatPace)
				told = append(told, c.toldToCampaign()...)
				c.echo("b", 0)
				c.echo("c", row.c)
			}
			assert.True(t, c.Status().DiskStalled)
			assert.Equal(t, row.target, slices.Compact(told))
			assert.Equal(t, raft.Leader, c.Leadership().Role)
		})
	}
}

// While the voters change, a leaving member may be the only one that can help the members that stay.
func TestStall_WhoIsLeavingMayHelpWhoNeedsASnapshot(t *testing.T) {
	c, _ := lagging(t, nil)
	c.echo("b", 0)
	c.echo("c", c.Status().Last.Index)
	c.change(raft.Change{Demote: []raft.Peer{peer("a")}, Remove: []raft.Peer{peer("c")}})
	require.True(t, c.Status().Config.Joint(), "{a b c} and {b}")
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	var told []raft.NodeID
	for range diskStallMax/heartbeatPace + 1 {
		c.after(heartbeatPace)
		told = append(told, c.toldToCampaign()...)
		c.echo("b", 0)
		c.acknowledge("c")
		told = append(told, c.toldToCampaign()...)
		c.echo("c", 0)
	}
	assert.True(t, c.Status().DiskStalled)
	assert.Equal(t, []raft.NodeID{"c"}, slices.Compact(told))
}

// No member that the leader hears is ahead, so none can be the target of a transfer. But the silent member may be ahead. It
// gets the vote of the member that needs a snapshot, and sends that member one.
func TestStall_WhoIsNotHeardMayHelpWhoNeedsASnapshot(t *testing.T) {
	c, _ := lagging(t, nil)
	c.propose("x")
	var told []raft.NodeID
	for range diskStallMax/heartbeatPace + 1 {
		if c.Leadership().Role != raft.Leader {
			break
		}
		assert.Empty(t, c.toldToCampaign())
		c.after(heartbeatPace)
		for _, m := range c.out.Send {
			if _, ok := m.Body.(raft.SteppedDown); ok {
				told = append(told, m.To.ID)
			}
		}
		c.echo("b", 0)
	}
	assert.Equal(t, []raft.NodeID{"b", "c"}, told)
	assert.Equal(t, raft.Leadership{Term: 3}, c.Leadership())
}

// A learner that is ahead does not count, because it has no vote.
func TestStall_LearnersAreNoQuorum(t *testing.T) {
	members := membersNamed("abcde")
	members[3].Kind, members[4].Kind = raft.Learner, raft.Learner
	c := restart(t, members, raft.HardState{Term: 1}, 1)
	c.electedBy("b")
	require.Equal(t, raft.Leader, c.Leadership().Role)
	acked := map[raft.NodeID]raft.Index{"b": 2, "c": 3, "d": 3, "e": 3}
	c.hear(acked)
	c.waitHearing(2*diskStallMax, acked)
	assert.True(t, c.Status().DiskStalled)
	assert.Empty(t, c.toldToCampaign())
	acked["b"] = 3
	c.hear(acked)
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign(), "as soon as the voters are ahead")
}

// The limit applies to the time that the disk has spent on one write. Later writes do not extend it.
func TestStall_NewWritesDoNotPutTheLimitOff(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	c.propose("z")
	assert.NotContains(t, c.waitHearing(diskStallMax-heartbeatPace, both), raft.TraceDiskStalled)
	assert.False(t, c.Status().DiskStalled)
	c.propose("behind it")
	assert.Contains(t, c.waitHearing(heartbeatPace, both), raft.TraceDiskStalled)
}

// "A disk that is slow, but finishes its writes, has not stalled." The time for which a write waits for an earlier write does
// not count.
func TestStall_ASlowDiskHasNotStalled(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	for range 5 {
		first := c.seq
		c.propose("x")
		c.waitHearing(heartbeatPace, both)
		c.propose("behind it")
		assert.NotContains(t, c.waitHearing(diskStallMax-2*heartbeatPace, both), raft.TraceDiskStalled)
		c.step(raft.Persisted{Seq: first + 1})
		assert.NotContains(t, c.waitHearing(diskStallMax-2*heartbeatPace, both), raft.TraceDiskStalled)
		c.persist()
	}
	assert.Equal(t, raft.Leader, c.Leadership().Role)
}

// After a disk took long for one write, it may take three times as long for the next one. But a stall that ended does not
// raise the limit without bound. The time for which a write waits for earlier writes counts neither towards the limit nor as
// time of the disk.
func TestStall_TheQueueBeforeAWriteDoesNotCount(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	var queued []raft.Seq
	for _, command := range []string{"1", "2", "3", "4", "5"} {
		c.propose(command)
		queued = append(queued, c.seq)
	}
	for _, seq := range queued {
		assert.NotContains(t, c.waitHearing(diskStallMax/4, both), raft.TraceDiskStalled)
		c.step(raft.Persisted{Seq: seq})
	}
	c.propose("x")
	assert.NotContains(t, c.waitHearing(diskStallMax-heartbeatPace, both), raft.TraceDiskStalled)
	assert.Contains(t, c.waitHearing(heartbeatPace, both), raft.TraceDiskStalled)
}

func TestStall_TheLimitGrowsWithWhatWritesTook(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	for _, row := range []struct{ took, limit raft.Time }{
		{diskStallMax / 4, diskStallMax}, {diskStallMax / 2, diskStallMax * 3 / 2}, {20 * diskStallMax, 64 * electionTimeout},
	} {
		c := leaderOf(t, "abc", 2, 1)
		c.persist()
		c.propose("x")
		c.waitHearing(row.took, both)
		c.persist()
		c.propose("y")
		assert.NotContains(t, c.waitHearing(row.limit-heartbeatPace, both), raft.TraceDiskStalled, "%v", row)
		assert.Contains(t, c.waitHearing(heartbeatPace, both), raft.TraceDiskStalled, "%v", row)
	}
}

// Before the target gets the TimeoutNow, it gets the proposals that were accepted before the stall. Their callers get an
// answer when this member hears the next leader: the proposals may be applied.
func TestStall_APendingProposalGoesWithTheLog(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := stalledLeader(t, "abc", both)
	c.propose("x")
	c.waitHearing(electionTimeout, both)
	assert.Empty(t, c.toldToCampaign(), "b lacks entry 4")
	c.receive("b", 2, raft.AppendReply{Match: 4})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())

	out := c.receive("b", 3, raft.VoteRequest{Last: id(4, 2), Transfer: true})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
	assert.Equal(t, []raft.Message{c.to("b", raft.VoteReply{Granted: true})}, out.Write.Then, "its vote waits for its disk")
	assert.Empty(t, out.Send)
	out = c.receive("b", 3, raft.Heartbeat{})
	assert.Empty(t, out.Answers, "nobody asked for the transfer")
	assert.Equal(t, raft.Leadership{Term: 3, Leader: "b", LeaderIncarnation: 'b', ByTransfer: true}, c.Leadership())
}

// If the target of a transfer does not win, the transfer ends at its deadline. Another transfer begins, to a voter that the
// leader hears.
func TestStall_ATransferThatDoesNotWinIsRepeated(t *testing.T) {
	five := map[raft.NodeID]raft.Index{"b": 3, "c": 3, "d": 3, "e": 3}
	c := stalledLeader(t, "abcde", five)
	c.waitHearing(electionTimeout-heartbeatPace, five)
	c.after(heartbeatPace)
	require.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	delete(five, "b") // its disk has stalled, too: its campaign sends nothing
	told := map[raft.NodeID]bool{}
	c.hear(five)
	for end := c.now + 3*electionTimeout; c.now < end; {
		c.after(heartbeatPace)
		for _, id := range c.toldToCampaign() {
			told[id] = true
		}
		c.hear(five)
	}
	assert.Contains(t, told, raft.NodeID("c"))
	assert.Equal(t, raft.Leader, c.Leadership().Role)
}

// The disk works again.
func TestStall_ALeaderWhoseWriteCompletesLeadsOn(t *testing.T) {
	none := map[raft.NodeID]raft.Index{"b": 2, "c": 2}
	c := stalledLeader(t, "abc", none)
	c.waitHearing(2*electionTimeout, none)
	require.Equal(t, raft.RefusedStalled, c.propose("x").Answers[0].Refusal)
	c.persist()
	assert.False(t, c.Status().DiskStalled)
	assert.Equal(t, raft.AnswerAccepted, c.propose("x").Answers[0].Kind)
	assert.Equal(t, raft.Leadership{Term: 2, Leader: "a", LeaderIncarnation: 'a', Role: raft.Leader}, c.Leadership())

	c.persist()
	c.propose("y")
	assert.Contains(t, c.waitHearing(4*diskStallMax, none), raft.TraceDiskStalled, "a second stall is noted, too")
}

// A stall does not end a transfer that a caller requested. A transfer that a stall began answers no request.
func TestStall_OneTransferAtATime(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := stalledLeader(t, "abc", both)
	c.waitHearing(electionTimeout-heartbeatPace, both)
	c.transferTo("c")
	assert.Equal(t, []raft.NodeID{"c"}, c.toldToCampaign())
	for asked := c.now; len(c.out.Answers) == 0; { // c answers in this term: it does not campaign
		require.Less(t, c.now-asked, 3*electionTimeout)
		require.NotContains(t, c.toldToCampaign(), raft.NodeID("b"), "b gets TimeoutNow while c may still campaign")
		if c.after(heartbeatPace); len(c.out.Answers) == 0 {
			c.hear(both)
		}
	}
	assert.Equal(t, raft.RefusedTimedOut, c.out.Answers[0].Refusal)
	c.after(heartbeatPace)
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	assert.Equal(t, raft.RefusedTransferring, c.transferTo("c").Answers[0].Refusal)
	out := c.step(raft.Closing{})
	assert.Empty(t, out.Answers)
	assert.Empty(t, c.waitHearing(2*electionTimeout, both), "a member that closes starts no transfer")
}

// Check-quorum depends on messages, not on disks.
func TestStall_AStalledLeaderThatNobodyAnswersStepsDown(t *testing.T) {
	both := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
	c := stalledLeader(t, "abc", both)
	var events []raft.TraceEventKind
	for range electionTimeout / heartbeatPace {
		events = append(events, traced(c.after(heartbeatPace))...)
	}
	assert.Contains(t, events, raft.TraceQuorumLost)
	assert.NotContains(t, events, raft.TraceTransfer)
	assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership())
}

// A follower with a stalled disk reports this only in its status.
func TestStall_AFollowerSaysSo(t *testing.T) {
	c := follower(t, 2, 1)
	c.append("b", 2, id(2, 1), 2, 2)
	c.now += diskStallMax
	out := c.receive("b", 2, raft.Heartbeat{})
	assert.True(t, c.Status().DiskStalled)
	assert.Empty(t, traced(out))
	c.persist()
	assert.False(t, c.Status().DiskStalled)
}
