package pipeline

import (
	"hash/crc32"
	"slices"

	"github.com/coxswain/raft"
)

// Outgoing is the sending side of one stream. It decides when to send which bytes. Its host reads, sends, and keeps the time:
//
//	call Progress with every answer that waits
//	ask := o.Next(now)
//	ask.End:    close the file or the freeze, report SnapshotSent
//	ask.Chunk:  read the bytes, call Chunk, send the message that it returns
//	otherwise:  wait until ask.Wake, or for a call of another method
//
// The bytes of a held freeze come from its WriteTo, through Fill. Outgoing keeps one window of these bytes, so that a broken
// stream can be resumed.
//
// Outgoing adapts to slow links as TCP does. It begins with few bytes in flight, and sends more as the receiver acknowledges
// them. It waits for an acknowledgement four times as long as the last one took. Then it sends again from the first byte that
// was not acknowledged. Only this timeout counts as a loss. A repeated acknowledgement does not count, because it may be the
// answer to a repeated chunk.
type Outgoing struct {
	limits   StreamLimits
	envelope raft.Message // From, To and Cluster of every chunk
	file     raft.SnapshotID
	size     int64  // -1: not known yet
	sum      uint32 // once the size is known
	kept     *kept  // of a held freeze; nil: the bytes are in a file
	pace     *Pace
	paid     int // bytes that the pace has allowed and no chunk has used yet

	ended bool
	why   error // why it ended; nil: the receiver has the snapshot

	resumed  int       // how often the receiver already had bytes when it answered the offer
	begun    bool      // the receiver has answered the offer since the last break
	offered  raft.Time // when the wait for that answer began
	acked    int64     // number of bytes that the receiver has
	sent     int64     // place of the next chunk; at least acked
	last     bool      // the last chunk is in flight
	window   int64     // bytes that may be in flight now
	owed     bool      // the receiver owes an acknowledgement
	advanced raft.Time // when acked last rose, or the receiver began to owe an acknowledgement
	lacking  raft.Time // since when the receiver has acknowledged none of the bytes in flight, breaks included; 0: none are
	repeat   raft.Time // when to send again from acked on
	patience raft.Time // time between a chunk and its repetition
	doubted  raft.Time // when the receiver of a freeze asked for bytes that are no longer kept; 0: it has shown since that it has them

	timedUpTo int64     // the chunk that ends here is timed; 0: none
	timedAt   raft.Time // when it left
}

// NewOutgoing returns the stream for an offer. The offer is a message with an InstallSnapshot.
func NewOutgoing(now raft.Time, offer raft.Message, limits StreamLimits) *Outgoing {
	s := offer.Body.(raft.InstallSnapshot).Snapshot
	if limits.BytesPerSecond > 0 { // so that a wait for the pace does not look like a stall
		paced := limits.BytesPerSecond * limits.ElectionTimeout.Milliseconds() / 1000
		limits.ChunkBytes = int(min(int64(limits.ChunkBytes), max(paced, pacedChunkBytesMin)))
	}
	o := &Outgoing{
		limits: limits, envelope: raft.Message{From: offer.From, To: offer.To, Cluster: offer.Cluster},
		file: s.File, size: s.Size, sum: s.Sum, pace: NewPace(limits.BytesPerSecond, burstChunks*limits.ChunkBytes),
	}
	if s.Held {
		o.size, o.kept = -1, &kept{chunkBytes: limits.ChunkBytes, bytesMax: limits.WindowBytes}
	}
	o.await(now)
	return o
}

// Carries reports whether the offer belongs to this stream: the same peer and the same bytes. If not, the host ends this
// stream and begins another.
func (o *Outgoing) Carries(offer raft.Message) bool {
	return offer.To == o.envelope.To && offer.Body.(raft.InstallSnapshot).Snapshot.File == o.file
}

// Acknowledged returns how many bytes the receiver has, and the size of the snapshot. The size is -1 if it is not known yet.
func (o *Outgoing) Acknowledged() (bytes, size int64) { return o.acked, o.size }

// Resumed returns how often the stream was resumed after a break.
func (o *Outgoing) Resumed() int { return o.resumed }

// Ask is what an Outgoing wants next.
type Ask struct {
	Chunk bool // send the bytes from At to At+Bytes
	At    int64
	Bytes int       // 0: the last chunk is empty
	End   bool      // the stream has ended
	Err   error     // with End: nil if the receiver has the whole snapshot
	Wake  raft.Time // with neither: ask again at this time at the latest; 0: only after another call
}

// Next returns what the host must do now. It may be called at any time.
func (o *Outgoing) Next(now raft.Time) Ask {
	o.expire(now)
	if o.ended {
		return Ask{End: true, Err: o.why}
	}
	wake := o.deadline()
	if bytes, ready := o.chunk(); ready {
		if o.paid < bytes {
			if wait := o.pace.Next(now, bytes-o.paid); wait > 0 {
				return Ask{Wake: earliest(wake, now+raft.Time(wait))}
			}
			o.paid = bytes
		}
		return Ask{Chunk: true, At: o.sent, Bytes: bytes}
	}
	return Ask{Wake: wake}
}

func earliest(a, b raft.Time) raft.Time {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// chunk returns the size of the next chunk, and whether the host may send it now.
func (o *Outgoing) chunk() (bytes int, ready bool) {
	if !o.begun || o.last {
		return 0, false
	}
	bytesMax, whole := int(min(int64(o.limits.ChunkBytes), o.window)), true
	if o.kept == nil {
		bytes = int(min(int64(bytesMax), o.size-o.sent))
	} else {
		bytes, whole = o.kept.next(o.sent)
		whole = whole || o.size >= 0 || bytes >= bytesMax
		bytes = min(bytes, bytesMax)
	}
	return bytes, whole && o.sent-o.acked+int64(bytes) <= o.window
}

// Chunk returns the message for the chunk that Next asked for. data holds the bytes of the chunk from the file; for a held
// freeze, data is nil. Chunk returns false if the stream has changed since that call of Next. Then call Next again.
func (o *Outgoing) Chunk(now raft.Time, at int64, data []byte) (raft.Message, bool) {
	bytes, ready := o.chunk()
	if o.ended || !ready || at != o.sent {
		return raft.Message{}, false
	}
	if o.kept != nil {
		data = o.kept.read(at, bytes)
	}
	if len(data) != bytes {
		return raft.Message{}, false
	}
	if !o.owed {
		o.owed, o.advanced, o.repeat = true, now, now+o.patience
	}
	if o.lacking == 0 {
		o.lacking = now
	}
	o.sent += int64(bytes)
	o.paid = 0
	c := raft.SnapshotChunk{File: o.file, At: at, Data: data}
	if o.sent == o.size {
		o.last, c.Last, c.Size, c.Sum = true, true, o.size, o.sum
	}
	if o.timedUpTo == 0 && bytes > 0 {
		o.timedUpTo, o.timedAt = o.sent, now
	}
	m := o.envelope
	m.Body = c
	return m, true
}

// deadline returns the time at which to call Next again if nothing else happens, or 0 for never.
func (o *Outgoing) deadline() raft.Time {
	if o.owed {
		return min(o.repeat, o.patienceEnds())
	}
	return o.patienceEnds()
}

// patienceEnds returns the time at which the sender gives up the stream, or 0 for never. After a break, the receiver of a
// file gets more time, but the receiver of a freeze does not. If the receiver has acknowledged all bytes of a freeze, the
// freeze is no longer needed.
func (o *Outgoing) patienceEnds() raft.Time {
	at := raft.Time(0)
	switch {
	case !o.begun:
		at = o.offered + o.limits.timeouts(offerTimeouts)
	case o.owed:
		at = o.advanced + o.limits.timeouts(stallTimeouts)
	}
	if o.kept != nil && o.lacking != 0 && o.acked != o.size {
		at = earliest(at, o.lacking+o.limits.timeouts(HeldTimeouts))
	}
	return at
}

// expire gives up the stream, or sends bytes again, if it is time to do so.
func (o *Outgoing) expire(now raft.Time) {
	switch end := o.patienceEnds(); {
	case o.ended:
	case end != 0 && now >= end:
		o.end(ErrStalled)
	case o.owed && now >= o.repeat:
		o.rewind(o.acked)
		o.patience = min(2*o.patience, o.limits.timeouts(stallTimeouts))
		o.repeat = now + o.patience
	}
}

// rewind makes the next chunk begin at the given byte, which the receiver lacks. It also shrinks the window.
func (o *Outgoing) rewind(at int64) {
	o.acked, o.sent, o.last = at, at, false
	o.window = int64(min(o.limits.ChunkBytes, windowBytesMin))
}

// Progress takes an answer of a receiver. It ignores answers to other streams.
func (o *Outgoing) Progress(now raft.Time, m raft.Message) {
	p, ok := m.Body.(raft.SnapshotProgress)
	if !ok || o.ended || m.From != o.envelope.To || m.To != o.envelope.From || p.File != o.file {
		return
	}
	switch {
	case p.Refusal != 0:
		o.end(p.Refusal)
	case p.Done && o.size >= 0:
		o.end(nil)
	case p.Done || p.At < 0 || p.At > o.known():
	case p.Begin:
		o.begin(now, p.At)
	case o.begun && p.At > o.acked:
		o.advance(now, p.At)
	}
}

// known returns how many bytes exist so far.
func (o *Outgoing) known() int64 {
	if o.size < 0 {
		return o.kept.end()
	}
	return o.size
}

// begin continues at the byte that the receiver names. If the receiver lost bytes in a restart, it gets them again.
func (o *Outgoing) begin(now raft.Time, at int64) {
	if o.kept != nil && at < o.kept.start {
		o.doubt(now)
		return
	}
	o.doubted = 0
	if at > o.acked {
		o.lacking = 0
	}
	switch {
	case !o.begun || at < o.acked:
		if !o.begun && at > 0 {
			o.resumed++
		}
		o.begun, o.owed = true, false
		o.rewind(at)
		o.forgetTime()
		o.keepFrom(at)
	case at > o.acked:
		o.advance(now, at)
	}
}

// doubt handles an answer to the offer of a freeze, if the answer asks for bytes that this member no longer keeps. The answer
// may be old and delayed. If the receiver has really lost the bytes, it repeats this answer at each offer, and acknowledges
// nothing meanwhile.
func (o *Outgoing) doubt(now raft.Time) {
	switch {
	case o.doubted == 0:
		o.doubted = now
	case now-o.doubted >= o.limits.timeouts(1):
		o.end(ErrRewound)
	}
}

// advance records that the receiver has the bytes before at.
func (o *Outgoing) advance(now raft.Time, at int64) {
	o.doubted = 0
	o.window = min(o.window+at-o.acked, int64(o.limits.WindowBytes))
	o.acked = at
	if at > o.sent { // it has bytes that were sent before a rewind
		o.sent, o.last = at, false
	}
	if o.timedUpTo != 0 && at >= o.timedUpTo {
		took := now - o.timedAt
		o.patience = min(max(4*took, o.limits.timeouts(1)), o.limits.timeouts(stallTimeouts))
		o.timedUpTo = 0
	}
	o.owed, o.advanced, o.repeat = o.sent > at || o.last, now, now+o.patience
	if o.lacking = 0; o.owed {
		o.lacking = now
	}
	o.keepFrom(at)
}

func (o *Outgoing) keepFrom(at int64) {
	if o.kept != nil {
		o.kept.drop(at)
	}
}

func (o *Outgoing) forgetTime() { o.timedUpTo, o.patience = 0, o.limits.timeouts(1) }

// Lost reports that the connection to the peer broke, or that the host could not send a chunk. The stream continues when the
// receiver answers the next offer.
func (o *Outgoing) Lost(now raft.Time) {
	if o.begun {
		o.await(now)
	}
}

// await waits for an answer to the offer.
func (o *Outgoing) await(now raft.Time) {
	o.begun, o.owed, o.offered = false, false, now
	o.rewind(o.acked)
	o.forgetTime()
}

// Fill takes the next bytes from the WriteTo of a held freeze. It takes as many as there is room for, and returns their
// number. While there is no room, the host blocks WriteTo.
func (o *Outgoing) Fill(p []byte) int {
	if o.ended {
		return 0
	}
	n := o.kept.fill(p)
	o.sum = crc32.Update(o.sum, castagnoli, p[:n])
	return n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Room returns how many bytes Fill takes now.
func (o *Outgoing) Room() int {
	if o.ended || o.kept == nil {
		return 0
	}
	return o.kept.bytesMax - o.kept.bytes
}

// Filled reports that WriteTo has returned, so that the size of the snapshot is known.
func (o *Outgoing) Filled() {
	if !o.ended {
		o.size = o.kept.end()
	}
}

// Fail ends the stream because the sender cannot read the snapshot.
func (o *Outgoing) Fail(err error) { o.end(err) }

func (o *Outgoing) end(why error) {
	if !o.ended {
		o.ended, o.why, o.kept = true, why, nil
	}
}

// kept holds the bytes of a held freeze that the sender may have to send again. All chunks but the last are full.
type kept struct {
	chunkBytes int
	bytesMax   int
	start      int64 // place of the first byte
	bytes      int
	chunks     [][]byte
}

func (k *kept) end() int64 { return k.start + int64(k.bytes) }

// fill appends as many bytes of p as there is room for, and returns their number.
func (k *kept) fill(p []byte) (n int) {
	p = p[:min(len(p), k.bytesMax-k.bytes)]
	for n < len(p) {
		if i := len(k.chunks) - 1; i < 0 || len(k.chunks[i]) == cap(k.chunks[i]) {
			k.chunks = append(k.chunks, make([]byte, 0, k.chunkBytes))
		}
		open := &k.chunks[len(k.chunks)-1]
		took := min(len(p)-n, cap(*open)-len(*open))
		*open = append(*open, p[n:n+took]...)
		n += took
	}
	k.bytes += n
	return n
}

// next returns how many bytes follow in the chunk that holds the byte at, counted from that byte. whole reports whether that
// chunk is full.
func (k *kept) next(at int64) (bytes int, whole bool) {
	i, offset := k.find(at)
	if i == len(k.chunks) {
		return 0, false
	}
	return len(k.chunks[i]) - offset, len(k.chunks[i]) == cap(k.chunks[i])
}

// find returns the index of the chunk that holds the byte at, and the offset of the byte in that chunk.
func (k *kept) find(at int64) (i, offset int) {
	offset = int(at - k.start)
	for i < len(k.chunks) && offset >= len(k.chunks[i]) {
		offset -= len(k.chunks[i])
		i++
	}
	return i, offset
}

func (k *kept) read(at int64, bytes int) []byte {
	i, offset := k.find(at)
	if bytes == 0 {
		return nil
	}
	return k.chunks[i][offset : offset+bytes : offset+bytes]
}

// drop drops the bytes before at.
func (k *kept) drop(at int64) {
	i, offset := k.find(at)
	k.chunks = slices.Delete(k.chunks, 0, i)
	if offset > 0 {
		k.chunks[0] = k.chunks[0][offset:]
	}
	k.bytes -= int(at - k.start)
	k.start = at
}
