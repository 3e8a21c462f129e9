package machines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coxswain/raft/node"
)

// writersDefault is the number of commands in flight at once.
const writersDefault = 4

// Load writes consecutive numbers to the cluster, and records which of them were acknowledged.
type Load struct {
	cluster *Cluster
	stop    context.CancelFunc
	done    sync.WaitGroup
	next    atomic.Uint64

	mu           sync.Mutex
	acknowledged []uint64
	err          error // the reason why a writer has ended
}

// Load starts to write. The writes end when the context ends or when Check is called.
func (c *Cluster) Load(ctx context.Context) *Load {
	ctx, stop := context.WithCancel(ctx)
	l := &Load{cluster: c, stop: stop}
	for range writersDefault {
		l.done.Go(func() {
			for ctx.Err() == nil {
				if !l.write(ctx) {
					_ = wait(ctx) // the loop ends with the context
				}
			}
		})
	}
	return l
}

// write writes one number, and reports whether the write was acknowledged. If the write fails, write does not try the same
// number again.
func (l *Load) write(ctx context.Context) (acknowledged bool) {
	leader, err := l.cluster.Leader(ctx)
	if err != nil {
		return false
	}
	number := l.next.Add(1)
	_, err = leader.Propose(ctx, binary.BigEndian.AppendUint64(nil, number))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.acknowledged = append(l.acknowledged, number)
	case again(err) || ctx.Err() != nil: // not applied, or the outcome is unknown: not acknowledged
	default:
		l.err = errors.Join(l.err, err)
		l.stop()
	}
	return err == nil
}

// Acknowledged returns the number of acknowledged writes.
func (l *Load) Acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// More waits until count more writes have been acknowledged.
func (l *Load) More(ctx context.Context, count int) error {
	for until := l.Acknowledged() + count; l.Acknowledged() < until; {
		if err := wait(ctx); err != nil {
			return fmt.Errorf("the writes have stopped: %w", err)
		}
	}
	return nil
}

// Check stops writing, and returns the number of acknowledged writes. It fails if one of them is missing on a
// running member.
func (l *Load) Check(ctx context.Context) (acknowledged int, err error) {
	l.stop()
	l.done.Wait()
	if l.err != nil {
		return 0, l.err
	}
	c := l.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		there, err := read(ctx, m.Node(), c.state[id])
		if err != nil {
			return 0, fmt.Errorf("%s cannot be read: %w", id, err)
		}
		for _, number := range l.acknowledged {
			if !there[number] {
				return 0, fmt.Errorf("%s has lost number %d, which was acknowledged", id, number)
			}
		}
	}
	return len(l.acknowledged), nil
}

// read returns the numbers that a member holds, including all that were acknowledged before the call.
func read(ctx context.Context, n *node.Node, state *journal) (map[uint64]bool, error) {
	there := map[uint64]bool{}
	for {
		err := n.Read(ctx, func() {
			for _, number := range state.numbers {
				there[number] = true
			}
		})
		if err == nil || n.Err() != nil {
			return there, err
		}
		if wait(ctx) != nil { // a read that was not confirmed may be repeated
			return nil, err
		}
	}
}
