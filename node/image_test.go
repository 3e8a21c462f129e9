package node_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// A mark stays after any number of restarts. Each start fails again, and the error gives the remedy.
func TestStart_AMarkedStoreIsRefusedForEver(t *testing.T) {
	by := raft.Peer{ID: "n3", Incarnation: 9}
	for _, row := range []struct {
		mark raft.Mark
		err  error
		says string
	}{
		{raft.Mark{Kind: raft.MarkStaleImage, By: by, Detail: "start 3 is missing"}, &raft.StaleImageError{},
			"replace the member (Node.ReplaceMember)"},
		{raft.Mark{Kind: raft.MarkContradicted, By: by, Term: 7, Detail: "entry 5"}, &raft.ContradictedError{},
			"keep a copy"},
	} {
		t.Run(row.mark.Kind.String(), func(t *testing.T) {
			store := storage.NewMemory()
			_, err := store.Load(context.Background(), raft.Identity{Cluster: "test", ID: "n1", Fresh: 5, Nonce: 6})
			require.NoError(t, err)
			require.NoError(t, store.Write(raft.StorageWrite{Mark: &row.mark}))
			for range raft.LineageStartsMax + 2 {
				store = store.Reopen()
				_, err = node.Start(context.Background(), node.Config{ID: "n1", Cluster: "test"}, newJournal(), store,
					transport.NewNetwork().Join("n1"))
				require.IsType(t, row.err, err)
				assert.ErrorContains(t, err, row.says)
				assert.ErrorContains(t, err, row.mark.Detail)
			}
		})
	}
}

// stop closes a member and returns an image of its disk.
func stop(c *rafttest.Cluster, id raft.NodeID) *storage.Memory {
	c.Close(id)
	return c.Image(id)
}

// ended waits until a member has ended, and returns the reason.
func ended(t *testing.T, n *node.Node) error {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(time.Minute):
		t.Fatalf("%s continues: %+v", n.Status().ID, n.Status())
	}
	return n.Err()
}

// met waits until two members are connected both ways.
func met(c *rafttest.Cluster, a, b raft.NodeID) {
	c.Await(fmt.Sprintf("%s and %s to meet", a, b), func() bool {
		return connected(c, a, b) && connected(c, b, a)
	})
}

func connected(c *rafttest.Cluster, from, to raft.NodeID) bool {
	for _, m := range c.Node(from).Status().Members {
		if m.ID == to {
			return m.Connected
		}
	}
	return false
}

// n2 is stopped, copied and started again, and n3 sees that start. Then n3 is cut off while n1 and n2 acknowledge writes.
// Then n2's copy is put back, and n1 dies. Now n2 and n3 are a majority without the acknowledged writes. They must not elect
// a leader.
func TestImage_AnOlderDiskLosesNoAcknowledgedWrite(t *testing.T) {
	for _, restarts := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("%d restarts before it meets anybody", restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rafttest.New(t, 3, newJournal)
				propose(t, c.Leader(), "before")
				image := stop(c, "n2")
				c.Start("n2")
				met(c, "n2", "n3")
				c.Isolate("n3")
				c.Restart("n3") // its memory of peers is on its disk
				for i := range 51 {
					propose(t, c.Leader(), fmt.Sprintf("acknowledged %d", i))
				}
				c.Crash("n2")
				c.Restore("n2", image)
				c.Crash("n1")
				c.Isolate("n2")
				n2 := c.Start("n2")
				for range restarts {
					n2 = c.Restart("n2")
				}
				c.Heal() // not before the start: a marked store does not start

				var stale *raft.StaleImageError
				require.ErrorAs(t, ended(t, n2), &stale)
				assert.EqualValues(t, "n3", stale.Mark.By.ID)
				assert.NotEqual(t, raft.Leader, c.Node("n3").Status().Role)
				c.Crash("n2")
				for range 5 { // restarts do not help
					_, err := c.TryStart("n2")
					require.ErrorAs(t, err, &stale)
				}
				c.Start("n1")
				propose(t, c.Leader(), "after")
				c.Converge()
				assert.Len(t, listOf(c, "n3"), 53)
			})
		})
	}
}

// The others have seen the start from which the copy was made, so the starts of the copy prove nothing. But n3 has seen n2 in
// a term that the copy has not reached.
func TestImage_ACopyOfTheRunningStartIsFoundOutByItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		propose(t, c.Leader(), "before")
		met(c, "n2", "n3")
		image := c.Image("n2")
		term := c.Leader().Status().Term
		c.Isolate("n1")
		for c.Leader().Status().ID == "n1" || c.Leader().Status().Term == term {
			c.Restart(c.Leader().Status().ID)
		}
		c.Heal()
		met(c, "n2", "n3")
		c.Isolate("n2") // they meet again in the new term
		c.Await("n2 to be alone", func() bool { return !connected(c, "n2", "n3") && !connected(c, "n3", "n2") })
		c.Heal()
		met(c, "n2", "n3")
		c.Crash("n2")
		c.Restore("n2", image)
		c.Isolate("n1")
		var stale *raft.StaleImageError
		require.ErrorAs(t, ended(t, c.Start("n2")), &stale)
		assert.Contains(t, stale.Error(), "term")
	})
}

// A lineage keeps a limited number of starts. If a member starts more often, and no peer hears it meanwhile, a peer cannot
// distinguish the member from an older image. The exception is a member that knows that the peer remembers it.
func TestImage_ManyRestartsAreNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		propose(t, c.Leader(), "before")
		image := stop(c, "n2")
		c.Start("n2")
		met(c, "n2", "n3")
		met(c, "n2", "n1")
		c.Isolate("n2")
		for range raft.LineageStartsMax + 3 { // the original: its peers have confirmed its start
			c.Restart("n2")
		}
		c.Heal()
		met(c, "n2", "n3")

		c.Crash("n2")
		c.Restore("n2", image)
		c.Isolate("n2")
		for range raft.LineageStartsMax + 3 {
			c.Restart("n2")
		}
		// n1 and n3 now remember a start that is far newer than the image, and that start contradicts the image. The image
		// itself is now started just as often. After that, the remembered start is too old to prove anything.
		for range raft.LineageStartsMax + 3 {
			c.Restart("n2")
		}
		c.Heal()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Node("n2").Err(), "nothing is proved, so nothing is marked")
		assert.False(t, connected(c, "n2", "n3"))
		for _, m := range c.Node("n2").Status().Members {
			if m.ID == "n3" {
				assert.Contains(t, m.ConnectionErr, "start too long ago")
			}
		}
		propose(t, c.Leader(), "the others continue")
	})
}

// Each write takes longer than a handshake waits for the disk, but the members still connect.
func TestImage_SlowDisksMeetEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := new(atomic.Bool)
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &trap{s, func(raft.StorageWrite) error {
				if slow.Load() {
					time.Sleep(3 * time.Second)
				}
				return nil
			}}
		}})
		propose(t, c.Leader(), "before")
		slow.Store(true)
		follower := c.Follower().Status().ID
		c.Restart(follower)
		for _, id := range c.IDs() {
			if id != follower {
				met(c, id, follower)
			}
		}
		slow.Store(false)
		c.Converge()
	})
}

// A member admits a peer only once it durably remembers the peer's start. So a member with a stalled disk does not connect to
// a peer that was started after the stall began.
func TestImage_NobodyIsCountedBeforeItIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, free := new(atomic.Bool), make(chan struct{})
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &trap{s, func(raft.StorageWrite) error {
				if id == "n1" && stuck.Load() {
					<-free
				}
				return nil
			}}
		}})
		c.Converge()
		stuck.Store(true)
		c.Restart("n3")
		met(c, "n3", "n2")
		time.Sleep(20 * time.Second)
		assert.False(t, connected(c, "n1", "n3"))
		assert.False(t, connected(c, "n3", "n1"))
		stuck.Store(false)
		close(free)
		met(c, "n3", "n1")
	})
}
