package fuzzy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/coxswain/raft"
)

// writing is a frozen state that is being written. WriteTo runs on its own goroutine, as in a node. It runs only while step
// waits for it, so that the same seed always gives the same run.
type writing struct {
	m      *hosted
	id     raft.EntryID
	frozen raft.FSMSnapshot
	ctx    context.Context
	cancel context.CancelFunc
	begun  bool
	over   bool          // WriteTo has returned, or is not needed
	pieces chan []byte   // what WriteTo writes, while it pauses after each piece
	taken  chan error    // the answer to a piece; an error ends the writing
	held   bool          // a piece waits for its answer
	ends   atomic.Bool   // WriteTo runs to its end without pausing
	ended  chan error    // the result of WriteTo
	closed chan struct{} // closed once WriteTo has ended
	refuse error         // if set, what its writer returns from now on
	late   atomic.Bool   // its writer was used after WriteTo had ended

	mu    sync.Mutex
	data  []byte // what WriteTo has written
	told  bool   // its writer has returned an error
	large bool   // WriteTo has written too much
}

// A frozen state is written in pieces. Each piece may be up to twice as large as the previous one.
const (
	pieceBytesMin = 64
	pieceBytesMax = 16 << 10
)

// writtenMax is the limit of a frozen state in bytes. It catches a state machine that never stops writing.
const writtenMax = 64 << 20

func newWriting(m *hosted, id raft.EntryID, frozen raft.FSMSnapshot) *writing {
	w := &writing{m: m, id: id, frozen: frozen, pieces: make(chan []byte), taken: make(chan error), ended: make(chan error, 1)}
	w.closed = make(chan struct{})
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Write passes the bytes to the run in pieces. If WriteTo is to run to its end, Write takes all bytes at once.
func (w *writing) Write(p []byte) (n int, err error) {
	if w.ends.Load() {
		return w.take(p)
	}
	for size := pieceBytesMin; n < len(p); size = min(2*size, pieceBytesMax) {
		piece := p[n:min(n+size, len(p))]
		select {
		case w.pieces <- piece:
			err = <-w.taken
		case <-w.closed:
			w.late.Store(true)
			err = errLate
		}
		if err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// take takes bytes without waiting for the run, which itself waits for the end of WriteTo.
func (w *writing) take(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
		w.late.Store(true)
		return 0, errLate
	default:
	}
	switch {
	case w.refuse != nil:
		w.told = true
		return 0, w.refuse
	case len(w.data)+len(p) > writtenMax:
		w.large = true
		return 0, errLarge
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

var errLarge = fmt.Errorf("fuzzy: a simulated snapshot holds %d bytes at most", writtenMax)

var errLate = errors.New("fuzzy: WriteTo has returned, so its writer takes nothing more")

var errGoexit = errors.New("it called runtime.Goexit, as testing.T.FailNow does")

// run is the body of the goroutine.
func (w *writing) run() {
	err := errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, debug.Stack()}
		}
		w.ended <- err
	}()
	err = w.frozen.WriteTo(w.ctx, w)
}

// panicked is a panic in WriteTo.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("it panicked: %v\n%s", p.value, p.stack) }

// step lets WriteTo write one more piece.
func (w *writing) step() {
	if !w.over {
		w.next()
	}
}

// complete lets WriteTo run to its end.
func (w *writing) complete() {
	w.ends.Store(true)
	for !w.over {
		w.next()
	}
}

// next waits for the next piece. At the end of WriteTo it closes the frozen state.
func (w *writing) next() {
	w.m.watch()
	defer w.m.watch()
	if !w.begun {
		w.begun = true
		go w.run()
	}
	if w.held {
		w.held = false
		w.told = w.told || w.refuse != nil
		w.taken <- w.refuse
	}
	select {
	case piece := <-w.pieces:
		w.mu.Lock()
		w.held, w.data = true, append(w.data, piece...)
		w.mu.Unlock()
	case err := <-w.ended:
		w.finish(err)
	}
}

// end ends the writing: it ends the context, and makes the writer return an error.
func (w *writing) end(reason error) {
	w.refuse = reason
	if reason == errAbandoned {
		w.cancel()
	}
	if !w.begun {
		w.finish(reason)
	}
	w.complete()
}

// finish checks how WriteTo ended, and closes the frozen state.
func (w *writing) finish(err error) {
	w.over = true
	w.cancel()
	w.mu.Lock() // a goroutine that WriteTo left running may still write
	close(w.closed)
	w.mu.Unlock()
	m := w.m
	var crashed *panicked
	switch {
	case w.large:
		m.broken("WriteTo of the state at %v writes more than a simulated snapshot may hold: the limit is %d bytes", w.id, writtenMax)
	case errors.As(err, &crashed) || err == errGoexit || err != nil && w.refuse == nil:
		m.c.fail(Safety, "A5", "%s: WriteTo of the state at %v returned an error: %v", m.name(), w.id, err)
	case err == nil && w.told:
		m.broken("WriteTo of the state at %v returned nil although its writer had failed", w.id)
	}
	m.call(m.name(), w.frozen.Close, "Close of the state at %v", w.id)
	if w.late.Load() {
		m.broken("the state at %v was written to after WriteTo had returned", w.id)
	}
}
