package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// members runs "raftkv members" with the arguments, through the server of one node. It checks that the exit code is the given
// one.
func (c cluster) members(through local.Node, code int, args ...string) (out, errs string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program, append(append([]string{"members"}, args...), "--server", through.URL())...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	var ended *exec.ExitError
	got := 0
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		require.NoError(c.t, err)
	}
	c.t.Logf("raftkv members %v, %v: exit code %d\n%s%s", args, time.Since(began).Round(time.Millisecond), got, &stderr, &stdout)
	require.Equal(c.t, code, got)
	return stdout.String(), stderr.String()
}

// voters waits until a member reports exactly these voters, and reports that no change is running.
func (c cluster) voters(through local.Node, want ...string) {
	c.t.Helper()
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	require.Eventually(c.t, func() bool {
		now, err := through.Client(shared).Members(c.t.Context())
		return err == nil && now.Change == nil && assert.ObjectsAreEqual(want, now.Voters())
	}, c.patience, poll, "%s: voters %v", through.ID, want)
}

// ends waits until the process of a member has ended with this exit code.
func (c cluster) ends(n local.Node, code int) {
	c.t.Helper()
	select {
	case <-c.Process(n.ID).Done():
	case <-time.After(c.patience):
		require.Fail(c.t, n.ID+" does not end")
	}
	var ended *exec.ExitError
	require.ErrorAs(c.t, c.Process(n.ID).Err(), &ended)
	require.Equal(c.t, code, ended.ExitCode())
}

func TestEndToEnd_GrowsFromOneToThreeAndBack(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, 1, 2)
	require.NoError(t, c.Start())
	n1, n2, n3 := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	c.leader("")
	w, verify := c.work()
	writes(t, w, 20)
	for _, n := range []local.Node{n2, n3} {
		out, _ := c.members(n1, 0, "add", n.ID, n.RaftAddr, n.URL())
		assert.Contains(t, out, "done: configuration ")
		writes(t, w, 20)
	}
	c.voters(n3, "n1", "n2", "n3")
	out, _ := c.members(n2, 0, "add", n3.ID, n3.RaftAddr, n3.URL())
	assert.Contains(t, out, "nothing to do: configuration ")

	c.Kill(n1.ID) // any one of the three may fail
	c.leader(n1.ID)
	writes(t, w, 20)
	require.NoError(t, c.Start(n1.ID))
	c.caughtUp()

	first := c.leader("")
	others := c.others(first.ID)
	c.members(others[0], 0, "remove", first.ID)
	c.ends(first, 9)
	writes(t, w, 20)
	c.voters(others[0], others[0].ID, others[1].ID)
	out, _ = c.members(others[0], 0, "remove", others[1].ID, "--no-wait")
	assert.Regexp(t, "^(accepted|done): configuration ", out)
	c.ends(others[1], 9)
	writes(t, w, 20)
	c.voters(others[0], others[0].ID)
	_, errs := c.members(others[0], 1, "remove", others[0].ID)
	assert.Contains(t, errs, "last_voter")
	require.NoError(t, c.Start(first.ID))
	c.ends(first, 9) // its log or the other members know that it was removed
	verify()
}

func TestEndToEnd_AMemberWhoseDiskIsLostIsReplaced(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	w, verify := c.work()
	writes(t, w, 50)
	lost, other := c.others(leader.ID)[0], c.others(leader.ID)[1]
	c.Kill(lost.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(lost.ID)))
	writes(t, w, 20)
	_, errs := c.members(other, 1, "replace", lost.ID)
	assert.Contains(t, errs, "member_unreachable", "it does not run")
	require.NoError(t, c.Start(lost.ID))
	c.members(other, 0, "replace", lost.ID) // even if the leader has not noticed the loss yet
	c.voters(leader, "n1", "n2", "n3")
	out, _ := c.members(other, 0, "replace", lost.ID)
	assert.Regexp(t, "nothing to do: configuration .*; at the address of its replacement, "+lost.ID+" itself answers", out)
	c.caughtUp()
	c.Kill(other.ID) // now nothing is committed without the new member
	writes(t, w, 20)
	c.await(lost, "serves", func(s api.Status) bool { return s.Leader != "" && !s.Wiped })
	require.NoError(t, c.Start(other.ID))
	c.caughtUp()
	verify()
}
