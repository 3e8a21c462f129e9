package node_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// differing returns the settings in which a member differs from n, as n sees them.
func differing(n *node.Node, member raft.NodeID) (settings []string) {
	for _, m := range n.Status().Members {
		for _, d := range m.Differs {
			if m.ID == member {
				settings = append(settings, d.Setting+" "+d.There+", not "+d.Here)
			}
		}
	}
	return settings
}

// A large entry was committed while one member was away. That member comes back with a receive limit that is too small for
// the entry.
func TestLoopback_WhatIsTooLargeForOneMember(t *testing.T) {
	const frame = 128 << 10
	l := newLoopback(t, 3)
	leader := l.leader()
	propose(t, leader, "first")
	small := 2
	if l.nodes[small] == leader {
		small = 1
	}
	id := l.members[small].ID
	require.NoError(t, l.nodes[small].Close())
	large := strings.Repeat("x", 2*frame)
	propose(t, leader, large)

	l.frames = map[int]int{small: frame}
	wire := l.restart(small)
	last := propose(t, leader, "last")
	require.NoError(t, l.nodes[small].WaitApplied(t.Context(), last.Index))
	assert.Equal(t, []string{"first", large, "last"}, l.states[small].list())
	assert.Positive(t, l.nodes[small].Metrics().Snapshots.Received, "by a snapshot")
	assert.Zero(t, wire.Stats().Oversized, "nothing was sent that it does not take")

	var tooLarge *raft.TooLargeError
	require.Eventually(t, func() bool { // a new leader may not know the limit yet
		_, err := l.leader().Propose(t.Context(), []byte(large))
		return errors.As(err, &tooLarge)
	}, time.Minute, 10*time.Millisecond)
	assert.Equal(t, id, tooLarge.Member)
	assert.Less(t, tooLarge.Limit, frame)
	many := strings.Repeat("y", frame/8)
	for range 40 {
		last = propose(t, l.leader(), many)
	}
	require.NoError(t, l.nodes[small].WaitApplied(t.Context(), last.Index), "a batch is split")
	assert.Zero(t, wire.Stats().Oversized)

	here, there := l.leader(), l.nodes[small]
	assert.Equal(t, []string{"limit of a command 32768, not 1048576", "limit of an append 114684, not none"}, differing(here, id))
	assert.Equal(t, []string{"limit of a command 1048576, not 32768", "limit of an append none, not 114684"}, differing(there, here.Status().ID))
	assert.Equal(t, 1, here.Metrics().SettingsDiffer)
	assert.Equal(t, 2, there.Metrics().SettingsDiffer)
	assert.Eventually(t, func() bool {
		return strings.Count(l.logs[small].String(), `a problem has begun: verdict="settings differ"`) == 2
	}, time.Minute, 10*time.Millisecond, "one of each")
}

func TestSettings_ADifferenceIsShownOnBothSidesAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := map[raft.NodeID]*lockedBuffer{"n1": {}, "n2": {}, "n3": {}}
		timeouts := map[raft.NodeID]time.Duration{"n1": time.Second, "n2": time.Second, "n3": 2 * time.Second}
		c := startAll(t, rafttest.Options{Members: 3, NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.ElectionTimeout, cfg.Logger = timeouts[cfg.ID], hclog.New(&hclog.LoggerOptions{Output: logs[cfg.ID]})
		}})
		logged := func() (lines [3]int) {
			for i, id := range c.IDs() {
				lines[i] = strings.Count(logs[id].String(), `a problem has begun: verdict="settings differ"`)
			}
			return lines
		}
		c.Leader()
		c.Converge()
		assert.Equal(t, []string{"election timeout 2s, not 1s"}, differing(c.Node("n1"), "n3"))
		assert.Equal(t, []string{"election timeout 1s, not 2s"}, differing(c.Node("n3"), "n1"))
		assert.Empty(t, differing(c.Node("n1"), "n2"))
		assert.Equal(t, 1, c.Node("n2").Metrics().SettingsDiffer)
		c.Await("both sides say it", func() bool { return logged() == [3]int{1, 1, 2} })

		c.Isolate("n3")
		time.Sleep(20 * time.Second)
		c.Heal()
		c.Converge()
		c.Restart("n3")
		c.Converge()
		c.Await("only n3, which was started anew, says it again", func() bool { return logged() == [3]int{1, 1, 4} })

		timeouts["n3"] = time.Second
		c.Restart("n3")
		c.Converge()
		assert.Empty(t, differing(c.Node("n1"), "n3"))
		assert.Zero(t, c.Node("n1").Metrics().SettingsDiffer)
		time.Sleep(time.Minute)
		timeouts["n3"] = 3 * time.Second
		c.Restart("n3")
		c.Converge()
		c.Await("it has begun again", func() bool { return logged() == [3]int{2, 2, 6} })
	})
}

// A member without snapshots cannot get an entry that is too large for it: the status names the member, the entry and the
// setting.
func TestLoopback_WhatIsTooLargeForAMemberWithoutSnapshotsIsShown(t *testing.T) {
	const frame = 128 << 10
	l := newLoopback(t, 3)
	l.plain = map[int]bool{2: true}
	leader := l.leader()
	if leader == l.nodes[2] {
		require.NoError(t, leader.TransferLeadership(t.Context(), "n1"))
	}
	require.NoError(t, l.nodes[2].Close())
	leader = l.leader()
	at := propose(t, leader, strings.Repeat("x", 2*frame))
	l.frames = map[int]int{2: frame}
	l.restart(2)

	problem := ""
	require.Eventually(t, func() bool {
		problem = l.leader().Status().Members[2].Problem
		return strings.Contains(problem, "its storage keeps no snapshots")
	}, time.Minute, 10*time.Millisecond)
	assert.Contains(t, problem, raft.EntryID{Index: at.Index, Term: at.Term}.String())
	assert.Contains(t, problem, "takes 262181 bytes, and an append to it carries 114684 (its transport.Options.FrameBytesMax)")
	assert.Contains(t, problem, "raise that limit and restart the member that has it")
	l.frames = nil
	require.NoError(t, l.nodes[2].Close())
	l.restart(2)
	require.NoError(t, l.nodes[2].WaitApplied(t.Context(), at.Index), "that helps")
}
