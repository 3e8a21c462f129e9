package node_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// laggard is the transport of a member that may lag behind from some moment on.
type laggard struct {
	raft.Transport
	mu       sync.Mutex
	contacts []raft.Contact
	lags     bool
	dials    raft.NodeID
}

// lag lets no message in any more. All connections stand, but those to others than the one that the member still dials.
func (l *laggard) lag(dials raft.NodeID) {
	l.mu.Lock()
	l.lags, l.dials = true, dials
	contacts := l.contacts
	l.mu.Unlock()
	l.Connect(contacts)
}

func (l *laggard) Connect(contacts []raft.Contact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contacts = contacts
	l.Transport.Connect(slices.DeleteFunc(slices.Clone(contacts), func(k raft.Contact) bool { return l.lags && k.ID != l.dials }))
}

func (l *laggard) Start(h raft.Handler) error { return l.Transport.Start(lagging{h, l}) }

type lagging struct {
	raft.Handler
	l *laggard
}

func (h lagging) Receive(from raft.Peer, batch []raft.Message) {
	h.l.mu.Lock()
	lags := h.l.lags
	h.l.mu.Unlock()
	if !lags {
		h.Handler.Receive(from, batch)
	}
}

// Who lags for longer than it is served after its removal still has a connection to the others. Each of them closes it, and
// the next handshake says what the member has missed.
func TestRemoved_WhoLagsTooLongIsToldByTheNextHandshake(t *testing.T) {
	leader := func(c *rafttest.Cluster) raft.NodeID { return c.Leader().Status().ID }
	follower := func(c *rafttest.Cluster) raft.NodeID { return c.Follower().Status().ID }
	for _, row := range []struct {
		who     string
		by      func(c *rafttest.Cluster) raft.NodeID
		demoted bool
	}{
		{"a voter, by the leader", leader, false},
		{"a voter, by a follower", follower, false},
		{"a learner, which asks for no votes", follower, true},
	} {
		t.Run(row.who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wires := map[raft.NodeID]*laggard{}
				c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
					wires[id] = &laggard{Transport: wire}
					return wires[id]
				}})
				for _, id := range c.IDs() {
					c.Start(id)
				}
				by := row.by(c)
				others := slices.DeleteFunc(c.IDs(), func(id raft.NodeID) bool { return id == by || id == leader(c) })
				gone := c.Node(others[0])
				if row.demoted {
					_, err := c.Leader().DemoteMember(t.Context(), others[0], node.ChangeOptions{})
					require.NoError(t, err)
				}
				wires[others[0]].lag(by)
				m := c.Remove(others[0])
				select {
				case <-gone.Done():
				case <-time.After(time.Minute):
					require.Fail(t, "it does not know that it was removed")
				}
				assert.Equal(t, &raft.RemovedError{Index: m.Index}, gone.Err())
				propose(t, c.Leader(), "after")
			})
		})
	}
}
