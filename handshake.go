package raft

import (
	"fmt"
	"strings"
	"time"
)

// Hello is what the two sides of a connection tell each other first.
type Hello struct {
	ClusterName  string    // node.Config.Cluster
	Cluster      ClusterID // zero while uninitialized
	From         Peer
	Expected     Peer // who the connection is for; incarnation 0 if it is not known yet
	StartCount   uint64
	Term         Term
	Bootstrapper Peer          // who bootstrapped the cluster; zero while uninitialized
	Address      string        // advertised
	List         Configuration // node.Config.Initial, while uninitialized
	Lineage      Lineage       // the last starts of the sender's store; Start count is the number of the last one
	Confirmed    StartID       // the newest of the sender's starts of which it knows that the receiver remembers it
	Remembers    Sighting      // what the sender remembers, durably, of the receiver's starts
	// ElectionTimeout is exchanged so that members with unequal ones can be told.
	ElectionTimeout time.Duration
	// Protocol is the protocol version that the connection speaks from here on: the highest that both
	// sides know. The transport fills it in for Check and Up; what Hello returns leaves it 0.
	Protocol uint16
}

// Uninitialized reports whether the sender belongs to no cluster yet.
func (h Hello) Uninitialized() bool { return h.Cluster == ClusterID{} && h.Term == 0 }

// Handshake is what one member brings to a handshake: everything that its rules look at, besides the
// peer's Hello. Its methods are pure, so that the node and a simulator run the same rules.
type Handshake struct {
	Self         Peer
	ClusterName  string
	Cluster      ClusterID
	Term         Term // durable
	Bootstrapper Peer
	Config       Configuration // zero while uninitialized
	Initial      Configuration
	Lineage      Lineage
	Memory       Memory
	// Live is the start of the peer to which a connection stands; zero if there is none.
	Live StartID
}

// Verdict is what follows from a Hello.
type Verdict struct {
	Rejection *Rejection // not nil: this member will not talk to the peer
	// Memory is what this member remembers from now on, in place of Handshake.Memory; nil if nothing
	// changed. The peer must not be counted before its newest start in it is durable.
	Memory *Memory
	// Mark is not nil if the peer has shown that this member's own store is an older image. Once it is
	// durable the member ends.
	Mark *Mark
}

// Hello is what this member says of itself to that peer. The peer's incarnation stays open until the
// cluster has a term: until then a bootstrap may be redone with another one. It tells the peer what this
// member remembers of it, so that Memory must be the durable one.
func (v *Handshake) Hello(to NodeID, timeout time.Duration) Hello {
	h := Hello{
		ClusterName: v.ClusterName, Cluster: v.Cluster, From: v.Self, Expected: Peer{ID: to}, StartCount: v.Lineage.Last().Count,
		Term: v.Term, Bootstrapper: v.Bootstrapper, ElectionTimeout: timeout, Lineage: v.Lineage,
	}
	peer, named := v.Config.Member(to)
	if named && v.Term > 0 {
		h.Expected.Incarnation = peer.Incarnation
	}
	h.Remembers = v.Memory.lastSeen(to)
	if named && peer.Incarnation != 0 {
		h.Remembers = find(v.Memory.Seen, peer.Peer())
		h.Confirmed = find(v.Memory.Confirmed, peer.Peer()).Start
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

// Judge decides about a peer by its Hello. It does not ask whether the peer is a member: one that this
// member does not know yet may already be a voter.
func (v *Handshake) Judge(h Hello) Verdict {
	for _, rule := range []func(Hello) Verdict{v.judgeIdentity, v.judgeSelf, v.judgeLineage, v.judgeCluster} {
		if verdict := rule(h); verdict.Rejection != nil {
			return verdict
		}
	}
	return Verdict{Memory: v.remember(h)}
}

// Reject returns a rejection with all that a refuser says of itself, and what it remembers of the caller.
func (v *Handshake) Reject(h Hello, reason RejectReason, detail string, args ...any) *Rejection {
	return &Rejection{
		Reason: reason, From: v.Self, Cluster: v.Cluster, Term: v.Term, Bootstrapper: v.Bootstrapper,
		Seen: find(v.Memory.Seen, h.From), Detail: fmt.Sprintf(detail, args...),
	}
}

// judgeIdentity asks whether the two are who they take each other for.
func (v *Handshake) judgeIdentity(h Hello) (verdict Verdict) {
	named, _ := v.Config.Member(h.From.ID)
	switch {
	case h.ClusterName != v.ClusterName:
		verdict.Rejection = v.Reject(h, RejectClusterName, "this member is of %q, the caller of %q", v.ClusterName, h.ClusterName)
	case h.Expected.ID != v.Self.ID:
		verdict.Rejection = v.Reject(h, RejectWrongID, "this is %q, the connection is for %q", v.Self.ID, h.Expected.ID)
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != v.Self.Incarnation:
		verdict.Rejection = v.Reject(h, RejectWrongIncarnation,
			"this is %v, the connection is for %v", v.Self.Incarnation, h.Expected.Incarnation)
	case named.Incarnation != 0 && named.Incarnation != h.From.Incarnation && !v.mayBootstrapAnew(h):
		verdict.Rejection = v.Reject(h, RejectNamedOther, "")
		verdict.Rejection.Named = named.Incarnation
	}
	return verdict
}

// judgeCluster asks whether the two may belong to one cluster.
func (v *Handshake) judgeCluster(h Hello) (verdict Verdict) {
	switch {
	case v.Cluster != (ClusterID{}) && h.Cluster != (ClusterID{}) && v.Cluster != h.Cluster && !v.bootstrapsAgain(h):
		verdict.Rejection = v.Reject(h, RejectOtherCluster,
			"this member belongs to %v, the caller to %v", v.Cluster, h.Cluster)
	case v.uninitialized() && h.Uninitialized() && len(v.Initial.Members) > 0 && len(h.List.Members) > 0 && !v.Initial.SameList(h.List):
		verdict.Rejection = v.Reject(h, RejectListDiffers,
			"this member has %s, the caller has %s", listed(v.Initial), listed(h.List))
		verdict.Rejection.List = v.Initial
	}
	return verdict
}

func (v *Handshake) uninitialized() bool { return v.Cluster == ClusterID{} && v.Term == 0 }

// mayBootstrapAnew reports whether the caller lost its disk before the cluster had a term: the bootstrapper
// may bootstrap it again with the new incarnation, unless it is the bootstrapper itself that was emptied.
func (v *Handshake) mayBootstrapAnew(h Hello) bool {
	return v.Term == 0 && h.Uninitialized() && h.From.ID != v.Bootstrapper.ID
}

// bootstrapsAgain reports whether two cluster ids may meet: both sides are at term 0, and one is the
// bootstrapper of the other's bootstrap, which it does over.
func (v *Handshake) bootstrapsAgain(h Hello) bool {
	return v.Term == 0 && h.Term == 0 && (h.From == v.Bootstrapper || v.Self == h.Bootstrapper)
}

// listed prints the members of a list, for people.
func listed(c Configuration) string {
	parts := make([]string, len(c.Members))
	for i, m := range c.Members {
		parts[i] = string(m.ID) + "=" + m.Address
	}
	return "[" + strings.Join(parts, " ") + "]"
}
