package fuzzy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/coxswain/raft"
)

// writing is a frozen state that is being written. WriteTo runs on a goroutine of its own, as in a node, but only while
// step waits for it: so the same seed always gives the same run.
type writing struct {
	m      *hosted
	id     raft.EntryID
	frozen raft.FSMSnapshot
	ctx    context.Context
	cancel context.CancelFunc
	begun  bool
	over   bool        // WriteTo has returned, or need not be called
	late   atomic.Bool // its writer was used after that
	data   []byte
	pieces chan []byte
	taken  chan error    // the answer to a piece; an error ends the writing
	held   bool          // a piece waits for that
	ended  chan error    // what WriteTo returned
	closed chan struct{} // is closed then
	refuse error         // what its writer returns from now on
	told   bool          // the writer has returned an error
}

// A frozen state is written in pieces. Each may be twice as large as the one before.
const (
	pieceBytesMin = 64
	pieceBytesMax = 16 << 10
	piecesMax     = 1 << 13 // which are more than WriteTo may write
)

func newWriting(m *hosted, id raft.EntryID, frozen raft.FSMSnapshot) *writing {
	w := &writing{m: m, id: id, frozen: frozen, pieces: make(chan []byte), taken: make(chan error), ended: make(chan error, 1)}
	w.closed = make(chan struct{})
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Write hands the bytes over in pieces.
func (w *writing) Write(p []byte) (n int, err error) {
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

var errLate = errors.New("fuzzy: WriteTo has returned, and its writer takes nothing any longer")

var errGoexit = errors.New("it called runtime.Goexit, as testing.T.FailNow does")

// run is the goroutine.
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

// panicked is the panic of a WriteTo.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("it panicked: %v\n%s", p.value, p.stack) }

// step lets WriteTo write so many pieces more, or end.
func (w *writing) step(pieces int) {
	for range pieces {
		if w.over || !w.next() {
			return
		}
	}
	if pieces == piecesMax {
		w.m.broken("WriteTo of the state at %v has written %d pieces and has not returned", w.id, pieces)
	}
}

// next waits for the next piece. At the end of WriteTo it closes the frozen state, and returns false.
func (w *writing) next() bool {
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
		w.held, w.data = true, append(w.data, piece...)
		return true
	case err := <-w.ended:
		w.finish(err)
		return false
	}
}

// end ends the writing: the context ends, and the writer returns an error.
func (w *writing) end(reason error) {
	w.refuse = reason
	if reason == errAbandoned {
		w.cancel()
	}
	if !w.begun {
		w.finish(reason)
	}
	w.step(piecesMax)
}

// finish checks how WriteTo has ended, and closes the frozen state.
func (w *writing) finish(err error) {
	w.over = true
	w.cancel()
	close(w.closed)
	m := w.m
	var crashed *panicked
	switch {
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
