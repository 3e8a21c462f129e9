package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// versioned returns a leader of abc in term 5 whose program has this version. Its no-op is committed.
func versioned(t *testing.T, version uint64) *core {
	cfg := coreConfig()
	cfg.AppVersion = version
	stored := raft.Stored{Incarnation: 'a', StartCount: 1, Hard: raft.HardState{Term: 4}}
	for _, e := range append([]raft.Entry{bootstrapEntry(membersNamed("abc"))}, entries(2, 1)...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	c := begin(t, cfg, stored)
	c.electedBy("b")
	c.hold("bc")
	require.Equal(t, raft.Leader, c.Leadership().Role)
	require.Equal(t, c.Status().Last.Index, c.Status().Commit)
	return c
}

// tells lets a member answer the last heartbeat round with the version of its program.
func (c *core) tells(id raft.NodeID, version uint64) raft.Output {
	return c.receive(id, c.Leadership().Term, raft.HeartbeatReply{Round: c.beat, AppVersion: version})
}

// assertMin checks the minimum in the configuration in force, and in the newest committed one.
func (c *core) assertMin(inForce, committed uint64) {
	c.t.Helper()
	s := c.Status()
	assert.Equal(c.t, [2]uint64{inForce, committed}, [2]uint64{s.Config.AppVersionMin, s.AppVersionMin})
}

func TestAppVersion_TheMinimumRisesOnceEveryMemberHasToldItsVersion(t *testing.T) {
	c := versioned(t, 3)
	c.after(heartbeatPace)
	c.tells("b", 2)
	c.assertMin(0, 0)
	c.tells("c", 4)
	c.assertMin(2, 0)
	config := c.Status().Config
	assert.EqualValues(t, 3, config.Level)
	assert.Equal(t, raft.ProtocolAppVersions, config.Protocol())
	for i, version := range []uint64{3, 2, 4} {
		assert.Equal(t, version, config.Members[i].AppVersion)
	}
	assert.Equal(t, "[a=a:1 (version 3) b=b:1 (version 2) c=c:1 (version 4)]", config.ListText())
	c.hold("bc")
	c.assertMin(2, 2)

	c.after(heartbeatPace)
	last := c.Status().Last
	c.tells("b", 1)
	c.tells("c", 4)
	assert.Equal(t, last, c.Status().Last, "it never falls")
	c.tells("b", 4)
	c.assertMin(3, 2)
}

func TestAppVersion_WithoutAVersionNothingChanges(t *testing.T) {
	for _, own := range []uint64{0, 1} {
		c := versioned(t, own)
		c.after(heartbeatPace)
		last := c.Status().Last
		c.tells("b", 0)
		c.tells("c", 9*(1-own))
		c.assertMin(0, 0)
		assert.Equal(t, last, c.Status().Last)
		assert.Zero(t, c.Status().Config.Level)
	}
}

// A member may have gone back to an earlier program while the leader did not hear it.
func TestAppVersion_TheMinimumWaitsForEveryMember(t *testing.T) {
	for rule, away := range map[string]func(*core){
		"silent": func(c *core) {
			for range 6 {
				c.after(heartbeatPace)
				c.tells("c", 1)
			}
		},
		"its connection broke": func(c *core) { c.step(raft.PeerLost{Peer: peer("b")}) },
		"its protocol is too low": func(c *core) {
			c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation, Protocol: raft.ProtocolAppVersions - 1})
		},
	} {
		t.Run(rule, func(t *testing.T) {
			c := versioned(t, 2)
			c.after(heartbeatPace)
			c.tells("b", 2)
			c.tells("c", 1)
			c.hold("bc")
			c.assertMin(1, 1)
			c.after(heartbeatPace)
			away(c)
			require.Equal(t, raft.Leader, c.Leadership().Role)
			c.tells("c", 2)
			c.assertMin(1, 1)
		})
	}
}

func TestAppVersion_NoMinimumRisesDuringAChange(t *testing.T) {
	c := versioned(t, 1)
	c.change(addLearner("d"))
	c.hold("bc")
	c.after(heartbeatPace)
	c.tells("b", 1)
	c.tells("c", 1)
	c.assertMin(0, 0)
	c.tells("d", 1)
	c.assertMin(1, 0)

	// The configuration that nobody has asked for refuses no change.
	c.change(remove("d"))
	assert.Empty(t, c.out.Answers)
	c.hold("b")
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
	c.assertMin(1, 1)
}

func TestAppVersion_MembersBelowTheMinimumAreRefused(t *testing.T) {
	c := versioned(t, 2)
	c.after(heartbeatPace)
	c.tells("b", 2)
	c.tells("c", 2)
	c.hold("bc")
	c.assertMin(2, 2)
	runs := func(id raft.NodeID, version uint64) raft.Member {
		m := joining(id, raft.Learner)
		m.AppVersion = version
		return m
	}
	var outdated *raft.AppVersionError
	for _, ch := range []raft.Change{
		{Add: []raft.Member{runs("d", 1)}},
		{Replace: []raft.Replacement{{Old: raft.Peer{ID: "b"}, New: runs("d", 1)}}},
	} {
		c.change(ch)
		c.assertRefused(raft.RefusedAppVersion, &outdated)
		assert.Equal(t, raft.AppVersionError{ID: "d", Own: 1, Min: 2}, *outdated)
		assert.ErrorContains(t, outdated, "d runs version 1 of the application, and the cluster needs at least version 2: start a program")
	}
	c.change(raft.Change{Add: []raft.Member{runs("d", 3)}})
	require.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
	c.hold("bcd")
	m, _ := c.Status().Config.Member("d")
	assert.EqualValues(t, 3, m.AppVersion)

	c.after(heartbeatPace)
	c.tells("d", 1) // it went back, and its log is short
	c.tells("b", 2)
	promote := raft.Change{Promote: []raft.Peer{{ID: "d"}}}
	c.change(promote)
	c.assertRefused(raft.RefusedAppVersion, &outdated)
	assert.Equal(t, raft.AppVersionError{ID: "d", Own: 1, Min: 2}, *outdated)
	c.step(raft.PeerLost{Peer: peer("d")}) // perhaps to be upgraded
	c.change(promote)
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
	m, _ = c.Status().Config.Member("d")
	assert.EqualValues(t, 3, m.AppVersion, "as it joined")
}

// needing returns the configuration of abc with this minimum.
func needing(version uint64) raft.Configuration {
	c := moved("abc", "b")
	c.Level, c.AppVersionMin = 3, version
	for i := range c.Members {
		c.Members[i].AppVersion = version
	}
	return c
}

// From the configuration on that needs a newer program, the FSM gets nothing, although all of it is committed.
func TestAppVersion_AnOutdatedMemberAppliesNothing(t *testing.T) {
	cfg := coreConfig()
	cfg.AppVersion = 1
	stored := raft.Stored{Incarnation: 'a', StartCount: 1, Hard: raft.HardState{Term: 5}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	c := begin(t, cfg, stored)
	c.appendConfigs("b", 5, id(1, 0), 1, needing(1))
	c.persist()
	require.Nil(t, c.Outdated())
	out := c.appendConfigs("b", 5, id(2, 5), 2, needing(2))
	assert.Equal(t, &raft.AppVersionError{ID: "a", Own: 1, Min: 2}, c.Outdated())
	assert.Zero(t, out.Apply)
	out = c.receive("b", 5, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 9}, Commit: 3})
	assert.Zero(t, out.Apply)
	assert.Zero(t, c.persist().Apply)

	stored = raft.Stored{Incarnation: 'a', StartCount: 1, Hard: raft.HardState{Term: 5}}
	for _, e := range []raft.Entry{bootstrapEntry(membersNamed("abc")), configEntry(id(2, 5), needing(2))} {
		require.NoError(t, stored.Log.Observe(e))
	}
	_, _, err := raft.NewCore(cfg, stored, raft.Now{Mono: 1, Wall: 1})
	var outdated *raft.AppVersionError
	require.ErrorAs(t, err, &outdated)
	assert.Equal(t, raft.AppVersionError{ID: "a", Own: 1, Min: 2}, *outdated)
	cfg.AppVersion = 2
	begin(t, cfg, stored)

	bad := needing(2)
	bad.Members[1].AppVersion = 1
	assert.ErrorContains(t, bad.Validate(), `member "b" runs version 1 of the application, below the minimum 2`)
	bad = needing(2)
	bad.Level = 2
	assert.ErrorContains(t, bad.Validate(), "versions begin with level 3")
	bad.AppVersionMin = 0
	assert.ErrorContains(t, bad.Validate(), "leave it 0")
}

func TestAppVersion_ALogInWhichTheMinimumFallsIsRefused(t *testing.T) {
	cfg := coreConfig()
	cfg.AppVersion = 3
	stored := raft.Stored{Incarnation: 'a', StartCount: 1, Hard: raft.HardState{Term: 5}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	c := begin(t, cfg, stored)
	c.appendConfigs("b", 5, id(1, 0), 2, needing(3))
	c.appendConfigs("b", 5, id(2, 5), 2, needing(2))
	assert.Equal(t, raft.Index(2), c.Status().ConfigIndex)
}

func TestAppVersion_IsWrittenLikeThis(t *testing.T) {
	c := needing(2)
	c.Members = c.Members[:1]
	assert.Equal(t, `{"version":1,"level":3,"members":[{"id":"a","address":"YTox","incarnation":97,"app_version":2}],"app_version_min":2}`,
		string(c.Encode()))
	got, err := raft.DecodeConfiguration(c.Encode())
	require.NoError(t, err)
	assert.Equal(t, c, got)
}

// A snapshot says in its configuration which program it needs. The FSM is left alone, now and at each start.
func TestAppVersion_AnOutdatedMemberRestoresNothing(t *testing.T) {
	s := offered(id(9, 4), 1)
	s.Config, s.ConfigIndex = needing(2), 8
	for version, restores := range []bool{false, false, true} {
		cfg := snapConfig()
		cfg.AppVersion = uint64(version)
		c := begin(t, cfg, storedWhole(t, raft.HardState{Term: 5}, 1, 1, 3))
		c.append("b", 5, id(2, 1), 2)
		c.offer(s, 0)
		c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: s})
		out := c.persist()
		assert.Equal(t, restores, out.Restore != nil)
		assert.Equal(t, restores, c.Outdated() == nil)
		assert.Zero(t, out.Apply)
	}
}
