package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

// RefuseWithoutRoom returns the error for a proposal to a member whose log cannot take room for more entries, or nil. full is
// that of raft.RoomStorage. Only a leader refuses: what others are asked is not for their disks.
func RefuseWithoutRoom(full error, leads bool) error {
	if full == nil || !leads {
		return nil
	}
	return &raft.NoRoomError{Err: full}
}

const (
	attemptTimeouts = 4  // election timeouts between two attempts to hand over: an attempt seldom takes longer
	roundTimeouts   = 20 // between two rounds: if all disks are full, moving the leadership does not help
)

// HandOver decides to whom a leader hands over while its disk is full. It asks one voter after the other, in the order of
// their ids, beginning behind itself. One whose disk is full, too, goes on behind itself, so that the leadership
// comes to a member that has room, if there is one.
type HandOver struct {
	asked raft.NodeID // the last one; "": none
	round int         // how many were asked in this round
	next  raft.Time   // nobody is asked before
}

// Target returns whom the leader asks now; "": nobody.
func (h *HandOver) Target(now raft.Time, self raft.NodeID, c *raft.Configuration, electionTimeout time.Duration) raft.NodeID {
	voters := otherVoters(c, self)
	if now < h.next || len(voters) == 0 {
		return ""
	}
	if h.asked == "" {
		h.asked = self
	}
	h.asked = following(voters, h.asked)
	wait := attemptTimeouts * electionTimeout
	if h.round++; h.round >= len(voters) {
		h.round, wait = 0, roundTimeouts*electionTimeout
	}
	h.next = now + raft.Time(wait)
	return h.asked
}

// otherVoters returns the ids of the other voters, sorted.
func otherVoters(c *raft.Configuration, self raft.NodeID) (voters []raft.NodeID) {
	for _, m := range c.Members {
		if m.Kind == raft.Voter && m.ID != self {
			voters = append(voters, m.ID)
		}
	}
	return voters
}

// following returns the first of the ids behind one, or the first of all.
func following(ids []raft.NodeID, behind raft.NodeID) raft.NodeID {
	for _, id := range ids {
		if id > behind {
			return id
		}
	}
	return ids[0]
}
