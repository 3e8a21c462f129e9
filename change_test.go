package raft

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// joins returns members with these names, as a change adds them.
func joins(kind MemberKind, names ...string) []Member {
	var members []Member
	for _, name := range names {
		m := memberOf(name)
		m.Kind = kind
		members = append(members, m)
	}
	return members
}

// them returns the peers with these ids, of any incarnation.
func them(ids ...NodeID) []Peer {
	var peers []Peer
	for _, id := range ids {
		peers = append(peers, Peer{ID: id})
	}
	return peers
}

func replaces(old Peer, name string) []Replacement { return []Replacement{{old, memberOf(name)}} }

// planned plans a change while the named members are silent, and checks the rules that hold for every plan.
func planned(t *testing.T, before Configuration, ch Change, silent string) (string, refusal) {
	t.Helper()
	require.NoError(t, before.Validate())
	text := textOf(before)
	next, why := before.plan(ch, 9, func(p Peer) bool {
		return !slices.ContainsFunc(strings.Fields(silent), func(name string) bool { return peerOf(name) == p })
	})
	require.Equal(t, text, textOf(before), "configurations are shared, and must not change")
	if why.kind != 0 {
		require.True(t, next.Equal(before), "a refused change changes nothing")
		return "", why
	}
	if !next.Equal(before) {
		require.NoError(t, next.Validate())
		require.NoError(t, next.follows(before, 9))
		level := max(before.Level, featureLevelMembers)
		if next.prioritized() {
			level = featureLevelPriorities
		}
		require.Equal(t, level, next.Level)
	}
	return textOf(next), why
}

func TestPlan(t *testing.T) {
	for _, row := range []struct {
		rule, before string
		change       Change
		want         string
	}{
		{"a learner joins at once", "a:v", Change{Add: joins(Learner, "b")}, "a:v b:l"},
		{"a voter joins as a learner", "a:v", Change{Add: joins(Voter, "b")}, "a:v b:l>v"},
		{"several join", "a:v", Change{Add: joins(Voter, "b", "c")}, "a:v b:l>v c:l>v"},
		{"a learner that is added as a voter is promoted", "a:v b:l", Change{Add: joins(Voter, "b")}, "a:v b:l>v"},
		{"a learner is promoted once it has caught up", "a:v b:l", Change{Promote: them("b")}, "a:v b:l>v"},
		{"a voter is demoted", "a:v b:v c:v", Change{Demote: them("c")}, "a:vo b:vo c:lo"},
		{"a voter is removed", "a:v b:v c:v", Change{Remove: them("c")}, "a:vo b:vo c:o"},
		{"a learner is removed", "a:v b:l", Change{Remove: them("b")}, "a:v -b@9"},
		{"of two, the voter is removed", "a:v b:v b2:l", Change{Remove: []Peer{peerOf("b")}}, "a:vo b:o b2:l"},
		{"of two, the one that is named", "a:v b:v b2:l", Change{Remove: []Peer{peerOf("b2")}}, "a:v b:v -b2@9"},
		{"a voter is replaced", "a:v b:v", Change{Replace: replaces(Peer{ID: "b"}, "c")}, "a:v b:v>- c:l>v"},
		{"a voter is replaced by its own id", "a:v b:v", Change{Replace: replaces(Peer{ID: "b"}, "b2")}, "a:v b:v>- b2:l>v"},
		{"the only voter is replaced", "a:v", Change{Replace: replaces(Peer{ID: "a"}, "a2")}, "a:v>- a2:l>v"},
		{"a learner is replaced by a learner, at once", "a:v b:l", Change{Replace: replaces(Peer{ID: "b"}, "b2")}, "a:v b2:l -b@9"},
		{"a replacement that was given up is tried again", "a:v b:v b2:l", Change{Replace: replaces(Peer{ID: "b"}, "b2")}, "a:v b:v>- b2:l>v"},
		{"or with another disk", "a:v b:v b2:l",
			Change{Remove: []Peer{peerOf("b2")}, Replace: replaces(Peer{ID: "b"}, "c")}, "a:v b:v>- b2:l>- c:l>v"},
		{"a learner takes the place of a voter", "a:v b:v c:l", Change{Replace: replaces(Peer{ID: "b"}, "c")}, "a:v b:v>- c:l>v"},
		{"everything waits for the member that must catch up", "a:v b:v c:v d:l e:l",
			Change{Add: joins(Voter, "f"), Demote: them("b"), Remove: them("c", "d")}, "a:v b:v>l c:v>- d:l>- e:l f:l>v"},
		{"edits that need not wait take effect at once", "a:v b:v c:l",
			Change{Add: joins(Learner, "d"), Demote: them("b"), Remove: them("c")}, "a:vo b:lo d:l -c@9"},
		{"voters swap their roles with learners", "a:v b:v c:l", Change{Promote: them("c"), Demote: them("b")}, "a:v b:v>l c:l>v"},
		{"an incarnation that nobody remembers may join again", "a:v -b2@3", Change{Add: joins(Learner, "b")}, "a:v b:l -b2@3"},

		{"no effect: nothing is asked for", "a:v", Change{}, "a:v"},
		{"no effect: a voter is promoted", "a:v b:v", Change{Promote: them("b")}, "a:v b:v"},
		{"no effect: a learner is demoted", "a:v b:l", Change{Demote: them("b")}, "a:v b:l"},
		{"no effect: nothing is canceled", "a:v b:l", Change{Cancel: true}, "a:v b:l"},
		{"a change that waits is canceled", "a:v b:v>- c:l>v", Change{Cancel: true}, "a:v b:v c:l"},
	} {
		got, why := planned(t, conf(row.before), row.change, "")
		require.Zero(t, why.kind, row.rule)
		require.Equal(t, row.want, got, row.rule)
	}
}

func TestPlan_Refusals(t *testing.T) {
	address := func(of, address string) Change {
		return Change{Update: []Update{{Peer: peerOf(of), Address: &address}}}
	}
	at := func(name, address string) []Member {
		m := memberOf(name)
		m.Address, m.Kind = address, Learner
		return []Member{m}
	}
	for _, row := range []struct {
		rule, before string
		change       Change
		kind         RefusalKind
		concerns     string
	}{
		{"a change waits", "a:v b:l>v c:l>v", Change{Add: joins(Learner, "d")}, RefusedChanging, "b c"},
		{"a change takes effect", "a:vo b:o", Change{Add: joins(Learner, "d")}, RefusedChanging, ""},
		{"a change that takes effect is not canceled", "a:vo b:o", Change{Cancel: true}, RefusedChanging, ""},

		{"no such member", "a:v", Change{Remove: them("b")}, RefusedUnknownMember, "b"},
		{"no such incarnation", "a:v b:v", Change{Remove: []Peer{peerOf("b2")}}, RefusedUnknownMember, "b"},
		{"no such member to update", "a:v", address("b", "x:1"), RefusedUnknownMember, "b"},
		{"Despite names no member", "a:v b:v", Change{Demote: them("b"), Despite: []NodeID{"c"}}, RefusedUnknownMember, "c"},

		{"a voter that is there", "a:v b:v", Change{Add: joins(Voter, "b")}, RefusedMemberExists, "b"},
		{"a learner that is there", "a:v b:l", Change{Add: joins(Learner, "b")}, RefusedMemberExists, "b"},
		{"a voter joins as a learner", "a:v b:v", Change{Add: joins(Learner, "b")}, RefusedMemberExists, "b"},
		{"another incarnation is there", "a:v b:v", Change{Add: joins(Voter, "b2")}, RefusedMemberExists, "b"},
		{"another incarnation is there, a learner", "a:v b:l", Change{Add: joins(Learner, "b2")}, RefusedMemberExists, "b"},
		{"an id joins twice", "a:v", Change{Add: joins(Learner, "b", "b2")}, RefusedMalformed, "b"},
		{"an id stands twice already", "a:v b:v b2:l", Change{Replace: replaces(Peer{ID: "b"}, "b3")}, RefusedMemberExists, "b"},
		{"the new id is another member's", "a:v b:v c:v", Change{Replace: replaces(Peer{ID: "b"}, "c2")}, RefusedMemberExists, "c"},
		{"another incarnation of it votes", "a:v b:v b2:l", Change{Promote: []Peer{peerOf("b2")}}, RefusedMemberExists, "b"},

		{"the last voter is removed", "a:v b:l", Change{Remove: them("a")}, RefusedLastVoter, "a"},
		{"the last voter is demoted", "a:v b:l", Change{Demote: them("a")}, RefusedLastVoter, "a"},
		{"all voters are removed", "a:v b:v c:l", Change{Remove: them("a", "b")}, RefusedLastVoter, "a"},

		{"a new member has the address of another", "a:v b:v", Change{Add: at("c", "b:1")}, RefusedAddressInUse, "c b"},
		{"two new members have one address", "a:v", Change{Add: slices.Concat(at("b", "x:1"), at("c", "x:1"))}, RefusedAddressInUse, "b c"},
		{"a member moves to the address of another", "a:v b:v", address("b", "a:1"), RefusedAddressInUse, "b a"},

		{"it was removed", "a:v -b@3", Change{Add: joins(Learner, "b")}, RefusedWasRemoved, "b"},
		{"it was removed, and replaces", "a:v c:v -b@3", Change{Replace: replaces(Peer{ID: "c"}, "b")}, RefusedWasRemoved, "b"},

		{"one member is removed and demoted", "a:v b:v", Change{Remove: them("b"), Demote: them("b")}, RefusedMalformed, "b"},
		{"one member is named in two ways", "a:v b:v c:v", Change{Remove: []Peer{{ID: "b"}, peerOf("b")}}, RefusedMalformed, "b"},
		{"one member joins twice", "a:v", Change{Add: joins(Learner, "b", "b")}, RefusedMalformed, "b"},
		{"a member replaces itself", "a:v b:v", Change{Replace: replaces(Peer{ID: "b"}, "b")}, RefusedMalformed, "b"},
		{"of two with the id, one is removed: a repetition would remove the other", "a:v b:v b2:l", Change{Remove: them("b")}, RefusedMalformed, "b"},
		{"two learners have the id", "a:v b:l b2:l", Change{Remove: them("b")}, RefusedMalformed, "b"},
		{"Validate refuses it", "a:v", Change{Add: []Member{{ID: "b"}}}, RefusedMalformed, ""},
	} {
		_, why := planned(t, conf(row.before), row.change, "")
		require.Equal(t, row.kind, why.kind, row.rule)
		require.Equal(t, row.concerns, idsOf(why.concerns), row.rule)
	}
	_, why := planned(t, conf("a:v -b@3 -c@7"), Change{Add: joins(Learner, "c")}, "")
	require.Equal(t, Index(7), why.index)
}

func idsOf(ids []NodeID) string {
	var words []string
	for _, id := range ids {
		words = append(words, string(id))
	}
	return strings.Join(words, " ")
}

// A change must not cost the cluster its working majority.
func TestPlan_NewVotersMustBeHeard(t *testing.T) {
	for _, row := range []struct {
		rule, before, silent string
		change               Change
		concerns             string // "": it is accepted
	}{
		{"all are heard", "a:v b:v c:v", "", Change{Remove: them("c")}, ""},
		{"a silent one is removed", "a:v b:v c:v", "c", Change{Remove: them("c")}, ""},
		{"a heard one is removed", "a:v b:v c:v", "c", Change{Remove: them("b")}, "c"},
		{"unless the caller knows it", "a:v b:v c:v", "c", Change{Remove: them("b"), Despite: []NodeID{"c"}}, ""},
		{"knowing another does not help", "a:v b:v c:v", "c", Change{Remove: them("b"), Despite: []NodeID{"a"}}, "c"},
		{"a majority is enough", "a:v b:v c:v d:v", "d", Change{Demote: them("b")}, ""},
		{"of several silent ones, the caller must name enough", "a:v b:v c:v d:v e:v", "c d e",
			Change{Remove: them("b"), Despite: []NodeID{"c"}}, "d e"},
		{"so that the others are a majority", "a:v b:v c:v d:v e:v", "c d", Change{Remove: them("b"), Despite: []NodeID{"c"}}, ""},
		{"a member that joins is waited for", "a:v", "b c", Change{Add: joins(Voter, "b", "c")}, ""},
		{"a member that is promoted is waited for", "a:v b:l c:l", "b c", Change{Promote: them("b", "c")}, ""},
		{"a member that replaces a silent one is waited for", "a:v b:v c:v", "c c2", Change{Replace: replaces(Peer{ID: "c"}, "c2")}, ""},
		{"but does not hide that another is silent", "a:v b:v", "b", Change{Add: joins(Voter, "c"), Demote: them("a")}, "b"},
		{"learners may come while voters are silent", "a:v b:v c:v", "b c", Change{Add: joins(Learner, "d")}, ""},
		{"and go", "a:v b:v c:v d:l", "b c", Change{Remove: them("d")}, ""},
		{"silent learners do not count", "a:v b:v c:l d:l", "c d", Change{Demote: them("b")}, ""},
	} {
		_, why := planned(t, conf(row.before), row.change, row.silent)
		require.Equal(t, row.concerns, idsOf(why.concerns), row.rule)
		require.Equal(t, row.concerns != "", why.kind == RefusedQuorumLoss, row.rule)
	}
}

func TestPlan_AddressesAndMeta(t *testing.T) {
	text := func(s string) *string { return &s }
	live := func(Peer) bool { return true }
	before := conf("a:v b:v c:l")

	swap := Change{Update: []Update{{Peer: Peer{ID: "a"}, Address: text("b:1")}, {Peer: Peer{ID: "b"}, Address: text("a:1"), Meta: text("m")}}}
	next, why := before.plan(swap, 9, live)
	require.Zero(t, why.kind)
	require.NoError(t, next.follows(before, 9))
	require.Equal(t, []string{"b:1", "a:1", "c:1"}, []string{next.Members[0].Address, next.Members[1].Address, next.Members[2].Address})
	require.Equal(t, "m", next.Members[1].Meta)
	require.Equal(t, "a:v b:v c:l", textOf(next))

	same, why := before.plan(Change{Update: []Update{{Peer: Peer{ID: "a"}, Address: text("a:1")}}}, 9, live)
	require.Zero(t, why.kind)
	require.True(t, same.Equal(before), "no effect")

	heir := memberOf("d")
	heir.Address, heir.Meta = "b:1", "m"
	next, why = before.plan(Change{Replace: []Replacement{{Peer{ID: "b"}, heir}}}, 9, live)
	require.Zero(t, why.kind, "the address of a removed member may be reused")
	require.Equal(t, "a:v b:v>- c:l d:l>v", textOf(next))
	require.Equal(t, "m", next.Members[3].Meta)

	again := memberOf("c")
	again.Address = "c:2"
	next, why = before.plan(Change{Add: []Member{again}}, 9, live)
	require.Zero(t, why.kind)
	require.Equal(t, "a:v b:v c:l>v", textOf(next))
	require.Equal(t, "c:2", next.Members[2].Address, "a member that is added again may have moved")
}

func TestPlan_LevelAndPatience(t *testing.T) {
	live := func(Peer) bool { return true }
	for _, row := range []struct {
		rule   string
		change Change
		want   time.Duration
	}{
		{"the default is to wait a minute for a member that is to vote", Change{Add: joins(Voter, "b")}, time.Minute},
		{"as long as the caller says", Change{Add: joins(Voter, "b"), Patience: time.Hour}, time.Hour},
		{"a learner is not waited for", Change{Add: joins(Learner, "b"), Patience: time.Hour}, 0},
	} {
		next, why := plain("a:v").plan(row.change, 9, live)
		require.Zero(t, why.kind, row.rule)
		require.Equal(t, row.want, next.Patience, row.rule)
		require.EqualValues(t, 1, next.Level, "the first change raises the feature level")
	}
	next, _ := plain("a:v").plan(Change{Promote: them("a")}, 9, live)
	require.True(t, next.Equal(plain("a:v")), "a change without an effect does not")
}

func TestPlan_TheLargestCluster(t *testing.T) {
	full := largest()[1].giveUp()
	for i := range full.Removed {
		full.Removed[i].Index = 8
	}
	live := func(Peer) bool { return true }
	one := joins(Learner, "z")
	one[0].AppVersion = full.AppVersionMin
	_, why := full.plan(Change{Add: one}, 9, live)
	require.Equal(t, RefusedMalformed, why.kind, "it would have %d members", MembersMax+1)
	err := Change{Add: one}.ValidateFor(ConfigRun{Index: 8, Config: full})
	var field *ConfigError
	require.ErrorAs(t, err, &field)
	require.ErrorContains(t, err, "it has 256 members; the limit is 255; to make room, remove members first")
	next, why := full.plan(Change{Add: one, Remove: []Peer{full.Members[1].Peer()}}, 9, live)
	require.Zero(t, why.kind, "the last member may leave while another one joins")
	require.Len(t, next.Members, MembersMax)
	require.Len(t, next.Removed, RemovedMax)
}

func TestChange_Validate(t *testing.T) {
	long := strings.Repeat("x", MetaBytesMax+1)
	empty := ""
	one := func(change func(m *Member)) []Member {
		m := memberOf("b")
		change(&m)
		return []Member{m}
	}
	for _, row := range []struct {
		wrong  string
		change Change
	}{
		{"", Change{}},
		{"", Change{Cancel: true}},
		{"", Change{Add: joins(Voter, "b"), Patience: patienceMax, Despite: []NodeID{"c"}}},
		{"Change.Cancel: it comes with other changes", Change{Cancel: true, Remove: them("b")}},
		{"Change.Cancel: it comes with other changes", Change{Cancel: true, Patience: 1}},
		{"Change.Patience: 24h0m1s", Change{Patience: patienceMax + time.Second}},
		{"Change.Patience: -1ns", Change{Patience: -1}},
		{"Change.Add: member \"b\" has no incarnation", Change{Add: one(func(m *Member) { m.Incarnation = 0 })}},
		{"Change.Add: member \"b\": it can join as a voter or as a learner", Change{Add: one(func(m *Member) { m.Kind = Leaving })}},
		{"unknown kind 3", Change{Add: one(func(m *Member) { m.Kind = 3 })}},
		{"has a next role", Change{Add: one(func(m *Member) { m.Next = NextVoter })}},
		{"the address has 0 bytes", Change{Add: one(func(m *Member) { m.Address = "" })}},
		{"Change.Add: member id \"\"", Change{Add: one(func(m *Member) { m.ID = "" })}},
		{"Change.Replace: member \"b\": Meta has 1025 bytes", Change{Replace: []Replacement{{New: one(func(m *Member) { m.Meta = long })[0]}}}},
		{"", Change{Replace: []Replacement{{New: one(func(m *Member) { m.Kind = 9 })[0]}}}},
		{"Change.Update: member \"b\": the address has 0 bytes", Change{Update: []Update{{Peer: peerOf("b"), Address: &empty}}}},
		{"Change.Update: member \"b\": Meta has 1025 bytes", Change{Update: []Update{{Peer: peerOf("b"), Meta: &long}}}},
		{"it edits 511 members", Change{Remove: make([]Peer, changeEditsMax+1)}},
		{"despite 256 others", Change{Despite: make([]NodeID, MembersMax+1)}},
	} {
		err := row.change.validate()
		if row.wrong == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, row.wrong)
		var problem *ConfigError
		require.ErrorAs(t, err, &problem)
	}
}

// "Run the command again to make sure that it was made" (docs/membership.md): if a removal is requested twice, it removes
// only one member.
func TestChange_ARemovalThatIsRepeatedRemovesNobodyElse(t *testing.T) {
	ch := Change{Remove: them("b")}
	err := ch.ValidateFor(ConfigRun{Index: 9, Config: conf("a:v b:v b2:l")})
	var invalid *ConfigError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "the voter b.0000000000000001 and the learner b.0000000000000002: name one of them")

	ch = Change{Remove: []Peer{peerOf("b")}}
	require.NoError(t, ch.ValidateFor(ConfigRun{Index: 9, Config: conf("a:v b:v b2:l")}))
	var unknown *UnknownMemberError
	require.ErrorAs(t, ch.ValidateFor(ConfigRun{Index: 11, Config: conf("a:v b2:l -b@11")}), &unknown)
}
