package node_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// crowded is a store whose disk is full now and then. Its writes wait if they find no room, until it is given up.
type crowded struct {
	raft.Storage
	mu    sync.Mutex
	full  error
	waits bool
	done  chan struct{}
	once  sync.Once
}

func (s *crowded) set(full error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.waits = full, waits
}

func (s *crowded) Room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

func (s *crowded) GiveUp() { s.once.Do(func() { close(s.done) }) }

func (s *crowded) Write(w raft.StorageWrite) error {
	s.mu.Lock()
	waits := s.waits
	s.mu.Unlock()
	if waits {
		<-s.done
		return errDisk
	}
	return s.Storage.Write(w)
}

// onCrowdedDisks starts three members, and returns their disks, the leader and a follower.
func onCrowdedDisks(t *testing.T) (disks map[raft.NodeID]*crowded, leader, follower *node.Node) {
	disks = map[raft.NodeID]*crowded{}
	var mu sync.Mutex
	c := startAll(t, rafttest.Options{Members: 3, NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
		mu.Lock()
		defer mu.Unlock()
		disks[id] = &crowded{Storage: s, done: make(chan struct{})}
		return disks[id]
	}})
	return disks, c.Leader(), c.Follower()
}

// A leader whose disk has no room refuses proposals, as long as that lasts. It goes on to lead and to answer reads.
func TestPropose_WithoutRoomOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, leader, follower := onCrowdedDisks(t)
		_, err := leader.Propose(t.Context(), []byte("before"))
		require.NoError(t, err)
		disks[leader.Status().ID].set(errDisk, false)
		_, err = leader.Propose(t.Context(), []byte("meanwhile"))
		var full *raft.NoRoomError
		require.ErrorAs(t, err, &full)
		assert.True(t, errors.Is(err, raft.ErrOverloaded) && errors.Is(err, errDisk))
		_, err = leader.ProposeAsync(t.Context(), []byte("meanwhile"), func(node.Result, error) {})
		require.ErrorAs(t, err, &full)
		_, err = leader.ReadIndex(t.Context())
		require.NoError(t, err)

		disks[follower.Status().ID].set(errDisk, false)
		var notLeader *raft.NotLeaderError
		_, err = follower.Propose(t.Context(), []byte("meanwhile"))
		require.ErrorAs(t, err, &notLeader, "it is not this disk that matters")

		disks[leader.Status().ID].set(nil, false)
		_, err = leader.Propose(t.Context(), []byte("after"))
		require.NoError(t, err)
	})
}

// A write that waits for room does not hold up the end of its node.
func TestClose_WhileAWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, leader, follower := onCrowdedDisks(t)
		disks[follower.Status().ID].set(errDisk, true)
		_, err := leader.Propose(t.Context(), []byte("reaches the others"))
		require.NoError(t, err)
		require.NoError(t, follower.Close())
	})
}
