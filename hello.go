package raft

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file holds what each side of a connection says first: who it is, and which starts its store has had.

// Hello is what each side of a connection says first. handshake.View.Hello fills it in, except for the fields marked *,
// which the transport or the node sets. Fields newer than the sender's release are zero.
type Hello struct {
	ClusterName     string    // node.Config.Cluster
	Cluster         ClusterID // zero while uninitialized
	From            Peer
	Expected        Peer // the member that the connection is for; incarnation 0: not known yet
	StartCount      uint64
	Term            Term
	Bootstrapper    Peer          // of the cluster; zero while uninitialized
	Address         string        // advertised
	List            Configuration // node.Config.Initial, while uninitialized
	Lineage         Lineage       // the latest starts of the sender's store; StartCount is the count of the last one
	Confirmed       StartID       // the newest of the sender's starts that the receiver is known to remember
	Remembers       Sighting      // the newest of the receiver's starts that the sender durably remembers
	Named           []Incarnation // of the receiver's id in the sender's configuration, at most two; empty before term 1
	NamedIndex      Index         // of that configuration; 0 before term 1, and below ProtocolMembership
	ElectionTimeout time.Duration // of the sender; a node reports other settings than its own (node.SettingDifference)
	AppendBytesMax  int           // * of the records in one append that the sender takes; 0: any CoreConfig's
	CommandBytesMax int           // * node.Config.CommandBytesMax; 0: not said
	NoSnapshots     bool          // * the sender's storage keeps no snapshots
	IdleTimeout     time.Duration // * transport.Options.IdleTimeout; 0: the default, or not said
	AppVersion      uint64        // * node.Config.AppVersion; 0: none, or not said
	Release         string        // * of the sender's library, for people, at most ReleaseBytesMax; "": not said
	Protocol        uint16        // * of the connection, the highest that both sides know; set for Check and Up
}

// Protocol versions for Hello.Protocol and PeerUp.Protocol: see docs/versions.md.
const (
	ProtocolSnapshots   uint16 = 2 // the first version with snapshots
	ProtocolMembership  uint16 = 3 // the first version with membership changes
	ProtocolPriorities  uint16 = 4 // the first version with priorities of members
	ProtocolForwarding  uint16 = 5 // the first version that forwards callers' requests to the leader
	ProtocolAppVersions uint16 = 6 // the first version with versions of the application
	ProtocolFounding    uint16 = 7 // the first version with the question Who
	ProtocolSessions    uint16 = 8 // the first version with sessions, leases, and ages of states
	ProtocolRecovery    uint16 = 9 // the first version with recoveries

	ProtocolNewest = ProtocolRecovery // the version that members of this release speak among themselves
)

// Uninitialized reports whether the sender belongs to no cluster yet.
func (h Hello) Uninitialized() bool { return h.Cluster == ClusterID{} && h.Term == 0 }

// Rejection is the error that says why one member refused a connection of another.
type Rejection struct {
	Reason      RejectReason
	From        Peer // the member that rejects
	Cluster     ClusterID
	Term        Term
	Named       Incarnation // of the caller in From's configuration; RejectWrongIncarnation: of From in the caller's, or 0
	Index       Index       // RejectRemoved: the entry that removed the caller
	List        Configuration
	Seen        Sighting // the caller's newest start that From remembers
	VersionsMin uint16
	VersionsMax uint16
	Detail      string
}

// RejectReason says why a connection was rejected. The numbers are part of the wire format; 6 is not in use. Members below
// ProtocolMembership give RejectNamedOther after term 1, too.
type RejectReason uint8

const (
	RejectClusterName      RejectReason = 1 // another node.Config.Cluster
	RejectWrongID          RejectReason = 2 // the connection is for another member id
	RejectWrongIncarnation RejectReason = 3 // the connection is for another incarnation of this member
	RejectOtherCluster     RejectReason = 4 // another cluster id
	RejectNamedOther       RejectReason = 5 // before term 1, From's configuration has another incarnation of the caller: its disk was emptied
	RejectListDiffers      RejectReason = 7 // both uninitialized, with unequal lists
	RejectStaleStart       RejectReason = 8 // a later start of the caller has been seen: its disk is an older image
	RejectVersion          RejectReason = 9 // no protocol version in common
	RejectMalformed        RejectReason = 10
	RejectCertificate      RejectReason = 11 // the certificate names another member
	RejectUnknownStart     RejectReason = 12 // the remembered start is older than the lineage: perhaps an older image
	RejectTwin             RejectReason = 13 // an earlier start of the caller is still connected
	RejectOwnImage         RejectReason = 14 // the caller has shown that this member's disk is an older image
	RejectSlowDisk         RejectReason = 15 // this member's disk has not stored the caller's start in time
	RejectRemoved          RejectReason = 16 // the caller was removed by a committed entry
	RejectLate             RejectReason = 17 // this start was seen in a later term: a delayed handshake, or a copied machine
	RejectBusy             RejectReason = 18 // too many questions Who at once
	RejectReasons                       = 19 // above all of them: the length of an array of counts
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
	case RejectBusy:
		return "too many questions at once",
			"ask again a little later; if it lasts, find out who asks that often: the log of the member that was asked names one"
	case RejectCertificate:
		return "wrong certificate",
			"give the member a certificate for its own cluster and id"
	}
	return "", ""
}

// Known reports whether this release uses the number, which may be in a gap.
func (r RejectReason) Known() bool {
	wrong, _ := r.texts()
	return wrong != ""
}

func (r RejectReason) String() string {
	if wrong, _ := r.texts(); wrong != "" {
		return wrong
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

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

// OfEmptiedDisk reports whether the member that rejects lost its disk: its incarnation is new, and it belongs to no cluster.
// With a cluster, it may have replaced the member that the caller knows.
func (r *Rejection) OfEmptiedDisk() bool {
	return r.Reason == RejectWrongIncarnation && r.Cluster == ClusterID{}
}

// Asked reports whether the caller knows both incarnations, and asked for one.
func (r *Rejection) Asked() bool { return r.Reason == RejectWrongIncarnation && r.Named != 0 }

// StartID names one start of one store. An older image of a disk repeats a Count, but not the random Nonce.
type StartID struct{ Count, Nonce uint64 }

func (b StartID) String() string { return fmt.Sprintf("start %d (%x)", b.Count, b.Nonce) }

// Lineage holds the latest starts of a store, the present one last. If a peer has seen a start that is missing here, this
// store is an older image.
type Lineage []StartID

// Begin returns the lineage with the next start, which Load must make durable.
func (l Lineage) Begin(nonce uint64) Lineage {
	l = append(slices.Clone(l), StartID{Count: l.Last().Count + 1, Nonce: nonce})
	return l[max(0, len(l)-LineageStartsMax):]
}

// Last returns the present start; zero if there was none yet.
func (l Lineage) Last() StartID {
	if len(l) == 0 {
		return StartID{}
	}
	return l[len(l)-1]
}

// Check returns an error if the counts do not rise one by one or are too many.
func (l Lineage) Check() error {
	if len(l) > LineageStartsMax {
		return fmt.Errorf("raft: the lineage has %d starts; the limit is %d", len(l), LineageStartsMax)
	}
	for i, b := range l {
		if b.Count == 0 || i > 0 && b.Count != l[i-1].Count+1 {
			return fmt.Errorf("raft: start %d of the lineage has count %d, which does not follow the one before", i+1, b.Count)
		}
	}
	return nil
}

// Sighting is a start of a peer that this member has seen, or a start of this member that the peer has seen.
type Sighting struct {
	Peer    Peer
	Start   StartID
	Term    Term   // in Seen: the highest durable term that the peer has shown in a handshake
	Address string // in Seen: where that start of the peer said it is reached; "": not known
}

// Sightings is what a member durably remembers about its peers, latest last, to detect older images of disks. It keeps every
// peer in the configuration. To save room, it forgets the oldest of the peers whose removal is committed.
type Sightings struct {
	Seen      []Sighting // the newest start of each peer that a handshake has shown, whichever side dialed
	Confirmed []Sighting // by peer: the newest start of this store that the peer has said it remembers
}

// SeenOf returns the newest remembered start of the peer; zero: none.
func (m *Sightings) SeenOf(p Peer) Sighting { return find(m.Seen, p) }

// ConfirmedBy returns our newest start that the peer remembers; zero: none.
func (m *Sightings) ConfirmedBy(p Peer) Sighting { return find(m.Confirmed, p) }

func find(all []Sighting, p Peer) Sighting {
	for _, s := range all {
		if s.Peer == p {
			return s
		}
	}
	return Sighting{}
}

// Mark durably says that a store's member must not continue, and why. Neither a restart nor a later mark changes it.
type Mark struct {
	Kind   MarkKind
	By     Peer    // the member that has shown the proof
	Term   Term    // of the leader that showed the proof; 0 if a handshake did
	Ours   EntryID // MarkContradicted by a leader: committed here
	Theirs EntryID // MarkContradicted by a leader: the entry of its log that proves it
	Detail string  // the proof, in one sentence
}

// MarkKind says what a Mark means. The numbers are part of the stored format.
type MarkKind uint8

const (
	MarkStaleImage   MarkKind = 1 // the store is an older image of this member's disk, or a copy of it
	MarkContradicted MarkKind = 2 // a newer term's leader, or a removal that a member reports, contradicts what is committed
)

func (k MarkKind) String() string {
	switch k {
	case MarkStaleImage:
		return "older image"
	case MarkContradicted:
		return "contradicted"
	}
	return fmt.Sprintf("mark %d", uint8(k))
}

// Err returns the *ContradictedError or *StaleImageError that ends the member, and fails every later start of it.
func (m *Mark) Err() error {
	if m.Kind == MarkContradicted {
		return &ContradictedError{*m}
	}
	return &StaleImageError{*m}
}

// StaleImageError ended the node, or refuses its start: its store is an older image of the member's disk, or ran beside it,
// and lacks what the newer one acknowledged. Put the newest store back. If it is lost, set this one aside (storage.SetAside),
// start with an empty store, and replace the member (Node.ReplaceMember). member.Config.SetAside does all of that.
type StaleImageError struct{ Mark Mark }

func (e *StaleImageError) Error() string {
	return fmt.Sprintf("raft: this store is an older image of the member's disk, and has forgotten what it acknowledged "+
		"(shown by member %q: %s); no restart helps: put the newest store back, or set this one aside "+
		"(storage.SetAside), start with an empty store and replace the member (Node.ReplaceMember); member.Config.SetAside does the latter: see docs/runbook.md#older-image", e.Mark.By.ID, e.Mark.Detail)
}

// ContradictedError ended the node, or refuses its start: a leader, or a member's account of a removal, contradicts what is
// committed here. The cluster has lost acknowledged writes, and this store may be the last that holds them. Keep a copy and
// recover them (Mark names where the logs differ), then replace the member as for StaleImageError.
type ContradictedError struct{ Mark Mark }

func (e *ContradictedError) Error() string {
	by := fmt.Sprintf("leader %q of term %d", e.Mark.By.ID, e.Mark.Term)
	if e.Mark.Term == 0 {
		by = fmt.Sprintf("member %q", e.Mark.By.ID)
	}
	return fmt.Sprintf("raft: %s contradicts what is committed here (%s): the cluster has lost acknowledged "+
		"writes, and this store may be the last that holds them: keep a copy of it before you start "+
		"the member with an empty store and replace it (Node.ReplaceMember): see docs/runbook.md#contradicted", by, e.Mark.Detail)
}
