package node

import (
	"context"
	"hash/crc32"
	"io"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

const (
	spaceEveryBytes  = 1 << 20  // bytes written between two checks of the free space, at most: the log grows meanwhile
	pacedWriterBytes = 64 << 10 // bytes that a pacedWriter passes on at once
)

// space decides whether a snapshot may take room on the disk. A snapshot never takes the reserve, so that the log can
// grow.
type space struct {
	free    func() (int64, error)
	reserve func() int64
	last    int64 // size of the last snapshot in bytes
}

func (k *taker) space() *space {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &space{free: k.node.files.FreeBytes, reserve: k.node.reserveBytes, last: k.last.bytes}
}

// reserveBytes returns how many bytes a snapshot must leave free.
func (n *Node) reserveBytes() int64 {
	return pipeline.Reserve(int64(n.cfg.SnapshotReserveBytes), n.logBytes(), n.room != nil)
}

// begin returns an error if a snapshot of the given size should not begin. A size of -1 means that the size is not known.
func (s *space) begin(size int64) error {
	free, err := s.free()
	if err != nil {
		return err
	}
	return pipeline.Space{Free: free, Reserve: s.reserve()}.Begin(size, s.last)
}

// left returns how many bytes a snapshot may still write. It returns an error if they are fewer than more.
func (s *space) left(more int64) (room int64, err error) {
	free, err := s.free()
	if err != nil {
		return 0, err
	}
	left := pipeline.Space{Free: free, Reserve: s.reserve()}
	return left.Room(), left.Left(more)
}

// sizeOf returns the size in bytes that a frozen state announces, or -1 if it announces no size.
func sizeOf(frozen raft.FSMSnapshot) (size int64) {
	size = -1
	if announced, ok := frozen.(interface{ Size() int64 }); ok {
		if guarded(func() error { size = announced.Size(); return nil }) != nil {
			return -1
		}
	}
	return size
}

// pacedWriter writes the bytes of a state to a file or a backup, no faster than Config.SnapshotBytesPerSecond. One goroutine uses
// it.
type pacedWriter struct {
	taking *taking
	node   *Node
	to     io.Writer
	space  *space // nil: the bytes take no room on this member's disk
	pace   *pipeline.Pace
	moved  func() // called when the FSM has written something, or waits for the pace

	buffer []byte
	size   int64 // bytes written to the destination
	sum    uint32
	room   int64 // bytes that may be written before the next check of the free space
	err    error
}

func newPacedWriter(t *taking, n *Node, to io.Writer, s *space) *pacedWriter {
	return &pacedWriter{
		taking: t, node: n, to: to, space: s, moved: func() {},
		pace:   pipeline.NewPace(int64(n.cfg.SnapshotBytesPerSecond), 2*pacedWriterBytes),
		buffer: make([]byte, 0, pacedWriterBytes),
	}
}

func (w *pacedWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && w.err == nil {
		took := min(len(p)-n, cap(w.buffer)-len(w.buffer))
		w.buffer = append(w.buffer, p[n:n+took]...)
		n += took
		w.moved()
		if len(w.buffer) == cap(w.buffer) {
			w.err = w.flush()
		}
	}
	return n, w.err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flush writes the buffer.
func (w *pacedWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	bytes := len(w.buffer)
	if w.err = w.wait(bytes); w.err != nil {
		return w.err
	}
	if w.err = w.takeRoom(int64(bytes)); w.err != nil {
		return w.err
	}
	_, w.err = w.to.Write(w.buffer)
	w.size += int64(bytes)
	w.sum = crc32.Update(w.sum, castagnoli, w.buffer)
	w.buffer = w.buffer[:0]
	w.taking.written.Store(w.size)
	w.moved()
	return w.err
}

// takeRoom returns an error if the given number of bytes would take the reserve. Each check of the free space finds some
// room; takeRoom checks again once that room is used up.
func (w *pacedWriter) takeRoom(bytes int64) error {
	if w.space == nil {
		return nil
	}
	if w.room < bytes {
		room, err := w.space.left(bytes)
		if err != nil {
			return err
		}
		w.room = min(room, spaceEveryBytes)
	}
	w.room -= bytes
	return nil
}

// wait waits until the pace allows the given number of bytes, or until the snapshot is given up.
func (w *pacedWriter) wait(bytes int) error {
	for {
		if err := context.Cause(w.taking.ctx); err != nil {
			return err
		}
		wait := w.pace.Next(w.node.now().Mono, bytes)
		if wait == 0 {
			return nil
		}
		if err := pauseFor(w.taking.ctx, min(wait, w.node.cfg.SnapshotStallMax/2)); err != nil {
			return err
		}
		w.moved() // the FSM does not stall while it waits here
	}
}

// pauseFor waits. If the context ends first, it returns the context's cause.
func pauseFor(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
