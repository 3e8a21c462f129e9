package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// offered returns a snapshot of an entry, as b offers it.
func offered(last raft.EntryID, n byte) raft.Snapshot {
	return raft.Snapshot{Base: baseOf(last), File: fileOf(n), Size: 100, Sum: 7}
}

// snapFollower returns a follower of b in term 5 that takes snapshots. Its log is 1@0 2@1 3@1 4@3, committed up to entry 2.
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

// A follower's reaction to an offer depends on which entry its log holds at the index of the snapshot's last entry.
func TestInstall_TheOffer(t *testing.T) {
	for _, row := range []struct {
		rule    string
		last    raft.EntryID
		receive bool
		ack     bool // it acknowledges at once: the log holds the entry
	}{
		{"beyond the log", id(9, 4), true, false},
		{"right after the log", id(5, 3), true, false},
		{"its last entry is another", id(4, 4), true, false},
		{"a prefix of the log", id(4, 3), false, true},
		{"a shorter prefix", id(3, 1), false, true},
		{"a committed prefix", id(2, 1), false, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := snapFollower(t)
			out := c.offer(offered(row.last, 1), 0)
			assert.Equal(t, row.receive, out.Keep != nil && out.Keep.Receive != nil)
			assert.Nil(t, out.Write.Log, "the log stays until the snapshot has arrived")
			assert.Equal(t, id(4, 3), c.Status().Last)
			if row.ack {
				assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: row.last.Index})}, out.Send)
				assert.Equal(t, row.last.Index, c.Status().Commit, "everything in a snapshot is committed")
				return
			}
			assert.Empty(t, out.Send)
			assert.Equal(t, &raft.Receive{From: peer("b"), Snapshot: offered(row.last, 1)}, out.Keep.Receive)
			assert.Equal(t, row.last, c.Status().Receiving)
			out = c.offer(offered(row.last, 1), 0)
			require.NotNil(t, out.Keep, "the request is repeated, because the receiver may have restarted")
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

	// Meanwhile, the answer to a heartbeat acknowledges nothing, another offer waits, and entries are accepted.
	out = c.receive("b", 5, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
	assert.Equal(t, []raft.Message{c.to("b", raft.HeartbeatReply{Round: raft.RPCID{StartCount: 1, Counter: 1}, Hindered: raft.HinderedRestoring})}, out.Send)
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

// A crash between the record and the reset leaves a log without the snapshot's entry. Load resets that log, and the member
// continues from the result of Load. A crash before the record leaves everything as it was.
func TestInstall_ACrashBeforeTheRestore(t *testing.T) {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 5}, Snapshot: offered(id(9, 4), 1)}
	stored.Log.Begin(stored.Snapshot.Base)
	c := begin(t, snapConfig(), stored)
	require.NotNil(t, c.out.Restore)
	assert.EqualValues(t, 9, c.Status().Commit)
	out := c.offer(offered(id(9, 4), 1), 0)
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 9})}, out.Send, "it repeats the acknowledgement that the crash lost")
}

// When a snapshot arrives, the member compares it again with what its log holds now.
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
		{"it was not requested", func(*core) {}, raft.SnapshotArrived{From: peer("c"), Snapshot: offered(id(9, 4), 3)}, 0},
		{"it has other bytes", func(*core) {}, raft.SnapshotArrived{From: peer("b"), Snapshot: other}, 0},
		{"another snapshot was requested meanwhile", func(c *core) { c.offer(other, 0) },
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

// The content of a snapshot is committed, whichever member leads when it has arrived.
func TestInstall_UnderAnotherLeader(t *testing.T) {
	c := snapFollower(t)
	c.offer(offered(id(9, 4), 1), 0)
	c.receive("c", 6, raft.Heartbeat{})
	c.persist()
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)})
	assert.Equal(t, id(9, 4), c.Status().Last)
	assert.Empty(t, append(out.Send, out.Write.Then...), "its sender no longer leads")
	out = c.append("c", 6, id(9, 4), 0, 6)
	assert.Equal(t, []raft.Message{c.to("c", raft.AppendReply{Match: 10})}, out.Write.Then)
}

// The same bytes may come from two leaders, if the later leader got them from the earlier one. The member must not delete the
// file of the first arrival while the second one uses it.
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

// A snapshot that the member is taking itself is superfluous after an install. It never replaces the installed snapshot.
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

// While a snapshot arrives at an uninitialized member, an append of an earlier term may raise its term. Or a bootstrap may
// make it a member of another cluster.
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

// An offer carries the same evidence as an append. It can show that its sender lacks committed entries, or that this member
// has lost acknowledged entries.
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

	// If the store is marked in the step of an install, the install is kept, because its content is committed.
	c = snapFollower(t)
	c.offer(offered(id(9, 4), 1), 0)
	c.receive("c", 6, raft.Heartbeat{})
	c.persist()
	out = c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)}, c.from("c", 6, appendOf(id(9, 3), 0)))
	require.NotNil(t, out.Write.Mark)
	assert.Equal(t, id(9, 4), out.Write.Mark.Ours)
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, id(9, 4), out.Write.Snapshot.ID)
	assert.Equal(t, &raft.LogWrite{After: id(9, 4), Reset: true, Generation: 2}, out.Write.Log)
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
		{"that ends below an acknowledged index", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Acknowledged = 10 }},
		{"without a voter", func(_ *raft.Message, r *raft.InstallSnapshot) { r.Snapshot.Config = raft.Configuration{} }},
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

// A candidate that installs a snapshot ends its campaign, because its votes were for another log.
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

// If a snapshot was taken in the step of an install, its file gets no record, and is discarded.
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

// grows commits n entries with c's help, and takes the snapshots that are due. Their files are numbered from the given number
// on; a DurableFSM syncs instead. b answers heartbeats.
func (c *core) grows(n int, file byte) {
	c.t.Helper()
	for range n {
		c.propose("x")
		c.persist()
		c.receive("c", 3, raft.AppendReply{Match: c.Status().Last.Index})
		for take := c.takes(); take != nil; take = c.takes() {
			require.False(c.t, take.Hold)
			s := raft.Snapshot{Base: take.Base}
			if !take.Sync {
				s.File, s.Size, s.Sum = fileOf(file), 1<<12, 7
				file++
			}
			c.step(raft.SnapshotTaken{Take: take.ID, Snapshot: s})
			c.persist()
		}
	}
	c.beats("b", 0)
}

func (c *core) takes() *raft.Take {
	if c.out.Keep == nil {
		return nil
	}
	return c.out.Keep.Take
}

// beats lets a heartbeat interval pass; c and another member answer.
func (c *core) beats(other raft.NodeID, match raft.Index) {
	c.now += heartbeatPace
	c.step()
	c.persist()
	c.echo("c", c.Status().Last.Index)
	c.echo(other, match)
}

// Until the follower has caught up, a leader keeps as many bytes of its log as the snapshot that it sends has. Otherwise a
// follower that has just received a large snapshot would need the next snapshot.
func TestCompact_HoldsUntilAFollowerHasCaughtUpWithItsSnapshot(t *testing.T) {
	c := compactedLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	for range 8 {
		c.propose("x")
	}
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 17})
	require.NotNil(t, out.Keep)
	c.step(raft.SnapshotTaken{Take: id(17, 3), Snapshot: raft.Snapshot{Base: out.Keep.Take.Base, File: fileOf(2), Size: 1 << 12, Sum: 7}})
	c.persist()
	out = c.receive("b", 3, raft.AppendConflict{Prev: c.Status().Base.Index, Hint: id(3, 1)})
	require.Len(t, offers(out.Send, "b"), 1)
	require.Equal(t, id(17, 3), progressOf(c, "b").Offered)

	c.grows(64, 3)
	require.Equal(t, id(17, 3), progressOf(c, "b").Offered, "entries after the snapshot are kept")
	c.receive("b", 3, raft.AppendReply{Match: 17})
	c.beats("b", 17)
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(17), "they are kept while the follower catches up")
	for match := raft.Index(20); match < c.Status().Last.Index; match += 3 {
		c.receive("b", 3, raft.AppendReply{Match: match})
		c.beats("b", match)
		require.LessOrEqual(t, c.Status().Base.Index, match)
		require.Equal(t, "replicate", progressOf(c, "b").State)
	}
	last := c.Status().Last.Index
	c.receive("b", 3, raft.AppendReply{Match: last})
	c.beats("b", last)
	c.grows(24, 20)
	assert.Greater(t, c.Status().Base.Index, last, "afterwards the usual limit applies again")
}

// The size of a frozen state is not known. The leader uses as its limit the number of bytes that the follower has received so
// far. So a stream that is faster than the log grows will finish.
func TestCompact_HoldsAsMuchAsAFollowerHasOfAFrozenState(t *testing.T) {
	c, out := durableLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	c.step(frozen(out.Keep.Take, 5))
	require.Equal(t, id(9, 3), progressOf(c, "b").Offered)
	for n := int64(1); n <= 8; n++ {
		c.step(raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: n * 2000})
		c.grows(16, 0)
		require.Equal(t, id(9, 3), progressOf(c, "b").Offered)
		require.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
	}
	c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(5)})
	c.receive("b", 3, raft.AppendReply{Match: 9})
	c.beats("b", 9)
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
	assert.Equal(t, "replicate", progressOf(c, "b").State)
}

func TestCompact_ReportsOfAStreamThatHasEndedCountForNothing(t *testing.T) {
	c, out := durableLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	c.step(frozen(out.Keep.Take, 5))
	c.step(
		raft.SnapshotSending{To: peer("b"), File: fileOf(6), Bytes: 1 << 20}, raft.SnapshotSending{To: peer("c"), File: fileOf(5), Bytes: 1 << 20},
		raft.SnapshotSending{To: peer("e"), File: fileOf(5), Bytes: 1 << 20}, raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: -1},
	)
	out = c.commits(16)
	require.NotNil(t, out.Keep)
	out = c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Snapshot: raft.Snapshot{Base: out.Keep.Take.Base}})
	require.NotNil(t, out.Write.Base)
	assert.Greater(t, out.Write.Base.ID.Index, raft.Index(9))

	c = begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 3}, 3))
	assert.Zero(t, c.step(raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: 1}).Write, "a follower sends no snapshot")
}

// Even after an idle time, a leader keeps the entries that a follower it hears needs, because there was nothing to
// acknowledge.
func TestCompact_AnIdleFollowerIsHeldLikeABusyOne(t *testing.T) {
	c := compactedLeader(t, nil)
	c.receive("b", 3, raft.AppendReply{Match: 8})
	c.receive("b", 3, raft.AppendReply{Match: 9})
	for range 4 * 64 {
		c.beats("b", 9)
	}
	require.Equal(t, raft.Leader, c.Leadership().Role)
	for range 16 {
		c.propose("x")
	}
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 25})
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 2)
	c.persist()
	assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(9))
}
