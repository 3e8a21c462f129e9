package snapfile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// The name of a file is its SnapshotID in 32 hexadecimal digits, and one of these suffixes.
const (
	wholeSuffix = ".snap"
	partSuffix  = ".part" // incomplete
)

// Dir is a directory of snapshots. Any goroutine may call its methods.
type Dir struct {
	fs    files.FS
	path  string
	sizes Sizes

	underWay atomic.Int64 // bytes written so far to unfinished files

	mu        sync.Mutex
	made      bool // the directory exists durably
	writing   map[raft.SnapshotID]bool
	readers   map[raft.SnapshotID]int  // number of open readers
	discarded map[raft.SnapshotID]bool // discarded but not removed: the file has readers, or the removal failed
}

// Open returns the directory at the path. If the directory does not exist, Create creates it with the first file.
func Open(fs files.FS, path string) *Dir { return OpenSized(fs, path, format1) }

// OpenSized returns a directory whose files have blocks and syncs of other sizes. The simulator uses it, so that small
// snapshots have many blocks.
func OpenSized(fs files.FS, path string, sizes Sizes) *Dir {
	return &Dir{
		fs: fs, path: path, sizes: sizes, writing: map[raft.SnapshotID]bool{}, readers: map[raft.SnapshotID]int{},
		discarded: map[raft.SnapshotID]bool{},
	}
}

// Path returns the name of a complete file.
func (d *Dir) Path(file raft.SnapshotID) string {
	return filepath.Join(d.path, file.String()+wholeSuffix)
}

func (d *Dir) partPath(file raft.SnapshotID) string {
	return filepath.Join(d.path, file.String()+partSuffix)
}

// isSnapshot reports whether the name has the form that this package gives its files.
func isSnapshot(name string) bool {
	digits, isWhole := strings.CutSuffix(name, wholeSuffix)
	if !isWhole {
		var isPart bool
		if digits, isPart = strings.CutSuffix(name, partSuffix); !isPart {
			return false
		}
	}
	_, err := hex.DecodeString(digits)
	return err == nil && len(digits) == 2*len(raft.SnapshotID{}) && digits == strings.ToLower(digits)
}

// File is a file of a snapshot. An incomplete file has no description yet.
type File struct {
	files.Info
	ID    raft.SnapshotID
	Whole bool // it is complete
}

// Files returns the files of snapshots in the directory, sorted by name.
func (d *Dir) Files() (all []File, err error) {
	list, err := d.fs.List(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, info := range list {
		if !isSnapshot(info.Name) {
			continue
		}
		f := File{Info: info, Whole: strings.HasSuffix(info.Name, wholeSuffix)}
		_, _ = hex.Decode(f.ID[:], []byte(info.Name[:2*len(f.ID)])) // isSnapshot has decoded it
		all = append(all, f)
	}
	return all, err
}

// Clean removes the snapshot files that an earlier process left over, and returns their names. It keeps the complete file of
// the given id, and every file with another kind of name. Call it before any file is open.
func (d *Dir) Clean(keep raft.SnapshotID) (removed []string, err error) {
	all, err := d.Files()
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if f.Whole && f.ID == keep {
			continue
		}
		if failed := d.fs.Remove(filepath.Join(d.path, f.Name)); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		removed = append(removed, f.Name)
	}
	return removed, err
}

// Discard removes a complete file, if there is one. If the file is open for reading, closing the last reader removes it.
// After an error no reader can open the file any more, and Create tries again to remove it. After a power cut the file may be
// there again. Then Clean removes it.
func (d *Dir) Discard(file raft.SnapshotID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.discarded[file] = true
	return d.removeDiscarded(file)
}

// removeDiscarded removes a discarded file, unless the file has readers. The caller holds the lock.
func (d *Dir) removeDiscarded(file raft.SnapshotID) error {
	if d.readers[file] > 0 {
		return nil
	}
	if err := d.remove(d.Path(file)); err != nil {
		return err
	}
	delete(d.discarded, file)
	return nil
}

func (d *Dir) remove(path string) error {
	if err := d.fs.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// UnderWay returns how many bytes were written so far to unfinished files.
func (d *Dir) UnderWay() int64 { return d.underWay.Load() }

// Free returns how many more bytes this user may write in the directory.
func (d *Dir) Free() (int64, error) {
	free, err := d.fs.Free(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.fs.Free(filepath.Dir(d.path))
	}
	return free, err
}

// enter adds a reader of the file to the count. It returns an error if the file is discarded.
func (d *Dir) enter(file raft.SnapshotID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.discarded[file] {
		return &fs.PathError{Op: "open", Path: d.Path(file), Err: fs.ErrNotExist}
	}
	d.readers[file]++
	return nil
}

// leave subtracts a reader of the file from the count. If no reader is left and the file is discarded, leave removes the
// file.
func (d *Dir) leave(file raft.SnapshotID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers[file]--; d.readers[file] > 0 {
		return nil
	}
	delete(d.readers, file)
	if !d.discarded[file] {
		return nil
	}
	return d.removeDiscarded(file)
}

// reserve makes the directory durable. It returns an error if the file exists or has another writer.
func (d *Dir) reserve(file raft.SnapshotID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.made {
		if err := d.fs.MakeDir(d.path); err != nil {
			return err
		}
		d.made = true
	}
	if d.writing[file] {
		return fmt.Errorf("snapfile: %s is being written already", d.partPath(file))
	}
	if d.discarded[file] {
		if err := d.removeDiscarded(file); err != nil {
			return err
		}
	}
	whole, err := d.fs.Open(d.Path(file))
	switch {
	case err == nil:
		return errors.Join(&fs.PathError{Op: "create", Path: d.Path(file), Err: fs.ErrExist}, whole.Close())
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	d.writing[file] = true
	return nil
}

func (d *Dir) release(file raft.SnapshotID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.writing, file)
}
