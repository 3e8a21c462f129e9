// Package backup writes and reads backups: the state of a member, and entries that follow it, as one stream of bytes. format.go
// describes the stream, writer.go writes it and reader.go reads it. Who takes and who restores a backup is in packages node and
// storage.
//
// The checksum of each frame covers all frames before it, so a reader notices a frame that was changed, left out, repeated or
// moved. It does not cover the checksums: a CRC over bytes and their own CRC is the same for all bytes. A stream without its last frame is cut short, wherever that happened.
package backup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/coxswain/raft"
)

// A backup is, little endian:
//
//	head:   "coxsbak\n" | version uint8 (1)
//	frames: kind uint8 | length of the payload uint32 | payload | CRC-32C of everything before but the checksums
//
// The first frame describes the backup. Frames of the state and then frames of entries follow, and the last frame ends it. What comes
// after that is no part of it, and is refused. The head has the same form in every version, so that this release can distinguish a
// later one from damage.
const (
	magic      = "coxsbak\n"
	version    = 1
	headBytes  = len(magic) + 1
	frameBytes = 5 // before the payload
	sumBytes   = 4

	stateBytes    = 64 << 10 // of the state in one frame
	describeBytes = raft.SnapshotRecordBytesMax + 64<<10
	recordBytes   = raft.EntryDataBytesMax + raft.RecordOverheadBytes
)

// kind says what a frame holds.
type kind uint8

const (
	kindHead  kind = 1 // a headRecord
	kindState kind = 2 // bytes of the state
	kindEntry kind = 3 // the record of an entry
	kindEnd   kind = 4 // an endRecord
)

// limit returns how long a payload may be; 0: there is no such kind.
func (k kind) limit() int {
	return map[kind]int{kindHead: describeBytes, kindState: stateBytes, kindEntry: recordBytes, kindEnd: describeBytes}[k]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Head describes a backup.
type Head struct {
	Name       string         // node.Config.Cluster
	Cluster    raft.ClusterID // of the cluster
	Member     raft.Member    // that took it, as the configuration named it
	Term       raft.Term      // the highest that it knew
	AppVersion uint64         // node.Config.AppVersion of the member; 0: not known
	At         time.Time      // when it was taken, by its wall clock
	Base       raft.Base      // of the state; zero: there is no state, and the entries begin with the first one
}

// headRecord is Head as it is written, in JSON. Unknown fields are ignored. A release that adds a field which must not be ignored
// raises the version of the stream.
type headRecord struct {
	Name        string          `json:"name"`
	Cluster     []byte          `json:"cluster"`
	ID          string          `json:"id"`
	Address     string          `json:"address"`
	Incarnation uint64          `json:"incarnation"`
	Term        uint64          `json:"term"`
	AppVersion  uint64          `json:"app_version"`
	At          int64           `json:"at"` // ns since 1970
	Base        json.RawMessage `json:"base,omitempty"`
}

// End is what the last frame says, so that what precedes it is complete.
type End struct {
	Bytes   int64  `json:"bytes"`   // of the state
	Entries uint64 `json:"entries"` // after the state
}

func (h Head) encode() ([]byte, error) {
	r := headRecord{
		Name: h.Name, Cluster: h.Cluster[:], ID: string(h.Member.ID), Address: h.Member.Address,
		Incarnation: uint64(h.Member.Incarnation), Term: uint64(h.Term), AppVersion: h.AppVersion, At: h.At.UnixNano(),
	}
	if h.Base.ID.Index > 0 {
		r.Base = h.Base.Encode()
	}
	return json.Marshal(r)
}

func decodeHead(data []byte) (h Head, err error) {
	var r headRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return h, err
	}
	h = Head{
		Name: r.Name, Term: raft.Term(r.Term), AppVersion: r.AppVersion, At: time.Unix(0, r.At),
		Member: raft.Member{ID: raft.NodeID(r.ID), Address: r.Address, Incarnation: raft.Incarnation(r.Incarnation)},
	}
	if len(r.Cluster) != len(h.Cluster) || copy(h.Cluster[:], r.Cluster) == 0 || h.Cluster == (raft.ClusterID{}) {
		return h, errors.New("it does not name its cluster")
	}
	if len(r.Base) > 0 {
		if h.Base, err = raft.DecodeBase(r.Base); err != nil {
			return h, err
		}
	}
	if h.Term >= 1<<63 || h.Term < h.Base.ID.Term {
		return h, fmt.Errorf("its term is %d, and its state is of term %d", h.Term, h.Base.ID.Term)
	}
	return h, nil
}

// DamagedError says that a backup cannot be restored. Nothing of it has been restored.
type DamagedError struct {
	At     int64 // offset of the frame in the stream
	Reason error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("storage: the backup is damaged at offset %d: %v; take another copy of it, or another backup", e.At, e.Reason)
}

// Unwrap returns the reason.
func (e *DamagedError) Unwrap() error { return e.Reason }

// frame returns what precedes a payload.
func frame(k kind, payload []byte) []byte {
	return binary.LittleEndian.AppendUint32([]byte{byte(k)}, uint32(len(payload)))
}
