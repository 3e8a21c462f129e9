package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// joiningCluster returns three serving members, and a fourth member that joins them when the test starts it.
func joiningCluster(t *testing.T) (c cluster, joins local.Node) {
	t.Helper()
	c = newClusterOf(t, 3, 1)
	initial := c.Nodes[:3]
	c.More = func(n local.Node) []string {
		if !n.Joins {
			return nil
		}
		return []string{"--join", initial[0].URL() + "," + initial[1].URL() + "," + initial[2].URL()}
	}
	for _, n := range initial {
		require.NoError(t, c.Start(n.ID))
	}
	c.leader("")
	return c, c.Nodes[3]
}

// joined waits until the node is a voter with another incarnation than the given one. It returns the new incarnation.
func (c cluster) joined(n local.Node, other string) (incarnation string, index uint64) {
	c.t.Helper()
	shared := c.clients()
	require.Eventually(c.t, func() bool {
		now, err := shared[0].Members(c.t.Context())
		if err != nil || now.Change != nil || len(now.Of(n.ID)) != 1 {
			return false
		}
		m := now.Of(n.ID)[0]
		incarnation, index = m.Incarnation, now.Index
		return m.Kind == "voter" && m.Incarnation != other
	}, c.patience, poll, "%s does not join", n.ID)
	c.await(n, "runs on the store that joined", func(s api.Status) bool { return s.Incarnation == incarnation })
	c.caughtUp()
	return incarnation, index
}

// asides counts the stores that a member has set aside.
func (c cluster) asides(n local.Node) int {
	c.t.Helper()
	all, err := filepath.Glob(filepath.Join(c.DataDir(n.ID), "aside-*"))
	require.NoError(c.t, err)
	return len(all)
}

func TestEndToEnd_AMemberJoinsByItselfWhateverBecameOfItsDisk(t *testing.T) {
	t.Parallel()
	c, n4 := joiningCluster(t)
	w, verify := c.work()
	writes(t, w, 20)
	require.NoError(t, c.Start(n4.ID))
	first, index := c.joined(n4, "")

	c.Kill(n4.ID) // --join may stay on its command line
	require.NoError(t, c.Start(n4.ID))
	again, same := c.joined(n4, "")
	assert.Equal(t, []any{first, index}, []any{again, same}, "nothing changes")

	c.Kill(n4.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(n4.ID)))
	require.NoError(t, c.Start(n4.ID))
	second, _ := c.joined(n4, first)
	assert.Zero(t, c.asides(n4))

	needle := bytes.Repeat([]byte("needle"), 100)
	c.writeValue(needle)
	c.write()
	c.caughtUp()
	c.Kill(n4.ID)
	segment := filepath.Join(c.DataDir(n4.ID), storage.LogDir, "0000000000000001.seg")
	intact, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.True(t, bytes.Contains(intact, needle))
	require.NoError(t, os.WriteFile(segment, bytes.ReplaceAll(intact, needle, bytes.ToUpper(needle)), 0o600))
	require.NoError(t, c.Start(n4.ID))
	third, _ := c.joined(n4, second)
	assert.Equal(t, 1, c.asides(n4), "the damaged store is kept")

	c.Kill(n4.ID)
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.CopyFS(image, os.DirFS(c.DataDir(n4.ID))))
	require.NoError(t, c.Start(n4.ID))
	c.await(n4, "is seen by all", func(s api.Status) bool {
		connected := 0
		for _, m := range s.Members {
			if m.Connected {
				connected++
			}
		}
		return connected == 4
	})
	c.Kill(n4.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(n4.ID)))
	require.NoError(t, os.CopyFS(c.DataDir(n4.ID), os.DirFS(image)))
	require.NoError(t, c.Start(n4.ID))
	c.joined(n4, third)
	assert.Equal(t, 2, c.asides(n4), "the older image is kept")
	writes(t, w, 20)
	verify()

	c.Kill(n4.ID)
	require.NoError(t, os.WriteFile(filepath.Join(c.DataDir(n4.ID), storage.BoltFile), bytes.Repeat([]byte("garbage!"), 1<<12), 0o600))
	code, says := runServe(t, c.ServeArgs(n4))
	assert.Equal(t, 1, code)
	assert.Contains(t, says, "it cannot tell which cluster it belongs to: look at it, and set it aside yourself (move the directory in --data away)")
	assert.Equal(t, 2, c.asides(n4))
}

func TestEndToEnd_AMemberThatWasRemovedStaysOutUntilItRejoins(t *testing.T) {
	t.Parallel()
	c, n4 := joiningCluster(t)
	w, verify := c.work()
	require.NoError(t, c.Start(n4.ID))
	first, _ := c.joined(n4, "")
	c.members(c.Nodes[0], 0, "remove", n4.ID)
	c.ends(n4, 9)
	says := c.LogTail(n4.ID)
	_, index, _ := strings.Cut(says, "raftkv serve --rejoin ")
	index, _, found := strings.Cut(index, ", with the other flags as they are, sets this store aside")
	require.True(t, found, says)
	writes(t, w, 20)
	require.NoError(t, c.Start(n4.ID))
	c.ends(n4, 9)
	assert.Zero(t, c.asides(n4))

	joins := c.More
	c.More = func(n local.Node) []string { return append(joins(n), "--rejoin", index) }
	require.NoError(t, c.Start(n4.ID))
	c.joined(n4, first)
	assert.Equal(t, 1, c.asides(n4))
	verify()
	c.members(c.Nodes[0], 0, "remove", n4.ID)
	c.ends(n4, 9)
	require.NoError(t, c.Start(n4.ID))
	c.ends(n4, 9) // the same --rejoin does not count for this removal
	assert.Equal(t, 1, c.asides(n4))
}

// A command line may be copied to another machine. The copy must not replace the running member.
func TestEndToEnd_ACopiedCommandLineTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	c, n4 := joiningCluster(t)
	require.NoError(t, c.Start(n4.ID))
	first, index := c.joined(n4, "")
	layout, err := local.OpenLayout(t.TempDir(), 1, nil)
	require.NoError(t, err)
	defer layout.Close()
	log := filepath.Join(t.TempDir(), "log")
	copied := replaced(c.ServeArgs(n4), "--data", func(string) string { return t.TempDir() })
	copied = replaced(copied, "--raft-addr", func(string) string { return layout.Nodes[0].RaftAddr })
	copied = replaced(copied, "--http-addr", func(string) string { return layout.Nodes[0].HTTPAddr })
	p, err := local.StartProcess(program, copied, log)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	said := func() string { text, _ := os.ReadFile(log); return string(text) }
	defer func() {
		if t.Failed() {
			t.Logf("the log of the copy:\n%s", said())
		}
	}()
	require.Eventually(t, func() bool { return strings.Contains(said(), "n4 is a member already, at "+n4.RaftAddr) }, patience, poll)
	c.write()
	again, same := c.joined(n4, "")
	assert.Equal(t, []any{first, index}, []any{again, same})
}
