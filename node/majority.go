package node

import (
	"fmt"
	"strings"

	"github.com/coxswain/raft"
)

// majorityLost returns Status.MajorityLost. It counts a voter as lost only if the voter answers with another disk, because a
// voter that does not answer may come back. A voter that lacks entries that it acknowledged does not count as lost. Only a
// leader reports such a voter, and that leader leads a majority.
func (i *identity) majorityLost() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	config := i.known()
	if i.changed && len(i.config.Members) == 0 {
		return "" // the present members are not those of this member's initial list
	}
	for _, half := range []raft.Halves{raft.IncomingHalf, raft.OutgoingHalf} {
		var voters int
		var lost []string
		for _, m := range config.Members {
			if config.VotesIn(m.Peer())&half == 0 {
				continue
			}
			if voters++; i.lostDisk(m) {
				lost = append(lost, string(m.ID))
			}
		}
		if voters > 0 && voters-len(lost) < voters/2+1 {
			return fmt.Sprintf("the disks of %d of %s are lost (%s), and with them a majority: no command can restore it. Put disks back "+
				"until there is a majority; \"When a majority is lost\" in docs/recovery.md says what else can be done",
				len(lost), count(voters, "voter"), strings.Join(lost, " "))
		}
	}
	return ""
}

// lostDisk reports whether this member knows that m runs on a disk that the cluster does not know. i.mu is held.
func (i *identity) lostDisk(m raft.Member) bool {
	if m.ID == i.self.ID && (m.Incarnation == 0 || m.Incarnation == i.self.Incarnation) {
		return i.wiped.Load()
	}
	if r, refuses := i.refusals[m.Peer()]; refuses && r.OfEmptiedDisk() {
		return true
	}
	if !i.wiped.Load() || m.Incarnation != 0 {
		return false
	}
	for p, s := range i.announced { // each member of the list once belonged to the cluster, so an empty disk is another disk
		if _, connected := i.live[p]; connected && p.ID == m.ID && s.uninitialized {
			return true
		}
	}
	return false
}

// inVain reports whether the remedy of a rejection is to replace a member, and the majority is lost: then no member can be
// replaced.
func (i *identity) inVain(r raft.RejectReason) bool {
	return (r == raft.RejectWrongIncarnation || r == raft.RejectNamedOther) && i.majorityLost() != ""
}
