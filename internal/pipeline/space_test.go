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
	assert.EqualValues(t, 5, Reserve(5, 1<<30), "as configured")
	assert.EqualValues(t, 1<<30, Reserve(0, 1<<30), "as much as the log")
	assert.EqualValues(t, reserveBytesMin, Reserve(0, 7), "at least")
}
