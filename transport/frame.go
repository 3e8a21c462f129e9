package transport

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/coxswain/raft"
)

// A frame, little endian:
//
//	length of what follows this header uint32 | group uint32 (0) | type uint8 | length of meta uint32 |
//	meta (msgpack) | CRC-32C of header and meta | tail: entry records, each with its own checksum, or
//	the data of a chunk, of a request or of an answer | CRC-32C of those bytes
const (
	frameHeaderBytes = 4 + 4 + 1 + 4
	frameSumBytes    = 4
)

// Limits of the bytes after a frame's header. The reader checks them before it allocates memory. Options.FrameBytesMax is the
// limit of an append.
const (
	smallBytesMax     = 16 << 10  // a frame without lists and entries, and the meta of a frame with entries
	listBytesMax      = 512 << 10 // a frame with a member list: 255 members of the largest size fit
	bootstrapBytesMax = 656 << 10 // a frame with entry 1 or a snapshot's description: 255 members of the largest size fit
	chunkBytesMax     = 1 << 20   // the data of one SnapshotChunk
	// FrameBytesMax is the default of Options.FrameBytesMax. Every append that a Config allows fits: many small
	// entries, or a single entry of raft.EntryDataBytesMax.
	FrameBytesMax = raft.EntryDataBytesMax + 8<<20
	// appendOverheadMax is the maximum size of an append's frame, without the records of its entries.
	appendOverheadMax = smallBytesMax + frameSumBytes
	// appendBytesLeast is how many bytes of records an append may have with the smallest Options.FrameBytesMax.
	appendBytesLeast = frameBytesLeast - appendOverheadMax
	frameBytesLeast  = 64 << 10
	// forwardMetaMax leaves room for as many bytes of data as an append has of records.
	forwardMetaMax = appendOverheadMax - 2*frameSumBytes
	// growBytes is the size of the first buffer of a frame, whatever length the frame declares. When the buffer is full, it
	// grows by growFactor. So for a frame of up to 2 MiB, at most growBytes are copied.
	growBytes  = 128 << 10
	growFactor = 16
	// trickleBytes is how many bytes of a message must arrive within twice Options.WriteTimeout. This rate is a sixteenth of
	// the rate below which the sender gives up.
	trickleBytes = 16 << 10
)

// frameType says what a frame holds. The numbers are part of the wire format.
type frameType uint8

const (
	frameHello     frameType = 1
	frameRejection frameType = 2
	frameBeat      frameType = 3 // empty: shows on a connection without traffic that the sender is alive
	frameWho       frameType = 4 // instead of frameHello, since protocol version 7
	frameWhoReply  frameType = 5

	frameBootstrapProbe      frameType = 16
	frameBootstrapProbeReply frameType = 17
	frameBootstrapRequest    frameType = 18
	frameBootstrapReply      frameType = 19
	framePreVoteRequest      frameType = 20
	framePreVoteReply        frameType = 21
	frameVoteRequest         frameType = 22
	frameVoteReply           frameType = 23
	frameAppendRequest       frameType = 24
	frameAppendReply         frameType = 25
	frameAppendConflict      frameType = 26
	frameHeartbeat           frameType = 27
	frameHeartbeatReply      frameType = 28
	frameReadRequest         frameType = 29
	frameReadReply           frameType = 30
	frameTimeoutNow          frameType = 31
	frameSteppedDown         frameType = 32
	frameInstallSnapshot     frameType = 33 // from here on: protocol version 2
	frameSnapshotChunk       frameType = 34
	frameSnapshotProgress    frameType = 35
	frameForward             frameType = 36 // from here on: protocol version 5
	frameForwardReply        frameType = 37
)

// carriesTail reports whether records or data follow the meta of a frame of this type.
func (t frameType) carriesTail() bool {
	return t == frameAppendRequest || t == frameBootstrapRequest || t.carriesData()
}

// carriesData reports whether data with a checksum follows the meta.
func (t frameType) carriesData() bool { return t == frameSnapshotChunk || t >= frameForward }

// since returns the first protocol version that has this type.
func (t frameType) since() uint16 {
	switch {
	case t >= frameForward:
		return raft.ProtocolForwarding
	case t >= frameInstallSnapshot:
		return raft.ProtocolSnapshots
	}
	return 1
}

// limit returns how many bytes may follow the header of a frame of this type. It also returns how many of these bytes may be
// meta. appendBytesMax is the transport's Options.FrameBytesMax.
func (t frameType) limit(appendBytesMax int) (body, meta int, err error) {
	switch {
	case t == frameHello || t == frameRejection || t == frameWhoReply || t == frameBootstrapProbe || t == frameBootstrapProbeReply:
		return listBytesMax, listBytesMax, nil
	case t == frameBootstrapRequest:
		return bootstrapBytesMax, smallBytesMax, nil
	case t == frameAppendRequest:
		return appendBytesMax, smallBytesMax, nil
	case t == frameInstallSnapshot:
		return bootstrapBytesMax, bootstrapBytesMax, nil
	case t == frameSnapshotChunk:
		return smallBytesMax + chunkBytesMax, smallBytesMax - 2*frameSumBytes, nil
	case t == frameForward:
		return appendBytesMax, forwardMetaMax, nil
	case t == frameForwardReply:
		return appendBytesMax + raft.ForwardErrorBytesMax, forwardMetaMax + raft.ForwardErrorBytesMax, nil
	case t == frameBeat || t == frameWho, t > frameBootstrapProbe && t <= frameSnapshotProgress:
		return smallBytesMax, smallBytesMax, nil
	}
	return 0, 0, fmt.Errorf("%w: unknown type %d", ErrMalformed, t)
}

// frameHeader is the first part of a frame, checked against the limits of its type.
type frameHeader struct {
	kind frameType
	body int // bytes after the header
	meta int // bytes of the body that are meta
}

// size returns the length of the whole frame.
func (h frameHeader) size() int { return frameHeaderBytes + h.body }

// parseHeader reads the first frameHeaderBytes of a frame.
func parseHeader(b []byte, appendBytesMax int) (frameHeader, error) {
	body := binary.LittleEndian.Uint32(b)
	group := binary.LittleEndian.Uint32(b[4:])
	kind := frameType(b[8])
	meta := binary.LittleEndian.Uint32(b[9:])
	if group != 0 {
		return frameHeader{}, fmt.Errorf("%w: group %d; this version only knows group 0", ErrMalformed, group)
	}
	bodyMax, metaMax, err := kind.limit(appendBytesMax)
	if err != nil {
		return frameHeader{}, err
	}
	if uint64(body) > uint64(bodyMax) {
		err := fmt.Errorf("%w: %d bytes of type %d; the limit is %d", ErrOversized, body, kind, bodyMax)
		return frameHeader{}, err
	}
	if uint64(meta) > uint64(metaMax) {
		return frameHeader{}, fmt.Errorf("%w: %d bytes of meta, over the limit of %d", ErrOversized, meta, metaMax)
	}
	tail := int64(body) - int64(meta) - frameSumBytes
	if tail < 0 || tail > 0 && !kind.carriesTail() {
		return frameHeader{}, fmt.Errorf("%w: %d bytes of meta in %d of type %d", ErrMalformed, meta, body, kind)
	}
	return frameHeader{kind: kind, body: int(body), meta: int(meta)}, nil
}

// parseFrame checks the checksum of a whole frame and splits the frame into parts. The parts share the bytes of the frame.
func parseFrame(h frameHeader, frame []byte) (meta, tail []byte, err error) {
	end := frameHeaderBytes + h.meta
	want := binary.LittleEndian.Uint32(frame[end:])
	if got := crc32.Checksum(frame[:end], castagnoli); got != want {
		return nil, nil, fmt.Errorf("%w: checksum %08x, computed %08x", ErrMalformed, want, got)
	}
	return frame[frameHeaderBytes:end:end], frame[end+frameSumBytes:], nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a frame without its tail. The caller appends tailBytes of tail afterwards.
func appendFrame(buf []byte, kind frameType, meta []byte, tailBytes int) []byte {
	return endFrame(append(beginFrame(buf, kind), meta...), len(buf), tailBytes)
}

// beginFrame appends the header of a frame. The caller then appends the meta, and calls endFrame, which fills in the lengths.
func beginFrame(buf []byte, kind frameType) []byte {
	header := [frameHeaderBytes]byte{8: byte(kind)}
	return append(buf, header[:]...)
}

// endFrame completes the frame that begins at start, except for its tail. The caller then appends the tail, which has
// tailBytes bytes.
func endFrame(buf []byte, start, tailBytes int) []byte {
	frame := buf[start:]
	meta := len(frame) - frameHeaderBytes
	binary.LittleEndian.PutUint32(frame, uint32(meta+frameSumBytes+tailBytes))
	binary.LittleEndian.PutUint32(frame[9:], uint32(meta))
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(frame, castagnoli))
}

// frameReader splits a stream into frames.
type frameReader struct {
	r              *bufio.Reader
	appendBytesMax int
	trickleTimeout time.Duration // the longest time for trickleBytes to arrive; 0: no limit
	peeked         int           // bytes of r that belong to the last returned frame
	chunk          []byte        // buffer that frames with a chunk reuse
	first          []byte        // buffer of growBytes that longer frames reuse for their first bytes
}

const readBufferBytes = 32 << 10

func newFrameReader(r io.Reader, appendBytesMax int) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readBufferBytes), appendBytesMax: appendBytesMax}
}

// next returns the next whole frame. Its bytes are valid until the next call. If a frame carries entries, it has its own
// buffer, which the entries share. The bytes of such a frame stay valid. The error is io.EOF if the stream ended between two
// frames.
func (f *frameReader) next() (frameHeader, []byte, error) {
	f.release()
	prefix, err := f.r.Peek(frameHeaderBytes)
	if err != nil {
		return frameHeader{}, nil, cutShort(err, len(prefix))
	}
	h, err := parseHeader(prefix, f.appendBytesMax)
	if err != nil {
		return frameHeader{}, nil, err
	}
	if h.kind == frameSnapshotChunk {
		f.chunk, err = f.readGrowing(f.chunk, h.size())
		return h, f.chunk, err
	}
	if h.kind.carriesTail() && h.kind < frameForward || h.size() > f.r.Size() {
		frame, err := f.readGrowing(nil, h.size())
		return h, frame, err
	}
	frame, err := f.r.Peek(h.size())
	if err != nil {
		return frameHeader{}, nil, cutShort(err, len(frame))
	}
	f.peeked = h.size()
	return h, frame, nil
}

// release discards the bytes of the last returned frame.
func (f *frameReader) release() {
	_, _ = f.r.Discard(f.peeked) // cannot fail: the bytes are buffered
	f.peeked = 0
}

// buffered reports whether the whole next frame has arrived, so that next would not wait.
func (f *frameReader) buffered() bool {
	f.release()
	if f.r.Buffered() < frameHeaderBytes {
		return false
	}
	prefix, _ := f.r.Peek(4)
	return int64(f.r.Buffered()-frameHeaderBytes) >= int64(binary.LittleEndian.Uint32(prefix))
}

// readGrowing reads size bytes into buf if they fit. Otherwise it reads into a buffer that grows while bytes arrive. So a
// peer cannot make us allocate memory for bytes that it does not send. readGrowing fails if the bytes arrive too slowly.
func (f *frameReader) readGrowing(buf []byte, size int) ([]byte, error) {
	switch buf = buf[:0]; {
	case cap(buf) >= size:
	case size <= growBytes:
		buf = make([]byte, 0, size)
	default:
		if f.first == nil {
			f.first = make([]byte, 0, growBytes)
		}
		buf = f.first
	}
	got, at := 0, time.Time{} // bytes and time when the last trickleBytes were complete
	for {
		n, err := f.r.Read(buf[len(buf):min(cap(buf), size)])
		buf = buf[:len(buf)+n]
		if len(buf) == size {
			return buf, nil
		}
		if err != nil {
			return nil, cutShort(err, len(buf))
		}
		if now := time.Now(); at.IsZero() || len(buf)-got >= trickleBytes {
			got, at = len(buf), now
		} else if f.trickleTimeout > 0 && now.Sub(at) > f.trickleTimeout {
			return nil, fmt.Errorf("%w: %d bytes of a frame in %v", errTooSlow, len(buf)-got, now.Sub(at))
		}
		if len(buf) < cap(buf) {
			continue
		}
		room := size
		if cap(buf) < size/growFactor { // otherwise the product may overflow
			room = growFactor * cap(buf)
		}
		buf = append(make([]byte, 0, room), buf...)
	}
}

// errTooSlow reports that a frame arrives too slowly. Stats counts it as silence.
var errTooSlow = fmt.Errorf("transport: the peer sends too slowly: %w", os.ErrDeadlineExceeded)

// cutShort returns an ErrMalformed if the stream ended within a frame. If it returns io.EOF, the stream ended between two
// frames.
func cutShort(err error, got int) error {
	if (err == io.EOF && got > 0) || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ended after %d bytes: %w", ErrMalformed, got, io.ErrUnexpectedEOF)
	}
	return err
}

// tail is the part of a frame after its meta: records of entries, or data with its checksum.
type tail struct {
	entries []raft.Entry
	data    []byte
	isData  bool
}

func (t tail) bytes() int {
	if t.isData {
		return len(t.data) + frameSumBytes
	}
	return recordBytes(t.entries)
}

// appendSum appends the checksum of the data.
func (t tail) appendSum(buf []byte) []byte {
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(t.data, castagnoli))
}

// dataOf returns the data that a frame of the body carries.
func dataOf(body raft.Body) []byte {
	switch b := body.(type) {
	case raft.SnapshotChunk:
		return b.Data
	case raft.Forward:
		return b.Data
	case raft.ForwardReply:
		return b.Data
	}
	return nil
}

// takeData is the reverse of dataOf. It checks the data by its checksum. The data shares the bytes of the tail.
func takeData(tail []byte) ([]byte, error) {
	end := len(tail) - frameSumBytes
	if end < 0 {
		return nil, fmt.Errorf("%w: %d bytes of data and checksum", ErrMalformed, len(tail))
	}
	want := binary.LittleEndian.Uint32(tail[end:])
	if got := crc32.Checksum(tail[:end], castagnoli); got != want {
		return nil, fmt.Errorf("%w: data with checksum %08x, computed %08x", ErrMalformed, want, got)
	}
	if end == 0 {
		return nil, nil
	}
	return tail[:end:end], nil
}

// recordBytes returns the total size of the entries' records.
func recordBytes(entries []raft.Entry) (bytes int) {
	for i := range entries {
		bytes += raft.RecordOverheadBytes + len(entries[i].Data)
	}
	return bytes
}
