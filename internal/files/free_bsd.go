//go:build darwin || freebsd || dragonfly

package files

import "golang.org/x/sys/unix"

// freeBytes counts the bytes that this user may write. Blocks that are reserved for root do not count. If root's blocks are
// in use, the number of free blocks is negative.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	for {
		if err := unix.Statfs(dir, &s); err != unix.EINTR {
			return uint64(max(int64(s.Bavail), 0)) * uint64(s.Bsize), err
		}
	}
}
