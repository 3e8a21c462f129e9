package raft

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// Term numbers elections; each has at most one leader (paper §5.1). Term 0 is before a cluster's first election.
type Term uint64

// Index is the position of an entry in the log, from 1; 0: before the log.
type Index uint64

// NodeID names a member: 1 to NodeIDBytesMax bytes of printable ASCII without spaces. Do not reuse it for another member.
type NodeID string

// Incarnation is a random number that a store draws when it is formatted, so that a member whose disk was emptied returns as
// another incarnation of its NodeID. 0 means "unknown".
type Incarnation uint64

func (i Incarnation) String() string { return fmt.Sprintf("%016x", uint64(i)) }

// ClusterID is drawn at random when a cluster is bootstrapped, whose first entry holds it, and anew by each recovery. Zero means
// "no cluster yet".
type ClusterID [16]byte

func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// EntryID names an entry. Two logs that hold an entry with one id are identical up to it (Log Matching, Figure 3).
type EntryID struct {
	Term  Term
	Index Index
}

func (e EntryID) String() string { return fmt.Sprintf("%d@%d", e.Index, e.Term) }

// EntryKind says what an entry is for. Its numbers are in the record format.
type EntryKind uint8

const (
	EntryCommand       EntryKind = 1 // a command of the application: the only kind that an FSM without sessions sees
	EntryNoop          EntryKind = 2 // begins a leader's term, and carries Barrier
	EntryBootstrap     EntryKind = 3 // entry 1, which bootstraps the cluster, see Bootstrap
	EntryConfiguration EntryKind = 4 // changes the members, see Configuration
	EntrySession       EntryKind = 5 // opens or ends a session, or is a command of one: see SessionFSM
	EntryRecovery      EntryKind = 6 // makes the log that of a new cluster, see Recovery
)

const entryKindMax = uint64(EntryRecovery) // the highest that this release knows

func (k EntryKind) String() string {
	switch k {
	case EntryCommand:
		return "command"
	case EntryNoop:
		return "no-op"
	case EntryBootstrap:
		return "bootstrap"
	case EntryConfiguration:
		return "configuration"
	case EntrySession:
		return "session"
	case EntryRecovery:
		return "recovery"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// known reports whether this release accepts entries of the kind.
func (k EntryKind) known() bool { return k >= EntryCommand && uint64(k) <= entryKindMax }

// Entry is one entry of the log. It is immutable once it has left Step, because all copies share its bytes.
type Entry struct {
	Index Index
	Term  Term
	Kind  EntryKind
	Time  int64 // leader's wall clock in ns since 1970, at most a minute ahead of the voters' median; never falls
	Data  []byte

	// record is the buffer of the encoded record, with Data in it; see Seal. It is nil until there is one.
	record []byte
}

// ID returns the entry's id.
func (e Entry) ID() EntryID { return EntryID{e.Term, e.Index} }

// Limits of an entry record, in bytes.
const (
	recordHeaderBytes   = 4 + 4 + 8 + 8 + 8 + 1
	recordTrailerBytes  = 4
	RecordOverheadBytes = recordHeaderBytes + recordTrailerBytes // of a record, beside the entry's data
	EntryDataBytesMax   = 64 << 20                               // of the data of one entry, whatever the configuration
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryVersion is the version of the entry records that this release writes, and the newest version that it knows. The
// length, the group, the version, the index, the term and the checksum keep their places in every version. So each release
// can tell a record of a later release from a damaged one.
const entryVersion = 0

// The number of the group takes three bytes. The version is the byte after them.
const (
	groupMask = 1<<24 - 1
	versionAt = 7
)

// ErrBadRecord: the bytes are not exactly one undamaged record. A store returns a *CorruptError for them; a transport drops
// the connection.
var ErrBadRecord = errors.New("raft: bad entry record")

// Record returns the entry as the bytes that are stored and sent, little endian. Do not change them:
//
//	length of the data uint32 | group uint24 (0) | version uint8 (0) | index uint64 | term uint64 | time int64 | kind uint8 | data | CRC-32C of all before
func (e Entry) Record() []byte {
	if e.record == nil {
		e.Seal()
	}
	return e.record
}

// recordBuffer returns the buffer of a record that already contains a copy of data. So a command is copied only once between
// the caller and the disk or the network.
func recordBuffer(data []byte) (record, within []byte) {
	record = make([]byte, RecordOverheadBytes+len(data))
	within = record[recordHeaderBytes : recordHeaderBytes+len(data) : recordHeaderBytes+len(data)]
	copy(within, data)
	return record, within
}

// Seal encodes the entry's record, in place after NewProposal, unless it is encoded already. A loop seals the entries of each
// Output.Write before it passes them on; from then on the Record is shared.
func (e *Entry) Seal() {
	if e.sealed() {
		return
	}
	assert(len(e.Data) <= EntryDataBytesMax, "an entry is within the limit of its record")
	if e.record == nil {
		e.record, e.Data = recordBuffer(e.Data)
	}
	r := e.record
	binary.LittleEndian.PutUint32(r[0:], uint32(len(e.Data)))
	binary.LittleEndian.PutUint32(r[4:], entryVersion<<24) // of group 0
	binary.LittleEndian.PutUint64(r[8:], uint64(e.Index))
	binary.LittleEndian.PutUint64(r[16:], uint64(e.Term))
	binary.LittleEndian.PutUint64(r[24:], uint64(e.Time))
	r[32] = byte(e.Kind)
	end := len(r) - recordTrailerBytes
	binary.LittleEndian.PutUint32(r[end:], crc32.Checksum(r[:end], castagnoli))
}

// sealed reports whether the record has been encoded. In a fresh buffer the index is 0, which no entry has.
func (e *Entry) sealed() bool {
	return e.record != nil && Index(binary.LittleEndian.Uint64(e.record[8:])) == e.Index
}

// DecodeEntry decodes and checks the one record in record, which the entry shares: do not change it afterwards.
//
// The error matches ErrBadRecord or is a *LaterVersionError. With the latter come the entry's index and term, and its kind if
// only that is unknown. Do not store or acknowledge such an entry.
func DecodeEntry(record []byte) (Entry, error) {
	n, err := RecordSize(record)
	if err != nil {
		return Entry{}, err
	}
	if n != len(record) {
		return Entry{}, fmt.Errorf("%w: %d bytes where the header says %d", ErrBadRecord, len(record), n)
	}
	end := n - recordTrailerBytes
	want := binary.LittleEndian.Uint32(record[end:])
	if got := crc32.Checksum(record[:end], castagnoli); got != want {
		return Entry{}, fmt.Errorf("%w: checksum %08x, computed %08x", ErrBadRecord, want, got)
	}
	e := Entry{
		Index: Index(binary.LittleEndian.Uint64(record[8:])),
		Term:  Term(binary.LittleEndian.Uint64(record[16:])),
	}
	if e.Index == 0 {
		return Entry{}, fmt.Errorf("%w: index 0", ErrBadRecord)
	}
	if v := record[versionAt]; v > entryVersion {
		return e, &LaterVersionError{Record: "entry " + e.ID().String(), Found: uint64(v), Known: entryVersion}
	}
	if group := binary.LittleEndian.Uint32(record[4:]) & groupMask; group != 0 {
		return e, &LaterVersionError{Record: "the group number of entry " + e.ID().String(), Found: uint64(group)}
	}
	e.Kind = EntryKind(record[32])
	if e.Kind < EntryCommand {
		return Entry{}, fmt.Errorf("%w: entry kind %d", ErrBadRecord, e.Kind)
	}
	if !e.Kind.known() {
		return e, &LaterVersionError{Record: "the kind of entry " + e.ID().String(), Found: uint64(e.Kind), Known: entryKindMax}
	}
	e.Time = int64(binary.LittleEndian.Uint64(record[24:]))
	e.Data, e.record = record[recordHeaderBytes:end:end], record
	return e, nil
}

// RecordSize returns the size of the record that begins with prefix, header and checksum included. It needs the first four
// bytes. A reader of a stream checks the size before it allocates.
func RecordSize(prefix []byte) (int, error) {
	if len(prefix) < 4 {
		return 0, fmt.Errorf("%w: cut short at %d bytes", ErrBadRecord, len(prefix))
	}
	n := binary.LittleEndian.Uint32(prefix)
	if n > EntryDataBytesMax {
		return 0, fmt.Errorf("%w: %d bytes of data, over the limit of %d", ErrBadRecord, n, EntryDataBytesMax)
	}
	return int(n) + RecordOverheadBytes, nil
}
