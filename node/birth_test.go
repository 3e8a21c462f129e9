package node_test

import (
	"context"
	"strings"
	"sync/atomic"
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

func anyContains(sentences []string, parts ...string) bool {
	for _, s := range sentences {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(s, p)
		}
		if all {
			return true
		}
	}
	return false
}

func TestBootstrap_StatusSaysWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal})
		c.Start("n1")
		c.Start("n2")
		c.Await("n1 to miss n3 alone", func() bool {
			s := c.Node("n1").Status()
			return anyContains(s.Missing, "n3") && !anyContains(s.Missing, "n2") && !s.Bootstrapped
		})
		s := c.Node("n2").Status()
		assert.Contains(t, s.LeaderReason, "no cluster yet")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Node("n2").WaitLeader(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		c.Start("n3")
		s = c.Leader().Status()
		assert.True(t, s.Bootstrapped)
		assert.Empty(t, s.Missing)
		assert.Contains(t, s.Tolerance, "survives 1 failure more")
	})
}

// n3 does not run. The bootstrapper and the waiting member report that in their status, and in one line of their logs.
func TestBootstrap_AWaitingMemberSaysForWhomAndLogsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := map[raft.NodeID]*lockedBuffer{"n1": {}, "n2": {}, "n3": {}}
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: logs[cfg.ID]})
		}})
		c.Start("n1")
		c.Start("n2")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Contains(t, logs["n2"].String(), "seen from here, n3", "early, as news")
		assert.NotContains(t, logs["n2"].String(), "[WARN]  no cluster")
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		for id, says := range map[raft.NodeID][]string{
			"n1": {"this member bootstraps it", "n3 has not answered the probe"},
			"n2": {"waits for the bootstrapper, n1", "probe", "seen from here, n3"},
		} {
			for _, part := range says {
				assert.Contains(t, c.Node(id).Status().LeaderReason, part)
				assert.Contains(t, logs[id].String(), part)
			}
			assert.Equal(t, 3, strings.Count(logs[id].String(), "no cluster is known here yet"), "after 1 s and 10 s, and once in 5 min")
		}
		c.Start("n3")
		c.Leader()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 3, strings.Count(logs["n2"].String(), "no cluster is known here yet"))
	})
}

func TestBootstrap_UnequalListsAreRefusedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var corrected atomic.Bool
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			if cfg.ID == "n2" && !corrected.Load() {
				cfg.Initial = append([]raft.Member(nil), cfg.Initial...)
				cfg.Initial[2].Address = "elsewhere:1"
			}
		}})
		c.Await("n1 to say what is wrong with n2", func() bool {
			return anyContains(c.Node("n1").Status().Missing, "n2", "elsewhere:1", "list of initial members")
		})
		assert.False(t, c.Node("n1").Status().Bootstrapped)
		assert.Positive(t, c.Node("n1").Metrics().Refusals[raft.RejectListDiffers])

		corrected.Store(true)
		c.Restart("n2")
		propose(t, c.Leader(), "a")
	})
}

func TestWiped_AnEmptiedDiskIsNoMemberAnyMore(t *testing.T) {
	for _, row := range []struct {
		rule string
		who  func(c *rafttest.Cluster) raft.NodeID
	}{
		{"a follower's", func(c *rafttest.Cluster) raft.NodeID {
			if c.Leader().Status().ID == "n3" {
				return "n2"
			}
			return "n3"
		}},
		{"the leader's", func(c *rafttest.Cluster) raft.NodeID { return c.Leader().Status().ID }},
		{"the bootstrapper's", func(*rafttest.Cluster) raft.NodeID { return "n1" }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rafttest.New(t, 3, newJournal)
				propose(t, c.Leader(), "a")
				id := row.who(c)
				c.Crash(id)
				c.Wipe(id)
				n := c.Start(id)
				c.Await("it to know", func() bool { return n.Status().Wiped })
				assert.Contains(t, n.Status().Tolerance, "emptied")

				ctx := context.Background()
				_, err := n.Propose(ctx, []byte("b"))
				assert.ErrorIs(t, err, node.ErrWiped)
				_, err = n.ReadIndex(ctx)
				assert.ErrorIs(t, err, node.ErrWiped)
				_, err = n.WaitLeader(ctx)
				assert.ErrorIs(t, err, node.ErrWiped)
				assert.ErrorIs(t, n.Ready(ctx), node.ErrWiped)
				assert.Contains(t, n.Status().LeaderReason, "emptied")

				for range 5 {
					propose(t, c.Leader(), "the others continue")
				}
				assert.NotEqual(t, id, c.Leader().Status().ID)
				assert.False(t, n.Status().Bootstrapped)
				assert.Empty(t, listOf(c, id))
			})
		})
	}
}

// The member knows no peer and dials none; the others dial it.
func TestWiped_AMemberWithoutAListLearnsItFromACallForAnotherIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var noList atomic.Bool
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			if cfg.ID == "n3" && noList.Load() {
				cfg.Initial = nil
			}
		}})
		propose(t, c.Leader(), "a")
		c.Crash("n3")
		c.Wipe("n3")
		noList.Store(true)
		n := c.Start("n3")
		c.Await("it to know", func() bool { return n.Status().Wiped })
		s := n.Status()
		assert.Contains(t, s.LeaderReason, "emptied")
		assert.Contains(t, s.Tolerance, "unknown here: this member's disk was emptied")
		assert.ErrorIs(t, n.Ready(context.Background()), node.ErrWiped)
	})
}

// open is a transport that keeps the node's handler, so that a test can call it in place of a peer.
type open struct {
	raft.Transport
	handler *raft.Handler
}

func (o open) Start(h raft.Handler) error {
	*o.handler = h
	return o.Transport.Start(h)
}

// A caller may expect an incarnation that this member never had. Such a caller must disturb neither a serving member, nor a
// new cluster that has the name of an earlier cluster.
func TestWiped_AConfusedCallerMakesNoHealthyMemberUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler raft.Handler
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, tr raft.Transport) raft.Transport {
			if id == "n1" {
				return open{tr, &handler}
			}
			return tr
		}})
		n := c.Start("n1")
		call := func(from raft.NodeID, term raft.Term) {
			rejection := handler.Check(raft.Hello{
				ClusterName: n.Status().ClusterName, Term: term,
				From: raft.Peer{ID: from, Incarnation: 7}, Expected: raft.Peer{ID: "n1", Incarnation: 8},
			})
			require.NotNil(t, rejection)
			require.Equal(t, raft.RejectWrongIncarnation, rejection.Reason)
		}
		call("n2", 0)
		assert.False(t, n.Status().Wiped, "a cluster without a term is begun anew with members whose disks were emptied")
		call("stranger", 9)
		assert.False(t, n.Status().Wiped, "the list does not name it: it is of an earlier cluster")
		c.Start("n2")
		c.Start("n3")
		propose(t, c.Leader(), "a")
		for _, from := range []raft.NodeID{"n2", "stranger"} {
			call(from, 9)
			assert.False(t, n.Status().Wiped)
			assert.NoError(t, n.Ready(context.Background()))
		}
	})
}

// A lagging member's configuration names the former incarnation of a replaced member. A newer configuration of another
// member prevails.
func TestWiped_AConfigurationThatNamesTheIncarnationDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler raft.Handler
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, tr raft.Transport) raft.Transport {
			return open{tr, &handler}
		}})
		n := c.Start("n1")
		self := n.Status().Incarnation
		call := func(from raft.NodeID, named ...raft.Incarnation) {
			require.Nil(t, handler.Check(raft.Hello{
				ClusterName: n.Status().ClusterName, Cluster: raft.ClusterID{1}, Term: 5, From: raft.Peer{ID: from, Incarnation: 7},
				Expected: raft.Peer{ID: "n1"}, StartCount: 1, Lineage: raft.Lineage{}.Begin(1), Named: named, NamedIndex: 3,
			}))
		}
		call("n2", 8)
		assert.True(t, n.Status().Wiped)
		call("n3")
		assert.True(t, n.Status().Wiped, "n3 does not know the id at all")
		call("n3", 8, self)
		assert.False(t, n.Status().Wiped)
		call("n2", 8)
		assert.False(t, n.Status().Wiped, "n2 lags")
		call("n3", 8)
		assert.True(t, n.Status().Wiped, "the addition was rolled back")
	})
}

// One of five disks was emptied. The status of every member says that the member with this disk no longer counts, and that
// the others serve.
func TestWiped_EveryMemberSaysHowManyMoreFailuresAreSurvivedAndWhoServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 5, newJournal)
		propose(t, c.Leader(), "a")
		c.Crash("n5")
		c.Wipe("n5")
		c.Start("n5")
		for _, id := range []raft.NodeID{"n1", "n2", "n3", "n4"} {
			c.Await("it to count four", func() bool {
				return c.Node(id).Status().Tolerance == "the cluster survives 1 failure more: 4 of 5 voters can be reached"
			})
			for _, m := range c.Node(id).Status().Members {
				assert.Equal(t, m.ID == "n5", m.Problem != "", "%s of %s: %s", id, m.ID, m.Problem)
			}
			assert.NoError(t, c.Node(id).Ready(context.Background()))
		}
		n := c.Node("n5")
		c.Await("it to know", func() bool { return n.Status().Wiped })
		s := n.Status()
		assert.Equal(t, "unknown here: this member's disk was emptied, and it does not count", s.Tolerance)
		assert.Contains(t, s.Members[4].Problem, "its disk was emptied")
		assert.ErrorIs(t, n.Ready(context.Background()), node.ErrWiped)
	})
}

// Two members that reject each other do so at every dial, each for its own reason.
func TestRefusals_AreLoggedOncePerReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines atomic.Int64
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: counting{&lines}})
		}})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		propose(t, c.Leader(), "a")
		c.Crash("n3")
		c.Wipe("n3")
		n := c.Start("n3")
		c.Await("it to know", func() bool { return n.Status().Wiped })
		before := n.Metrics().Refusals[raft.RejectWrongIncarnation]
		time.Sleep(time.Minute) // in the bubble: many dials
		assert.Greater(t, n.Metrics().Refusals[raft.RejectWrongIncarnation], before+20, "they continue")
		assert.Positive(t, lines.Load())
		// There are two pairs of members, with two reasons on either side, and a schedule may add a few lines. This is far
		// fewer lines than dials.
		assert.LessOrEqual(t, lines.Load(), int64(12))
	})
}

// counting counts the writes to it.
type counting struct{ writes *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return len(p), nil
}

// dropping is a transport that loses some messages.
type dropping struct {
	raft.Transport
	lost func(raft.Message) bool
}

func (d *dropping) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	var left []raft.Message
	for _, m := range batch {
		if !d.lost(m) {
			left = append(left, m)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return d.Transport.Send(to, lane, left)
}

// bootstrapHalf brings a cluster to the point where all other members hold entry 1, but the bootstrapper does not know that
// they hold it.
func bootstrapHalf(t *testing.T) (c *rafttest.Cluster, deaf *atomic.Bool) {
	deaf = &atomic.Bool{}
	deaf.Store(true)
	c = startAll(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, tr raft.Transport) raft.Transport {
		return &dropping{tr, func(m raft.Message) bool {
			_, reply := m.Body.(raft.BootstrapReply)
			return reply && deaf.Load()
		}}
	}})
	c.Await("all to hold entry 1", func() bool {
		for _, id := range c.IDs() {
			if c.Node(id).Status().Persisted < 1 {
				return false
			}
		}
		return true
	})
	return c, deaf
}

func TestWiped_ABootstrapperThatWasEmptiedMeanwhileSaysHowToStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, deaf := bootstrapHalf(t)
		c.Crash("n1")
		c.Wipe("n1")
		deaf.Store(false)
		n := c.Start("n1")
		c.Await("it to say so", func() bool { return anyContains(n.Status().Missing, "nothing was ever committed") })
		assert.Contains(t, n.Status().LeaderReason, "emptied")
		_, err := n.Propose(context.Background(), []byte("a"))
		assert.ErrorIs(t, err, node.ErrWiped)
	})
}

func TestBootstrap_AHolderThatWasEmptiedIsBootstrappedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, deaf := bootstrapHalf(t)
		c.Crash("n2")
		c.Wipe("n2")
		deaf.Store(false)
		c.Start("n2")
		propose(t, c.Leader(), "a")
		c.Converge()
		for _, id := range c.IDs() {
			require.Equal(t, []string{"a"}, listOf(c, id))
			assert.False(t, c.Node(id).Status().Wiped)
		}
	})
}

func TestHandshake_AnotherClusterNameIsRefusedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			if cfg.ID == "n3" {
				cfg.Cluster = "another"
			}
		}})
		c.Await("both sides to count it", func() bool {
			return c.Node("n1").Metrics().Refusals[raft.RejectClusterName] > 0 &&
				c.Node("n3").Metrics().Refusals[raft.RejectClusterName] > 0
		})
		c.Await("n1 to say so", func() bool { return anyContains(c.Node("n1").Status().Missing, "n3", "cluster name") })
	})
}

// A founder gets its list from package member, which logs what it waits for.
func TestBootstrap_AFounderDoesNotLogThatItHasNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.Initial, cfg.Founders = nil, []raft.NodeID{"n1", "n2", "n3"}
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		}})
		c.Start("n1")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.NotContains(t, log.String(), "no cluster is known here yet")
	})
}
