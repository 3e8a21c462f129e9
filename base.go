package raft

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Base replaces the committed entries that were deleted at a log's beginning.
type Base struct {
	ID           EntryID       // of the last deleted entry: the paper's last included index and term (§7)
	Time         int64         // the highest stamp up to ID
	Cluster      ClusterID     // from entry 1, like Bootstrapper
	Bootstrapper Peer          // see Bootstrap
	ConfigIndex  Index         // of the entry that holds Config
	Config       Configuration // the newest one in the entries up to ID
}

// SnapshotID names the bytes of one snapshot. The member that takes it draws the id at random, because two snapshots of
// one entry need not have the same bytes. The zero value names no bytes.
type SnapshotID [16]byte

func (s SnapshotID) String() string { return hex.EncodeToString(s[:]) }

// Snapshot describes the state of the FSM once the entries up to Base.ID are applied, and the bytes that hold it.
type Snapshot struct {
	Base
	File SnapshotID // zero: no bytes, because a DurableFSM holds the state itself
	Size int64      // in bytes; -1: not known yet, only while Held
	Sum  uint32     // CRC-32C of all bytes; 0 while Size is -1
	Held bool       // the sender reads the bytes from a frozen state in its memory, not from a file
}

// The versions of a base or snapshot. Releases that cannot change members know only the first version. This release writes
// the first version until the members of a cluster have been changed, so that those earlier releases can read what it writes.
const (
	snapshotVersionMembers = 1                     // has a list of members
	snapshotVersionConfig  = 2                     // has a configurationRecord
	snapshotVersion        = snapshotVersionConfig // the newest that this release reads
)

// baseRecord is Base as it is stored and sent, in JSON. Later releases may add fields. A release that adds a field which must
// not be ignored raises the version.
type baseRecord struct {
	Version       uint64          `json:"version"`
	Index         uint64          `json:"index"`
	Term          uint64          `json:"term"`
	Time          int64           `json:"time"`
	Cluster       []byte          `json:"cluster"`
	Bootstrapper  string          `json:"bootstrapper"`
	Incarnation   uint64          `json:"incarnation"`
	ConfigIndex   uint64          `json:"config_index"`
	Members       []memberRecord  `json:"members,omitempty"`       // version 1
	Configuration json.RawMessage `json:"configuration,omitempty"` // version 2, a configurationRecord
}

type snapshotRecord struct {
	baseRecord
	File []byte `json:"file"`
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"`
	Held bool   `json:"held,omitempty"`
}

// Encode returns the base as it is stored.
func (b Base) Encode() []byte { return encodeRecord(b.record()) }

// Encode returns the snapshot's description as it is stored and sent.
func (s Snapshot) Encode() []byte {
	return encodeRecord(snapshotRecord{baseRecord: s.record(), File: s.File[:], Size: s.Size, Sum: s.Sum, Held: s.Held})
}

func encodeRecord(record any) []byte {
	data, err := json.Marshal(record)
	assert(err == nil, "the description of a snapshot encodes")
	return data
}

func (b Base) record() baseRecord {
	r := baseRecord{
		Index: uint64(b.ID.Index), Term: uint64(b.ID.Term), Time: b.Time, Cluster: b.Cluster[:],
		Bootstrapper: string(b.Bootstrapper.ID), Incarnation: uint64(b.Bootstrapper.Incarnation), ConfigIndex: uint64(b.ConfigIndex),
	}
	if b.Config.Level == 0 {
		r.Version, r.Members = snapshotVersionMembers, memberRecords(b.Config)
	} else {
		r.Version, r.Configuration = snapshotVersionConfig, b.Config.Encode()
	}
	return r
}

// DecodeBase decodes and checks what Base.Encode returned. For a version of a later release it returns a *LaterVersionError.
func DecodeBase(data []byte) (Base, error) {
	var r baseRecord
	if err := decodeRecord("the base of the log", data, &r); err != nil {
		return Base{}, err
	}
	return r.base()
}

// DecodeSnapshot decodes and checks what Snapshot.Encode returned. For a version of a later release it returns a
// *LaterVersionError.
func DecodeSnapshot(data []byte) (Snapshot, error) {
	var r snapshotRecord
	if err := decodeRecord("the description of a snapshot", data, &r); err != nil {
		return Snapshot{}, err
	}
	base, err := r.base()
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Base: base, Size: r.Size, Sum: r.Sum, Held: r.Held}
	if len(r.File) != len(s.File) {
		return Snapshot{}, fmt.Errorf("raft: snapshot of entry %v: its id has %d bytes; it must have %d", s.ID, len(r.File), len(s.File))
	}
	copy(s.File[:], r.File)
	return s, s.Check()
}

func decodeRecord(what string, data []byte, record any) error {
	if len(data) > SnapshotRecordBytesMax {
		return fmt.Errorf("raft: %s has %d bytes; the limit is %d", what, len(data), SnapshotRecordBytesMax)
	}
	var r struct {
		Version uint64 `json:"version"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("raft: %s: %w", what, err)
	}
	switch {
	case r.Version > snapshotVersion:
		return &LaterVersionError{Record: what, Found: r.Version, Known: snapshotVersion}
	case r.Version == 0:
		return fmt.Errorf("raft: %s: it has no version", what)
	}
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("raft: %s: %w", what, err)
	}
	return nil
}

func (r baseRecord) base() (Base, error) {
	b := Base{
		ID: EntryID{Term(r.Term), Index(r.Index)}, Time: r.Time, ConfigIndex: Index(r.ConfigIndex),
		Bootstrapper: Peer{NodeID(r.Bootstrapper), Incarnation(r.Incarnation)},
	}
	var err error
	if b.Config, err = r.config(); err != nil {
		return Base{}, err
	}
	if len(r.Cluster) != len(b.Cluster) {
		return Base{}, fmt.Errorf("raft: base %v: the cluster id has %d bytes; it must have %d", b.ID, len(r.Cluster), len(b.Cluster))
	}
	copy(b.Cluster[:], r.Cluster)
	return b, b.Check()
}

func (r baseRecord) config() (Configuration, error) {
	if r.Version == snapshotVersionMembers {
		return configurationOf(r.Members), nil
	}
	return DecodeConfiguration(r.Configuration)
}

// Check returns an error if no log can have this base.
func (b Base) Check() error {
	if err := b.problem(); err != nil {
		return fmt.Errorf("raft: base %v: %w", b.ID, err)
	}
	return nil
}

func (b Base) problem() error {
	switch {
	case b.ID.Index == 0 || b.ID.Index >= 1<<63 || b.ID.Term == 0 || b.ID.Term >= 1<<63:
		return errors.New("its index and its term must be from 1 to 2^63-1")
	case b.Cluster == ClusterID{}:
		return errors.New("the cluster id is zero")
	case b.ConfigIndex == 0 || b.ConfigIndex > b.ID.Index:
		return fmt.Errorf("its configuration is of entry %d, which is not one of its entries", b.ConfigIndex)
	case b.Bootstrapper.Incarnation == 0:
		return errors.New("the bootstrapper has no incarnation")
	case b.Config.Level > featureLevelMax:
		return laterLevel(b.Config.Level)
	case b.Config.Level == 0 && b.ConfigIndex > 1:
		return fmt.Errorf("its configuration is of entry %d, and of feature level 0, at which members are not changed", b.ConfigIndex)
	}
	if n := len(b.Config.Removed); n > 0 && b.Config.Removed[n-1].Index > b.ConfigIndex {
		return fmt.Errorf("its configuration is of entry %d, and entry %d has removed a member", b.ConfigIndex, b.Config.Removed[n-1].Index)
	}
	if err := validateNodeID(b.Bootstrapper.ID); err != nil {
		return err
	}
	if err := b.Config.Validate(); err != nil {
		return err
	}
	for _, m := range b.Config.Members {
		if m.Incarnation == 0 {
			return fmt.Errorf("member %q has no incarnation", m.ID)
		}
	}
	return nil
}

// Check returns an error if there can be no such snapshot.
func (s Snapshot) Check() error {
	if err := s.Base.Check(); err != nil {
		return err
	}
	unknown := s.Held && s.Size == -1 && s.Sum == 0
	switch {
	case s.Size < 0 && !unknown:
		return fmt.Errorf("raft: snapshot of entry %v: its size is %d", s.ID, s.Size)
	case s.File == SnapshotID{} && (s.Size != 0 || s.Sum != 0 || s.Held):
		return fmt.Errorf("raft: snapshot of entry %v: it has no id, but %d bytes", s.ID, s.Size)
	}
	return nil
}
