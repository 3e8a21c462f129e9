package handshake

import (
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// The members of these tests. n1 bootstrapped the cluster. n2 is this member. n3 calls it.
var (
	n1, n2, n3 = peer("n1", 11), peer("n2", 22), peer("n3", 33)
	ours       = raft.ClusterID{1}
	theirs     = raft.ClusterID{2}
)

func peer(id raft.NodeID, incarnation raft.Incarnation) raft.Peer {
	return raft.Peer{ID: id, Incarnation: incarnation}
}

func removal(p raft.Peer, at raft.Index) raft.Removal { return raft.Removal{Peer: p, Index: at} }

func threeMembers(incarnations ...raft.Incarnation) raft.Configuration {
	var members []raft.Member
	for i, id := range []raft.NodeID{"n1", "n2", "n3"} {
		m := raft.Member{ID: id, Address: string(id) + ":1"}
		if len(incarnations) > 0 {
			m.Incarnation = incarnations[i]
		}
		members = append(members, m)
	}
	return raft.NewConfiguration(members)
}

// A member accepts exactly the peers that it may talk to.
func TestHandshake_RefusesWhomItMustNotTalkTo(t *testing.T) {
	bootstrapped := View{
		Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Lineage: starts(1, 3), Bootstrapper: n1,
		Config: threeMembers(11, 22, 33), Initial: threeMembers(), Memory: raft.Sightings{Seen: []raft.Sighting{{Peer: n3, Start: start(7), Term: 5}}},
	}
	holding := bootstrapped // holds entry 1, and nobody has campaigned
	holding.Term, holding.Memory.Seen = 0, []raft.Sighting{{Peer: n3, Start: start(7)}}
	uninitialized := View{Self: n2, ClusterName: "blue", Lineage: starts(1, 1), Initial: threeMembers()}
	member := raft.Hello{ClusterName: "blue", Cluster: ours, From: n3, Expected: peer("n2", 22), StartCount: 7, Lineage: starts(1, 7), Term: 5, Bootstrapper: n1}
	starter := raft.Hello{ClusterName: "blue", From: n3, Expected: raft.Peer{ID: "n2"}, StartCount: 7, Lineage: starts(1, 7), List: threeMembers()}

	with := func(h raft.Hello, change func(*raft.Hello)) raft.Hello { change(&h); return h }
	for _, row := range []struct {
		rule string
		view View
		from raft.Hello
		want raft.RejectReason // 0 = accepted
	}{
		{"a member of the configuration is accepted", bootstrapped, member, 0},
		{"another cluster name", bootstrapped, with(member, func(h *raft.Hello) { h.ClusterName = "green" }), raft.RejectClusterName},
		{"for another member", bootstrapped, with(member, func(h *raft.Hello) { h.Expected.ID = "n9" }), raft.RejectWrongID},
		{"for another incarnation of this member", bootstrapped, with(member, func(h *raft.Hello) { h.Expected.Incarnation = 21 }), raft.RejectWrongIncarnation},
		{"a caller that does not know our incarnation yet is accepted", bootstrapped, with(member, func(h *raft.Hello) { h.Expected.Incarnation = 0 }), 0},
		{"a newer configuration may name another incarnation", bootstrapped, with(member, func(h *raft.Hello) { h.From.Incarnation = 34 }), 0},
		{"a newer configuration may name the incarnation of an emptied disk", bootstrapped, with(starter, func(h *raft.Hello) { h.From.Incarnation = 34 }), 0},
		{"a stranger may be a voter already", bootstrapped, with(member, func(h *raft.Hello) { h.From = peer("n4", 44) }), 0},
		{"an uninitialized stranger may be about to be added", bootstrapped, with(starter, func(h *raft.Hello) { h.From = peer("n4", 44) }), 0},
		{"an older image of a disk", bootstrapped, with(member, func(h *raft.Hello) { h.StartCount, h.Lineage = 6, starts(1, 6) }), raft.RejectStaleStart},
		{"the starts of another incarnation do not count", holding, with(starter, func(h *raft.Hello) { h.From.Incarnation, h.StartCount, h.Lineage = 34, 1, starts(1, 1) }), 0},
		{"another cluster", bootstrapped, with(member, func(h *raft.Hello) { h.Cluster = theirs }), raft.RejectOtherCluster},
		{"another cluster, though the caller bootstrapped ours", bootstrapped,
			with(member, func(h *raft.Hello) { h.From, h.Cluster, h.Term = n1, theirs, 0 }), raft.RejectOtherCluster},

		{"at term 0 a follower that was emptied may be bootstrapped anew", holding, with(starter, func(h *raft.Hello) { h.From.Incarnation = 34 }), 0},
		{"at term 0 another incarnation than the configuration names", holding, with(member, func(h *raft.Hello) { h.From.Incarnation, h.Term = 34, 0 }), raft.RejectNamedOther},
		{"at term 0 the bootstrapper that was emptied may not", holding,
			with(starter, func(h *raft.Hello) { h.From = peer("n1", 12) }), raft.RejectNamedOther},
		{"at term 0 the bootstrapper may repeat its bootstrap", holding,
			with(member, func(h *raft.Hello) { h.From, h.Cluster, h.Term, h.Bootstrapper = n1, theirs, 0, n1 }), 0},
		{"at term 0 nobody else brings another cluster", holding,
			with(member, func(h *raft.Hello) { h.Cluster, h.Term = theirs, 0 }), raft.RejectOtherCluster},
		{"a bootstrapper that has a term does not repeat its bootstrap", holding,
			with(member, func(h *raft.Hello) { h.From, h.Cluster, h.Term = n1, theirs, 1 }), raft.RejectOtherCluster},
		{"the bootstrapper meets a holder of its earlier bootstrap",
			View{Self: n2, ClusterName: "blue", Cluster: ours, Lineage: starts(1, 3), Bootstrapper: n2, Config: threeMembers(11, 22, 33)},
			with(member, func(h *raft.Hello) { h.Cluster, h.Term, h.Bootstrapper = theirs, 0, n2 }), 0},

		{"two uninitialized ones with the same list", uninitialized, starter, 0},
		{"two uninitialized ones with unequal lists", uninitialized,
			with(starter, func(h *raft.Hello) { h.List = raft.NewConfiguration(threeMembers().Members[1:]) }), raft.RejectListDiffers},
		{"an uninitialized one without a list waits to be added", uninitialized, with(starter, func(h *raft.Hello) { h.List = raft.Configuration{} }), 0},
		{"an uninitialized one is called by a cluster that adds it", uninitialized, member, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			r := row.view.Judge(row.from).Rejection
			if row.want == 0 {
				require.Nil(t, r)
				return
			}
			require.NotNil(t, r)
			expect.Equal(t, row.want, r.Reason, r.Error())
			expect.Equal(t, row.view.Self, r.From)
			expect.Equal(t, row.view.Term, r.Term)
			if row.want == raft.RejectNamedOther {
				expect.NotZero(t, r.Named)
			}
		})
	}
}

// Two members may know different addresses of the members of one list, but not two of one member.
func TestHandshake_ListsWithOpenAddresses(t *testing.T) {
	v := View{Self: n2, ClusterName: "blue", Lineage: starts(1, 1), Initial: threeMembers()}
	v.Initial.Members[0].Address, v.Initial.Members[1].Address = "", ""
	for address, want := range map[string]bool{"": true, "n3:1": true, "n3:2": false} {
		theirs := threeMembers()
		theirs.Members[2].Address = address
		r := v.Judge(raft.Hello{ClusterName: "blue", From: n3, Expected: raft.Peer{ID: "n2"}, StartCount: 7, Lineage: starts(1, 7), List: theirs}).Rejection
		require.Equal(t, want, r == nil, "%q: %v", address, r)
		if r != nil {
			expect.ErrorContains(t, r, "this member has [n1 n2 n3=n3:1], the caller has [n1=n1:1 n2=n2:1 n3=n3:2]")
		}
	}
	expect.Empty(t, v.Hello(n3, 0).Address, "this member's own is not known, either")
}

// Members with different lists say in what the lists differ.
func TestHandshake_AListDiffersInAPriorityAlone(t *testing.T) {
	v := View{Self: n2, ClusterName: "blue", Lineage: starts(1, 1), Initial: threeMembers()}
	theirs := threeMembers()
	theirs.Members[2].Priority, theirs.Members[1].Kind, theirs.Members[0].Meta = 5, raft.Learner, "here"
	r := v.Judge(raft.Hello{ClusterName: "blue", From: n3, Expected: raft.Peer{ID: "n2"}, StartCount: 7, Lineage: starts(1, 7), List: theirs}).Rejection
	require.NotNil(t, r)
	expect.Equal(t, raft.RejectListDiffers, r.Reason)
	for _, says := range []string{"(priority 5)", "(learner)", "=here"} {
		expect.ErrorContains(t, r, says)
	}
}

// Before a leader replaces a member, it calls the other incarnation of that member to learn which one answers.
func TestHandshake_ACallerThatKnowsUsIsNotToldThatOurDiskIsLost(t *testing.T) {
	v := View{Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Lineage: starts(1, 3), Config: threeMembers(11, 22, 33)}
	asks := raft.Hello{ClusterName: "blue", Cluster: ours, From: n3, Expected: peer("n2", 21), StartCount: 7, Lineage: starts(1, 7), Term: 5}
	r := v.Judge(asks).Rejection
	expect.False(t, r.Asked())
	expect.ErrorContains(t, r, "it has replaced the member that was called")
	asks.Named = []raft.Incarnation{21, 22}
	r = v.Judge(asks).Rejection
	expect.Equal(t, raft.RejectWrongIncarnation, r.Reason)
	expect.Equal(t, n2, r.From)
	expect.True(t, r.Asked())
	expect.ErrorContains(t, r, "the caller knows this one, too, and nothing is to be done")
}

// A member that holds entry 1 in term 0 may have missed everything since. So it may accept an incarnation that entry 1 does
// not name. It does so if that incarnation knows a term of this same cluster, because that incarnation may have joined since,
// and may need this member's vote.
func TestHandshake_AtTermZeroAReplacementIsTaken(t *testing.T) {
	v := View{Self: n2, ClusterName: "blue", Cluster: ours, Lineage: starts(1, 3), Bootstrapper: n1, Config: threeMembers(11, 22, 33)}
	h := raft.Hello{ClusterName: "blue", Cluster: ours, Expected: n2, StartCount: 7, Lineage: starts(1, 7), Term: 5, Bootstrapper: n1}
	for _, from := range []raft.Peer{peer("n3", 34), peer("n1", 12)} {
		h.From, h.Cluster = from, ours
		require.Nil(t, v.Judge(h).Rejection)
		h.Cluster = raft.ClusterID{}
		require.Equal(t, raft.RejectNamedOther, v.Judge(h).Rejection.Reason, "its term may be that of any cluster")
	}
}

func TestHandshake_SaysWhoWeAre(t *testing.T) {
	v := View{
		Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Lineage: starts(1, 3), Bootstrapper: n1, Config: threeMembers(11, 22, 33), ConfigIndex: 4, Initial: threeMembers(),
	}
	h := v.Hello(n3, time.Second)
	expect.Equal(t, raft.Hello{
		ClusterName: "blue", Cluster: ours, From: n2, Expected: n3, StartCount: 3, Term: 5, Bootstrapper: n1,
		Address: "n2:1", ElectionTimeout: time.Second, Lineage: starts(1, 3), Named: []raft.Incarnation{33}, NamedIndex: 4,
	}, h)

	v.Term = 0
	expect.Zero(t, v.Hello(n3, 0).Expected.Incarnation, "a bootstrap may be done over with another incarnation")

	v.Cluster, v.Bootstrapper, v.Config = raft.ClusterID{}, raft.Peer{}, raft.Configuration{}
	h = v.Hello(raft.Peer{ID: "n3"}, 0)
	expect.True(t, h.Uninitialized())
	expect.Equal(t, threeMembers(), h.List)
	expect.Equal(t, "n2:1", h.Address)
}
