package pipeline

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// RefuseWithoutRoom returns the error for a proposal to a leader whose log has no room for more entries. It returns nil if
// the leader accepts the proposal. full is the error of raft.RoomStorage. Other members do not refuse proposals for lack of
// room: a proposal to them fails anyway, because they do not lead.
func RefuseWithoutRoom(full error, leads bool) error {
	if full == nil || !leads {
		return nil
	}
	return &raft.NoRoomError{Err: full}
}

const (
	attemptTimeouts = 4  // election timeouts between two transfers: one seldom takes longer
	roundTimeouts   = 20 // election timeouts between two rounds: if all disks are full, a transfer does not help
)

// FullDiskTransfer chooses the target of a leadership transfer while the leader's disk is full. It tries one voter after
// another, in the order of their ids, starting with the next id after the leader's. Standbys come after all others. If the
// target's disk is full as well, the target does the same. So leadership reaches a voter that has room, if there is one.
type FullDiskTransfer struct {
	asked raft.NodeID // last target; "": none
	round int         // targets tried in this round
	next  raft.Time   // earliest time of the next transfer
}

// Target returns the voter to which the leader transfers leadership now, or "" if there is none.
func (h *FullDiskTransfer) Target(now raft.Time, self raft.NodeID, c *raft.Configuration, electionTimeout time.Duration) raft.NodeID {
	voters := otherVoters(c, self)
	if now < h.next || len(voters) == 0 {
		return ""
	}
	h.asked = following(voters, h.asked)
	wait := attemptTimeouts * electionTimeout
	if h.round++; h.round >= len(voters) {
		h.round, wait = 0, roundTimeouts*electionTimeout
	}
	h.next = now + raft.Time(wait)
	return h.asked
}

// otherVoters returns the ids of the other voters, in the order in which to try them.
func otherVoters(c *raft.Configuration, self raft.NodeID) (voters []raft.NodeID) {
	for _, standbys := range []bool{false, true} {
		for _, m := range c.Members {
			if m.Kind == raft.Voter && (m.Priority == raft.PriorityNever) == standbys {
				voters = append(voters, m.ID)
			}
		}
	}
	if i := slices.Index(voters, self); i >= 0 {
		return slices.Concat(voters[i+1:], voters[:i])
	}
	return voters
}

// following returns the id after the given one or, if it is the last one or unknown, the first id.
func following(ids []raft.NodeID, after raft.NodeID) raft.NodeID {
	return ids[(slices.Index(ids, after)+1)%len(ids)]
}
