package sessions

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// ID names a session. The cluster and the nonce are there because an index alone comes back: after a restoration of an older
// state, another session may be opened by an entry of the same index.
type ID struct {
	Cluster raft.ClusterID
	Index   raft.Index // of the entry that opened the session
	Nonce   uint64     // random, in that entry
}

// String returns the id as text for ParseID.
func (id ID) String() string { return fmt.Sprintf("%v-%d-%016x", id.Cluster, id.Index, id.Nonce) }

// ParseID reads what String has returned.
func ParseID(s string) (id ID, err error) {
	cluster, rest, _ := strings.Cut(s, "-")
	if raw, err := hex.DecodeString(cluster); err == nil && len(raw) == len(id.Cluster) {
		copy(id.Cluster[:], raw)
	}
	if _, err := fmt.Sscanf(rest, "%d-%x", &id.Index, &id.Nonce); err != nil || id.String() != s {
		return ID{}, fmt.Errorf("raft: %q is no id of a session: it is written as %v", s, ID{Index: 1})
	}
	return id, nil
}

// Limits bound the table of sessions. Zero fields take the defaults. They travel in each entry that opens a session, so that
// every member judges by the same limits, whatever its own program says. Those of the newest opening count, except for
// Window, which a session keeps.
type Limits struct {
	Sessions int           // open ones; default 100,000, at most SessionsMax
	Bytes    int64         // of all sessions and stored answers, about; default 256 MiB
	Idle     time.Duration // without an entry, after which a session ends; default 1 h, at most IdleMax
	Window   int           // commands of a session that may be without an answer at one time; default 64, at most WindowMax
}

// The highest limits, and the largest answer that is stored, in bytes.
const (
	SessionsMax    = 1 << 20
	IdleMax        = 365 * 24 * time.Hour
	WindowMax      = 1 << 10
	AnswerBytesMax = 64 << 10
)

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	if l.Sessions == 0 {
		l.Sessions = 100_000
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.Idle == 0 {
		l.Idle = time.Hour
	}
	if l.Window == 0 {
		l.Window = 64
	}
	return l
}

// Validate returns all problems, joined, each a *raft.ConfigError.
func (l Limits) Validate() error {
	var all []error
	check := func(field string, value, most any, ok bool) {
		if !ok {
			all = append(all, &raft.ConfigError{Field: "Limits." + field, Err: fmt.Errorf("%v; it takes more than 0, at most %v", value, most)})
		}
	}
	check("Sessions", l.Sessions, SessionsMax, l.Sessions > 0 && l.Sessions <= SessionsMax)
	check("Bytes", l.Bytes, "what the memory holds", l.Bytes > 0)
	check("Idle", l.Idle, IdleMax, l.Idle > 0 && l.Idle <= IdleMax)
	check("Window", l.Window, WindowMax, l.Window > 0 && l.Window <= WindowMax)
	return errors.Join(all...)
}

// Kind says what an entry of a session does. The numbers are in the log.
type Kind uint8

const (
	Open    Kind = 1 // begins the session whose id has the index of this entry
	Command Kind = 2 // a command of the application
	Close   Kind = 3 // ends the session
)

func (k Kind) String() string {
	switch k {
	case Open:
		return "opening"
	case Command:
		return "command"
	case Close:
		return "end"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Request is the data of an EntrySession.
type Request struct {
	Kind   Kind
	ID     ID     // Index is 0 in an opening
	Limits Limits // of an opening
	Number uint64 // of a command in its session, from 1
	Floor  uint64 // of a command: the client has the answers to all lower numbers, or waits for them no longer; 1 to Number
	Data   []byte // the command
}

// requestVersion is the version of the entries that this release writes, and the only one that it reads. A later version needs
// a feature level of its own.
const requestVersion = 1

// RequestBytesMax is how many bytes an entry has at most beside the command.
const RequestBytesMax = 2 + 16 + 8 + 3*binary.MaxVarintLen64

// Encode returns the data of the entry:
//
//	version uint8 (1) | kind uint8 | cluster id | nonce uint64 | an opening: the limits | else: index, then of a command: number, number - floor, data
//
// Numbers without a type are uvarints, the nonce is little endian.
func (r Request) Encode() []byte {
	b := make([]byte, 0, RequestBytesMax+len(r.Data))
	b = append(b, requestVersion, byte(r.Kind))
	b = append(b, r.ID.Cluster[:]...)
	b = binary.LittleEndian.AppendUint64(b, r.ID.Nonce)
	if r.Kind == Open {
		return appendLimits(b, r.Limits)
	}
	b = binary.AppendUvarint(b, uint64(r.ID.Index))
	if r.Kind == Command {
		b = binary.AppendUvarint(b, r.Number)
		b = binary.AppendUvarint(b, r.Number-r.Floor)
		b = append(b, r.Data...)
	}
	return b
}

func appendLimits(b []byte, l Limits) []byte {
	b = binary.AppendUvarint(b, uint64(l.Sessions))
	b = binary.AppendUvarint(b, uint64(l.Bytes))
	b = binary.AppendUvarint(b, uint64(l.Idle))
	return binary.AppendUvarint(b, uint64(l.Window))
}

// DecodeRequest reads the data of an entry. The command shares it.
func DecodeRequest(data []byte) (Request, error) {
	in := reader{rest: data}
	version, r := in.byte(), Request{Kind: Kind(in.byte())}
	if !in.failed && version != requestVersion {
		return Request{}, fmt.Errorf("raft: the entry of a session has version %d; this release knows %d", version, requestVersion)
	}
	copy(r.ID.Cluster[:], in.bytes(len(r.ID.Cluster)))
	r.ID.Nonce = in.uint64()
	switch r.Kind {
	case Open:
		r.Limits = in.limits()
	case Command:
		r.ID.Index, r.Number = raft.Index(in.uvarint()), in.uvarint()
		r.Floor = r.Number - in.uvarint()
		r.Data, in.rest = in.rest, nil
		in.failed = in.failed || r.Floor == 0 || r.Floor > r.Number || r.Number > numberMax
	case Close:
		r.ID.Index = raft.Index(in.uvarint())
	default:
		in.failed = true
	}
	if !in.done() {
		return Request{}, fmt.Errorf("raft: the entry of a session is malformed: %v, %d bytes", r.Kind, len(data))
	}
	return r, nil
}

// numberMax bounds the numbers of commands, so that sums with a window do not overflow.
const numberMax = 1 << 62

// limits reads valid limits.
func (in *reader) limits() Limits {
	sessions, bytes, idle, window := in.uvarint(), in.uvarint(), in.uvarint(), in.uvarint()
	in.failed = in.failed || max(sessions, bytes, idle, window) > numberMax
	if in.failed {
		return Limits{}
	}
	l := Limits{Sessions: int(sessions), Bytes: int64(bytes), Idle: time.Duration(idle), Window: int(window)}
	in.failed = l.Validate() != nil
	return l
}

// reader reads bytes that others have written. Once it has failed, everything is zero.
type reader struct {
	rest   []byte
	failed bool
}

func (in *reader) bytes(n int) []byte {
	if in.failed = in.failed || n < 0 || n > len(in.rest); in.failed {
		return nil
	}
	var b []byte
	b, in.rest = in.rest[:n:n], in.rest[n:]
	return b
}

func (in *reader) byte() byte {
	if b := in.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (in *reader) uint64() uint64 {
	if b := in.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (in *reader) uvarint() uint64 {
	v, n := binary.Uvarint(in.rest)
	if in.failed = in.failed || n <= 0; in.failed {
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

// done reports whether everything was read, and nothing else.
func (in *reader) done() bool { return !in.failed && len(in.rest) == 0 }
