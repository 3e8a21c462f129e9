//go:build !linux && !darwin && !freebsd && !dragonfly && !windows

package files

import "errors"

func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
