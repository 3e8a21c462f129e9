package raft

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hello is what each side of a connection says of itself first.
type Hello struct {
	ClusterName  string    // node.Config.Cluster
	Cluster      ClusterID // zero while uninitialized
	From         Peer
	Expected     Peer // the member that the connection is for; incarnation 0 if it is not known yet
	StartCount   uint64
	Term         Term
	Bootstrapper Peer          // the bootstrapper of the cluster; zero while uninitialized
	Address      string        // advertised
	List         Configuration // node.Config.Initial, while uninitialized
	Lineage      Lineage       // the latest starts of the sender's store; StartCount is the count of the last one
	Confirmed    StartID       // the newest of the sender's starts that the receiver is known to remember
	Remembers    Sighting      // the newest of the receiver's starts that the sender durably remembers
	// Named are the incarnations under which the sender's configuration names the receiver's id, at most two, and
	// NamedIndex is the entry of that configuration. Both are zero before the cluster has a term, and in the Hello of
	// a peer whose Protocol is below ProtocolMembership.
	Named      []Incarnation
	NamedIndex Index
	// ElectionTimeout, AppendBytesMax, CommandBytesMax and NoSnapshots are settings of the sender, of which a node reports
	// those that differ from its own (node.SettingDifference). The node and the transport also heed AppendBytesMax.
	// Handshake.Hello fills in ElectionTimeout alone. The others are zero in the Hello of a release that is older than them.
	ElectionTimeout time.Duration
	// AppendBytesMax is how many bytes of entry records the sender takes in one append; 0: as many as any CoreConfig allows.
	AppendBytesMax  int
	CommandBytesMax int  // node.Config.CommandBytesMax; 0: not said
	NoSnapshots     bool // the sender's storage keeps no snapshots
	// IdleTimeout is transport.Options.IdleTimeout; 0: the default, or not said. The transport sets it; Handshake.Hello leaves it 0.
	IdleTimeout time.Duration
	// Release is the release of this library that the sender runs, for people to read, at most ReleaseBytesMax; "" if its
	// program does not say, or of one that is older than this field. Nothing depends on it. Handshake.Hello leaves it "".
	Release string
	// Protocol is the protocol version that the connection speaks from here on: the highest that both sides know.
	// The transport sets it for Check and Up; Handshake.Hello leaves it 0.
	Protocol uint16
}

// ReleaseBytesMax bounds Hello.Release, of printable ASCII characters.
const ReleaseBytesMax = 64

// ProtocolSnapshots is the first protocol version that carries snapshots: see Hello.Protocol and PeerUp.Protocol.
const ProtocolSnapshots uint16 = 2

// ProtocolMembership is the first protocol version whose members take entries that change the members of the cluster.
const ProtocolMembership uint16 = 3

// Uninitialized reports whether the sender belongs to no cluster yet.
func (h Hello) Uninitialized() bool { return h.Cluster == ClusterID{} && h.Term == 0 }

// Handshake is one member's side of a handshake: everything that the rules need besides the peer's Hello. Its
// methods are pure, so that the node and a simulator run the same rules.
type Handshake struct {
	Self         Peer
	ClusterName  string
	Cluster      ClusterID
	Term         Term // durable
	Bootstrapper Peer
	Config       Configuration // in force, committed or not; zero while uninitialized
	ConfigIndex  Index         // of the entry that holds Config
	Removed      []Removal     // the removals that are known to be committed; a peer that only Config has removed counts as named
	Commit       Index         // an entry that is known to be committed; Removed has all removals up to it that are not forgotten
	Initial      Configuration
	Lineage      Lineage
	Memory       Sightings
	// Live is the start of the peer that is connected at present; zero if none is.
	Live StartID
}

// Verdict is the result of judging a peer's Hello.
type Verdict struct {
	Rejection *Rejection // not nil: this member will not talk to the peer
	// Memory replaces Handshake.Memory from now on; nil if nothing changed. No message of the peer may count before
	// the peer's newest start in it is durable.
	Memory *Sightings
	// Mark is not nil if the peer has shown that this member's own store is an older image. The member ends once the
	// mark is durable.
	Mark *Mark
}

// Hello returns what this member says of itself to that peer, whose incarnation is 0 if it is not known. It leaves the
// incarnation open until the cluster has a term: until then a bootstrap may be redone with another one. It tells the
// peer what this member remembers of it, so Memory must be the durable one, and how the configuration names it.
func (v *Handshake) Hello(to Peer, timeout time.Duration) Hello {
	h := Hello{
		ClusterName: v.ClusterName, Cluster: v.Cluster, From: v.Self, Expected: Peer{ID: to.ID}, StartCount: v.Lineage.Last().Count,
		Term: v.Term, Bootstrapper: v.Bootstrapper, ElectionTimeout: timeout, Lineage: v.Lineage,
	}
	if v.Term > 0 {
		h.Expected, h.NamedIndex = to, v.ConfigIndex
		for _, m := range v.Config.withID(to.ID) {
			h.Named = append(h.Named, m.Incarnation)
		}
	}
	if named, _ := v.Config.Member(to.ID); to.Incarnation == 0 {
		to = Peer{to.ID, named.Incarnation}
	}
	h.Remembers = v.Memory.lastSeen(to.ID)
	if to.Incarnation != 0 {
		h.Remembers = find(v.Memory.Seen, to)
		h.Confirmed = find(v.Memory.Confirmed, to).Start
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

// Judge decides about a peer by its Hello. It does not check that the peer is in the configuration: a newer
// configuration, which this member does not have yet, may name it as a voter. Only a removal that is committed counts.
func (v *Handshake) Judge(h Hello) Verdict {
	for _, rule := range []func(Hello) Verdict{v.checkIdentity, v.checkRemoved, v.checkOwnStart, v.checkLineage, v.checkCluster} {
		if verdict := rule(h); verdict.Rejection != nil {
			return verdict
		}
	}
	return Verdict{Memory: v.remember(h)}
}

// Reject returns a rejection that says who this member is and what it remembers of the caller.
func (v *Handshake) Reject(h Hello, reason RejectReason, detail string, args ...any) *Rejection {
	return &Rejection{
		Reason: reason, From: v.Self, Cluster: v.Cluster, Term: v.Term,
		Seen: find(v.Memory.Seen, h.From), Detail: fmt.Sprintf(detail, args...),
	}
}

// checkIdentity checks that each member is the one that the other expects. Once the cluster has a term, another
// incarnation than the one that the configuration names is no reason to reject the caller: a newer configuration may
// name it. It learns from Hello.Named what this member's configuration says. The caller may know of a term of this very
// cluster before this member does.
func (v *Handshake) checkIdentity(h Hello) (verdict Verdict) {
	named, _ := v.Config.Member(h.From.ID)
	begun := v.Term != 0 || h.Term != 0 && h.Cluster == v.Cluster
	switch {
	case h.ClusterName != v.ClusterName:
		verdict.Rejection = v.Reject(h, RejectClusterName, "this member is of %q, the caller of %q", v.ClusterName, h.ClusterName)
	case h.Expected.ID != v.Self.ID:
		verdict.Rejection = v.Reject(h, RejectWrongID, "this is %q, the connection is for %q", v.Self.ID, h.Expected.ID)
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != v.Self.Incarnation:
		verdict.Rejection = v.Reject(h, RejectWrongIncarnation,
			"this is %v, the connection is for %v", v.Self.Incarnation, h.Expected.Incarnation)
		if slices.Contains(h.Named, v.Self.Incarnation) {
			verdict.Rejection.Named = v.Self.Incarnation
		}
	case !begun && named.Incarnation != 0 && named.Incarnation != h.From.Incarnation && !v.mayBootstrapAnew(h):
		verdict.Rejection = v.Reject(h, RejectNamedOther, "")
		verdict.Rejection.Named = named.Incarnation
	}
	return verdict
}

// checkCluster checks that the two members may belong to one cluster.
func (v *Handshake) checkCluster(h Hello) (verdict Verdict) {
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

// mayBootstrapAnew reports whether the caller may have lost its disk before the cluster had a term. The bootstrapper
// may then bootstrap it again with the new incarnation, unless it is the bootstrapper itself that was emptied.
func (v *Handshake) mayBootstrapAnew(h Hello) bool {
	return v.Term == 0 && h.Uninitialized() && h.From.ID != v.Bootstrapper.ID
}

// bootstrapsAgain reports whether the two cluster ids may differ: both sides are at term 0, and one of them is the
// bootstrapper that made the other's, and has begun again since.
func (v *Handshake) bootstrapsAgain(h Hello) bool {
	return v.Term == 0 && h.Term == 0 && (h.From == v.Bootstrapper || v.Self == h.Bootstrapper)
}

// listed returns the members of a list as text.
func listed(c Configuration) string {
	parts := make([]string, len(c.Members))
	for i, m := range c.Members {
		parts[i] = string(m.ID) + "=" + m.Address
	}
	return "[" + strings.Join(parts, " ") + "]"
}
