package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

func TestSpace_ASnapshotLeavesTheReserve(t *testing.T) {
	s := Space{Free: 100, Reserve: 30}
	for _, c := range []struct {
		name       string
		size, last int64
		fits       bool
	}{
		{"all the room", 70, 0, true},
		{"one byte more", 71, 0, false},
		{"a quarter more than the last one", -1, 56, true},
		{"a quarter more than the last one, which does not fit", -1, 60, false},
		{"the first one of an unknown size", -1, 0, true},
	} {
		err := s.Begin(c.size, c.last)
		if c.fits {
			assert.NoError(t, err, c.name)
			continue
		}
		var noRoom *raft.SpaceError
		assert.ErrorAs(t, err, &noRoom, c.name)
	}
	assert.NoError(t, s.Left(0))
	assert.Error(t, Space{Free: 29, Reserve: 30}.Left(0), "what was written has taken from the reserve")
}

func TestReserve(t *testing.T) {
	assert.EqualValues(t, 5, Reserve(5, 1<<30, false), "as configured")
	assert.EqualValues(t, 5<<20, Reserve(0, 5<<20, false), "as much as the log")
	assert.EqualValues(t, reserveBytesMin, Reserve(0, 7, false), "at least")
	assert.EqualValues(t, reserveBytesMax, Reserve(0, 1<<30, false), "at most")
	assert.EqualValues(t, reserveBytesMin, Reserve(0, 1<<30, true), "of a log that takes its room in advance")
	assert.EqualValues(t, 5<<20, Reserve(5<<20, 1<<30, true), "as configured")
}

// A log has grown while the disk was full. The member must still be able to take the snapshot that shortens the log.
func TestReserve_ALongLogDoesNotForbidSnapshots(t *testing.T) {
	const log, free, size = 350 << 20, 450 << 20, 200 << 20
	assert.NoError(t, Space{Free: free, Reserve: Reserve(0, log, false)}.Begin(size, size))
}
