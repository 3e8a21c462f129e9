package segments

import (
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
)

// scanner reads the batches of one segment.
type scanner struct {
	segment *segment
	limit   int64 // end of the batches
	buffer  []byte
	from    int64    // offset of the buffer
	most    int      // bytes that are read at once
	sums    []byte   // checksums of the last batch's records
	records [][]byte // records of the last batch
}

func newScanner(s *segment, limit int64, most int, buffer []byte) *scanner {
	return &scanner{segment: s, limit: limit, most: max(most, batchBytes), buffer: buffer[:0]}
}

// bytes returns n bytes of the segment. They are valid until the next call.
func (s *scanner) bytes(offset int64, n int) ([]byte, error) {
	if at := offset - s.from; at >= 0 && at+int64(n) <= int64(len(s.buffer)) {
		return s.buffer[at : at+int64(n)], nil
	}
	want := int(min(max(int64(n), int64(s.most)), s.limit-offset))
	if cap(s.buffer) < want {
		s.buffer = make([]byte, want)
	}
	s.buffer, s.from = s.buffer[:want], offset
	if got, err := s.segment.file.ReadAt(s.buffer, offset); got < want {
		s.buffer = s.buffer[:0]
		if errors.Is(err, io.EOF) {
			return nil, damaged(s.segment.path, offset+int64(got), errors.New("the file is cut short"))
		}
		return nil, fmt.Errorf("segments: reading %s at offset %d: %w", s.segment.path, offset, err)
	}
	return s.buffer[:n], nil
}

// batch reads the batch at an offset into s.records. If no sound batch begins there, reason says why.
func (s *scanner) batch(offset int64) (h batch, reason, err error) {
	if offset+batchBytes > s.limit {
		return h, errors.New("the segment ends there"), nil
	}
	b, err := s.bytes(offset, batchBytes)
	if err != nil {
		return h, nil, err
	}
	h, ok := decodeBatch(b, s.segment.Salt, offset)
	if !ok || h.end() > s.limit {
		return h, errors.New("no batch begins there"), nil
	}
	if b, err = s.bytes(offset, batchBytes+h.length); err != nil {
		return h, nil, err
	}
	if reason = s.split(b[batchBytes:], h.count); reason == nil && batchSum(b, s.sums) != h.sum {
		reason = fmt.Errorf("batch: %w", errChecksum)
	}
	for _, record := range s.records {
		if reason == nil && !intact(record) {
			reason = fmt.Errorf("record: %w", errChecksum)
		}
	}
	return h, reason, nil
}

// split divides the bytes of a batch into its records, and collects their checksums.
func (s *scanner) split(b []byte, count int) error {
	s.records, s.sums = s.records[:0], s.sums[:0]
	for range count {
		size, err := raft.RecordSize(b)
		if err != nil {
			return err
		}
		if size > len(b) {
			return errors.New("a record reaches beyond its batch")
		}
		s.records = append(s.records, b[:size:size])
		s.sums = append(s.sums, sumOf(b[:size])...)
		b = b[size:]
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes after the last record of the batch", len(b))
	}
	return nil
}

// rest describes what follows an offset at which the log seems to end.
type rest struct {
	begins bool  // a batch of this use of the file begins at the offset, even a damaged one
	next   int64 // offset of the first sound batch; the limit if there is none
	synced int64 // highest synced offset that a sound batch records
}

// following reads the sound batches from the offset on.
func (s *scanner) following(offset int64) (r rest, err error) {
	r.next = s.limit
	for at := offset; at+batchBytes <= s.limit; at += alignment {
		b, err := s.bytes(at, 16)
		if err != nil {
			return r, err
		}
		if !isBatch(b, s.segment.Salt, at) {
			continue
		}
		r.begins = r.begins || at == offset
		h, reason, err := s.batch(at)
		if err != nil {
			return r, err
		}
		if reason == nil {
			r.next, r.synced = min(r.next, at), max(r.synced, h.synced)
		}
	}
	return r, nil
}
