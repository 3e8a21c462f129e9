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

// SetAside moves the store in dir into a new directory in dir, and returns the path of the new directory. The name of the new
// directory is aside- and the time. SetAside moves raft.db, and the segments and snapshots beside it. Nothing is lost, and
// other files in dir stay in their places. Afterwards Open, OpenBolt or OpenLog creates an uninitialized store in dir. The
// cluster then treats the member as one that has lost its disk.
//
// Use SetAside if a member cannot start again with its store, for example because the store is damaged or is an older image
// of the disk. SetAside does not look at the data. Never start a member on a store that was set aside.
//
// If the directory log or snapshots is a mount, or a link to a mount, SetAside copies and syncs the files in it, and then
// deletes them. The mount stays. So dir must have room for these files.
//
// If there is no store in dir, the error matches fs.ErrNotExist. If a process has the store open, it matches raft.ErrLocked.
// An error may also match ErrNotWritable or ErrDiskFull, or be a *MountError. As far as it can, SetAside checks for these
// errors before it moves anything. After any other error, or if the process ends during the call, call SetAside again. It
// then finishes the move and returns the same directory. Until then, a start either finds the store unchanged, or fails with
// an *UnfinishedAsideError.
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

// setAsideLocked sets the store aside, and keeps other processes out meanwhile. It also keeps out a process of v0.3.0, which
// locks only raft.db.
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

// MountError is returned by SetAside if a file is on another mount than its directory. SetAside cannot move such a file. The
// call has moved nothing. Put the file itself in that place, then call SetAside again.
type MountError struct{ File string }

func (e *MountError) Error() string {
	return fmt.Sprintf("storage: %s is on another mount than its directory and cannot be moved: put the file itself in its place, then set the store aside again", e.File)
}

// setAside moves the store into a directory of the given name, or finishes an earlier call. If a directory of that name
// exists, setAside adds a number to the name.
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

// move first checks that it can move the store. Then it moves the store.
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

// preflight returns an error if it finds in advance that a file cannot be moved. It changes nothing.
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

// among returns the files of all that have the same name as a file in the list.
func among(all, list []files.Info) []files.Info {
	return slices.DeleteFunc(all, func(f files.Info) bool {
		return !slices.ContainsFunc(list, func(of files.Info) bool { return of.Name == f.Name })
	})
}

// asideParts are the directories of a store, in the order in which setAside moves their files. The order is safe because no
// store starts without its recorded snapshot, or without one of its segments. setAside moves raft.db last. If raft.db moved
// earlier, an earlier release would create an empty store in its place, and delete the snapshots as unrecorded.
var asideParts = []string{snapshotDir, LogDir}

// asideReserve is the room for new names and the record, in bytes.
const asideReserve = 1 << 20

// listed returns the files in a directory, and reports whether the directory exists.
func listed(disk files.FS, dir string) (list []files.Info, exists bool, err error) {
	list, err = disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // a file of that name is no part of a store
		return nil, false, nil
	}
	return list, err == nil, err
}

// mountOfAll returns the mount that holds the directory. It returns a *MountError if one of the files is on another mount.
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

// moveStore moves all files of the store. An earlier call may already have moved some of them. Each part is durable in its
// new place before moveStore begins with the next part.
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

// moveAll moves the files durably. It syncs the new names first, so that at any time at least one of the two names of a file
// is durable.
func moveAll(disk files.FS, from, to string, list []files.Info) error {
	if err := disk.MakeDir(to); err != nil {
		return err
	}
	var copied []string
	for _, info := range list {
		old, target := filepath.Join(from, info.Name), filepath.Join(to, info.Name)
		// If the old name still exists, the target is either a partial copy or the same file. So removing the target loses
		// nothing.
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

// copyFile copies a file, and makes the bytes of the copy durable.
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

// checkName returns an error unless path is still the name of the open file. Before this process locked the file, another
// process may have set the file aside and created a new one.
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
