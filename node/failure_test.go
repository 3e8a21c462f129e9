package node_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
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
)

// startAll starts every member of a prepared cluster.
func startAll(t *testing.T, o rafttest.Options) *rafttest.Cluster {
	t.Helper()
	c := rafttest.Prepare(t, o)
	for _, id := range c.IDs() {
		c.Start(id)
	}
	return c
}

// trap is a storage with a hook before each write.
type trap struct {
	raft.Storage
	before func(raft.StorageWrite) error
}

func (s *trap) Write(w raft.StorageWrite) error {
	if err := s.before(w); err != nil {
		return err
	}
	return s.Storage.Write(w)
}

var errDisk = errors.New("no space left on device")

func TestStorage_AWriteThatFailsEndsTheNodeAndLosesNothing(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errDisk },
		"a panic":  func() error { panic(errDisk.Error()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken sync.Map // by id
				writes := new(atomic.Int64)
				c := startAll(t, rafttest.Options{NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
					return &trap{s, func(raft.StorageWrite) error {
						if _, ok := broken.Load(id); ok {
							writes.Add(1)
							return fail()
						}
						return nil
					}}
				}})
				n := c.Leader()
				propose(t, n, "before")
				id := n.Status().ID
				broken.Store(id, true)
				_, err := n.Propose(context.Background(), []byte("during"))
				assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "the others may have the entry")
				select {
				case <-n.Done():
				case <-time.After(time.Minute):
					t.Fatal("the node continues after a failed write")
				}
				var storage *node.StorageError
				require.ErrorAs(t, n.Err(), &storage)
				assert.Contains(t, n.Err().Error(), errDisk.Error())
				assert.EqualValues(t, 1, writes.Load(), "a failed write is never retried")
				_, err = n.Propose(context.Background(), []byte("after"))
				assert.ErrorIs(t, err, raft.ErrClosed)
				assert.Contains(t, n.Status().LeaderReason, "ended")

				broken.Delete(id)
				c.Restart(id)
				propose(t, c.Leader(), "later")
				c.Converge()
				assert.Contains(t, listOf(c, id), "before")
				assert.Contains(t, listOf(c, id), "later")
			})
		})
	}
}

// lockedBuffer is a buffer that several loggers may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

func TestEnd_OneLineAtErrorSaysWhy(t *testing.T) {
	for _, row := range []struct {
		rule   string
		fail   func(*node.Node, *atomic.Bool)
		events string // the level of the trace events
		says   string
	}{
		{"the disk fails", func(n *node.Node, full *atomic.Bool) {
			full.Store(true)
			_, _ = n.Propose(context.Background(), []byte("a"))
		}, "[DEBUG]", "raft: storage: write: no space left on device"},
		{"a bug", func(n *node.Node, _ *atomic.Bool) { n.BreakCore() }, "[INFO] ", "raft: broken invariant: "},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lockedBuffer
				var full atomic.Bool
				c := startAll(t, rafttest.Options{
					Members: 1, NewFSM: newJournal,
					Configure: func(cfg *node.Config) {
						cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})
					},
					Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
						return &trap{s, func(raft.StorageWrite) error {
							if full.Load() {
								return errDisk
							}
							return nil
						}}
					},
				})
				n := c.Leader()
				row.fail(n, &full)
				<-n.Done()
				said := log.String()
				assert.Equal(t, 1, strings.Count(said, "[ERROR]"), said)
				_, reason, _ := strings.Cut(said, "[ERROR] ")
				assert.Contains(t, reason, "node ended")
				assert.Contains(t, reason, row.says)
				assert.Contains(t, said, row.events+" decision: ")
			})
		})
	}
}

func TestStorageError_SaysItsPrefixAndItsEntryOnce(t *testing.T) {
	for _, row := range []struct{ reason, want string }{
		{"storage: loading /data: bad", "raft: storage: load: loading /data: bad: see docs/runbook.md#ended"},
		{"raft: /data is damaged", "raft: storage: load: /data is damaged: see docs/runbook.md#ended"},
		{"of a store of yours", "raft: storage: load: of a store of yours: see docs/runbook.md#ended"},
		{"storage: full: see docs/runbook.md#no-room: write", "raft: storage: load: full: see docs/runbook.md#no-room: write"},
	} {
		assert.EqualError(t, &node.StorageError{Op: "load", Err: errors.New(row.reason)}, row.want)
	}
}

// failingFSM fails on one command.
type failingFSM struct {
	journal
	fail func() error
}

func (f *failingFSM) Apply(batch []raft.Entry, results [][]byte) error {
	for _, e := range batch {
		if string(e.Data) == "poison" {
			return f.fail()
		}
	}
	return f.journal.Apply(batch, results)
}

func TestFSM_AnErrorOrPanicEndsTheNodeNotTheProcess(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("cannot digest") },
		"a panic":  func() error { panic("cannot digest") },
		"a Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rafttest.New(t, 3, func() raft.FSM { return &failingFSM{fail: fail} })
				n := c.Leader()
				propose(t, n, "fine")
				_, err := n.Propose(context.Background(), []byte("poison"))
				assert.ErrorIs(t, err, node.ErrOutcomeUnknown)
				<-n.Done()
				var failed *node.FSMError
				require.ErrorAs(t, n.Err(), &failed)
				assert.Equal(t, "Apply", failed.Op)
				assert.Regexp(t, "cannot digest|runtime.Goexit", failed.Error())
				if failed.Panic != nil {
					assert.Contains(t, failed.Stack, "failingFSM")
				}
			})
		})
	}
}

func TestCore_ABrokenInvariantEndsTheNodeNotTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		n.BreakCore()
		<-n.Done()
		var broken *raft.InvariantError
		require.ErrorAs(t, n.Err(), &broken)
		assert.NotEmpty(t, broken.State)
		_, err := n.Propose(context.Background(), []byte("a"))
		assert.ErrorIs(t, err, raft.ErrClosed)
		assert.ErrorAs(t, n.Status().Err, &broken)
		propose(t, c.Leader(), "the others continue")
	})
}

// witness compares every outgoing promise of a member with the content of its disk at that moment.
type witness struct {
	t       *testing.T
	mu      sync.Mutex
	durable map[raft.NodeID]*raft.Stored
	kept    map[string]int // promises seen, by type
}

type witnessedStorage struct {
	raft.Storage
	w  *witness
	id raft.NodeID
}

func (s *witnessedStorage) Load(ctx context.Context, id raft.Identity) (raft.Stored, error) {
	stored, err := s.Storage.Load(ctx, id)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.durable[s.id] = &raft.Stored{Hard: stored.Hard, Log: raft.StoredLog{Last: stored.Log.Last}}
	return stored, err
}

// Write is slow, so that any message that does not wait for the write overtakes it. It runs inside a bubble.
func (s *witnessedStorage) Write(w raft.StorageWrite) error {
	time.Sleep(3 * time.Millisecond)
	if err := s.Storage.Write(w); err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	d := s.w.durable[s.id]
	if w.Hard != nil {
		d.Hard = *w.Hard
	}
	if l := w.Log; l != nil {
		d.Log.Last = l.After
		if n := len(l.Entries); n > 0 {
			d.Log.Last = l.Entries[n-1].ID()
		}
	}
	return nil
}

type witnessedTransport struct {
	raft.Transport
	w  *witness
	id raft.NodeID
}

func (tr *witnessedTransport) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	tr.w.check(tr.id, batch)
	return tr.Transport.Send(to, lane, batch)
}

func (w *witness) check(id raft.NodeID, batch []raft.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.durable[id]
	for _, m := range batch {
		assert.LessOrEqual(w.t, m.Term, d.Hard.Term, "no message leaves with a term above the durable one")
		switch b := m.Body.(type) {
		case raft.VoteRequest:
			w.kept["vote request"]++
			assert.True(w.t, m.Term < d.Hard.Term || d.Hard.Vote == m.From, "a candidate's own vote is durable")
		case raft.VoteReply:
			w.kept["vote"]++
			assert.True(w.t, !b.Granted || m.Term < d.Hard.Term || d.Hard.Vote == m.To, "a vote is durable")
		case raft.AppendReply:
			w.kept["acknowledgement"]++
			assert.True(w.t, m.Term < d.Hard.Term || b.Match <= d.Log.Last.Index, "what is acknowledged is durable")
		}
	}
}

func TestWriter_APromiseLeavesOnceItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{t: t, durable: map[raft.NodeID]*raft.Stored{}, kept: map[string]int{}}
		c := startAll(t, rafttest.Options{
			NewFSM:    newJournal,
			Storage:   func(id raft.NodeID, s raft.Storage) raft.Storage { return &witnessedStorage{s, w, id} },
			Transport: func(id raft.NodeID, tr raft.Transport) raft.Transport { return &witnessedTransport{tr, w, id} },
		})
		for range 5 {
			n := c.Leader()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { _, _ = n.Propose(context.Background(), []byte("x")) })
			}
			all.Wait()
			c.Restart(n.Status().ID)
		}
		c.Converge()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, kind := range []string{"vote request", "vote", "acknowledgement"} {
			assert.Positive(t, w.kept[kind], "the test saw some %s", kind)
		}
	})
}

// The disks have stalled, and ten times as many proposals arrive as the limits allow. The node refuses the excess, which
// takes no memory.
func TestOverload_IsRefusedAtOnceWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, commandBytes, callers = 1024, 4096, 10 * 1024
		var gate atomic.Pointer[chan struct{}] // stalled disks wait for it
		c := startAll(t, rafttest.Options{
			NewFSM: newJournal,
			Configure: func(cfg *node.Config) {
				cfg.ProposalsMax, cfg.ProposalBytesMax = limit, 8<<20
				cfg.AppendBytesMax, cfg.InflightBytesMax, cfg.ReceivedBytesMax, cfg.LogCacheBytesMax = 1<<18, 1<<20, 2<<20, 1<<20
			},
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				return &trap{s, func(raft.StorageWrite) error {
					if g := gate.Load(); g != nil {
						<-*g
					}
					return nil
				}}
			},
		})
		n := c.Leader()
		command := []byte(strings.Repeat("x", commandBytes))
		for range 3 {
			before := heapBytes() // including the log so far, which the storage keeps in memory
			closed := make(chan struct{})
			gate.Store(&closed)
			var ok, overloaded, other atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					_, err := n.Propose(context.Background(), command)
					switch {
					case err == nil:
						ok.Add(1)
					case errors.Is(err, raft.ErrOverloaded):
						overloaded.Add(1)
					default:
						other.Add(1)
					}
				})
			}
			synctest.Wait()
			assert.EqualValues(t, callers-limit, overloaded.Load(), "refused while the others still wait")
			s := n.Status()
			assert.Equal(t, limit, s.Pending)
			m := n.Metrics()
			assert.LessOrEqual(t, m.WaitingProposalBytes, 8<<20)
			// The heap may hold the pending commands, once on each of three members, and the bookkeeping.
			grown := heapBytes() - before
			t.Logf("%d callers of %d bytes: the heap grew by %d KiB", callers, commandBytes, grown>>10)
			assert.Less(t, grown, int64(3*limit*commandBytes+16<<20), "the heap stays within the limits")
			gate.Store(nil)
			close(closed)
			all.Wait()
			assert.EqualValues(t, limit, ok.Load(), "accepted proposals are served")
			assert.Zero(t, other.Load())
		}
	})
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// ledgerFSM keeps its state over restarts of the node, like a state machine with its own disk.
type ledgerFSM struct {
	journal
	at      raft.EntryID
	batches int
	synced  int
	failing error
}

func (d *ledgerFSM) Apply(batch []raft.Entry, results [][]byte) error {
	d.batches++
	d.at = batch[len(batch)-1].ID()
	return d.journal.Apply(batch, results)
}
func (d *ledgerFSM) Applied() (raft.EntryID, error) { return d.at, d.failing }
func (d *ledgerFSM) Sync() error                    { d.synced++; return nil }

func TestDurableFSM_ContinuesWhereItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsm := &ledgerFSM{}
		c := rafttest.New(t, 1, func() raft.FSM { return fsm })
		propose(t, c.Leader(), "a")
		c.Close("n1")
		assert.Equal(t, 1, fsm.synced, "Close syncs it")
		assert.Equal(t, 1, fsm.batches)

		c.Start("n1")
		propose(t, c.Leader(), "b")
		assert.Equal(t, []string{"a", "b"}, fsm.list(), "nothing is applied twice")

		c.Crash("n1")
		c.Wipe("n1")
		_, err := c.TryStart("n1")
		var beyond *raft.AppliedBeyondLogError
		require.ErrorAs(t, err, &beyond)
		assert.Equal(t, fsm.at, beyond.Applied)

		fsm.failing = errDisk
		_, err = c.TryStart("n1")
		var failed *node.FSMError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "Applied", failed.Op)
	})
}

func TestStart_ReportsEverythingThatIsWrongAtOnce(t *testing.T) {
	_, err := node.Start(context.Background(), node.Config{ID: "a b", ElectionTimeout: time.Millisecond, DiskStallMax: -1}, newJournal(), nil, nil)
	require.Error(t, err)
	for _, field := range []string{"ID: ", "Cluster: ", "ElectionTimeout: ", "DiskStallMax: "} {
		assert.Contains(t, err.Error(), field)
	}
	_, err = node.Start(context.Background(), node.Config{ID: "n1", Cluster: "test"}, nil, nil, nil)
	assert.ErrorContains(t, err, "nil")
}

// While a disk is stalled, the leader keeps asking, and the answers that wait for the disk do not pile up.
func TestWriter_PromisesThatWaitForTheDiskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64
		var gate sync.Map // by id: stalled disks wait for it
		c := startAll(t, rafttest.Options{
			NewFSM:    newJournal,
			Configure: func(cfg *node.Config) { cfg.ReceivedMax = limit },
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				return &trap{s, func(raft.StorageWrite) error {
					if g, ok := gate.Load(id); ok {
						<-g.(chan struct{})
					}
					return nil
				}}
			},
		})
		lead, slow := c.Leader(), c.Follower()
		closed := make(chan struct{})
		gate.Store(slow.Status().ID, closed)
		propose(t, lead, "a")
		time.Sleep(time.Minute)
		m := slow.Metrics()
		assert.LessOrEqual(t, m.WaitingWrites, limit)
		assert.Positive(t, m.Dropped.QueueFull)
		assert.Equal(t, lead.Status().ID, slow.Status().Leader, "it follows on")

		gate.Clear()
		close(closed)
		propose(t, lead, "b")
		c.Converge()
		assert.Equal(t, []string{"a", "b"}, listOf(c, slow.Status().ID))
	})
}

func TestMetrics_ANodeThatHasEndedDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		n := c.Leader()
		n.BreakCore()
		<-n.Done()
		m := n.Metrics()
		assert.False(t, m.Leading)
		assert.False(t, m.LeaderKnown)
		for l := range n.Watch(context.Background()) {
			assert.Equal(t, raft.Leadership{Term: m.Term}, l)
		}
	})
}
