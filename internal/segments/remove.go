package segments

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Remove durably removes the log of a member, and returns the names of the removed files. The caller makes sure that no
// catalog lists the log any more. Remove keeps segments of another member and files that are not segments, because Recover
// reports what is wrong with them.
func Remove(disk files.FS, dir string, member raft.Incarnation) (removed []string, err error) {
	list, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // a file of that name is not of this package
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &Log{fs: disk, dir: dir}
	for _, info := range list {
		path := filepath.Join(dir, info.Name)
		if !isSpare(info.Name) {
			of, err := l.isOf(path, member)
			if err != nil {
				return removed, err
			}
			if !of {
				continue
			}
		}
		if err := l.drop(path); err != nil {
			return removed, err
		}
		removed = append(removed, path)
	}
	if len(removed) == 0 {
		return nil, nil
	}
	if err := disk.SyncDir(dir); err != nil {
		return removed, err
	}
	_ = disk.Remove(dir) // it fails if something else is in there; an empty directory is harmless
	return removed, nil
}

// isOf reports whether the file is a segment of that member.
func (l *Log) isOf(path string, member raft.Incarnation) (bool, error) {
	number, ok := numberOf(filepath.Base(path))
	if !ok {
		return false, nil
	}
	f, err := l.fs.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h, err := l.readHead(f, path)
	var corrupt *raft.CorruptError
	var later *raft.LaterVersionError
	if errors.As(err, &corrupt) || errors.As(err, &later) {
		return false, nil
	}
	return err == nil && h.member == member && h.number == number, err
}
