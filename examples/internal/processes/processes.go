// Package processes runs the members of an example's cluster as processes of its test, with TLS.
package processes

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testca"
)

// Cluster is three members, n1 to n3, each a process of the test's program, which takes the arguments of examples/embed.
type Cluster struct {
	Members []raft.Member

	t       *testing.T
	dirs    map[raft.NodeID]string
	running map[raft.NodeID]*local.Process
}

// StartAll starts all members of the cluster, which is named as in their certificates.
func StartAll(t *testing.T, cluster string) *Cluster {
	t.Helper()
	ports, ca := &local.Layout{}, testca.New(t)
	t.Cleanup(ports.Close)
	c := &Cluster{t: t, dirs: map[raft.NodeID]string{}, running: map[raft.NodeID]*local.Process{}}
	for _, id := range []raft.NodeID{"n1", "n2", "n3"} {
		members, err := ports.Reserve()
		require.NoError(t, err)
		clients, err := ports.Reserve()
		require.NoError(t, err)
		c.Members = append(c.Members, raft.Member{ID: id, Address: members, Meta: "http://" + clients})
		c.dirs[id] = t.TempDir()
		ca.Files(t, c.dirs[id], cluster, id)
	}
	t.Cleanup(c.showLogs)
	for _, m := range c.Members {
		c.Start(m.ID)
	}
	return c
}

// showLogs prints the logs of a test that has failed.
func (c *Cluster) showLogs() {
	for _, m := range c.Members {
		if c.t.Failed() {
			c.t.Logf("the log of %s:\n%s", m.ID, c.log(m.ID))
		}
	}
}

func (c *Cluster) log(id raft.NodeID) []byte {
	text, err := os.ReadFile(filepath.Join(c.dirs[id], "log"))
	require.NoError(c.t, err)
	return text
}

// WokeLate reports that the machine let a process wait for so long that its member may have lost its leader, or its leadership.
func (c *Cluster) WokeLate() bool {
	return slices.ContainsFunc(c.Members, func(m raft.Member) bool { return bytes.Contains(c.log(m.ID), []byte("the node woke late")) })
}

// List returns the members as the first argument of their programs.
func (c *Cluster) List() string {
	list, err := json.Marshal(c.Members)
	require.NoError(c.t, err)
	return string(list)
}

// Start starts a member, also again.
func (c *Cluster) Start(id raft.NodeID) {
	c.t.Helper()
	started, err := local.StartProcess(os.Args[0], []string{c.List(), string(id), c.dirs[id]}, filepath.Join(c.dirs[id], "log"))
	require.NoError(c.t, err)
	c.t.Cleanup(started.Kill)
	c.running[id] = started
}

// Stop asks a member to end, and waits until it has.
func (c *Cluster) Stop(id raft.NodeID) {
	c.t.Helper()
	process, err := os.FindProcess(c.running[id].PID())
	require.NoError(c.t, err)
	require.NoError(c.t, process.Signal(syscall.SIGTERM))
	require.NoError(c.t, c.running[id].Err(), "it ends well")
}

// Kill ends a member at once.
func (c *Cluster) Kill(id raft.NodeID) { c.running[id].Kill() }
