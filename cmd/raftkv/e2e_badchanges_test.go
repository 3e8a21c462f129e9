package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
)

// The server refuses a change that cannot be made. It answers with one line that names the problem and the remedy, and
// nothing changes.
func TestEndToEnd_BadChangesChangeNothing(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, 3, 1)
	require.NoError(t, c.Start())
	leader := c.leader("")
	other, n4 := c.others(leader.ID)[0], c.Nodes[3]
	foreign := newClusterOf(t, 1, 0)
	foreign.Nodes[0].ID = n4.ID
	require.NoError(t, foreign.Start())
	foreign.leader("")
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"add", "n9", n4.RaftAddr, n4.URL()}, 1, `this is "n4", the connection is for "n9"`},
		{[]string{"add", n4.ID, foreign.Nodes[0].RaftAddr, n4.URL()}, 1, "not_empty: the store of n4 at " + foreign.Nodes[0].RaftAddr + " belongs to cluster "},
		{[]string{"add", n4.ID, other.RaftAddr, n4.URL()}, 1, "address_in_use: the members were not changed: n4 cannot be at " + other.RaftAddr},
		{[]string{"add", n4.ID, n4.RaftAddr, other.URL()}, 1, "address_in_use: n4 cannot have the URL " + other.URL()},
		{[]string{"add", other.ID, n4.RaftAddr, n4.URL()}, 1, "member_exists: the members were not changed: " + other.ID + " is a voter, at " + other.RaftAddr},
		{[]string{"add", "n 4", n4.RaftAddr, n4.URL()}, 1, `bad_request: invalid configuration: Change.Add: member id "n 4"`},
		{[]string{"add", n4.ID, "0.0.0.0:1", n4.URL()}, 1, `bad_request: member "n4": "0.0.0.0:1" names no machine`},
		{[]string{"address", other.ID, "127.0.0.1:0"}, 1, `"127.0.0.1:0" is no "host:port"`},
		{[]string{"remove", "n9"}, 1, "unknown_member: the members were not changed: there is no n9; there are n1 n2 n3"},
		{[]string{"remove", other.ID, "--if-index", "7"}, 4, "config_changed: the members were not changed: the configuration is 1 now, not 7"},
	} {
		_, errs := c.members(leader, row.code, row.args...)
		assert.Contains(t, errs, row.says)
		assert.Equal(t, 1, strings.Count(errs, "\n"), "one line: %s", errs)
	}
	now, err := client.Try(t.Context(), c.clients()[:1], func(n1 *client.Client) (admin.Members, error) { return n1.Members(t.Context()) })
	require.NoError(t, err)
	assert.EqualValues(t, 1, now.Index, "the configuration is the one of the bootstrap")
	c.members(leader, 0, "add", n4.ID, n4.RaftAddr, n4.URL())
}
