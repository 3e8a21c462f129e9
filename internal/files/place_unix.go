//go:build unix && !linux

package files

import "golang.org/x/sys/unix"

// mountOf returns the number of the file system, not of the mount.
func mountOf(name string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(name, &s); err != nil {
		return 0, err
	}
	return uint64(s.Dev), nil
}

func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
