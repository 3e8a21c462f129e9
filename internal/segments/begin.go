package segments

import (
	"errors"
	"io"
	"path/filepath"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// Begin makes durable what Recover found, and prepares the log for writing. After a failed sync, a process may read bytes
// that are not on the disk, and a second sync does not write them. So Begin writes again all bytes that no record shows to be
// durable.
func (l *Log) Begin() error {
	r := l.recovery
	l.recovery = nil
	l.writer.buffer = make([]byte, 0, l.sizes.BufferBytes)
	if err := l.fs.MakeDir(l.dir); err != nil {
		return l.fail(err)
	}
	if err := l.removeUnused(r); err != nil {
		return l.fail(err)
	}
	if len(l.segments) == 0 {
		if err := l.advance(0); err != nil {
			return l.fail(err)
		}
		return nil
	}
	if err := l.repair(r); err != nil {
		return l.fail(err)
	}
	l.synced = l.end
	return l.mark() // records that it is durable, and separates it from what this process writes: see errEarlier
}

// repair writes the end of the log again, and syncs it.
func (l *Log) repair(r *recovery) error {
	f := l.current().file
	buffer := make([]byte, l.sizes.BufferBytes)
	for at := max(r.synced, headBytes); at < l.end; at += int64(len(buffer)) {
		buffer = buffer[:min(int64(len(buffer)), l.end-at)]
		if _, err := f.ReadAt(buffer, at); err != nil {
			return err
		}
		if _, err := f.WriteAt(buffer, at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// removeUnused removes the files that the catalog does not list. It keeps some spare files for reuse.
func (l *Log) removeUnused(r *recovery) error {
	for _, path := range r.unused {
		name := filepath.Base(path)
		if isSpare(name) && name != newName && len(l.spares) < sparesMax && l.isWhole(path) {
			l.spares = append(l.spares, path)
			continue
		}
		if err := l.drop(path); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}

func (l *Log) isWhole(path string) bool {
	f, err := l.fs.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	return err == nil && size == l.sizes.SegmentBytes
}
