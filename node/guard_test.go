package node_test

import (
	"context"
	"runtime"
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
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// panicky is a logger that panics from some line on.
type panicky struct {
	hclog.Logger
	calls *atomic.Int64
}

func (p panicky) Log(hclog.Level, string, ...any) {
	if p.calls.Add(1) > 1 {
		panic("the disk of the logs is full")
	}
}

// A panic of the logger must not end the node, which continues without a log.
func TestEnd_ALoggerThatPanicsIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.Logger = panicky{hclog.NewNullLogger(), &calls}
		}})
		n := c.Leader()
		propose(t, n, "x")
		require.NoError(t, n.Close())
		assert.EqualValues(t, 2, calls.Load(), "one line, and one that panicked")
	})
}

// sleepy is a logger. Once it is tired, it takes a minute for one line, and panics at each later line.
type sleepy struct {
	panicky
	tired *atomic.Bool
}

// Log is called inside a bubble.
func (s sleepy) Log(level hclog.Level, message string, args ...any) {
	if s.tired.Load() {
		s.panicky.Log(level, message, args...)
		time.Sleep(time.Minute)
	}
}

// The loop is late, and the logger panics on the warning.
func TestEnd_AWarningOfLatenessThatPanicsDoesNotEndTheNode(t *testing.T) {
	for late := false; !late; {
		synctest.Test(t, func(t *testing.T) { late = panicsWhenLate(t) })
	}
}

// panicsWhenLate returns false if the loop was not late. This happens if the loop learns of the new leader in the same step
// in which it votes: then it has no deadline until the vote is durable. panicsWhenLate is called inside a bubble.
func panicsWhenLate(t *testing.T) bool {
	var calls atomic.Int64
	tired := map[raft.NodeID]*atomic.Bool{"n1": {}, "n2": {}, "n3": {}}
	c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
		cfg.Logger = sleepy{panicky{hclog.NewNullLogger(), &calls}, tired[cfg.ID]}
	}})
	n := c.Leader()
	tired[n.Status().ID].Store(true)
	require.NoError(t, n.TransferLeadership(t.Context(), "")) // it logs that
	time.Sleep(2 * time.Minute)
	if n.Metrics().LateWakes == 0 {
		return false
	}
	assert.EqualValues(t, 2, calls.Load())
	assert.NoError(t, n.Err())
	propose(t, c.Leader(), "x")
	return true
}

// failing is a transport with one method that misbehaves.
type failing struct {
	raft.Transport
	connects, closes, peers func()
}

func (f failing) Connect(contacts []raft.Contact) {
	if f.connects != nil {
		f.connects()
	}
	f.Transport.Connect(contacts)
}

func (f failing) Close() error {
	err := f.Transport.Close()
	if f.closes != nil {
		f.closes()
	}
	return err
}

func (f failing) Peer(p raft.Peer) raft.PeerStatus {
	if f.peers != nil {
		f.peers()
	}
	return f.Transport.Peer(p)
}

func TestEnd_ATransportThatPanicsEndsTheNodeAndNotTheProcess(t *testing.T) {
	for name, fail := range map[string]func(){
		"a panic":              func() { panic("no such address") },
		"the goroutine's end":  func() { runtime.Goexit() },
		"an error as a panic":  func() { panic(errDisk) },
		"a failed dereference": func() { var m *raft.Member; m.ID = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c := startAll(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, tr raft.Transport) raft.Transport {
					if id != "n1" {
						return tr
					}
					return failing{Transport: tr, connects: func() { <-release; fail() }}
				}})
				n := c.Node("n1")
				answered := make(chan error, 1)
				go func() { _, err := n.Propose(context.Background(), []byte("x")); answered <- err }()
				synctest.Wait()
				close(release)
				<-n.Done()
				var ended *node.TransportError
				require.ErrorAs(t, n.Err(), &ended)
				assert.Error(t, <-answered)
				assert.ErrorAs(t, n.Close(), &ended)
			})
		})
	}
}

func TestEnd_ATransportThatPanicsWhenAskedOrClosedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, tr raft.Transport) raft.Transport {
			return failing{Transport: tr, peers: func() { panic("asked") }, closes: func() { panic("closed") }}
		}})
		n := c.Leader()
		assert.Contains(t, n.Status().Members[1].ConnectionErr+n.Status().Members[0].ConnectionErr, "asked")
		var ended *node.TransportError
		require.ErrorAs(t, n.Close(), &ended)
		assert.Equal(t, "close", ended.Op)
	})
}

// narrow is a transport with a limit on appends.
type narrow struct {
	raft.Transport
	most int
}

func (n narrow) AppendBytesMax() int { return n.most }

// An append above the transport's limit would be sent again and again, so Start compares the limits.
func TestStart_LimitsThatTheTransportCannotCarryAreRefused(t *testing.T) {
	start := func(most int, limits raft.Limits) error {
		cfg := node.Config{ID: "n1", Cluster: "c", Limits: limits}
		n, err := node.Start(context.Background(), cfg, newJournal(), storage.NewMemory(), narrow{transport.NewNetwork().Join("n1"), most})
		if err == nil {
			require.NoError(t, n.Close())
		}
		return err
	}
	limits := raft.Limits{CommandBytesMax: 1000, AppendBytesMax: 1500}
	assert.NoError(t, start(1500, limits))
	assert.NoError(t, start(0, limits), "no limit")

	err := start(1499, limits)
	var problem *raft.ConfigError
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, "AppendBytesMax", problem.Field)
	for _, word := range []string{"1500", "1499", "FrameBytesMax"} {
		assert.ErrorContains(t, err, word)
	}

	limits = raft.Limits{CommandBytesMax: 1000, AppendBytesMax: 10}
	assert.NoError(t, start(1000+raft.RecordOverheadBytes, limits))
	err = start(999+raft.RecordOverheadBytes, limits)
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, "CommandBytesMax", problem.Field)
}
