package raft_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// snapConfig returns a configuration with a snapshot every eight entries and a kept tail of about one entry.
func snapConfig() raft.CoreConfig {
	cfg := coreConfig()
	cfg.Snapshots = true
	cfg.SnapshotEntries, cfg.SnapshotLogBytes, cfg.SnapshotTailBytes, cfg.SnapshotHoldBytes = 8, 1<<20, 1, 1<<20
	return cfg
}

func storedWhole(t *testing.T, hard raft.HardState, terms ...raft.Term) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: hard}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	for _, e := range entries(2, terms...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return stored
}

// eight returns a follower of b in term 3 whose log is 1@0 2@3 … 9@3. b has reported that all of it is
// committed, and the FSM has applied it, so a snapshot of 9@3 is due.
func eight(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	t.Helper()
	cfg := snapConfig()
	if change != nil {
		change(&cfg)
	}
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3, 3, 3))
	require.Nil(t, c.append("b", 3, id(8, 3), 7).Keep, "seven entries are too few")
	c.append("b", 3, id(8, 3), 7, 3)
	c.persist()
	out := c.receive("b", 3, raft.Heartbeat{Commit: 9})
	require.Equal(t, id(9, 3), out.Apply)
	return c, out
}

func fileOf(n byte) raft.SnapshotID { return raft.SnapshotID{n} }

// taken reports that the present Take has finished, with a file.
func taken(c *core, take *raft.Take, n byte) raft.Output {
	return c.step(raft.SnapshotTaken{
		Take: take.ID, Snapshot: raft.Snapshot{Base: take.Base, File: fileOf(n), Size: 100, Sum: 7},
	})
}

// If the store is marked in the step of a compaction, the compaction is canceled, because the log is evidence.
func TestCompact_NotInTheStepOfAMark(t *testing.T) {
	c, out := eight(t, nil)
	taken(c, out.Keep.Take, 1)
	out = c.step(raft.Persisted{Seq: c.seq}, c.from("b", 3, appendOf(id(12, 3), 12)))
	require.NotNil(t, out.Write.Mark)
	assert.Contains(t, traced(out), raft.TraceCompacted, "it came first")
	assert.Nil(t, out.Write.Base)
	assert.Nil(t, c.persist().Write.Base, "nor later")
}

// "Each server takes snapshots independently, covering just the committed entries in its log." (§7)
func TestTake_IsOfTheLastEntryApplied(t *testing.T) {
	c, out := eight(t, nil)
	require.NotNil(t, out.Keep)
	take := out.Keep.Take
	require.NotNil(t, take)
	assert.Equal(t, out.Apply, take.ID)
	assert.False(t, take.Sync || take.Hold)
	assert.NoError(t, take.Base.Check())
	assert.Equal(t, clusterOfTheTests, take.Cluster)
	assert.Equal(t, peer("a"), take.Bootstrapper)
	assert.EqualValues(t, 1, take.ConfigIndex)
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), take.Config)
	assert.Equal(t, take.ID, c.Status().Taking)

	// The core takes only one snapshot at a time, even if it applies many entries meanwhile.
	c.append("b", 3, id(9, 3), 9, 3, 3, 3, 3, 3, 3, 3, 3, 3)
	c.persist()
	out = c.receive("b", 3, raft.Heartbeat{Commit: 18})
	require.Equal(t, id(18, 3), out.Apply)
	assert.Nil(t, out.Keep)
}

func TestTake_CountsOnlyOnceItsRecordIsDurable(t *testing.T) {
	c, out := eight(t, nil)
	take := out.Keep.Take
	out = taken(c, take, 1)
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, fileOf(1), out.Write.Snapshot.File)
	assert.Equal(t, take.Base, out.Write.Snapshot.Base)
	assert.Nil(t, out.Write.Base, "compaction waits until the record is durable")
	assert.Nil(t, out.Keep)
	assert.Zero(t, c.Status().Base)
	assert.Zero(t, c.Status().Snapshot)

	out = c.persist()
	require.NotNil(t, out.Write.Base)
	assert.Equal(t, id(8, 3), out.Write.Base.ID, "the kept tail is one entry")
	assert.Nil(t, out.Write.Log)
	assert.Equal(t, id(8, 3), c.Status().Base)
	assert.Equal(t, id(9, 3), c.Status().Snapshot)
	assert.EqualValues(t, 100, c.Status().SnapshotBytes)
	assert.Equal(t, id(9, 3), c.Status().Last)

	// The next snapshot replaces the first one. The replaced file is discarded only once the new record is durable.
	c.append("b", 3, id(9, 3), 9, 3, 3, 3, 3, 3, 3, 3, 3)
	c.persist()
	out = c.receive("b", 3, raft.Heartbeat{Commit: 17})
	require.NotNil(t, out.Keep)
	out = taken(c, out.Keep.Take, 2)
	assert.Nil(t, out.Keep)
	out = c.persist()
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, out.Keep.Discard)
	assert.Equal(t, id(16, 3), c.Status().Base)
}

func TestTake_ThePolicy(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*raft.CoreConfig)
		want   bool
	}{
		{"by entries", func(*raft.CoreConfig) {}, true},
		{"one entry too few", func(c *raft.CoreConfig) { c.SnapshotEntries = 10 }, false},
		{"by bytes", func(c *raft.CoreConfig) { c.SnapshotEntries, c.SnapshotLogBytes = 1000, 200 }, true},
		{"never without the storage for it", func(c *raft.CoreConfig) { c.Snapshots = false }, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			cfg := snapConfig()
			row.change(&cfg)
			c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3, 3, 3, 3))
			out := c.append("b", 3, id(9, 3), 9)
			require.Equal(t, id(9, 3), out.Apply)
			assert.Equal(t, row.want, out.Keep != nil && out.Keep.Take != nil)
		})
	}
}

// If only a DurableFSM reports entries as committed, those entries cannot prove a loss. So they are not compacted.
func TestTake_OnlyOfWhatALeaderHasCommitted(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	stored := storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3, 3, 3, 3)
	stored.Applied = id(9, 3)
	c := begin(t, cfg, stored)
	assert.Nil(t, c.out.Keep)
	out := c.append("b", 3, id(9, 3), 8)
	assert.Nil(t, out.Keep)
	out = c.receive("b", 3, raft.Heartbeat{Commit: 9})
	require.NotNil(t, out.Keep, "now the leader has reported the commit")
	assert.True(t, out.Keep.Take.Sync)
}

func TestTake_AfterAFailure(t *testing.T) {
	c, out := eight(t, nil)
	take := out.Keep.Take
	request := c.step(raft.SnapshotRequested{RequestID: 5})
	assert.Empty(t, request.Answers)
	pause := electionTimeout
	for range 9 {
		out = c.step(raft.SnapshotTaken{Take: take.ID, Err: errors.New("no space")})
		assert.Nil(t, out.Keep, "not at once")
		assert.Contains(t, traced(out), raft.TraceTakeFailed)
		assert.LessOrEqual(t, out.WakeAt, c.now+pause)
		c.now += pause - 1
		require.Nil(t, c.receive("b", 3, raft.Heartbeat{}).Keep)
		c.now++
		out = c.receive("b", 3, raft.Heartbeat{})
		require.NotNil(t, out.Keep, "after %v", pause)
		take = out.Keep.Take
		pause = min(2*pause, 64*electionTimeout)
	}
	c.step(raft.SnapshotTaken{Take: take.ID, Err: errors.New("no space")})
	out = c.step(raft.SnapshotRequested{RequestID: 6})
	require.NotNil(t, out.Keep, "a request ends the pause")
	taken(c, out.Keep.Take, 1)
	c.persist()
	assert.Equal(t, id(9, 3), c.Status().Snapshot, "it succeeds in the end")
}

// Every request for a snapshot is answered exactly once. The answer comes with a durable record that covers what was applied
// at the time of the request.
func TestTake_Requests(t *testing.T) {
	cfg := snapConfig()
	cfg.SnapshotEntries = 1000
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 3}, 3, 3))
	out := c.step(raft.SnapshotRequested{RequestID: 1})
	assert.Equal(t, []raft.Answer{{RequestID: 1, Kind: raft.AnswerSnapshot}}, out.Answers, "nothing is applied")

	c.append("b", 3, id(3, 3), 3)
	out = c.step(raft.SnapshotRequested{RequestID: 2})
	assert.Empty(t, out.Answers)
	require.NotNil(t, out.Keep, "a request makes it due")
	out = taken(c, out.Keep.Take, 1)
	assert.Empty(t, out.Answers)
	out = c.persist()
	assert.Equal(t, []raft.Answer{{RequestID: 2, Kind: raft.AnswerSnapshot, ID: id(3, 3)}}, out.Answers)
	out = c.step(raft.SnapshotRequested{RequestID: 3})
	assert.Equal(t, []raft.Answer{{RequestID: 3, Kind: raft.AnswerSnapshot, ID: id(3, 3)}}, out.Answers, "nothing new")
	assert.Nil(t, out.Keep)

	c.append("b", 3, id(3, 3), 3, 3)
	c.persist()
	c.receive("b", 3, raft.Heartbeat{Commit: 4})
	out = c.step(raft.SnapshotRequested{RequestID: 4})
	require.NotNil(t, out.Keep)
	out = c.step(raft.SnapshotTaken{Take: id(4, 3), Err: errors.New("no space")})
	assert.Equal(t, []raft.Answer{{RequestID: 4, Kind: raft.AnswerRefused, Refusal: raft.RefusedSnapshotFailed}}, out.Answers)
	c.step(raft.SnapshotRequested{RequestID: 5})
	out = c.step(raft.Closing{})
	assert.Equal(t, []raft.Answer{{RequestID: 5, Kind: raft.AnswerRefused, Refusal: raft.RefusedClosing}}, out.Answers)
	out = c.step(raft.SnapshotRequested{RequestID: 6})
	assert.Equal(t, raft.RefusedClosing, out.Answers[0].Refusal)

	c = follower(t, 3, 3)
	out = c.step(raft.SnapshotRequested{RequestID: 7})
	assert.Equal(t, []raft.Answer{{RequestID: 7, Kind: raft.AnswerRefused, Refusal: raft.RefusedUnsupported}}, out.Answers)
}

// A compaction costs a write, so it must remove enough entries. A caller that requests a snapshot may need the space. In that
// case everything beyond the kept tail is compacted, even if the snapshot already existed.
func TestCompact_ARequestIsWorthIt(t *testing.T) {
	cfg := snapConfig()
	cfg.SnapshotEntries = 80
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3))
	c.append("b", 3, id(6, 3), 6)
	out := c.step(raft.SnapshotRequested{RequestID: 1})
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 1)
	out = c.persist()
	require.NotNil(t, out.Write.Base, "5 entries are too few without a request")
	assert.Equal(t, id(5, 3), out.Write.Base.ID, "the kept tail is one entry")
	assert.Equal(t, []raft.Answer{{RequestID: 1, Kind: raft.AnswerSnapshot, ID: id(6, 3)}}, out.Answers)

	// A member starts with a snapshot, and with a log that was too short to compact.
	stored := storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3)
	stored.Snapshot, stored.Commit = raft.Snapshot{Base: baseOf(id(6, 3)), File: fileOf(1), Size: 10}, 6
	c = begin(t, cfg, stored)
	assert.Zero(t, c.Status().Base)
	out = c.step(raft.SnapshotRequested{RequestID: 2})
	assert.Len(t, out.Answers, 1)
	require.NotNil(t, out.Write.Base)
	assert.Equal(t, id(5, 3), out.Write.Base.ID)
	c.persist()
	assert.Nil(t, c.step(raft.SnapshotRequested{RequestID: 3}).Write.Base, "once is enough")

	// Without a request, the compaction waits until it removes enough.
	cfg.SnapshotEntries, cfg.SnapshotTailBytes = 32, 35*(raft.RecordOverheadBytes+1)
	c = begin(t, cfg, storedWhole(t, raft.HardState{Term: 3}, slices.Repeat([]raft.Term{3}, 31)...))
	out = c.append("b", 3, id(32, 3), 32)
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 1)
	assert.Nil(t, c.persist().Write.Base)
	assert.NotNil(t, c.step(raft.SnapshotRequested{RequestID: 4}).Write.Base)
}

// An FSM that has lost synced entries applies them again. Until then, that part of the log stays.
func TestCompact_KeepsWhatTheFSMHasLost(t *testing.T) {
	for _, durable := range []bool{true, false} {
		cfg := snapConfig()
		cfg.DurableFSM = durable
		stored := storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2)
		stored.Applied, stored.Snapshot, stored.Commit = id(3, 2), raft.Snapshot{Base: baseOf(id(8, 2))}, 8
		c := begin(t, cfg, stored)
		assert.Equal(t, id(8, 2), c.out.Apply)
		c.persist()
		c.receive("b", 3, raft.Heartbeat{Commit: 8})
		assert.LessOrEqual(t, c.Status().Base.Index, raft.Index(3))
	}
}

// A member that starts with a recorded snapshot first restores it, and then applies the entries after it.
func TestRestore_AtTheStart(t *testing.T) {
	recorded := raft.Snapshot{Base: baseOf(id(6, 3)), File: fileOf(1), Size: 10}
	stored := storedBehind(t, 5, id(4, 3), 3, 3, 3, 5)
	stored.Applied, stored.Snapshot, stored.Commit = id(0, 0), recorded, 8
	c := begin(t, snapConfig(), stored)
	require.NotNil(t, c.out.Restore)
	assert.Equal(t, recorded, *c.out.Restore)
	assert.Equal(t, id(8, 5), c.out.Apply, "and continues from there")
	assert.Equal(t, id(6, 3), c.Status().Restoring)
	assert.Equal(t, raft.Write{Seq: 1, Base: c.out.Write.Base, Commit: 8}, c.out.Write)
	assert.Equal(t, id(6, 3), c.out.Write.Base.ID, "covered entries are compacted: the previous start may have held them for a follower")
	out := c.step(raft.Applied{ID: id(6, 3)})
	assert.Nil(t, out.Restore, "once")
	assert.Zero(t, c.Status().Restoring)
	assert.EqualValues(t, 6, c.Status().Applied)
	assert.Contains(t, traced(out), raft.TraceRestored)
	assert.Zero(t, out.Write.Seq, "the file still counts")

	stored.Commit = 0
	c = begin(t, snapConfig(), stored)
	assert.EqualValues(t, 6, c.Status().Commit, "covered entries are committed")
	assert.Zero(t, c.out.Apply)
}

// A DurableFSM restores a received snapshot, and syncs. Only after that is the file no longer needed. If the member crashes
// between the two, it restores the snapshot again, or finds it in the state.
func TestRestore_OfADurableFSM(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	recorded := raft.Snapshot{Base: baseOf(id(6, 3)), File: fileOf(1), Size: 10}
	cleared := raft.Snapshot{Base: recorded.Base}
	stored := storedBehind(t, 5, id(6, 3), 3)
	stored.Applied, stored.Snapshot = id(2, 1), recorded
	c := begin(t, cfg, stored)
	require.NotNil(t, c.out.Restore, "the state is older than the base, and the file exists")
	out := c.step(raft.Applied{ID: id(6, 3)})
	require.NotNil(t, out.Write.Snapshot)
	assert.Equal(t, cleared, *out.Write.Snapshot)
	assert.Nil(t, out.Keep, "the file stays until the sync is durable")
	out = c.persist()
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, out.Keep.Discard)

	stored.Applied = id(6, 3)
	c = begin(t, cfg, stored)
	assert.Nil(t, c.out.Restore, "the state includes the snapshot")
	require.NotNil(t, c.out.Write.Snapshot)
	assert.Equal(t, cleared, *c.out.Write.Snapshot)
	assert.Equal(t, []raft.SnapshotID{fileOf(1)}, c.persist().Keep.Discard)

	stored.Snapshot = cleared
	c = begin(t, cfg, stored)
	assert.Zero(t, c.out.Write)
	assert.Nil(t, c.out.Restore)

	stored.Applied = id(2, 1)
	_, _, err := raft.NewCore(cfg, stored, raft.Now{Mono: 1000 * ms, Wall: 1})
	assert.Equal(t, &raft.AppliedBelowBaseError{Applied: id(2, 1), Base: id(6, 3)}, err, "there is no file to restore")
}

func TestRestore_ASnapshotThatTheLogDoesNotHold(t *testing.T) {
	for rule, at := range map[string]raft.EntryID{"beyond its end": id(8, 3), "another entry": id(7, 4), "another base": id(6, 2)} {
		stored := storedBehind(t, 5, id(6, 3), 3)
		stored.Snapshot = raft.Snapshot{Base: baseOf(at), File: fileOf(1)}
		_, _, err := raft.NewCore(snapConfig(), stored, raft.Now{Mono: 1000 * ms, Wall: 1})
		var corrupt *raft.CorruptError
		require.ErrorAs(t, err, &corrupt, rule)
	}
}

// A DurableFSM syncs, and the log is compacted without a file.
func TestTake_OfADurableFSMSyncs(t *testing.T) {
	c, out := eight(t, func(cfg *raft.CoreConfig) { cfg.DurableFSM = true })
	take := out.Keep.Take
	require.True(t, take.Sync)
	out = c.step(raft.SnapshotTaken{Take: take.ID, Snapshot: raft.Snapshot{Base: take.Base}})
	assert.Nil(t, out.Write.Snapshot)
	require.NotNil(t, out.Write.Base)
	assert.Equal(t, id(8, 3), out.Write.Base.ID)
	assert.Equal(t, id(9, 3), c.Status().Snapshot)
	assert.Zero(t, c.Status().SnapshotBytes)
}

// A DurableFSM receives only commands. It does not report entries of other kinds that follow the last command. So the log's
// base must not be newer than that command, because the member could not start from the FSM's state otherwise.
func TestTake_OfADurableFSMThatLacksTheLastEntries(t *testing.T) {
	c, out := eight(t, func(cfg *raft.CoreConfig) { cfg.DurableFSM = true })
	reported := raft.Snapshot{Base: out.Keep.Take.Base}
	reported.ID = id(5, 3)
	out = c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Snapshot: reported})
	require.NotNil(t, out.Write.Base)
	assert.Equal(t, id(5, 3), out.Write.Base.ID)
	assert.Equal(t, id(9, 3), c.Status().Snapshot, "callers who wait for entry 9 are answered")
	assert.Nil(t, out.Keep, "and no other snapshot is due")
}

// compactedLeader returns a leader of abc in term 3. Its log is compacted up to 8@3, because the record of its snapshot of
// 9@3 is durable. c has acknowledged everything, and b has acknowledged nothing. The leader hears b only if a test lets b
// answer.
func compactedLeader(t *testing.T, change func(*raft.CoreConfig)) *core {
	t.Helper()
	cfg := snapConfig()
	if change != nil {
		change(&cfg)
	}
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2))
	c.electedBy("c")
	c.persist()
	out := c.receive("c", 3, raft.AppendReply{Match: 9})
	require.NotNil(t, out.Keep)
	taken(c, out.Keep.Take, 1)
	out = c.persist()
	require.NotNil(t, out.Write.Base)
	require.Equal(t, id(8, 2), c.Status().Base)
	return c
}

// Within the limits, the leader keeps the entries that a follower needs next if it hears the follower. Otherwise it keeps
// none.
func TestCompact_HoldsWhatAFollowerNeeds(t *testing.T) {
	lead := func(change func(*raft.CoreConfig), before func(*core)) (*core, raft.Output) {
		cfg := snapConfig()
		change(&cfg)
		c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2))
		c.electedBy("c")
		c.persist()
		out := c.receive("c", 3, raft.AppendReply{Match: 9})
		require.NotNil(t, out.Keep)
		before(c)
		taken(c, out.Keep.Take, 1)
		return c, c.persist()
	}
	plain := func(*raft.CoreConfig) {}
	heard := func(c *core) { c.receive("b", 3, raft.AppendReply{Match: 3}) }
	_, out := lead(plain, func(*core) {})
	assert.Equal(t, id(8, 2), out.Write.Base.ID, "a follower that was not heard")
	c, out := lead(plain, heard)
	assert.Equal(t, id(3, 2), out.Write.Base.ID, "a follower that needs entry 4 next")
	_, out = lead(func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 3 * (raft.RecordOverheadBytes + 1) }, heard)
	assert.Contains(t, []raft.Index{5, 6, 7}, out.Write.Base.ID.Index, "entries beyond the estimated limit of held bytes are compacted")
	_, out = lead(func(cfg *raft.CoreConfig) { cfg.SnapshotTailBytes = 1 << 20 }, func(*core) {})
	assert.Nil(t, out.Write.Base, "the whole log is in the kept tail")

	former, _ := lead(plain, heard)
	for former.Leadership().Role == raft.Leader {
		out = former.after(heartbeatPace)
		require.Nil(t, out.Write.Base, "this member may lead again")
	}
	out = former.receive("c", 4, raft.Heartbeat{Commit: 9})
	require.NotNil(t, out.Write.Base, "another member leads and holds what the follower needs; our disk may be full")
	assert.Equal(t, id(8, 2), out.Write.Base.ID)

	// The leader hears b, but b acknowledges nothing more. After 64 election timeouts, the leader no longer holds entries for
	// b.
	base := raft.Index(3)
	for began := c.now; c.now < began+63*electionTimeout; {
		c.now += heartbeatPace
		c.step()
		c.persist()
		c.echo("b", 3)
		c.echo("c", 9)
		require.Equal(t, base, c.Status().Base.Index)
	}
	for range 6 {
		c.now += heartbeatPace
		c.step()
		c.echo("b", 3)
		c.echo("c", 9)
	}
	assert.Equal(t, id(8, 2), c.Status().Base)
	require.Equal(t, raft.Leader, c.Leadership().Role)
	for _, p := range c.Status().Peers {
		assert.Greater(t, p.Next, raft.Index(8), "nothing is sent from below the base")
	}
}

// Even if the FSM fails to freeze its state for a follower, the log is compacted.
func TestTake_AFreezeThatFailsDelaysNoSync(t *testing.T) {
	c, out := durableLeader(t, nil)
	c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Err: errors.New("no memory")})
	out = c.commits(16)
	require.NotNil(t, out.Keep)
	require.NotNil(t, out.Keep.Take)
	assert.True(t, out.Keep.Take.Sync)
}
