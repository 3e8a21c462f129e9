package storage

import (
	"fmt"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
)

const (
	lineageVersion = 1 // the newest version that this release reads; it writes this one
	lineageName    = "the record of its starts"
)

// lineageRecord holds the starts of a store, what its member remembers of its peers, and the mark.
type lineageRecord struct {
	starts raft.Lineage
	memory raft.Sightings
	mark   *raft.Mark
}

// storedLineage is the stored form of a lineageRecord; a version byte precedes it.
type storedLineage struct {
	Starts    []storedStart    `codec:"boots"`
	Seen      []storedSighting `codec:"seen,omitempty"`
	Confirmed []storedSighting `codec:"confirmed,omitempty"`
	Mark      *storedMark      `codec:"mark,omitempty"`
}

type storedStart struct {
	Count uint64 `codec:"b"`
	Nonce uint64 `codec:"n"`
}

type storedSighting struct {
	ID          string      `codec:"id"`
	Incarnation uint64      `codec:"inc"`
	Start       storedStart `codec:"boot"`
	Term        uint64      `codec:"term,omitempty"`
	Address     string      `codec:"addr,omitempty"` // a release that does not know this field skips it
}

type storedMark struct {
	Kind        uint8  `codec:"kind"`
	ID          string `codec:"id"`
	Incarnation uint64 `codec:"inc"`
	Term        uint64 `codec:"term,omitempty"`
	OursTerm    uint64 `codec:"oterm,omitempty"`
	OursIndex   uint64 `codec:"oindex,omitempty"`
	TheirsTerm  uint64 `codec:"tterm,omitempty"`
	TheirsIndex uint64 `codec:"tindex,omitempty"`
	Detail      string `codec:"detail,omitempty"`
}

func (l lineageRecord) encode() ([]byte, error) {
	s := storedLineage{Seen: storedSightings(l.memory.Seen), Confirmed: storedSightings(l.memory.Confirmed)}
	for _, b := range l.starts {
		s.Starts = append(s.Starts, storedStart(b))
	}
	if m := l.mark; m != nil {
		s.Mark = &storedMark{
			Kind: uint8(m.Kind), ID: string(m.By.ID), Incarnation: uint64(m.By.Incarnation), Term: uint64(m.Term),
			OursTerm: uint64(m.Ours.Term), OursIndex: uint64(m.Ours.Index),
			TheirsTerm: uint64(m.Theirs.Term), TheirsIndex: uint64(m.Theirs.Index), Detail: m.Detail,
		}
	}
	var body []byte
	if err := codec.NewEncoderBytes(&body, metaHandle()).Encode(s); err != nil {
		return nil, err
	}
	return sealed(append([]byte{lineageVersion}, body...)), nil
}

func storedSightings(all []raft.Sighting) (stored []storedSighting) {
	for _, s := range all {
		stored = append(stored, storedSighting{
			string(s.Peer.ID), uint64(s.Peer.Incarnation), storedStart(s.Start), uint64(s.Term), s.Address,
		})
	}
	return stored
}

func decodeLineage(b []byte) (lineageRecord, error) {
	body, err := openRecord(lineageName, lineageVersion, b)
	if err != nil {
		return lineageRecord{}, err
	}
	var s storedLineage
	if err := codec.NewDecoderBytes(body, metaHandle()).Decode(&s); err != nil {
		return lineageRecord{}, err
	}
	l := lineageRecord{memory: raft.Sightings{Seen: sightings(s.Seen), Confirmed: sightings(s.Confirmed)}}
	for _, b := range s.Starts {
		l.starts = append(l.starts, raft.StartID(b))
	}
	if m := s.Mark; m != nil {
		l.mark = &raft.Mark{
			Kind: raft.MarkKind(m.Kind), By: peer(m.ID, m.Incarnation), Term: raft.Term(m.Term), Detail: m.Detail,
			Ours:   raft.EntryID{Term: raft.Term(m.OursTerm), Index: raft.Index(m.OursIndex)},
			Theirs: raft.EntryID{Term: raft.Term(m.TheirsTerm), Index: raft.Index(m.TheirsIndex)},
		}
	}
	return l, l.starts.Check()
}

func sightings(stored []storedSighting) (all []raft.Sighting) {
	for _, s := range stored {
		all = append(all, raft.Sighting{
			Peer: peer(s.ID, s.Incarnation), Start: raft.StartID(s.Start), Term: raft.Term(s.Term), Address: s.Address,
		})
	}
	return all
}

func peer(id string, incarnation uint64) raft.Peer {
	return raft.Peer{ID: raft.NodeID(id), Incarnation: raft.Incarnation(incarnation)}
}

// with returns the record after the write. The first mark stays.
func (l lineageRecord) with(w raft.StorageWrite) lineageRecord {
	if w.Memory != nil {
		l.memory = raft.Sightings{Seen: slices.Clone(w.Memory.Seen), Confirmed: slices.Clone(w.Memory.Confirmed)}
	}
	if w.Mark != nil && l.mark == nil {
		mark := *w.Mark
		l.mark = &mark
	}
	return l
}

// fill copies the lineage into s; the caller owns the copy.
func (l lineageRecord) fill(s *raft.Stored) {
	s.Lineage = slices.Clone(l.starts)
	s.Memory = raft.Sightings{Seen: slices.Clone(l.memory.Seen), Confirmed: slices.Clone(l.memory.Confirmed)}
	if l.mark != nil {
		mark := *l.mark
		s.Mark = &mark
	}
}

func (l lineageRecord) put(tx *bbolt.Tx) error {
	record, err := l.encode()
	if err != nil {
		return err
	}
	return tx.Bucket(lineageBucket).Put(recordKey, record)
}

// readLineage reads the lineage. It checks that the last start in the lineage has the number that the owner's record counts.
func (b *boltStore) readLineage(tx *bbolt.Tx, startCount uint64) (lineageRecord, error) {
	bytes, err := b.record(tx, lineageBucket)
	if err != nil {
		return lineageRecord{}, err
	}
	record, err := decodeLineage(bytes)
	if err == nil && record.starts.Last().Count != startCount {
		err = fmt.Errorf("it ends at start %d, and the store was started %d times", record.starts.Last().Count, startCount)
	}
	if err != nil {
		return lineageRecord{}, damaged(b.path, lineageName, err)
	}
	return record, nil
}
