package raft

import (
	"fmt"
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
	// handshake.View.Hello fills in ElectionTimeout alone. The others are zero in the Hello of a release
	// that is older than them.
	ElectionTimeout time.Duration
	// AppendBytesMax is how many bytes of entry records the sender takes in one append; 0: as many as any CoreConfig allows.
	AppendBytesMax  int
	CommandBytesMax int  // node.Config.CommandBytesMax; 0: not said
	NoSnapshots     bool // the sender's storage keeps no snapshots
	// IdleTimeout is transport.Options.IdleTimeout; 0: the default, or not said. The transport sets it;
	// handshake.View.Hello leaves it 0.
	IdleTimeout time.Duration
	// Release is the release of this library that the sender runs, for people to read, at most ReleaseBytesMax; "" if its
	// program does not say, or of one that is older than this field. Nothing depends on it. handshake.View.Hello leaves it "".
	Release string
	// Protocol is the protocol version that the connection speaks from here on: the highest that both sides know.
	// The transport sets it for Check and Up; handshake.View.Hello leaves it 0.
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

// Rejection says why a member will not talk to another. It is an error.
type Rejection struct {
	Reason  RejectReason
	From    Peer // the member that rejects
	Cluster ClusterID
	Term    Term
	// Named is an incarnation in a configuration. RejectNamedOther: in that of From, the caller's. RejectWrongIncarnation: in the
	// caller's, that of From; 0 if it does not name that.
	Named       Incarnation
	Index       Index // RejectRemoved: the entry that has removed the caller
	List        Configuration
	Seen        Sighting // the caller's newest start that From remembers
	VersionsMin uint16
	VersionsMax uint16
	Detail      string
}

// RejectReason says why a connection was rejected. The numbers are part of the wire format; 6 is not in use.
type RejectReason uint8

// The reasons of a Rejection.
const (
	RejectClusterName      RejectReason = 1 // another node.Config.Cluster
	RejectWrongID          RejectReason = 2 // the connection is for another member id
	RejectWrongIncarnation RejectReason = 3 // the connection is for another incarnation of this member
	RejectOtherCluster     RejectReason = 4 // another cluster id
	// RejectNamedOther: the configuration of From names the caller's id with another incarnation, so the caller was wiped.
	// A member gives this reason only before its cluster has a term. One whose protocol version is below
	// ProtocolMembership gives it later, too.
	RejectNamedOther   RejectReason = 5
	RejectListDiffers  RejectReason = 7 // both uninitialized, with unequal lists
	RejectStaleStart   RejectReason = 8 // a later start of the caller has been seen: its disk is an older image
	RejectVersion      RejectReason = 9 // no protocol version in common
	RejectMalformed    RejectReason = 10
	RejectCertificate  RejectReason = 11 // the certificate names another member
	RejectUnknownStart RejectReason = 12 // a remembered start is older than the lineage: an older image cannot be ruled out
	RejectTwin         RejectReason = 13 // an earlier start of the caller is still connected
	RejectOwnImage     RejectReason = 14 // the caller has shown that this member's disk is an older image
	RejectSlowDisk     RejectReason = 15 // this member's disk has not stored the caller's start in time
	RejectRemoved      RejectReason = 16 // the caller was removed from the cluster, which is committed
	// RejectLate: a later term of this very start of the caller has been seen. The handshake was made before the last one and
	// has waited since, or the caller runs on a copy of a running machine.
	RejectLate RejectReason = 17

	RejectReasons = 18 // above all of them, as the length of an array of counts; those between that are in use are Known
)

// texts returns what is wrong and what to do about it; "" for a number that this release does not know.
func (r RejectReason) texts() (wrong, remedy string) {
	switch r {
	case RejectClusterName:
		return "cluster name differs",
			"give all members the same Config.Cluster"
	case RejectWrongID:
		return "wrong member id",
			"correct the address or the id of the member that was called"
	case RejectWrongIncarnation:
		return "wrong incarnation",
			"the disk of the member that was called was emptied: replace it (Node.ReplaceMember)"
	case RejectOtherCluster:
		return "other cluster",
			"the two belong to different clusters under one name: check the addresses and the data directories"
	case RejectNamedOther:
		return "named with another incarnation",
			"the disk of the caller was emptied: replace it (Node.ReplaceMember)"
	case RejectListDiffers:
		return "initial list differs",
			"give all members the same list of initial members"
	case RejectStaleStart:
		return "stale start",
			"the caller runs on an older image of its disk: put the newest disk back, or replace the caller like one whose disk was lost"
	case RejectUnknownStart:
		return "start too long ago",
			"that member was started too often since the two last met: if it runs on an older image of its disk, put the newest disk back; else replace it like a member whose disk was lost"
	case RejectTwin:
		return "an earlier start is still connected",
			"this passes by itself if the earlier process has ended; if not, two processes run on copies of one disk: stop one, and replace it"
	case RejectOwnImage:
		return "the refuser runs on an older image of its disk",
			"put the refuser's newest disk back, or replace it like a member whose disk was lost"
	case RejectSlowDisk:
		return "disk too slow",
			"the disk of the member that was called is slow to store the caller's start; the caller tries again by itself"
	case RejectRemoved:
		return "removed from the cluster",
			"end the caller; to use its machine for a new member, set its store aside (storage.SetAside)"
	case RejectLate:
		return "late handshake",
			"this passes by itself if the handshake has waited somewhere; if not, the caller is a machine that was set back while it ran: " +
				"put its newest disk back, or replace the caller like one whose disk was lost"
	case RejectVersion:
		return "no protocol version in common",
			"upgrade the older one, a minor release at a time"
	case RejectMalformed:
		return "malformed handshake",
			"check that nothing but members of this cluster dials this address"
	case RejectCertificate:
		return "wrong certificate",
			"give the member a certificate for its own cluster and id"
	}
	return "", ""
}

// Known reports whether the reason is one of this release. 0, the numbers that are not in use, and the reasons of later
// releases are not.
func (r RejectReason) Known() bool {
	wrong, _ := r.texts()
	return wrong != ""
}

// String returns the reason in a few words.
func (r RejectReason) String() string {
	if wrong, _ := r.texts(); wrong != "" {
		return wrong
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Error says who rejected the connection, why, and what to do about it.
func (r *Rejection) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "raft: member %q refuses the connection: %v", r.From.ID, r.Reason)
	switch {
	case r.Detail != "":
		fmt.Fprintf(&b, " (%s)", r.Detail)
	case r.Reason == RejectNamedOther:
		fmt.Fprintf(&b, " (its configuration says %v)", r.Named)
	case r.Reason == RejectVersion:
		fmt.Fprintf(&b, " (it speaks versions %d to %d)", r.VersionsMin, r.VersionsMax)
	}
	switch _, remedy := r.Reason.texts(); {
	case r.Asked():
		b.WriteString("; the caller knows this one, too, and nothing is to be done")
	case r.Reason == RejectWrongIncarnation && !r.OfEmptiedDisk():
		b.WriteString("; it belongs to a cluster: it has replaced the member that was called, which the caller does not know yet, " +
			"or the address is that of another cluster's member")
	case remedy != "":
		fmt.Fprintf(&b, "; %s", remedy)
	}
	return b.String()
}

// OfEmptiedDisk reports whether the disk of the member that rejects was emptied: it is another one than the caller knows, and
// belongs to no cluster. One that belongs to a cluster may have replaced the member that a caller which is behind still knows.
func (r *Rejection) OfEmptiedDisk() bool {
	return r.Reason == RejectWrongIncarnation && r.Cluster == ClusterID{}
}

// Asked reports whether the caller knows the member that has answered, too: it has asked which of two incarnations is there, as
// before one replaces the other.
func (r *Rejection) Asked() bool { return r.Reason == RejectWrongIncarnation && r.Named != 0 }
