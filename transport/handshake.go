package transport

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Each side of a connection begins with an opening. No version may change the form of the opening:
//
//	"coxswain" | lowest protocol version uint16 | highest uint16 | a frame: frameHello or frameRejection
//
// The caller sends its opening first. Afterwards, both sides use the highest version that both know. A caller that only asks
// who is there begins with frameWho instead. The answer is frameWhoReply or frameRejection, and ends the connection.
const (
	magic        = "coxswain"
	openingBytes = len(magic) + 2 + 2
	detailMax    = 1024 // limit of Rejection.Detail, in bytes
)

// tlsHint is the most likely reason why the other side does not answer in this protocol.
const tlsHint = " (does one side use TLS and the other not?)"

// versions is a range of protocol versions.
type versions struct{ min, max uint16 }

// ours is the range of protocol versions that this build speaks. Version 2 adds snapshots: their messages and their lane.
// Version 3 adds membership changes: entries that hold a configuration, and snapshots that hold the whole record of their
// configuration. Version 4 adds priorities, in these configurations and in lists of members. Version 5 adds the messages and
// the lane that carry callers' requests to the leader. Version 6 adds versions of the application, in the configurations and in
// answers to heartbeats. Version 7 adds frameWho and frameWhoReply.
var ours = versions{1, raft.ProtocolNewest}

// meets reports whether the two ranges have a version in common.
func (v versions) meets(other versions) bool { return v.min <= other.max && other.min <= v.max }

// wireHello is the wire form of a raft.Hello, with the lane that the caller opens.
type wireHello struct {
	Lane                    uint8  `codec:"lane"`
	ClusterName             string `codec:"name"`
	Cluster                 []byte `codec:"cluster,omitempty"`
	ID                      string `codec:"id"`
	Incarnation             uint64 `codec:"inc"`
	ExpectedID              string `codec:"xid"`
	ExpectedIncarnation     uint64 `codec:"xinc,omitempty"`
	StartCount              uint64 `codec:"boot"`
	Term                    uint64 `codec:"term,omitempty"`
	BootstrapperID          string `codec:"fid,omitempty"`
	BootstrapperIncarnation uint64 `codec:"finc,omitempty"`
	Address                 string `codec:"addr,omitempty"`
	List                    []byte `codec:"list,omitempty"`
	ElectionTimeout         int64  `codec:"timeout"` // nanoseconds

	Lineage        []byte       `codec:"starts,omitempty"` // the first start count, then every nonce: uint64 each
	ConfirmedStart uint64       `codec:"cboot,omitempty"`
	ConfirmedNonce uint64       `codec:"cnonce,omitempty"`
	Remembers      wireSighting `codec:"seen,omitempty"`

	Named      []byte `codec:"named,omitempty"` // uint64 each, ascending
	NamedIndex uint64 `codec:"nidx,omitempty"`
	Release    string `codec:"rel,omitempty"`

	AppendBytesMax  uint64 `codec:"amax,omitempty"`
	CommandBytesMax uint64 `codec:"cmax,omitempty"`
	NoSnapshots     bool   `codec:"nosnap,omitempty"`
	AppVersion      uint64 `codec:"app,omitempty"`
	IdleTimeout     int64  `codec:"idle,omitempty"` // nanoseconds

	OpenList []byte `codec:"olist,omitempty"` // List, if it leaves an address open: earlier releases refuse a hello with such a List
}

// wireSighting is the wire form of a raft.Sighting.
type wireSighting struct {
	ID          string `codec:"id,omitempty"` // empty: none
	Incarnation uint64 `codec:"inc,omitempty"`
	Count       uint64 `codec:"boot,omitempty"`
	Nonce       uint64 `codec:"nonce,omitempty"`
	Term        uint64 `codec:"term,omitempty"`
}

// wireRejection is the wire form of a raft.Rejection.
type wireRejection struct {
	Reason      uint8  `codec:"reason"`
	ID          string `codec:"id,omitempty"`
	Incarnation uint64 `codec:"inc,omitempty"`
	Cluster     []byte `codec:"cluster,omitempty"`
	Term        uint64 `codec:"term,omitempty"`
	Named       uint64 `codec:"named,omitempty"`
	List        []byte `codec:"list,omitempty"`
	VersionsMin uint16 `codec:"vmin,omitempty"`
	VersionsMax uint16 `codec:"vmax,omitempty"`
	Detail      string `codec:"detail,omitempty"`
	Index       uint64 `codec:"index,omitempty"`

	Seen wireSighting `codec:"seen,omitempty"`
}

// encodeHello returns the meta of a frameHello.
func encodeHello(h raft.Hello, lane raft.Lane) []byte {
	w := wireHello{
		Lane: uint8(lane), ClusterName: h.ClusterName, Cluster: encodeCluster(nil, h.Cluster),
		ID: string(h.From.ID), Incarnation: uint64(h.From.Incarnation),
		ExpectedID: string(h.Expected.ID), ExpectedIncarnation: uint64(h.Expected.Incarnation),
		StartCount: h.StartCount, Term: uint64(h.Term),
		BootstrapperID: string(h.Bootstrapper.ID), BootstrapperIncarnation: uint64(h.Bootstrapper.Incarnation),
		Address: h.Address, ElectionTimeout: int64(h.ElectionTimeout),
		Lineage: encodeLineage(h.Lineage), ConfirmedStart: h.Confirmed.Count, ConfirmedNonce: h.Confirmed.Nonce,
		Remembers: encodeSighting(h.Remembers), Named: encodeNamed(h.Named), NamedIndex: uint64(h.NamedIndex),
		Release: h.Release, AppendBytesMax: uint64(h.AppendBytesMax), CommandBytesMax: uint64(h.CommandBytesMax), NoSnapshots: h.NoSnapshots,
		IdleTimeout: int64(h.IdleTimeout), AppVersion: h.AppVersion,
	}
	if list := encodeList(h.List); h.List.Validate() == nil {
		w.List = list
	} else {
		w.OpenList = list
	}
	return encodeMeta(w)
}

// decodeHello is the reverse of encodeHello; it checks everything that it returns.
func decodeHello(meta []byte) (raft.Hello, raft.Lane, error) {
	var w wireHello
	if err := decodeMeta(codec.NewDecoderBytes(nil, newHandle()), meta, &w); err != nil {
		return raft.Hello{}, 0, err
	}
	if err := w.check(); err != nil {
		return raft.Hello{}, 0, err
	}
	cluster, err := decodeCluster(w.Cluster)
	if err != nil {
		return raft.Hello{}, 0, err
	}
	list, err := decodeList(w.List)
	if len(w.OpenList) > 0 {
		list, err = decodeList(w.OpenList)
	}
	if err != nil {
		return raft.Hello{}, 0, err
	}
	lineage, err := decodeLineage(w.Lineage)
	if err != nil {
		return raft.Hello{}, 0, err
	}
	named, err := decodeNamed(w.Named)
	if err != nil {
		return raft.Hello{}, 0, err
	}
	return raft.Hello{
		ClusterName: w.ClusterName, Cluster: cluster, From: peer(w.ID, w.Incarnation),
		Expected: peer(w.ExpectedID, w.ExpectedIncarnation), StartCount: w.StartCount, Term: raft.Term(w.Term),
		Bootstrapper: peer(w.BootstrapperID, w.BootstrapperIncarnation), Address: w.Address, List: list,
		ElectionTimeout: time.Duration(w.ElectionTimeout), Lineage: lineage,
		Confirmed: raft.StartID{Count: w.ConfirmedStart, Nonce: w.ConfirmedNonce}, Remembers: w.Remembers.sighting(),
		Named: named, NamedIndex: raft.Index(w.NamedIndex), Release: printable(w.Release),
		AppendBytesMax: limited(w.AppendBytesMax), CommandBytesMax: limited(w.CommandBytesMax), NoSnapshots: w.NoSnapshots,
		IdleTimeout: time.Duration(w.IdleTimeout), AppVersion: w.AppVersion,
	}, raft.Lane(w.Lane), nil
}

// check checks the fields that decodeHello does not decode further.
func (w *wireHello) check() error {
	for _, id := range []string{w.ClusterName, w.ID, w.ExpectedID} {
		if err := checkID([]byte(id)); err != nil {
			return err
		}
	}
	if w.BootstrapperID != "" {
		if err := checkID([]byte(w.BootstrapperID)); err != nil {
			return err
		}
	}
	if err := checkNumbers(w.StartCount, w.Term, w.ConfirmedStart, w.NamedIndex); err != nil {
		return err
	}
	if err := w.Remembers.check(); err != nil {
		return err
	}
	switch {
	case int(w.Lane) >= len(lanes):
		return fmt.Errorf("%w: unknown lane %d", ErrMalformed, w.Lane)
	case w.Incarnation == 0:
		return fmt.Errorf("%w: a hello of %q without its incarnation", ErrMalformed, w.ID)
	case len(w.Address) > raft.AddressBytesMax:
		return fmt.Errorf("%w: an address of %d bytes", ErrMalformed, len(w.Address))
	case w.ElectionTimeout < 0:
		return fmt.Errorf("%w: an election timeout of %d ns", ErrMalformed, w.ElectionTimeout)
	case w.AppendBytesMax > 0 && w.AppendBytesMax < appendBytesLeast: // it would have leaders refuse every command
		return fmt.Errorf("%w: a limit of %d bytes in an append; the smallest is %d", ErrMalformed, w.AppendBytesMax, appendBytesLeast)
	case w.IdleTimeout < 0 || w.IdleTimeout > int64(timeoutMax):
		return fmt.Errorf("%w: an idle timeout of %d ns", ErrMalformed, w.IdleTimeout)
	}
	return nil
}

// printable returns the release that a peer announces. It returns "" if the release is too long or has characters that cannot
// be printed. A bad release does not cause a rejection, because nothing depends on it.
func printable(release string) string {
	if len(release) > raft.ReleaseBytesMax || strings.ContainsFunc(release, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return release
}

// limited returns the limit that a peer announces. If the limit exceeds what any member can send, it returns 0, which means
// no limit.
func limited(bytes uint64) int {
	if bytes > raft.LimitBytesMax {
		return 0
	}
	return int(bytes)
}

const startBytes = 8 // size of a start count or a nonce

// encodeLineage writes the first start count, and then all nonces. This is enough, because the start counts of a lineage are
// contiguous.
func encodeLineage(l raft.Lineage) []byte {
	if len(l) == 0 {
		return nil
	}
	b := binary.LittleEndian.AppendUint64(nil, l[0].Count)
	for _, start := range l {
		b = binary.LittleEndian.AppendUint64(b, start.Nonce)
	}
	return b
}

func decodeLineage(b []byte) (raft.Lineage, error) {
	if len(b) == 0 {
		return nil, nil
	}
	n := len(b)/startBytes - 1
	if len(b)%startBytes != 0 || n < 1 || n > raft.LineageStartsMax {
		return nil, fmt.Errorf("%w: a lineage of %d bytes", ErrMalformed, len(b))
	}
	first := binary.LittleEndian.Uint64(b)
	if err := checkNumbers(first); err != nil {
		return nil, err
	}
	l := make(raft.Lineage, n)
	for i := range l {
		l[i] = raft.StartID{Count: first + uint64(i), Nonce: binary.LittleEndian.Uint64(b[(1+i)*startBytes:])}
	}
	if err := l.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return l, nil
}

const (
	incarnationBytes = 8
	// namedMax is how many incarnations of one id a configuration can name.
	namedMax = 2
)

func encodeNamed(named []raft.Incarnation) (b []byte) {
	for _, i := range named {
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
	}
	return b
}

func decodeNamed(b []byte) (named []raft.Incarnation, err error) {
	if len(b)%incarnationBytes != 0 || len(b) > namedMax*incarnationBytes {
		return nil, fmt.Errorf("%w: %d bytes of incarnations that are named", ErrMalformed, len(b))
	}
	for last := raft.Incarnation(0); len(b) > 0; b = b[incarnationBytes:] {
		i := raft.Incarnation(binary.LittleEndian.Uint64(b))
		if i <= last {
			return nil, fmt.Errorf("%w: incarnation %v is named behind %v", ErrMalformed, i, last)
		}
		named, last = append(named, i), i
	}
	return named, nil
}

func encodeSighting(s raft.Sighting) wireSighting {
	return wireSighting{
		ID: string(s.Peer.ID), Incarnation: uint64(s.Peer.Incarnation), Count: s.Start.Count, Nonce: s.Start.Nonce, Term: uint64(s.Term),
	}
}

func (w *wireSighting) sighting() raft.Sighting {
	return raft.Sighting{
		Peer: peer(w.ID, w.Incarnation), Start: raft.StartID{Count: w.Count, Nonce: w.Nonce}, Term: raft.Term(w.Term),
	}
}

func (w *wireSighting) check() error {
	if w.ID != "" {
		if err := checkID([]byte(w.ID)); err != nil {
			return err
		}
	}
	return checkNumbers(w.Count, w.Term)
}

func peer(id string, incarnation uint64) raft.Peer {
	return raft.Peer{ID: raft.NodeID(id), Incarnation: raft.Incarnation(incarnation)}
}

// encodeRejection returns the meta of a frameRejection. If the detail is longer than detailMax, encodeRejection truncates it.
func encodeRejection(r raft.Rejection) []byte {
	return encodeMeta(wireRejection{
		Reason: uint8(r.Reason), ID: string(r.From.ID), Incarnation: uint64(r.From.Incarnation),
		Cluster: encodeCluster(nil, r.Cluster), Term: uint64(r.Term), Named: uint64(r.Named),
		List: encodeList(r.List), VersionsMin: r.VersionsMin, VersionsMax: r.VersionsMax,
		Detail: cut(r.Detail), Index: uint64(r.Index), Seen: encodeSighting(r.Seen),
	})
}

func cut(detail string) string {
	if len(detail) > detailMax {
		return strings.ToValidUTF8(detail[:detailMax], "")
	}
	return detail
}

// decodeRejection is the reverse of encodeRejection. It also accepts reasons of later versions that this version does not
// know.
func decodeRejection(meta []byte) (raft.Rejection, error) {
	var w wireRejection
	if err := decodeMeta(codec.NewDecoderBytes(nil, newHandle()), meta, &w); err != nil {
		return raft.Rejection{}, err
	}
	if w.ID != "" { // the sender need not say who it is
		if err := checkID([]byte(w.ID)); err != nil {
			return raft.Rejection{}, err
		}
	}
	if err := checkNumbers(w.Term, w.Index); err != nil {
		return raft.Rejection{}, err
	}
	if err := w.Seen.check(); err != nil {
		return raft.Rejection{}, err
	}
	cluster, err := decodeCluster(w.Cluster)
	if err != nil {
		return raft.Rejection{}, err
	}
	list, err := decodeList(w.List)
	if err != nil {
		return raft.Rejection{}, err
	}
	return raft.Rejection{
		Reason: raft.RejectReason(w.Reason), From: peer(w.ID, w.Incarnation), Cluster: cluster,
		Term: raft.Term(w.Term), Named: raft.Incarnation(w.Named), Index: raft.Index(w.Index),
		List: list, VersionsMin: w.VersionsMin, VersionsMax: w.VersionsMax, Detail: cut(w.Detail), Seen: w.Seen.sighting(),
	}, nil
}

// opening is the first thing that each side sends. It is a Hello if none of the pointers is set.
type opening struct {
	versions  versions
	hello     raft.Hello
	lane      raft.Lane
	rejection *raft.Rejection
	who       *raft.Who
	reply     *raft.WhoReply
}

// encode returns the opening's bytes.
func (o opening) encode() []byte {
	buf := append([]byte(nil), magic...)
	buf = binary.LittleEndian.AppendUint16(buf, o.versions.min)
	buf = binary.LittleEndian.AppendUint16(buf, o.versions.max)
	switch {
	case o.rejection != nil:
		return appendFrame(buf, frameRejection, encodeRejection(*o.rejection), 0)
	case o.who != nil:
		return appendFrame(buf, frameWho, encodeWho(*o.who), 0)
	case o.reply != nil:
		return appendFrame(buf, frameWhoReply, encodeWhoReply(*o.reply), 0)
	}
	return appendFrame(buf, frameHello, encodeHello(o.hello, o.lane), 0)
}

// readOpening reads the opening of the other side. If it is no Rejection and its versions do not overlap ours, the error
// matches ErrVersion. A Rejection can be read in every version. If the other side begins in our protocol, the versions are filled in
// even with an error.
func readOpening(f *frameReader) (opening, error) {
	var prefix [openingBytes]byte
	if n, err := io.ReadFull(f.r, prefix[:]); err != nil {
		return opening{}, cutShort(err, n)
	}
	if string(prefix[:len(magic)]) != magic {
		return opening{}, fmt.Errorf("%w: a handshake does not begin with %q%s", ErrMalformed, prefix[:len(magic)], tlsHint)
	}
	o := opening{versions: versions{
		min: binary.LittleEndian.Uint16(prefix[len(magic):]),
		max: binary.LittleEndian.Uint16(prefix[len(magic)+2:]),
	}}
	h, frame, err := f.next()
	if err != nil {
		return o, err
	}
	meta, _, err := parseFrame(h, frame)
	if err != nil {
		return o, err
	}
	switch h.kind {
	case frameRejection:
		r, err := decodeRejection(meta)
		o.rejection = &r
		return o, err
	case frameHello, frameWho, frameWhoReply:
		if !o.versions.meets(ours) {
			return o, fmt.Errorf("%w: the peer speaks %d to %d, this member %d to %d",
				ErrVersion, o.versions.min, o.versions.max, ours.min, ours.max)
		}
	}
	switch h.kind {
	case frameHello:
		o.hello, o.lane, err = decodeHello(meta)
		o.hello.Protocol = min(o.versions.max, ours.max)
		return o, err
	case frameWho:
		q, err := decodeWho(meta)
		o.who = &q
		return o, err
	case frameWhoReply:
		r, err := decodeWhoReply(meta)
		o.reply = &r
		return o, err
	}
	return o, fmt.Errorf("%w: a handshake cannot contain a frame of type %d", ErrMalformed, h.kind)
}
