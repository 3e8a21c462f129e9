package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// SetAside moves the store in dir, the file raft.db with the segments and the snapshots beside it, into a new directory in dir whose name
// is aside- and the time, and returns the path of that directory. Nothing is deleted, and other files in dir stay where
// they are. Open, OpenBolt or OpenLog creates an uninitialized store in dir afterwards: its member has lost its disk, and the cluster
// treats it so.
//
// Use it for a store with which a member cannot start again, such as an older image of its disk or a damaged one.
// It does not look at the data. Never start a member on a store that was set aside.
//
// Its errors match fs.ErrNotExist if there is no store in dir, raft.ErrLocked if a process has it open, ErrNotWritable
// or ErrDiskFull. After another error, or if the process ends within the call, call it again: until then a start either
// fails, or finds the store as it was, or finds none. What the interrupted call had moved stays in a directory of its own.
func SetAside(dir string) (string, error) {
	path := filepath.Join(dir, BoltFile)
	unlock, err := lockFile(path)
	if err != nil {
		return "", explain("setting aside", path, err)
	}
	defer unlock()
	aside, err := setAside(files.OS, dir, "aside-"+time.Now().UTC().Format("20060102T150405Z"))
	if err != nil {
		return "", explain("setting aside", path, err)
	}
	return aside, nil
}

// setAside moves the store into a directory of that name, to which it adds a number if the name is taken.
func setAside(disk files.FS, dir, name string) (string, error) {
	aside, err := unusedName(disk, filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	if err := disk.MakeDir(aside); err != nil {
		return "", err
	}
	// The snapshots go first. Without the one that it has recorded, a store does not start. Without raft.db, a start
	// would create an empty store, and delete all snapshots, because an empty store has recorded none.
	if err := move(disk, dir, aside, snapshotDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// A store that lacks a segment does not start either.
	if err := move(disk, dir, aside, LogDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return aside, move(disk, dir, aside, BoltFile)
}

func unusedName(disk files.FS, name string) (string, error) {
	for candidate, number := name, 2; ; number++ {
		_, err := disk.List(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			return candidate, nil
		}
		if err != nil {
			return "", err
		}
		candidate = fmt.Sprintf("%s-%d", name, number)
	}
}

// move moves a file or a directory durably. The new name is synced first, so that one of the two names is durable
// at any time.
func move(disk files.FS, from, to, name string) error {
	if err := disk.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
		return err
	}
	if err := disk.SyncDir(to); err != nil {
		return err
	}
	return disk.SyncDir(from)
}

// checkName returns an error unless the open file still has that name. Another process may have set it aside, and
// created a new one, before this process locked it.
func checkName(file *os.File, path string) error {
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(opened, named) {
		return fmt.Errorf("%w: it was set aside meanwhile", raft.ErrLocked)
	}
	return nil
}
