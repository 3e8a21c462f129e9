package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/coxswain/raft"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumBytes = 4

var errChecksum = errors.New("checksum does not match")

// sealed appends a checksum to the record.
func sealed(record []byte) []byte {
	return binary.LittleEndian.AppendUint32(record, crc32.Checksum(record, castagnoli))
}

// unsealed checks and removes the checksum.
func unsealed(b []byte) ([]byte, error) {
	if len(b) < checksumBytes {
		return nil, fmt.Errorf("cut short at %d bytes", len(b))
	}
	record := b[:len(b)-checksumBytes]
	if binary.LittleEndian.Uint32(b[len(record):]) != crc32.Checksum(record, castagnoli) {
		return nil, errChecksum
	}
	return record, nil
}

// openRecord checks the checksum and the version of a record, and returns the bytes after the version byte. If the version is
// above known, the error is a *raft.LaterVersionError that names the record.
func openRecord(name string, known byte, b []byte) (body []byte, err error) {
	record, err := unsealed(b)
	switch {
	case err != nil:
		return nil, err
	case len(record) == 0:
		return nil, errors.New("empty")
	case record[0] > known:
		return nil, &raft.LaterVersionError{Record: name, Found: uint64(record[0]), Known: uint64(known)}
	case record[0] == 0:
		return nil, errors.New("version 0")
	}
	return record[1:], nil
}

// formatVersion is the format of a store that keeps its entries in the bbolt file. It is also the oldest format that this
// release reads. The format determines which records exist. Each record also has its own version, so that one record can
// change without the others. Up to format 2 the bootstrap of the cluster was in msgpack.
const (
	formatVersion  = 3
	formatSegments = 4 // a store with its entries in segments
	formatNewest   = formatSegments
)

// metaRecord identifies the owner of a store. New releases may add fields, but never remove any. If this release does not
// know a field, it keeps the field unchanged.
type metaRecord struct {
	Format      uint64 `codec:"format"`
	Cluster     string `codec:"cluster"` // empty: not formatted yet
	ID          string `codec:"id"`
	Incarnation uint64 `codec:"incarnation"`
	StartCount  uint64 `codec:"boot"`
	LogOf       uint64 `codec:"log_of,omitempty"` // the incarnation in the segments, if a recovery has changed Incarnation

	unknown map[string]codec.Raw // by name, encoded
}

// logOf returns the incarnation to which the segments belong.
func (m metaRecord) logOf() raft.Incarnation { return raft.Incarnation(cmp.Or(m.LogOf, m.Incarnation)) }

func (m metaRecord) uninitialized() bool { return m.Cluster == "" && m.ID == "" && m.StartCount == 0 }

func (m metaRecord) encode() ([]byte, error) {
	var known []byte
	if err := codec.NewEncoderBytes(&known, metaHandle()).Encode(m); err != nil {
		return nil, err
	}
	fields := map[string]codec.Raw{}
	if err := codec.NewDecoderBytes(known, metaHandle()).Decode(&fields); err != nil {
		return nil, err
	}
	for name, value := range m.unknown {
		fields[name] = value
	}
	var record []byte
	if err := codec.NewEncoderBytes(&record, metaHandle()).Encode(fields); err != nil {
		return nil, err
	}
	return sealed(record), nil
}

func decodeMeta(b []byte) (metaRecord, error) {
	record, err := unsealed(b)
	if err != nil {
		return metaRecord{}, err
	}
	if err := checkFormat(record); err != nil {
		return metaRecord{}, err
	}
	var m metaRecord
	if err := codec.NewDecoderBytes(record, metaHandle()).Decode(&m); err != nil {
		return metaRecord{}, err
	}
	if err := codec.NewDecoderBytes(record, metaHandle()).Decode(&m.unknown); err != nil {
		return metaRecord{}, err
	}
	for _, known := range []string{"format", "cluster", "id", "incarnation", "boot", "log_of"} {
		delete(m.unknown, known)
	}
	return m, nil
}

// checkFormat reads only the format, because a new format may change all other fields.
func checkFormat(record []byte) error {
	var m struct {
		Format uint64 `codec:"format"`
	}
	if err := codec.NewDecoderBytes(record, metaHandle()).Decode(&m); err != nil {
		return err
	}
	if m.Format > formatNewest {
		return &raft.LaterVersionError{Record: "the format record", Found: m.Format, Known: formatNewest}
	}
	if m.Format < formatVersion {
		return &raft.EarlierVersionError{Record: "the format record", Found: m.Format, Oldest: formatVersion}
	}
	return nil
}

func metaHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.WriteExt = true // distinguishes strings from bytes
	h.RawToString = true
	h.Canonical = true
	h.Raw = true
	return h
}

// hardRecord is the record that every write replaces. It holds term and vote, the commit hint, the beginning and the end of
// the log, and the index of the recorded snapshot. With it, Load notices if entries at the end of the log are lost, or if the
// record of the snapshot is lost.
type hardRecord struct {
	hard          raft.HardState
	commit        raft.Index
	start         raft.EntryID // the log begins after this entry
	last          raft.EntryID
	snapshotIndex raft.Index // last entry of the recorded snapshot; 0: none is recorded
}

// If the log begins at entry 1 and the store has no snapshot, the record is of version 1, because every release reads that
// version. Otherwise the record is of version 2. A release that knows only version 1 would mistake the remainder of a
// compacted log for the whole log. In a cluster with priorities, a member that leads, or that has lost its leadership, has a
// record of version 3. A member that may have promised a lease has a record of version 4: an earlier release would not wait for
// the promise after a start. A member of a recovered cluster has a record of version 5 until entry 1 is compacted: an earlier release
// would take the cluster in entry 1 for its own.
const (
	hardVersion       = 5  // the newest version that this release reads
	hardVersionLease  = 4  // without the id of the cluster
	hardVersionOffice = 3  // without the lease
	hardVersionBase   = 2  // without the office
	hardVersionWhole  = 1  // without the index of the snapshot
	hardNumbers       = 12 // numbers of eight bytes before the id of the vote in version 5
	hardName          = "the record of term and vote"
)

// hardCount returns how many numbers a record of the version has.
func hardCount(version uint8) int {
	if version == hardVersion {
		return hardNumbers
	}
	return 6 + int(version)
}

// whole reports whether the log begins at entry 1 and no snapshot is recorded.
func (h hardRecord) whole() bool { return h.start == raft.EntryID{} && h.snapshotIndex == 0 }

// version returns the version of the record.
func (h hardRecord) version() uint8 {
	switch {
	case h.hard.Cluster != (raft.ClusterID{}):
		return hardVersion
	case h.hard.Lease > 0:
		return hardVersionLease
	case h.hard.Leading || h.hard.Losses > 0:
		return hardVersionOffice
	case h.whole():
		return hardVersionWhole
	}
	return hardVersionBase
}

// encode returns: version uint8 | numbers uint64 | id of the vote | CRC-32C of all before. Version 1 has seven numbers,
// and each later version has one more, but for the last, which has two more, the id of the cluster.
func (h hardRecord) encode() []byte {
	numbers := []uint64{
		uint64(h.hard.Term), uint64(h.hard.Vote.Incarnation), uint64(h.commit),
		uint64(h.start.Term), uint64(h.start.Index), uint64(h.last.Term), uint64(h.last.Index), uint64(h.snapshotIndex),
		uint64(h.hard.Losses) << 1, uint64(h.hard.Lease),
		binary.LittleEndian.Uint64(h.hard.Cluster[:8]), binary.LittleEndian.Uint64(h.hard.Cluster[8:]),
	}
	if h.hard.Leading {
		numbers[hardCount(hardVersionOffice)-1] |= 1
	}
	b := make([]byte, 0, 1+hardNumbers*8+len(h.hard.Vote.ID)+checksumBytes)
	b = append(b, h.version())
	for _, n := range numbers[:hardCount(h.version())] {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return sealed(append(b, h.hard.Vote.ID...))
}

func decodeHard(b []byte) (hardRecord, error) {
	record, err := openRecord(hardName, hardVersion, b)
	if err != nil {
		return hardRecord{}, err
	}
	count := hardCount(b[0])
	if len(record) < count*8 || len(record) > count*8+raft.NodeIDBytesMax {
		return hardRecord{}, fmt.Errorf("a record of %d bytes", len(record))
	}
	var n [hardNumbers]uint64
	for i := range count {
		n[i] = binary.LittleEndian.Uint64(record[i*8:])
	}
	h := hardRecord{
		hard: raft.HardState{
			Term: raft.Term(n[0]), Vote: raft.Peer{ID: raft.NodeID(record[count*8:]), Incarnation: raft.Incarnation(n[1])},
			Leading: n[8]&1 > 0, Losses: uint8(min(n[8]>>1, 255)), Lease: raft.Time(n[9]),
		},
		commit:        raft.Index(n[2]),
		start:         raft.EntryID{Term: raft.Term(n[3]), Index: raft.Index(n[4])},
		last:          raft.EntryID{Term: raft.Term(n[5]), Index: raft.Index(n[6])},
		snapshotIndex: raft.Index(n[7]),
	}
	binary.LittleEndian.PutUint64(h.hard.Cluster[:8], n[10])
	binary.LittleEndian.PutUint64(h.hard.Cluster[8:], n[11])
	if h.version() != b[0] {
		return hardRecord{}, fmt.Errorf("version %d, for a log after entry %v and a snapshot of entry %d", b[0], h.start, h.snapshotIndex)
	}
	return h, nil
}
