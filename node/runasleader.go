package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

// RunAsLeader cannot promise that f runs on one member at a time: a cancelled context is not an ended function. f may be slow to
// return, or its process may be suspended and continue later, while the function of the next leader runs. Only the term, as a
// fencing token, protects a resource. Pass term with each request to the resource. The resource stores the highest term that it
// has seen, and refuses a request with a lower one. Two leaders never have the same term, and later leaders have higher ones.
// A resource that cannot refuse is not protected.
//
// RunAsLeader calls f, on the caller's goroutine, once this member leads and has applied everything that was committed before its
// term. It cancels f's context when this leadership ends. Its cause (context.Cause) is then a *LeadershipEndedError that says why.
// In that case, RunAsLeader waits until f has returned, ignores what f returned, and calls f again when this member leads
// again. So one call of RunAsLeader never runs f twice at once, however slow f is. If f returns while the leadership
// lasts, or because ctx has ended, RunAsLeader returns the error of f. So f returns nil once its job is done for good.
//
// Leadership also ends for f when a transfer begins, for whatever reason. f then has Config.RunAsLeaderStopMax to return, and
// the target is not told to campaign before. A transfer may fail: then f is called again, in the same term. The same applies to
// Close, which does not wait longer for f than the transfer does. If f calls TransferLeadership or Close, that call waits for f
// just as long, so f should do so only with its own context, or return instead. If f proposes after its context has been
// cancelled by a planned transfer, with another context, the proposal is held until the transfer ends, which waits for f: both
// wait for Config.RunAsLeaderStopMax. So f should propose with its own context, too.
//
// With leases, f runs only within a lease of its term: its context is cancelled when the lease ends, unless it was renewed, and
// raft.LeaseEnd tells when that is. The context has no deadline. f is called again once the lease is back.
//
// Several calls of RunAsLeader are independent of each other, and each runs its own function. Any goroutine may call it, but not
// the FSM. f may call all methods of the node. RunAsLeader fails with
//
//   - ctx.Err(): ctx ended before f was called (again).
//   - ErrClosed, ErrWiped, *RemovedError, *StaleImageError, *ContradictedError: this member does not lead any more.
//   - ErrOverloaded: more than Config.ProposalsMax calls of RunAsLeader wait or run.
//   - ErrWithinFSM: the FSM called it. Call it from another goroutine.
func (n *Node) RunAsLeader(ctx context.Context, f func(ctx context.Context, term raft.Term) error) error {
	if f == nil {
		return errors.New("raft: RunAsLeader needs a function; it is nil")
	}
	if n.withinFSM() {
		return ErrWithinFSM
	}
	for {
		if ended, err := n.runInTerm(ctx, f); !ended {
			return err
		}
	}
}

// LeadershipEndedError is the cause of the end of the context that RunAsLeader gave to its function (context.Cause).
// Return from the function: RunAsLeader calls it again when this member leads again.
type LeadershipEndedError struct {
	Term   raft.Term // of the leadership that has ended, or is being transferred
	Reason string
}

func (e *LeadershipEndedError) Error() string {
	return fmt.Sprintf("raft: this member must stop its work as the leader of term %d: %s", e.Term, e.Reason)
}

// runInTerm calls f in the next term in which this member leads. ended reports whether f must be called again, because its
// leadership has ended.
func (n *Node) runInTerm(ctx context.Context, f func(ctx context.Context, term raft.Term) error) (ended bool, err error) {
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &work{cancel: cancel, begun: make(chan struct{})}
	within := raft.WithLeaseEnd(leading, func() (time.Time, bool) { return n.leaseEnd(leading, k) })
	if err := n.works.enter(k); err != nil {
		return false, err
	}
	defer n.works.leave(k) // also if f panics
	if err := n.awaitWork(ctx, k); err != nil {
		return false, err
	}
	err = f(within, k.term)
	return n.works.ended(k), err
}

// leaseEnd returns when the context of a work that has begun ends, if its lease is not renewed.
func (n *Node) leaseEnd(leading context.Context, k *work) (time.Time, bool) {
	held := n.lease.now.Load()
	if held == nil || held.Term != k.term || leading.Err() != nil {
		return time.Time{}, false
	}
	return n.base.Add(time.Duration(held.Until - 1)), true // now adds the 1
}

// awaitWork waits until the loop begins the work.
func (n *Node) awaitWork(ctx context.Context, k *work) error {
	for {
		_, changed := n.watched.load() // before usable, so that changed announces every later change
		if err := n.usable(ctx); err != nil {
			return err
		}
		select {
		case <-k.begun:
			return nil
		case <-changed:
		case <-ctx.Done():
		case <-n.stop:
		}
	}
}

// work is one call of a function of RunAsLeader.
type work struct {
	cancel context.CancelCauseFunc // of the function's context
	begun  chan struct{}           // closed once term is set
	term   raft.Term               // in which this member leads; 0: the work has not begun
	over   bool                    // this leadership has ended, or is being transferred
}

// works are the functions of RunAsLeader. Only the loop begins and cancels them: between two steps, so that the core knows of
// all of them before it can begin a transfer.
type works struct {
	limit   func() int // of waiting and running ones together
	stopMax time.Duration
	loop    signal
	lease   *lease // within which work runs, if there are leases
	clock   func() raft.Now
	told    raft.Term // the last Working that the core was told; only the loop uses it

	mu      sync.Mutex
	waiting []*work
	running []*work     // in the order of their terms; also those that were cancelled and have not returned
	lapse   *time.Timer // at the end of a lease within which work runs; nil: it does not run
}

// enter makes a work wait for its begin.
func (w *works) enter(k *work) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(w.running) >= w.limit() {
		return raft.ErrOverloaded
	}
	w.waiting = append(w.waiting, k)
	w.loop.wake() // this member may lead already
	return nil
}

// leave ends a work: its function has returned, or was never called.
func (w *works) leave(k *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := func(other *work) bool { return other == k }
	w.waiting, w.running = slices.DeleteFunc(w.waiting, is), slices.DeleteFunc(w.running, is)
	w.loop.wake() // a transfer may wait for that
}

// ended reports whether the leadership of a work has ended before its function returned.
func (w *works) ended(k *work) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return k.over
}

// tell appends an event that tells the core for which term work runs, if that has changed. It must be the first event of a step.
func (w *works) tell(batch []raft.Event) []raft.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := raft.Working{StopMax: w.stopMax}
	if last := len(w.running) - 1; last >= 0 {
		e.Term = w.running[last].term
	}
	if e.Term == w.told {
		return batch
	}
	w.told = e.Term
	return append(batch, e)
}

// follow cancels the works whose leadership or lease has ended, and begins those that wait if this member may work. The loop calls
// it after each step, before any output of the step leaves, so that no other member leads by this step's messages before.
func (w *works) follow(core *raft.Core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(w.running) == 0 {
		return
	}
	now, may, leased := core.Leadership(), core.MayWork(), !core.Leases() || w.leased()
	for _, k := range w.running {
		switch {
		case !may || k.term != now.Term:
			k.end(endOf(k.term, now))
		case !leased:
			k.end(leaseOver)
		}
	}
	if !may || !leased {
		return
	}
	for _, k := range w.waiting {
		k.term = now.Term
		close(k.begun)
	}
	w.running, w.waiting = append(w.running, w.waiting...), nil
	w.awaitLapse()
}

// leased reports whether the lease of this member runs.
func (w *works) leased() bool { return w.lease.remaining(w.clock().Mono) > 0 }

// awaitLapse sets the timer to the end of the lease, if there is one. The loop need not run then: it may be busy, and no event
// tells a leader that it is cut off. mu is held.
func (w *works) awaitLapse() {
	if w.lapse == nil && w.lease.now.Load() != nil {
		w.lapse = time.AfterFunc(w.lease.remaining(w.clock().Mono), w.lapsed)
	}
}

// lapsed cancels all works when their lease has ended. If it was renewed, it waits for the new end.
func (w *works) lapsed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lapse = nil
	if w.lease.now.Load() == nil { // the loop has withdrawn it and cancels what must end; or leases were switched off
		return
	}
	for _, k := range w.running {
		switch {
		case k.over:
		case w.leased():
			w.awaitLapse()
		default:
			k.end(leaseOver)
		}
	}
}

// leaseOver is why work ends with its lease.
const leaseOver = "its lease has ended: no majority has renewed it in time"

// end cancels all works, because the node has ended.
func (w *works) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.running {
		k.end(fmt.Sprintf("its node has ended: %v", why))
	}
	if w.lapse != nil {
		w.lapse.Stop()
	}
}

// end cancels the function's context. mu is held.
func (k *work) end(reason string) {
	if !k.over {
		k.over = true
		k.cancel(&LeadershipEndedError{Term: k.term, Reason: reason})
	}
}

// endOf returns why the work of a term must end.
func endOf(term raft.Term, now raft.Leadership) string {
	switch {
	case now.Role == raft.Leader && now.Term == term:
		return "its leadership is being transferred, or its node is closing"
	case now.Leader != "":
		return fmt.Sprintf("%s leads in term %d", now.Leader, now.Term)
	}
	return fmt.Sprintf("it no longer leads, in term %d", now.Term)
}
