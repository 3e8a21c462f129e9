package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// This file converts between raft.Message and wireMessage. See wire.go for the fields and the rules of
// compatibility.

func (w *wireMessage) setID(id raft.RPCID) { w.StartCount, w.Counter = id.StartCount, id.Counter }
func (w *wireMessage) setLast(id raft.EntryID) {
	w.LastTerm, w.LastIndex = uint64(id.Term), uint64(id.Index)
}
func (w *wireMessage) id() raft.RPCID {
	return raft.RPCID{StartCount: w.StartCount, Counter: w.Counter}
}
func (w *wireMessage) last() raft.EntryID { return entryID(w.LastTerm, w.LastIndex) }
func entryID(term, index uint64) raft.EntryID {
	return raft.EntryID{Term: raft.Term(term), Index: raft.Index(index)}
}

// encoder encodes messages, one after another, in the same buffers. Only one goroutine may use it.
type encoder struct {
	wire wireMessage
	head []byte // scratch of EncodeMessage
}

// limits bound the frames of an encoder.
type limits struct {
	appendBytesMax int    // the smaller Options.FrameBytesMax of the two sides
	protocol       uint16 // protocol version of the connection
}

// message appends the frame of m to buf, without its tail. The caller writes the tail afterwards. If message returns an
// error, buf is unchanged.
func (e *encoder) message(buf []byte, m raft.Message, l limits) ([]byte, tail, error) {
	w := &e.wire
	w.reset()
	w.From, w.FromIncarnation = append(w.From, m.From.ID...), uint64(m.From.Incarnation)
	w.To, w.ToIncarnation = append(w.To, m.To.ID...), uint64(m.To.Incarnation)
	w.Cluster, w.Term = encodeCluster(w.Cluster, m.Cluster), uint64(m.Term)
	kind, entries, err := w.setBody(m.Body)
	if err != nil {
		return buf, tail{}, err
	}
	if l.protocol < kind.since() {
		return buf, tail{}, fmt.Errorf("%w: %T needs version %d, and the peer speaks %d: upgrade it",
			ErrVersion, m.Body, kind.since(), l.protocol)
	}
	bodyMax, metaMax, err := kind.limit(l.appendBytesMax)
	if err != nil {
		return buf, tail{}, err
	}
	rest := tail{entries: entries, data: dataOf(m.Body), isData: kind.carriesData()}
	frame := w.encode(beginFrame(buf, kind))
	meta := len(frame) - len(buf) - frameHeaderBytes
	if body := meta + frameSumBytes + rest.bytes(); body > bodyMax || meta > metaMax || kind == frameSnapshotChunk && len(rest.data) > chunkBytesMax {
		return buf, tail{}, fmt.Errorf("%w: %T of %d bytes; the limit is %d", ErrOversized, m.Body, body, bodyMax)
	}
	return endFrame(frame, len(buf), rest.bytes()), rest, nil
}

// setBody sets the fields of one body. It returns the entries that belong in the tail.
func (w *wireMessage) setBody(body raft.Body) (frameType, []raft.Entry, error) {
	switch b := body.(type) {
	case raft.AppendRequest:
		if int64(b.Last.Index-b.Prev.Index) != int64(len(b.Entries)) {
			return 0, nil, fmt.Errorf("transport: %d entries for the span (%v, %v]", len(b.Entries), b.Prev, b.Last)
		}
		w.setLast(b.Last)
		w.PrevTerm, w.PrevIndex = uint64(b.Prev.Term), uint64(b.Prev.Index)
		w.Commit, w.Acked = uint64(b.Commit), uint64(b.Acknowledged)
		w.setPromise(b.Promise)
		return frameAppendRequest, b.Entries, nil
	case raft.AppendReply:
		w.Match = uint64(b.Match)
		w.setMoment(b.Moment)
		w.setPromise(b.Promise)
		return frameAppendReply, nil, nil
	case raft.AppendConflict:
		w.PrevIndex = uint64(b.Prev)
		w.HintTerm, w.HintIndex = uint64(b.Hint.Term), uint64(b.Hint.Index)
		w.Acked = uint64(b.Acknowledged)
		return frameAppendConflict, nil, nil
	case raft.Heartbeat:
		w.setID(b.Round)
		w.Commit, w.Span = uint64(b.Commit), uint64(b.Span)
		w.setSuccessors(b.Successors)
		w.setMoment(b.Fresh.Since)
		w.Index = uint64(b.Fresh.Index)
		w.setPromise(b.Promise)
		return frameHeartbeat, nil, nil
	case raft.HeartbeatReply:
		w.setID(b.Round)
		w.Match, w.Wall = uint64(b.Match), b.Wall
		w.Applied, w.Hindered, w.Backoff = uint64(b.Applied), uint8(b.Hindered), uint64(b.Backoff)
		w.AppVersion = b.AppVersion
		w.setMoment(b.Moment)
		w.setPromise(b.Promise)
		return frameHeartbeatReply, nil, nil
	case raft.ReadRequest:
		w.setID(b.ID)
		return frameReadRequest, nil, nil
	case raft.ReadReply:
		w.setID(b.ID)
		w.OK, w.Index, w.Refusal = b.OK, uint64(b.Index), uint8(b.Refusal)
		return frameReadReply, nil, nil
	}
	return w.setElectionBody(body)
}

// setElectionBody does the same as setBody, for the messages of elections and of the bootstrap.
func (w *wireMessage) setElectionBody(body raft.Body) (frameType, []raft.Entry, error) {
	switch b := body.(type) {
	case raft.BootstrapProbe:
		w.setID(b.ID)
		w.List = append(w.List, encodeList(b.List)...)
		return frameBootstrapProbe, nil, nil
	case raft.BootstrapProbeReply:
		w.setID(b.ID)
		w.Verdict = uint8(b.Result)
		w.List = append(w.List, encodeList(b.List)...)
		w.Bootstrapper = append(w.Bootstrapper, b.Bootstrapper.ID...)
		w.BootstrapperIncarnation, w.Wall = uint64(b.Bootstrapper.Incarnation), b.Wall
		w.HeardOf, w.HeardFrom = encodeCluster(w.HeardOf, b.HeardOf), append(w.HeardFrom, b.HeardFrom...)
		return frameBootstrapProbeReply, nil, nil
	case raft.BootstrapRequest:
		return frameBootstrapRequest, []raft.Entry{b.Entry}, nil
	case raft.BootstrapReply:
		w.setID(b.ID)
		return frameBootstrapReply, nil, nil
	case raft.PreVoteRequest:
		w.setID(b.ID)
		w.setLast(b.Last)
		w.Hangs = b.FSMHangs
		return framePreVoteRequest, nil, nil
	case raft.PreVoteReply:
		w.setID(b.ID)
		w.Granted = b.Granted
		w.Leader = append(w.Leader, b.Leader...)
		w.LeaderIncarnation = uint64(b.LeaderIncarnation)
		return framePreVoteReply, nil, nil
	case raft.VoteRequest:
		w.setLast(b.Last)
		w.Transfer = b.Transfer
		return frameVoteRequest, nil, nil
	case raft.VoteReply:
		w.Granted, w.Wall = b.Granted, b.Wall
		return frameVoteReply, nil, nil
	case raft.TimeoutNow:
		w.OK = b.Named
		return frameTimeoutNow, nil, nil
	case raft.SteppedDown:
		return frameSteppedDown, nil, nil
	}
	kind, err := w.setSnapshotBody(body)
	return kind, nil, err
}

// decoder decodes messages, one after another, in the same buffers. Only one goroutine may use it.
type decoder struct {
	codec *codec.Decoder
	wire  wireMessage
	ids   map[string]raft.NodeID // the ids seen so far, so that each is allocated once
}

func newDecoder() *decoder {
	return &decoder{codec: codec.NewDecoderBytes(nil, newHandle()), ids: map[string]raft.NodeID{}}
}

// message decodes one whole frame. The message shares the frame's bytes only in its entries or in its data.
func (d *decoder) message(h frameHeader, frame []byte) (raft.Message, error) {
	meta, rest, err := parseFrame(h, frame)
	if err != nil {
		return raft.Message{}, err
	}
	w := &d.wire
	if err := w.decode(d.codec, meta); err != nil {
		return raft.Message{}, err
	}
	if err := w.checkNumbers(); err != nil {
		return raft.Message{}, err
	}
	m := raft.Message{Term: raft.Term(w.Term)}
	if m.From, err = d.peer(w.From, w.FromIncarnation); err != nil {
		return raft.Message{}, err
	}
	if m.To, err = d.peer(w.To, w.ToIncarnation); err != nil {
		return raft.Message{}, err
	}
	if m.Cluster, err = decodeCluster(w.Cluster); err != nil {
		return raft.Message{}, err
	}
	if m.Body, err = d.body(h.kind, rest); err != nil {
		return raft.Message{}, err
	}
	return m, nil
}

// checkNumbers checks all terms, indexes, start counts and counters.
func (w *wireMessage) checkNumbers() error {
	return checkNumbers(w.Term, w.StartCount, w.Counter, w.LastTerm, w.LastIndex, w.PrevTerm, w.PrevIndex,
		w.HintTerm, w.HintIndex, w.Commit, w.Match, w.Index, w.Acked, w.Applied, w.At, w.Size, w.Span, w.Backoff, w.ToStart, w.Left,
		w.MomentStart, w.MomentAt, w.PromiseSentAt, w.PromiseDuration)
}

func (w *wireMessage) setPromise(p raft.Promise) {
	w.PromiseSentAt, w.PromiseDuration = uint64(p.SentAt), uint64(p.Duration)
}

func (w *wireMessage) promise() raft.Promise {
	return raft.Promise{SentAt: raft.Time(w.PromiseSentAt), Duration: raft.Time(w.PromiseDuration)}
}

// setSuccessors writes each peer as the length of its id, the id, and the incarnation in 8 bytes.
func (w *wireMessage) setSuccessors(peers []raft.Peer) {
	for _, p := range peers {
		w.Successors = append(append(w.Successors, byte(len(p.ID))), p.ID...)
		w.Successors = binary.BigEndian.AppendUint64(w.Successors, uint64(p.Incarnation))
	}
}

func (w *wireMessage) setMoment(m raft.Moment) {
	w.MomentStart, w.MomentAt = m.StartCount, uint64(m.At)
}

func (w *wireMessage) moment() raft.Moment {
	return raft.Moment{StartCount: w.MomentStart, At: raft.Time(w.MomentAt)}
}

func (d *decoder) heartbeat() (raft.Body, error) {
	w := &d.wire
	b := raft.Heartbeat{
		Round: w.id(), Commit: raft.Index(w.Commit), Span: raft.Time(w.Span),
		Promise: w.promise(), Fresh: raft.Freshness{Since: w.moment(), Index: raft.Index(w.Index)},
	}
	for rest := w.Successors; len(rest) > 0; {
		n := int(rest[0])
		if len(rest) < 1+n+8 {
			return nil, fmt.Errorf("%w: its list of successors is cut off", ErrMalformed)
		}
		p, err := d.peer(rest[1:1+n], binary.BigEndian.Uint64(rest[1+n:]))
		if err != nil {
			return nil, err
		}
		b.Successors, rest = append(b.Successors, p), rest[1+n+8:]
	}
	return b, nil
}

func (d *decoder) peer(id []byte, life uint64) (raft.Peer, error) {
	if err := checkID(id); err != nil {
		return raft.Peer{}, err
	}
	return raft.Peer{ID: d.intern(id), Incarnation: raft.Incarnation(life)}, nil
}

// intern returns the id as a string that all messages with this id share.
func (d *decoder) intern(id []byte) raft.NodeID {
	if known, ok := d.ids[string(id)]; ok {
		return known
	}
	if len(d.ids) > raft.MembersMax {
		clear(d.ids)
	}
	fresh := raft.NodeID(id)
	d.ids[string(id)] = fresh
	return fresh
}

// body is the reverse of setBody.
func (d *decoder) body(kind frameType, rest []byte) (raft.Body, error) {
	w := &d.wire
	switch kind {
	case frameAppendRequest:
		return w.appendRequest(rest)
	case frameAppendReply:
		return raft.AppendReply{Match: raft.Index(w.Match), Moment: w.moment(), Promise: w.promise()}, nil
	case frameAppendConflict:
		return raft.AppendConflict{
			Prev: raft.Index(w.PrevIndex), Hint: entryID(w.HintTerm, w.HintIndex), Acknowledged: raft.Index(w.Acked),
		}, nil
	case frameHeartbeat:
		return d.heartbeat()
	case frameHeartbeatReply:
		return raft.HeartbeatReply{
			Round: w.id(), Match: raft.Index(w.Match), Wall: w.Wall, Applied: raft.Index(w.Applied), Hindered: raft.Hindrance(w.Hindered),
			Backoff: raft.Time(w.Backoff), AppVersion: w.AppVersion, Moment: w.moment(), Promise: w.promise(),
		}, nil
	case frameReadRequest:
		return raft.ReadRequest{ID: w.id()}, nil
	case frameReadReply:
		return raft.ReadReply{ID: w.id(), OK: w.OK, Index: raft.Index(w.Index), Refusal: raft.RefusalKind(w.Refusal)}, nil
	}
	return d.electionBody(kind, rest)
}

// electionBody is the reverse of setElectionBody.
func (d *decoder) electionBody(kind frameType, rest []byte) (raft.Body, error) {
	w := &d.wire
	switch kind {
	case frameBootstrapProbe:
		list, err := decodeList(w.List)
		return raft.BootstrapProbe{ID: w.id(), List: list}, err
	case frameBootstrapProbeReply:
		return d.bootstrapProbeReply()
	case frameBootstrapRequest:
		entries, err := decodeEntries(rest)
		if err != nil {
			return nil, err
		}
		if len(entries) != 1 {
			return nil, fmt.Errorf("%w: a bootstrap of %d entries; it takes 1", ErrMalformed, len(entries))
		}
		return raft.BootstrapRequest{Entry: entries[0]}, nil
	case frameBootstrapReply:
		return raft.BootstrapReply{ID: w.id()}, nil
	case framePreVoteRequest:
		return raft.PreVoteRequest{ID: w.id(), Last: w.last(), FSMHangs: w.Hangs}, nil
	case framePreVoteReply:
		leader, err := d.optionalID(w.Leader)
		return raft.PreVoteReply{
			ID: w.id(), Granted: w.Granted, Leader: leader, LeaderIncarnation: raft.Incarnation(w.LeaderIncarnation),
		}, err
	case frameVoteRequest:
		return raft.VoteRequest{Last: w.last(), Transfer: w.Transfer}, nil
	case frameVoteReply:
		return raft.VoteReply{Granted: w.Granted, Wall: w.Wall}, nil
	case frameTimeoutNow:
		return raft.TimeoutNow{Named: w.OK}, nil
	case frameSteppedDown:
		return raft.SteppedDown{}, nil
	case frameForward, frameForwardReply:
		return d.forwardBody(kind, rest)
	}
	return w.snapshotBody(kind, rest)
}

func (d *decoder) bootstrapProbeReply() (raft.Body, error) {
	w := &d.wire
	if w.Verdict < uint8(raft.ProbeUninitialized) || w.Verdict > uint8(raft.ProbeInitialized) {
		return nil, fmt.Errorf("%w: unknown verdict %d of a probe", ErrMalformed, w.Verdict)
	}
	list, err := decodeList(w.List)
	if err != nil {
		return nil, err
	}
	bootstrapper, err := d.optionalID(w.Bootstrapper)
	if err != nil {
		return nil, err
	}
	heardOf, err := decodeCluster(w.HeardOf)
	if err != nil {
		return nil, err
	}
	heardFrom, err := d.optionalID(w.HeardFrom)
	return raft.BootstrapProbeReply{
		ID: w.id(), Result: raft.ProbeResult(w.Verdict), List: list,
		Bootstrapper: raft.Peer{ID: bootstrapper, Incarnation: raft.Incarnation(w.BootstrapperIncarnation)},
		Wall:         w.Wall, HeardOf: heardOf, HeardFrom: heardFrom,
	}, err
}

// optionalID returns an id that may be absent.
func (d *decoder) optionalID(id []byte) (raft.NodeID, error) {
	if len(id) == 0 {
		return "", nil
	}
	if err := checkID(id); err != nil {
		return "", err
	}
	return d.intern(id), nil
}

// appendRequest checks that the entries are exactly those of the span (Prev, Last]. Their indexes must be contiguous. Their
// terms must never decrease, and must not exceed the term of the sender.
func (w *wireMessage) appendRequest(records []byte) (raft.Body, error) {
	entries, err := decodeEntries(records)
	if err != nil {
		return nil, err
	}
	r := raft.AppendRequest{
		Prev: entryID(w.PrevTerm, w.PrevIndex), Last: w.last(), Commit: raft.Index(w.Commit),
		Acknowledged: raft.Index(w.Acked), Entries: entries, Promise: w.promise(),
	}
	at := r.Prev
	for _, e := range entries {
		if e.Index != at.Index+1 || e.Term < at.Term {
			return nil, fmt.Errorf("%w: entry %v follows %v", ErrMalformed, e.ID(), at)
		}
		at = e.ID()
	}
	if at != r.Last {
		return nil, fmt.Errorf("%w: an append whose entries end at %v, and not at %v", ErrMalformed, at, r.Last)
	}
	if uint64(at.Term) > w.Term {
		return nil, fmt.Errorf("%w: entry %v in a message of term %d", ErrMalformed, at, w.Term)
	}
	return r, nil
}

// decodeEntries decodes the records, one after another. The entries share the bytes of the records. A record of a later
// release is no reason to close the connection. decodeEntries passes its entry on with the known parts, the id and perhaps
// the kind. Then the core refuses the entry.
func decodeEntries(records []byte) ([]raft.Entry, error) {
	count := 0
	for rest := records; len(rest) > 0; count++ {
		n, err := raft.RecordSize(rest)
		if err == nil && n > len(rest) {
			err = fmt.Errorf("%w: %d bytes where the header says %d", raft.ErrBadRecord, len(rest), n)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		rest = rest[n:]
	}
	if count == 0 {
		return nil, nil
	}
	entries := make([]raft.Entry, 0, count)
	for len(records) > 0 {
		n, _ := raft.RecordSize(records)
		e, err := raft.DecodeEntry(records[:n:n])
		if err == nil || ofLaterRelease(err) {
			err = checkNumbers(uint64(e.Index), uint64(e.Term))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		entries = append(entries, e)
		records = records[n:]
	}
	return entries, nil
}

func ofLaterRelease(err error) bool {
	var later *raft.LaterVersionError
	return errors.As(err, &later)
}

// Simulations encode and decode millions of messages one by one. The creation of a codec takes longer than its use, so codecs
// are reused.
var (
	encoders = sync.Pool{New: func() any { return &encoder{} }}
	decoders = sync.Pool{New: func() any { return newDecoder() }}
)

// EncodeMessage returns the message as one frame of the wire format. It fails for a body of an unknown type, and for an
// append whose Entries do not fill its span. It also fails for a message that exceeds the limit of its type (ErrOversized).
// Do not send messages of snapshots to a peer of protocol version 1, nor a Forward or a ForwardReply to one below
// raft.ProtocolForwarding, because that peer does not know them.
func EncodeMessage(m raft.Message) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	head, rest, err := e.message(e.head[:0], m, limits{FrameBytesMax, ours.max})
	if err != nil {
		return nil, err
	}
	e.head = head
	frame := append(make([]byte, 0, len(head)+rest.bytes()), head...)
	for i := range rest.entries {
		frame = append(frame, rest.entries[i].Record()...)
	}
	if rest.isData {
		frame = rest.appendSum(append(frame, rest.data...))
	}
	return frame, nil
}

// DecodeMessage decodes and checks the result of EncodeMessage. The message's entries or its data share the bytes of
// frame. Do not change these bytes afterwards. Every error matches ErrMalformed or ErrOversized.
func DecodeMessage(frame []byte) (raft.Message, error) {
	if len(frame) < frameHeaderBytes {
		return raft.Message{}, fmt.Errorf("%w: cut short at %d bytes", ErrMalformed, len(frame))
	}
	h, err := parseHeader(frame, FrameBytesMax)
	if err != nil {
		return raft.Message{}, err
	}
	if len(frame) != h.size() {
		return raft.Message{}, fmt.Errorf("%w: %d bytes where the header says %d", ErrMalformed, len(frame), h.size())
	}
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	return d.message(h, frame)
}
