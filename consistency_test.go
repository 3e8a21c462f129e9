package raft_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

func TestConsistency(t *testing.T) {
	for _, test := range []struct {
		c      raft.Consistency
		maxAge time.Duration
		text   string
		err    error
	}{
		{raft.Linearizable, 0, "linearizable", nil},
		{raft.Lease, 0, "lease", nil},
		{raft.Stale(1), 1, "stale=1ns", nil},
		{raft.Stale(2 * time.Second), 2 * time.Second, "stale=2s", nil},
		{raft.Stale(math.MaxInt64), math.MaxInt64, "stale=2562047h47m16.854775807s", nil},
		{raft.Stale(0), 0, "stale=0s", &raft.MaxAgeError{MaxAge: 0}},
		{raft.Stale(-1), -1, "stale=-1ns", &raft.MaxAgeError{MaxAge: -1}},
	} {
		t.Run(test.text, func(t *testing.T) {
			assert.Equal(t, test.maxAge, test.c.MaxAge())
			assert.Equal(t, test.text, test.c.String())
			assert.Equal(t, test.err, test.c.Validate())
		})
	}
	assert.Error(t, raft.Stale(math.MinInt64).Validate())
	assert.EqualError(t, raft.Stale(-time.Second).Validate(),
		"raft: a read may not be at most -1s old: give Stale a positive age, or read with Linearizable")
}
