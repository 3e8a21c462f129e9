package backup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/coxswain/raft"
)

var (
	errCutShort = errors.New("it is cut short")
	errChecksum = errors.New("a checksum does not match")
)

// Reader reads a backup: the state with Read until io.EOF, then the entries with Entry until io.EOF. Only the last io.EOF says that
// the backup was complete and sound. Damage is a *DamagedError, and a backup of a later release has a *raft.LaterVersionError. One goroutine
// uses it.
type Reader struct {
	from io.Reader
	read int64 // bytes of the stream
	at   int64 // offset of the frame that is read
	sum  uint32
	head Head
	end  End // what was read so far

	next    kind // of the frame that is read, and not used up
	payload []byte
	log     raft.StoredLog
	err     error
}

// NewReader reads the description of a backup.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: from}
	if err := r.begin(); err != nil {
		return nil, r.explain(err)
	}
	return r, nil
}

// Head returns the description of the backup.
func (r *Reader) Head() Head { return r.head }

// End returns how much was read.
func (r *Reader) End() End { return r.end }

// Log returns the log of what was read.
func (r *Reader) Log() raft.StoredLog { return r.log }

func (r *Reader) begin() error {
	head, err := r.take(headBytes)
	switch {
	case errors.Is(err, errCutShort):
		return errors.New("it does not begin like a backup")
	case err != nil:
		return err
	case string(head[:len(magic)]) != magic:
		return errors.New("it does not begin like a backup")
	case head[len(magic)] > version:
		return &raft.LaterVersionError{Record: "the backup", Found: uint64(head[len(magic)]), Known: version}
	case head[len(magic)] == 0:
		return errors.New("version 0")
	}
	if err := r.frame(); err != nil {
		return err
	}
	if r.next != kindHead {
		return errors.New("its description is missing")
	}
	if r.head, err = decodeHead(r.payload); err != nil {
		return err
	}
	if r.head.Base.ID.Index > 0 {
		r.log.Begin(r.head.Base)
	}
	return r.frame()
}

// Read reads the state.
func (r *Reader) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.next != kindState:
		return 0, io.EOF
	case r.head.Base.ID.Index == 0:
		r.err = r.explain(errors.New("a state that its description does not name"))
		return 0, r.err
	}
	n = copy(p, r.payload)
	r.end.Bytes += int64(n)
	if r.payload = r.payload[n:]; len(r.payload) == 0 {
		r.err = r.explain(r.frame())
	}
	return n, nil
}

// Entry reads the next entry.
func (r *Reader) Entry() (raft.Entry, error) {
	if r.err != nil {
		return raft.Entry{}, r.err
	}
	e, err := r.entry()
	if err != nil {
		r.err = r.explain(err)
		return raft.Entry{}, r.err
	}
	return e, nil
}

func (r *Reader) entry() (raft.Entry, error) {
	switch r.next {
	case kindEntry:
	case kindEnd:
		return raft.Entry{}, r.finish()
	default:
		return raft.Entry{}, fmt.Errorf("a frame of kind %d, where an entry or the end belongs", r.next)
	}
	e, err := raft.DecodeEntry(r.payload)
	if err != nil {
		return e, err
	}
	if e.Term > r.head.Term {
		return e, fmt.Errorf("entry %v is of a later term than the backup, %d", e.ID(), r.head.Term)
	}
	if err := r.log.Observe(e); err != nil {
		return e, err
	}
	r.end.Entries++
	return e, r.frame()
}

// finish checks the last frame, and that nothing follows it. It returns io.EOF if all is well.
func (r *Reader) finish() error {
	var end End
	if err := json.Unmarshal(r.payload, &end); err != nil {
		return err
	}
	if end != r.end {
		return fmt.Errorf("it has %d bytes of state and %d entries; its end says %d and %d", r.end.Bytes, r.end.Entries, end.Bytes, end.Entries)
	}
	switch n, err := io.ReadFull(r.from, make([]byte, 1)); {
	case n > 0:
		return errors.New("something follows its end")
	case err != io.EOF:
		return &readError{err}
	}
	return io.EOF
}

// frame reads the next frame.
func (r *Reader) frame() error {
	r.at = r.read
	head, err := r.take(frameBytes)
	if err != nil {
		return err
	}
	k, length := kind(head[0]), int(binary.LittleEndian.Uint32(head[1:]))
	if length > k.limit() {
		return fmt.Errorf("a frame of kind %d with %d bytes; the limit is %d", k, length, k.limit())
	}
	payload, err := r.take(length)
	if err != nil {
		return err
	}
	want := r.sum
	sum, err := r.take(sumBytes)
	if err != nil {
		return err
	}
	r.sum = want
	if binary.LittleEndian.Uint32(sum) != want {
		return errChecksum
	}
	r.next, r.payload = k, payload
	return nil
}

// take reads n bytes. Of a payload that may be long, it allocates no more than there is, even if n is damaged.
func (r *Reader) take(n int) (b []byte, err error) {
	if n <= stateBytes {
		b = make([]byte, n)
		_, err = io.ReadFull(r.from, b)
	} else if b, err = io.ReadAll(io.LimitReader(r.from, int64(n))); err == nil && len(b) < n {
		err = io.ErrUnexpectedEOF
	}
	r.read += int64(len(b))
	r.sum = crc32.Update(r.sum, castagnoli, b)
	switch err {
	case nil:
		return b, nil
	case io.EOF, io.ErrUnexpectedEOF:
		return b, errCutShort
	}
	return b, &readError{err}
}

// readError is an error of the reader that the backup comes from. It says nothing about the backup.
type readError struct{ err error }

func (e *readError) Error() string { return "storage: reading the backup: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// explain returns err as it is for the caller.
func (r *Reader) explain(err error) error {
	var unread *readError
	var later *raft.LaterVersionError
	if err == nil || err == io.EOF || errors.As(err, &unread) || errors.As(err, &later) {
		return err
	}
	return &DamagedError{At: r.at, Reason: err}
}
