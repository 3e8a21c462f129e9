package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coxswain/raft"
)

// callKind is the kind of a pending call.
type callKind uint8

const (
	proposeCall  callKind = iota // Propose, ProposeAsync, Barrier
	readCall                     // ReadIndex
	transferCall                 // TransferLeadership
	snapshotCall                 // Snapshot
	changeCall                   // ChangeMembers
)

// call is one pending call. Its outcome channel has a capacity of 1 and receives exactly one value, when the call leaves
// the table. Then the channel may be used again.
type call struct {
	kind      callKind
	requestID raft.RequestID
	bytes     int
	taken     bool         // it has reached the core
	id        raft.EntryID // entry of the accepted proposal; zero: not accepted
	outcome   chan outcome // nil once the call is detached
	// done receives the outcome of an accepted proposal of ProposeAsync. If done is nil, the channel receives the outcome.
	done func(Result, error)
	// forwarded is the message with the proposal, if that is another member's. Then the outcome goes to forwards.
	forwarded *raft.Message
}

// changesMax bounds the callers of ChangeMembers that wait for the core.
const changesMax = 16

// outcome is the result of a call.
type outcome struct {
	result Result
	index  raft.Index // of a read, or of the configuration that a change has produced
	err    error
}

// requests is the table of pending calls, and the queue of requests that the loop has not taken yet. Callers,
// the loop and the applier share it.
type requests struct {
	limits    atomic.Pointer[raft.Limits] // in force for new requests
	calls     *fsmCalls
	pool      sync.Pool // of *call
	callbacks *callbacks
	carried   func([]carried) // takes the outcomes of other members' proposals
	// noSessions refuses entries of sessions, because the FSM is no raft.SessionFSM; nil: it is one. It is set before the start.
	noSessions *NoSessionsError

	mu        sync.Mutex
	changed   bool // limits have changed, and the core does not know it yet
	last      raft.RequestID
	table     map[raft.RequestID]*call
	accepted  map[raft.Index]*call // the accepted proposals, by log index
	counts    [changeCall + 1]int
	bytes     int // of the proposals in the table and in the queue
	proposals queue[raft.Proposal]
	forwarded queue[raft.Proposal] // of other members: they do not wait for the end of a planned transfer
	holds     bool                 // proposals wait in the queue for the end of a planned transfer
	asked     queue[raft.Event]    // all other requests, and proposals of the FSM while holds
	outcomes  []carried            // of other members' proposals; passOn empties it before mu is released
	ended     error
}

// newRequests returns an empty table. loop wakes the loop. spawn starts a goroutine; before the node ends, it waits for that
// goroutine.
func newRequests(limits raft.Limits, calls *fsmCalls, loop signal, spawn func(func())) *requests {
	r := &requests{
		calls: calls, pool: sync.Pool{New: func() any { return &call{outcome: make(chan outcome, 1)} }},
		table: make(map[raft.RequestID]*call), accepted: make(map[raft.Index]*call),
		proposals: queue[raft.Proposal]{signal: loop}, forwarded: queue[raft.Proposal]{signal: loop}, asked: queue[raft.Event]{signal: loop},
	}
	r.limits.Store(&limits)
	r.callbacks = newCallbacks(r.release, func() { spawn(r.callbacks.run) })
	return r
}

// propose queues a proposal, or refuses it at once. It copies data once; the disk and the network use that copy. If done is
// not nil, done receives the outcome of an accepted proposal.
func (r *requests) propose(kind raft.EntryKind, data []byte, done func(Result, error)) (*call, error) {
	if most := r.limits.Load().CommandBytesMax; len(data) > most {
		return nil, &raft.TooLargeError{Bytes: len(data), Limit: most}
	}
	size := len(data) + raft.RecordOverheadBytes
	req, err := r.enter(proposeCall, size)
	if err != nil {
		return nil, err
	}
	proposal := raft.NewProposal(req.requestID, kind, data) // outside the lock: it may be large
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table[req.requestID] == req {
		req.done = done
		if done != nil && r.holds && r.calls.within() { // the transfer waits for the FSM, so the core refuses the proposal
			req.taken = true
			r.asked.add(raft.Proposed{Proposals: []raft.Proposal{proposal}})
			return req, nil
		}
		r.proposals.add(proposal)
	}
	return req, nil
}

// carry queues the proposals of other members, each for the leader of the term of its message alone. If refused is not nil,
// it is the outcome of all.
func (r *requests) carry(batch []raft.Message, refused error) {
	proposals := make([]raft.Proposal, len(batch))
	for i := range batch { // outside the lock: they may be large
		f := batch[i].Body.(raft.Forward)
		proposals[i] = raft.NewProposal(0, entryOf(f.Kind), f.Data)
		proposals[i].Term = batch[i].Term
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.passOn()
	most := r.limits.Load().CommandBytesMax
	for i, p := range proposals {
		err := refused
		switch {
		case err != nil:
		case p.Kind == raft.EntrySession && r.noSessions != nil:
			err = r.noSessions
		case len(p.Data) > most:
			err = &raft.TooLargeError{Bytes: len(p.Data), Limit: most}
		}
		var req *call
		if err == nil {
			req, err = r.admit(proposeCall, len(p.Data)+raft.RecordOverheadBytes)
		}
		if err != nil {
			r.outcomes = append(r.outcomes, carried{message: batch[i], err: err})
			continue
		}
		req.forwarded, p.RequestID = &batch[i], req.requestID
		r.forwarded.add(p)
	}
}

// passOn passes on the outcomes of other members' proposals. mu is held.
func (r *requests) passOn() {
	if len(r.outcomes) > 0 {
		r.carried(r.outcomes)
		clear(r.outcomes)
		r.outcomes = r.outcomes[:0]
	}
}

func (r *requests) read() (*call, error) {
	return r.ask(readCall, func(t raft.RequestID) raft.Event { return raft.ReadRequested{RequestID: t} })
}

func (r *requests) transfer(e raft.TransferRequested) (*call, error) {
	return r.ask(transferCall, func(t raft.RequestID) raft.Event { e.RequestID = t; return e })
}

func (r *requests) snapshot() (*call, error) {
	return r.ask(snapshotCall, func(t raft.RequestID) raft.Event { return raft.SnapshotRequested{RequestID: t} })
}

func (r *requests) change(e raft.ChangeRequested) (*call, error) {
	return r.ask(changeCall, func(t raft.RequestID) raft.Event { e.RequestID = t; return e })
}

// tell queues an event for the core that has no answer. It returns an error if the node has ended.
func (r *requests) tell(e raft.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.asked.add(e)
	}
	return r.ended
}

func (r *requests) ask(kind callKind, event func(raft.RequestID) raft.Event) (*call, error) {
	req, err := r.enter(kind, 0)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table[req.requestID] == req {
		r.asked.add(event(req.requestID))
	}
	return req, nil
}

func (r *requests) enter(kind callKind, bytes int) (*call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admit(kind, bytes)
}

// admit adds a new call to the table if the limits allow it. mu is held.
func (r *requests) admit(kind callKind, bytes int) (*call, error) {
	if r.ended != nil {
		return nil, r.ended
	}
	limits := r.limits.Load()
	waiting, limit := max(r.counts[kind], r.queued(kind)), limits.ProposalsMax
	if kind == changeCall {
		waiting, limit = r.counts[kind], changesMax
	}
	if waiting >= limit || bytes > 0 && r.bytes >= limits.ProposalBytesMax {
		return nil, raft.ErrOverloaded
	}
	r.last++
	req := r.pool.Get().(*call)
	*req = call{kind: kind, requestID: r.last, bytes: bytes, outcome: req.outcome}
	r.table[req.requestID] = req
	r.counts[kind]++
	r.bytes += bytes
	return req, nil
}

// queued counts the requests that the loop has not taken. It includes requests of callers that have stopped waiting.
func (r *requests) queued(kind callKind) int {
	if kind == proposeCall {
		return r.proposals.len() + r.forwarded.len()
	}
	return r.asked.len()
}

// setLimits puts other limits in force. The core learns them before any request that enters under them.
func (r *requests) setLimits(limits raft.Limits) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return r.ended
	}
	r.limits.Store(&limits)
	r.changed = true
	r.asked.wake()
	return nil
}

// take appends the queued requests to batch, within the limits of a batch. If a caller has stopped waiting, take drops its
// proposal, so that the proposal never reaches the core.
func (r *requests) take(batch []raft.Event) []raft.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed {
		batch = append(batch, raft.LimitsChanged{Limits: *r.limits.Load()})
		r.changed = false
	}
	if !r.holds {
		batch = r.takeProposals(&r.proposals, batch)
	}
	batch = r.takeProposals(&r.forwarded, batch)
	for _, e := range r.asked.waiting() {
		if r.took(e) {
			batch = append(batch, e)
		}
	}
	r.asked.drop(r.asked.len())
	return batch
}

// takeProposals does the part of take that concerns proposals. mu is held.
func (r *requests) takeProposals(from *queue[raft.Proposal], batch []raft.Event) []raft.Event {
	waiting, n, bytes := from.waiting(), 0, 0
	taken := make([]raft.Proposal, 0, min(len(waiting), batchEventsMax))
	for n < len(waiting) && len(taken) < batchEventsMax && bytes < batchBytesMax {
		p := waiting[n]
		n++
		if req := r.table[p.RequestID]; req != nil {
			req.taken = true
			taken = append(taken, p)
			bytes += len(p.Data)
		} else {
			r.bytes -= len(p.Data) + raft.RecordOverheadBytes // see abandon
		}
	}
	from.drop(n)
	if len(taken) > 0 {
		batch = append(batch, raft.Proposed{Proposals: taken})
	}
	return batch
}

// hold makes proposals wait in the queue, or continue. Only the loop calls it.
func (r *requests) hold(holds bool) {
	if holds == r.holds {
		return // only the loop writes it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds = holds; !holds {
		r.proposals.wake()
	}
}

// took records that a change or a transfer reaches the core. It reports false if its caller has stopped waiting. mu is held.
func (r *requests) took(e raft.Event) bool {
	var req *call
	switch e := e.(type) {
	case raft.ChangeRequested:
		req = r.table[e.RequestID]
	case raft.TransferRequested:
		req = r.table[e.RequestID]
	default:
		return true
	}
	if req != nil {
		req.taken = true
	}
	return req != nil
}

// wait returns the outcome of the call. If ctx ends first, or if the caller is within the FSM, wait abandons the call.
func (r *requests) wait(ctx context.Context, req *call) outcome {
	defer r.pool.Put(req)
	return await(ctx, r.calls, req.outcome, func(cause error) outcome { return r.abandon(req, cause) })
}

// abandon removes the call from the table because its caller stops waiting.
func (r *requests) abandon(req *call, cause error) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table[req.requestID] != req {
		return <-req.outcome // the outcome arrived at the same moment
	}
	r.remove(req)
	if req.mayTakePlace() {
		cause = errors.Join(req.unknown(), cause)
	} else {
		r.bytes += req.bytes // the proposal stays in the queue until the loop takes it, see take
	}
	return outcome{err: cause}
}

// mayTakePlace reports whether the core may still carry out the request after the caller has stopped waiting. This is the
// case for a proposal, a change or a transfer that has reached the core.
func (c *call) mayTakePlace() bool { return c.taken }

// unknown returns the error of a call that may still take place.
func (c *call) unknown() error {
	if c.kind == changeCall {
		return changeUnknownError{}
	}
	return ErrOutcomeUnknown
}

// forget removes a call from the tables. The limits still count it.
func (r *requests) forget(req *call) {
	delete(r.table, req.requestID)
	if r.accepted[req.id.Index] == req {
		delete(r.accepted, req.id.Index)
	}
}

// remove removes a call from the tables and the counts. The caller of remove must then send an outcome, unless its own
// goroutine waits for the outcome.
func (r *requests) remove(req *call) {
	r.forget(req)
	r.counts[req.kind]--
	r.bytes -= req.bytes
}

func (r *requests) finish(req *call, o outcome) {
	if req.outcome == nil {
		r.forget(req)
		r.callbacks.add(req, o) // which releases it
		return
	}
	r.remove(req)
	if m := req.forwarded; m != nil {
		reply := raft.ForwardReply{Index: o.result.Index, EntryTerm: o.result.Term, Data: o.result.Data}
		r.outcomes = append(r.outcomes, carried{*m, reply, o.err})
		r.pool.Put(req)
		return
	}
	req.outcome <- o
}

// answer passes on the core's answers; explain returns the error for a refusal.
func (r *requests) answer(answers []raft.Answer, explain func(*call, raft.Answer) error) {
	if len(answers) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.passOn()
	for _, a := range answers {
		req := r.table[a.RequestID]
		if req == nil {
			continue // its caller has stopped waiting
		}
		switch a.Kind {
		case raft.AnswerAccepted:
			if req.kind == changeCall {
				continue // the answer follows at the end of the change, not when its first entry is applied
			}
			req.id = a.ID
			r.accepted[a.ID.Index] = req
			if req.done != nil {
				r.detach(req)
			}
		case raft.AnswerReadSafe, raft.AnswerChanged:
			r.finish(req, outcome{index: a.ID.Index})
		case raft.AnswerSnapshot:
			r.finish(req, outcome{result: Result{Index: a.ID.Index, Term: a.ID.Term}})
		case raft.AnswerTransferred:
			r.finish(req, outcome{})
		default:
			r.finish(req, outcome{err: explain(req, a)})
		}
	}
}

// applied answers the proposers of entries that the applier has applied. results has one element for each
// entry that the FSM got.
func (r *requests) applied(entries []raft.Entry, results [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.passOn()
	commands := 0
	for i := range entries {
		var data []byte
		if forFSM(&entries[i]) {
			data = results[commands]
			commands++
		}
		if len(r.accepted) == 0 {
			return
		}
		if req := r.accepted[entries[i].Index]; req != nil && req.id == entries[i].ID() {
			r.finish(req, outcome{result: Result{req.id.Index, req.id.Term, data}})
		}
	}
}

// unknown answers the proposers of the accepted entries up to an index with ErrOutcomeUnknown. The results of these entries
// are lost, because a snapshot covers the entries, or because the FSM hangs.
func (r *requests) unknown(to raft.Index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.passOn()
	unknown := outcome{err: ErrOutcomeUnknown}
	for index, req := range r.accepted {
		if index <= to {
			r.finish(req, unknown)
		}
	}
}

// end answers all pending calls. A proposal, a change or a transfer that has reached the core may still take place; all others
// never will.
func (r *requests) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.passOn()
	r.ended = err
	for _, p := range slices.Concat(r.proposals.waiting(), r.forwarded.waiting()) {
		if r.table[p.RequestID] == nil {
			r.bytes -= len(p.Data) + raft.RecordOverheadBytes // see abandon
		}
	}
	for _, req := range r.table {
		if req.mayTakePlace() {
			r.finish(req, outcome{err: req.unknown()})
		} else {
			r.finish(req, outcome{err: err})
		}
	}
	r.proposals.drop(r.proposals.len())
	r.forwarded.drop(r.forwarded.len())
	r.asked.drop(r.asked.len())
}

// resume accepts calls again after end.
func (r *requests) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = nil
}

// transferring reports whether a planned transfer makes proposals wait.
func (r *requests) transferring() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds
}

// depth returns the number of pending proposals, the number of pending reads, and the bytes of the proposals.
func (r *requests) depth() (proposals, reads, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[proposeCall], r.counts[readCall], r.bytes
}
