package segments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/coxswain/raft"
)

// A segment of format 1 is, little endian:
//
//	head:    "coxslog\n" | version uint8 (1) | group uint24 (0) | zero uint32 | number uint64 | salt uint64 | incarnation uint64 | bytes uint64 | CRC-32C of all before
//	         and zeros up to byte 512
//	batches: each begins at a multiple of 8
//
// The head has the same form in every format, so that this release can distinguish a later format from damage. A batch is
//
//	salt uint64 | offset uint64 | epoch uint64 | index and term of the entry before it, uint64 each | synced uint64 | commit uint64
//	| length uint32 | count uint32 | CRC-32C uint32 | zero uint32 | the records of the entries, length bytes of them
//
// The checksum of a batch covers the numbers before it and the checksums of the records. Each record has its own checksum.
// Salt and offset bind a batch to its place. If a batch is left from an earlier use of the file, its salt differs. Synced is
// the offset up to which the segment was durable when the batch was written.
const (
	magic         = "coxslog\n"
	formatVersion = 1
	headBytes     = 512 // offset of the first batch
	headUsed      = 8 + 4 + 4 + 4*8 + 4
	batchBytes    = 7*8 + 4*4 // before the records
	alignment     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the beginning of a segment.
type head struct {
	number, salt uint64
	member       raft.Incarnation
	bytes        int64 // size of the file
}

func (h head) encode() []byte {
	b := make([]byte, 0, headBytes)
	b = append(b, magic...)
	b = append(b, formatVersion, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, n := range []uint64{h.number, h.salt, uint64(h.member), uint64(h.bytes)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:headBytes]
}

var errChecksum = errors.New("checksum does not match")

// decodeHead decodes the first headBytes bytes of a segment.
func decodeHead(b []byte) (h head, err error) {
	switch {
	case len(b) < headUsed:
		return h, fmt.Errorf("cut short: it has %d bytes, and its head takes %d", len(b), headUsed)
	case string(b[:len(magic)]) != magic:
		return h, errors.New("it is not the head of a segment")
	case crc32.Checksum(b[:headUsed-4], castagnoli) != binary.LittleEndian.Uint32(b[headUsed-4:]):
		return h, errChecksum
	case b[8] > formatVersion:
		return h, &raft.LaterVersionError{Record: "the head of the segment", Found: uint64(b[8]), Known: formatVersion}
	case b[8] < formatVersion || b[9]|b[10]|b[11] != 0:
		return h, fmt.Errorf("version %d of group %v", b[8], b[9:12])
	}
	number := func(k int) uint64 { return binary.LittleEndian.Uint64(b[16+8*k:]) }
	return head{number: number(0), salt: number(1), member: raft.Incarnation(number(2)), bytes: int64(number(3))}, nil
}

// batch is the head of a batch.
type batch struct {
	salt   uint64
	offset int64
	epoch  uint64
	after  raft.EntryID
	synced int64
	commit raft.Index
	length int // bytes of the records
	count  int // number of records
	sum    uint32
}

// put encodes all but the checksum into b, which has batchBytes bytes.
func (h *batch) put(b []byte) {
	for k, n := range [...]uint64{
		h.salt, uint64(h.offset), h.epoch, uint64(h.after.Index), uint64(h.after.Term), uint64(h.synced), uint64(h.commit),
	} {
		binary.LittleEndian.PutUint64(b[8*k:], n)
	}
	binary.LittleEndian.PutUint32(b[56:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[60:], uint32(h.count))
	binary.LittleEndian.PutUint64(b[64:], 0)
}

// sealBatch puts the checksum into the encoded batch b. sums holds the checksums of the batch's records, four bytes each.
func sealBatch(b, sums []byte) {
	binary.LittleEndian.PutUint32(b[64:], batchSum(b, sums))
}

func batchSum(b, sums []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:64], castagnoli), castagnoli, sums)
}

// decodeBatch decodes the batch at the beginning of b. It checks that the batch belongs at the offset of the segment with the
// salt. It does not check the checksum.
func decodeBatch(b []byte, salt uint64, offset int64) (h batch, ok bool) {
	if len(b) < batchBytes || !isBatch(b, salt, offset) {
		return h, false
	}
	number := func(k int) uint64 { return binary.LittleEndian.Uint64(b[8*k:]) }
	h = batch{
		salt: salt, offset: offset, epoch: number(2), synced: int64(number(5)), commit: raft.Index(number(6)),
		after:  raft.EntryID{Index: raft.Index(number(3)), Term: raft.Term(number(4))},
		length: int(binary.LittleEndian.Uint32(b[56:])), count: int(binary.LittleEndian.Uint32(b[60:])),
		sum: binary.LittleEndian.Uint32(b[64:]),
	}
	return h, h.synced >= 0 && h.synced <= offset && binary.LittleEndian.Uint32(b[68:]) == 0
}

// isBatch reports whether b begins as a batch at the offset does: with the salt and the offset.
func isBatch(b []byte, salt uint64, offset int64) bool {
	return binary.LittleEndian.Uint64(b) == salt && binary.LittleEndian.Uint64(b[8:]) == uint64(offset)
}

func roundedUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// size returns the bytes that the batch takes in the segment.
func (h *batch) size() int64 { return roundedUp(int64(batchBytes+h.length), alignment) }

func (h *batch) end() int64 { return h.offset + h.size() }

// sumOf returns the stored checksum at the end of a record.
func sumOf(record []byte) []byte { return record[len(record)-4:] }

// intact reports whether a record matches its checksum.
func intact(record []byte) bool {
	end := len(record) - 4
	return crc32.Checksum(record[:end], castagnoli) == binary.LittleEndian.Uint32(record[end:])
}

// entryAt decodes a record. It checks that the entry has the index i, and that its term is not lower than before, the term of
// the entry before it.
func entryAt(i raft.Index, before raft.Term, record []byte) (raft.Entry, error) {
	e, err := raft.DecodeEntry(record)
	if err == nil && (e.Index != i || e.Term < before) {
		err = fmt.Errorf("it holds entry %v where entry %d of term %d or a later one belongs", e.ID(), i, before)
	}
	return e, err
}
