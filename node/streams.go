package node

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

const (
	streamChunkBytes     = 256 << 10 // bytes of one chunk, unless the transport carries fewer
	streamBulkChunkBytes = 64 << 10  // bytes of one chunk on the bulk lane, where appends wait for it
	streamReportBytes    = 1 << 20   // acknowledged bytes between two reports to the core
	streamWindowBytes    = 4 << 20   // bytes of chunks that are sent and not acknowledged, or received and not written
)

// streamLimits returns the bounds of the streams from and to this member.
func (n *Node) streamLimits() pipeline.StreamLimits {
	l := pipeline.StreamLimits{
		ElectionTimeout: n.cfg.ElectionTimeout, ChunkBytes: streamBulkChunkBytes, WindowBytes: streamWindowBytes,
		BytesPerSecond: int64(n.cfg.SnapshotBytesPerSecond), BytesMax: raft.LimitBytesMax,
	}
	if most := chunkLimitOf(n.transport); most > 0 {
		l.ChunkBytes = min(streamChunkBytes, most)
	}
	return l
}

// chunkLimitOf returns how many bytes of a snapshot one message on the snapshot lane carries. It returns 0 if there is no
// such lane.
func chunkLimitOf(t raft.Transport) int {
	if c, ok := t.(raft.SnapshotCarrier); ok {
		return c.ChunkBytesMax()
	}
	return 0
}

// streamer is the goroutine that sends the snapshots that the core offers, one stream at a time. pipeline.Outgoing
// decides which bytes to send, and when. The core repeats its offers, so the next stream begins soon after one has ended.
type streamer struct {
	node *Node

	mu      sync.Mutex
	signal  signal // of the queues
	asked   queue[streamAsked]
	answers queue[raft.Message] // SnapshotProgress
	lost    queue[raft.Peer]

	progress atomic.Pointer[Transfer] // for Status; Since is not set
	began    atomic.Int64             // when the present stream began, on the node's clock
	trouble  trouble                  // why the last stream did not arrive
	renewing atomic.Bool              // renew waits for a snapshot

	// Only the goroutine uses these.
	limits  pipeline.StreamLimits
	lane    raft.Lane
	current *stream
	ended   streamEnd // the last stream that arrived completely
}

// streamAsked is a request of the core: an offer begins a stream, and a later stop ends it.
type streamAsked struct {
	offer raft.Message
	stop  raft.Peer // zero: it is an offer
}

// stream is the running stream.
type stream struct {
	*pipeline.Outgoing
	to       raft.Peer
	snapshot raft.Snapshot
	from     raft.SnapshotReader // file of the snapshot; nil: it is held
	held     *held               // frozen state; nil: the snapshot has a file
	chunk    []byte              // buffer, reused unless the lane keeps what it sends
	reported int64               // acknowledged bytes that were reported to the core
}

// streamEnd names a stream that has arrived completely.
type streamEnd struct {
	to   raft.Peer
	file raft.SnapshotID
	at   raft.Time
}

// streamQueueMax bounds each queue of a streamer. If a queue is full, the streamer drops messages; their senders repeat them.
const streamQueueMax = 1024

func newStreamer(n *Node) *streamer {
	s := newSignal()
	out := &streamer{
		node: n, signal: s, asked: queue[streamAsked]{signal: s}, answers: queue[raft.Message]{signal: s},
		lost: queue[raft.Peer]{signal: s}, limits: n.streamLimits(), lane: raft.LaneBulk,
	}
	if chunkLimitOf(n.transport) > 0 {
		out.lane = raft.LaneSnapshot
	}
	return out
}

// offered queues an InstallSnapshot for the streamer. senders.send calls offered for every InstallSnapshot that this member
// sends.
func (s *streamer) offered(m raft.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.offer(streamAsked{offer: m}, streamQueueMax)
}

// answered queues a SnapshotProgress for the streamer, and reports whether there was room. It is called for every
// SnapshotProgress that arrives.
func (s *streamer) answered(m raft.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.offer(m, streamQueueMax)
}

// stop ends the streams to the given peers, because these streams are no longer needed. The loop calls stop before it sends
// the offers of the same Output.
func (s *streamer) stop(peers []raft.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range peers {
		s.asked.add(streamAsked{stop: p})
	}
}

// disconnected records that the connection to a peer has broken.
func (s *streamer) disconnected(p raft.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost.offer(p, streamQueueMax)
}

func (s *streamer) run() {
	defer s.close()
	s.node.serve(s.signal, s.advance)
}

// advance sends the messages that may leave now. It returns the time of its next call, or 0 if only the signal should cause
// the next call.
func (s *streamer) advance() raft.Time {
	for {
		select {
		case <-s.node.stop:
			return 0
		default:
		}
		s.takeAll()
		s.publish()
		if s.current == nil {
			return 0
		}
		if s.current.held != nil {
			s.current.held.fill(s.current.Outgoing)
		}
		ask := s.current.Next(s.node.now().Mono)
		switch {
		case ask.End:
			s.end(ask.Err)
		case ask.Chunk:
			s.send(ask)
		default:
			return ask.Wake
		}
	}
}

// takeAll empties the queues. It passes answers to the present stream and ends streams. If no stream runs, it begins the
// first offered stream.
func (s *streamer) takeAll() {
	s.mu.Lock()
	lost := append([]raft.Peer(nil), s.lost.waiting()...)
	answers := append([]raft.Message(nil), s.answers.waiting()...)
	asked := append([]streamAsked(nil), s.asked.waiting()...)
	s.lost.drop(len(lost))
	s.answers.drop(len(answers))
	s.asked.drop(len(asked))
	s.mu.Unlock()
	now := s.node.now().Mono
	for _, m := range answers {
		if s.current != nil {
			s.progressed(now, m)
		}
	}
	for _, p := range lost {
		if s.current != nil && s.current.to == p {
			s.current.Lost(now)
		}
	}
	for _, a := range asked {
		if a.stop != (raft.Peer{}) {
			s.stopped(now, a.stop)
		} else {
			s.consider(now, a.offer)
		}
	}
}

// progressed passes an answer of the receiver to the present stream.
func (s *streamer) progressed(now raft.Time, m raft.Message) {
	c := s.current
	resumed := c.Resumed()
	c.Progress(now, m)
	if c.Resumed() > resumed {
		done, _ := c.Acknowledged()
		s.node.counters.snapshots.resumed.Add(1)
		s.node.logger.log(hclog.Info, "the sending of a snapshot resumes", "entry", c.snapshot.ID.String(),
			"to", string(c.to.ID), "at", done, "bytes", c.snapshot.Size)
	}
}

// stopped ends the stream to a peer. If the last answer has already arrived, the stream ends as complete.
func (s *streamer) stopped(now raft.Time, peer raft.Peer) {
	if s.current == nil || s.current.to != peer {
		return
	}
	if ask := s.current.Next(now); ask.End {
		s.end(ask.Err)
		return
	}
	s.close()
}

// consider begins the stream of an offer, unless another stream runs. If the offer comes just after the end of its own
// stream, consider ignores it, because the acknowledgement of the peer's core is still on its way.
func (s *streamer) consider(now raft.Time, offer raft.Message) {
	snapshot := offer.Body.(raft.InstallSnapshot).Snapshot
	justSent := s.ended.to == offer.To && s.ended.file == snapshot.File && now-s.ended.at < raft.Time(s.limits.ElectionTimeout)
	if s.current != nil && s.current.to == offer.To && !s.current.Carries(offer) {
		s.close()
	}
	if s.current != nil || justSent {
		return
	}
	next := &stream{to: offer.To, snapshot: snapshot}
	if err := s.open(next); err != nil {
		s.report(offer.To, snapshot, err)
		return
	}
	next.Outgoing = pipeline.NewOutgoing(now, offer, s.limits)
	s.began.Store(int64(now))
	s.current = next
	s.node.logger.log(hclog.Info, "a snapshot is sent", "entry", snapshot.ID.String(), "to", string(offer.To.ID), "bytes", snapshot.Size)
}

// open finds the bytes of a stream.
func (s *streamer) open(next *stream) error {
	if next.snapshot.Held {
		if next.held = s.node.taker.heldAs(next.snapshot.File); next.held == nil {
			return errHeldEnded
		}
		return nil
	}
	return guarded(func() (err error) { next.from, err = s.node.files.OpenSnapshot(next.snapshot.File); return err })
}

// send reads and sends the next chunk. It ignores an error of the transport: if the chunk is lost, the streamer sends it
// again later.
func (s *streamer) send(ask pipeline.Ask) {
	data, err := s.read(ask)
	if err != nil {
		s.current.Fail(&StorageError{Op: "read the snapshot", Err: err})
		return
	}
	m, ok := s.current.Chunk(s.node.now().Mono, ask.At, data)
	if !ok {
		return
	}
	s.node.counters.snapshotBytesSent.Add(uint64(ask.Bytes))
	if s.lane == raft.LaneBulk {
		s.node.senders.send([]raft.Message{m})
		return
	}
	batch := []raft.Message{m}
	if guarded(func() error { return s.node.transport.Send(m.To, s.lane, batch) }) != nil {
		s.node.counters.droppedSend.Add(1)
		return
	}
	s.node.counters.sent(batch)
}

// read reads the bytes of a chunk from the file. For a held state it returns no bytes, because the stream already has them.
func (s *streamer) read(ask pipeline.Ask) (data []byte, err error) {
	c := s.current
	if c.held != nil || ask.Bytes == 0 {
		return nil, nil
	}
	if s.lane == raft.LaneBulk || cap(c.chunk) < ask.Bytes {
		c.chunk = make([]byte, ask.Bytes) // the bulk lane keeps it until it has left
	}
	data = c.chunk[:ask.Bytes]
	err = guarded(func() error { _, err := c.from.ReadAt(data, ask.At); return err })
	return data, err
}

// end ends the present stream and reports the result to the core.
func (s *streamer) end(err error) {
	c := s.current
	s.close()
	if err == nil {
		s.ended = streamEnd{c.to, c.snapshot.File, s.node.now().Mono}
	}
	s.report(c.to, c.snapshot, err)
}

func (s *streamer) report(to raft.Peer, snapshot raft.Snapshot, err error) {
	n := s.node
	switch {
	case err == nil:
		s.trouble.set(nil)
		n.counters.snapshots.sent.Add(1)
		n.logger.log(hclog.Info, "a snapshot was sent", "entry", snapshot.ID.String(), "to", string(to.ID))
	case errors.Is(err, raft.ErrClosed) || errors.Is(err, errHeldEnded): // a new offer follows
	case s.trouble.set(&SnapshotStreamError{From: n.cfg.ID, To: to.ID, ID: snapshot.ID, Err: err}):
		n.logger.log(hclog.Warn, "a snapshot was not sent; the node tries again", "entry", snapshot.ID.String(), "to", string(to.ID), "error", err)
	}
	var damaged *raft.CorruptError
	if errors.As(err, &damaged) {
		s.renew()
	}
	n.mailbox.report(raft.SnapshotSent{To: to, File: snapshot.File, Err: err})
}

// renew takes a new snapshot because the file of the last snapshot is damaged. If nothing was applied since that snapshot, no
// new snapshot is taken. The state in memory is intact. Without a new snapshot, the leader could send none to a follower
// before the next snapshot is due, and this member could not start again.
func (s *streamer) renew() {
	n := s.node
	if !s.renewing.CompareAndSwap(false, true) {
		return
	}
	n.wg.Go(func() {
		defer s.renewing.Store(false)
		ctx, cancel := n.context()
		defer cancel(nil)
		_, _ = n.Snapshot(ctx) // Status shows the error
	})
}

// close ends the present stream, if there is one.
func (s *streamer) close() {
	c := s.current
	s.current = nil
	switch {
	case c == nil:
	case c.held != nil:
		c.held.giveUp(errStreamOver)
	default:
		_ = guarded(c.from.Close)
	}
}

func (s *streamer) publish() {
	c := s.current
	if c == nil {
		s.progress.Store(nil)
		return
	}
	done, total := c.Acknowledged()
	if done-c.reported >= streamReportBytes {
		c.reported = done
		s.node.mailbox.report(raft.SnapshotSending{To: c.to, File: c.snapshot.File, Bytes: done})
	}
	if total < 0 {
		total = c.snapshot.Size
	}
	now := &Transfer{ID: c.snapshot.ID, Peer: c.to.ID, Done: done, Total: total}
	s.progress.Store(now.follow(s.progress.Load(), s.node.now().Mono))
}
