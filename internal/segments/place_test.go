package segments_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

const (
	firstBatch = 512   // its offset in a segment
	batchHead  = 72    // bytes before its records
	syncedAt   = 5 * 8 // place of the synced offset in the head
	lengthAt   = 7 * 8 // place of the length of the records
	sumAt      = 8 * 8
)

// batchAt returns the bytes of a batch.
func batchAt(b []byte, offset int) []byte {
	length := batchHead + int(binary.LittleEndian.Uint32(b[offset+lengthAt:]))
	return b[offset : offset+(length+7)/8*8]
}

// A disk may write a batch to the wrong place. The log must not include a batch that is not in its own place.
func TestPlace_OfABatch(t *testing.T) {
	s := newScript(newTree().FS())
	s.sizes.FirstBytes, s.sizes.SegmentBytes = 1<<14, 1<<14
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 1), appends(0, 1, 2), closes()}))
	require.Len(t, s.catalog.Listed, 1)
	end := s.catalog.Synced
	change(t, s.disk, s.path(0), func(b []byte) []byte { copy(b[end:], batchAt(b, firstBatch)); return b })
	require.NoError(t, starts()(s))
	require.NoError(t, s.acked.differs(s.log))
}

// A command may contain a copy of a batch of the segment that the command is written to. If the write of the command is torn,
// the copy must not count as a batch.
func TestPlace_OfABatchInACommand(t *testing.T) {
	s := newScript(newTree().FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 1), closes()}))
	end := s.catalog.Synced
	change(t, s.disk, s.path(0), func(b []byte) []byte {
		mark := bytes.Clone(b[firstBatch : firstBatch+batchHead])
		clear(mark[lengthAt:sumAt]) // a mark has no records
		binary.LittleEndian.PutUint64(mark[syncedAt:], uint64(end+8))
		binary.LittleEndian.PutUint32(mark[sumAt:], crc32.Checksum(mark[:sumAt], crc32.MakeTable(crc32.Castagnoli)))
		copy(b[end+64:], mark)
		return b
	})
	require.NoError(t, starts()(s))
	require.NoError(t, s.acked.differs(s.log))
}

// A sound record belongs to a batch only if the two were written together.
func TestPlace_OfARecord(t *testing.T) {
	s := newScript(newTree().FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 3), closes()}))
	was := s.acked.entries[1]
	other := raft.Entry{Index: was.Index, Term: was.Term, Kind: was.Kind, Time: was.Time + 1, Data: was.Data}
	other.Seal()
	change(t, s.disk, s.path(0), func(b []byte) []byte {
		copy(b[bytes.Index(b, was.Record()):], other.Record())
		return b
	})
	require.ErrorContains(t, starts()(s), "batch: checksum does not match")
}
