// Package files stands between the file system and the packages that keep files. Production uses OS. Tests and the simulator
// use a disk in memory that can lose its power (package crashdisk).
package files

import (
	"errors"
	"io"
	"runtime"
	"syscall"
)

// FS is a file system. Names are paths as package os takes them. Errors match those of io/fs. If there is no room, the error
// matches syscall.ENOSPC. Several goroutines may call the methods at once.
//
// Nothing is durable before a sync. File.Sync makes the bytes and the size of a file durable. SyncDir makes durable which
// names were created, renamed or removed.
type FS interface {
	// Create creates a file for reading and writing. The name must not exist.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Rename gives the file another name in one step. It replaces an existing file of that name.
	Rename(from, to string) error
	Remove(name string) error
	// List returns the files in the directory, sorted by name, without subdirectories.
	List(dir string) ([]Info, error)
	// MakeDir creates the directory and its parents, if they do not exist, and makes all of them durable.
	MakeDir(dir string) error
	// SyncDir makes the names in the directory durable. On Windows it does nothing, because Windows has no such call.
	SyncDir(dir string) error
	// Free returns how many more bytes this user may write to the file system that holds the directory.
	Free(dir string) (int64, error)
	// Mount returns the number of the mount that holds the named file or directory. It follows links. Rename only works within
	// one mount.
	Mount(name string) (uint64, error)
	// Inode returns a number that distinguishes a file from a later file of the same name. It returns 0 if the system has no
	// such number.
	Inode(name string) (uint64, error)
	// Writable returns an error if, according to the system, this user may not create and remove files in the directory.
	Writable(dir string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the bytes and the size of the file durable.
	Sync() error
	// Datasync makes the bytes of the file durable. It may be quicker than Sync for a file whose size has not changed.
	Datasync() error
	Size() (int64, error)
	// Allocate makes the file at least size bytes long, and allocates room on the disk for the added bytes. These bytes read
	// as zeros. If the file system cannot allocate, the error matches errors.ErrUnsupported.
	Allocate(size int64) error
}

// NoDescriptor reports whether the error says that the process or the machine has no file descriptor left to open a file.
// Another attempt may succeed.
func NoDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// DescriptorRemedy says what an operator can do about an error that matches NoDescriptor.
const DescriptorRemedy = "raise the limit of open files, or find out which process holds so many: see docs/runbook.md#no-descriptors"

// NoRoom reports whether the error says that the disk or a quota is full. Another attempt may succeed.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// OtherMount reports whether the error says that a rename failed because the new name is on another mount than the file.
func OtherMount(err error) bool {
	const errorNotSameDevice = syscall.Errno(17) // Windows: ERROR_NOT_SAME_DEVICE
	return errors.Is(err, syscall.EXDEV) || runtime.GOOS == "windows" && errors.Is(err, errorNotSameDevice)
}

// Info describes a file in a directory.
type Info struct {
	Name  string // name within the directory
	Bytes int64
}
