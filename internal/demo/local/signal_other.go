//go:build !unix

package local

import "os"

func freeze(*os.Process) error { return ErrNoFreeze }

func resume(*os.Process) error { return ErrNoFreeze }
