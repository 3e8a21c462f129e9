package node_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// The users of a program may never see a Config. The program can still name the setting that they have to change.
func TestConfig_EachErrorNamesItsField(t *testing.T) {
	err := node.Config{
		ID: "n 1", Cluster: "", Initial: []raft.Member{{ID: "n2", Address: "h:1"}},
		Advertise: strings.Repeat("x", 257), ElectionTimeout: 1, DiskStallMax: -1, Limits: raft.Limits{InflightMax: -1}, LogCacheBytesMax: -1,
		SnapshotBytesPerSecond: 1, SnapshotReserveBytes: -1, SnapshotStallMax: time.Millisecond,
		RunAsLeaderStopMax: time.Hour,
	}.Validate()
	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	var fields []string
	for _, one := range all.Unwrap() {
		var field *raft.ConfigError
		require.ErrorAs(t, one, &field)
		fields = append(fields, field.Field)
		assert.ErrorIs(t, err, field.Err)
		assert.Contains(t, one.Error(), field.Field+": ")
	}
	assert.Equal(t, []string{"ID", "Initial", "ElectionTimeout", "DiskStallMax", "InflightMax", "Cluster", "Advertise", "LogCacheBytesMax",
		"SnapshotBytesPerSecond", "SnapshotReserveBytes", "SnapshotStallMax", "RunAsLeaderStopMax"}, fields)
}

// The error names each snapshot limit that is out of range, and the range.
func TestConfig_APolicyOutOfRange(t *testing.T) {
	for field, set := range map[string]func(c *node.Config, value int){
		"SnapshotEntries":        func(c *node.Config, value int) { c.SnapshotEntries = value },
		"SnapshotLogBytes":       func(c *node.Config, value int) { c.SnapshotLogBytes = value },
		"SnapshotTailBytes":      func(c *node.Config, value int) { c.SnapshotTailBytes = value },
		"SnapshotHoldBytes":      func(c *node.Config, value int) { c.SnapshotHoldBytes = value },
		"SnapshotBytesPerSecond": func(c *node.Config, value int) { c.SnapshotBytesPerSecond = value },
		"SnapshotReserveBytes":   func(c *node.Config, value int) { c.SnapshotReserveBytes = value },
		"SnapshotStallMax":       func(c *node.Config, value int) { c.SnapshotStallMax = time.Duration(value) },
	} {
		for _, value := range []int{-1, math.MaxInt} {
			c := node.Config{ID: "n1", Cluster: "c"}
			set(&c, value)
			err := c.Validate()
			var bad *raft.ConfigError
			require.ErrorAs(t, err, &bad, "%s: %d", field, value)
			assert.Equal(t, field, bad.Field)
			assert.ErrorContains(t, err, "it takes")
			_, err = node.Start(t.Context(), c, newJournal(), storage.NewMemory(), transport.NewNetwork().Join("n1"))
			assert.ErrorAs(t, err, &bad, "the node does not start")
		}
	}
}

// The sum of two limits fits into an int on every machine.
func TestConfig_LimitsLeaveRoomInAnInt(t *testing.T) {
	c := node.Config{ID: "n1", Cluster: "c", LogCacheBytesMax: math.MaxInt32 / 2}
	assert.NoError(t, c.Validate())
	c.LogCacheBytesMax = math.MaxInt
	assert.ErrorContains(t, c.Validate(), ": LogCacheBytesMax: ")
}
