package storage

import (
	"bytes"
	"testing"

	"github.com/coxswain/raft"
)

// FuzzHardState decodes any bytes as the record of term and vote. If decoding accepts the bytes, encode must return the same
// bytes. After a change of a single bit, decoding must not accept them.
func FuzzHardState(f *testing.F) {
	voted := hardRecord{
		hard:   raft.HardState{Term: 7, Vote: raft.Peer{ID: "b", Incarnation: 9}},
		commit: 3, start: raft.EntryID{}, last: raft.EntryID{Term: 7, Index: 5},
	}
	f.Add(hardRecord{}.encode(), uint16(0))
	f.Add(voted.encode(), uint16(17))
	voted.start, voted.snapshotIndex = raft.EntryID{Term: 2, Index: 4}, 4
	f.Add(voted.encode(), uint16(5))
	f.Add(voted.encode()[:40], uint16(3))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, bit uint16) {
		_, _ = decodeHard(b)
		record := sealed(bytes.Clone(b)) // otherwise the checksum keeps the fuzzer out of the fields
		h, err := decodeHard(record)
		if err != nil {
			return
		}
		if again := h.encode(); !bytes.Equal(again, record) {
			t.Fatalf("%x reads as %+v, which is written as %x", record, h, again)
		}
		record[int(bit/8)%len(record)] ^= 1 << (bit % 8)
		if h, err := decodeHard(record); err == nil {
			t.Fatalf("a changed bit was accepted: %x as %+v", record, h)
		}
	})
}

// FuzzMetaRecord decodes any bytes as the record of a store's owner. If decoding accepts a record, encoding it again must
// keep every field, including unknown fields.
func FuzzMetaRecord(f *testing.F) {
	known, err := metaRecord{Format: formatVersion, Cluster: "orders", ID: "a", Incarnation: 5, StartCount: 2}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(known[:len(known)-checksumBytes])
	f.Add([]byte{0x81, 0xa5, 'l', 'a', 't', 'e', 'r', 0x93, 1, 2, 3})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xc6, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(sealed(bytes.Clone(b)))
		if err != nil {
			return
		}
		first, err := m.encode()
		if err != nil {
			t.Fatalf("%x was read and cannot be written: %v", b, err)
		}
		m, err = decodeMeta(first)
		if err != nil {
			t.Fatalf("%x, written as %x, cannot be read: %v", b, first, err)
		}
		if second, err := m.encode(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x is written as %x, and then as %x, %v", b, first, second, err)
		}
	})
}

func aLineage() lineageRecord {
	return lineageRecord{
		starts: raft.Lineage{}.Begin(7).Begin(8),
		memory: raft.Sightings{
			Seen:      []raft.Sighting{{Peer: peer("n2", 5), Start: raft.StartID{Count: 3, Nonce: 4}, Term: 6, Address: "h2:1"}},
			Confirmed: []raft.Sighting{{Peer: peer("n3", 6), Start: raft.StartID{Count: 1, Nonce: 7}}},
		},
		mark: &raft.Mark{Kind: raft.MarkStaleImage, By: peer("n2", 5), Detail: "it was shown"},
	}
}

// FuzzLineage decodes any bytes as the record of a store's starts. If decoding accepts a record, encoding it again must keep
// the record.
func FuzzLineage(f *testing.F) {
	known, err := aLineage().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(known[:len(known)-checksumBytes])
	f.Add([]byte{lineageVersion})
	f.Add([]byte{lineageVersion, 0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLineage(sealed(bytes.Clone(b)))
		if err != nil {
			return
		}
		first, err := l.encode()
		if err != nil {
			t.Fatalf("%x was read and cannot be written: %v", b, err)
		}
		l, err = decodeLineage(first)
		if err != nil {
			t.Fatalf("%x, written as %x, cannot be read: %v", b, first, err)
		}
		if second, err := l.encode(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x is written as %x, and then as %x, %v", b, first, second, err)
		}
	})
}
