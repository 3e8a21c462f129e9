package raft

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// prefers returns updates of a member's priority. The number is as people write it.
func prefers(id NodeID, number int) []Update {
	p, err := PriorityOf(number)
	if err != nil {
		panic(err)
	}
	return []Update{{Peer: Peer{ID: id}, Priority: &p}}
}

// joinsWith returns a member that joins with a priority.
func joinsWith(name string, kind MemberKind, p Priority) []Member {
	m := memberOf(name)
	m.Kind, m.Priority = kind, p
	return []Member{m}
}

func TestPriority_Numbers(t *testing.T) {
	for number, want := range map[int]Priority{0: PriorityNever, 1: 0, 2: 2, 100: PriorityMax} {
		p, err := PriorityOf(number)
		require.NoError(t, err)
		require.Equal(t, want, p)
		require.Equal(t, number, p.Number())
	}
	require.Equal(t, "1", Priority(1).String())
	for _, number := range []int{-1, 101, 257, math.MinInt} { // 257 would be 1 in eight bits
		_, err := PriorityOf(number)
		var refused *PriorityError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, PriorityError{Number: number}, *refused)
		require.ErrorContains(t, err, "it takes 1 to 100, or 0 (PriorityNever)")
	}
}

func TestPlan_Priorities(t *testing.T) {
	for _, row := range []struct {
		rule, before string
		change       Change
		want         string
	}{
		{"a voter gets a priority at once", "a:v b:v", Change{Update: prefers("b", 5)}, "a:v b:v=5"},
		{"and loses it", "a:v b:v=5", Change{Update: prefers("b", 1)}, "a:v b:v"},
		{"a voter becomes a standby", "a:v b:v", Change{Update: prefers("b", 0)}, "a:v b:v=0"},
		{"two voters swap their roles", "a:v b:v=0", Change{Update: append(prefers("a", 0), prefers("b", 1)...)}, "a:v=0 b:v"},
		{"no effect: it has that priority", "a:v b:v=5", Change{Update: prefers("b", 5)}, "a:v b:v=5"},
		{"no effect: every voter has priority 1", "a:v b:v", Change{Update: prefers("b", 1)}, "a:v b:v"},
		{"no effect: and so has a learner once it votes", "a:v b:l", Change{Update: prefers("b", 1)}, "a:v b:l"},
		{"a voter joins with a priority", "a:v", Change{Add: joinsWith("b", Voter, 7)}, "a:v b:l>v=7"},
		{"1 is the default", "a:v", Change{Add: joinsWith("b", Voter, 1)}, "a:v b:l>v"},
		{"a learner that becomes a voter gets one", "a:v b:l", Change{Add: joinsWith("b", Voter, 7)}, "a:v b:l>v=7"},
		{"a replacement keeps the priority", "a:v b:v=5", Change{Replace: replaces(Peer{ID: "b"}, "b2")}, "a:v b:v>-=5 b2:l>v=5"},
		{"whatever the new member says", "a:v b:v=5",
			Change{Replace: []Replacement{{Peer{ID: "b"}, joinsWith("c", Voter, 90)[0]}}}, "a:v b:v>-=5 c:l>v=5"},
		{"the only one that may lead is replaced", "a:v b:v=0", Change{Replace: replaces(Peer{ID: "a"}, "a2")}, "a:v>- a2:l>v b:v=0"},
		{"a voter keeps it while it is demoted", "a:v b:v=5", Change{Demote: them("b")}, "a:vo b:lo=5"},
		{"a standby is removed", "a:v b:v=0", Change{Remove: them("b")}, "a:vo b:o=0"},
		{"a change that is given up takes it from learners", "a:v b:v>-=5 b2:l>v=5", Change{Cancel: true}, "a:v b:v=5 b2:l"},
	} {
		got, why := planned(t, conf(row.before), row.change, "")
		require.Zero(t, why.kind, row.rule)
		require.Equal(t, row.want, got, row.rule)
	}
	require.Equal(t, "a:v b:l", textOf(conf("a:vo b:lo=5").leave(9)), "a member loses it with its last vote")
	require.Equal(t, "a:v b2:v=5 -b@9", textOf(conf("a:v b:v>-=5 b2:l>v=5").enter(8).leave(9)), "the new member has it from its first vote on")
}

func TestPlan_PrioritiesThatAreRefused(t *testing.T) {
	for _, row := range []struct {
		rule, before   string
		change         Change
		voters, raises string // of a *NotElectableError
	}{
		{"the only voter becomes a standby", "a:v", Change{Update: prefers("a", 0)}, "a", "a"},
		{"the last one that may lead becomes a standby", "a:v=0 b:v", Change{Update: prefers("b", 0)}, "a b", "a"},
		{"all become standbys", "a:v b:v", Change{Update: append(prefers("a", 0), prefers("b", 0)...)}, "a b", "a"},
		{"the last one that may lead is removed", "a:v=0 b:v", Change{Remove: them("b")}, "a", "a"},
		{"the last one that may lead is demoted", "a:v=0 b:v", Change{Demote: them("b")}, "a", "a"},
		{"the last one that may lead leaves a standby that joins", "a:v", Change{Add: joinsWith("b", Voter, PriorityNever), Remove: them("a")}, "b", ""},
		{"nobody may lead until the new member has caught up", "a:v=0 b:v",
			Change{Update: prefers("b", 0), Add: joinsWith("c", Voter, 0)}, "a b", "a"},
		{"the same, and the member that may not lead leaves", "a:v b:l",
			Change{Update: prefers("a", 0), Promote: them("b")}, "a", "a"},
	} {
		_, why := planned(t, conf(row.before), row.change, "")
		require.Equal(t, RefusedNotElectable, why.kind, row.rule)
		require.Equal(t, row.voters, idsOf(why.voters), row.rule)
		var refused *NotElectableError
		err := row.change.ValidateFor(ConfigRun{Index: 8, Config: conf(row.before)})
		require.ErrorAs(t, err, &refused, row.rule)
		require.Equal(t, NodeID(row.raises), refused.Raise, row.rule)
		if row.raises != "" {
			require.ErrorContains(t, err, "SetPriority("+row.raises+", 1)", row.rule)
		}
	}

	learns := Change{Update: prefers("b", 5)}
	_, why := planned(t, conf("a:v b:l"), learns, "")
	require.Equal(t, RefusedMalformed, why.kind)
	err := learns.ValidateFor(ConfigRun{Index: 8, Config: conf("a:v b:l")})
	var refused *PriorityError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, PriorityError{ID: "b", Number: 5, Learner: true}, *refused)
	var field *ConfigError
	require.ErrorAs(t, err, &field)
	require.ErrorContains(t, err, "make it a voter first")

	for _, text := range []string{"a:v b:l>v", "a:vo b:o"} {
		_, why = planned(t, conf(text), Change{Update: prefers("a", 5)}, "")
		require.Equal(t, RefusedChanging, why.kind, "another change runs: %s", text)
	}
}

func TestChange_ValidatesPriorities(t *testing.T) {
	high, low := Priority(PriorityMax+1), PriorityNever-1
	for _, row := range []struct {
		change Change
		want   PriorityError
	}{
		{Change{Update: []Update{{Peer: peerOf("b"), Priority: &high}}}, PriorityError{ID: "b", Number: 101}},
		{Change{Update: []Update{{Peer: peerOf("b"), Priority: &low}}}, PriorityError{ID: "b", Number: -2}},
		{Change{Add: joinsWith("b", Voter, high)}, PriorityError{ID: "b", Number: 101}},
		{Change{Add: joinsWith("b", Learner, 5)}, PriorityError{ID: "b", Number: 5, Learner: true}},
		{Change{Add: joinsWith("b", Learner, PriorityNever)}, PriorityError{ID: "b", Number: 0, Learner: true}},
	} {
		err := row.change.validate()
		var refused *PriorityError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, row.want, *refused)
		var field *ConfigError
		require.ErrorAs(t, err, &field)
	}
	require.NoError(t, Change{Add: joinsWith("b", Learner, 1)}.validate(), "every learner has priority 1 once it votes")
	require.NoError(t, Change{Replace: []Replacement{{New: joinsWith("b", Voter, high)[0]}}}.validate(), "it is not read")
}

func TestConfiguration_ValidatesPriorities(t *testing.T) {
	for _, row := range []struct{ text, wrong string }{
		{"a:v=0 b:v", ""},
		{"a:v=100 b:v=0 c:l>v=3", ""},
		{"a:vo=0 b:lo=5 c:v", ""},
		{"a:vo b:o=5", ""},

		{"a:v=0", "of the voters a none would lead"},
		{"a:v=0 b:l>v", "of the voters a none would lead"},
		{"a:v>- b:l>v=0", "of the voters b none would lead"},
		{"a:vo=0 b:o=0 c:v", "of the voters a b none would lead"},
		{"a:vo=0 b:lo", "of the voters a none would lead"},
		{"a:v b:l=5", "is given to a learner"},
		{"a:v b:l>-=5 c:l>v", "is given to a learner"},
	} {
		err := conf(row.text).Validate()
		if row.wrong == "" {
			require.NoError(t, err, row.text)
			continue
		}
		require.ErrorContains(t, err, row.wrong, row.text)
	}
	c := conf("a:v b:v=5")
	c.Level = featureLevelMembers
	require.ErrorContains(t, c.Validate(), "priorities begin with level 2")
	c = conf("a:v")
	c.Members[0].Priority = 1
	require.ErrorContains(t, c.Validate(), "is written as 0")
	require.NoError(t, NewConfiguration(c.Members).Validate())
	require.NoError(t, plain("a:v b:v=0").Validate(), "initial members may have priorities")
	require.ErrorContains(t, plain("a:v=0 b:v=0").Validate(), "of the voters a b none would lead")
}

// Without priorities, records are as earlier releases write them.
func TestPriorities_AreWrittenLikeThis(t *testing.T) {
	c := conf("a:v=0 b:v=5 c:v")
	require.Equal(t, `{"version":1,"level":2,"members":[`+
		`{"id":"a","address":"YTox","incarnation":1,"priority":-1},`+
		`{"id":"b","address":"Yjox","incarnation":1,"priority":5},`+
		`{"id":"c","address":"Yzox","incarnation":1}]}`, string(c.Encode()))
	for _, text := range []string{"a:v=0 b:v=5 c:v", "a:vo b:lo=5", "a:v b:v>-=5 b2:l>v=5"} {
		got, err := DecodeConfiguration(conf(text).Encode())
		require.NoError(t, err)
		require.Equal(t, conf(text), got)
	}
	for _, data := range []string{
		`{"version":1,"level":2,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":1}]}`,
		`{"version":1,"level":2,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":0}]}`,
		`{"version":1,"level":2,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":101}]}`,
		`{"version":1,"level":2,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":-1}]}`,
		`{"version":1,"level":2,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":257}]}`,
		`{"version":1,"level":1,"members":[{"id":"a","address":"YTox","incarnation":1,"priority":5}]}`,
	} {
		_, err := DecodeConfiguration([]byte(data))
		require.ErrorContains(t, err, "raft: ", data)
	}
}

// A bootstrap with priorities has a version that earlier releases refuse, and so has everything that is written after it.
func TestBootstrap_WithPriorities(t *testing.T) {
	f := aBootstrap(3)
	before := string(f.Encode())
	require.Contains(t, before, `"version":2`)
	f.Configuration.Members[1].Priority = PriorityNever
	data := f.Encode()
	require.Contains(t, string(data), `"version":3`)
	got, err := DecodeBootstrap(data)
	require.NoError(t, err)
	require.EqualValues(t, featureLevelPriorities, got.Configuration.Level)
	f.Configuration.Level = featureLevelPriorities
	require.Equal(t, f, got)
	require.Equal(t, data, got.Encode())

	base := Base{
		ID: EntryID{Term: 1, Index: 2}, Cluster: got.Cluster, Bootstrapper: got.Bootstrapper, ConfigIndex: 1, Config: got.Configuration,
	}
	require.Contains(t, string(base.Encode()), `"version":2`)
	again, err := DecodeBase(base.Encode())
	require.NoError(t, err)
	require.Equal(t, base, again)

	for _, bad := range []string{
		before[:len(before)-2] + `,"priority":5}]}`,                                        // of version 2
		string(data[:11]) + "3" + before[12:],                                              // of version 3, without one
		string(data[:len(data)-2]) + `,"priority":-7}]}`,                                   // out of range
		before[:11] + "3" + before[12:len(before)-2] + `,"kind":1,"priority":5}]}`,         // of a learner
		`{"version":3,"members":[{"id":"n0","address":"YTox","priority":-1}],"cluster":7}`, // malformed
	} {
		_, err := DecodeBootstrap([]byte(bad))
		require.ErrorContains(t, err, "bootstrap entry", bad)
	}
}
