// Package handshake decides which peers a member talks to, and detects a store that is an older image of a disk. Package node
// and the simulator use it; the core in package raft does not. If you write your own loop, use this package, unless no disk
// can go back: see docs/architecture.md.
//
// A [View] is what one member knows. [View.Hello] returns the first message of this member on a connection. [View.Judge]
// decides about the Hello of the peer. [View.Told] and [View.ToldRemoval] say what follows from a rejection. [View.MayJoin]
// says whether a store may become that of a new member.
package handshake

import (
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// View is what one member knows in a handshake: everything that the rules need besides the peer's
// Hello. Its methods are pure, so that the node and a simulator run the same rules.
type View struct {
	Self         raft.Peer
	ClusterName  string
	Cluster      raft.ClusterID
	Term         raft.Term // durable
	Bootstrapper raft.Peer
	Config       raft.Configuration // in force, committed or not; zero while uninitialized
	ConfigIndex  raft.Index         // of the entry that holds Config
	Removed      []raft.Removal     // the removals that are known to be committed; a peer that only Config has removed counts as named
	Commit       raft.Index         // an entry that is known to be committed; Removed has all removals up to it that are not forgotten
	Initial      raft.Configuration
	Lineage      raft.Lineage
	Memory       raft.Sightings
	// Live is the start of the peer that is connected at present; zero if none is.
	Live raft.StartID
}

// Verdict is the result of judging a peer's Hello.
type Verdict struct {
	Rejection *raft.Rejection // not nil: this member will not talk to the peer
	// Memory replaces View.Memory from now on; nil if nothing changed. No message of the peer may count before
	// the peer's newest start in it is durable.
	Memory *raft.Sightings
	// Mark is not nil if the peer has shown that this member's own store is an older image. The member ends once the
	// mark is durable.
	Mark *raft.Mark
}

// Hello returns what this member says first to that peer. If the peer's incarnation is not known, it is 0. Until the cluster
// has a term, Expected leaves the incarnation open, because a bootstrap may be repeated with another incarnation. The Hello
// also says how the configuration names the peer, and what this member remembers of it. So Memory must be the durable one.
func (v *View) Hello(to raft.Peer, timeout time.Duration) raft.Hello {
	h := raft.Hello{
		ClusterName: v.ClusterName, Cluster: v.Cluster, From: v.Self, Expected: raft.Peer{ID: to.ID}, StartCount: v.Lineage.Last().Count,
		Term: v.Term, Bootstrapper: v.Bootstrapper, ElectionTimeout: timeout, Lineage: v.Lineage,
	}
	if v.Term > 0 {
		h.Expected, h.NamedIndex = to, v.ConfigIndex
		for _, m := range v.Config.Members {
			if m.ID == to.ID {
				h.Named = append(h.Named, m.Incarnation)
			}
		}
	}
	if named, _ := v.Config.Member(to.ID); to.Incarnation == 0 {
		to = raft.Peer{ID: to.ID, Incarnation: named.Incarnation}
	}
	h.Remembers = lastSeen(v.Memory.Seen, to.ID)
	if to.Incarnation != 0 {
		h.Remembers = v.Memory.SeenOf(to)
		h.Confirmed = v.Memory.ConfirmedBy(to).Start
	}
	known := v.Config
	if h.Uninitialized() {
		h.List, known = v.Initial, v.Initial
	}
	if m, ok := known.Member(v.Self.ID); ok {
		h.Address = m.Address
	}
	return h
}

// Judge decides about a peer by its Hello. It accepts a peer that is not in the configuration, because a newer configuration,
// which this member does not have yet, may name it as a voter. Of the removals, only committed ones count.
func (v *View) Judge(h raft.Hello) Verdict {
	for _, rule := range []func(raft.Hello) Verdict{v.checkIdentity, v.checkRemoved, v.checkOwnStart, v.checkLineage, v.checkCluster} {
		if verdict := rule(h); verdict.Rejection != nil {
			return verdict
		}
	}
	return Verdict{Memory: v.remember(h)}
}

// Reject returns a rejection that says who this member is and what it remembers of the caller.
func (v *View) Reject(h raft.Hello, reason raft.RejectReason, detail string, args ...any) *raft.Rejection {
	return &raft.Rejection{
		Reason: reason, From: v.Self, Cluster: v.Cluster, Term: v.Term,
		Seen: v.Memory.SeenOf(h.From), Detail: fmt.Sprintf(detail, args...),
	}
}

// checkIdentity checks that each member is the one that the other expects. Once the cluster has a term, it accepts a caller
// with another incarnation than the configuration names, because a newer configuration may name that incarnation. The caller
// learns from Hello.Named what this member's configuration says. If the caller knows a term of this same cluster, that is
// enough, even if this member knows no term yet.
func (v *View) checkIdentity(h raft.Hello) (verdict Verdict) {
	named, _ := v.Config.Member(h.From.ID)
	begun := v.Term != 0 || h.Term != 0 && h.Cluster == v.Cluster
	switch {
	case h.ClusterName != v.ClusterName:
		verdict.Rejection = v.Reject(h, raft.RejectClusterName, "this member is of %q, the caller of %q", v.ClusterName, h.ClusterName)
	case h.Expected.ID != v.Self.ID:
		verdict.Rejection = v.Reject(h, raft.RejectWrongID, "this is %q, the connection is for %q", v.Self.ID, h.Expected.ID)
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != v.Self.Incarnation:
		verdict.Rejection = v.Reject(h, raft.RejectWrongIncarnation,
			"this is %v, the connection is for %v", v.Self.Incarnation, h.Expected.Incarnation)
		if slices.Contains(h.Named, v.Self.Incarnation) {
			verdict.Rejection.Named = v.Self.Incarnation
		}
	case !begun && named.Incarnation != 0 && named.Incarnation != h.From.Incarnation && !v.mayBootstrapAnew(h):
		verdict.Rejection = v.Reject(h, raft.RejectNamedOther, "")
		verdict.Rejection.Named = named.Incarnation
	}
	return verdict
}

// checkCluster checks that the two members may belong to one cluster.
func (v *View) checkCluster(h raft.Hello) (verdict Verdict) {
	switch {
	case v.Cluster != (raft.ClusterID{}) && h.Cluster != (raft.ClusterID{}) && v.Cluster != h.Cluster && !v.bootstrapsAgain(h):
		verdict.Rejection = v.Reject(h, raft.RejectOtherCluster,
			"this member belongs to %v, the caller to %v", v.Cluster, h.Cluster)
	case v.uninitialized() && h.Uninitialized() && len(v.Initial.Members) > 0 && len(h.List.Members) > 0 && !v.Initial.SameList(h.List):
		verdict.Rejection = v.Reject(h, raft.RejectListDiffers,
			"this member has %s, the caller has %s", v.Initial.ListText(), h.List.ListText())
		verdict.Rejection.List = v.Initial
	}
	return verdict
}

func (v *View) uninitialized() bool { return v.Cluster == raft.ClusterID{} && v.Term == 0 }

// mayBootstrapAnew reports whether the caller may have lost its disk before the cluster had a term. Then the bootstrapper may
// repeat the bootstrap with the caller's new incarnation, unless the caller is the bootstrapper itself.
func (v *View) mayBootstrapAnew(h raft.Hello) bool {
	return v.Term == 0 && h.Uninitialized() && h.From.ID != v.Bootstrapper.ID
}

// bootstrapsAgain reports whether the two cluster ids may differ. They may if both sides are at term 0 and one of them is the
// other side's bootstrapper, because that bootstrapper may have begun again since.
func (v *View) bootstrapsAgain(h raft.Hello) bool {
	return v.Term == 0 && h.Term == 0 && (h.From == v.Bootstrapper || v.Self == h.Bootstrapper)
}
