package raft_test

import (
	"errors"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lagging is a compacted leader, of base 8@2 and last entry 9@3, that has probed b at its base and was told that b's log
// ends at 3@1. The output is that of the conflict.
func lagging(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	t.Helper()
	c := compactedLeader(t, change)
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	return c, out
}

// offers are the offers among messages to a member.
func offers(messages []raft.Message, to raft.NodeID) (list []raft.InstallSnapshot) {
	for _, b := range bodies(messages, to) {
		if r, ok := b.(raft.InstallSnapshot); ok {
			list = append(list, r)
		}
	}
	return list
}

func progressOf(c *core, id raft.NodeID) raft.PeerProgress {
	for _, p := range c.Status().Peers {
		if p.ID == id {
			return p
		}
	}
	return raft.PeerProgress{}
}

// "the leader must occasionally send snapshots to followers that lag behind. This happens when the leader has already
// discarded the next log entry that it needs to send to a follower." (§7)
func TestOffer_AfterAConflictAtTheBase(t *testing.T) {
	c, out := lagging(t, nil)
	got := offers(out.Send, "b")
	require.Len(t, got, 1)
	assert.Equal(t, id(9, 3), got[0].Snapshot.ID)
	assert.Equal(t, fileOf(1), got[0].Snapshot.File)
	assert.NoError(t, got[0].Snapshot.Check())
	assert.Empty(t, appends(out.Send, "b"))
	assert.Equal(t, "snapshot", progressOf(c, "b").State)
	assert.Equal(t, id(9, 3), progressOf(c, "b").Offered)
	assert.EqualValues(t, 9, progressOf(c, "b").Next)

	// No append follows, whatever is appended; the offer is repeated every election timeout, not sooner.
	out = c.propose("x")
	assert.Empty(t, append(bodies(out.Send, "b"), bodies(out.Write.Then, "b")...))
	count := 0
	for range 9 {
		c.now += heartbeatPace
		count += len(offers(c.step().Send, "b"))
		c.echo("c", 9)
		count += len(offers(c.out.Send, "b"))
	}
	assert.Equal(t, 3, count, "three election timeouts have passed")
	out = c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation})
	assert.Len(t, offers(out.Send, "b"), 1, "a new connection repeats it at once")
	for _, e := range []raft.Event{
		raft.PeerLost{ID: "b"}, raft.SendDropped{To: "b", Span: raft.Span{After: 8, Last: 9}},
		c.from("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)}), c.from("b", 3, raft.AppendReply{Match: 3}),
	} {
		c.step(e)
		assert.Equal(t, "snapshot", progressOf(c, "b").State, "%T", e)
	}

	// "success via an append reply": it goes on behind the snapshot.
	out = c.receive("b", 3, raft.AppendReply{Match: 9})
	assert.Equal(t, "replicate", progressOf(c, "b").State)
	assert.Equal(t, []raft.Span{{After: 9, Last: 10}}, appends(out.Send, "b"))
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
}

// An acknowledgement that reaches the base is enough, even if it ends below the snapshot that is offered: it may be that of
// an earlier offer. One that ends below the base is not.
func TestOffer_EndsWithAnAcknowledgementBehindTheSnapshot(t *testing.T) {
	c, _ := lagging(t, nil)
	c.receive("b", 3, raft.AppendReply{Match: 7})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	out := c.receive("b", 3, raft.AppendReply{Match: 8})
	assert.Equal(t, "replicate", progressOf(c, "b").State)
	assert.Equal(t, []raft.Span{{After: 8, Last: 9}}, appends(out.Send, "b"))
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
}

// A follower that needs nothing behind its snapshot is replicated to at once, not only when another entry comes.
func TestOffer_OfTheWholeLog(t *testing.T) {
	c, _ := lagging(t, nil)
	out := c.receive("b", 3, raft.AppendReply{Match: 9})
	p := progressOf(c, "b")
	assert.Equal(t, []any{"replicate", raft.Index(9), raft.Index(10), 0}, []any{p.State, p.Match, p.Next, p.Inflight})
	assert.Empty(t, appends(out.Send, "b"))
	assert.Contains(t, bodies(out.Send, "b"), raft.Heartbeat{Commit: 9}, "it learns what is committed")
}

// A learner is brought a snapshot like a voter.
func TestOffer_ToALearner(t *testing.T) {
	cfg := snapConfig()
	members := membersNamed("abc")
	members[1].Kind = raft.Learner
	base := baseOf(id(8, 2))
	base.Config = raft.NewConfiguration(members)
	stored := raft.Stored{
		Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 2},
		Snapshot: raft.Snapshot{Base: base, File: fileOf(1), Size: 10},
	}
	stored.Log.Begin(base)
	c := begin(t, cfg, stored)
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Len(t, offers(out.Send, "b"), 1, "although the leader still restores it itself")
	assert.Equal(t, id(8, 2), offers(out.Send, "b")[0].Snapshot.ID)
	c.receive("b", 3, raft.AppendReply{Match: 8})
	assert.Equal(t, "replicate", progressOf(c, "b").State)
}

func TestOffer_OnlyAConflictAtTheBaseLeadsToOne(t *testing.T) {
	c := compactedLeader(t, nil)
	for _, e := range []raft.Event{
		raft.SendDropped{To: "b", Span: raft.Span{After: 3, Last: 9}}, raft.PeerLost{ID: "b"},
		raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation},
	} {
		out := c.step(e)
		assert.Empty(t, offers(out.Send, "b"), "%T", e)
		assert.Equal(t, "probe", progressOf(c, "b").State)
	}
	out := c.receive("b", 3, raft.AppendReply{Match: 8})
	assert.Equal(t, []raft.Span{{After: 8, Last: 9}}, appends(out.Send, "b"), "the base is enough")
}

// Without the storage for snapshots nothing is offered, and the follower is not probed again and again either.
func TestOffer_NeverWithoutTheStorageForIt(t *testing.T) {
	c := compacted(t, 5, id(4, 3), 3, 5)
	c.timeout()
	c.grantPreVote("b")
	c.persist()
	c.receive("b", 6, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("b", 6, raft.AppendReply{Match: 7})
	c.receive("c", 6, raft.AppendConflict{Prev: 6, Hint: id(2, 1)})
	out := c.receive("c", 6, raft.AppendConflict{Prev: 4, Hint: id(2, 1)})
	assert.Equal(t, "snapshot", progressOf(c, "c").State)
	assert.Empty(t, append(offers(out.Send, "c"), offers(c.after(electionTimeout/2).Send, "c")...))
}

// A stream that was given up is followed by an offer of the newest snapshot after a pause, which grows. A snapshot that is
// being sent keeps its file, and the entries behind it.
func TestOffer_AfterAStreamThatFailed(t *testing.T) {
	c, _ := lagging(t, nil)
	for range 8 {
		c.propose("x")
	}
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 17})
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 2)
	out = c.persist()
	assert.True(t, out.Keep == nil || len(out.Keep.Discard) == 0, "the first file is being sent")
	assert.Equal(t, id(17, 3), c.Status().Snapshot)
	out = c.after(electionTimeout)
	for _, o := range offers(out.Send, "b") {
		assert.Equal(t, fileOf(1), o.Snapshot.File, "a broken stream goes on")
	}
	c.echo("c", 17)
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))

	out = c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(1), Err: raft.StreamNoSpace})
	assert.Contains(t, traced(out), raft.TraceStreamEnded)
	assert.Empty(t, offers(out.Send, "b"), "not at once")
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, out.Keep.Discard)
	var again []raft.InstallSnapshot
	for began := c.now; len(again) == 0; {
		require.Less(t, c.now-began, 2*heartbeatPace+electionTimeout)
		c.now += heartbeatPace
		again = offers(c.step().Send, "b")
		c.echo("c", 17)
		again = append(again, offers(c.out.Send, "b")...)
	}
	assert.Equal(t, fileOf(2), again[0].Snapshot.File, "the newest")
	assert.Empty(t, offers(c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(1)}).Send, "b"), "an older stream's end is none of this one")
	assert.Len(t, offers(c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(2)}).Send, "b"), 1, "its acknowledgement may be lost")
}

func TestOffer_ALeaderThatStepsDownEndsItsStreams(t *testing.T) {
	c, _ := lagging(t, nil)
	out := c.receive("c", 4, raft.Heartbeat{})
	require.Equal(t, raft.Follower, c.Leadership().Role)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	assert.Empty(t, out.Keep.Discard, "the record still names the file")
}

// A follower that has lost what it acknowledged is not brought up to date: its vote may be lost, too.
func TestOffer_NotToAStaleMember(t *testing.T) {
	c := compactedLeader(t, nil)
	c.echo("b", 4)
	c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(4, 2), Acknowledged: 4})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	out := c.receive("b", 3, raft.AppendConflict{Prev: 9, Hint: id(2, 2), Acknowledged: 4})
	assert.Contains(t, traced(out), raft.TraceStaleMember)
	assert.Equal(t, "stale", progressOf(c, "b").State)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
}

// The state of a DurableFSM is frozen for one follower at a time, and has no file.
func TestOffer_OfAFrozenState(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	stored := storedBehind(t, 2, id(8, 2))
	c := begin(t, cfg, stored)
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	assert.Empty(t, offers(out.Send, "b"))
	require.NotNil(t, out.Keep)
	take := out.Keep.Take
	require.NotNil(t, take)
	assert.True(t, take.Hold && !take.Sync)
	frozen := raft.Snapshot{Base: take.Base, File: fileOf(5), Size: -1, Held: true}
	out = c.step(raft.SnapshotTaken{Take: take.ID, Snapshot: frozen})
	require.Len(t, offers(out.Send, "b"), 1)
	assert.Equal(t, frozen, offers(out.Send, "b")[0].Snapshot)
	assert.Nil(t, out.Write.Snapshot, "it is recorded nowhere")

	out = c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(5), Err: errors.New("broken")})
	assert.Nil(t, out.Keep)
	c.now += heartbeatPace
	c.echo("c", 9)
	c.echo("b", 0)
	c.now += heartbeatPace
	out = c.step()
	require.NotNil(t, out.Keep, "another one is frozen")
	require.True(t, out.Keep.Take.Hold)
	frozen.File = fileOf(6)
	c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Snapshot: frozen})
	out = c.receive("b", 3, raft.AppendReply{Match: 9})
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	assert.Equal(t, []raft.SnapshotID{fileOf(6)}, out.Keep.Discard, "it is no longer needed")
}

// offered is a snapshot of an entry, as b offers it.
func offered(last raft.EntryID, n byte) raft.Snapshot {
	return raft.Snapshot{Base: baseOf(last), File: fileOf(n), Size: 100, Sum: 7}
}

// snapFollower is a follower of b in term 5 that takes snapshots; its log is 1@0 2@1 3@1 4@3, committed up to 2.
func snapFollower(t *testing.T) *core {
	t.Helper()
	c := begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 5}, 1, 1, 3))
	c.append("b", 5, id(2, 1), 2)
	require.EqualValues(t, 2, c.Status().Commit)
	return c
}

func (c *core) offer(s raft.Snapshot, acknowledged raft.Index) raft.Output {
	return c.receive("b", 5, raft.InstallSnapshot{Snapshot: s, Acknowledged: acknowledged})
}

// What a follower does with an offer, by what its log holds at the snapshot's last entry.
func TestInstall_TheOffer(t *testing.T) {
	for _, row := range []struct {
		rule    string
		last    raft.EntryID
		receive bool
		ack     bool // at once: the log holds the entry
	}{
		{"beyond the log", id(9, 4), true, false},
		{"right behind it", id(5, 3), true, false},
		{"its last entry is another", id(4, 4), true, false},
		{"a prefix of the log", id(4, 3), false, true},
		{"a shorter prefix", id(3, 1), false, true},
		{"what is committed", id(2, 1), false, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := snapFollower(t)
			out := c.offer(offered(row.last, 1), 0)
			assert.Equal(t, row.receive, out.Keep != nil && out.Keep.Receive != nil)
			assert.Nil(t, out.Write.Log, "nothing is dropped before it is here")
			assert.Equal(t, id(4, 3), c.Status().Last)
			if row.ack {
				assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: row.last.Index})}, out.Send)
				assert.Equal(t, row.last.Index, c.Status().Commit, "all that a snapshot holds is committed")
				return
			}
			assert.Empty(t, out.Send)
			assert.Equal(t, &raft.Receive{From: peer("b"), Snapshot: offered(row.last, 1)}, out.Keep.Receive)
			assert.Equal(t, row.last, c.Status().Receiving)
			out = c.offer(offered(row.last, 1), 0)
			require.NotNil(t, out.Keep, "repeated, because the receiver may have been restarted")
			assert.Empty(t, out.Trace)
		})
	}
}

// "7. Discard the entire log
// 8. Reset state machine using snapshot contents (and load snapshot's cluster configuration)" (Figure 13)
func TestInstall_ReplacesTheLogInOneWrite(t *testing.T) {
	c := snapFollower(t)
	s := offered(id(9, 4), 1)
	s.Config = raft.NewConfiguration(membersNamed("abcd"))
	c.offer(s, 0)
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, s, *out.Write.Snapshot)
	assert.Equal(t, &raft.LogWrite{After: id(9, 4), Reset: true, Generation: 2}, out.Write.Log)
	assert.Nil(t, out.Write.Base)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 9})}, out.Write.Then, "acknowledged once it is durable")
	assert.Empty(t, out.Send)
	assert.Nil(t, out.Restore, "not before the record is durable")
	assert.Zero(t, out.Apply)
	require.NotNil(t, out.Config)
	assert.Equal(t, s.Config, *out.Config)
	status := c.Status()
	assert.Equal(t, []raft.EntryID{id(9, 4), id(9, 4)}, []raft.EntryID{status.Base, status.Last})
	assert.EqualValues(t, 9, status.Commit)
	assert.Zero(t, status.Persisted, "nothing of the new log is durable yet")

	// Meanwhile a heartbeat is answered with nothing, another offer waits, and entries are taken.
	out = c.receive("b", 5, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
	assert.Equal(t, []raft.Message{c.to("b", raft.HeartbeatReply{Round: raft.RPCID{StartCount: 1, Counter: 1}})}, out.Send)
	out = c.offer(offered(id(20, 5), 2), 0)
	assert.Nil(t, out.Keep)
	out = c.append("b", 5, id(9, 4), 10, 5)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 10})}, out.Write.Then)

	out = c.persist()
	require.NotNil(t, out.Restore)
	assert.Equal(t, s, *out.Restore)
	assert.Equal(t, id(10, 5), out.Apply)
	assert.EqualValues(t, 10, c.Status().Persisted)
	out = c.step(raft.Applied{ID: id(9, 4)})
	assert.Nil(t, out.Restore)
	assert.Zero(t, c.Status().Restoring)
	assert.Equal(t, id(9, 4), c.Status().Snapshot)
}

// A crash between the record and the reset leaves a log without the snapshot's entry: Load resets it, and the member goes
// on from what Load returns. A crash before the record leaves everything as it was.
func TestInstall_ACrashBeforeTheRestore(t *testing.T) {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 5}, Snapshot: offered(id(9, 4), 1)}
	stored.Log.Begin(stored.Snapshot.Base)
	c := begin(t, snapConfig(), stored)
	require.NotNil(t, c.out.Restore)
	assert.EqualValues(t, 9, c.Status().Commit)
	out := c.offer(offered(id(9, 4), 1), 0)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 9})}, out.Send, "the acknowledgement that the crash lost")
}

// A snapshot that has arrived is judged again by what the log holds by then.
func TestInstall_WhatIsNotNeededIsLeft(t *testing.T) {
	other := offered(id(9, 4), 2)
	for _, row := range []struct {
		rule   string
		before func(*core)
		arrive raft.SnapshotArrived
		ack    raft.Index
	}{
		{"the log has grown beyond it", func(c *core) { c.append("b", 5, id(4, 3), 0, 4, 4, 4, 4, 4, 4); c.persist() },
			raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)}, 9},
		{"it was not asked for", func(*core) {}, raft.SnapshotArrived{From: peer("c"), Snapshot: offered(id(9, 4), 3)}, 0},
		{"it has other bytes", func(*core) {}, raft.SnapshotArrived{From: peer("b"), Snapshot: other}, 0},
		{"another one was asked for since", func(c *core) { c.offer(other, 0) },
			raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)}, 0},
		{"its sender has proved another entry there", func(c *core) { c.append("b", 5, id(4, 3), 0, 3, 3, 3, 3, 3); c.persist() },
			raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)}, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := snapFollower(t)
			c.offer(offered(id(9, 4), 1), 0)
			row.before(c)
			last := c.Status().Last
			out := c.step(row.arrive)
			assert.Nil(t, out.Write.Log)
			assert.Nil(t, out.Write.Snapshot)
			assert.Equal(t, last, c.Status().Last, "nothing is dropped")
			require.NotNil(t, out.Keep)
			assert.Equal(t, []raft.SnapshotID{row.arrive.Snapshot.File}, out.Keep.Discard)
			if row.ack > 0 {
				assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: row.ack})}, out.Send)
			}
		})
	}
}

// What a snapshot holds is committed, whoever leads when it has arrived.
func TestInstall_UnderAnotherLeader(t *testing.T) {
	c := snapFollower(t)
	c.offer(offered(id(9, 4), 1), 0)
	c.receive("c", 6, raft.Heartbeat{})
	c.persist()
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)})
	assert.Equal(t, id(9, 4), c.Status().Last)
	assert.Empty(t, append(out.Send, out.Write.Then...), "its sender leads no more")
	out = c.append("c", 6, id(9, 4), 0, 6)
	assert.Equal(t, []raft.Message{c.to("c", raft.AppendReply{Match: 10})}, out.Write.Then)
}

// The same bytes may come from two leaders, of which the later has got them from the earlier. The file of the first arrival
// is not deleted under the second.
func TestInstall_TheSameBytesFromTwoLeaders(t *testing.T) {
	c := snapFollower(t)
	s := offered(id(9, 4), 1)
	c.offer(s, 0)
	c.receive("c", 6, raft.InstallSnapshot{Snapshot: s})
	c.persist()
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s}, raft.SnapshotArrived{From: peer("c"), Snapshot: s})
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, s.File, out.Write.Snapshot.File)
	assert.Nil(t, out.Keep)
	assert.Equal(t, []raft.Message{c.to("c", raft.AppendReply{Match: 9})}, out.Write.Then, "it is acknowledged to the leader")
	out = c.persist()
	require.NotNil(t, out.Restore)
	assert.Nil(t, out.Keep)
}

// Own snapshots: one that is being taken is superfluous after an install, and never replaces it.
func TestInstall_WhileASnapshotIsTaken(t *testing.T) {
	c, out := eight(t, nil)
	take := out.Keep.Take
	s := offered(id(20, 3), 9)
	c.receive("b", 3, raft.InstallSnapshot{Snapshot: s})
	c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	out = taken(c, take, 1)
	assert.Nil(t, out.Write.Snapshot)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, out.Keep.Discard)
	out = c.persist()
	require.NotNil(t, out.Restore)
	assert.Equal(t, fileOf(9), out.Restore.File)
}

func TestInstall_AnUninitializedMember(t *testing.T) {
	cfg := snapConfig()
	c := begin(t, cfg, raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	s := offered(id(9, 4), 1)
	out := c.receive("b", 5, raft.InstallSnapshot{Snapshot: s})
	require.NotNil(t, out.Keep)
	assert.Zero(t, out.Write.Seq, "it stays uninitialized")
	assert.True(t, c.Status().Uninitialized)
	assert.Nil(t, c.receive("c", 4, raft.InstallSnapshot{Snapshot: offered(id(7, 4), 2)}).Keep, "a leader of an earlier term does not take its place")
	out = c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	require.NotNil(t, out.Write.Hard, "term and cluster become durable together")
	assert.Equal(t, raft.HardState{Term: 5}, *out.Write.Hard)
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, clusterOfTheTests, c.Status().Cluster)
	assert.Equal(t, raft.Leadership{Term: 5}, c.Leadership())
	assert.Equal(t, s, *c.persist().Restore)
}

// An append of an earlier term may have raised the term of an uninitialized member meanwhile, and a bootstrap may have
// made it one of another cluster.
func TestInstall_WhatHappensToAnUninitializedMemberMeanwhile(t *testing.T) {
	c := begin(t, snapConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	s := offered(id(9, 5), 1)
	c.receive("b", 5, raft.InstallSnapshot{Snapshot: s})
	c.append("c", 4, id(3, 1), 0)
	require.EqualValues(t, 4, c.Leadership().Term)
	require.NotPanics(t, func() { c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s}) })
	assert.EqualValues(t, 5, c.Leadership().Term)

	cfg := snapConfig()
	cfg.Initial = listNamed("abc")
	c = begin(t, cfg, raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	s = offered(id(9, 4), 1)
	s.Cluster = raft.ClusterID{9}
	m := c.from("b", 5, raft.InstallSnapshot{Snapshot: s})
	m.Message.Cluster = s.Cluster
	require.NotNil(t, c.step(m).Keep)
	c.append("b", 1, id(0, 0), 0)
	c.receive("b", 1, raft.AppendRequest{Last: id(1, 0), Entries: []raft.Entry{bootstrapEntry(membersNamed("abc"))}})
	require.Equal(t, clusterOfTheTests, c.Status().Cluster)
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	assert.Nil(t, out.Write.Snapshot)
	assert.Equal(t, clusterOfTheTests, c.Status().Cluster)
}

// An offer carries the same evidence as an append: of committed entries that its sender lacks, and of acknowledged ones
// that this member has lost.
func TestInstall_TheEvidenceOfAnOffer(t *testing.T) {
	c := snapFollower(t)
	c.receive("c", 6, raft.Heartbeat{})
	c.persist()
	out := c.receive("c", 6, raft.InstallSnapshot{Snapshot: offered(id(2, 2), 1)})
	require.NotNil(t, out.Write.Mark)
	assert.Equal(t, raft.MarkContradicted, out.Write.Mark.Kind)
	assert.Nil(t, out.Keep)

	c = snapFollower(t)
	out = c.offer(offered(id(9, 4), 1), 6)
	require.NotNil(t, out.Write.Mark)
	assert.Equal(t, raft.MarkStaleImage, out.Write.Mark.Kind)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendConflict{Prev: 9, Hint: id(4, 3), Acknowledged: 6})}, out.Send)
	assert.Nil(t, out.Keep)
	assert.Nil(t, c.offer(offered(id(9, 4), 1), 0).Keep, "a marked member takes no snapshot")

	// A mark in the step of an install drops the install: the log is evidence.
	c = snapFollower(t)
	c.offer(offered(id(9, 4), 1), 0)
	c.receive("c", 6, raft.Heartbeat{})
	c.persist()
	out = c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)}, c.from("c", 6, appendOf(id(9, 3), 0)))
	require.NotNil(t, out.Write.Mark)
	assert.Nil(t, out.Write.Snapshot)
	assert.Nil(t, out.Write.Log)
	assert.Nil(t, c.persist().Restore)
}

func TestInstall_AnOfferThatNoLeaderSends(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*raft.Message, *raft.InstallSnapshot)
	}{
		{"of another leader", func(m *raft.Message, _ *raft.InstallSnapshot) { m.From = peer("c") }},
		{"without bytes", func(_ *raft.Message, r *raft.InstallSnapshot) {
			r.Snapshot.File, r.Snapshot.Size, r.Snapshot.Sum = raft.SnapshotID{}, 0, 0
		}},
		{"of no entry", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Snapshot.ID.Index = 0 }},
		{"newer than its term", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Snapshot.ID.Term = 6 }},
		{"of another cluster", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Snapshot.Cluster[0]++ }},
		{"that ends below what was acknowledged", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Acknowledged = 10 }},
		{"without a member that could lead", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Snapshot.Config = raft.Configuration{} }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := snapFollower(t)
			m := c.from("b", 5, nil)
			r := raft.InstallSnapshot{Snapshot: offered(id(9, 4), 1)}
			row.change(&m.Message, &r)
			m.Message.Body = r
			out := c.step(m)
			assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out))
			assert.Nil(t, out.Keep)
		})
	}
	// "1. Reply immediately if term < currentTerm" (Figure 13)
	c := snapFollower(t)
	out := c.receive("c", 4, raft.InstallSnapshot{Snapshot: offered(id(9, 4), 1)})
	assert.Equal(t, []raft.Message{c.to("c", raft.AppendConflict{Prev: 9})}, out.Send)
}

// A candidate that installs a snapshot gives up: the votes were for another log.
func TestInstall_ByACandidate(t *testing.T) {
	c := snapFollower(t)
	c.offer(offered(id(9, 4), 1), 0)
	c.timeout()
	c.grantPreVote("c")
	require.Equal(t, raft.Candidate, c.Leadership().Role)
	c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)})
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	c.persist()
	c.receive("c", 6, raft.VoteReply{Granted: true})
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	assert.Equal(t, id(9, 4), c.Status().Last)
}

// durableLeader leads abc in term 3 with a DurableFSM; its log is 9@3 behind the base 8@2. c has acknowledged it.
// b needs a snapshot, for which the output asks for a frozen state.
func durableLeader(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	t.Helper()
	cfg := snapConfig()
	cfg.DurableFSM = true
	if change != nil {
		change(&cfg)
	}
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.NotNil(t, out.Keep)
	require.True(t, out.Keep.Take.Hold)
	return c, out
}

// After a restart only the DurableFSM knows what is committed. The leader needs b to commit anything, and b needs a
// snapshot to help it: whoever is elected knows that all that it has applied was committed in an earlier term.
func TestOffer_OfWhatOnlyTheFSMReportsAsCommitted(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	stored := storedBehind(t, 2, id(8, 2), 2, 2)
	stored.Applied = id(10, 2)
	c := begin(t, cfg, stored)
	c.timeout()
	c.grantPreVote("b")
	c.persist()
	c.receive("b", 3, raft.VoteReply{Granted: true})
	c.persist()
	require.Equal(t, raft.Leader, c.Leadership().Role)
	c.receive("b", 3, raft.AppendConflict{Prev: 10, Hint: id(3, 1)})
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.NotNil(t, out.Keep)
	require.NotNil(t, out.Keep.Take)
	assert.True(t, out.Keep.Take.Hold)
	assert.Equal(t, id(10, 2), out.Keep.Take.ID)
}

func frozen(take *raft.Take, n byte) raft.SnapshotTaken {
	return raft.SnapshotTaken{Take: take.ID, Snapshot: raft.Snapshot{Base: take.Base, File: fileOf(n), Size: -1, Held: true}}
}

// commits n more entries with c's help.
func (c *core) commits(n int) raft.Output {
	var last raft.Index
	for range n {
		c.propose("x")
	}
	c.persist()
	last = c.Status().Last.Index
	c.echo("b", 0)
	return c.receive("c", 3, raft.AppendReply{Match: last})
}

// The base may pass a frozen state that is being sent. The follower then needs another one.
func TestOffer_TheBasePassesAFrozenState(t *testing.T) {
	c, out := durableLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	c.step(frozen(out.Keep.Take, 5))
	out = c.commits(16)
	require.NotNil(t, out.Keep)
	take := out.Keep.Take
	require.True(t, take.Sync)
	out = c.step(raft.SnapshotTaken{Take: take.ID, Snapshot: raft.Snapshot{Base: take.Base}})
	require.NotNil(t, out.Write.Base)
	require.NotNil(t, out.Keep)
	require.Equal(t, []raft.SnapshotID{fileOf(5)}, out.Keep.Discard)
	out = c.persist()
	require.NotNil(t, out.Keep)
	require.NotNil(t, out.Keep.Take, "another state is frozen")
	require.True(t, out.Keep.Take.Hold)
	c.step(frozen(out.Keep.Take, 6))
	out = c.after(electionTimeout)
	require.Len(t, offers(out.Send, "b"), 1)
	assert.Equal(t, fileOf(6), offers(out.Send, "b")[0].Snapshot.File)
}

// An install in the step in which a snapshot was taken leaves its file without a record.
func TestInstall_DiscardsASnapshotTakenInTheSameStep(t *testing.T) {
	c, out := eight(t, nil)
	take := out.Keep.Take
	s := raft.Snapshot{Base: baseOf(id(30, 3)), File: fileOf(9), Size: 100, Sum: 7}
	out = c.receive("b", 3, raft.InstallSnapshot{Snapshot: s})
	require.NotNil(t, out.Keep.Receive)
	out = c.step(
		raft.SnapshotTaken{Take: take.ID, Snapshot: raft.Snapshot{Base: take.Base, File: fileOf(1), Size: 100, Sum: 7}},
		raft.SnapshotArrived{From: peer("b"), Snapshot: s},
	)
	require.Equal(t, fileOf(9), out.Write.Snapshot.File)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, out.Keep.Discard)
}

// A follower that has acknowledged an entry which is compacted here, and shows an older entry in its place, has lost it.
func TestOffer_NotToAMemberWhoseOlderLogIsLonger(t *testing.T) {
	cfg := snapConfig()
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2))
	c.timeout()
	c.grantPreVote("c")
	c.persist()
	c.receive("c", 3, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("b", 3, raft.AppendReply{Match: 5})
	c.step(raft.PeerLost{ID: "b"})
	out := c.receive("c", 3, raft.AppendReply{Match: 9})
	require.NotNil(t, out.Keep)
	for range 5 {
		c.now += heartbeatPace
		c.step()
		c.echo("c", 9)
	}
	taken(c, out.Keep.Take, 1)
	c.persist()
	require.Equal(t, id(8, 2), c.Status().Base)
	out = c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(8, 1), Acknowledged: 5})
	assert.Empty(t, offers(out.Send, "b"))
	assert.Contains(t, traced(out), raft.TraceStaleMember)
	require.Len(t, bodies(out.Send, "b"), 1)
	refusal := bodies(out.Send, "b")[0].(raft.AppendRequest)
	assert.Equal(t, id(5, 2), refusal.Prev, "it is asked about what it acknowledged")
	assert.EqualValues(t, 5, refusal.Acknowledged)
}

// A frozen state is sent once. A follower that has lost it before it was installed needs another one.
func TestOffer_AFrozenStateThatTheFollowerLost(t *testing.T) {
	c, out := durableLeader(t, nil)
	c.step(frozen(out.Keep.Take, 5))
	out = c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(5)})
	assert.Empty(t, offers(out.Send, "b"), "its bytes are gone")
	var hold *raft.Take
	began := c.now
	for hold == nil && c.now < began+16*electionTimeout {
		c.now += heartbeatPace
		for _, step := range []func(){func() { c.step() }, func() { c.echo("b", 0) }, func() { c.echo("c", 9) }} {
			step()
			require.Empty(t, offers(c.out.Send, "b"))
			if k := c.out.Keep; k != nil && k.Take != nil {
				hold = k.Take
			}
		}
	}
	require.NotNil(t, hold, "another state is frozen")
	assert.True(t, hold.Hold)
	assert.GreaterOrEqual(t, c.now-began, 8*electionTimeout, "the follower may only be slow")
}
