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

// fsmCallOverdue is how long a call of the FSM may run before those who began to wait meanwhile look
// whether they are within it.
const fsmCallOverdue = 250 * time.Millisecond

// fsmCalls gives out turns: one call of the FSM, or of a function of Read, runs at a time. It knows which one
// that is. A caller of the node that is within it would wait for an index that only its own return can bring; it
// is told from all others by its goroutine.
type fsmCalls struct {
	turn    chan struct{} // capacity 1: full while somebody has the turn
	running atomic.Pointer[fsmCall]

	// closed: no function of Read is called any more, because the FSM has failed within a call, and may have half done
	// it, or because the node has ended. It belongs to whoever has the turn.
	closed bool
}

// fsmCall is one running call.
type fsmCall struct {
	goroutine uint64
	began     time.Time
	overdue   chan struct{} // closed once it has run for fsmCallOverdue
}

func newFSMCalls() *fsmCalls { return &fsmCalls{turn: make(chan struct{}, 1)} }

// begin waits for the turn of the FSM, whose goroutine calls it; whoever calls it calls what is returned when the call
// has ended, and says whether it succeeded.
func (f *fsmCalls) begin(goroutine uint64) (ended func(succeeded bool)) {
	f.turn <- struct{}{}
	stop := f.watch(goroutine)
	return func(succeeded bool) {
		f.closed = f.closed || !succeeded
		stop()
		<-f.turn
	}
}

// beginRead waits for the turn of a function of Read, which runs on the goroutine that asks.
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

// end waits for the call that is running, and lets no function of Read begin.
func (f *fsmCalls) end() {
	f.turn <- struct{}{}
	f.closed = true
	<-f.turn
}

// watch makes the call known that is running from now on, until what it returns is called.
func (f *fsmCalls) watch(goroutine uint64) (stop func()) {
	call := &fsmCall{goroutine: goroutine, began: time.Now(), overdue: make(chan struct{})}
	timer := time.AfterFunc(fsmCallOverdue, func() { close(call.overdue) })
	f.running.Store(call)
	return func() {
		timer.Stop()
		f.running.Store(nil)
	}
}

// overdue returns a channel that is closed when the call that is running now has taken long, and nil if
// none is: whoever begins to wait then is not within one.
func (f *fsmCalls) overdue() <-chan struct{} {
	if call := f.running.Load(); call != nil {
		return call.overdue
	}
	return nil
}

// within reports whether the goroutine that asks is in a call of the FSM, or in a function of Read. A goroutine that
// one of them started and waits for is not known by anything.
func (f *fsmCalls) within() bool {
	call := f.running.Load()
	if call == nil {
		return false
	}
	id := goroutineID()
	return id != 0 && call.goroutine == id
}

// since returns for how long a call has been running; 0: none is.
func (f *fsmCalls) since() time.Duration {
	if call := f.running.Load(); call != nil {
		return max(1, time.Since(call.began))
	}
	return 0
}

// goroutineID reads the number of the running goroutine from the first line of its stack, "goroutine 7
// [running]:"; Go has no other way to learn it. 0: the line reads otherwise.
func goroutineID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	if len(words) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
