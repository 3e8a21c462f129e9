package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

var (
	errHeldEnded  = errors.New("the frozen state is no longer held")
	errNoStream   = errors.New("the member for which the state was frozen does not take it")
	errStreamOver = errors.New("the stream of the frozen state has ended")
)

// held is a frozen state of a DurableFSM. It has no file: WriteTo writes directly into the stream to one follower, no faster
// than the stream takes the bytes.
type held struct {
	*taking
	taker    *taker
	file     raft.SnapshotID
	size     int64 // announced size in bytes; -1: not known
	frozen   raft.FSMSnapshot
	limit    time.Duration // Config.SnapshotStallMax
	stall    *time.Timer   // runs while WriteTo writes nothing
	streamed chan struct{} // closed when the stream begins
	streamer signal        // wakes the streamer
	writer   signal        // wakes a Write that waits

	mu      sync.Mutex
	begun   bool   // streamed is closed
	pending []byte // bytes of a Write that waits for the stream
	written bool   // WriteTo has written everything
	err     error  // why the stream cannot be completed; nil: it can
}

// hold keeps a frozen state for the follower that the core has chosen. It reports the name of the state to the core.
func (k *taker) hold(t *taking, frozen raft.FSMSnapshot) {
	h := &held{
		taking: t, taker: k, file: newSnapshotID(), size: sizeOf(frozen), frozen: frozen, limit: k.node.cfg.SnapshotStallMax,
		streamed: make(chan struct{}), streamer: k.node.streamer.signal, writer: newSignal(),
	}
	k.mu.Lock()
	k.held = h
	k.mu.Unlock()
	k.conclude(t, raft.SnapshotTaken{Take: t.ID, Snapshot: raft.Snapshot{Base: t.Base, File: h.file, Size: h.size, Held: true}})
	k.node.wg.Go(func() { k.runHeld(h) })
}

// runHeld waits until a stream begins, writes the state into the stream, and closes the state.
func (k *taker) runHeld(h *held) {
	h.goroutine.Store(goroutineID())
	err := errGoexit
	defer func() { k.endHeld(h, err) }()
	defer k.closeFrozen(h.taking, h.frozen)
	defer func() { err = k.wroteHeld(h, err) }()
	if err = h.await(pipeline.HeldTimeouts * k.node.cfg.ElectionTimeout); err == nil {
		err = errGoexit
		err = guarded(h.write)
	}
}

// wroteHeld reports the result of WriteTo to the stream. It runs before Close, so that the stream does not wait for Close. It
// returns the reason if the state was not written, and nil if it was.
func (k *taker) wroteHeld(h *held, err error) error {
	cause := context.Cause(h.ctx)
	if err != nil && cause == nil && !errors.Is(err, errNoStream) {
		k.failHeld(h, err)
	}
	err = firstError(cause, err)
	h.finish(err)
	return err
}

// endHeld frees the taker for the next frozen state. If no stream has begun, endHeld also reports the end to the core. If a
// stream has begun, the streamer reports the end.
func (k *taker) endHeld(h *held, err error) {
	k.free(h.taking)
	if !h.begin() {
		return
	}
	k.node.mailbox.report(raft.SnapshotSent{File: h.file, Err: firstError(err, errNoStream)})
}

// failHeld records the first error of WriteTo.
func (k *taker) failHeld(h *held, err error) {
	k.mu.Lock()
	first := h.taking.failed == nil
	if first {
		h.taking.failed = err
	}
	k.mu.Unlock()
	if first {
		k.failed(&SnapshotError{Op: "write", ID: h.ID, Err: err})
	}
}

// heldAs returns the frozen state with the given name for its stream. It returns nil if no such state is held, or if a stream
// of the state has already begun.
func (k *taker) heldAs(file raft.SnapshotID) *held {
	k.mu.Lock()
	h := k.held
	k.mu.Unlock()
	if h == nil || h.file != file || !h.begin() {
		return nil
	}
	return h
}

// release gives up the frozen state if the core no longer offers it.
func (k *taker) release(files []raft.SnapshotID) {
	k.mu.Lock()
	h := k.held
	k.mu.Unlock()
	for _, file := range files {
		if h != nil && h.file == file {
			h.giveUp(errHeldEnded)
		}
	}
}

// begin marks the stream as begun, and reports whether this was the first call.
func (h *held) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun {
		return false
	}
	h.begun = true
	close(h.streamed)
	return true
}

func (h *held) await(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.streamed:
		return nil
	case <-timer.C:
		return errNoStream
	case <-h.ctx.Done():
		return context.Cause(h.ctx)
	}
}

// write writes the state. It gives the state up once the FSM has written nothing for Config.SnapshotStallMax.
func (h *held) write() error {
	h.stall = time.AfterFunc(h.limit, func() {
		err := &SnapshotStalledError{Limit: h.limit, Bytes: h.taking.written.Load()}
		h.taker.failHeld(h, err)
		h.giveUp(err)
	})
	defer h.stall.Stop()
	buffered := bufio.NewWriterSize(h, pacedWriterBytes)
	if err := h.frozen.WriteTo(h.ctx, movingWriter{h, buffered}); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if n := h.taking.written.Load(); h.size >= 0 && n != h.size {
		return fmt.Errorf("WriteTo wrote %d bytes, and Size of the frozen state said %d", n, h.size)
	}
	return nil
}

// movingWriter restarts the stall timer at each Write of the FSM.
type movingWriter struct {
	held *held
	to   *bufio.Writer
}

func (w movingWriter) Write(p []byte) (int, error) {
	w.held.stall.Reset(w.held.limit)
	return w.to.Write(p)
}

// Write passes bytes on to the stream. It returns once the stream has taken all of them, or the state is given up.
func (h *held) Write(p []byte) (int, error) {
	h.stall.Stop()
	h.mu.Lock()
	h.pending = p
	h.mu.Unlock()
	h.streamer.wake()
	for {
		select {
		case <-h.writer:
		case <-h.ctx.Done():
		}
		h.mu.Lock()
		left, err := len(h.pending), context.Cause(h.ctx)
		if err != nil {
			h.pending = nil
		}
		h.mu.Unlock()
		switch {
		case err != nil:
			return len(p) - left, err
		case left == 0:
			h.taking.written.Add(int64(len(p)))
			h.stall.Reset(h.limit)
			return len(p), nil
		}
	}
}

// fill passes to the stream the bytes that WriteTo has written. The streamer calls fill.
func (h *held) fill(stream *pipeline.Outgoing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		stream.Fail(h.err)
	case len(h.pending) > 0:
		if h.pending = h.pending[stream.Fill(h.pending):]; len(h.pending) == 0 {
			h.writer.wake()
		}
	case h.written:
		stream.Filled()
	}
}

// finish reports to the stream that WriteTo has returned, and passes on the error of WriteTo.
func (h *held) finish(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written = err == nil; h.err == nil {
		h.err = err
	}
	h.streamer.wake()
}

// giveUp ends the stream and the context of WriteTo. WriteTo may still run for a while. If WriteTo has already returned,
// giveUp does nothing.
func (h *held) giveUp(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written {
		return
	}
	if h.err == nil {
		h.err = err
	}
	h.cancel(err)
	h.streamer.wake()
}
