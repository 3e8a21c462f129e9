package node_test

import (
	"strings"
	"sync"
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

// withLogs starts three members that log warnings into one buffer, each line with its id.
func withLogs(t *testing.T, tr func(raft.NodeID, raft.Transport) raft.Transport) (*rafttest.Cluster, *lockedBuffer) {
	log := &lockedBuffer{}
	return startAll(t, rafttest.Options{NewFSM: newJournal, Transport: tr, Configure: func(cfg *node.Config) {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: string(cfg.ID), Level: hclog.Warn, Output: log})
	}}), log
}

// The disks of two of three members were emptied. Without a majority no member can be replaced, so no message recommends a
// replacement. All three members report that the majority is lost, and where to read about it. They report this in the status
// and once in the log. If one of the disks is put back, the report ends.
func TestMajorityLost_IsSaidInsteadOfARemedyThatCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := withLogs(t, nil)
		propose(t, c.Leader(), "a")
		image := stop(c, "n2")
		c.Crash("n3")
		c.Wipe("n2")
		c.Wipe("n3")
		c.Start("n2")
		c.Start("n3")
		for _, id := range c.IDs() {
			n := c.Node(id)
			c.Await("it to know", func() bool { return n.Status().MajorityLost != "" })
			c.Await("the leader to step down", func() bool { return n.Status().Leader == "" })
			s := n.Status()
			assert.Contains(t, s.LeaderReason, `the disks of 2 of 3 voters are lost (n2 n3), and with them a majority: no command can restore it`)
			assert.Contains(t, s.LeaderReason, `"When a majority is lost" in docs/recovery.md`)
			c.Await("the log to name it", func() bool {
				return strings.Count(log.String(), string(id)+`: a problem has begun: verdict="majority lost"`) == 1
			})
			for _, m := range s.Members {
				assert.False(t, m.Replace, "%s of %s", id, m.ID)
				assert.NotContains(t, m.Problem, "replace", "%s of %s", id, m.ID)
			}
		}
		assert.Equal(t, "emptied disk", c.Node("n1").Status().Members[2].Verdict)

		c.Crash("n2")
		c.Restore("n2", image)
		c.Start("n2")
		propose(t, c.Leader(), "b")
		s := c.Leader().Status()
		assert.Empty(t, s.MajorityLost)
		assert.True(t, s.Members[2].Replace, "now it can be replaced")
	})
}

// If one disk of three was emptied, the majority is not lost. If members cannot be reached, the majority is not lost either,
// because they may come back.
func TestMajorityLost_IsNotSaidOfDisksThatMayComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := withLogs(t, nil)
		propose(t, c.Leader(), "a")
		c.Crash("n2")
		c.Crash("n3")
		c.Wipe("n3")
		c.Start("n3")
		c.Await("it to know", func() bool { return c.Node("n3").Status().Wiped })
		time.Sleep(time.Minute) // in the bubble
		for _, id := range []raft.NodeID{"n1", "n3"} {
			assert.Empty(t, c.Node(id).Status().MajorityLost)
		}
		assert.NotContains(t, log.String(), "majority")
	})
}

// withHandlers is like withLogs. In addition, a test can call the handlers of the members in place of a peer.
func withHandlers(t *testing.T) (*rafttest.Cluster, *lockedBuffer, func(raft.NodeID) raft.Handler) {
	var mu sync.Mutex
	handlers := map[raft.NodeID]*raft.Handler{}
	c, log := withLogs(t, func(id raft.NodeID, tr raft.Transport) raft.Transport {
		mu.Lock()
		defer mu.Unlock()
		handlers[id] = new(raft.Handler)
		return open{tr, handlers[id]}
	})
	return c, log, func(id raft.NodeID) raft.Handler {
		mu.Lock()
		defer mu.Unlock()
		return *handlers[id]
	}
}

// A member logs a rejection once for each peer, reason and direction, even if the other direction is connected meanwhile.
// After a member was replaced, a dial of its former incarnation may still be under way. The rejection of that dial is not
// logged.
func TestRejections_ARemedyThatWasAppliedIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log, handler := withHandlers(t)
		propose(t, c.Leader(), "a")
		leader, victim := c.Leader().Status().ID, c.Follower().Status().ID
		former := raft.Peer{ID: victim, Incarnation: c.Node(victim).Status().Incarnation}
		c.Crash(victim)
		c.Wipe(victim)
		n := c.Start(victim)
		c.Await("it to know", func() bool { return n.Status().Wiped })
		time.Sleep(time.Minute) // in the bubble
		for _, id := range others(c, n) {
			assert.Equal(t, 1, strings.Count(log.String(), string(id)+": was refused by a member: member="+string(victim)))
			assert.Equal(t, 1, strings.Count(log.String(), string(victim)+": refused a member: member="+string(id)))
		}
		_, err := c.Leader().ReplaceMember(t.Context(), victim, raft.Member{}, node.ChangeOptions{})
		require.NoError(t, err)
		before := log.String()
		now := raft.Peer{ID: victim, Incarnation: n.Status().Incarnation}
		handler(leader).Rejected(former, raft.Rejection{Reason: raft.RejectWrongIncarnation, From: now})
		time.Sleep(time.Minute) // in the bubble
		assert.Equal(t, before, log.String())
	})
}

// The last dial for a replaced member may reach the one that has replaced it. Its status does not show that refusal once the
// caller has crashed.
func TestStatus_ARefusalOfADialForAnotherMemberIsNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, handler := withHandlers(t)
		propose(t, c.Leader(), "a")
		victim := c.Follower().Status().ID
		former := raft.Peer{ID: victim, Incarnation: c.Node(victim).Status().Incarnation}
		c.Crash(victim)
		c.Wipe(victim)
		n := c.Start(victim)
		c.Await("it to know", func() bool { return n.Status().Wiped })
		_, err := c.Leader().ReplaceMember(t.Context(), victim, raft.Member{}, node.ChangeOptions{})
		require.NoError(t, err)
		caller := others(c, n)[0]
		time.Sleep(time.Minute) // in the bubble
		r := handler(victim).Check(handler(caller).Hello(former))
		require.NotNil(t, r)
		require.True(t, r.Asked(), "%v", r)
		c.Crash(caller)
		time.Sleep(time.Minute) // in the bubble
		for _, m := range n.Status().Members {
			assert.NotContains(t, m.Problem, "when the two last met")
		}
	})
}

// A member that runs on an older image of its disk ends. Its peers still report why.
func TestImage_ThePeersOfARefusedMemberSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		propose(t, c.Leader(), "a")
		image := stop(c, "n3")
		c.Start("n3")
		met(c, "n3", "n1")
		met(c, "n3", "n2")
		c.Crash("n3")
		c.Restore("n3", image)
		var stale *raft.StaleImageError
		require.ErrorAs(t, ended(t, c.Start("n3")), &stale)
		c.Crash("n3")
		time.Sleep(time.Minute) // in the bubble: the connections fail for another reason
		explained := 0
		for _, id := range []raft.NodeID{"n1", "n2"} {
			m := c.Node(id).Status().Members[2]
			assert.Contains(t, []string{"not connected", "older image"}, m.Verdict)
			if m.Verdict == "older image" {
				explained++
				assert.Contains(t, m.Problem, "when the two last met")
				assert.Contains(t, m.Problem, "older image of its disk")
			}
		}
		assert.Positive(t, explained, "%s", c.Node("n1").Status().Members[2].Problem)
	})
}

// A member with an older image of its disk dials another member, and is rejected. It may never learn the reason. The member
// that has rejected it reports the reason until the two are connected again.
func TestImage_TheMemberThatRefusedSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, handler := withHandlers(t)
		propose(t, c.Leader(), "a")
		older := handler("n3").Hello(c.Node("n1").Status().Members[0].Peer())
		c.Restart("n3")
		met(c, "n3", "n1")
		c.Crash("n3")
		c.Await("it to be gone", func() bool { return !connected(c, "n1", "n3") })
		problem := func() string { return c.Node("n1").Status().Members[2].Problem }
		assert.NotContains(t, problem(), "last met")
		require.NotNil(t, handler("n1").Check(older))
		assert.Contains(t, problem(), `when the two last met, member "n1" refuses the connection: stale start`)
		c.Start("n3")
		met(c, "n3", "n1")
		c.Crash("n3")
		c.Await("it to be gone", func() bool { return !connected(c, "n1", "n3") })
		assert.NotContains(t, problem(), "last met")
	})
}

// A member whose disk was emptied knows only its initial list. The cluster may have grown since.
func TestMajorityLost_NotOfAListThatTheClusterHasOutgrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withLogs(t, nil)
		propose(t, c.Leader(), "a")
		for _, id := range []raft.NodeID{"n4", "n5"} {
			c.Join(id)
			c.Add(id)
		}
		for _, id := range []raft.NodeID{"n2", "n3"} {
			c.Crash(id)
			c.Wipe(id)
			c.Start(id)
		}
		time.Sleep(time.Minute)
		propose(t, c.Leader(), "b") // n1, n4 and n5 are a majority of five
		for _, id := range []raft.NodeID{"n2", "n3"} {
			assert.True(t, c.Node(id).Status().Wiped)
			assert.Empty(t, c.Node(id).Status().MajorityLost)
		}
	})
}

// A member that lags knows members by incarnations that have been replaced. They answer with others, and belong to the cluster.
func TestMajorityLost_NotForAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{Members: 5, NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.SnapshotEntries, cfg.SnapshotTailBytes, cfg.SnapshotHoldBytes = 10, 1, 1
			cfg.SnapshotBytesPerSecond = 64 << 10
		}})
		propose(t, c.Leader(), "a")
		c.Crash("n5")
		for range 30 {
			propose(t, c.Leader(), strings.Repeat("x", 16<<10))
		}
		time.Sleep(5 * time.Minute)
		for _, id := range []raft.NodeID{"n2", "n3", "n4"} {
			c.Crash(id)
			c.Replace(id)
			propose(t, c.Leader(), "b")
		}
		time.Sleep(5 * time.Minute)
		late := c.Start("n5")
		for range 1000 {
			require.Empty(t, late.Status().MajorityLost)
			time.Sleep(20 * time.Millisecond)
		}
		c.Converge()
	})
}
