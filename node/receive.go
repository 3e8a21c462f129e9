package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// receiver is the goroutine that writes into files the snapshots that leaders stream to this member. It also deletes files,
// so that neither the loop nor the writer waits for the deletion. pipeline.Incoming decides how to treat each chunk.
type receiver struct {
	node *Node

	mu       sync.Mutex
	signal   signal        // wakes the goroutine for the queues and for asked
	asked    *raft.Receive // newest stream that the core wants, not taken yet; nil: none
	chunks   queue[raft.Message]
	bytes    int // bytes in chunks
	spare    spareBuffers
	discards queue[raft.SnapshotID]

	progress atomic.Pointer[Transfer] // for Status; Since is not set
	began    atomic.Int64             // when the present stream began, on the node's clock
	trouble  trouble                  // why the last stream did not arrive

	// Only the goroutine uses these.
	machine *pipeline.Incoming
	asking  raft.Receive        // last stream that was requested from the machine
	spool   raft.SnapshotWriter // unfinished file; nil: none
	failed  error               // last error of the storage: the reason if the machine refuses the stream now
}

func newReceiver(n *Node) *receiver {
	s := newSignal()
	return &receiver{
		node: n, signal: s, chunks: queue[raft.Message]{signal: s}, discards: queue[raft.SnapshotID]{signal: s},
		machine: pipeline.NewIncoming(n.identity.self, n.streamLimits()),
	}
}

// receive requests a stream. The request replaces an earlier one. The loop calls receive for the core.
func (r *receiver) receive(want raft.Receive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = &want
	r.signal.wake()
}

// discard has the goroutine delete files.
func (r *receiver) discard(files []raft.SnapshotID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range files {
		r.discards.add(file)
	}
}

// chunk queues a copy of a received chunk. It reports false if there was no room. The sender repeats lost chunks.
func (r *receiver) chunk(m raft.Message) bool {
	c := m.Body.(raft.SnapshotChunk)
	size := len(c.Data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node.files == nil || r.bytes > 0 && r.bytes+size > streamWindowBytes || r.chunks.len() >= r.node.cfg.ReceivedMax {
		return false
	}
	r.bytes += size
	c.Data = append(r.spare.take(size), c.Data...)
	m.Body = c
	r.chunks.add(m)
	return true
}

// wrote keeps the buffer of a written chunk for later chunks. If no stream is open, it drops all buffers.
func (r *receiver) wrote(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spool == nil {
		r.spare = spareBuffers{}
		return
	}
	r.spare.give(data)
}

// spareBuffers are the buffers of written chunks, kept for later chunks. Without them, a snapshot of many GiB would
// leave as many bytes of garbage, and with a large FSM the heap grows far before the next garbage collection.
type spareBuffers struct {
	buffers [][]byte
	bytes   int // capacity of all buffers
}

// take returns an empty buffer of at least size bytes, or nil if there is none. It drops buffers that are too small, and
// buffers of more than twice the size. The reason for the second limit: the limit of the queue counts the bytes of chunks,
// not the capacity of their buffers.
func (s *spareBuffers) take(size int) []byte {
	for last := len(s.buffers) - 1; last >= 0; last-- {
		buf := s.buffers[last]
		s.buffers, s.bytes = s.buffers[:last], s.bytes-cap(buf)
		if size <= cap(buf) && cap(buf) <= 2*size {
			return buf
		}
	}
	return nil
}

// give keeps a buffer, unless all of them together would exceed a window of chunks.
func (s *spareBuffers) give(buf []byte) {
	if cap(buf) > 0 && s.bytes+cap(buf) <= streamWindowBytes {
		s.buffers, s.bytes = append(s.buffers, buf[:0]), s.bytes+cap(buf)
	}
}

// receiverWork is the next work of the receiver, with at most one chunk.
type receiverWork struct {
	asked    *raft.Receive
	chunk    *raft.Message
	discards []raft.SnapshotID
}

func (r *receiver) take() (w receiverWork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.asked, r.asked = r.asked, nil
	w.discards = append(w.discards, r.discards.waiting()...)
	r.discards.drop(len(w.discards))
	if waiting := r.chunks.waiting(); len(waiting) > 0 {
		m := waiting[0]
		w.chunk = &m
		r.bytes -= len(m.Body.(raft.SnapshotChunk).Data)
		r.chunks.drop(1)
	}
	return w
}

func (r *receiver) run() {
	defer r.abort()
	r.node.serve(r.signal, func() raft.Time {
		r.work(r.take())
		return r.machine.Wake()
	})
}

func (r *receiver) work(w receiverWork) {
	for _, file := range w.discards {
		r.delete(file)
	}
	if w.asked != nil {
		r.asking = *w.asked
		space, err := r.space()
		r.failed = err
		if size := max(w.asked.Snapshot.Size, 0); err == nil {
			r.failed = space.Left(size)
		}
		r.do(r.machine.Receive(r.node.now().Mono, *w.asked, space.Room()))
	}
	if w.chunk != nil {
		r.do(r.machine.Chunk(r.node.now().Mono, *w.chunk))
		r.wrote(w.chunk.Body.(raft.SnapshotChunk).Data)
	}
	r.do(r.machine.Expire(r.node.now().Mono))
	r.publish()
}

// delete deletes a file. If it fails, the next start deletes the file.
func (r *receiver) delete(file raft.SnapshotID) {
	if err := guarded(func() error { return r.node.files.DiscardSnapshot(file) }); err != nil {
		r.node.logger.log(hclog.Warn, "a snapshot that is no longer needed was not deleted", "error", err)
	}
	r.machine.Discarded(file)
}

// do carries out the work that the machine asks for, and reports the result to the machine, until the machine asks for
// nothing more. do sends the answers first, because they acknowledge only bytes that are already written.
func (r *receiver) do(w pipeline.Work) {
	for {
		if w.Abort {
			r.abort()
		}
		r.node.senders.send(w.Send)
		r.noteRefusals(w.Send)
		if w.Arrived != nil {
			r.trouble.set(nil)
			r.node.counters.snapshots.received.Add(1)
			r.node.logger.log(hclog.Info, "a snapshot was received", "entry", w.Arrived.Snapshot.ID.String(),
				"from", string(w.Arrived.From.ID), "bytes", w.Arrived.Snapshot.Size)
			r.node.mailbox.report(*w.Arrived)
		}
		switch {
		case w.Open != nil:
			w = r.machine.Opened(r.refusal(r.open(*w.Open)))
		case w.Write != nil:
			w = r.written(w.Write)
		case w.Finish != nil:
			w = r.machine.Finished(r.refusal(r.finish(*w.Finish)))
		default:
			r.failed = nil
			return
		}
	}
}

func (r *receiver) open(s raft.Snapshot) error {
	r.began.Store(int64(r.node.now().Mono))
	r.node.logger.log(hclog.Info, "a snapshot is received", "entry", s.ID.String(), "bytes", s.Size)
	return guarded(func() (err error) { r.spool, err = r.node.files.CreateSnapshot(s.File); return err })
}

func (r *receiver) written(data []byte) pipeline.Work {
	err := guarded(func() error {
		_, err := r.spool.Write(data)
		return err
	})
	r.node.counters.snapshotBytesReceived.Add(uint64(len(data)))
	space, unknown := r.space()
	why := r.refusal(firstError(err, unknown))
	if why == 0 {
		r.failed = space.Left(0)
	}
	return r.machine.Written(space.Room(), why)
}

func (r *receiver) finish(s raft.Snapshot) error {
	err := guarded(func() error { return r.spool.Finish(s) })
	if err == nil {
		r.spool = nil
	}
	return err
}

// abort deletes the unfinished file, if there is one.
func (r *receiver) abort() {
	if r.spool != nil {
		_ = guarded(r.spool.Abort) // Load deletes what is left
		r.spool = nil
		r.wrote(nil)
	}
}

// space returns the room on the disk.
func (r *receiver) space() (space pipeline.Space, err error) {
	err = guarded(func() error {
		free, err := r.node.files.FreeBytes()
		space = pipeline.Space{Free: free, Reserve: r.node.reserveBytes()}
		return err
	})
	if err != nil {
		return pipeline.Space{Reserve: 1}, err
	}
	return space, nil
}

// refusal returns the refusal to send if the storage returned err, or 0 if err is nil.
func (r *receiver) refusal(err error) raft.StreamRefusal {
	r.failed = err
	var later *raft.LaterVersionError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &later):
		return raft.StreamLaterFormat
	case errors.Is(err, syscall.ENOSPC):
		return raft.StreamNoSpace
	}
	return raft.StreamFailed
}

// noteRefusals counts refusals of a stream and keeps the reason for Status. It also logs the reason, but not more often than
// once in an interval.
func (r *receiver) noteRefusals(answers []raft.Message) {
	for _, m := range answers {
		why := m.Body.(raft.SnapshotProgress).Refusal
		if why == 0 || why == raft.StreamUnknown || why == raft.StreamSuperseded {
			continue
		}
		r.node.counters.snapshots.refused.Add(1)
		err := &SnapshotStreamError{
			From: r.asking.From.ID, To: r.node.cfg.ID, ID: r.asking.Snapshot.ID, Err: firstError(r.failed, why),
		}
		if r.trouble.set(err) {
			r.node.logger.log(hclog.Warn, "a snapshot was not received", "error", err)
		}
	}
}

func (r *receiver) publish() {
	from, bytes, ok := r.machine.Receiving()
	if !ok {
		r.progress.Store(nil)
		return
	}
	now := &Transfer{ID: from.Snapshot.ID, Peer: from.From.ID, Done: bytes, Total: from.Snapshot.Size}
	r.progress.Store(now.follow(r.progress.Load(), r.node.now().Mono))
}
