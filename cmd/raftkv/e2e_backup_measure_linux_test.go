package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/size"
)

// processorTime returns the processor time that a member's process has used.
func (c cluster) processorTime(id string) time.Duration {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process(id).PID()))
	require.NoError(c.t, err)
	_, after, _ := strings.Cut(string(data), ") ")
	var user, system int64 // in hundredths of a second
	fields := strings.Fields(after)
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(c.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// measureBackup compares what a backup from a follower and from the leader costs the leader with what a snapshot costs that it sends
// to a follower: the writes beside it, and the leader's processor time without other load.
func (c cluster) measureBackup(t *testing.T) {
	leader := c.leader("")
	before := c.status(leader)
	follower := c.others(leader.ID)[0]
	for _, from := range []local.Node{follower, leader} {
		var p pairs
		var used []time.Duration
		for range measuredRounds {
			c.backUpOnce(t, &p, leader, from, before.Keys)
			used = append(used, c.leaderUses(leader, func() { <-c.backUp(from) }))
		}
		t.Logf("a backup of %s from %s, which leads: %v: %v; processor time of the leader: %v",
			size.Format(before.Snapshot.Bytes), from.ID, from == leader, &p, sortedTimes(used))
	}
	var used []time.Duration
	for range measuredRounds {
		c.sendAway(follower, leader)
		used = append(used, c.leaderUses(leader, func() {
			require.NoError(t, c.Start(follower.ID))
			c.caughtUp()
		}))
	}
	t.Logf("a snapshot sent to a follower: processor time of the leader: %v", sortedTimes(used))
	used = nil
	for range measuredRounds {
		used = append(used, c.leaderUses(leader, func() { <-time.After(windowOf(before.Snapshot.Bytes)) }))
	}
	t.Logf("%v without anything: processor time of the leader: %v", windowOf(before.Snapshot.Bytes), sortedTimes(used))
	assert.Equal(t, before.Term, c.status(leader).Term, "nobody else had to lead")
}

func sortedTimes(all []time.Duration) []time.Duration {
	slices.Sort(all)
	return all
}

// leaderUses returns the processor time that the leader uses during f.
func (c cluster) leaderUses(leader local.Node, f func()) time.Duration {
	before := c.processorTime(leader.ID)
	f()
	return c.processorTime(leader.ID) - before
}

// backUp takes a backup from a member. The channel is closed when the backup is complete.
func (c cluster) backUp(from local.Node) <-chan struct{} {
	name, done := filepath.Join(c.t.TempDir(), "backup"), make(chan struct{})
	c.write() // so that the member takes a snapshot
	go func() {
		defer close(done)
		out, err := exec.CommandContext(c.t.Context(), program, "backup", name, "--server", from.URL()).CombinedOutput()
		assert.NoError(c.t, err, "%s", out)
		_ = os.Remove(name)
	}()
	return done
}

// backUpOnce measures two pairs.
func (c cluster) backUpOnce(t *testing.T, p *pairs, leader, from local.Node, keys int) {
	always := func() bool { return true }
	length := windowOf(c.status(leader).Snapshot.Bytes)
	first := c.look(leader, length, keys, always)
	done := c.backUp(from)
	runs := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	second, third := c.look(leader, length, keys, runs), c.look(leader, length, keys, runs)
	<-done
	c.await(leader, "takes no snapshot", func(s api.Status) bool { return s.Snapshot.Taking == nil })
	fourth := c.look(leader, length, keys, always)
	p.add(t, leader.ID, first, second)
	p.add(t, leader.ID, fourth, third)
}
