package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// SetAside moves the store in dir into a new directory in dir, named aside- and the time, and returns the path of that
// directory. It moves raft.db and the segments and snapshots beside it. Nothing is lost, and other files in dir stay where they
// are. Afterwards Open, OpenBolt or OpenLog creates an uninitialized store in dir, and the cluster treats the member as one
// that has lost its disk.
//
// Use it for a store with which a member cannot start again, such as an older image of its disk or a damaged one. SetAside does
// not look at the data. Never start a member on a store that was set aside.
//
// If the directory log or snapshots is a mount, or a link to one, its files are copied and synced before they are deleted, and
// the mount stays. So dir must have room for them.
//
// An error matches fs.ErrNotExist if there is no store in dir, raft.ErrLocked if a process has it open, ErrNotWritable, or
// ErrDiskFull; or it is a *MountError. SetAside checks for these before it moves anything, as far as it can. After any other
// error, or if the process ends within the call, call it again: it continues and returns the same directory. Until then a
// start either finds the store as it was, or fails with an *UnfinishedAsideError.
func SetAside(dir string) (string, error) {
	path := filepath.Join(dir, BoltFile)
	aside, err := setAsideLocked(dir, path)
	if err != nil {
		var mount *MountError
		if errors.As(err, &mount) {
			return "", err
		}
		return "", explain("setting aside", path, err)
	}
	return aside, nil
}

// setAsideLocked keeps other processes out meanwhile, including v0.3.0, which locks raft.db alone.
func setAsideLocked(dir, path string) (string, error) {
	if err := unfinishedAside(dir); err == nil {
		if _, err := os.Stat(path); err != nil {
			return "", err
		}
	}
	unlockDir, err := lockDir(dir, 0)
	if err != nil {
		return "", err
	}
	defer unlockDir()
	unlock, err := lockFile(path)
	if err == nil {
		defer unlock()
	} else if unfinishedAside(dir) == nil || !errors.Is(err, fs.ErrNotExist) { // a call that ended early may have moved raft.db
		return "", err
	}
	return setAside(files.OS, dir, "aside-"+time.Now().UTC().Format("20060102T150405Z"))
}

// MountError is returned by SetAside for a file that is on another mount than its directory. Such a file cannot be moved. The
// call has moved nothing: put the file itself in that place, then repeat the call.
type MountError struct{ File string }

func (e *MountError) Error() string {
	return fmt.Sprintf("storage: %s is on another mount than its directory and cannot be moved: put the file itself in its place, then set the store aside again", e.File)
}

// setAside moves the store into a directory of the given name, or finishes an earlier call. If the name is taken, it adds a
// number to it.
func setAside(disk files.FS, dir, name string) (string, error) {
	a, begun, err := readAside(disk, dir)
	if err != nil {
		return "", err
	}
	if !begun {
		if a, err = newAside(disk, dir, name); err != nil {
			return "", err
		}
	}
	to := filepath.Join(dir, a.Name)
	moved, err := a.moved(disk, dir)
	switch {
	case err != nil:
		return "", err
	case moved:
		// The previous process may have ended before all new names were durable.
		if err := disk.SyncDir(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	default:
		if err := a.move(disk, dir, begun); err != nil {
			return "", err
		}
	}
	if err := forgetAside(disk, dir); err != nil {
		return "", err
	}
	return to, nil
}

// move moves the store, after a check that it can.
func (a aside) move(disk files.FS, dir string, begun bool) error {
	err := preflight(disk, dir, filepath.Join(dir, a.Name))
	if err == nil && !begun {
		err = a.record(disk, dir)
	}
	if err == nil {
		err = moveStore(disk, dir, filepath.Join(dir, a.Name))
	}
	return err
}

// newAside chooses an unused name.
func newAside(disk files.FS, dir, name string) (aside, error) {
	file, err := disk.Inode(filepath.Join(dir, BoltFile))
	if errors.Is(err, fs.ErrNotExist) { // everything was moved, and no sound record says where to
		err = errors.Join(err, forgetAside(disk, dir))
	}
	if err != nil {
		return aside{}, err
	}
	unused, err := unusedName(disk, filepath.Join(dir, name))
	return aside{Name: filepath.Base(unused), File: file}, err
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

// preflight returns an error if a file cannot be moved, as far as that can be known. It changes nothing.
func preflight(disk files.FS, dir, to string) error {
	mount, err := mountOfAll(disk, dir, []files.Info{{Name: BoltFile}})
	if err == nil {
		err = disk.Writable(dir)
	}
	if err != nil {
		return err
	}
	var copied int64 // bytes
	for _, part := range asideParts {
		from := filepath.Join(dir, part)
		list, exists, err := listed(disk, from)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		at, err := mountOfAll(disk, from, list)
		if err == nil {
			err = disk.Writable(from)
		}
		if err == nil && at != mount {
			var begun []files.Info // partial copies of an interrupted call, which are removed first
			if begun, _, err = listed(disk, filepath.Join(to, part)); err == nil {
				copied += bytesOf(list) - bytesOf(among(begun, list))
				err = readable(disk, from, list)
			}
		}
		if err != nil {
			return err
		}
	}
	free, err := disk.Free(dir)
	if copied > 0 && err == nil && free < copied+asideReserve { // if the file system does not report its free room, the copy is tried
		err := fmt.Errorf("%d bytes are to be copied from other mounts, and %d are free: %w", copied, free, syscall.ENOSPC)
		return &fs.PathError{Op: "copy", Path: dir, Err: err}
	}
	return nil
}

// among returns the files whose names are also in the list.
func among(all, list []files.Info) []files.Info {
	return slices.DeleteFunc(all, func(f files.Info) bool {
		return !slices.ContainsFunc(list, func(of files.Info) bool { return of.Name == f.Name })
	})
}

// asideParts are the directories of a store, in the order in which their files are moved. A store without its recorded
// snapshot, or without one of its segments, does not start. raft.db goes last: without it an earlier release would create an
// empty store, and delete the snapshots as unrecorded.
var asideParts = []string{snapshotDir, LogDir}

// asideReserve is the room for new names and the record, in bytes.
const asideReserve = 1 << 20

// listed returns the files in a directory, if it exists.
func listed(disk files.FS, dir string) (list []files.Info, exists bool, err error) {
	list, err = disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // a file of that name is no part of a store
		return nil, false, nil
	}
	return list, err == nil, err
}

// mountOfAll returns the mount that holds the directory. All its files must be on the same mount.
func mountOfAll(disk files.FS, dir string, list []files.Info) (mount uint64, err error) {
	if mount, err = disk.Mount(dir); err != nil {
		return 0, err
	}
	for _, info := range list {
		file := filepath.Join(dir, info.Name)
		of, err := disk.Mount(file)
		if err == nil && of != mount {
			err = &MountError{File: file}
		}
		if err != nil {
			return 0, err
		}
	}
	return mount, nil
}

func bytesOf(list []files.Info) (bytes int64) {
	for _, info := range list {
		bytes += info.Bytes
	}
	return bytes
}

func readable(disk files.FS, dir string, list []files.Info) error {
	for _, info := range list {
		f, err := disk.Open(filepath.Join(dir, info.Name))
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveStore moves all files of the store; an earlier call may have moved some of them. Each part is durable before the next
// one begins.
func moveStore(disk files.FS, dir, to string) error {
	if err := disk.MakeDir(to); err != nil {
		return err
	}
	for _, part := range asideParts {
		from := filepath.Join(dir, part)
		list, exists, err := listed(disk, from)
		if exists {
			err = moveAll(disk, from, filepath.Join(to, part), list)
		}
		if err != nil {
			return err
		}
	}
	return moveAll(disk, dir, to, []files.Info{{Name: BoltFile}})
}

// moveAll moves the files durably. It syncs the new names first, so that one of a file's two names is durable at any time.
func moveAll(disk files.FS, from, to string, list []files.Info) error {
	if err := disk.MakeDir(to); err != nil {
		return err
	}
	var copied []string
	for _, info := range list {
		old, target := filepath.Join(from, info.Name), filepath.Join(to, info.Name)
		// While the old name exists, the target is a partial copy or the same file.
		if err := disk.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := disk.Rename(old, target)
		if files.OtherMount(err) {
			copied = append(copied, old)
			err = copyFile(disk, old, target)
		}
		if err != nil {
			return err
		}
	}
	if err := disk.SyncDir(to); err != nil {
		return err
	}
	for _, old := range copied {
		if err := disk.Remove(old); err != nil {
			return err
		}
	}
	return disk.SyncDir(from)
}

const copyBytes = 1 << 20 // read and written at once

// copyFile makes a copy whose bytes are durable.
func copyFile(disk files.FS, from, to string) (err error) {
	source, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	size, err := source.Size()
	if err != nil {
		return err
	}
	target, err := disk.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	buffer := make([]byte, min(size, copyBytes))
	for at := int64(0); at < size; at += int64(len(buffer)) {
		buffer = buffer[:min(int64(len(buffer)), size-at)]
		if _, err := source.ReadAt(buffer, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := target.WriteAt(buffer, at); err != nil {
			return err
		}
	}
	return target.Sync()
}

// checkName returns an error unless the open file still has that name. Before this process locked the file, another process
// may have set it aside and created a new one.
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
		return fmt.Errorf("%w: another process has set the store aside", raft.ErrLocked)
	}
	return nil
}
