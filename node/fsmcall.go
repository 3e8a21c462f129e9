package node

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// fsmCallOverdue is how long a call of the FSM may run before it is overdue. Then each waiting caller checks whether it is
// itself within that call.
const fsmCallOverdue = 250 * time.Millisecond

// fsmCalls lets one call of the FSM, or one function of Read, run at a time. It uses the goroutine id to detect a caller that
// is within the running call. Such a caller would wait for an index that is applied only after the running call returns.
type fsmCalls struct {
	turn    chan struct{} // capacity 1: full while a call has the turn
	running atomic.Pointer[fsmCall]

	// closed is true once Read must call no more functions: a call of the FSM failed and may be half done, or the node has
	// ended. Only the goroutine that has the turn may access closed.
	closed bool
}

// fsmCall is one running call.
type fsmCall struct {
	goroutine uint64
	began     time.Time
	overdue   chan struct{} // closed once it has run for fsmCallOverdue
}

func newFSMCalls() *fsmCalls { return &fsmCalls{turn: make(chan struct{}, 1)} }

// begin waits for the turn to call the FSM on the given goroutine. When the call of the FSM has ended, the caller must call
// the returned function, and pass it whether the call succeeded.
func (f *fsmCalls) begin(goroutine uint64) (ended func(succeeded bool)) {
	f.turn <- struct{}{}
	stop := f.watch(goroutine)
	return func(succeeded bool) {
		f.closed = f.closed || !succeeded
		stop()
		<-f.turn
	}
}

// beginRead waits for the turn to call a function of Read on the calling goroutine.
func (f *fsmCalls) beginRead(ctx context.Context, stop <-chan struct{}) (ended func(), err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-stop:
		return nil, raft.ErrClosed
	}
	if f.closed {
		<-f.turn
		return nil, raft.ErrClosed
	}
	unwatch := f.watch(goroutineID())
	return func() {
		unwatch()
		<-f.turn
	}, nil
}

// end waits for the running call. No function of Read begins after that.
func (f *fsmCalls) end() {
	f.turn <- struct{}{}
	f.closed = true
	<-f.turn
}

// watch marks a call as the running one until the returned function is called.
func (f *fsmCalls) watch(goroutine uint64) (stop func()) {
	call := &fsmCall{goroutine: goroutine, began: time.Now(), overdue: make(chan struct{})}
	timer := time.AfterFunc(fsmCallOverdue, func() { close(call.overdue) })
	f.running.Store(call)
	return func() {
		timer.Stop()
		f.running.Store(nil)
	}
}

// overdue returns a channel that is closed once the running call is overdue. If no call is running, overdue returns nil,
// because then the caller cannot be within a call.
func (f *fsmCalls) overdue() <-chan struct{} {
	if call := f.running.Load(); call != nil {
		return call.overdue
	}
	return nil
}

// within reports whether the calling goroutine is in a call of the FSM or in a function of Read. It cannot
// recognize a goroutine that one of them started and waits for.
//
// Its callers return ErrWithinFSM. Read and Ready do so at once, and so do Close, TransferLeadership, Snapshot and
// ChangeMembers, also in the methods of a frozen state (withinFSM). Propose, Barrier, ReadIndex and WaitApplied do so
// (await) if they still wait when the FSM's call is overdue; the error of a proposal that the loop has taken then also
// matches ErrOutcomeUnknown. ProposeAsync does not wait for the FSM and may be called.
func (f *fsmCalls) within() bool {
	call := f.running.Load()
	if call == nil {
		return false
	}
	id := goroutineID()
	return id != 0 && call.goroutine == id
}

// await returns the value that done receives. If ctx ends first, or if the caller is within the FSM, await calls leave with
// the error and returns the result of leave.
func await[T any](ctx context.Context, calls *fsmCalls, done <-chan T, leave func(cause error) T) T {
	for overdue := calls.overdue(); ; overdue = nil {
		select {
		case value := <-done:
			return value
		case <-ctx.Done():
			return leave(ctx.Err())
		case <-overdue:
			if calls.within() {
				return leave(ErrWithinFSM)
			}
		}
	}
}

// since returns how long the present call has been running, or 0 if no call is running.
func (f *fsmCalls) since() time.Duration {
	if call := f.running.Load(); call != nil {
		return max(1, time.Since(call.began))
	}
	return 0
}

// goroutineID reads the id of the calling goroutine from the first line of its stack, "goroutine 7 [running]:",
// since Go offers no other way. It returns 0 if the line has another form.
func goroutineID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	if len(words) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
