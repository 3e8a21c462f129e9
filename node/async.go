package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// ProposeAsync appends a command to the log. It returns the id of the command's entry as soon as this member, which must be
// the leader, has accepted the command. It waits for the node's loop, but neither for a disk nor for another member, except
// while leadership is being transferred (TransferLeadership, Close). The commands of one goroutine enter the log in the order
// of its calls.
//
// If the error is nil, the node calls done exactly once, with the result that Propose would have returned. The node calls
// done even if the node ends, and possibly before ProposeAsync returns. ctx bounds only the wait for the id, not the wait for
// done. If the error is not nil, the node never calls done, and the error is one of Propose's. The error matches
// ErrOutcomeUnknown only if an error ended the node meanwhile. ProposeAsync copies cmd.
//
// One goroutine of the node makes all calls of done, one after another. For applied entries, it calls them in the order of
// the log. A slow done delays the other calls and Close, but neither the log nor the FSM. A command counts towards
// Config.ProposalsMax and ProposalBytesMax until its done has returned. Above these limits ProposeAsync fails with
// ErrOverloaded. done may call the node's methods, except that Close returns ErrWithinCallback. The FSM may call
// ProposeAsync, because ProposeAsync does not wait for the FSM: during a transfer, such a call fails with *NotLeaderError at
// once. The node does not recover a panic in done.
func (n *Node) ProposeAsync(ctx context.Context, cmd []byte, done func(Result, error)) (raft.EntryID, error) {
	if done == nil {
		return raft.EntryID{}, errors.New("raft: ProposeAsync needs a function for the outcome; it is nil")
	}
	began := time.Now()
	id, err := n.proposeAsync(ctx, cmd, func(result Result, err error) {
		n.counters.proposed(err, time.Since(began))
		done(result, n.withReason(err))
	})
	if err != nil {
		n.counters.proposed(err, time.Since(began))
	}
	return id, n.withReason(err)
}

func (n *Node) proposeAsync(ctx context.Context, cmd []byte, done func(Result, error)) (raft.EntryID, error) {
	if err := n.usable(ctx); err != nil {
		return raft.EntryID{}, err
	}
	if err := n.hasRoom(); err != nil {
		return raft.EntryID{}, err
	}
	req, err := n.requests.propose(raft.EntryCommand, cmd, done)
	if err != nil {
		return raft.EntryID{}, err
	}
	o := n.requests.awaitAccepted(ctx, req)
	return raft.EntryID{Term: o.result.Term, Index: o.result.Index}, o.err
}

// awaitAccepted returns the id of the entry, or the error. When ctx ends, it withdraws a proposal that is still in
// the queue. If the loop has taken the proposal, awaitAccepted waits: the answer comes at the end of the Step.
func (r *requests) awaitAccepted(ctx context.Context, req *call) outcome {
	defer r.pool.Put(req)
	select {
	case o := <-req.outcome:
		return o
	case <-ctx.Done():
	}
	if r.withdraw(req) {
		return outcome{err: ctx.Err()}
	}
	return <-req.outcome
}

// withdraw removes a proposal from the queue. It reports false if the loop has already taken the proposal.
func (r *requests) withdraw(req *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table[req.requestID] != req || req.taken {
		return false
	}
	r.remove(req)
	r.bytes += req.bytes // as in abandon
	return true
}

// detach gives the caller of ProposeAsync the id of its entry. In the tables, detach replaces the call by a copy without a
// channel. The outcome of the copy goes to the callback.
func (r *requests) detach(req *call) {
	detached := &call{kind: req.kind, requestID: req.requestID, bytes: req.bytes, taken: true, id: req.id, done: req.done}
	r.table[req.requestID], r.accepted[req.id.Index] = detached, detached
	req.outcome <- outcome{result: Result{Index: req.id.Index, Term: req.id.Term}}
}

// release stops counting a detached call once its callback has returned.
func (r *requests) release(req *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[req.kind]--
	r.bytes -= req.bytes
}

// callbacks calls the functions of ProposeAsync on a separate goroutine, so that neither the loop nor the applier
// waits for them. The limits of requests bound its queue, because they count a call until its function has returned.
type callbacks struct {
	release   func(*call)
	restart   func()        // starts run on another goroutine
	goroutine atomic.Uint64 // the id of run's goroutine

	mu    sync.Mutex
	queue queue[answered] // in the order of the calls
	ended bool            // nothing more will be added
}

// answered is a detached call and its outcome.
type answered struct {
	req *call
	outcome
}

func newCallbacks(release func(*call), restart func()) *callbacks {
	return &callbacks{release: release, restart: restart, queue: queue[answered]{signal: newSignal()}}
}

func (c *callbacks) add(req *call, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.add(answered{req, o})
}

// end makes run return once run has called all functions. The caller calls end after the last add.
func (c *callbacks) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.queue.wake()
}

// run calls the functions one after another. If one of them ends the goroutine, as testing.T.FailNow does, a new
// goroutine makes the remaining calls.
func (c *callbacks) run() {
	finished := false
	defer func() {
		if !finished {
			c.restart()
		}
	}()
	c.goroutine.Store(goroutineID())
	for a, more := c.next(); more; a, more = c.next() {
		c.call(a)
	}
	finished = true
}

func (c *callbacks) call(a answered) {
	defer c.release(a.req)
	a.req.done(a.result, a.err)
}

// next waits for the next outcome. more is false if no outcome is left and none will be added.
func (c *callbacks) next() (a answered, more bool) {
	for {
		a, ended := c.take()
		if a.req != nil || ended {
			return a, a.req != nil
		}
		<-c.queue.signal
	}
}

// take returns the next outcome, or an outcome without a call if the queue is empty. ended reports whether no more outcomes
// will be added.
func (c *callbacks) take() (a answered, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.queue.waiting(); len(waiting) > 0 {
		a = waiting[0]
		c.queue.drop(1)
	}
	return a, c.ended
}

// within reports whether the calling goroutine is in a function of ProposeAsync.
func (c *callbacks) within() bool {
	id := goroutineID()
	return id != 0 && c.goroutine.Load() == id
}
