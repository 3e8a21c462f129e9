//go:build !linux

package files

import (
	"errors"
	"io/fs"
)

func (f osFile) Allocate(int64) error {
	return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: errors.ErrUnsupported}
}
