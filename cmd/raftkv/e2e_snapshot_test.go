package main_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startSnapshotting returns a cluster with a leader. Its members have these additional flags.
func startSnapshotting(t *testing.T, flags ...string) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	c.More = func(local.Node) []string { return flags }
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// fill writes the keys from first to limit-1 with several clients. Each value has this many bytes.
func (c cluster) fill(first, limit, valueBytes int) {
	c.t.Helper()
	const writers = 32
	shared := client.NewHTTP(writers, patience)
	defer shared.CloseIdleConnections()
	leader := c.leader("")
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			value := bytes.Repeat([]byte{byte(writer)}, valueBytes)
			for i := first + writer; i < limit && c.t.Context().Err() == nil; {
				if _, err := leader.Client(shared).Put(c.t.Context(), fillKey(i), value, client.Condition{}); err == nil {
					i += writers
				}
			}
		})
	}
	all.Wait()
}

func fillKey(i int) string { return fmt.Sprintf("fill/%07d", i) }

// snapshot makes a member take a snapshot, and waits until the snapshot is complete.
func (c cluster) snapshot(n local.Node) {
	c.t.Helper()
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	before := c.status(n)
	_, err := n.Client(shared).Snapshot(c.t.Context())
	require.NoError(c.t, err)
	c.await(n, "takes a snapshot", func(s api.Status) bool { return s.Snapshot.Last >= before.Applied })
}

// sendAway kills a member. Then it writes until no log of the others holds the entries that the member lacks: any of them may lead
// when it comes back.
func (c cluster) sendAway(away, leader local.Node) {
	c.t.Helper()
	before := c.status(leader)
	c.Kill(away.ID)
	for sent := false; !sent; {
		c.fill(0, 100, 1024)
		sent = true
		for _, n := range c.others(away.ID) {
			c.snapshot(n)
			sent = sent && c.status(n).Base > before.Last
		}
	}
}

func TestEndToEnd_TheLogStaysBoundedAndARestartReadsASnapshot(t *testing.T) {
	t.Parallel()
	c, _ := startSnapshotting(t, "--snapshot-entries", "100", "--snapshot-tail-bytes", "8KiB")
	w, verify := c.work()
	writes(t, w, 200)
	for _, n := range c.Nodes {
		c.await(n, "compacts its log", func(s api.Status) bool {
			return s.Base > 200 && s.LogBytes < 1<<20 && s.Snapshot.Last >= s.Base
		})
	}
	for _, n := range c.Nodes {
		c.Kill(n.ID)
		require.NoError(t, c.Start(n.ID))
		c.caughtUp()
	}
	verify()
}

func TestEndToEnd_AMemberThatWasAwayIsSentASnapshotWhateverIsKilled(t *testing.T) {
	t.Parallel()
	c, leader := startSnapshotting(t, "--snapshot-log-bytes", "64KiB", "--snapshot-tail-bytes", "64KiB", "--snapshot-rate", "192KiB")
	const keys, valueBytes = 200, 8 << 10
	c.fill(0, keys, valueBytes)
	away := c.others(leader.ID)[0]
	c.sendAway(away, leader)
	receives := func(s api.Status) bool { return s.Snapshot.Receiving != nil && s.Snapshot.Receiving.Done > 0 }

	require.NoError(t, c.Start(away.ID))
	c.await(away, "receives a snapshot", receives)
	c.await(leader, "sends it", func(s api.Status) bool { return s.Snapshot.Sending != nil && s.Snapshot.Sending.Peer == away.ID })
	c.Kill(away.ID) // the receiver, during the transfer
	require.NoError(t, c.Start(away.ID))
	c.await(away, "receives a snapshot again", receives)
	c.Kill(leader.ID) // the sender, during the transfer
	require.NoError(t, c.Start(leader.ID))
	began := time.Now()
	c.caughtUp()
	t.Logf("%s was brought up %v after its leader was killed", away.ID, time.Since(began).Round(time.Millisecond))

	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	for i := range keys {
		var first client.Value
		for at, n := range c.Nodes {
			value, err := n.Client(shared).Get(t.Context(), fillKey(i), api.Stale)
			require.NoError(t, err)
			if at == 0 {
				first = value
			}
			require.Equal(t, first.Revision, value.Revision, fillKey(i))
			require.Equal(t, first.Data, value.Data, fillKey(i))
		}
	}
}

func TestEndToEnd_ASnapshotIsTakenByACommand(t *testing.T) {
	t.Parallel()
	c, leader := startSnapshotting(t, "--snapshot-rate", "64KiB")
	c.fill(0, 50, 8<<10)
	other := c.others(leader.ID)[0]
	c.caughtUp()
	flags := []string{"--server", leader.URL(), "--server", other.URL()}
	assert.Regexp(t, "^"+other.ID+": the newest snapshot covers entry [0-9]+: 40[0-9] KiB\n$",
		raftkv(t, append([]string{"snapshot", other.ID, "--timeout", "1m"}, flags...)...), "it takes longer than one request may")
	assert.Contains(t, raftkv(t, append([]string{"status"}, flags...)...), other.ID+"  log of ")
}
