package node_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// staleAge reads with Stale, and returns the age that the member's state may have.
func staleAge(t *testing.T, n *node.Node, maxAge time.Duration) (age time.Duration) {
	t.Helper()
	_, err := n.ReadIndexWith(t.Context(), raft.Stale(maxAge))
	var old *node.TooStaleError
	if err == nil {
		return 0
	}
	require.ErrorAs(t, err, &old)
	require.Equal(t, maxAge, old.MaxAge)
	return old.Age
}

// Every member serves its own state, also a learner, and the only member of a cluster. Idle or under load, its age stays below
// three heartbeat intervals.
func TestStale_EveryMemberServesAFreshState(t *testing.T) {
	for _, members := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := rafttest.New(t, members, newJournal)
			leader := c.Leader()
			id := raft.NodeID("n" + strconv.Itoa(members+1))
			c.Join(id)
			_, err := leader.AddLearner(t.Context(), c.Member(id), node.ChangeOptions{})
			require.NoError(t, err)
			time.Sleep(time.Second)
			for i := range 200 {
				var last node.Result
				if i >= 100 {
					last = propose(t, leader, "x")
				}
				for _, id := range c.IDs() {
					index, err := c.Node(id).ReadIndexWith(t.Context(), raft.Stale(150*time.Millisecond))
					require.NoError(t, err, id)
					require.LessOrEqual(t, index, c.Node(id).Status().Applied)
				}
				if last.Index > 0 {
					index, err := leader.ReadIndexWith(t.Context(), raft.Stale(time.Second))
					require.NoError(t, err)
					require.GreaterOrEqual(t, index, last.Index, "what this member has applied")
				}
				time.Sleep(7 * time.Millisecond)
			}
			m := leader.Metrics()
			assert.EqualValues(t, 300, m.StaleReads)
			assert.Zero(t, m.StaleReadsRefused)
		})
	}
}

// A member that is cut off still serves its state, asks nobody, and says how old the state is. So does a leader that has been
// deposed without knowing it: neither serves anything older than its caller accepts.
func TestStale_AMemberThatIsCutOffKnowsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		deposed, other := c.Leader(), c.Follower()
		propose(t, deposed, "before")
		time.Sleep(time.Second)
		for _, n := range []*node.Node{deposed, other} {
			id := n.Status().ID
			c.Isolate(id)
			cut := time.Now()
			time.Sleep(time.Second)
			propose(t, c.Leader(), "after")
			_, err := n.ReadIndexWith(t.Context(), raft.Stale(2*time.Second))
			require.NoError(t, err)
			require.NoError(t, n.ReadWith(t.Context(), raft.Stale(2*time.Second), func() {
				assert.NotZero(t, c.FSM(id).(*bare).count)
			}))
			age := staleAge(t, n, time.Since(cut)/2)
			assert.GreaterOrEqual(t, age, time.Since(cut), "nothing that came after the cut is there")
			assert.LessOrEqual(t, age, time.Since(cut)+150*time.Millisecond)
			assert.Equal(t, age, n.Status().Age)
			assert.ErrorAs(t, n.ReadWith(t.Context(), raft.Stale(time.Millisecond), func() { t.Error("too old") }), new(*node.TooStaleError))
			assert.EqualValues(t, 2, n.Metrics().StaleReadsRefused)
			c.Heal()
			c.Converge()
			time.Sleep(300 * time.Millisecond)
			assert.Zero(t, staleAge(t, n, 150*time.Millisecond), "it is fresh again")
		}
	})
}

// Nothing is proved at a start, nor after the end of the node.
func TestStale_AnAgeIsProvedAnewAfterEachStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Follower()
		id := n.Status().ID
		time.Sleep(time.Second)
		require.Zero(t, staleAge(t, n, time.Hour))
		c.Isolate(id)
		again := c.Restart(id)
		_, err := n.ReadIndexWith(t.Context(), raft.Stale(time.Hour))
		assert.ErrorIs(t, err, raft.ErrClosed)
		time.Sleep(time.Second)
		_, err = again.ReadIndexWith(t.Context(), raft.Stale(time.Hour))
		assert.EqualError(t, err, "raft: this member has not proved yet how old its state is, and the read takes at most 1h0m0s: "+
			"ask another member, read with Linearizable, or accept an older state")
		assert.Zero(t, again.Status().Age)
		c.Heal()
		time.Sleep(time.Second)
		assert.Zero(t, staleAge(t, again, 150*time.Millisecond))
	})
}

// A proof counts once its index is applied. So the age of a member whose FSM hangs rises, although it hears the leader.
func TestStale_WhatIsNotAppliedDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fsms, resume := hangingFSMs(t)
		defer resume()
		leader := c.Leader()
		time.Sleep(time.Second)
		for i, id := range c.IDs() {
			(*fsms)[i].set(c.Node(id) != leader)
		}
		propose(t, leader, "x")
		time.Sleep(time.Second)
		assert.Zero(t, staleAge(t, leader, 150*time.Millisecond))
		for i, id := range c.IDs() {
			if n := c.Node(id); n != leader {
				assert.GreaterOrEqual(t, staleAge(t, n, 500*time.Millisecond), time.Second)
				(*fsms)[i].set(false)
			}
		}
		resume()
		c.Converge()
		assert.Zero(t, staleAge(t, c.Follower(), 150*time.Millisecond))
	})
}

// A state grows older while a call waits for its turn.
func TestStale_TheAgeIsThatAtTheBeginningOfTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Follower()
		time.Sleep(time.Second)
		c.Isolate(n.Status().ID)
		errs := make(chan error, 2)
		require.NoError(t, n.ReadWith(t.Context(), raft.Stale(time.Second), func() {
			go func() { errs <- n.ReadWith(t.Context(), raft.Stale(time.Second), func() { t.Error("too old") }) }()
			time.Sleep(2 * time.Second)
		}))
		assert.ErrorAs(t, <-errs, new(*node.TooStaleError))
	})
}

func TestStale_AnAgeMustBePositive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		for _, age := range []time.Duration{0, -time.Second} {
			_, err := n.ReadIndexWith(t.Context(), raft.Stale(age))
			assert.Equal(t, &raft.MaxAgeError{MaxAge: age}, err)
			assert.Equal(t, &raft.MaxAgeError{MaxAge: age}, n.ReadWith(t.Context(), raft.Stale(age), func() { t.Error("no age") }))
		}
		assert.EqualError(t, &node.TooStaleError{Age: 3 * time.Second, MaxAge: time.Second},
			"raft: this member's state may be 3s old, and the read takes at most 1s: ask another member, read with Linearizable, or accept an older state")
	})
}
