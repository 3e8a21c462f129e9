package node

import (
	"context"
	"fmt"
	"time"

	"github.com/coxswain/raft"
)

// TooStaleError refuses a read with raft.Stale: this member cannot prove that its state is fresh enough. Nothing was read. Ask
// another member, read with raft.Linearizable, or accept an older state.
type TooStaleError struct {
	// Age is how old the state is at most; 0: nothing is proved yet. A member proves no age before it has heard the leader
	// since its start, and applied what was committed then. While a leader runs an earlier release, only it proves its own.
	Age    time.Duration
	MaxAge time.Duration // as the caller gave it
}

func (e *TooStaleError) Error() string {
	const remedy = "ask another member, read with Linearizable, or accept an older state"
	if e.Age == 0 {
		return fmt.Sprintf("raft: this member has not proved yet how old its state is, and the read takes at most %v: %s", e.MaxAge, remedy)
	}
	return fmt.Sprintf("raft: this member's state may be %v old, and the read takes at most %v: %s", e.Age, e.MaxAge, remedy)
}

// readStale returns the index up to which this member has applied the log, if it can prove that this state is at most maxAge
// old now. It asks nobody, waits for nothing and allocates nothing.
func (n *Node) readStale(ctx context.Context, maxAge time.Duration) (raft.Index, error) {
	if err := n.usable(ctx); err != nil {
		return 0, err
	}
	applied, err := n.atMost(maxAge)
	if err != nil {
		n.counters.staleRefused.Add(1)
		return 0, err
	}
	n.counters.staleReads.Add(1)
	return applied, nil
}

// atMost returns what this member has applied, or a *TooStaleError if that state may be older than maxAge.
func (n *Node) atMost(maxAge time.Duration) (raft.Index, error) {
	applied, age := n.stateAge()
	if age == 0 || age > maxAge {
		return 0, &TooStaleError{Age: age, MaxAge: maxAge}
	}
	return applied, nil
}

// stateAge returns what this member has applied, and how old that state is at most; 0: nothing is proved. It reads the clock
// last, because the state grows older meanwhile.
func (n *Node) stateAge() (raft.Index, time.Duration) {
	applied := n.applied.index()
	since := n.applied.provedAt(applied)
	if since == 0 {
		return applied, 0
	}
	return applied, max(1, time.Duration(n.now().Mono-since))
}
