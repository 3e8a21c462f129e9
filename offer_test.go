package raft_test

import (
	"errors"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lagging returns a compacted leader with base 8@2 and last entry 9@3. The leader has probed b at its base, and b has
// answered that b's log ends at 3@1. The output is that of this conflict.
func lagging(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	t.Helper()
	c := compactedLeader(t, change)
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	return c, out
}

// offers returns the offers in the messages to a member.
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

	// No append follows, even if entries are proposed. The leader repeats the offer every election timeout, not sooner.
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
		raft.PeerLost{Peer: peer("b")}, raft.SendDropped{To: peer("b"), Span: raft.Span{After: 8, Last: 9}},
		c.from("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)}), c.from("b", 3, raft.AppendReply{Match: 3}),
	} {
		c.step(e)
		assert.Equal(t, "snapshot", progressOf(c, "b").State, "%T", e)
	}

	// "success via an append reply": replication continues after the snapshot.
	out = c.receive("b", 3, raft.AppendReply{Match: 9})
	assert.Equal(t, "replicate", progressOf(c, "b").State)
	assert.Equal(t, []raft.Span{{After: 9, Last: 10}}, appends(out.Send, "b"))
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
}

// An acknowledgement that reaches the base is enough. It may be below the offered snapshot, because it may answer an earlier
// offer. An acknowledgement below the base is not enough.
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

// If a follower needs no entries after its snapshot, replication to it continues at once, not only when another entry comes.
func TestOffer_OfTheWholeLog(t *testing.T) {
	c, _ := lagging(t, nil)
	out := c.receive("b", 3, raft.AppendReply{Match: 9})
	p := progressOf(c, "b")
	assert.Equal(t, []any{"replicate", raft.Index(9), raft.Index(10), 0}, []any{p.State, p.Match, p.Next, p.Inflight})
	assert.Empty(t, appends(out.Send, "b"))
	assert.Contains(t, bodies(out.Send, "b"), raft.Heartbeat{Commit: 9}, "it learns what is committed")
}

// A learner gets a snapshot like a voter.
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
	c.electedBy("c")
	c.persist()
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Len(t, offers(out.Send, "b"), 1, "even while the leader restores the snapshot itself")
	assert.Equal(t, id(8, 2), offers(out.Send, "b")[0].Snapshot.ID)
	c.receive("b", 3, raft.AppendReply{Match: 8})
	assert.Equal(t, "replicate", progressOf(c, "b").State)
}

func TestOffer_OnlyAConflictAtTheBaseLeadsToOne(t *testing.T) {
	c := compactedLeader(t, nil)
	for _, e := range []raft.Event{
		raft.SendDropped{To: peer("b"), Span: raft.Span{After: 3, Last: 9}}, raft.PeerLost{Peer: peer("b")},
		raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation},
	} {
		out := c.step(e)
		assert.Empty(t, offers(out.Send, "b"), "%T", e)
		assert.Equal(t, "probe", progressOf(c, "b").State)
	}
	out := c.receive("b", 3, raft.AppendReply{Match: 8})
	assert.Equal(t, []raft.Span{{After: 8, Last: 9}}, appends(out.Send, "b"), "the base is enough")
}

// Without a SnapshotStorage, the leader offers nothing. It does not probe the follower again and again, either.
func TestOffer_NeverWithoutTheStorageForIt(t *testing.T) {
	c := compacted(t, 5, id(4, 3), 3, 5)
	c.electedBy("b")
	c.persist()
	c.receive("b", 6, raft.AppendReply{Match: 7})
	c.receive("c", 6, raft.AppendConflict{Prev: 6, Hint: id(2, 1)})
	out := c.receive("c", 6, raft.AppendConflict{Prev: 4, Hint: id(2, 1)})
	assert.Equal(t, "snapshot", progressOf(c, "c").State)
	assert.Empty(t, append(offers(out.Send, "c"), offers(c.after(electionTimeout/2).Send, "c")...))
}

// If a stream was given up, the leader offers its newest snapshot after a pause. The pause grows each time. While a snapshot
// is being sent, its file and the entries after it are kept.
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
		assert.Equal(t, fileOf(1), o.Snapshot.File, "a broken stream continues with the same file")
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
	assert.Empty(t, offers(c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(1)}).Send, "b"), "the end of an older stream does not end this one")
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

// If a follower has lost acknowledged entries, the leader does not bring it up to date, because it may have lost its vote,
// too.
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
	c.electedBy("c")
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
	assert.Nil(t, out.Write.Snapshot, "it is not recorded")

	out = c.step(raft.SnapshotSent{To: peer("b"), File: fileOf(5), Err: errors.New("broken")})
	assert.Nil(t, out.Keep)
	c.now += heartbeatPace
	c.echo("c", 9)
	c.echo("b", 0)
	c.now += heartbeatPace
	out = c.step()
	require.NotNil(t, out.Keep, "another state is frozen")
	require.True(t, out.Keep.Take.Hold)
	frozen.File = fileOf(6)
	c.step(raft.SnapshotTaken{Take: out.Keep.Take.ID, Snapshot: frozen})
	out = c.receive("b", 3, raft.AppendReply{Match: 9})
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	assert.Equal(t, []raft.SnapshotID{fileOf(6)}, out.Keep.Discard, "it is no longer needed")
}

// durableLeader returns a leader of abc in term 3 with a DurableFSM. Its log is 9@3 after the base 8@2. c has acknowledged
// 9@3. b needs a snapshot, so the output asks for a frozen state.
func durableLeader(t *testing.T, change func(*raft.CoreConfig)) (*core, raft.Output) {
	t.Helper()
	cfg := snapConfig()
	cfg.DurableFSM = true
	if change != nil {
		change(&cfg)
	}
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.electedBy("c")
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.NotNil(t, out.Keep)
	require.True(t, out.Keep.Take.Hold)
	return c, out
}

// After a restart, only the DurableFSM knows which entries are committed. The leader needs b to commit anything, and b first
// needs a snapshot. Once elected, the leader knows that every applied entry was committed in an earlier term.
func TestOffer_OfWhatOnlyTheFSMReportsAsCommitted(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	stored := storedBehind(t, 2, id(8, 2), 2, 2)
	stored.Applied = id(10, 2)
	c := begin(t, cfg, stored)
	c.electedBy("b")
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

// While a frozen state is being sent, the base may move beyond it. Then the follower needs another one.
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

// A follower acknowledged an entry that is compacted here, and now shows an older entry at the same index. So it has lost the
// acknowledged entry.
func TestOffer_NotToAMemberWhoseOlderLogIsLonger(t *testing.T) {
	cfg := snapConfig()
	c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2))
	c.electedBy("c")
	c.persist()
	c.receive("b", 3, raft.AppendReply{Match: 5})
	c.step(raft.PeerLost{Peer: peer("b")})
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
	assert.Equal(t, id(5, 2), refusal.Prev, "the leader asks about the acknowledged entry")
	assert.EqualValues(t, 5, refusal.Acknowledged)
}

// A frozen state is sent only once. If the follower loses it before the install, the follower needs another one.
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

// speaks reports a new connection to a member with this protocol version.
func (c *core) speaks(id raft.NodeID, protocol uint16) raft.Output {
	return c.step(raft.PeerUp{ID: id, Incarnation: peer(id).Incarnation, Protocol: protocol})
}

// A member of an earlier release cannot receive a snapshot. The leader offers it none and holds no log for it. The status
// says why.
func TestOffer_NotToAnEarlierRelease(t *testing.T) {
	c := compactedLeader(t, nil)
	c.speaks("b", raft.ProtocolSnapshots-1)
	out := c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	assert.True(t, progressOf(c, "b").EarlierRelease)
	assert.False(t, progressOf(c, "c").EarlierRelease)
	assert.Empty(t, offers(out.Send, "b"))
	for range 12 {
		c.beats("b", 0)
		assert.Empty(t, offers(c.out.Send, "b"))
	}
	c.step(raft.PeerLost{Peer: peer("b")})
	c.beats("b", 0)
	assert.Empty(t, offers(c.out.Send, "b"), "a broken connection does not change the protocol version")
	out = c.speaks("b", raft.ProtocolSnapshots)
	assert.Len(t, offers(out.Send, "b"), 1, "it was upgraded")
	assert.False(t, progressOf(c, "b").EarlierRelease)

	// The member may return to the earlier release while a snapshot is being sent to it.
	out = c.speaks("b", raft.ProtocolSnapshots-1)
	assert.Empty(t, offers(out.Send, "b"))
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	c.grows(24, 2)
	assert.Greater(t, c.Status().Base.Index, raft.Index(24))
}

// The leader also counts the versions of connections that came up before its election.
func TestOffer_ALeaderKnowsEarlierReleasesFromBeforeItsElection(t *testing.T) {
	cfg := snapConfig()
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.speaks("b", raft.ProtocolSnapshots-1)
	c.step(raft.PeerUp{ID: "b", Incarnation: 77, Protocol: raft.ProtocolSnapshots})
	c.electedBy("c")
	c.persist()
	assert.True(t, progressOf(c, "b").EarlierRelease, "another incarnation is another member")
}

// No state is frozen for a member that could not receive it.
func TestOffer_NothingIsFrozenForAnEarlierRelease(t *testing.T) {
	cfg := snapConfig()
	cfg.DurableFSM = true
	c := begin(t, cfg, storedBehind(t, 2, id(8, 2)))
	c.speaks("b", raft.ProtocolSnapshots-1)
	c.electedBy("c")
	c.persist()
	c.receive("c", 3, raft.AppendReply{Match: 9})
	c.receive("b", 3, raft.AppendConflict{Prev: 8, Hint: id(3, 1)})
	require.Equal(t, "snapshot", progressOf(c, "b").State)
	for range 12 {
		c.beats("b", 0)
		require.Nil(t, c.takes())
	}
	c.speaks("b", raft.ProtocolSnapshots)
	require.NotNil(t, c.takes())
	require.True(t, c.takes().Hold)
	c.step(frozen(c.takes(), 5))
	require.Equal(t, c.Status().Last, progressOf(c, "b").Offered)
	out := c.speaks("b", raft.ProtocolSnapshots-1)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.SnapshotID{fileOf(5)}, out.Keep.Discard, "nobody needs it")
}
