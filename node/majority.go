package node

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// majorityLost returns Status.MajorityLost. Its causes are the disks that members answer with: one that does not answer may
// come back. That of a member which lacks what it acknowledged is not among them, since its leader leads a majority.
func (i *identity) majorityLost() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	config := i.known()
	if i.changed && len(i.config.Members) == 0 {
		return "" // the members are others than the list that this one was started with
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
			return fmt.Sprintf("the disks of %d of %s are lost (%s), and with them a majority: no command can bring it back. Put disks back "+
				"until there is a majority; \"When a majority is lost\" in docs/membership.md says what else can be done",
				len(lost), count(voters, "voter"), strings.Join(lost, " "))
		}
	}
	return ""
}

// lostDisk reports whether a member is known to run on another disk than the one that the cluster knows. i.mu is held.
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
	for p, s := range i.spoken { // every member of the list belonged to the cluster once
		if _, connected := i.live[p]; connected && p.ID == m.ID && s.uninitialized {
			return true
		}
	}
	return false
}

// tellMajorityLost logs that the majority is lost, once until it is back, and reports whether it is.
func (i *identity) tellMajorityLost() bool {
	lost := i.majorityLost()
	if i.toldLost.Swap(lost != "") || lost == "" {
		return lost != ""
	}
	i.node.logger.log(hclog.Error, "the majority of the cluster is lost", "why", lost)
	return true
}

// ofLostDisk reports whether the remedy of a rejection is to replace a member, which nobody can do without a majority.
func ofLostDisk(r raft.RejectReason) bool {
	return r == raft.RejectWrongIncarnation || r == raft.RejectNamedOther
}
