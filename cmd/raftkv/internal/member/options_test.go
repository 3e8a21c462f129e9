package member_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/member"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPeer_IsReadAsItIsWritten(t *testing.T) {
	want := raft.Member{ID: "n1", Address: "[::1]:5001", Meta: "https://example.com:4001/?a=b"}
	got, err := member.ParsePeer(member.FormatPeer(want))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for _, bad := range []string{
		"", "n1", "n1=h:1", "n1=h=http://h", "n1=:1=http://h", "n1=h:0=http://h", "n1=h:x=http://h",
		"n1=h:1=h:2", "n1=h:1=", "n1=h:1=ftp://h", "n1=h:1=http://",
	} {
		_, err := member.ParsePeer(bad)
		assert.ErrorContains(t, err, "--peers", bad)
	}
}

// Members on one machine reach each other at 0.0.0.0, and --peers and --via have always taken it. To others it says nothing.
func TestOptions_OnlyAdvertiseRefusesTheAddressOfAllInterfaces(t *testing.T) {
	for _, any := range []string{"0.0.0.0:1", "[::]:1"} {
		o := member.Options{
			ID: "n1", Cluster: "test", Data: "d", RaftAddr: any, HTTPAddr: any, LogLevel: "info",
			Peers: []string{"n1=" + any + "=http://h", "n2=h:1=http://h"}, Via: []string{"n2=" + any},
		}
		assert.NoError(t, o.Validate(), any)
		o.Advertise = any
		assert.EqualError(t, o.Validate(),
			`--advertise: other members cannot dial "`+any+`": give the host:port at which they reach this one`)
	}
}
