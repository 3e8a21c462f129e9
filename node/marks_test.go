package node_test

import (
	"context"
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

// forgetful is a store that, when it is loaded, has lost every entry after a given index, although the entries were synced.
// It still has its starts and its memory of peers, so no handshake notices the loss.
type forgetful struct {
	raft.Storage
	above func() (raft.Index, bool)
}

func (s *forgetful) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	stored, err := s.Storage.Load(ctx, identity)
	above, loses := s.above()
	if err != nil || !loses || stored.Log.Last.Index <= above {
		return stored, err
	}
	kept, err := s.Storage.Entries(raft.Span{After: 0, Last: above}, 1<<20)
	if err != nil {
		return stored, err
	}
	stored.Log, stored.Commit = raft.StoredLog{}, min(stored.Commit, above)
	for _, e := range kept {
		if err := stored.Log.Observe(e); err != nil {
			return stored, err
		}
	}
	return stored, s.Storage.Write(raft.StorageWrite{Log: &raft.LogWrite{After: stored.Log.Last}})
}

// forgetfulDisks returns a cluster of three. It also returns a function that makes a disk lose every entry after an index at
// the next start.
func forgetfulDisks(t *testing.T, log *lockedBuffer) (c *rafttest.Cluster, forget func(raft.NodeID, raft.Index)) {
	var losses sync.Map // by id
	c = startAll(t, rafttest.Options{
		NewFSM: newJournal,
		Configure: func(cfg *node.Config) {
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
		},
		Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &forgetful{s, func() (raft.Index, bool) {
				above, ok := losses.LoadAndDelete(id)
				if !ok {
					return 0, false
				}
				return above.(raft.Index), true
			}}
		},
	})
	return c, func(id raft.NodeID, above raft.Index) { losses.Store(id, above) }
}

func others(c *rafttest.Cluster, leader *node.Node) (ids []raft.NodeID) {
	for _, id := range c.IDs() {
		if id != leader.Status().ID {
			ids = append(ids, id)
		}
	}
	return ids
}

func ready(n *node.Node, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return n.Ready(ctx)
}

// A member that has lost entries that it acknowledged ends at every start. Its leader names the member and no longer counts
// it.
func TestMark_AMemberThatLostWhatItAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lockedBuffer{}
		c, forget := forgetfulDisks(t, log)
		leader := c.Leader()
		first := propose(t, leader, "kept")
		for range 3 {
			propose(t, leader, "lost")
		}
		c.Converge()
		victim := others(c, leader)[0]
		c.Crash(victim)
		forget(victim, first.Index)
		n := c.Start(victim)
		c.Await("the mark", func() bool { return strings.Contains(log.String(), "this member must not continue") })
		noticed := time.Now()
		<-n.Done()
		assert.Greater(t, time.Since(noticed), 50*time.Millisecond, "it continues for an election timeout, to inform its leader")
		var stale *raft.StaleImageError
		require.ErrorAs(t, n.Err(), &stale)
		assert.Equal(t, leader.Status().ID, stale.Mark.By.ID)
		c.Crash(victim)
		for range 3 {
			_, err := c.TryStart(victim)
			require.ErrorAs(t, err, &stale)
		}

		assert.EqualValues(t, 1, leader.Metrics().StaleMembers)
		assert.Contains(t, leader.Status().Tolerance, string(victim)+" does not count")
		assert.Contains(t, leader.Status().Tolerance, "none: 2 of 3")
		for _, m := range leader.Status().Members {
			assert.Equal(t, m.ID == victim, m.State == "stale")
		}
		c.Await("the leader to log it", func() bool {
			return strings.Contains(log.String(), `a problem has begun: verdict="lost entries" member=`+string(victim))
		})
		assert.Contains(t, log.String(), `node ended: verdict="older image" error=`)
		propose(t, leader, "with the other one")
		require.NoError(t, ready(leader, time.Second))
	})
}

// The last witness of an acknowledged write ends when a leader without the write shows its log. From then on the witness
// serves no read at any start.
func TestMark_TheLastWitness(t *testing.T) {
	for _, row := range []struct {
		rule    string
		running bool
	}{{"it runs on, cut off", true}, {"it is started later", false}} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, forget := forgetfulDisks(t, &lockedBuffer{})
				leader := c.Leader()
				id, rest := leader.Status().ID, others(c, leader)
				kept := propose(t, leader, "kept")
				c.Converge()
				c.Isolate(rest[1])
				lost := propose(t, leader, "lost")
				propose(t, leader, "lost, too") // its write carries the commit index of the one before
				if row.running {
					c.Partition([]raft.NodeID{id}, rest)
				} else {
					c.Crash(id)
				}
				c.Crash(rest[0])
				forget(rest[0], kept.Index)
				if !row.running {
					c.Heal()
				}
				c.Start(rest[0])
				c.Await("the others have a leader", func() bool {
					s := c.Node(rest[1]).Status()
					return s.Leader != "" && s.Leader != id && s.Commit >= lost.Index
				})
				c.Heal()
				if !row.running {
					c.Start(id)
				}
				n := c.Node(id)
				<-n.Done()
				var contradicted *raft.ContradictedError
				require.ErrorAs(t, n.Err(), &contradicted)
				assert.Equal(t, lost.Index, contradicted.Mark.Ours.Index)
				_, err := n.ReadIndex(context.Background())
				require.Error(t, err)
				c.Crash(id)
				for range 3 {
					_, err := c.TryStart(id)
					require.ErrorAs(t, err, &contradicted)
				}
				require.NoError(t, ready(c.Leader(), time.Second), "the others continue")
			})
		})
	}
}

// After the other members have lost the write, they may remove the last witness. Then no leader sends the witness a log any
// more. But the witness's own log holds another entry at the index of its removal. That entry also proves the loss.
func TestMark_TheLastWitnessIsNoMemberThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, forget := forgetfulDisks(t, &lockedBuffer{})
		leader := c.Leader()
		id, rest := leader.Status().ID, others(c, leader)
		kept := propose(t, leader, "kept")
		c.Converge()
		c.Isolate(rest[1])
		for range 20 {
			propose(t, leader, "lost")
		}
		c.Partition([]raft.NodeID{id}, rest)
		c.Crash(rest[0])
		forget(rest[0], kept.Index)
		c.Start(rest[0])
		c.Await("the others have a leader", func() bool {
			s := c.Node(rest[1]).Status()
			return s.Leader != "" && s.Leader != id && s.Term > kept.Term
		})
		removal := c.Remove(id)
		require.LessOrEqual(t, removal.Index, kept.Index+20, "it replaces what was acknowledged")
		time.Sleep(time.Minute) // nobody serves it any more
		c.Heal()
		n := c.Node(id)
		<-n.Done()
		var contradicted *raft.ContradictedError
		require.ErrorAs(t, n.Err(), &contradicted)
		assert.Contains(t, n.Err().Error(), "keep a copy of it")
		c.Crash(id)
		_, err := c.TryStart(id)
		require.ErrorAs(t, err, &contradicted)
	})
}

// Ready does not succeed if reads or writes would hang.
func TestReady_NotWhereWritesWouldHang(t *testing.T) {
	t.Run("a quorum of disks has stalled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, stall := stallingDisks(t, nothing)
			leader := c.Leader()
			require.NoError(t, ready(leader, time.Second))
			resume := stall(others(c, leader)...)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, err := leader.Propose(ctx, []byte("hangs"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, ready(leader, time.Second), context.DeadlineExceeded)
			resume()
			require.NoError(t, ready(c.Leader(), 10*time.Second))
		})
	})
	t.Run("no quorum but with a member that lost what it acknowledged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, forget := forgetfulDisks(t, &lockedBuffer{})
			leader := c.Leader()
			kept := propose(t, leader, "kept")
			propose(t, leader, "lost")
			c.Converge()
			rest := others(c, leader)
			c.Crash(rest[0])
			forget(rest[0], kept.Index)
			c.Start(rest[0])
			c.Await("the leader's finding", func() bool { return leader.Metrics().StaleMembers == 1 })
			c.Crash(rest[1])
			assert.ErrorIs(t, ready(leader, 5*time.Second), context.DeadlineExceeded)
		})
	})
}
