package node_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// away starts three members and disconnects one of them. It waits until the leader's log begins after the last entry of that
// member. It returns the leader and that member.
func away(t *testing.T, newFSM func() raft.FSM, command string, configure ...func(*node.Config)) (c *rafttest.Cluster, leader *node.Node, behind raft.NodeID) {
	t.Helper()
	return awayOn(t, rafttest.Options{NewFSM: newFSM, Configure: func(cfg *node.Config) {
		often(cfg)
		for _, f := range configure {
			f(cfg)
		}
	}}, command)
}

// awayOn is like away, but starts a cluster with the given options.
func awayOn(t *testing.T, o rafttest.Options, command string) (c *rafttest.Cluster, leader *node.Node, behind raft.NodeID) {
	t.Helper()
	c = startAll(t, o)
	leader = c.Leader()
	propose(t, leader, "first")
	c.Converge()
	behind = c.Follower().Status().ID
	c.Isolate(behind)
	for i := range 40 {
		propose(t, leader, fmt.Sprintf("%d %s", i, command))
	}
	c.Await("a compacted log", func() bool {
		return leader.Status().Base.Index > c.Node(behind).Status().Last.Index
	})
	return c, leader, behind
}

// same fails the test unless all members have applied the same commands.
func same(t *testing.T, c *rafttest.Cluster, commands int) {
	t.Helper()
	c.Converge()
	synctest.Wait() // for what the members count
	want := listOf(c, "n1")
	assert.Len(t, want, commands)
	for _, id := range c.IDs() {
		assert.Equal(t, want, listOf(c, id), id)
	}
}

func TestStream_AFollowerBehindTheBaseIsSentASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := away(t, newJournal, "")
		term := leader.Status().Term
		c.Heal()
		same(t, c, 41)
		m := c.Node(behind).Metrics()
		assert.Positive(t, m.Snapshots.Received)
		assert.Positive(t, m.Snapshots.Restored)
		assert.Positive(t, m.LogBaseIndex)
		assert.Positive(t, leader.Metrics().Snapshots.Sent)
		assert.Equal(t, term, c.Leader().Status().Term, "and nobody else had to lead")
		proposeMany(t, leader, 0, 20)
		same(t, c, 61)
		assert.Equal(t, m.Snapshots.Received, c.Node(behind).Metrics().Snapshots.Received, "from then on it gets entries")
		c.Restart(behind)
		same(t, c, 61)
	})
}

func TestStream_AFollowerIsBroughtUpWhileCommandsComeIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := away(t, newJournal, strings.Repeat("x", 32<<10), func(cfg *node.Config) {
			cfg.SnapshotBytesPerSecond, cfg.SnapshotEntries = 1<<20, 64
			cfg.SnapshotLogBytes = 256 << 10
		})
		c.Heal()
		count := 41
		for c.Node(behind).Metrics().Snapshots.Restored == 0 {
			propose(t, leader, "meanwhile")
			count++
			require.Less(t, count, 5000, "the follower is never brought up: %+v", leader.Status().Members)
			time.Sleep(10 * time.Millisecond)
		}
		same(t, c, count)
	})
}

// awaitHalf waits until a member has received half of the snapshot that the leader sends to it.
func awaitHalf(c *rafttest.Cluster, behind raft.NodeID) {
	c.Await("half of it", func() bool {
		r := c.Node(behind).Status().Snapshot.Receiving
		return r != nil && r.Done > r.Total/2
	})
}

// slowly makes a stream last for about twenty seconds.
func slowly(cfg *node.Config) { cfg.SnapshotBytesPerSecond = 64 << 10 }

func TestStream_IsSeenInTheStatusOfBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := away(t, newJournal, strings.Repeat("x", 32<<10), slowly)
		c.Heal()
		c.Await("a stream", func() bool {
			r := c.Node(behind).Status().Snapshot.Receiving
			return r != nil && r.Done > 100<<10
		})
		receiving, sending := c.Node(behind).Status().Snapshot.Receiving, leader.Status().Snapshot.Sending
		require.NotNil(t, sending)
		assert.Equal(t, behind, sending.Peer)
		assert.Equal(t, leader.Status().ID, receiving.Peer)
		assert.Equal(t, receiving.ID, sending.ID)
		assert.Greater(t, receiving.Total, receiving.Done)
		assert.Positive(t, receiving.Since)
		for _, m := range leader.Status().Members {
			if m.ID == behind {
				assert.Equal(t, "snapshot", m.State)
			}
		}
		same(t, c, 41)
		assert.Nil(t, c.Node(behind).Status().Snapshot.Receiving)
	})
}

func TestStream_ResumesAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := away(t, newJournal, strings.Repeat("x", 32<<10), slowly)
		c.Heal()
		awaitHalf(c, behind)
		c.Isolate(behind)
		time.Sleep(time.Second)
		c.Heal()
		same(t, c, 41)
		m := leader.Metrics()
		assert.Less(t, m.SnapshotBytesSent, uint64(m.SnapshotBytes)*3/2, "it went on where it stopped")
		assert.EqualValues(t, 1, m.Snapshots.Resumed)
	})
}

func TestStream_BeginsAnewWhenEitherSideWasKilled(t *testing.T) {
	for name, victim := range map[string]func(leader, behind raft.NodeID) raft.NodeID{
		"the receiver": func(_, behind raft.NodeID) raft.NodeID { return behind },
		"the sender":   func(leader, _ raft.NodeID) raft.NodeID { return leader },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, leader, behind := away(t, newJournal, strings.Repeat("x", 32<<10), slowly)
				c.Heal()
				awaitHalf(c, behind)
				c.Restart(victim(leader.Status().ID, behind))
				c.Await("a leader", func() bool {
					_, known := c.Node(behind).Leader()
					return known
				})
				for c.Node(behind).Status().Applied < 41 {
					time.Sleep(time.Second)
				}
				same(t, c, 41)
			})
		})
	}
}

// A member whose storage keeps no snapshots cannot catch up. The leader continues to serve, and reports it.
func TestStream_AMemberThatTakesNoneRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: often,
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				if id == "n3" {
					return &trap{s, func(raft.StorageWrite) error { return nil }}
				}
				return s
			}})
		c.Leader()
		c.Isolate("n3")
		c.Await("a leader", func() bool { return c.Leader().Status().ID != "n3" })
		leader := c.Leader()
		proposeMany(t, leader, 0, 60)
		c.Await("a compacted log", func() bool { return leader.Status().Base.Index > 30 })
		c.Heal()
		time.Sleep(10 * time.Second)
		require.NoError(t, leader.Err())
		require.NoError(t, c.Node("n3").Err())
		assert.ErrorIs(t, leader.Status().Snapshot.SendErr, raft.StreamUnsupported)
		_, err := leader.Propose(context.Background(), []byte("continues"))
		assert.NoError(t, err)
	})
}

// A receiver refuses a snapshot before the first byte if it would take the room that the log needs.
func TestReceive_NoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := new(atomic.Int64)
		free.Store(1 << 30)
		c, leader, behind := awayOn(t, rafttest.Options{
			NewFSM: newJournal, Configure: often,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				return cramped{s.(raft.SnapshotStorage), free, new(atomic.Int64)}
			},
		}, "")
		free.Store(1 << 20)
		c.Heal()
		time.Sleep(5 * time.Second)
		assert.Zero(t, c.Node(behind).Metrics().SnapshotBytesReceived)
		assert.Zero(t, c.Node(behind).Metrics().Snapshots.Restored)
		var space *raft.SpaceError
		require.ErrorAs(t, c.Node(behind).Status().Snapshot.ReceiveErr, &space)
		assert.EqualValues(t, 1<<20, space.Free)
		assert.Positive(t, space.Need)
		assert.ErrorIs(t, leader.Status().Snapshot.SendErr, raft.StreamNoSpace)
		require.NoError(t, leader.Err())
		free.Store(1 << 30)
		same(t, c, 41)
	})
}

// Both the sender and the receiver give up a stalled stream.
func TestStream_ASilentPeerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := away(t, newJournal, strings.Repeat("x", 32<<10), slowly)
		c.Heal()
		awaitHalf(c, behind)
		c.Isolate(behind)
		time.Sleep(time.Minute)
		assert.Nil(t, leader.Status().Snapshot.Sending)
		assert.Nil(t, c.Node(behind).Status().Snapshot.Receiving)
		c.Heal()
		same(t, c, 41)
	})
}

// failingRecord is a storage that fails to record a snapshot while *failing is its member.
type failingRecord struct {
	raft.SnapshotStorage
	id      raft.NodeID
	failing *atomic.Value
}

func (s failingRecord) Write(w raft.StorageWrite) error {
	if w.Snapshot != nil && s.failing.Load() == s.id {
		return errDisk
	}
	return s.SnapshotStorage.Write(w)
}

// A member crashes when a snapshot has arrived and is not recorded yet. Its next start deletes the file.
func TestStream_ASnapshotThatWasLostAfterItsArrivalIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := new(atomic.Value)
		c, leader, behind := awayOn(t, rafttest.Options{NewFSM: newJournal, Configure: often,
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				return failingRecord{s.(raft.SnapshotStorage), id, failing}
			}}, "")
		failing.Store(behind)
		c.Heal()
		<-c.Node(behind).Done()
		failing.Store(raft.NodeID(""))
		time.Sleep(time.Second) // in the bubble: its last message may be lost, and then the leader does not count the snapshot
		sent := leader.Metrics().Snapshots.Sent
		c.Restart(behind)
		same(t, c, 41)
		assert.Equal(t, sent+1, leader.Metrics().Snapshots.Sent)
	})
}

// slowSync is a storage that syncs a snapshot for longer than WriteTo may write nothing.
type slowSync struct{ raft.SnapshotStorage }

func (s slowSync) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	w, err := s.SnapshotStorage.CreateSnapshot(file)
	return slowSyncWriter{w}, err
}

type slowSyncWriter struct{ raft.SnapshotWriter }

func (w slowSyncWriter) Finish(s raft.Snapshot) error {
	<-time.After(3 * time.Second)
	return w.SnapshotWriter.Finish(s)
}

// The sync of a snapshot at its end takes longer than SnapshotStallMax, on the member that takes it and on the member that
// receives it.
func TestSnapshot_ASlowSyncAtTheEndIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader, behind := awayOn(t, rafttest.Options{NewFSM: newJournal,
			Configure: func(cfg *node.Config) {
				often(cfg)
				cfg.SnapshotStallMax, cfg.ElectionTimeout = time.Second, time.Second
			},
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return slowSync{s.(raft.SnapshotStorage)} },
		}, "")
		c.Heal()
		same(t, c, 41)
		assert.Zero(t, leader.Metrics().Snapshots.Failed)
		assert.Zero(t, c.Node(behind).Metrics().Snapshots.Refused)
	})
}
