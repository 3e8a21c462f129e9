package snapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Writer writes one file. Only one goroutine may use it. After an error, the caller must abort it.
type Writer struct {
	dir      *Dir
	file     raft.SnapshotID
	f        files.File
	block    []byte // bytes that are not written yet, less than a block
	blocks   int64  // number of blocks written
	at       int64  // offset of the next block in the file
	unsynced int    // bytes written since the last sync
	size     int64  // size of the snapshot so far
	sum      uint32 // checksum of its bytes so far
	err      error  // first error
	renamed  bool
	ended    bool // finished or aborted
}

// Create begins a file. Until Finish, the file has a temporary name: no reader opens a file of that name, and Clean removes
// it.
func (d *Dir) Create(file raft.SnapshotID) (*Writer, error) {
	if file == (raft.SnapshotID{}) {
		return nil, errors.New("snapfile: a file needs an id that is not zero")
	}
	if err := d.reserve(file); err != nil {
		return nil, err
	}
	f, err := d.createPart(file)
	if err != nil {
		d.release(file)
		return nil, err
	}
	w := &Writer{dir: d, file: file, f: f, block: make([]byte, 0, d.sizes.BlockBytes+sumBytes)}
	if err := w.put(head(file)); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// createPart creates the unfinished file. If an earlier Writer could not remove its unfinished file of that name, createPart
// replaces it.
func (d *Dir) createPart(file raft.SnapshotID) (files.File, error) {
	f, err := d.fs.Create(d.partPath(file))
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := d.fs.Remove(d.partPath(file)); err != nil {
		return nil, err
	}
	return d.fs.Create(d.partPath(file))
}

// Write adds bytes of the snapshot.
func (w *Writer) Write(p []byte) (n int, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		taken := min(len(p), w.dir.sizes.BlockBytes-len(w.block))
		w.block = append(w.block, p[:taken]...)
		w.sum = crc32.Update(w.sum, castagnoli, p[:taken])
		p, n = p[taken:], n+taken
		w.size += int64(taken)
		if len(w.block) == w.dir.sizes.BlockBytes {
			if err := w.flush(); err != nil {
				return n - taken, err
			}
		}
	}
	return n, nil
}

func (w *Writer) usable() error {
	if w.ended {
		return fmt.Errorf("snapfile: %s is finished or aborted", w.dir.partPath(w.file))
	}
	return w.err
}

// flush writes the block. If at least SyncBytes are unsynced then, flush also syncs the file.
func (w *Writer) flush() error {
	w.block = binary.LittleEndian.AppendUint32(w.block, blockSum(w.file, w.blocks, w.block))
	if err := w.put(w.block); err != nil {
		return err
	}
	w.block = w.block[:0]
	w.blocks++
	if w.unsynced < w.dir.sizes.SyncBytes {
		return nil
	}
	w.unsynced = 0
	w.err = w.f.Sync()
	return w.err
}

func (w *Writer) put(b []byte) error {
	n, err := w.f.WriteAt(b, w.at)
	w.at += int64(n)
	w.dir.underWay.Add(int64(n))
	w.unsynced += n
	w.err = err
	return err
}

// Finish checks that s describes the written bytes. It makes the file durable under its final name before it returns.
func (w *Writer) Finish(s raft.Snapshot) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.err = w.check(s); w.err != nil {
		return w.err
	}
	if len(w.block) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if err := w.put(end(s)); err != nil {
		return err
	}
	if w.err = w.f.Sync(); w.err != nil {
		return w.err
	}
	if w.err = w.f.Close(); w.err != nil {
		return w.err
	}
	if w.err = w.dir.fs.Rename(w.dir.partPath(w.file), w.dir.Path(w.file)); w.err != nil {
		return w.err
	}
	w.renamed = true
	if w.err = w.dir.fs.SyncDir(w.dir.path); w.err != nil {
		return w.err
	}
	w.end()
	return nil
}

// end ends the Writer after the Writer has finished or removed its file.
func (w *Writer) end() {
	w.ended = true
	w.dir.underWay.Add(-w.at)
	w.dir.release(w.file)
}

func (w *Writer) check(s raft.Snapshot) error {
	switch {
	case s.File != w.file || s.Held:
		return fmt.Errorf("snapfile: snapshot %v (held: %v) cannot be in the file of %v", s.File, s.Held, w.file)
	case s.Size != w.size || s.Sum != w.sum:
		return fmt.Errorf("snapfile: snapshot %v has %d bytes with checksum %08x, and %d with checksum %08x were written",
			w.file, s.Size, s.Sum, w.size, w.sum)
	}
	return s.Check()
}

// Abort removes the file. It is idempotent, and does nothing after Finish has returned nil.
func (w *Writer) Abort() error {
	if w.ended {
		return nil
	}
	defer w.end()
	_ = w.f.Close() // the bytes do not count
	if w.renamed {
		return w.dir.Discard(w.file)
	}
	return w.dir.remove(w.dir.partPath(w.file))
}
