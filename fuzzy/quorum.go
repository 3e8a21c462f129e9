package fuzzy

import (
	"fmt"

	"github.com/coxswain/raft"
)

// tally counts the voters of a configuration for which something holds. A configuration that is not joint has no voters
// in its outgoing half.
type tally struct{ incoming, outgoing half }

type half struct{ holds, voters int }

// quorum counts the voters of a configuration for which something holds, in each half. It never counts a member that the
// configuration does not name, not even the member that asks. Every check uses this definition of a quorum. No check uses the
// core's definition.
func quorum(config *raft.Configuration, holds func(p raft.Peer) bool) (t tally) {
	for i := range config.Members {
		if m := &config.Members[i]; m.Kind == raft.Voter {
			t.incoming.count(holds(m.Peer()))
		}
	}
	for _, p := range config.Outgoing {
		t.outgoing.count(holds(p))
	}
	return t
}

func (h *half) count(holds bool) {
	h.voters++
	if holds {
		h.holds++
	}
}

// reached reports whether the counted voters are a quorum: a majority of each half that has voters.
func (t tally) reached() bool { return t.spare() >= 0 }

// spare returns the number of counted voters beyond those that a quorum needs. It is negative if the counted voters are not a
// quorum.
func (t tally) spare() int {
	if t.outgoing.voters == 0 {
		return t.incoming.spare()
	}
	return min(t.incoming.spare(), t.outgoing.spare())
}

func (h half) spare() int { return h.holds - majority(h.voters) }

func (t tally) String() string {
	text := fmt.Sprintf("%d of %d voters", t.incoming.holds, t.incoming.voters)
	if t.outgoing.voters > 0 {
		text += fmt.Sprintf(" and %d of %d outgoing ones", t.outgoing.holds, t.outgoing.voters)
	}
	return text
}

func majority(voters int) int { return voters/2 + 1 }
