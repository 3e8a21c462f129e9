//go:build !linux || 386 || arm || mips || mipsle

package powercut

import (
	"errors"
	"io"
)

func serve(string, io.Reader, io.Writer) error {
	return errors.New("powercut: needs Linux on a 64-bit machine")
}
