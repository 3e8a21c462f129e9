package snapfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Reader reads one complete file. Any goroutine may call its methods.
type Reader struct {
	dir      *Dir
	path     string
	f        files.File
	snapshot raft.Snapshot

	mu     sync.Mutex
	closed bool
	block  []byte // the last block read, with its checksum
	number int64  // number of that block; -1: none
}

// OpenRead opens a complete file. It checks the head and the end of the file, and ReadAt checks the rest. If the file is
// damaged, the error is a *raft.CorruptError. If only a later release can read the file, the error is a
// *raft.LaterVersionError.
func (d *Dir) OpenRead(file raft.SnapshotID) (*Reader, error) {
	if err := d.enter(file); err != nil {
		return nil, err
	}
	r, err := d.open(file)
	if err != nil {
		return nil, errors.Join(err, d.leave(file))
	}
	return r, nil
}

func (d *Dir) open(file raft.SnapshotID) (*Reader, error) {
	f, err := d.fs.Open(d.Path(file))
	if err != nil {
		return nil, err
	}
	r := &Reader{dir: d, path: d.Path(file), f: f, number: -1}
	if err := r.examine(file); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// OpenRecorded opens the file that a durable record names, and checks that the file holds the recorded snapshot. If the file
// is missing or holds another snapshot, the error is also a *raft.CorruptError. The file keeps the id of the cluster in which it was
// written, and the record may have that of one that was recovered from it.
func (d *Dir) OpenRecorded(want raft.Snapshot) (*Reader, error) {
	r, err := d.OpenRead(want.File)
	if errors.Is(err, fs.ErrNotExist) {
		reason := fmt.Errorf("the store has recorded this snapshot of entry %v", want.ID)
		return nil, &raft.CorruptError{File: d.Path(want.File), Reason: reason}
	}
	if err != nil {
		return nil, err
	}
	got := r.snapshot
	got.Cluster = want.Cluster
	if !bytes.Equal(got.Encode(), want.Encode()) {
		reason := fmt.Errorf("it holds a snapshot of entry %v, %d bytes with checksum %08x, and the store has recorded one of entry %v, %d bytes with checksum %08x",
			got.ID, got.Size, got.Sum, want.ID, want.Size, want.Sum)
		return nil, errors.Join(&raft.CorruptError{File: r.path, Where: "its end", Reason: reason}, r.Close())
	}
	return r, nil
}

// examine reads the head and the end.
func (r *Reader) examine(file raft.SnapshotID) error {
	size, err := r.f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, headBytes)
	if err = readFull(r.f, b, 0); err == nil {
		err = checkHead(b, file)
	}
	if err != nil {
		return damaged(r.path, "its head", err)
	}
	if r.snapshot, err = r.dir.sizes.readEnd(r.f, file, size); err != nil {
		return damaged(r.path, "its end", err)
	}
	return nil
}

// Path returns the name of the file.
func (r *Reader) Path() string { return r.path }

// Snapshot returns the description at the end of the file.
func (r *Reader) Snapshot() raft.Snapshot { return r.snapshot }

// Size returns how many bytes the snapshot has.
func (r *Reader) Size() int64 { return r.snapshot.Size }

// ReadAt reads bytes of the snapshot as io.ReaderAt does. It checks each block before it returns a byte of the block. If a
// block is damaged, the error is a *raft.CorruptError.
func (r *Reader) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fmt.Errorf("snapfile: %s: read at %d", r.path, offset)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	blockBytes := int64(r.dir.sizes.BlockBytes)
	if r.closed {
		return 0, &fs.PathError{Op: "read", Path: r.path, Err: fs.ErrClosed}
	}
	for n < len(p) && offset < r.snapshot.Size {
		block, err := r.load(offset / blockBytes)
		if err != nil {
			return n, err
		}
		taken := copy(p[n:], block[offset%blockBytes:])
		n, offset = n+taken, offset+int64(taken)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Check reads the whole file. It returns the damaged places, in order, but no more than most.
func (r *Reader) Check(ctx context.Context, most int) (places []error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	blockBytes := int64(r.dir.sizes.BlockBytes)
	var sum uint32
	for number := int64(0); number*blockBytes < r.snapshot.Size && len(places) < most; number++ {
		if err := ctx.Err(); err != nil {
			return places, err
		}
		block, err := r.load(number)
		if err != nil {
			places = append(places, err)
			continue
		}
		sum = crc32.Update(sum, castagnoli, block)
	}
	if len(places) == 0 && sum != r.snapshot.Sum {
		places = append(places, damaged(r.path, "its end", fmt.Errorf("checksum %08x, and that of all blocks is %08x", r.snapshot.Sum, sum)))
	}
	return places, nil
}

// load returns one block. The lock is held.
func (r *Reader) load(number int64) ([]byte, error) {
	blockBytes := int64(r.dir.sizes.BlockBytes)
	size := min(r.snapshot.Size-number*blockBytes, blockBytes)
	if number == r.number {
		return r.block[:size], nil
	}
	if r.block == nil {
		r.block = make([]byte, min(r.snapshot.Size, blockBytes)+sumBytes)
	}
	r.number = -1
	at := int64(headBytes) + number*(blockBytes+sumBytes)
	b := r.block[:size+sumBytes]
	err := readFull(r.f, b, at)
	if err == nil && binary.LittleEndian.Uint32(b[size:]) != blockSum(r.snapshot.File, number, b[:size]) {
		err = errChecksum
	}
	if err != nil {
		return nil, damaged(r.path, fmt.Sprintf("offset %d", at), err)
	}
	r.number = number
	return b[:size], nil
}

// Close closes the file. If the file is discarded and no other reader is left, Close also removes the file. It is idempotent.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return errors.Join(r.f.Close(), r.dir.leave(r.snapshot.File))
}
