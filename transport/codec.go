package transport

import (
	"fmt"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// numberMax bounds every term, index, start count and counter from a peer. No cluster ever reaches it. An addition to a
// smaller number cannot overflow.
const numberMax = 1 << 62

// newHandle returns the msgpack settings of this package. Strings and bytes are distinct types. Unknown fields are skipped. A
// decoder does not allocate memory for a length only because a peer declares that length.
func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.WriteExt = true
	h.MaxInitLen = 1024
	h.MaxDepth = 32
	return h
}

// encodeMeta encodes one value with a new codec, for values that are sent rarely.
func encodeMeta(v any) []byte {
	var meta []byte
	if err := codec.NewEncoderBytes(&meta, newHandle()).Encode(v); err != nil {
		panic(fmt.Sprintf("transport: cannot encode a wire struct: %v", err)) // all wire structs are plain data
	}
	return meta
}

// decodeMeta decodes meta into v. Bytes left over are an error.
func decodeMeta(d *codec.Decoder, meta []byte, v any) error {
	d.ResetBytes(meta)
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if n := d.NumBytesRead(); n != len(meta) {
		return fmt.Errorf("%w: %d bytes of meta, but the value ends after %d", ErrMalformed, len(meta), n)
	}
	return nil
}

// wireMember is the wire form of a raft.Member.
type wireMember struct {
	ID          string `codec:"id"`
	Address     string `codec:"a"`
	Meta        string `codec:"m,omitempty"`
	Kind        uint8  `codec:"k,omitempty"`
	Incarnation uint64 `codec:"i,omitempty"`
	Priority    int8   `codec:"p,omitempty"`
}

// encodeList returns a configuration as the bytes of one field; nil if it is empty.
func encodeList(c raft.Configuration) []byte {
	if len(c.Members) == 0 {
		return nil
	}
	list := make([]wireMember, 0, len(c.Members))
	for _, m := range c.Members {
		list = append(list, wireMember{string(m.ID), m.Address, m.Meta, uint8(m.Kind), uint64(m.Incarnation), int8(m.Priority)})
	}
	return encodeMeta(list)
}

// decodeList decodes and checks a configuration, or a list whose addresses may be open.
func decodeList(data []byte) (raft.Configuration, error) {
	members, err := decodeMembers(data)
	if err != nil || members == nil {
		return raft.Configuration{}, err
	}
	c := raft.NewConfiguration(members)
	if err := c.ValidateList(); err != nil {
		return raft.Configuration{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return c, nil
}

// decodeMembers decodes members without checking them. On the wire, they are a field of bytes, not of structs. So
// decodeMembers knows their number before it decodes them.
func decodeMembers(data []byte) ([]raft.Member, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if n := arrayLength(data); n < 1 || n > raft.MembersMax {
		return nil, fmt.Errorf("%w: a list of %d members", ErrMalformed, n)
	}
	var list []wireMember
	if err := decodeMeta(codec.NewDecoderBytes(nil, newHandle()), data, &list); err != nil {
		return nil, err
	}
	members := make([]raft.Member, 0, len(list))
	for _, m := range list {
		members = append(members, raft.Member{
			ID: raft.NodeID(m.ID), Address: m.Address, Meta: m.Meta,
			Kind: raft.MemberKind(m.Kind), Incarnation: raft.Incarnation(m.Incarnation), Priority: raft.Priority(m.Priority),
		})
	}
	return members, nil
}

// arrayLength returns the number of elements that data declares, if data begins with a msgpack array. Otherwise it returns
// -1.
func arrayLength(data []byte) int {
	switch {
	case data[0]&0xf0 == 0x90:
		return int(data[0] & 0x0f)
	case data[0] == 0xdc && len(data) >= 3:
		return int(data[1])<<8 | int(data[2])
	}
	return -1 // not an array, or an array of more than 65,535 elements
}

// decodeCluster decodes a cluster id. If b is empty, it returns the zero id.
func decodeCluster(b []byte) (raft.ClusterID, error) {
	var c raft.ClusterID
	if len(b) != 0 && len(b) != len(c) {
		return c, fmt.Errorf("%w: a cluster id of %d bytes instead of %d", ErrMalformed, len(b), len(c))
	}
	copy(c[:], b)
	return c, nil
}

// encodeCluster is the reverse of decodeCluster. It appends the cluster id to buf.
func encodeCluster(buf []byte, c raft.ClusterID) []byte {
	if c == (raft.ClusterID{}) {
		return buf
	}
	return append(buf, c[:]...)
}

// checkID checks an id that must not be empty.
func checkID(id []byte) error {
	if len(id) == 0 || len(id) > raft.NodeIDBytesMax {
		return fmt.Errorf("%w: a member id of %d bytes", ErrMalformed, len(id))
	}
	for _, b := range id {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%w: member id %q; only printable ASCII without spaces is allowed", ErrMalformed, id)
		}
	}
	return nil
}

// checkNumbers checks terms, indexes, start counts and counters.
func checkNumbers(numbers ...uint64) error {
	for _, n := range numbers {
		if n > numberMax {
			return fmt.Errorf("%w: no cluster reaches a term or index of %d", ErrMalformed, n)
		}
	}
	return nil
}
