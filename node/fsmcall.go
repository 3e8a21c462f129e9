package node

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// fsmCallOverdue is how long a call of the FSM may run before those who began to wait meanwhile look
// whether they are within it.
const fsmCallOverdue = 250 * time.Millisecond

// fsmCalls knows which call of the FSM is running. A caller of the node that is within it would wait for
// an index that only its own return can bring; it is told from all others by its goroutine. Nothing is
// paid for that unless a call of the FSM takes long.
type fsmCalls struct {
	goroutine atomic.Uint64 // the applier's
	running   atomic.Pointer[fsmCall]
}

// fsmCall is one running call.
type fsmCall struct {
	began   time.Time
	overdue chan struct{} // closed once it has run for fsmCallOverdue
}

// begin is called by the applier's goroutine; it calls what is returned when the call has ended.
func (f *fsmCalls) begin() (ended func()) {
	if f.goroutine.Load() == 0 {
		f.goroutine.Store(goroutineID())
	}
	call := &fsmCall{began: time.Now(), overdue: make(chan struct{})}
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

// within reports whether the goroutine that asks is in a call of the FSM. A goroutine that the FSM
// started and waits for is not known by anything.
func (f *fsmCalls) within() bool {
	if f.running.Load() == nil {
		return false
	}
	id := goroutineID()
	return id != 0 && f.goroutine.Load() == id
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
