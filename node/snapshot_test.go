package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// often makes a member take a snapshot every few entries, and keep almost no entries that the snapshot covers.
func often(cfg *node.Config) {
	cfg.SnapshotEntries, cfg.SnapshotTailBytes, cfg.SnapshotHoldBytes = 8, 1, 1
}

// oneThatTakes starts a member that takes snapshots.
func oneThatTakes(t *testing.T, newFSM func() raft.FSM, configure ...func(*node.Config)) *rafttest.Cluster {
	t.Helper()
	c := startAll(t, rafttest.Options{Members: 1, NewFSM: newFSM, Configure: func(cfg *node.Config) {
		often(cfg)
		for _, f := range configure {
			f(cfg)
		}
	}})
	c.Leader()
	return c
}

func proposeMany(t *testing.T, n *node.Node, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		propose(t, n, fmt.Sprintf("c%d", i))
	}
}

func TestSnapshot_AMemberRestartsFromOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneThatTakes(t, newJournal)
		proposeMany(t, c.Leader(), 0, 100)
		c.Await("a compacted log", func() bool { return c.Node("n1").Status().Base.Index > 80 })
		before := listOf(c, "n1")
		require.Len(t, before, 100)

		n := c.Restart("n1")
		c.Leader()
		require.NoError(t, n.Ready(t.Context()))
		assert.Equal(t, before, listOf(c, "n1"))
		m := n.Metrics()
		assert.EqualValues(t, 1, m.Snapshots.Restored)
		assert.Less(t, m.CommandsApplied, uint64(30), "it has applied only what lies behind the snapshot")
		assert.Greater(t, m.LogBaseIndex, raft.Index(80))
		proposeMany(t, n, 100, 150)
		assert.Len(t, listOf(c, "n1"), 150)
	})
}

func TestSnapshot_TheLogStaysBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneThatTakes(t, newJournal)
		most := int64(0)
		for i := range 40 {
			proposeMany(t, c.Leader(), i*10, i*10+10)
			time.Sleep(time.Second) // the snapshot is written at its rate, and Prune waits while writes come
			synctest.Wait()
			most = max(most, c.Leader().Metrics().LogBytes)
		}
		assert.Less(t, most, int64(60*64), "Prune has deleted what the snapshots cover")
	})
}

func TestSnapshot_ACallerGetsOneOfAllThatIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneThatTakes(t, newJournal, func(cfg *node.Config) { cfg.SnapshotEntries = 1 << 20 })
		n := c.Leader()
		last := propose(t, n, "a")
		id, err := n.Snapshot(t.Context())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, id.Index, last.Index)
		again, err := n.Snapshot(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, id, again, "nothing new was applied")
		s := n.Status().Snapshot
		assert.Equal(t, id, s.Last)
		assert.Positive(t, s.Bytes)
		assert.Nil(t, s.Taking)

		c.Crash("n1")
		n = c.Start("n1")
		c.Leader()
		assert.Equal(t, id, n.Status().Snapshot.Last, "it was durable when the caller was answered")
		c.Close("n1")
		_, err = n.Snapshot(t.Context())
		assert.ErrorIs(t, err, raft.ErrClosed)
	})
}

func TestSnapshot_AStorageThatKeepsNoneIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: func(cfg *node.Config) {
			often(cfg)
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &log})
		},
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				return &trap{s, func(raft.StorageWrite) error { return nil }}
			}})
		n := c.Leader()
		proposeMany(t, n, 0, 30)
		_, err := n.Snapshot(t.Context())
		assert.ErrorIs(t, err, node.ErrSnapshotUnsupported)
		assert.Contains(t, n.Status().Snapshot.Unsupported, "never compacted")
		assert.Equal(t, 1, strings.Count(log.String(), "never compacted"), "one warning at the start")
		assert.Zero(t, n.Status().Base)
	})
}

// An earlier start has recorded a snapshot. Now a wrapper hides the methods of the SnapshotStorage.
func TestStart_ASnapshotThatTheStorageCannotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hides atomic.Bool
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: often,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				if hides.Load() {
					return &trap{s, func(raft.StorageWrite) error { return nil }}
				}
				return s
			}})
		proposeMany(t, c.Leader(), 0, 30)
		_, err := c.Leader().Snapshot(t.Context())
		require.NoError(t, err)
		hides.Store(true)
		c.Close("n1")
		_, err = c.TryStart("n1")
		var storage *node.StorageError
		require.ErrorAs(t, err, &storage)
		assert.ErrorIs(t, err, node.ErrSnapshotUnsupported)
		hides.Store(false)
		c.Start("n1")
		require.NoError(t, c.Leader().Ready(t.Context()))
		assert.Len(t, listOf(c, "n1"), 30)
	})
}

// awkward is a journal whose snapshots do what the test says.
type awkward struct {
	journal
	freeze  func() error
	writeTo func(ctx context.Context, w io.Writer) error
	close   func() error
	restore func(r io.Reader) error
}

type awkwardFrozen struct {
	raft.FSMSnapshot
	of *awkward
}

func (a *awkward) Snapshot() (raft.FSMSnapshot, error) {
	if a.freeze != nil {
		if err := a.freeze(); err != nil {
			return nil, err
		}
	}
	frozen, err := a.journal.Snapshot()
	return &awkwardFrozen{frozen, a}, err
}

func (a *awkward) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	if a.restore != nil {
		return a.restore(r)
	}
	return a.journal.Restore(ctx, id, r)
}

func (f *awkwardFrozen) WriteTo(ctx context.Context, w io.Writer) error {
	if f.of.writeTo != nil {
		if err := f.of.writeTo(ctx, w); err != nil {
			return err
		}
	}
	return f.FSMSnapshot.WriteTo(ctx, w)
}

func (f *awkwardFrozen) Close() error {
	if f.of.close != nil {
		return f.of.close()
	}
	return nil
}

var errAwkward = errors.New("the state machine does not feel like it")

func panics() error { panic("the state machine is beside itself") }

// An error while a snapshot is taken does not end the node: it keeps its log, reports the error, and tries again.
func TestSnapshot_TroubleWhileOneIsTaken(t *testing.T) {
	fails := func() error { return errAwkward }
	hangs := func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }
	for _, row := range []struct {
		name string
		bad  *awkward
		says string // "": the snapshot is as good
	}{
		{"Snapshot fails", &awkward{freeze: fails}, "freeze: the state machine does not feel like it"},
		{"WriteTo fails", &awkward{writeTo: func(context.Context, io.Writer) error { return errAwkward }}, "write: the state machine does not feel like it"},
		{"WriteTo panics", &awkward{writeTo: func(context.Context, io.Writer) error { return panics() }}, "panic: the state machine is beside itself"},
		{"WriteTo never ends", &awkward{writeTo: hangs}, "WriteTo has written nothing for 1m0s"},
		{"Close fails", &awkward{close: fails}, ""},
		{"Close panics", &awkward{close: panics}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var good atomic.Bool
				closed := new(atomic.Int64)
				c := oneThatTakes(t, func() raft.FSM {
					if good.Load() {
						return newJournal()
					}
					bad := &awkward{freeze: row.bad.freeze, writeTo: row.bad.writeTo}
					bad.close = func() error {
						closed.Add(1)
						if row.bad.close != nil {
							return row.bad.close()
						}
						return nil
					}
					return bad
				})
				n := c.Leader()
				proposeMany(t, n, 0, 30)
				_, err := n.Snapshot(t.Context())
				require.NoError(t, n.Err())
				if row.says == "" {
					require.NoError(t, err)
					assert.Positive(t, closed.Load())
				} else {
					var failed *node.SnapshotError
					require.ErrorAs(t, err, &failed)
					assert.ErrorContains(t, err, row.says)
					assert.ErrorContains(t, n.Status().Snapshot.Err, row.says)
					assert.Positive(t, n.Metrics().Snapshots.Failed)
					assert.Zero(t, n.Status().Base, "nothing is compacted without a snapshot")
					if row.bad.freeze == nil {
						synctest.Wait()
						assert.Positive(t, closed.Load(), "the frozen state is closed")
					}
				}
				proposeMany(t, n, 30, 40)
				good.Store(true)
				n = c.Restart("n1")
				c.Leader()
				_, err = n.Snapshot(t.Context())
				assert.NoError(t, err)
			})
		})
	}
}

func TestSnapshot_APanicOfSnapshotItselfEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneThatTakes(t, func() raft.FSM { return &awkward{freeze: panics} })
		n := c.Leader()
		_, _ = n.Snapshot(t.Context())
		<-n.Done()
		var broken *node.FSMError
		require.ErrorAs(t, n.Err(), &broken)
		assert.Equal(t, "Snapshot", broken.Op)
	})
}

// If a snapshot cannot be read, the storage is at fault, and not the state machine.
func TestRestore_ADamagedSnapshotIsTheFaultOfTheStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var damaged atomic.Bool
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: often,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return rotten{s.(raft.SnapshotStorage), &damaged} }})
		proposeMany(t, c.Leader(), 0, 30)
		_, err := c.Leader().Snapshot(t.Context())
		require.NoError(t, err)
		damaged.Store(true)
		n := c.Restart("n1")
		<-n.Done()
		var storage *node.StorageError
		var corrupt *raft.CorruptError
		var fsm *node.FSMError
		require.ErrorAs(t, n.Err(), &storage)
		require.ErrorAs(t, n.Err(), &corrupt)
		assert.False(t, errors.As(n.Err(), &fsm), n.Err())
		assert.Equal(t, 1, strings.Count(n.Err().Error(), "the member"), "one remedy: %v", n.Err())
	})
}

// rotten is a storage whose snapshots have become unreadable.
type rotten struct {
	raft.SnapshotStorage
	damaged *atomic.Bool
}

func (r rotten) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	from, err := r.SnapshotStorage.OpenSnapshot(file)
	if err != nil || !r.damaged.Load() {
		return from, err
	}
	return rottenReader{from}, nil
}

type rottenReader struct{ raft.SnapshotReader }

func (rottenReader) ReadAt([]byte, int64) (int, error) {
	return 0, &raft.CorruptError{File: "f.snap", Where: "offset 0", Reason: errors.New("checksum does not match")}
}

// No second snapshot begins while WriteTo hangs, although the context of WriteTo has ended.
func TestSnapshot_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := new(atomic.Int64), new(atomic.Int64)
		release := make(chan struct{})
		c := oneThatTakes(t, func() raft.FSM {
			return &awkward{writeTo: func(context.Context, io.Writer) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-release
				return nil
			}}
		})
		n := c.Leader()
		for i := range 100 {
			propose(t, n, fmt.Sprint(i))
			time.Sleep(10 * time.Second)
		}
		assert.EqualValues(t, 1, most.Load())
		var stalled *node.SnapshotStalledError
		_, err := n.Snapshot(t.Context())
		assert.ErrorAs(t, err, &stalled, "the later attempts say why there is none")
		close(release)
		_, err = n.Snapshot(t.Context())
		for i := 0; err != nil && i < 1000; i++ {
			time.Sleep(time.Second)
			_, err = n.Snapshot(t.Context())
		}
		assert.NoError(t, err)
	})
}

func TestSnapshot_IsWrittenBesideLaterApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := oneThatTakes(t, func() raft.FSM {
			return &awkward{writeTo: func(context.Context, io.Writer) error { <-release; return nil }}
		})
		n := c.Leader()
		proposeMany(t, n, 0, 30)
		synctest.Wait()
		taking := n.Status().Snapshot.Taking
		require.NotNil(t, taking, "it is being written")
		assert.Less(t, taking.ID.Index, n.Status().Applied, "and later commands are applied")
		close(release)
		c.Await("a snapshot", func() bool { return n.Status().Snapshot.Last.Index >= taking.ID.Index })
		n = c.Restart("n1")
		c.Leader()
		require.NoError(t, n.Ready(t.Context()))
		assert.Len(t, c.FSM("n1").(*awkward).list(), 30)
	})
}

func TestSnapshot_IsWrittenAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytes, rate = 1 << 20, 64 << 10
		c := oneThatTakes(t, func() raft.FSM {
			return &awkward{writeTo: func(_ context.Context, w io.Writer) error {
				_, err := w.Write([]byte(strings.Repeat(" ", bytes))) // in front of JSON
				return err
			}}
		}, func(cfg *node.Config) {
			cfg.SnapshotBytesPerSecond = rate
			cfg.SnapshotStallMax = time.Second // waiting for the rate is no stall
		})
		n := c.Leader()
		propose(t, n, "a")
		began := time.Now()
		_, err := n.Snapshot(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, bytes/rate, time.Since(began).Seconds(), 3)
		c.Restart("n1")
		assert.NoError(t, c.Leader().Ready(t.Context()))
	})
}

// cramped is a storage with little room for snapshots. Each snapshot reduces the room by its size.
type cramped struct {
	raft.SnapshotStorage
	free, begun *atomic.Int64 // bytes, and files
}

func (s cramped) FreeBytes() (int64, error) { return s.free.Load(), nil }

func (s cramped) CreateSnapshot(id raft.SnapshotID) (raft.SnapshotWriter, error) {
	s.begun.Add(1)
	w, err := s.SnapshotStorage.CreateSnapshot(id)
	return crampedFile{w, s.free}, err
}

type crampedFile struct {
	raft.SnapshotWriter
	free *atomic.Int64
}

func (f crampedFile) Write(p []byte) (int, error) {
	f.free.Add(-int64(len(p)))
	return f.SnapshotWriter.Write(p)
}

func TestSnapshot_LeavesRoomForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, begun := new(atomic.Int64), new(atomic.Int64)
		free.Store(1<<20 - 1)
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: often,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				return cramped{s.(raft.SnapshotStorage), free, begun}
			}})
		n := c.Leader()
		proposeMany(t, n, 0, 30)
		_, err := n.Snapshot(t.Context())
		var space *raft.SpaceError
		require.ErrorAs(t, err, &space)
		assert.EqualValues(t, 1<<20, space.Reserve)
		assert.ErrorContains(t, err, "SnapshotReserveBytes")
		assert.Zero(t, begun.Load())
		require.NoError(t, n.Err())
		free.Store(1 << 30)
		c.Await("a snapshot, once there is room", func() bool { return n.Status().Snapshot.Last.Index > 0 })
	})
}

// If a state announces no size, it may be larger than the room. The room is checked even for the first such snapshot, and for
// one that is smaller than spaceEveryBytes.
func TestSnapshot_OfUnknownSizeLeavesRoomForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, reserve = 300 << 10, 1 << 20
		free, begun := new(atomic.Int64), new(atomic.Int64)
		free.Store(reserve + room)
		c := startAll(t, rafttest.Options{Members: 1, Configure: often,
			NewFSM: func() raft.FSM {
				return &awkward{writeTo: func(_ context.Context, w io.Writer) error {
					_, err := w.Write([]byte(strings.Repeat(" ", room+1)))
					return err
				}}
			},
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
				return cramped{s.(raft.SnapshotStorage), free, begun}
			}})
		n := c.Leader()
		propose(t, n, "a")
		_, err := n.Snapshot(t.Context())
		var space *raft.SpaceError
		require.ErrorAs(t, err, &space)
		assert.EqualValues(t, reserve, space.Reserve)
		assert.GreaterOrEqual(t, free.Load(), int64(reserve))
		assert.Positive(t, begun.Load())
		assert.NoError(t, n.Err())
	})
}

// A member whose Restore fails has no valid state, so it must not serve.
func TestRestore_TroubleEndsTheNode(t *testing.T) {
	for _, row := range []struct {
		name string
		bad  func(r io.Reader) error
		says string
	}{
		{"it fails", func(io.Reader) error { return errAwkward }, "the state machine does not feel like it"},
		{"it panics", func(io.Reader) error { return panics() }, "the state machine is beside itself"},
		{"it does not read everything", func(r io.Reader) error { _, err := r.Read(make([]byte, 3)); return err }, "did not read the snapshot to its end: 3 of"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				c := oneThatTakes(t, func() raft.FSM {
					if bad.Load() {
						return &awkward{restore: row.bad}
					}
					return newJournal()
				})
				proposeMany(t, c.Leader(), 0, 30)
				_, err := c.Leader().Snapshot(t.Context())
				require.NoError(t, err)
				bad.Store(true)
				n := c.Restart("n1")
				<-n.Done()
				var broken *node.FSMError
				require.ErrorAs(t, n.Err(), &broken)
				assert.Equal(t, "Restore", broken.Op)
				assert.ErrorContains(t, n.Err(), row.says)
				if row.name != "it panics" {
					assert.ErrorContains(t, n.Err(), "correct the state machine and start again, or replace this member")
				}
				bad.Store(false)
				c.Restart("n1")
				require.NoError(t, c.Leader().Ready(t.Context()))
				assert.Len(t, listOf(c, "n1"), 30)
			})
		})
	}
}

// While a Restore never ends, the member still takes part in the cluster. Close ends the Restore.
func TestRestore_ThatNeverEndsIsSeenInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		var log lockedBuffer
		c := oneThatTakes(t, func() raft.FSM {
			if hangs.Load() {
				return &endless{}
			}
			return newJournal()
		}, func(cfg *node.Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
		proposeMany(t, c.Leader(), 0, 30)
		_, err := c.Leader().Snapshot(t.Context())
		require.NoError(t, err)
		hangs.Store(true)
		n := c.Restart("n1")
		time.Sleep(3*time.Minute + time.Second)
		assert.Equal(t, 1, strings.Count(log.String(), "a problem has begun: verdict=restoring member=n1"))
		self := n.Status().Members[0]
		assert.Contains(t, self.Problem, "its state machine is being restored from a snapshot, 3m1s so far")
		restoring := n.Status().Snapshot.Restoring
		require.NotNil(t, restoring)
		assert.GreaterOrEqual(t, restoring.Since, time.Minute)
		assert.Zero(t, restoring.Done)
		assert.Equal(t, raft.Leader, n.Status().Role)
		c.Close("n1")
	})
}

// endless is a journal with a Restore that ends only when its context ends.
type endless struct{ journal }

func (e *endless) Restore(ctx context.Context, _ raft.EntryID, _ io.Reader) error {
	<-ctx.Done()
	return ctx.Err()
}

// Some methods of the node wait for the frozen state. If a method of the frozen state calls one of them, the node refuses the
// call.
func TestFSM_WithinWriteTo(t *testing.T) {
	for name, call := range map[string]func(*node.Node) error{
		"Close":              func(n *node.Node) error { return n.Close() },
		"Snapshot":           func(n *node.Node) error { _, err := n.Snapshot(context.Background()); return err },
		"TransferLeadership": func(n *node.Node) error { return n.TransferLeadership(context.Background(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n *node.Node
				var got error
				c := oneThatTakes(t, func() raft.FSM {
					return &awkward{writeTo: func(context.Context, io.Writer) error { got = call(n); return nil }}
				})
				n = c.Leader()
				propose(t, n, "a")
				_, err := n.Snapshot(t.Context())
				require.NoError(t, err)
				assert.ErrorIs(t, got, node.ErrWithinFSM)
			})
		})
	}
}
