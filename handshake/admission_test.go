package handshake

import (
	"fmt"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// A removed member is rejected once nothing can restore the configuration that named it.
func TestCheckRemoved_OnlyACommittedRemovalRejects(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(v *View, h *raft.Hello)
		want   bool
	}{
		{"a member whose removal is committed", func(*View, *raft.Hello) {}, true},
		{"its store holds nothing", func(_ *View, h *raft.Hello) {
			h.Cluster, h.Term, h.Bootstrapper, h.Expected, h.Remembers = raft.ClusterID{}, 0, raft.Peer{}, raft.Peer{ID: "n2"}, raft.Sighting{}
			h.Lineage = starts(1, 8)
		}, true},
		{"a removal that may be rolled back", func(v *View, _ *raft.Hello) { v.Removed = v.Removed[:1] }, false},
		{"another incarnation than the removed one", func(_ *View, h *raft.Hello) { h.From.Incarnation = 34 }, false},
		{"a stranger", func(_ *View, h *raft.Hello) { h.From = peer("n4", 44) }, false},
	} {
		v, h := aMeeting()
		v.Config = raft.NewConfiguration(v.Config.Members[:2])
		v.Config.Removed = []raft.Removal{removal(peer("n9", 99), 8), removal(n3, 9)}
		v.Removed, v.Memory = v.Config.Removed, raft.Sightings{}
		row.change(&v, &h)
		r := v.Judge(h).Rejection
		require.Equal(t, row.want, r != nil, "%s: %v", row.rule, r)
		if row.want {
			expect.Equal(t, raft.RejectRemoved, r.Reason, row.rule)
			expect.Equal(t, raft.Index(9), r.Index, row.rule)
			expect.ErrorContains(t, r, "removed from the cluster (by entry 9); end the caller", row.rule)
		}
	}
}

// A removed member believes only rejections by members that it knows. A removal sets no mark, so the store stays as it is.
func TestToldRemoval_IsBelievedFromMembersOfItsOwnConfiguration(t *testing.T) {
	v, _ := aMeeting()
	r := raft.Rejection{Reason: raft.RejectRemoved, From: n3, Cluster: ours, Term: 9, Index: 12}
	for _, row := range []struct {
		rule   string
		change func(v *View, r *raft.Rejection)
		want   raft.Index
	}{
		{"a member says so", func(*View, *raft.Rejection) {}, 12},
		{"a stranger says so", func(_ *View, r *raft.Rejection) { r.From = peer("n4", 44) }, 0},
		{"another incarnation of a member says so", func(_ *View, r *raft.Rejection) { r.From.Incarnation = 34 }, 0},
		{"a member of another cluster says so", func(_ *View, r *raft.Rejection) { r.Cluster = theirs }, 0},
		{"a member has another reason", func(_ *View, r *raft.Rejection) { r.Reason = raft.RejectOtherCluster }, 0},
		{"it knows all earlier entries to be committed", func(v *View, _ *raft.Rejection) { v.Commit = 11 }, 12},
		{"it knows what that entry has done", func(v *View, _ *raft.Rejection) { v.Commit, v.Removed = 12, []raft.Removal{removal(n2, 12)} }, 0},
		{"this member belongs to no cluster", func(v *View, _ *raft.Rejection) {
			v.Cluster, v.Config, v.Term = raft.ClusterID{}, raft.Configuration{}, 0
		}, 0},
		{"neither side belongs to a cluster", func(v *View, r *raft.Rejection) {
			v.Cluster, v.Config, v.Term, r.Cluster, r.From.Incarnation = raft.ClusterID{}, raft.Configuration{}, 0, raft.ClusterID{}, 0
		}, 0},
	} {
		v, r := v, r
		row.change(&v, &r)
		expect.Equal(t, row.want, v.ToldRemoval(r), row.rule)
		expect.Nil(t, v.Told(r), row.rule)
	}
}

// A rejection names the entry that is said to have removed a member. If that entry is committed here and did not remove the
// member, the other members have lost what this member holds.
func TestTold_ARemovalThatContradictsWhatIsCommittedMarksTheStore(t *testing.T) {
	many := func(from raft.Index) (all []raft.Removal) {
		for i := range raft.RemovedMax {
			all = append(all, removal(peer("n4", raft.Incarnation(100+i)), from+raft.Index(i)))
		}
		return all
	}
	for _, row := range []struct {
		rule   string
		change func(v *View, r *raft.Rejection)
		marks  bool
	}{
		{"the entry is committed here, and has not removed it", func(*View, *raft.Rejection) {}, true},
		{"so are entries behind it", func(v *View, _ *raft.Rejection) { v.Commit = 99 }, true},
		{"it has removed others", func(v *View, _ *raft.Rejection) { v.Removed = []raft.Removal{removal(n1, 12)} }, true},
		{"many others, the first of them before", func(v *View, _ *raft.Rejection) { v.Commit, v.Removed = 99, many(11) }, true},
		{"so many that it may be forgotten", func(v *View, _ *raft.Rejection) { v.Commit, v.Removed = 99, many(12) }, false},
		{"it may not be committed here", func(v *View, _ *raft.Rejection) { v.Commit = 11 }, false},
		{"it has removed it", func(v *View, _ *raft.Rejection) { v.Removed = []raft.Removal{removal(n2, 12)} }, false},
		{"a stranger says so", func(_ *View, r *raft.Rejection) { r.From = peer("n4", 44) }, false},
		{"a member of another cluster says so", func(_ *View, r *raft.Rejection) { r.Cluster = theirs }, false},
		{"a member rejects it for another reason", func(_ *View, r *raft.Rejection) { r.Reason = raft.RejectSlowDisk }, false},
		{"an impossible entry", func(_ *View, r *raft.Rejection) { r.Index = 0 }, false},
	} {
		v, _ := aMeeting()
		v.Commit = 12
		r := raft.Rejection{Reason: raft.RejectRemoved, From: n3, Cluster: ours, Term: 9, Index: 12}
		row.change(&v, &r)
		m := v.Told(r)
		if expect.Equal(t, row.marks, m != nil, row.rule); m != nil {
			expect.Equal(t, raft.MarkContradicted, m.Kind, row.rule)
			expect.ErrorContains(t, m.Err(), `member "n3" contradicts what is committed here (there entry 12 has removed this member`)
			expect.Zero(t, v.ToldRemoval(r), row.rule)
		}
	}
}

// While one incarnation replaces another, the configuration contains both, and the Hello names both.
func TestHello_NamesBothIncarnations(t *testing.T) {
	v, _ := aMeeting()
	v.ConfigIndex = 7
	v.Config.Members = append(v.Config.Members, raft.Member{ID: "n3", Address: "n3:2", Kind: raft.Learner, Incarnation: 34})
	for _, to := range []raft.Peer{n3, peer("n3", 34), {ID: "n3"}, peer("n3", 35)} {
		h := v.Hello(to, 0)
		expect.Equal(t, []raft.Incarnation{33, 34}, h.Named, "%v", to)
		expect.Equal(t, raft.Index(7), h.NamedIndex)
	}
	h := v.Hello(peer("n4", 44), 0)
	expect.Empty(t, h.Named)
	expect.Equal(t, raft.Index(7), h.NamedIndex, "that configuration does not name it")
	v.Term = 0
	h = v.Hello(n3, 0)
	expect.Empty(t, h.Named, "a bootstrap may be redone with another incarnation")
	expect.Zero(t, h.NamedIndex)
}

// A member whose store was emptied is no longer that member. Only a Hello from a cluster that the member may belong to proves
// this.
func TestMisnames_TellsAnEmptiedDiskFromANewMember(t *testing.T) {
	emptied := View{Self: n2, ClusterName: "blue", Lineage: starts(1, 1), Initial: threeMembers()}
	member := raft.Hello{ClusterName: "blue", Cluster: ours, From: n3, Expected: raft.Peer{ID: "n2"}, StartCount: 7, Lineage: starts(1, 7), Term: 5,
		Bootstrapper: n1, Named: []raft.Incarnation{21}, NamedIndex: 3}
	for _, row := range []struct {
		rule   string
		change func(v *View, h *raft.Hello)
		want   bool
	}{
		{"the configuration names another incarnation", func(*View, *raft.Hello) {}, true},
		{"the same, and this member has no list", func(v *View, _ *raft.Hello) { v.Initial = raft.Configuration{} }, true},
		{"it names two others", func(_ *View, h *raft.Hello) { h.Named = []raft.Incarnation{20, 21} }, true},
		{"it names this incarnation, too, which replaces the other", func(_ *View, h *raft.Hello) { h.Named = []raft.Incarnation{21, 22} }, false},
		{"it does not name the id", func(_ *View, h *raft.Hello) { h.Named = nil }, false},
		{"an earlier release says nothing", func(_ *View, h *raft.Hello) { h.Named, h.NamedIndex = nil, 0 }, false},
		{"a bootstrap may be redone while there is no term", func(_ *View, h *raft.Hello) { h.Term = 0 }, false},
		{"the sender is of an earlier cluster", func(_ *View, h *raft.Hello) { h.From = peer("n4", 44) }, false},
		{"a member of a cluster is never misnamed", func(v *View, _ *raft.Hello) { v.Cluster, v.Term, v.Config = ours, 5, threeMembers(11, 22, 33) }, false},
		{"a leader has counted on it already", func(v *View, _ *raft.Hello) { v.Term = 4 }, false},
	} {
		v, h := emptied, member
		row.change(&v, &h)
		expect.Equal(t, row.want, v.Misnames(h), row.rule)
		require.Nil(t, v.Judge(h).Rejection, row.rule)
	}
	earlier := member
	earlier.Named, earlier.NamedIndex, earlier.Expected.Incarnation = nil, 0, 21
	expect.True(t, emptied.Misnames(earlier), "an earlier release shows whom it expects")
	earlier.Expected.Incarnation = 22
	expect.False(t, emptied.Misnames(earlier))
}

func TestMayJoin_TakesEmptyStoresAndThoseOfAnAdditionThatWasRolledBack(t *testing.T) {
	v, _ := aMeeting()
	v.Removed = []raft.Removal{removal(peer("n4", 43), 9)}
	v.Config.Removed = append(v.Config.Removed, removal(peer("n4", 45), 10)) // may be rolled back
	empty := raft.Hello{ClusterName: "blue", From: peer("n4", 44), Address: "h4:1", StartCount: 1, Lineage: starts(1, 1)}
	for _, row := range []struct {
		rule   string
		change func(h *raft.Hello)
		want   string
	}{
		{"an empty store", func(*raft.Hello) {}, ""},
		{"an empty store with another list", func(h *raft.Hello) { h.List = threeMembers(1, 2, 3) }, ""},
		{"a store of this cluster", func(h *raft.Hello) { h.Cluster, h.Term, h.Bootstrapper = ours, 5, n1 }, ""},
		{"a store that has a term, and no cluster", func(h *raft.Hello) { h.Term = 5 }, ""},
		{"a removal that may be rolled back", func(h *raft.Hello) { h.From.Incarnation = 45 }, ""},
		{"a store of another cluster", func(h *raft.Hello) { h.Cluster, h.Term = theirs, 5 },
			"raft: the store of n4 at h4:1 belongs to cluster " + theirs.String() + ": empty its directory, or name another address"},
		{"a member that was removed", func(h *raft.Hello) { h.From.Incarnation, h.Cluster, h.Term = 43, ours, 5 },
			"raft: the store of n4 at h4:1 was that of a member which entry 9 has removed: set it aside (storage.SetAside), so that the member gets another incarnation"},
		{"a member that was removed before it held anything", func(h *raft.Hello) { h.From.Incarnation = 43 },
			"raft: the store of n4 at h4:1 was that of a member which entry 9 has removed: set it aside (storage.SetAside), so that the member gets another incarnation"},
	} {
		h := empty
		row.change(&h)
		err := v.MayJoin(h)
		if row.want == "" {
			expect.NoError(t, err, row.rule)
			continue
		}
		var refusal *raft.NotEmptyError
		require.ErrorAs(t, err, &refusal, row.rule)
		expect.EqualError(t, err, row.want, row.rule)
	}
}

// A handshake cannot report a forgotten removal. If the removed member joined again with its old store, it would find its
// removal in the log, and end.
func TestMayJoin_AStoreOlderThanAllRemovalsThatAreRemembered(t *testing.T) {
	v, _ := aMeeting()
	for k := range raft.RemovedMax {
		v.Removed = append(v.Removed, removal(peer("n4", raft.Incarnation(100+k)), raft.Index(50+k)))
	}
	h := raft.Hello{ClusterName: "blue", Cluster: ours, Term: 5, From: peer("n4", 44), Address: "h4:1", StartCount: 1, Lineage: starts(1, 1), NamedIndex: 49}
	var refusal *raft.NotEmptyError
	require.ErrorAs(t, v.MayJoin(h), &refusal)
	expect.Equal(t, raft.NotEmptyError{ID: "n4", Address: "h4:1", Cluster: ours, Before: 50}, *refusal)
	expect.EqualError(t, refusal, "raft: the store of n4 at h4:1 is of this cluster, and its configuration is not newer than entry 50, the "+
		"oldest removal that is remembered: its member may have been removed. Set it aside (storage.SetAside), so that the member gets another incarnation")

	h.NamedIndex = 50
	expect.ErrorAs(t, v.MayJoin(h), &refusal, "entry 50 may have removed another member, whose removal is forgotten")
	h.NamedIndex = 51
	expect.NoError(t, v.MayJoin(h), "its removal would be remembered")
	h.Cluster, h.Term, h.NamedIndex = raft.ClusterID{}, 0, 0
	expect.NoError(t, v.MayJoin(h), "an empty store")
	h.Cluster, h.Term, v.Removed = ours, 5, v.Removed[1:]
	expect.NoError(t, v.MayJoin(h), "nothing is forgotten")
}

// A peer's addition may be rolled back and repeated. This member still remembers what the peer has confirmed, even if this
// store was started many times meanwhile. But this memory is limited.
func TestHandshake_KeepsWhatWasConfirmedOverARollBack(t *testing.T) {
	v, h := aMeeting()
	joining := v.Config
	joining.Members = append(joining.Members[:3:3], raft.Member{ID: "n4", Address: "n4:1", Kind: raft.Learner, Incarnation: 44})
	rolledBack := v.Config
	n4 := h
	n4.From = peer("n4", 44)

	v.Config = joining
	v.Memory = *v.Judge(n4).Memory
	v.Config, v.Lineage = rolledBack, starts(41, 104)
	h.Remembers.Start = start(104)
	v.Memory = *v.Judge(h).Memory
	v.Config = joining
	expect.Nil(t, v.Judge(n4).Rejection, "it remembers start 9, as it has said before")

	v.Config, v.Memory.Confirmed = rolledBack, nil
	for k := range sightingsMax + 10 {
		v.Memory.Confirmed = append(v.Memory.Confirmed, raft.Sighting{Peer: peer(raft.NodeID(fmt.Sprint("x", k)), 1), Start: start(1)})
	}
	v.Memory.Confirmed = append([]raft.Sighting{{Peer: n1, Start: start(3)}}, v.Memory.Confirmed...)
	m := v.Judge(h).Memory
	require.Len(t, m.Confirmed, sightingsMax)
	expect.Equal(t, raft.Sighting{Peer: n1, Start: start(3)}, m.Confirmed[0], "members are forgotten last")
	expect.Equal(t, n3, m.Confirmed[sightingsMax-1].Peer)
}
