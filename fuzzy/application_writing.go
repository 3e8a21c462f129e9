package fuzzy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

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
	over   bool
	data   []byte
	pieces chan []byte
	taken  chan error // the answer to a piece; an error ends the writing
	held   bool       // a piece waits for that
	ended  chan error // what WriteTo returned
	refuse error      // what its writer returns from now on
	told   bool       // the writer has returned an error
}

// pieceBytes is how much of a frozen state is written at once.
const pieceBytes = 64

// piecesMax is more than WriteTo may write: a state machine that writes for ever is found.
const piecesMax = 64 << 20 / pieceBytes

func newWriting(m *hosted, id raft.EntryID, frozen raft.FSMSnapshot) *writing {
	w := &writing{m: m, id: id, frozen: frozen, pieces: make(chan []byte), taken: make(chan error), ended: make(chan error, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Write hands the bytes over in pieces.
func (w *writing) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(n+pieceBytes, len(p))]
		w.pieces <- piece
		if err := <-w.taken; err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

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
	m := w.m
	var crashed *panicked
	switch {
	case errors.As(err, &crashed) || err == errGoexit || err != nil && w.refuse == nil:
		m.c.fail(Safety, "A5", "%s: WriteTo of the state at %v returned an error: %v", m.name(), w.id, err)
	case err == nil && w.told:
		m.broken("WriteTo of the state at %v returned nil although its writer had failed", w.id)
	}
	m.call(m.name(), w.frozen.Close, "Close of the state at %v", w.id)
}
