package raft_test

import (
	"fmt"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moved returns the configuration of the members, at feature level 1, in which one of them has another address.
func moved(members string, id raft.NodeID) raft.Configuration {
	c := raft.NewConfiguration(membersNamed(members))
	c.Level = 1
	for i := range c.Members {
		if c.Members[i].ID == id {
			c.Members[i].Address = string(id) + ":9"
		}
	}
	return c
}

func configEntry(id raft.EntryID, c raft.Configuration) raft.Entry {
	return raft.Entry{Index: id.Index, Term: id.Term, Kind: raft.EntryConfiguration, Data: c.Encode()}
}

// appendConfigs delivers an append of configurations after prev, in the sender's term.
func (c *core) appendConfigs(sender raft.NodeID, term raft.Term, prev raft.EntryID, commit raft.Index, configs ...raft.Configuration) raft.Output {
	r := raft.AppendRequest{Prev: prev, Last: prev, Commit: commit}
	for _, config := range configs {
		r.Last = id(r.Last.Index+1, term)
		r.Entries = append(r.Entries, configEntry(r.Last, config))
	}
	return c.receive(sender, term, r)
}

// assertInForce checks the configuration in force, its entry's index, and the index of the last committed
// configuration.
func (c *core) assertInForce(config raft.Configuration, index, committed raft.Index) {
	c.t.Helper()
	s := c.Status()
	assert.Equal(c.t, config, s.Config)
	assert.Equal(c.t, [2]raft.Index{index, committed}, [2]raft.Index{s.ConfigIndex, s.ConfigCommitted})
}

// assertGiven is assertInForce, and checks that the last output has the configuration, too.
func (c *core) assertGiven(config raft.Configuration, index, committed raft.Index) {
	c.t.Helper()
	if assert.NotNil(c.t, c.out.Config) {
		assert.Equal(c.t, config, *c.out.Config)
	}
	c.assertInForce(config, index, committed)
}

func asBootstrapped() raft.Configuration { return raft.NewConfiguration(membersNamed("abc")) }

// "a server always uses the latest configuration in its log, regardless of whether the entry is committed" (§6)
func TestConfig_InForceWhenAppended(t *testing.T) {
	c := follower(t, 5, 1)
	c.assertGiven(asBootstrapped(), 1, 0)
	out := c.append("b", 5, id(2, 1), 1)
	c.assertGiven(asBootstrapped(), 1, 1)
	assert.NotContains(t, traced(out), raft.TraceConfigCommitted, "all members begin with the configuration of entry 1")

	out = c.appendConfigs("b", 5, id(2, 1), 1, moved("abc", "b"))
	c.assertGiven(moved("abc", "b"), 3, 1)
	assert.Contains(t, traced(out), raft.TraceConfigAppended)
	c.persist()
	assert.Nil(t, c.out.Config, "it stays as it is")
	c.append("b", 5, id(3, 5), 2, 5)
	assert.Nil(t, c.out.Config)
	c.assertInForce(moved("abc", "b"), 3, 1)
	c.appendConfigs("b", 5, id(2, 1), 2, moved("abc", "b"))
	assert.Nil(t, c.out.Config, "it is not appended twice")
	assert.Equal(t, id(4, 5), c.Status().Last)

	out = c.receive("b", 5, raft.Heartbeat{Commit: 3})
	c.assertGiven(moved("abc", "b"), 3, 3)
	assert.Contains(t, traced(out), raft.TraceConfigCommitted)
	c.receive("b", 5, raft.Heartbeat{Commit: 4})
	assert.Nil(t, c.out.Config)
}

// Each commit of a configuration is reported, because callers act on committed configurations. This also holds if that
// configuration is older than the one in force.
func TestConfig_SeveralInOneAppend(t *testing.T) {
	c := follower(t, 5, 1)
	c.appendConfigs("b", 5, id(2, 1), 1, moved("abc", "b"), moved("abc", "c"), moved("abc", "a"))
	c.assertGiven(moved("abc", "a"), 5, 1)
	c.receive("b", 5, raft.Heartbeat{Commit: 4})
	c.assertGiven(moved("abc", "a"), 5, 4)
	c.receive("b", 5, raft.Heartbeat{Commit: 5})
	c.assertGiven(moved("abc", "a"), 5, 5)
}

func TestConfig_FallsBackWhenTruncated(t *testing.T) {
	start := func() *core {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), 1, moved("abc", "b"), moved("abc", "c"))
		c.persist()
		return c
	}
	c := start()
	out := c.append("c", 6, id(3, 5), 1, 6)
	assert.Contains(t, traced(out), raft.TraceConfigRolledBack)
	c.assertGiven(moved("abc", "b"), 3, 1)
	c.append("c", 6, id(4, 6), 1, 6)
	assert.Nil(t, c.out.Config)

	c = start()
	c.append("c", 6, id(2, 1), 1, 6)
	c.assertGiven(asBootstrapped(), 1, 1)

	c = start()
	c.appendConfigs("c", 6, id(2, 1), 1, moved("abc", "a"))
	c.assertGiven(moved("abc", "a"), 3, 1)

	c = start()
	out = c.append("b", 5, id(4, 5), 1, 5)
	require.Nil(t, out.Config)
	out = c.append("c", 6, id(4, 5), 1, 6)
	assert.Contains(t, traced(out), raft.TraceTruncated)
	assert.NotContains(t, traced(out), raft.TraceConfigRolledBack, "the truncated entries held no configuration")
	assert.Nil(t, out.Config)
	c.assertInForce(moved("abc", "c"), 4, 1)
}

func TestConfig_AfterARestart(t *testing.T) {
	stored := storedWhole(t, raft.HardState{Term: 5}, 1)
	require.NoError(t, stored.Log.Observe(configEntry(id(3, 5), moved("abc", "b"))))
	require.NoError(t, stored.Log.Observe(configEntry(id(4, 5), moved("abc", "c"))))
	begin(t, coreConfig(), stored).assertGiven(moved("abc", "c"), 4, 0)
	stored.Commit = 3
	c := begin(t, coreConfig(), stored)
	c.assertGiven(moved("abc", "c"), 4, 3)
	c.append("b", 6, id(3, 5), 3, 6)
	c.assertGiven(moved("abc", "b"), 3, 3)
}

// storedBehindConfig is like storedBehind; the base holds the configuration of entry 3.
func storedBehindConfig(t *testing.T, config raft.Configuration, term raft.Term, base raft.EntryID, terms ...raft.Term) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: term}, Applied: base}
	b := baseOf(base)
	b.ConfigIndex, b.Config = 3, config
	stored.Log.Begin(b)
	for _, e := range entries(base.Index+1, terms...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return stored
}

func TestConfig_OfABase(t *testing.T) {
	c := begin(t, coreConfig(), storedBehindConfig(t, moved("abc", "b"), 5, id(4, 3), 3, 5))
	c.assertGiven(moved("abc", "b"), 3, 3)
	c.appendConfigs("b", 5, id(6, 5), 4, moved("abc", "c"))
	c.assertGiven(moved("abc", "c"), 7, 3)
	c.persist()
	c.append("c", 6, id(4, 3), 4, 6)
	c.assertGiven(moved("abc", "b"), 3, 3)
	out := c.appendConfigs("c", 6, id(5, 6), 4, moved("abd", "a"))
	assert.Contains(t, traced(out), raft.TraceRefused, "it must follow the configuration of the base")
	assert.Equal(t, id(5, 6), c.Status().Last)
}

// A snapshot or a base holds the configuration that was in force at its entry, however long the log is:
//
//	"the latest configuration in the log as of last included index" (§7)
func TestConfig_SnapshotOfAnEarlierIndex(t *testing.T) {
	c := begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 3}, 3))
	c.appendConfigs("b", 3, id(2, 3), 2, moved("abc", "b")) // 3
	c.append("b", 3, id(3, 3), 2, 3, 3, 3, 3, 3, 3)         // up to 9
	c.appendConfigs("b", 3, id(9, 3), 2, moved("abc", "c")) // 10
	c.append("b", 3, id(10, 3), 2, 3)                       // 11
	c.persist()
	out := c.receive("b", 3, raft.Heartbeat{Commit: 9})
	require.NotNil(t, out.Keep)
	take := out.Keep.Take
	require.NotNil(t, take)
	assert.Equal(t, id(9, 3), take.ID)
	assert.EqualValues(t, 3, take.ConfigIndex)
	assert.Equal(t, moved("abc", "b"), take.Config)
	require.NoError(t, take.Base.Check())

	taken(c, take, 1)
	out = c.persist()
	require.NotNil(t, out.Write.Base)
	assert.Greater(t, out.Write.Base.ID.Index, raft.Index(3))
	assert.EqualValues(t, 3, out.Write.Base.ConfigIndex)
	assert.Equal(t, moved("abc", "b"), out.Write.Base.Config)
	c.assertInForce(moved("abc", "c"), 10, 3)

	// The rest of the log may still be rolled back. Then the configuration of the base is in force again.
	c.append("c", 4, id(9, 3), 9, 4)
	c.assertGiven(moved("abc", "b"), 3, 3)
}

// "8. Reset state machine using snapshot contents (and load snapshot's cluster configuration)" (Figure 13)
func TestConfig_InstallReplacesIt(t *testing.T) {
	c := snapFollower(t)
	c.appendConfigs("b", 5, id(4, 3), 2, moved("abc", "b"))
	c.assertGiven(moved("abc", "b"), 5, 1)
	s := offered(id(9, 4), 1)
	s.ConfigIndex, s.Config = 6, moved("abc", "c")
	c.receive("c", 6, raft.InstallSnapshot{Snapshot: s})
	assert.Nil(t, c.out.Config)
	c.step(raft.SnapshotArrived{From: peer("c"), Snapshot: s})
	c.assertGiven(moved("abc", "c"), 6, 6)
	c.appendConfigs("c", 6, id(9, 4), 9, moved("abc", "a"))
	c.assertGiven(moved("abc", "a"), 10, 6)
}

// A member may be removed before it has received anything. It may be added again once so many later removals are remembered
// that its own is forgotten. Its log then gets the removal first.
func TestRemoved_WhoIsAddedAgainIsAMember(t *testing.T) {
	voters := membersNamed("bc")
	without, again, crowded := raft.NewConfiguration(voters), raft.NewConfiguration(append(voters, joining("a", raft.Learner))), raft.NewConfiguration(voters)
	without.Level, without.Removed = 1, []raft.Removal{{Peer: peer("a"), Index: 5}}
	crowded.Level, crowded.Removed, again.Level = 1, without.Removed, 1
	for i := range raft.RemovedMax {
		m := joining(raft.NodeID(fmt.Sprintf("d%02d", i)), raft.Learner)
		crowded.Members = append(crowded.Members, m)
		again.Removed = append(again.Removed, raft.Removal{Peer: m.Peer(), Index: 11})
	}
	emptied := raft.NewConfiguration(voters)
	emptied.Level, emptied.Removed = 1, again.Removed

	c := snapFollower(t)
	s := offered(id(9, 4), 1)
	s.ConfigIndex, s.Config = 5, without
	c.receive("b", 6, raft.InstallSnapshot{Snapshot: s})
	c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	c.persist()
	require.EqualValues(t, 9, c.Status().Commit)
	assert.Zero(t, c.Removed(), "a removed member gets no snapshot")
	c.receive("c", 7, raft.Heartbeat{Commit: 9})
	assert.EqualValues(t, 5, c.Removed(), "this leader has not shown that the removal is committed")

	c.appendConfigs("c", 7, id(9, 4), 9, crowded, emptied, again)
	require.EqualValues(t, 12, c.Status().ConfigIndex)
	c.persist()
	assert.Zero(t, c.Removed())
	c.receive("b", 8, raft.Heartbeat{Commit: 9})
	assert.Zero(t, c.Removed(), "the configuration in force names it")
	c.receive("b", 8, raft.Heartbeat{Commit: 9})
	c.append("b", 8, id(9, 4), 9, 8)
	c.receive("c", 9, raft.Heartbeat{Commit: 9})
	assert.EqualValues(t, 5, c.Removed(), "that configuration was rolled back")
	c.appendConfigs("c", 9, id(10, 8), 9, crowded)
	assert.Zero(t, c.Removed(), "a removed member gets nothing after its removal")
}

// A learner does not campaign, even if its election timeout passed long ago. When it becomes a voter, it waits for a new
// election timeout.
func TestConfig_AVoteBeginsWithAnElectionTimeout(t *testing.T) {
	learns := moved("abc", "b")
	learns.Members[0].Kind = raft.Learner
	cfg := snapConfig()
	c := begin(t, cfg, storedBehindConfig(t, learns, 5, id(4, 3), 3, 5))
	s := offered(id(9, 5), 1)
	s.ConfigIndex, s.Config = 8, moved("abc", "b")
	c.receive("b", 5, raft.InstallSnapshot{Snapshot: s})
	c.after(10 * electionTimeout)
	require.Equal(t, raft.Follower, c.Leadership().Role, "it has no vote")
	out := c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
	assert.Equal(t, raft.Follower, c.Leadership().Role)
	assert.GreaterOrEqual(t, out.WakeAt, c.now+electionTimeout)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// The answer to a probe lists the initial members, even while a membership change is running.
func TestConfig_AProbedMemberShowsEachIDOnce(t *testing.T) {
	joint := moved("abc", "b")
	leaving, replacing := joint.Members[2], joint.Members[2]
	leaving.Kind, replacing.Incarnation = raft.Leaving, leaving.Incarnation+1
	joint.Members = []raft.Member{joint.Members[0], joint.Members[1], leaving, replacing}
	joint.Outgoing = []raft.Peer{peer("a"), peer("b"), peer("c")}
	require.NoError(t, joint.Validate())
	want := moved("abc", "b")
	for i := range want.Members {
		want.Members[i].Incarnation = 0
	}
	c := begin(t, coreConfig(), storedBehindConfig(t, joint, 5, id(4, 3)))
	out := c.receive("b", 0, raft.BootstrapProbe{ID: raft.RPCID{StartCount: 1, Counter: 1}, List: listNamed("bc")})
	require.Len(t, out.Send, 1)
	assert.Equal(t, raft.NewConfiguration(want.Members), out.Send[0].Body.(raft.BootstrapProbeReply).List)
}

func TestConfig_AFeatureLevelOfALaterRelease(t *testing.T) {
	config := moved("abc", "b")
	config.Level = 7
	_, _, err := raft.NewCore(coreConfig(), storedBehindConfig(t, config, 5, id(4, 3)), raft.Now{Mono: 1, Wall: 1})
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
	var corrupt *raft.CorruptError
	assert.NotErrorAs(t, err, &corrupt, "it is not damage")
	assert.Equal(t, raft.LaterVersionError{Record: "the feature level of the cluster", Found: 7, Known: 6}, *later)
}

// If no correct leader would append a configuration, the member refuses it with a reason, and changes nothing.
func TestConfig_ThatNoLeaderAppends(t *testing.T) {
	for _, row := range []struct {
		rule, reason string
		prev         raft.EntryID
		entries      []raft.Entry
	}{
		{"garbage", "configuration entry", id(4, 5), []raft.Entry{{Index: 5, Term: 5, Kind: raft.EntryConfiguration, Data: []byte("garbage")}}},
		{"one without a voter", "no voter", id(4, 5), []raft.Entry{configEntry(id(5, 5), raft.Configuration{Level: 1})}},
		{"one as entry 1", "bootstraps no cluster", id(0, 0), []raft.Entry{configEntry(id(1, 0), moved("abc", "b"))}},
		{"other voters at once", "voters change", id(4, 5), []raft.Entry{configEntry(id(5, 5), moved("abd", "b"))}},
		{"other voters at once, at the index of another entry", "voters change", id(2, 1), []raft.Entry{configEntry(id(3, 5), moved("abd", "b"))}},
		{"other voters at once, after a change of an address", "entry 6@5 may not follow", id(4, 5), []raft.Entry{
			configEntry(id(5, 5), moved("abc", "b")), configEntry(id(6, 5), moved("ab", "b")),
		}},
		{"the same after an entry that the log has", "entry 3@5 may not follow", id(1, 0), append(entries(2, 1), configEntry(id(3, 5), moved("abd", "b")))},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := follower(t, 5, 1, 3, 5) // 1@0 2@1 3@3 4@5
			before := c.Status()
			last := row.entries[len(row.entries)-1].ID()
			out := c.receive("b", 5, raft.AppendRequest{Prev: row.prev, Last: last, Entries: row.entries})
			require.Contains(t, traced(out), raft.TraceRefused)
			assert.Contains(t, out.Trace[len(out.Trace)-1].Text, row.reason)
			assert.Empty(t, append(out.Send, out.Write.Then...))
			assert.Nil(t, out.Write.Log)
			assert.Nil(t, out.Config)
			c.assertInForce(before.Config, 1, 0)
			assert.Equal(t, before.Last, c.Status().Last)
		})
	}
}

// If a member is removed, the stream to it ends. The leader offers it no further snapshot.
func TestLeader_RemovedMemberIsSentNoSnapshot(t *testing.T) {
	c := compactedLeader(t, nil)
	c.hold("bc")
	c.change(addLearner("d"))
	c.hold("bc")
	c.receive("d", 3, raft.AppendConflict{Prev: c.Status().ConfigIndex})
	c.receive("d", 3, raft.AppendConflict{Prev: 8})
	require.Equal(t, "snapshot", c.progress("d").State)
	require.NotZero(t, c.progress("d").Offered)
	out := c.change(remove("d"))
	require.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("d")}, out.Keep.Stop)
	for range 8 {
		out = c.after(electionTimeout)
		assert.Empty(t, offers(append(out.Send, out.Write.Then...), "d"))
		if c.Leadership().Role == raft.Leader {
			c.hold("bc")
		}
	}
}

// If a member for which a state was frozen is removed, the stream to it ends and the state is released. The leader still
// serves that member.
func TestLeader_AFrozenStateIsNotHeldForARemovedMember(t *testing.T) {
	c, out := durableLeader(t, nil)
	out = c.step(frozen(out.Keep.Take, 5))
	require.Len(t, offers(out.Send, "b"), 1)

	c.change(remove("b"))
	require.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	c.persist()
	out = c.receive("c", 3, raft.AppendReply{Match: 10})
	require.True(t, c.progress("b").Departing)
	require.NotNil(t, out.Keep)
	assert.Equal(t, []raft.Peer{peer("b")}, out.Keep.Stop)
	assert.Equal(t, []raft.SnapshotID{fileOf(5)}, out.Keep.Discard)
}

// Once the members of a cluster have changed, its snapshots have a description that an earlier release cannot read.
func TestLeader_AnEarlierReleaseIsOfferedNoSnapshotOfAChangedCluster(t *testing.T) {
	for protocol, offered := range map[uint16]bool{raft.ProtocolMembership: true, raft.ProtocolMembership - 1: false} {
		c := compactedLeader(t, nil)
		c.hold("bc")
		c.change(addLearner("d"))
		c.hold("bc")
		c.step(raft.PeerUp{ID: "d", Incarnation: peer("d").Incarnation, Protocol: protocol})
		c.receive("d", 3, raft.AppendConflict{Prev: c.Status().ConfigIndex})
		c.receive("d", 3, raft.AppendConflict{Prev: 8})
		require.Equal(t, "snapshot", c.progress("d").State)
		assert.Equal(t, offered, c.progress("d").Offered != raft.EntryID{}, "protocol %d", protocol)
		assert.Equal(t, !offered, c.progress("d").EarlierRelease)
	}
}

// A new leader serves a removed member if it does not know that the removal is committed. The removed member may not know
// that either.
func TestLeader_ANewOneServesWhoWasRemoved(t *testing.T) {
	joint, left := leaving("c", 4)
	for commit, departing := range map[raft.Index]bool{3: true, 4: false} {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), commit, joint, left)
		c.append("b", 5, id(4, 5), commit, 5)
		c.persist()
		out := c.electedBy("b")
		require.Equal(t, raft.Leader, c.Leadership().Role)
		assert.Equal(t, departing, c.progress("c").Departing)
		sent := appends(append(out.Send, out.Write.Then...), "c")
		if departing {
			assert.Equal(t, []raft.Span{{After: 4, Last: 4}}, sent, "nothing after its removal")
		} else {
			assert.Empty(t, sent)
		}
	}
}
