package raft

import (
	"fmt"
	"strings"
	"time"
)

// Hello is what the two sides of a connection tell each other first.
type Hello struct {
	ClusterName string    // node.Config.Cluster
	Cluster     ClusterID // zero while blank
	From        Peer
	Expected    Peer // who the connection is for; incarnation 0 if it is not known yet
	Boot        uint64
	Term        Term
	Founder     Peer          // who founded the cluster; zero while blank
	Address     string        // advertised
	List        Configuration // node.Config.Initial, while blank
	Lineage     Lineage       // the last starts of the sender's store; Boot is the number of the last one
	Confirmed   BootID        // the newest of the sender's starts of which it knows that the receiver remembers it
	Remembers   Sighting      // what the sender remembers, durably, of the receiver's starts
	// ElectionTimeout is exchanged so that members with unequal ones can be told.
	ElectionTimeout time.Duration
	// Protocol is the protocol version that the connection speaks from here on: the highest that both
	// sides know. The transport fills it in for Check and Up; what Hello returns leaves it 0.
	Protocol uint16
}

// Blank reports whether the sender belongs to no cluster yet.
func (h Hello) Blank() bool { return h.Cluster == ClusterID{} && h.Term == 0 }

// Handshake is what one member brings to a handshake: everything that its rules look at, besides the
// peer's Hello. Its methods are pure, so that the node and a simulator run the same rules.
type Handshake struct {
	Self        Peer
	ClusterName string
	Cluster     ClusterID
	Term        Term // durable
	Founder     Peer
	Config      Configuration // zero while blank
	Initial     Configuration
	Lineage     Lineage
	Memory      Memory
	// Live is the start of the peer to which a connection stands; zero if there is none.
	Live BootID
}

// Verdict is what follows from a Hello.
type Verdict struct {
	Refusal *Refusal // not nil: this member will not talk to the peer
	// Memory is what this member remembers from now on, in place of Handshake.Memory; nil if nothing
	// changed. The peer must not be counted before its newest start in it is durable.
	Memory *Memory
	// Mark is not nil if the peer has shown that this member's own store is an older image. Once it is
	// durable the member ends.
	Mark *Mark
}

// Hello is what this member says of itself to that peer. The peer's incarnation stays open until the
// cluster has a term: until then a founding may be redone with another one. It tells the peer what this
// member remembers of it, so that Memory must be the durable one.
func (v *Handshake) Hello(to NodeID, timeout time.Duration) Hello {
	h := Hello{
		ClusterName: v.ClusterName, Cluster: v.Cluster, From: v.Self, Expected: Peer{ID: to}, Boot: v.Lineage.Last().Boot,
		Term: v.Term, Founder: v.Founder, ElectionTimeout: timeout, Lineage: v.Lineage,
	}
	peer, named := v.Config.Member(to)
	if named && v.Term > 0 {
		h.Expected.Incarnation = peer.Incarnation
	}
	h.Remembers = v.Memory.lastSeen(to)
	if named && peer.Incarnation != 0 {
		h.Remembers = find(v.Memory.Seen, peer.Peer())
		h.Confirmed = find(v.Memory.Confirmed, peer.Peer()).Boot
	}
	known := v.Config
	if h.Blank() {
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
		if verdict := rule(h); verdict.Refusal != nil {
			return verdict
		}
	}
	return Verdict{Memory: v.remember(h)}
}

// Refuse returns a refusal with all that a refuser says of itself, and what it remembers of the caller.
func (v *Handshake) Refuse(h Hello, reason RefusalReason, detail string, args ...any) *Refusal {
	return &Refusal{
		Reason: reason, From: v.Self, Cluster: v.Cluster, Term: v.Term, Founder: v.Founder,
		Seen: find(v.Memory.Seen, h.From), Detail: fmt.Sprintf(detail, args...),
	}
}

// judgeIdentity asks whether the two are who they take each other for.
func (v *Handshake) judgeIdentity(h Hello) (verdict Verdict) {
	named, _ := v.Config.Member(h.From.ID)
	switch {
	case h.ClusterName != v.ClusterName:
		verdict.Refusal = v.Refuse(h, RefusedClusterName, "this member is of %q, the caller of %q", v.ClusterName, h.ClusterName)
	case h.Expected.ID != v.Self.ID:
		verdict.Refusal = v.Refuse(h, RefusedWrongID, "this is %q, the connection is for %q", v.Self.ID, h.Expected.ID)
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != v.Self.Incarnation:
		verdict.Refusal = v.Refuse(h, RefusedWrongIncarnation,
			"this is %v, the connection is for %v", v.Self.Incarnation, h.Expected.Incarnation)
	case named.Incarnation != 0 && named.Incarnation != h.From.Incarnation && !v.mayBeFoundedAnew(h):
		verdict.Refusal = v.Refuse(h, RefusedNamedOther, "")
		verdict.Refusal.Named = named.Incarnation
	}
	return verdict
}

// judgeCluster asks whether the two may belong to one cluster.
func (v *Handshake) judgeCluster(h Hello) (verdict Verdict) {
	switch {
	case v.Cluster != (ClusterID{}) && h.Cluster != (ClusterID{}) && v.Cluster != h.Cluster && !v.refounding(h):
		verdict.Refusal = v.Refuse(h, RefusedOtherCluster,
			"this member belongs to %v, the caller to %v", v.Cluster, h.Cluster)
	case v.blank() && h.Blank() && len(v.Initial.Members) > 0 && len(h.List.Members) > 0 && !v.Initial.SameList(h.List):
		verdict.Refusal = v.Refuse(h, RefusedListDiffers,
			"this member has %s, the caller has %s", listed(v.Initial), listed(h.List))
		verdict.Refusal.List = v.Initial
	}
	return verdict
}

func (v *Handshake) blank() bool { return v.Cluster == ClusterID{} && v.Term == 0 }

// mayBeFoundedAnew reports whether the caller lost its disk before the cluster had a term: the founder
// may found it again with the new incarnation, unless it is the founder itself that was emptied.
func (v *Handshake) mayBeFoundedAnew(h Hello) bool {
	return v.Term == 0 && h.Blank() && h.From.ID != v.Founder.ID
}

// refounding reports whether two cluster ids may meet: both sides are at term 0, and one is the
// founder of the other's founding, which it does over.
func (v *Handshake) refounding(h Hello) bool {
	return v.Term == 0 && h.Term == 0 && (h.From == v.Founder || v.Self == h.Founder)
}

// listed prints the members of a list, for people.
func listed(c Configuration) string {
	parts := make([]string, len(c.Members))
	for i, m := range c.Members {
		parts[i] = string(m.ID) + "=" + m.Address
	}
	return "[" + strings.Join(parts, " ") + "]"
}
