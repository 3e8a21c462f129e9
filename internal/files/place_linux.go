package files

import "golang.org/x/sys/unix"

// mountOf returns the number of the mount. The number distinguishes two mounts of one file system. Before Linux 5.8 it
// distinguishes only file systems.
func mountOf(name string) (uint64, error) {
	for {
		var s unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_MNT_ID, &s)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case s.Mask&unix.STATX_MNT_ID == 0:
			return unix.Mkdev(s.Dev_major, s.Dev_minor), nil
		}
		return s.Mnt_id, nil
	}
}

func writable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
