package node_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// A program whose users never see a Config can name the setting that they have to change.
func TestConfig_EachErrorNamesItsField(t *testing.T) {
	err := node.Config{
		ID: "n 1", Cluster: "", Initial: []raft.Member{{ID: "n2", Address: "h:1"}},
		ElectionTimeout: 1, DiskStallMax: -1, Limits: raft.Limits{InflightMax: -1}, LogCacheBytesMax: -1,
		SnapshotBytesPerSecond: 1, SnapshotReserveBytes: -1, SnapshotStallMax: time.Millisecond,
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
	assert.Equal(t, []string{"ID", "Initial", "ElectionTimeout", "DiskStallMax", "InflightMax", "Cluster", "LogCacheBytesMax",
		"SnapshotBytesPerSecond", "SnapshotReserveBytes", "SnapshotStallMax"}, fields)
}

// The sum of two limits fits into an int on every machine.
func TestConfig_LimitsLeaveRoomInAnInt(t *testing.T) {
	c := node.Config{ID: "n1", Cluster: "c", LogCacheBytesMax: math.MaxInt32 / 2}
	assert.NoError(t, c.Validate())
	c.LogCacheBytesMax = math.MaxInt
	assert.ErrorContains(t, c.Validate(), ": LogCacheBytesMax: ")
}
