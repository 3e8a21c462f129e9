package node_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
)

// newsHeard records the calls of Handler.Lost that are news of a peer's end.
type newsHeard struct {
	mu    sync.Mutex
	heard map[raft.NodeID][]raft.NodeID // by member: whose end
}

type newsTransport struct {
	raft.SnapshotCarrier
	id    raft.NodeID
	heard *newsHeard
}

func (t newsTransport) Start(h raft.Handler) error {
	return t.SnapshotCarrier.Start(newsHandler{h, t.id, t.heard})
}

type newsHandler struct {
	raft.Handler
	id    raft.NodeID
	heard *newsHeard
}

func (h newsHandler) Lost(p raft.Peer, refused bool) {
	if refused {
		h.heard.mu.Lock()
		h.heard.heard[h.id] = append(h.heard.heard[h.id], p.ID)
		h.heard.mu.Unlock()
	}
	h.Handler.Lost(p, refused)
}

func (n *newsHeard) take() map[raft.NodeID][]raft.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	heard := n.heard
	n.heard = map[raft.NodeID][]raft.NodeID{}
	return heard
}

// A crash of the leader is news at each follower at once. A partition is none, and neither is the end of a partition.
func TestNode_NewsOfTheLeadersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &newsHeard{heard: map[raft.NodeID][]raft.NodeID{}}
		c := startAll(t, rafttest.Options{
			NewFSM: newJournal,
			Transport: func(id raft.NodeID, inner raft.Transport) raft.Transport {
				return newsTransport{inner.(raft.SnapshotCarrier), id, n}
			},
		})
		leader := c.Leader().Status().ID
		c.Isolate(leader)
		time.Sleep(10 * time.Second)
		c.Heal()
		time.Sleep(10 * time.Second)
		n.take() // the members that started first heard of others that had not started
		leader = c.Leader().Status().ID
		c.Crash(leader)
		synctest.Wait()
		want := map[raft.NodeID][]raft.NodeID{}
		for _, id := range c.IDs() {
			if id != leader {
				want[id] = []raft.NodeID{leader}
			}
		}
		assert.Equal(t, want, n.take())
		time.Sleep(10 * time.Second)
		c.Start(leader)
		time.Sleep(10 * time.Second)
		assert.Empty(t, n.take(), "it is reported once")
	})
}
