package raft

import (
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The members of these tests: n1 founded the cluster, this one is n2, n3 calls.
var (
	n1, n2, n3 = Peer{"n1", 11}, Peer{"n2", 22}, Peer{"n3", 33}
	ours       = ClusterID{1}
	theirs     = ClusterID{2}
)

func threeMembers(incarnations ...Incarnation) Configuration {
	var members []Member
	for i, id := range []NodeID{"n1", "n2", "n3"} {
		m := Member{ID: id, Address: string(id) + ":1"}
		if len(incarnations) > 0 {
			m.Incarnation = incarnations[i]
		}
		members = append(members, m)
	}
	return NewConfiguration(members)
}

// A member answers whom it may answer, and nobody else.
func TestHandshake_RefusesWhomItMustNotTalkTo(t *testing.T) {
	founded := Handshake{
		Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Lineage: starts(1, 3), Founder: n1,
		Config: threeMembers(11, 22, 33), Initial: threeMembers(), Memory: Memory{Seen: []Sighting{{n3, start(7), 5}}},
	}
	holding := founded // holds entry 1, and nobody has campaigned
	holding.Term, holding.Memory.Seen = 0, []Sighting{{n3, start(7), 0}}
	blank := Handshake{Self: n2, ClusterName: "blue", Lineage: starts(1, 1), Initial: threeMembers()}
	member := Hello{ClusterName: "blue", Cluster: ours, From: n3, Expected: Peer{"n2", 22}, Boot: 7, Lineage: starts(1, 7), Term: 5, Founder: n1}
	starter := Hello{ClusterName: "blue", From: n3, Expected: Peer{ID: "n2"}, Boot: 7, Lineage: starts(1, 7), List: threeMembers()}

	with := func(h Hello, change func(*Hello)) Hello { change(&h); return h }
	for _, row := range []struct {
		rule string
		view Handshake
		from Hello
		want RefusalReason // 0 = welcome
	}{
		{"a member of the configuration is welcome", founded, member, 0},
		{"another cluster name", founded, with(member, func(h *Hello) { h.ClusterName = "green" }), RefusedClusterName},
		{"for another member", founded, with(member, func(h *Hello) { h.Expected.ID = "n9" }), RefusedWrongID},
		{"for another life of this member", founded, with(member, func(h *Hello) { h.Expected.Incarnation = 21 }), RefusedWrongIncarnation},
		{"a caller that does not know our incarnation yet is welcome", founded, with(member, func(h *Hello) { h.Expected.Incarnation = 0 }), 0},
		{"another life than the configuration names", founded, with(member, func(h *Hello) { h.From.Incarnation = 34 }), RefusedNamedOther},
		{"an emptied disk under an old id", founded, with(starter, func(h *Hello) { h.From.Incarnation = 34 }), RefusedNamedOther},
		{"a stranger may be a voter already", founded, with(member, func(h *Hello) { h.From = Peer{"n4", 44} }), 0},
		{"a blank stranger may be about to be added", founded, with(starter, func(h *Hello) { h.From = Peer{"n4", 44} }), 0},
		{"an older image of a disk", founded, with(member, func(h *Hello) { h.Boot, h.Lineage = 6, starts(1, 6) }), RefusedStaleBoot},
		{"the boots of another incarnation do not count", holding, with(starter, func(h *Hello) { h.From.Incarnation, h.Boot, h.Lineage = 34, 1, starts(1, 1) }), 0},
		{"another cluster", founded, with(member, func(h *Hello) { h.Cluster = theirs }), RefusedOtherCluster},
		{"another cluster, though the caller founded ours", founded,
			with(member, func(h *Hello) { h.From, h.Cluster, h.Term = n1, theirs, 0 }), RefusedOtherCluster},

		{"at term 0 a follower that was emptied may be founded anew", holding, with(starter, func(h *Hello) { h.From.Incarnation = 34 }), 0},
		{"at term 0 the founder that was emptied may not", holding,
			with(starter, func(h *Hello) { h.From = Peer{"n1", 12} }), RefusedNamedOther},
		{"at term 0 the founder may do its founding over", holding,
			with(member, func(h *Hello) { h.From, h.Cluster, h.Term, h.Founder = n1, theirs, 0, n1 }), 0},
		{"at term 0 nobody else brings another cluster", holding,
			with(member, func(h *Hello) { h.Cluster, h.Term = theirs, 0 }), RefusedOtherCluster},
		{"a founder that has a term does not do it over", holding,
			with(member, func(h *Hello) { h.From, h.Cluster, h.Term = n1, theirs, 1 }), RefusedOtherCluster},
		{"the founder meets a holder of its earlier founding",
			Handshake{Self: n2, ClusterName: "blue", Cluster: ours, Lineage: starts(1, 3), Founder: n2, Config: threeMembers(11, 22, 33)},
			with(member, func(h *Hello) { h.Cluster, h.Term, h.Founder = theirs, 0, n2 }), 0},

		{"two blank ones with the same list", blank, starter, 0},
		{"two blank ones with unequal lists", blank,
			with(starter, func(h *Hello) { h.List = NewConfiguration(threeMembers().Members[1:]) }), RefusedListDiffers},
		{"a blank one without a list waits to be added", blank, with(starter, func(h *Hello) { h.List = Configuration{} }), 0},
		{"a blank one is called by a cluster that adds it", blank, member, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			r := row.view.Judge(row.from).Refusal
			if row.want == 0 {
				require.Nil(t, r)
				return
			}
			require.NotNil(t, r)
			expect.Equal(t, row.want, r.Reason, r.Error())
			expect.Equal(t, row.view.Self, r.From)
			expect.Equal(t, row.view.Term, r.Term)
			if row.want == RefusedNamedOther {
				expect.NotZero(t, r.Named)
			}
		})
	}
}

func TestHandshake_SaysWhoWeAre(t *testing.T) {
	v := Handshake{
		Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Lineage: starts(1, 3), Founder: n1, Config: threeMembers(11, 22, 33), Initial: threeMembers(),
	}
	h := v.Hello("n3", time.Second)
	expect.Equal(t, Hello{
		ClusterName: "blue", Cluster: ours, From: n2, Expected: n3, Boot: 3, Term: 5, Founder: n1,
		Address: "n2:1", ElectionTimeout: time.Second, Lineage: starts(1, 3),
	}, h)

	v.Term = 0
	expect.Zero(t, v.Hello("n3", 0).Expected.Incarnation, "a founding may be done over with another incarnation")

	v.Cluster, v.Founder, v.Config = ClusterID{}, Peer{}, Configuration{}
	h = v.Hello("n3", 0)
	expect.True(t, h.Blank())
	expect.Equal(t, threeMembers(), h.List)
	expect.Equal(t, "n2:1", h.Address)
}

func TestRefusal_NamesTheValueAndTheRemedy(t *testing.T) {
	for reason := RefusedClusterName; reason <= RefusedSlowDisk; reason++ {
		r := &Refusal{Reason: reason, From: n1, Named: 0xabc}
		expect.NotContains(t, reason.String(), "reason", "every reason has a name")
		expect.Contains(t, r.Error(), `"n1"`)
		expect.Contains(t, r.Error(), reason.String())
	}
	r := (&Refusal{Reason: RefusedNamedOther, From: n1, Named: 0xabc}).Error()
	expect.Contains(t, r, Incarnation(0xabc).String())
	expect.Contains(t, r, "remove it from the cluster and add it again")
	expect.Equal(t, "reason 99", RefusalReason(99).String())
}
