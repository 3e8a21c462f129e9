package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// voters returns the ids of the voters.
func voters(m node.Members) (ids []raft.NodeID) {
	for _, v := range m.Voters() {
		ids = append(ids, v.ID)
	}
	return ids
}

func TestAddMember_ReturnsOnceItVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		propose(t, c.Leader(), "before")
		for _, id := range []raft.NodeID{"n2", "n3"} {
			c.Join(id)
			m := c.Add(id)
			added, ok := m.Member(id)
			require.True(t, ok)
			assert.Equal(t, raft.Voter, added.Kind)
			assert.Equal(t, c.Node(id).Status().Incarnation, added.Incarnation)
			assert.Equal(t, "http://"+string(id), added.Meta)
			assert.True(t, m.Committed)
			assert.False(t, m.Joint())
			assert.Equal(t, m, c.Leader().Members())
		}
		assert.Equal(t, []raft.NodeID{"n1", "n2", "n3"}, voters(c.Leader().Members()))
		c.Crash("n1")
		propose(t, c.Leader(), "after")
		c.Restart("n1")
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []string{"before", "after"}, c.FSM(id).(*journal).list())
		}
	})
}

func TestRemove_TheLeaderAnswersAndHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		old := c.Leader()
		id := old.Status().ID
		m := c.Remove(id)
		assert.NotContains(t, voters(m), id)
		<-old.Done()
		var removed *raft.RemovedError
		require.ErrorAs(t, old.Err(), &removed)
		assert.Equal(t, m.Index, removed.Index)
		require.ErrorIs(t, old.Err(), raft.ErrRemoved)
		_, err := old.Propose(t.Context(), []byte("late"))
		require.ErrorAs(t, err, &removed)
		propose(t, c.Leader(), "after")
		c.Crash(id)
		_, err = c.TryStart(id)
		require.ErrorAs(t, err, &removed, "its log says so")
	})
}

func TestRemove_TheRemovedMemberHearsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		gone := c.Follower()
		m := c.Remove(gone.Status().ID)
		<-gone.Done()
		var removed *raft.RemovedError
		require.ErrorAs(t, gone.Err(), &removed)
		assert.Equal(t, m.Index, removed.Index)
		propose(t, c.Leader(), "after")
	})
}

func TestReplaceMember_ByItselfOnAnEmptyDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		propose(t, c.Leader(), "before")
		id := c.Follower().Status().ID
		old, _ := c.Leader().Members().Member(id)
		c.Crash(id)
		c.Wipe(id)
		c.Start(id)
		c.Await("the leader to see it", func() bool {
			for _, m := range c.Leader().Status().Members {
				if m.ID == id {
					return m.Replace
				}
			}
			return false
		})
		c.Crash(id)
		m := c.Replace(id)
		now, _ := m.Member(id)
		assert.Equal(t, raft.Voter, now.Kind)
		assert.NotEqual(t, old.Incarnation, now.Incarnation)
		assert.Len(t, m.Members, 3)
		assert.Equal(t, old.Meta, now.Meta, "as before")
		c.Await("it to be whole again", func() bool { return !c.Node(id).Status().Wiped })
		c.Converge()
		assert.Equal(t, []string{"before"}, c.FSM(id).(*journal).list())
	})
}

func TestDemoteMember_AndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		id := c.Follower().Status().ID
		m, err := c.Leader().DemoteMember(t.Context(), id, node.ChangeOptions{})
		require.NoError(t, err)
		assert.Len(t, voters(m), 2)
		m, err = c.Leader().AddMember(t.Context(), raft.Member{ID: id}, node.ChangeOptions{IfIndex: m.Index})
		require.NoError(t, err)
		assert.Len(t, voters(m), 3)
		again, _ := m.Member(id)
		assert.Equal(t, c.Member(id).Address, again.Address)
	})
}

func TestAddLearner_StaysOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Join("n4")
		m, err := c.Leader().AddLearner(t.Context(), c.Member("n4"), node.ChangeOptions{})
		require.NoError(t, err)
		added, _ := m.Member("n4")
		assert.Equal(t, raft.Learner, added.Kind)
		propose(t, c.Leader(), "one")
		c.Converge()
		assert.Equal(t, []string{"one"}, c.FSM("n4").(*journal).list())
	})
}

func TestUpdate_MetaIsInNotLeaderError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		meta := "http://moved"
		m, err := n.UpdateMember(t.Context(), raft.Update{Peer: raft.Peer{ID: n.Status().ID}, Meta: &meta}, node.ChangeOptions{})
		require.NoError(t, err)
		now, _ := m.Member(n.Status().ID)
		assert.Equal(t, meta, now.Meta)
		f := c.Follower()
		c.Await("it to know", func() bool { return f.Members().Index == m.Index })
		_, err = f.Propose(t.Context(), []byte("x"))
		var other *node.NotLeaderError
		require.ErrorAs(t, err, &other)
		assert.Equal(t, meta, other.Leader.Meta)
	})
}

// A reader that is slow may miss a step, but neither the order nor the last one.
func TestWatchMembers_GoesForwardToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		c.Join("n2")
		seen := make(chan node.Members, 100)
		go func() {
			for m := range c.Node("n1").WatchMembers(t.Context()) {
				seen <- m
			}
			close(seen)
		}()
		synctest.Wait()
		last := c.Add("n2")
		synctest.Wait()
		c.Crash("n1")
		var all []node.Members
		for m := range seen {
			all = append(all, m)
		}
		assert.Equal(t, last, all[len(all)-1])
		for i, m := range all {
			assert.NotEqual(t, raft.Index(0), m.Index)
			if i > 0 {
				assert.GreaterOrEqual(t, m.Index, all[i-1].Index)
			}
		}
	})
}
