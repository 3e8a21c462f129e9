package node

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// appliedIndex holds the index up to which the FSM has applied the log, and the callers that wait for a higher one.
type appliedIndex struct {
	at    atomic.Uint64
	ages  atomic.Pointer[pipeline.Ages] // only the loop stores it; nil: nothing is proved
	calls *fsmCalls

	mu      sync.Mutex
	waiting waitHeap
	ended   error
	goal    raft.Index // commit index when the FSM last reached its previous goal
	since   time.Time  // when the goal was set
}

// aim sets the next goal if the FSM has reached the previous one. The applier calls aim before each batch.
func (p *appliedIndex) aim(committed raft.Index) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index() >= p.goal {
		p.goal, p.since = committed, time.Now()
	}
}

// late returns the time since the goal was set, or 0 if the FSM has reached the goal.
func (p *appliedIndex) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index() >= p.goal {
		return 0
	}
	return time.Since(p.since)
}

// indexWaiter waits for an index. The channel has a capacity of 1.
type indexWaiter struct {
	index raft.Index
	place int // in the heap; -1 once it has left it
	done  chan error
}

func (p *appliedIndex) index() raft.Index { return raft.Index(p.at.Load()) }

// prove takes what the core has proved about the age of states, if it has. Only the loop calls it.
func (p *appliedIndex) prove(f raft.Freshness) {
	if f == (raft.Freshness{}) {
		return
	}
	var ages pipeline.Ages
	if before := p.ages.Load(); before != nil {
		ages = *before
	}
	ages = ages.With(f, p.index())
	p.ages.Store(&ages)
}

// provedAt returns the latest time at which a state with applied applied held everything that was committed. It returns 0 if
// nothing is proved.
func (p *appliedIndex) provedAt(applied raft.Index) raft.Time {
	if ages := p.ages.Load(); ages != nil {
		return ages.Since(applied)
	}
	return 0
}

// advance is called by the applier.
func (p *appliedIndex) advance(to raft.Index) {
	p.at.Store(uint64(to))
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 && p.waiting[0].index <= to {
		heap.Pop(&p.waiting).(*indexWaiter).done <- nil
	}
}

// end answers all waiting callers with the error.
func (p *appliedIndex) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
	for len(p.waiting) > 0 {
		heap.Pop(&p.waiting).(*indexWaiter).done <- err
	}
}

// resume lets callers wait again after end.
func (p *appliedIndex) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = nil
}

// wait returns once index is applied. It fails if ctx or the node ends, or if the caller is within the FSM. At most limit
// callers may wait at once.
func (p *appliedIndex) wait(ctx context.Context, index raft.Index, limit int) error {
	if p.index() >= index {
		return nil
	}
	w, err := p.join(index, limit)
	if w == nil {
		return err
	}
	return await(ctx, p.calls, w.done, func(cause error) error { return p.leave(w, cause) })
}

// leave removes a caller that stops waiting.
func (p *appliedIndex) leave(w *indexWaiter, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place < 0 {
		return <-w.done // the outcome arrived at the same moment
	}
	heap.Remove(&p.waiting, w.place)
	return cause
}

func (p *appliedIndex) join(index raft.Index, limit int) (*indexWaiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.index() >= index:
		return nil, nil
	case p.ended != nil:
		return nil, p.ended
	case len(p.waiting) >= limit:
		return nil, raft.ErrOverloaded
	}
	w := &indexWaiter{index: index, done: make(chan error, 1)}
	heap.Push(&p.waiting, w)
	return w, nil
}

// waitHeap is ordered by index.
type waitHeap []*indexWaiter

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].index < h[j].index }

func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *waitHeap) Push(x any) {
	w := x.(*indexWaiter)
	w.place = len(*h)
	*h = append(*h, w)
}

func (h *waitHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	w.place = -1
	return w
}
