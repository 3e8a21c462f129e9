package handshake

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// This file says what a membership change means for handshakes: whether a store may become that of a new member, and how a
// member learns that it was removed, or that another incarnation of it is the member.
//
// A member that lags knows only earlier configurations, and a newer one may need its vote. So it rejects nobody because of its
// own configuration, with two exceptions: a committed removal, which stays true, and a cluster without a term, which is still
// being bootstrapped (checkIdentity).

// checkRemoved rejects a caller whose removal is committed. A removal in an uncommitted configuration may still be rolled
// back, so it does not count.
func (v *View) checkRemoved(h raft.Hello) (verdict Verdict) {
	if removal, ok := removalOf(v.Removed, h.From); ok {
		verdict.Rejection = v.Reject(h, raft.RejectRemoved, "by entry %d", removal.Index)
		verdict.Rejection.Index = removal.Index
	}
	return verdict
}

func removalOf(all []raft.Removal, p raft.Peer) (raft.Removal, bool) {
	i := slices.IndexFunc(all, func(r raft.Removal) bool { return r.Peer == p })
	if i < 0 {
		return raft.Removal{}, false
	}
	return all[i], true
}

// ToldRemoval returns the entry that has removed this member, as the rejection says; 0 if it says no such thing, or does not
// count. It counts only from a member in this member's own configuration, about their own cluster, and about an entry that
// is not known to be committed here. What earlier entries have done, this member knows itself (raft.Core.Removed), and also
// whether it has joined again since.
func (v *View) ToldRemoval(r raft.Rejection) raft.Index {
	if !v.trustsRemoval(r) || r.Index <= v.Commit {
		return 0
	}
	return r.Index
}

// trustsRemoval reports whether the rejection says, with authority, that this member was removed.
func (v *View) trustsRemoval(r raft.Rejection) bool {
	return r.Reason == raft.RejectRemoved && r.Cluster == v.Cluster && v.names(r.From)
}

// contradictedBy returns a mark if the rejection names an entry that is known to be committed here and that has not removed
// this member. Then two different entries are committed at one index: the cluster has lost what this member still holds, and
// its store must not be discarded as that of a removed member. A removal that may have been forgotten proves nothing.
func (v *View) contradictedBy(r raft.Rejection) *raft.Mark {
	_, removed := removalOf(v.Removed, v.Self)
	forgotten := len(v.Removed) == raft.RemovedMax && r.Index <= v.Removed[0].Index
	if !v.trustsRemoval(r) || r.Index == 0 || r.Index > v.Commit || removed || forgotten {
		return nil
	}
	return &raft.Mark{
		Kind: raft.MarkContradicted, By: r.From,
		Detail: fmt.Sprintf("there entry %d has removed this member; here the log is known to be committed up to entry %d, and that one "+
			"has not", r.Index, v.Commit),
	}
}

// Misnames reports whether the sender's configuration names the id of this member, but not its incarnation: its disk was
// emptied. It is false once this member has heard anything from its cluster, because its incarnation was a member then. It is
// also false if the sender is not on this member's list of initial members, because the sender may be left over from an
// earlier cluster. Call it for a Hello that was accepted, or rejected for RejectWrongIncarnation.
func (v *View) Misnames(h raft.Hello) bool {
	_, listed := v.Initial.Member(h.From.ID)
	named := namedBy(h)
	return v.uninitialized() && h.Term > 0 && (listed || len(v.Initial.Members) == 0) &&
		len(named) > 0 && !slices.Contains(named, v.Self.Incarnation)
}

// namedBy returns the incarnations under which the sender's configuration names the receiver. An earlier release says only which
// one it expects.
func namedBy(h raft.Hello) []raft.Incarnation {
	if h.NamedIndex == 0 && h.Expected.Incarnation != 0 {
		return []raft.Incarnation{h.Expected.Incarnation}
	}
	return h.Named
}

// MayJoin returns nil if the sender's store may become that of a new member of this member's cluster, else a
// *raft.NotEmptyError. The store must belong to no cluster, or to this one because an earlier attempt to add it was rolled
// back, and its incarnation must not have been removed. The sender's list of initial members does not matter.
//
// Once RemovedMax removals are known, earlier ones may be forgotten. A member that was removed by a forgotten entry holds no
// entry behind it. If it joined again with its store, it would receive that entry first, and end. So a store of this cluster
// whose configuration is older than all known removals may not join.
func (v *View) MayJoin(h raft.Hello) error {
	removal, removed := removalOf(v.Removed, h.From)
	refused := &raft.NotEmptyError{ID: h.From.ID, Address: h.Address, Cluster: h.Cluster, Removed: removal.Index}
	switch {
	case removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster:
		return refused
	case h.Cluster != (raft.ClusterID{}) && len(v.Removed) >= raft.RemovedMax && h.NamedIndex < v.Removed[0].Index:
		refused.Before = v.Removed[0].Index
		return refused
	}
	return nil
}
