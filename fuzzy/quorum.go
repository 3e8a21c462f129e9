package fuzzy

import (
	"fmt"

	"github.com/coxswain/raft"
)

// tally is how many of the voters of a configuration something holds for. A configuration that is not joint has no
// voters in its outgoing half.
type tally struct{ incoming, outgoing half }

type half struct{ holds, voters int }

// quorum counts the voters of a configuration for which something holds, in each half. A voter that the configuration
// does not name counts in none, whoever asks. The checks ask nothing else what a quorum is; in particular, they do not
// ask the core.
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

// reached reports whether the voters for which it holds are a quorum: a majority of each half that has voters.
func (t tally) reached() bool { return t.spare() >= 0 }

// spare returns how many of them a quorum can do without; it is negative if they are none.
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
