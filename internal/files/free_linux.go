package files

import (
	"math"
	"math/bits"

	"golang.org/x/sys/unix"
)

// freeBytes counts the bytes that this user may write. Blocks that are reserved for root do not count.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	for {
		if err := unix.Statfs(dir, &s); err != unix.EINTR {
			return times(s.Bavail, uint64(s.Frsize)), err
		}
	}
}

// times returns the product, or the largest int64 if the product is larger.
func times(blocks, bytes uint64) uint64 {
	if over, product := bits.Mul64(blocks, bytes); over == 0 {
		return product
	}
	return math.MaxUint64
}
