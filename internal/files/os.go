package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// OS is the file system of the operating system.
var OS FS = osFS{}

// Only the user that runs the member may read the data.
const (
	filePermissions      os.FileMode = 0o600
	directoryPermissions os.FileMode = 0o700
)

type osFS struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (osFS) Create(name string) (File, error) {
	return opened(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, filePermissions))
}

func (osFS) Open(name string) (File, error) {
	if err := CheckRegular(name); err != nil {
		return nil, err
	}
	return opened(os.Open(name))
}

func (osFS) OpenWrite(name string) (File, error) {
	if err := CheckRegular(name); err != nil {
		return nil, err
	}
	return opened(os.OpenFile(name, os.O_RDWR, 0))
}

// CheckRegular returns an error that matches ErrNotRegular if the name exists and is not that of a regular file. It prevents
// an endless wait: opening a named pipe, for example, waits for a process that writes to the pipe.
func CheckRegular(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return err
}

// WriteAnew replaces any file with this name by a new file. It does not open the old file, because the old file may be a
// named pipe. Opening a pipe would wait for a reader.
func WriteAnew(name string, text []byte) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		_ = os.Remove(name) // a full disk leaves an empty file
		return err
	}
	return nil
}

// ErrNotRegular is matched by the error for a name that is not that of a regular file.
var ErrNotRegular = errors.New("not a regular file")

func opened(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Info{Name: entry.Name(), Bytes: info.Size()})
	}
	return list, nil
}

func (osFS) MakeDir(dir string) error {
	if err := os.MkdirAll(dir, directoryPermissions); err != nil {
		return err
	}
	return syncAncestors(dir)
}

// syncAncestors makes durable the names of the directory and of all directories above it, because each of them may be new. A
// directory that we may not open is not new, and needs no sync.
func syncAncestors(dir string) error {
	above, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for below := ""; above != below; above, below = filepath.Dir(above), above {
		err := OS.SyncDir(above)
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	return nil
}

func (osFS) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Free(dir string) (int64, error) {
	free, err := freeBytes(dir)
	if err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(free, math.MaxInt64)), nil
}

func (osFS) Mount(name string) (uint64, error) {
	mount, err := mountOf(name)
	if err != nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return mount, nil
}

func (osFS) Inode(name string) (uint64, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return 0, err
	}
	return inode(info), nil
}

func (osFS) Writable(dir string) error {
	if err := writable(dir); err != nil {
		return &fs.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
