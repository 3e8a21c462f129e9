package raft

import (
	"fmt"
	"slices"
)

// This file says what a change of the members means for handshakes: whether a store may become that of a new member,
// and how a member learns that it was removed, or that another incarnation of it is the member.
//
// A member that lags knows earlier configurations. Its vote may be the one that a newer configuration needs, so it
// rejects nobody for what its own configuration says: two exceptions are a removal that is committed, which stays true,
// and a cluster without a term, which is still being bootstrapped (checkIdentity).

// checkRemoved rejects a caller whose removal is committed. That of a configuration which is only in the log may still
// be rolled back.
func (v *Handshake) checkRemoved(h Hello) (verdict Verdict) {
	if removal, ok := removalOf(v.Removed, h.From); ok {
		verdict.Rejection = v.Reject(h, RejectRemoved, "by entry %d", removal.Index)
		verdict.Rejection.Index = removal.Index
	}
	return verdict
}

func removalOf(all []Removal, p Peer) (Removal, bool) {
	i := slices.IndexFunc(all, func(r Removal) bool { return r.Peer == p })
	if i < 0 {
		return Removal{}, false
	}
	return all[i], true
}

// ToldRemoval returns the entry that has removed this member, if the rejection says so; 0 if it does not, or is not to be
// believed: only members that this member's own configuration names are, only about their own cluster, and only about
// entries that are not known to be committed here. Of the others this member knows itself what they have done
// (Core.Removed), and whether it has joined again since.
func (v *Handshake) ToldRemoval(r Rejection) Index {
	if !v.heedsRemoval(r) || r.Index <= v.Commit {
		return 0
	}
	return r.Index
}

func (v *Handshake) heedsRemoval(r Rejection) bool {
	return r.Reason == RejectRemoved && r.Cluster == v.Cluster && v.names(r.From)
}

// contradictedBy returns a mark if the rejection names an entry that is known to be committed here, and that has not
// removed this member: two different entries are committed at one index. So the cluster has lost what this member still
// holds, and its store must not be given up as that of a member that was removed. A removal that may be forgotten proves
// nothing.
func (v *Handshake) contradictedBy(r Rejection) *Mark {
	_, removed := removalOf(v.Removed, v.Self)
	forgotten := len(v.Removed) == RemovedMax && r.Index <= v.Removed[0].Index
	if !v.heedsRemoval(r) || r.Index == 0 || r.Index > v.Commit || removed || forgotten {
		return nil
	}
	return &Mark{
		Kind: MarkContradicted, By: r.From,
		Detail: fmt.Sprintf("there entry %d has removed this member; here the log is known to be committed up to entry %d, and that one "+
			"has not", r.Index, v.Commit),
	}
}

// Misnames reports whether the sender's configuration names the id of this member, but not its incarnation: its disk
// was emptied. A member that has been told anything by its cluster is never misnamed: its incarnation was a member
// then. Nor is it proof that a sender says so which is not on this member's list of initial members: it may be left
// over from an earlier cluster. It is for a Hello that was accepted, or rejected for RejectWrongIncarnation.
func (v *Handshake) Misnames(h Hello) bool {
	_, listed := v.Initial.Member(h.From.ID)
	named := h.named()
	return v.uninitialized() && h.Term > 0 && (listed || len(v.Initial.Members) == 0) &&
		len(named) > 0 && !slices.Contains(named, v.Self.Incarnation)
}

// named returns the incarnations under which the sender's configuration names the receiver. An earlier release shows
// nothing but the one that it expects.
func (h Hello) named() []Incarnation {
	if h.NamedIndex == 0 && h.Expected.Incarnation != 0 {
		return []Incarnation{h.Expected.Incarnation}
	}
	return h.Named
}

// MayJoin returns nil if the sender's store may become that of a new member of this member's cluster: it belongs to no
// cluster, or to this one already, because an earlier attempt to add it was rolled back, and this incarnation was not
// removed. Otherwise it returns a *NotEmptyError. The sender's list of initial members does not matter.
//
// Once RemovedMax removals are known, earlier ones may be forgotten. A member that was removed by one of those gets no
// entry behind it. If it joined again with its store, it would get that entry first, and end. So a store of this cluster
// whose configuration is older than all removals that are known may not join.
func (v *Handshake) MayJoin(h Hello) error {
	removal, removed := removalOf(v.Removed, h.From)
	refused := &NotEmptyError{ID: h.From.ID, Address: h.Address, Cluster: h.Cluster, Removed: removal.Index}
	switch {
	case removed || h.Cluster != (ClusterID{}) && h.Cluster != v.Cluster:
		return refused
	case h.Cluster != (ClusterID{}) && len(v.Removed) >= RemovedMax && h.NamedIndex < v.Removed[0].Index:
		refused.before = v.Removed[0].Index
		return refused
	}
	return nil
}

// NotEmptyError refuses to add a member, because its store belongs to another cluster, or to an incarnation that was, or
// may have been, removed from this one. Nothing was changed.
type NotEmptyError struct {
	ID      NodeID
	Address string    // that it advertises
	Cluster ClusterID // to which the store belongs
	Removed Index     // the entry that has removed the incarnation from this cluster; 0: none that is remembered
	// before is the oldest removal that is remembered, if the store is of this cluster and older: its incarnation may have
	// been removed, too. Else 0.
	before Index
}

func (e *NotEmptyError) Error() string {
	switch {
	case e.before > 0:
		return fmt.Sprintf("raft: the store of %s at %s is of this cluster, and from before entry %d, the oldest removal that is "+
			"remembered: its member may have been removed. Set it aside (storage.SetAside), so that the member gets another incarnation",
			e.ID, e.Address, e.before)
	case e.Removed > 0:
		return fmt.Sprintf("raft: the store of %s at %s was that of a member which entry %d has removed: set it aside "+
			"(storage.SetAside), so that the member gets another incarnation", e.ID, e.Address, e.Removed)
	}
	return fmt.Sprintf("raft: the store of %s at %s belongs to cluster %v: empty its directory, or name another address",
		e.ID, e.Address, e.Cluster)
}
