package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/session"
)

// counter counts how often each command has taken effect. Its answer is the number of effects so far.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
	total  int
}

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range batch {
		c.counts[string(e.Data)]++
		c.total++
		if results[i], _ = json.Marshal(c.total); string(e.Data) == "large" {
			results[i] = make([]byte, 70<<10)
		}
	}
	return nil
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) {
	data, err := json.Marshal(c.copy())
	return frozen(data), err
}

func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.total = map[string]int{}, 0
	if err := json.Unmarshal(data, &c.counts); err != nil {
		return err
	}
	for _, n := range c.counts {
		c.total += n
	}
	return nil
}

func (c *counter) copy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

type frozen []byte

func (b frozen) WriteTo(_ context.Context, w io.Writer) error { _, err := w.Write(b); return err }
func (b frozen) Close() error                                 { return nil }

// cluster is a cluster whose members keep sessions. A session may propose through any of its members.
type cluster struct {
	*rafttest.Cluster
	t testing.TB

	mu     sync.Mutex
	nodes  []*node.Node
	states map[*node.Node]*counter
	last   *counter                                // of the last start
	lose   func() bool                             // nil, or says which answers get lost
	before func(ctx context.Context, entry []byte) // nil, or runs before each attempt
}

func newCluster(t testing.TB, configure func(*node.Config)) *cluster {
	c := &cluster{t: t, states: map[*node.Node]*counter{}}
	c.Cluster = rafttest.Prepare(t, rafttest.Options{
		NewFSM: func() raft.FSM {
			c.last = &counter{counts: map[string]int{}}
			fsm, err := session.Wrap(c.last)
			require.NoError(t, err)
			return fsm
		},
		Configure: func(cfg *node.Config) {
			cfg.Forward, cfg.SnapshotEntries = true, 50
			if configure != nil {
				configure(cfg)
			}
		},
	})
	for _, id := range c.IDs() {
		c.start(id)
	}
	c.Leader()
	return c
}

func (c *cluster) start(id raft.NodeID) {
	n := c.Start(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.states[n] = append(c.nodes, n), c.last
}

// ProposeSession proposes through a member at random.
func (c *cluster) ProposeSession(ctx context.Context, entry []byte) (node.Result, error) {
	c.mu.Lock()
	n, lose, before := c.nodes[rand.IntN(len(c.nodes))], c.lose, c.before
	c.mu.Unlock()
	if before != nil {
		before(ctx, entry)
	}
	r, err := n.ProposeSession(ctx, entry)
	if errors.Is(err, raft.ErrClosed) {
		return r, &node.NotLeaderError{Reason: "this member was stopped"}
	}
	if err == nil && lose != nil && lose() {
		return node.Result{}, node.ErrOutcomeUnknown
	}
	return r, err
}

func (c *cluster) ClusterID() raft.ClusterID { return c.Leader().ClusterID() }

// counts returns how often each command has taken effect, the same on every member.
func (c *cluster) counts() map[string]int {
	c.t.Helper()
	c.Converge()
	var all []map[string]int
	for _, id := range c.IDs() {
		all = append(all, c.states[c.Node(id)].copy())
		require.Equal(c.t, all[0], all[len(all)-1])
	}
	return all[0]
}

func (c *cluster) open(cfg session.Config) *session.Session {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := session.Open(ctx, c, cfg)
	require.NoError(c.t, err)
	return s
}

// propose returns the answer to a command.
func propose(t testing.TB, s *session.Session, command string) string {
	t.Helper()
	r, err := s.Propose(context.Background(), []byte(command))
	require.NoError(t, err)
	return string(r.Data)
}
