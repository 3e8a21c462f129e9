package files

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Allocate writes nothing, because the file system only reserves the room.
func (f osFile) Allocate(size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}
