package files

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Datasync leaves out metadata that no reader needs, such as the modification time, because that metadata would cost a second
// write.
func (f osFile) Datasync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
