package raft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests of this package write a configuration as text: its members, and its removals after a minus.
//
//	a:v     a is a voter           a:v>l   ... that will be a learner      a:v>-   ... that will be removed
//	b:l     b is a learner         b:l>v   ... that will be a voter        b:l>-   ... that will be removed
//	a:vo    joint: a stays         b:v     joint: b is promoted
//	a:lo    joint: a is demoted    a:o     joint: a is removed
//	c2:l    incarnation 2 of c; without a number it is 1
//	-c@7    entry 7 has removed c
//	a:v=5   a has priority 5; a:v=0 PriorityNever
//
// Patience is a minute if a learner will be a voter. The feature level is 1, or 2 if a member has a priority.
func conf(text string) Configuration {
	c := Configuration{Level: featureLevelMembers}
	var members []Member
	for _, word := range strings.Fields(text) {
		if removed, ok := strings.CutPrefix(word, "-"); ok {
			name, at, _ := strings.Cut(removed, "@")
			r := Removal{Peer: peerOf(name)}
			fmt.Sscan(at, &r.Index)
			c.Removed = append(c.Removed, r)
			continue
		}
		word, number, prioritized := strings.Cut(word, "=")
		name, role, _ := strings.Cut(word, ":")
		role, next, _ := strings.Cut(role, ">")
		m := memberOf(name)
		m.Kind = map[string]MemberKind{"v": Voter, "vo": Voter, "l": Learner, "lo": Learner, "o": Leaving}[role]
		m.Next = map[string]NextRole{"": NextSame, "v": NextVoter, "l": NextLearner, "-": NextRemoved}[next]
		if prioritized {
			n, err := strconv.Atoi(number)
			if m.Priority, _ = PriorityOf(n); err != nil {
				panic(err)
			}
			c.Level = featureLevelPriorities
		}
		members = append(members, m)
		if strings.HasSuffix(role, "o") {
			c.Outgoing = append(c.Outgoing, m.Peer())
		}
		if m.Next == NextVoter {
			c.Patience = time.Minute
		}
	}
	c.Members = NewConfiguration(members).Members
	return c
}

// plain is conf at feature level 0.
func plain(text string) Configuration {
	c := conf(text)
	c.Level = 0
	return c
}

// peerOf returns the peer that "c" or "c2" names.
func peerOf(name string) Peer {
	p := Peer{ID: NodeID(name[:1]), Incarnation: 1}
	fmt.Sscan(name[1:], &p.Incarnation)
	return p
}

func memberOf(name string) Member {
	p := peerOf(name)
	return Member{ID: p.ID, Incarnation: p.Incarnation, Address: name + ":1"}
}

// textOf is the reverse of conf.
func textOf(c Configuration) string {
	name := func(p Peer) string {
		if p.Incarnation == 1 {
			return string(p.ID)
		}
		return fmt.Sprintf("%s%d", p.ID, p.Incarnation)
	}
	var words []string
	for _, m := range c.Members {
		role := [...]string{Voter: "v", Learner: "l", Leaving: ""}[m.Kind]
		if c.VotesIn(m.Peer())&OutgoingHalf != 0 {
			role += "o"
		}
		next := [...]string{NextSame: "", NextVoter: ">v", NextLearner: ">l", NextRemoved: ">-"}[m.Next]
		if m.Priority != 0 {
			next += fmt.Sprintf("=%v", m.Priority)
		}
		words = append(words, name(m.Peer())+":"+role+next)
	}
	for _, r := range c.Removed {
		words = append(words, fmt.Sprintf("-%s@%d", name(r.Peer), r.Index))
	}
	return strings.Join(words, " ")
}

func TestConfiguration_Validate(t *testing.T) {
	for _, row := range []struct{ text, wrong string }{
		{"a:v", ""},
		{"a:v b:v c:l", ""},
		{"a:v b:v>l c:v>- d:l>v e:l>-", ""},
		{"a:vo b:lo c:o d:v e:l", ""},
		{"a:v c:v c2:l", ""},
		{"a:v c:v>- c2:l>v", ""},
		{"a:v c:v>l c2:l>v", ""},
		{"a:vo c:o c2:v", ""},
		{"a:v c:l c2:l", ""},
		{"a:v -b@3 -c@3 -b2@9", ""},
		{"a:v>- b:l>v", ""},

		{"", "no voter"},
		{"a:l", "no voter"},
		{"a:lo b:o", "no voter"},
		{"a:v>- b:v>l c:l>v", ""},
		{"a:v>- b:v>l", "leaves no voter"},
		{"a:v a:l", "listed twice"},
		{"a:v c:v c2:l c3:l", "more than two incarnations"},
		{"a:v c:v c2:v", "two of its incarnations would vote"},
		{"a:v c:v c2:l>v", "two of its incarnations would vote"},
		{"a:v c:l>v c2:l>v", "two of its incarnations would vote"},
		{"a:v b:v>-", "waits for no member"},
		{"a:vo b:v>- c:l>v", "joint"},
		{"a:v b:v>v", "cannot take the next role"},
		{"a:v b:l>l c:l>v", "cannot take the next role"},
		{"a:vo c:o c2:lo", `outgoing voter "c" stands after "c"`},
		{"a:v -a@3", "was removed by entry 3"},
		{"a:v -b@4 -c@3", "out of order"},
		{"a:v -c@3 -b@3", "out of order"},
		{"a:v -b@3 -b@4", "listed twice"},
		{"a:v -b@0", "index 0"},
	} {
		err := conf(row.text).Validate()
		if row.wrong == "" {
			require.NoError(t, err, row.text)
		} else {
			require.ErrorContains(t, err, row.wrong, row.text)
		}
	}
}

// These faults cannot be written as text.
func TestConfiguration_ValidateChecksEachField(t *testing.T) {
	for _, row := range []struct {
		wrong  string
		change func(c *Configuration)
	}{
		{"unknown kind 3", func(c *Configuration) { c.Members[0].Kind = 3 }},
		{"unknown next role 4", func(c *Configuration) { c.Members[0].Next = 4 }},
		{"must be sorted", func(c *Configuration) { c.Members[0], c.Members[1] = c.Members[1], c.Members[0] }},
		{"has no incarnation", func(c *Configuration) { c.Members[0].Incarnation = 0 }},
		{"is leaving", func(c *Configuration) { c.Members[0].Kind = Leaving }},
		{`outgoing voter "x"`, func(c *Configuration) { c.Outgoing = []Peer{{ID: "x", Incarnation: 1}} }},
		{`outgoing voter "a"`, func(c *Configuration) { c.Outgoing = []Peer{{ID: "a", Incarnation: 2}} }},
		{"stands after", func(c *Configuration) { c.Outgoing = []Peer{peerOf("b"), peerOf("a")} }},
		{"patience is 1m0s", func(c *Configuration) { c.Patience = time.Minute }},
		{"patience is 0s", func(c *Configuration) { c.Members[2].Next = NextVoter }},
		{"patience is 24h0m0.000000001s", func(c *Configuration) { c.Members[2].Next, c.Patience = NextVoter, patienceMax+1 }},
		{"remembers 65 removals", func(c *Configuration) { c.Removed = make([]Removal, RemovedMax+1) }},
		{"has 256 members", func(c *Configuration) { c.Members = make([]Member, MembersMax+1) }},
		{"the removal of \"x\"", func(c *Configuration) { c.Removed = []Removal{{Peer{"x", 0}, 1}} }},
		{"member id \"\"", func(c *Configuration) { c.Removed = []Removal{{Peer{"", 1}, 1}} }},
		{"index 9223372036854775808", func(c *Configuration) { c.Removed = []Removal{{Peer{"x", 1}, 1 << 63}} }},
	} {
		c := conf("a:v b:v c:l")
		require.NoError(t, c.Validate())
		row.change(&c)
		require.ErrorContains(t, c.Validate(), row.wrong)
	}
}

// A bootstrapped configuration has no running change, and names each member once.
func TestConfiguration_AtLevel0NothingHasChanged(t *testing.T) {
	require.NoError(t, plain("a:v b:v c:l").Validate())
	for _, text := range []string{"a:v b:l>v", "a:vo b:o", "a:v b:vo", "a:v -b@3"} {
		require.NoError(t, conf(text).Validate(), text)
		require.ErrorContains(t, plain(text).Validate(), "feature level is 0", text)
	}
	require.ErrorContains(t, plain("a:v c:v c2:l").Validate(), "listed twice")
	nameless := plain("a:v")
	nameless.Members[0].Incarnation = 0
	require.NoError(t, nameless.Validate(), "before the bootstrap nobody knows the incarnations")
}

func TestConfiguration_Text(t *testing.T) {
	for _, text := range []string{"a:v b:v>l c:v>- d:l>v e:l>- -x@3 -c2@9", "a:vo b:lo c:o c2:v d:l"} {
		require.Equal(t, text, textOf(conf(text)))
	}
}

func TestConfiguration_Member(t *testing.T) {
	for _, row := range []struct{ rule, text, want string }{
		{"the only one", "a:v b:l", "b"},
		{"the voter of two", "a:v b:l b2:v", "b2"},
		{"the voter of two, if it stands first", "a:v b:v b2:l", "b"},
		{"of a joint configuration, the incoming voter", "a:vo b:o b2:v", "b2"},
		{"of a joint configuration, the member that stays", "a:vo b:o b2:l", "b2"},
		{"the first of two learners", "a:v b:l b2:l", "b"},
		{"the last one, though it leaves", "a:vo b:o", "b"},
	} {
		m, ok := conf(row.text).Member("b")
		require.True(t, ok, row.rule)
		require.Equal(t, peerOf(row.want), m.Peer(), row.rule)
	}
	_, ok := conf("a:v c:v").Member("b")
	require.False(t, ok)
}

func TestConfiguration_VotesIn(t *testing.T) {
	joint := conf("a:vo b:lo c:o c2:v d:l")
	for name, want := range map[string]Halves{
		"a": IncomingHalf | OutgoingHalf, "b": OutgoingHalf, "c": OutgoingHalf, "c2": IncomingHalf, "d": 0, "c3": 0, "x": 0,
	} {
		require.Equal(t, want, joint.VotesIn(peerOf(name)), name)
	}
	require.Equal(t, IncomingHalf, conf("a:v b:l").VotesIn(peerOf("a")))
	require.Equal(t, Halves(0), conf("a:v b:l").VotesIn(peerOf("b")))
	require.Equal(t, Halves(0), conf("a:v b:l").VotesIn(peerOf("a2")), "an emptied disk has no vote")
	require.True(t, joint.Joint())
	require.False(t, joint.Changing())
	require.True(t, conf("a:v b:l>v").Changing())
	require.False(t, conf("a:v b:l").Joint() || conf("a:v b:l").Changing())
}

func TestConfiguration_Peer(t *testing.T) {
	c := conf("a:v c:v c2:l d:v")
	for _, name := range []string{"a", "c", "c2", "d"} {
		m, ok := c.Peer(peerOf(name))
		require.True(t, ok, name)
		require.Equal(t, peerOf(name), m.Peer())
	}
	for _, name := range []string{"a2", "b", "c3", "e"} {
		_, ok := c.Peer(peerOf(name))
		require.False(t, ok, name)
	}
}

// Two configurations that differ in any field are not equal.
func TestConfiguration_Equal(t *testing.T) {
	all := []string{
		"a:v b:v c:l", "a:v b:v", "a:v b:v c:v", "a:v b:v c2:l", "a:v b:v c:l>v", "a:v b:v c:l>-", "a:vo b:vo c:l", "a:vo b:v c:l",
		"a:v b:v c:l -d@3", "a:v b:v c:l -d@4",
	}
	for _, x := range all {
		for _, y := range all {
			require.Equal(t, x == y, conf(x).Equal(conf(y)), "%s and %s", x, y)
		}
	}
	for _, change := range []func(c *Configuration){
		func(c *Configuration) { c.Level++ },
		func(c *Configuration) { c.Patience++ },
		func(c *Configuration) { c.Members[0].Address = "b:1" },
		func(c *Configuration) { c.Members[0].Meta = "x" },
	} {
		c := conf(all[0])
		change(&c)
		require.False(t, c.Equal(conf(all[0])))
	}
}

// Addresses and Metas count only where both lists have an address. All else always counts.
func TestConfiguration_SameListWithOpenAddresses(t *testing.T) {
	full := []Member{{ID: "a", Address: "a:1", Meta: "x"}, {ID: "b", Address: "b:1", Priority: 3}, {ID: "c", Address: "c:1", Kind: Learner}}
	for _, row := range []struct {
		rule   string
		change func(m []Member)
		same   bool
	}{
		{"all open", func(m []Member) { m[0].Address, m[0].Meta, m[1].Address, m[2].Address = "", "", "", "" }, true},
		{"one open", func(m []Member) { m[0].Address, m[0].Meta = "", "" }, true},
		{"another incarnation", func(m []Member) { m[0].Incarnation = 7 }, true},
		{"another address beside an open one", func(m []Member) { m[0].Address, m[0].Meta, m[1].Address = "", "", "b:2" }, false},
		{"another Meta", func(m []Member) { m[0].Meta = "y" }, false},
		{"another id", func(m []Member) { m[0].Address, m[0].Meta, m[1].ID, m[1].Address = "", "", "bb", "" }, false},
		{"another kind", func(m []Member) { m[2].Address, m[2].Kind = "", Voter }, false},
		{"another priority", func(m []Member) { m[1].Address, m[1].Priority = "", 4 }, false},
		{"another version", func(m []Member) { m[1].Address, m[1].AppVersion = "", 4 }, false},
	} {
		changed := slices.Clone(full)
		row.change(changed)
		a, b := NewConfiguration(full), NewConfiguration(changed)
		require.Equal(t, row.same, a.SameList(b), row.rule)
		require.Equal(t, row.same, b.SameList(a), row.rule)
	}
	require.False(t, NewConfiguration(full).SameList(NewConfiguration(full[:2])))
}

// Only a list of initial members may have open addresses, and an open one has no Meta.
func TestConfiguration_ValidateList(t *testing.T) {
	open := NewConfiguration([]Member{{ID: "a"}, {ID: "b", Address: "b:1"}})
	require.NoError(t, open.ValidateList())
	require.Equal(t, "[a b=b:1]", open.ListText())
	require.ErrorContains(t, open.Validate(), `member "a": the address has 0 bytes`)
	require.ErrorContains(t, NewConfiguration([]Member{{ID: "a", Meta: "x"}}).ValidateList(), `member "a": the address has 0 bytes`)
	require.ErrorContains(t, NewConfiguration([]Member{{ID: "a"}, {ID: "a"}}).ValidateList(), "twice")
	require.Empty(t, open.Members[0].Address, "it stays open")
}
