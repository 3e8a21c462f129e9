package transport

import (
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// wireMessage is the wire form of a message. It has the fields of all bodies side by side. With few exceptions, a field that
// is zero is absent from the wire. The tags are for go-msgpack, which decodes the forms that this version does not write. The
// method fields repeats the tags.
//
// To add a field:
//   - It is absent when it is zero (omitempty). So zero must mean the same as the field's absence meant before.
//   - Members that do not know the field skip it. A field that they must not ignore needs a new protocol version (see
//     ours in transport/handshake.go).
//   - Never change or reuse keys, their types, or the numbers of frame types and enumerations.
//   - Add a line to the method fields, in the order of the keys: TestWire_EveryFieldIsWrittenAndReadAsByMsgpack finds
//     each field by reflection and fails without the line. Declare the field in its body, in message.go of package raft.
//     Write it in setBody, setElectionBody, setSnapshotBody or setForwardBody; read it in the reverse of that function.
//   - A term, an index or a count also belongs in checkNumbers, and a sample of the field in transporttest/messages.go.
type wireMessage struct {
	From            []byte `codec:"f"`
	FromIncarnation uint64 `codec:"fi"`
	To              []byte `codec:"t"`
	ToIncarnation   uint64 `codec:"ti,omitempty"`
	Cluster         []byte `codec:"c,omitempty"`
	Term            uint64 `codec:"T,omitempty"`

	StartCount uint64 `codec:"b,omitempty"` // with Counter: the RPCID of the field ID or Round
	Counter    uint64 `codec:"n,omitempty"`

	List                    []byte `codec:"ls,omitempty"`
	Verdict                 uint8  `codec:"v,omitempty"`
	Bootstrapper            []byte `codec:"o,omitempty"`
	BootstrapperIncarnation uint64 `codec:"oi,omitempty"`
	HeardOf                 []byte `codec:"ho,omitempty"` // a raft.ClusterID
	HeardFrom               []byte `codec:"hf,omitempty"`

	LastTerm  uint64 `codec:"lt,omitempty"`
	LastIndex uint64 `codec:"li,omitempty"`
	PrevTerm  uint64 `codec:"pt,omitempty"`
	PrevIndex uint64 `codec:"pi,omitempty"`
	HintTerm  uint64 `codec:"ht,omitempty"`
	HintIndex uint64 `codec:"hi,omitempty"`
	Commit    uint64 `codec:"k,omitempty"`
	Match     uint64 `codec:"m,omitempty"`
	Index     uint64 `codec:"x,omitempty"`
	Acked     uint64 `codec:"ak,omitempty"`

	Wall int64 `codec:"w,omitempty"` // wall clock, in nanoseconds since 1970

	Granted  bool   `codec:"g,omitempty"`
	Transfer bool   `codec:"tr,omitempty"`
	OK       bool   `codec:"ok,omitempty"`
	Leader   []byte `codec:"l,omitempty"`
	Refusal  uint8  `codec:"rr,omitempty"`

	LeaderIncarnation uint64 `codec:"la,omitempty"`

	Applied  uint64 `codec:"ap,omitempty"`
	Hangs    bool   `codec:"fh,omitempty"`
	Hindered uint8  `codec:"hd,omitempty"` // a raft.Hindrance

	Successors []byte `codec:"su,omitempty"` // peers, one after another; see setSuccessors
	Span       uint64 `codec:"sp,omitempty"` // in nanoseconds
	Backoff    uint64 `codec:"bo,omitempty"` // likewise

	AppVersion uint64 `codec:"av,omitempty"`

	MomentStart     uint64 `codec:"ms,omitempty"` // with MomentAt: a raft.Moment
	MomentAt        uint64 `codec:"mt,omitempty"`
	PromiseSentAt   uint64 `codec:"ps,omitempty"` // in nanoseconds, on the leader's clock
	PromiseDuration uint64 `codec:"pd,omitempty"` // in nanoseconds

	Snapshot []byte `codec:"s,omitempty"`  // result of raft.Snapshot.Encode
	File     []byte `codec:"sf,omitempty"` // a raft.SnapshotID
	At       uint64 `codec:"sa,omitempty"`
	Size     uint64 `codec:"ss,omitempty"`
	Sum      uint64 `codec:"sc,omitempty"` // of 32 bits
	End      bool   `codec:"sl,omitempty"`
	Begin    bool   `codec:"sb,omitempty"`
	Done     bool   `codec:"sd,omitempty"`

	Kind    uint8  `codec:"fk,omitempty"` // a raft.ForwardKind
	ToStart uint64 `codec:"ts,omitempty"` // a start count
	Left    uint64 `codec:"lf,omitempty"` // in nanoseconds
	Error   []byte `codec:"er,omitempty"`
}

// fields calls c for every field, in the order of the keys, as go-msgpack does.
func (w *wireMessage) fields(c *fieldCodec) {
	c.number("T", &w.Term)
	c.number("ak", &w.Acked)
	c.number("ap", &w.Applied)
	c.number("av", &w.AppVersion)
	c.number("b", &w.StartCount)
	c.number("bo", &w.Backoff)
	c.bytes("c", &w.Cluster)
	c.bytes("er", &w.Error)
	c.bytesAlways("f", &w.From)
	c.flag("fh", &w.Hangs)
	c.numberAlways("fi", &w.FromIncarnation)
	c.small("fk", &w.Kind)
	c.flag("g", &w.Granted)
	c.small("hd", &w.Hindered)
	c.bytes("hf", &w.HeardFrom)
	c.number("hi", &w.HintIndex)
	c.bytes("ho", &w.HeardOf)
	c.number("ht", &w.HintTerm)
	c.number("k", &w.Commit)
	c.bytes("l", &w.Leader)
	c.number("la", &w.LeaderIncarnation)
	c.number("lf", &w.Left)
	c.number("li", &w.LastIndex)
	c.bytes("ls", &w.List)
	c.number("lt", &w.LastTerm)
	c.number("m", &w.Match)
	c.number("ms", &w.MomentStart)
	c.number("mt", &w.MomentAt)
	c.number("n", &w.Counter)
	c.bytes("o", &w.Bootstrapper)
	c.number("oi", &w.BootstrapperIncarnation)
	c.flag("ok", &w.OK)
	c.number("pd", &w.PromiseDuration)
	c.number("pi", &w.PrevIndex)
	c.number("ps", &w.PromiseSentAt)
	c.number("pt", &w.PrevTerm)
	c.small("rr", &w.Refusal)
	c.bytes("s", &w.Snapshot)
	c.number("sa", &w.At)
	c.flag("sb", &w.Begin)
	c.number("sc", &w.Sum)
	c.flag("sd", &w.Done)
	c.bytes("sf", &w.File)
	c.flag("sl", &w.End)
	c.number("sp", &w.Span)
	c.number("ss", &w.Size)
	c.bytes("su", &w.Successors)
	c.bytesAlways("t", &w.To)
	c.number("ti", &w.ToIncarnation)
	c.flag("tr", &w.Transfer)
	c.number("ts", &w.ToStart)
	c.small("v", &w.Verdict)
	c.signed("w", &w.Wall)
	c.number("x", &w.Index)
}

// reset sets every field to zero and keeps the capacity of the byte slices.
func (w *wireMessage) reset() {
	*w = wireMessage{
		From: w.From[:0], To: w.To[:0], Cluster: w.Cluster[:0],
		List: w.List[:0], Bootstrapper: w.Bootstrapper[:0], HeardOf: w.HeardOf[:0], HeardFrom: w.HeardFrom[:0], Leader: w.Leader[:0],
		Snapshot: w.Snapshot[:0], File: w.File[:0], Successors: w.Successors[:0], Error: w.Error[:0],
	}
}

// encode appends the message to buf. The bytes are the same as those of go-msgpack with newHandle.
func (w *wireMessage) encode(buf []byte) []byte {
	start := len(buf)
	c := fieldCodec{buf: append(buf, msgpackFixMap), writing: true}
	w.fields(&c)
	if c.count <= fixMapMax {
		c.buf[start] |= byte(c.count)
		return c.buf
	}
	c.buf[start] = msgpackMap16
	return slices.Insert(c.buf, start+1, 0, byte(c.count))
}

// decode decodes the output of encode. It leaves all other input to general, a decoder made with newHandle:
// fields in other orders and forms, fields that this version does not know, and malformed bytes.
func (w *wireMessage) decode(general *codec.Decoder, meta []byte) error {
	w.reset()
	if w.decodeOwn(meta) {
		return nil
	}
	w.reset()
	return decodeMeta(general, meta, w)
}

// decodeOwn decodes the output of encode. For any other input it returns false and may leave w half filled.
func (w *wireMessage) decodeOwn(meta []byte) bool {
	c, ok := beginFields(meta)
	if !ok {
		return false
	}
	c.next()
	w.fields(&c)
	return c.complete()
}
