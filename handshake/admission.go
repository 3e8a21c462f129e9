package handshake

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// This file says what a membership change means for handshakes. It decides whether a store may become that of a new member.
// It also tells a member that it was removed, or that another incarnation of it is the member.
//
// A member that lags knows only earlier configurations, and a newer configuration may need that member's vote. So a member
// rejects nobody because of its own configuration, with two exceptions. The first is a committed removal, which stays true.
// The second is a cluster without a term, which is still being bootstrapped (checkIdentity).

// checkRemoved rejects a caller whose removal is committed. A removal in an uncommitted configuration does not count, because
// it may still be rolled back.
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

// ToldRemoval returns the entry by which this member was removed, according to the rejection. It returns 0 if the rejection
// reports no removal, or does not count. A rejection counts only if its sender is in this member's configuration and in the
// same cluster. The entry it names must not be known to be committed here. This member knows by itself what earlier entries
// have done (raft.Core.Removed), and whether it has joined again since.
func (v *View) ToldRemoval(r raft.Rejection) raft.Index {
	if !v.trustsRemoval(r) || r.Index <= v.Commit {
		return 0
	}
	return r.Index
}

// trustsRemoval reports whether the rejection says that this member was removed, and comes from a sender that this member
// trusts.
func (v *View) trustsRemoval(r raft.Rejection) bool {
	return r.Reason == raft.RejectRemoved && r.Cluster == v.Cluster && v.names(r.From)
}

// contradictedBy returns a mark if the rejection says that an entry removed this member, but here that entry is known to be
// committed and did not remove it. Then two different entries are committed at one index, so the cluster has lost entries
// that this member still holds. Its store must not be discarded as the store of a removed member. If this member may have
// forgotten the removal, the rejection proves nothing.
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

// Misnames reports whether the sender's configuration names the id of this member, but not its incarnation. Then this
// member's disk was emptied. Misnames returns false once this member has heard anything from its cluster, because its
// incarnation was a member then. It also returns false if the sender is not on this member's list of initial members, because
// the sender may be left over from an earlier cluster. Call it for a Hello that was accepted, or rejected for
// RejectWrongIncarnation.
func (v *View) Misnames(h raft.Hello) bool {
	_, listed := v.Initial.Member(h.From.ID)
	named := namedBy(h)
	return v.uninitialized() && h.Term > 0 && (listed || len(v.Initial.Members) == 0) &&
		len(named) > 0 && !slices.Contains(named, v.Self.Incarnation)
}

// namedBy returns the incarnations under which the sender's configuration names the receiver. A sender of an earlier release
// reports only the incarnation that it expects.
func namedBy(h raft.Hello) []raft.Incarnation {
	if h.NamedIndex == 0 && h.Expected.Incarnation != 0 {
		return []raft.Incarnation{h.Expected.Incarnation}
	}
	return h.Named
}

// MayJoin returns nil if the sender's store may become that of a new member of this member's cluster. Otherwise it returns a
// *raft.NotEmptyError. The store must belong to no cluster, or to this cluster because an earlier attempt to add it was
// rolled back. Its incarnation must not have been removed. The sender's list of initial members does not matter.
//
// Once RemovedMax removals are known, earlier removals may be forgotten, and others of the same entry as the oldest known one.
// A member holds no entry after the one that removed it. If such a member joined again with its old store, it would learn of
// its removal, and end. So a store of this cluster may not join if its configuration is not newer than the oldest known
// removal.
func (v *View) MayJoin(h raft.Hello) error {
	removal, removed := removalOf(v.Removed, h.From)
	refused := &raft.NotEmptyError{ID: h.From.ID, Address: h.Address, Cluster: h.Cluster, Removed: removal.Index}
	switch {
	case removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster:
		return refused
	case h.Cluster != (raft.ClusterID{}) && len(v.Removed) >= raft.RemovedMax && h.NamedIndex <= v.Removed[0].Index:
		refused.Before = v.Removed[0].Index
		return refused
	}
	return nil
}
