package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// acknowledged records two lists of commands: commands that were acknowledged as applied, and commands that were reported as
// not applied.
type acknowledged struct {
	mu       sync.Mutex
	commands []string
	refused  []string
}

func (a *acknowledged) add(command string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.commands = append(a.commands, command)
	case !errors.Is(err, node.ErrOutcomeUnknown):
		a.refused = append(a.refused, command)
	}
}

func (a *acknowledged) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.commands)
}

// running holds the nodes that callers may use at present.
type running struct {
	mu    sync.Mutex
	nodes map[raft.NodeID]*node.Node
	fsms  map[raft.NodeID]*journal
}

func (r *running) set(c *rafttest.Cluster, id raft.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[id], r.fsms[id] = c.Node(id), c.FSM(id).(*journal)
}

func (r *running) pick(rng *rand.Rand, ids []raft.NodeID) (*node.Node, *journal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := ids[rng.IntN(len(ids))]
	return r.nodes[id], r.fsms[id]
}

// writeOn proposes commands until ctx ends. It records which commands were acknowledged. It runs inside a bubble.
func writeOn(ctx context.Context, client int, r *running, ids []raft.NodeID, acked *acknowledged) {
	rng := rand.New(rand.NewPCG(uint64(client), 1))
	for i := 0; ctx.Err() == nil; i++ {
		n, _ := r.pick(rng, ids)
		command := fmt.Sprintf("%d/%d", client, i) // never twice
		bound, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		_, err := n.Propose(bound, []byte(command))
		acked.add(command, err)
		cancel()
		time.Sleep(time.Duration(rng.IntN(int(10 * time.Millisecond))))
	}
}

// readOn makes linearizable reads on any member until ctx ends. Each read must see every command that was acknowledged before
// the read began. It runs inside a bubble.
func readOn(ctx context.Context, t *testing.T, r *running, ids []raft.NodeID, acked *acknowledged) (served int) {
	rng := rand.New(rand.NewPCG(7, 2))
	for ctx.Err() == nil {
		n, fsm := r.pick(rng, ids)
		before := acked.all()
		bound, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if _, err := n.ReadIndex(bound); err == nil {
			served++
			assert.Empty(t, without(before, fsm.list()), "a read sees everything acknowledged before it")
		}
		cancel()
		time.Sleep(time.Duration(rng.IntN(int(30 * time.Millisecond))))
	}
	return served
}

// without returns the commands that are not in the list.
func without(commands, list []string) (left []string) {
	in := make(map[string]bool, len(list))
	for _, command := range list {
		in[command] = true
	}
	for _, command := range commands {
		if !in[command] {
			left = append(left, command)
		}
	}
	return left
}

// disturb does one thing at random: it crashes, restarts or isolates a member, heals the network, or transfers leadership. It
// runs inside a bubble.
func disturb(c *rafttest.Cluster, r *running, rng *rand.Rand) {
	ids := c.IDs()
	id := ids[rng.IntN(len(ids))]
	switch rng.IntN(6) {
	case 0, 1:
		c.Restart(id)
		r.set(c, id)
	case 2:
		c.Crash(id)
		time.Sleep(time.Duration(rng.IntN(int(time.Second))))
		c.Start(id)
		r.set(c, id)
	case 3:
		c.Isolate(id)
	case 4:
		c.Heal()
	case 5:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = c.Node(id).TransferLeadership(ctx, "") // if it leads
		cancel()
	}
	time.Sleep(time.Duration(rng.IntN(int(700 * time.Millisecond))))
}

// moods delays the operations that a node waits for: mostly a little, sometimes beyond every deadline.
type moods struct {
	mu   sync.Mutex
	rng  *rand.Rand
	over bool
}

// pause is called inside a bubble.
func (m *moods) pause() {
	m.mu.Lock()
	d := time.Duration(m.rng.IntN(int(time.Millisecond)))
	if m.rng.IntN(100) == 0 {
		d *= 2000
	}
	if m.over {
		d = 0
	}
	m.mu.Unlock()
	time.Sleep(d)
}

// calm ends the delays, and waits for the last ones. It is called inside a bubble.
func (m *moods) calm() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	time.Sleep(10 * time.Second)
}

// moodyStorage pauses before and after its operations.
type moodyStorage struct {
	raft.Storage
	*moods
}

func (s moodyStorage) Write(w raft.StorageWrite) error {
	s.pause()
	defer s.pause()
	return s.Storage.Write(w)
}

func (s moodyStorage) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	s.pause()
	defer s.pause()
	return s.Storage.Entries(span, bytesMax)
}

// moodyTransport pauses before it sends.
type moodyTransport struct {
	raft.Transport
	*moods
}

func (w moodyTransport) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	w.pause()
	return w.Transport.Send(to, lane, batch)
}

// moody returns a cluster with slow disks and senders. The log caches of its members hold almost no entries.
func moody(t *testing.T, seed uint64) (c *rafttest.Cluster, calm func()) {
	m := &moods{rng: rand.New(rand.NewPCG(seed, 3))}
	c = startAll(t, rafttest.Options{
		NewFSM:    newJournal,
		Configure: func(cfg *node.Config) { cfg.LogCacheBytesMax, cfg.AppendBytesMax, cfg.InflightMax = 1, 100, 4 },
		Storage:   func(_ raft.NodeID, s raft.Storage) raft.Storage { return moodyStorage{s, m} },
		Transport: func(_ raft.NodeID, w raft.Transport) raft.Transport { return moodyTransport{w, m} },
	})
	return c, m.calm
}

func TestNode_NothingAcknowledgedIsLostOrDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		survives(t, rafttest.New(t, 3, newJournal), 42, 500, func() {})
	})
}

// The simulator does not run package node. This test delays the real node wherever it waits.
func TestNode_NothingAcknowledgedIsLostWhereverItWaits(t *testing.T) {
	for seed := range seedsOf(5) {
		synctest.Test(t, func(t *testing.T) {
			c, calm := moody(t, seed)
			survives(t, c, seed, 50, calm)
		})
	}
}

// seedsOf returns how many of the seeds a test takes: with -short, as under the race detector, fewer.
func seedsOf(all uint64) uint64 {
	if testing.Short() {
		return (all + 2) / 3
	}
	return all
}

// survives disturbs a cluster that callers use. Then it compares the acknowledged commands with the applied commands. It runs
// inside a bubble.
func survives(t *testing.T, c *rafttest.Cluster, seed uint64, servedMin int, calm func()) {
	ids, acked := c.IDs(), &acknowledged{}
	r := &running{nodes: map[raft.NodeID]*node.Node{}, fsms: map[raft.NodeID]*journal{}}
	for _, id := range ids {
		r.set(c, id)
	}
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for client := range 4 {
		callers.Go(func() { writeOn(ctx, client, r, ids, acked) })
	}
	reads := 0
	callers.Go(func() { reads = readOn(ctx, t, r, ids, acked) })

	rng := rand.New(rand.NewPCG(seed, 43))
	for range 60 {
		disturb(c, r, rng)
	}
	c.Heal()
	stop()
	callers.Wait()
	calm()
	c.Converge()

	t.Logf("%d writes served and %d refused, %d reads served", len(acked.commands), len(acked.refused), reads)
	require.Greater(t, len(acked.commands), servedMin, "the cluster served writes under disturbance")
	require.Greater(t, reads, servedMin/5)
	applied := listOf(c, "n1")
	times := map[string]int{}
	for _, command := range applied {
		times[command]++
		assert.Equal(t, 1, times[command], command)
	}
	assert.Empty(t, without(acked.commands, applied), "all acknowledged commands were applied")
	assert.Len(t, without(acked.refused, applied), len(acked.refused), "no refused command was applied")
	for _, id := range ids {
		assert.Equal(t, applied, listOf(c, id), id)
		assert.Zero(t, c.Node(id).Status().PendingBytes, "no call is pending any longer")
	}
}
