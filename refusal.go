package raft

import (
	"fmt"
	"strings"
)

// Refusal is why a member would not talk to another. It is an error.
type Refusal struct {
	Reason      RefusalReason
	From        Peer // the refuser
	Cluster     ClusterID
	Term        Term
	Named       Incarnation // RefusedNamedOther: the one our configuration names for the caller
	Founder     Peer        // RefusedNotBlank
	List        Configuration
	Seen        Sighting // what the refuser remembers of the caller's starts
	VersionsMin uint16
	VersionsMax uint16
	Detail      string
}

// RefusalReason says why a connection was refused. The numbers are part of the wire format.
type RefusalReason uint8

// The reasons of a Refusal.
const (
	RefusedClusterName      RefusalReason = 1 // another node.Config.Cluster
	RefusedWrongID          RefusalReason = 2 // the connection is for another member id
	RefusedWrongIncarnation RefusalReason = 3 // for another life of this member: the caller marks it wiped
	RefusedOtherCluster     RefusalReason = 4 // another cluster id
	RefusedNamedOther       RefusalReason = 5 // our configuration names the caller's id with another incarnation: the caller was wiped
	RefusedNotBlank         RefusalReason = 6 // the caller is blank and calls the roll; we are not blank
	RefusedListDiffers      RefusalReason = 7 // both blank, with unequal lists
	RefusedStaleBoot        RefusalReason = 8 // a later life of the caller has been seen: its disk is an older image
	RefusedVersion          RefusalReason = 9 // no protocol version in common
	RefusedMalformed        RefusalReason = 10
	RefusedCertificate      RefusalReason = 11 // the certificate names another member
	RefusedUntold           RefusalReason = 12 // a remembered start is older than all that are kept: nobody can tell
	RefusedTwin             RefusalReason = 13 // an earlier start of the caller is still connected
	RefusedOwnImage         RefusalReason = 14 // the caller has shown the refuser that its own disk is an older image
	RefusedSlowDisk         RefusalReason = 15 // the refuser's disk has not kept the caller's start in time
)

// texts returns what is wrong and what to do about it, or nothing for a number that this release does not know.
func (r RefusalReason) texts() (wrong, remedy string) {
	switch r {
	case RefusedClusterName:
		return "cluster name differs",
			"give all members the same Config.Cluster"
	case RefusedWrongID:
		return "wrong member id",
			"correct the address or the id of the member that was called"
	case RefusedWrongIncarnation:
		return "wrong incarnation",
			"the disk of the member that was called was emptied: remove it from the cluster and add it again"
	case RefusedOtherCluster:
		return "other cluster",
			"the two belong to different clusters under one name: check the addresses and the data directories"
	case RefusedNamedOther:
		return "named with another incarnation",
			"the disk of the caller was emptied: remove it from the cluster and add it again"
	case RefusedNotBlank:
		return "not blank",
			"the caller wants to found a cluster where one exists: drop its list of founders and add it"
	case RefusedListDiffers:
		return "initial list differs",
			"give all members the same list of founders"
	case RefusedStaleBoot:
		return "stale boot",
			"the caller runs on an older image of its disk: put the newest disk back, or replace the caller like one whose disk was lost"
	case RefusedUntold:
		return "start too long ago",
			"the member of these starts was started too often since the two last met: if it runs on an older image of its disk, put the newest disk back; else replace it like a member whose disk was lost"
	case RefusedTwin:
		return "an earlier start is still connected",
			"it passes by itself if the earlier process has ended; if not, two processes run on copies of one disk: stop one, and replace it"
	case RefusedOwnImage:
		return "the refuser runs on an older image of its disk",
			"put the refuser's newest disk back, or replace it like a member whose disk was lost"
	case RefusedSlowDisk:
		return "disk too slow",
			"the refuser's disk takes long to keep who called; the caller tries again by itself"
	case RefusedVersion:
		return "no protocol version in common",
			"upgrade the older one, a minor release at a time"
	case RefusedMalformed:
		return "malformed handshake",
			"check that nothing but members of this cluster dials this address"
	case RefusedCertificate:
		return "wrong certificate",
			"give the member a certificate for its own cluster and id"
	}
	return "", ""
}

// String returns the reason in a few words.
func (r RefusalReason) String() string {
	if wrong, _ := r.texts(); wrong != "" {
		return wrong
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Error says who refused, why, and what to do about it.
func (r *Refusal) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "raft: member %q refuses the connection: %v", r.From.ID, r.Reason)
	switch {
	case r.Detail != "":
		fmt.Fprintf(&b, " (%s)", r.Detail)
	case r.Reason == RefusedNamedOther:
		fmt.Fprintf(&b, " (its configuration says %v)", r.Named)
	case r.Reason == RefusedVersion:
		fmt.Fprintf(&b, " (it speaks versions %d to %d)", r.VersionsMin, r.VersionsMax)
	}
	if _, remedy := r.Reason.texts(); remedy != "" {
		fmt.Fprintf(&b, "; %s", remedy)
	}
	return b.String()
}
