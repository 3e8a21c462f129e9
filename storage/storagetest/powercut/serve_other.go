//go:build !linux

package powercut

import (
	"errors"
	"io"
)

func serve(string, io.Reader, io.Writer) error {
	return errors.New("powercut: needs Linux")
}
