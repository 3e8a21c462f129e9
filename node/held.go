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

// held is a frozen state of a DurableFSM. It has no file: WriteTo writes it straight into the stream to one follower, no
// faster than the stream takes it.
type held struct {
	*taking
	taker    *taker
	file     raft.SnapshotID
	size     int64 // as announced; -1: not known
	frozen   raft.FSMSnapshot
	limit    time.Duration // Config.SnapshotStallMax
	stall    *time.Timer   // runs while WriteTo writes nothing
	streamed chan struct{} // closed when the stream begins
	streamer signal        // wakes the streamer
	writer   signal        // wakes a Write that waits

	mu      sync.Mutex
	begun   bool   // streamed is closed
	pending []byte // of a Write that waits for the stream
	written bool   // WriteTo has written everything
	err     error  // why the stream cannot be completed
}

// hold keeps a frozen state for the follower that the core has in mind, and tells the core its name.
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

// runHeld waits for the stream, writes the state into it, and closes the state.
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

// wroteHeld tells the stream how WriteTo ended, before Close, for which the stream does not wait. It returns why the state
// was not written; nil if it was.
func (k *taker) wroteHeld(h *held, err error) error {
	cause := context.Cause(h.ctx)
	if err != nil && cause == nil && !errors.Is(err, errNoStream) {
		k.failHeld(h, err)
	}
	err = firstError(cause, err)
	h.finish(err)
	return err
}

// endHeld makes room for the next frozen state. If no stream has begun, nobody else tells the core.
func (k *taker) endHeld(h *held, err error) {
	h.cancel(nil)
	k.mu.Lock()
	k.taking, k.held = nil, nil
	k.mu.Unlock()
	if !h.begin() {
		return
	}
	k.node.mailbox.report(raft.SnapshotSent{File: h.file, Err: firstError(err, errNoStream)})
}

// failHeld notes an error of WriteTo, once.
func (k *taker) failHeld(h *held, err error) {
	k.mu.Lock()
	first := h.taking.failed == nil
	if first {
		h.taking.failed = err
	}
	k.mu.Unlock()
	if first {
		k.failed(h.taking, &SnapshotError{Op: "write", ID: h.ID, Err: err})
	}
}

// heldAs returns the frozen state of that name for its stream; nil: it is not held, or a stream has had it.
func (k *taker) heldAs(file raft.SnapshotID) *held {
	k.mu.Lock()
	h := k.held
	k.mu.Unlock()
	if h == nil || h.file != file || !h.begin() {
		return nil
	}
	return h
}

// release gives a frozen state back that the core no longer offers.
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

// begin reports whether this is the first call.
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

// movingWriter notices each Write of the FSM.
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

// fill hands what WriteTo has written to the stream. The streamer calls it.
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

// finish tells the stream that WriteTo has returned.
func (h *held) finish(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written = err == nil; h.err == nil {
		h.err = err
	}
	h.streamer.wake()
}

// giveUp ends the stream and WriteTo, which may go on for a while nevertheless. It does nothing once WriteTo has
// returned.
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
