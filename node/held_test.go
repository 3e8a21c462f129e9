package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// fsmDisk is the disk of a diskFSM.
type fsmDisk struct {
	mu       sync.Mutex
	commands []string
	at       raft.EntryID
	off      bool // the power is off: nothing is written
}

// put replaces what is on the disk.
func (d *fsmDisk) put(at raft.EntryID, commands []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return errors.New("the power is off")
	}
	d.at, d.commands = at, commands
	return nil
}

func (d *fsmDisk) get() (at raft.EntryID, commands []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, d.commands
}

// diskFSM is a raft.DurableFSM: a journal that keeps its state on its own disk.
type diskFSM struct {
	journal
	of   *diskFSMs
	disk *fsmDisk
	at   raft.EntryID

	restored bool
}

func (f *diskFSM) Apply(batch []raft.Entry, results [][]byte) error {
	f.at = batch[len(batch)-1].ID()
	return f.journal.Apply(batch, results)
}

func (f *diskFSM) Applied() (raft.EntryID, error) { return f.at, nil }

func (f *diskFSM) Sync() error {
	if gate := f.of.restoredGate.Load(); gate != nil && f.restored {
		<-*gate
	}
	return f.disk.put(f.at, f.list())
}

func (f *diskFSM) Snapshot() (raft.FSMSnapshot, error) {
	if f.of.freezeGate != nil {
		<-f.of.freezeGate
	}
	frozen, err := f.journal.Snapshot()
	f.of.count(&f.of.frozen)
	return &heldState{FSMSnapshot: frozen, of: f.of}, err
}

func (f *diskFSM) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	if hook := f.of.restoring(); hook != nil {
		return hook(ctx)
	}
	f.at, f.restored = id, true
	return f.journal.Restore(ctx, id, r)
}

type heldState struct {
	raft.FSMSnapshot
	of     *diskFSMs
	closed atomic.Bool
}

func (s *heldState) WriteTo(ctx context.Context, w io.Writer) error {
	if s.closed.Load() {
		return errors.New("WriteTo of a closed state")
	}
	if s.of.writeTo != nil {
		return s.of.writeTo(ctx, w, s.FSMSnapshot)
	}
	return s.FSMSnapshot.WriteTo(ctx, w)
}

func (s *heldState) Close() error {
	s.closed.Store(true)
	if s.of.closeGate != nil {
		<-s.of.closeGate
	}
	s.of.count(&s.of.closed)
	return s.FSMSnapshot.Close()
}

// diskFSMs are the state machines of a cluster, each with its disk.
type diskFSMs struct {
	mu             sync.Mutex
	disks          map[raft.NodeID]*fsmDisk
	next           *diskFSM // made, and not given its disk
	frozen, closed int
	writeTo        func(ctx context.Context, w io.Writer, frozen raft.FSMSnapshot) error // nil: as the journal does
	restore        func(ctx context.Context) error                                       // nil: as the journal does
	freezeGate     chan struct{}                                                         // Snapshot waits for it; nil: it does not
	closeGate      chan struct{}                                                         // Close of a frozen state waits for it; nil: it does not
	restoredGate   atomic.Pointer[chan struct{}]                                         // Sync waits for it after a Restore; nil: it does not
}

func (s *diskFSMs) count(what *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*what++
}

// held returns two numbers: the frozen states that are not closed, and all frozen states so far.
func (s *diskFSMs) held() (open, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen - s.closed, s.frozen
}

func (s *diskFSMs) restoring() func(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restore
}

func (s *diskFSMs) onRestore(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore = f
}

// options returns the options of a cluster that has these state machines and takes snapshots often.
func (s *diskFSMs) options(configure ...func(*node.Config)) rafttest.Options {
	s.disks = map[raft.NodeID]*fsmDisk{}
	return rafttest.Options{
		NewFSM: func() raft.FSM {
			s.next = &diskFSM{of: s}
			return s.next
		},
		Configure: func(cfg *node.Config) {
			often(cfg)
			for _, f := range configure {
				f(cfg)
			}
			if s.disks[cfg.ID] == nil {
				s.disks[cfg.ID] = &fsmDisk{}
			}
			s.next.disk = s.disks[cfg.ID]
			s.next.disk.off = false
			s.next.at, s.next.commands = s.next.disk.get()
		},
	}
}

// crash simulates a power failure of a member.
func (s *diskFSMs) crash(c *rafttest.Cluster, id raft.NodeID) {
	d := s.disks[id]
	d.mu.Lock()
	d.off = true
	d.mu.Unlock()
	c.Crash(id)
}

func durableList(c *rafttest.Cluster, id raft.NodeID) []string { return c.FSM(id).(*diskFSM).list() }

func sameDurable(t *testing.T, c *rafttest.Cluster, commands int) {
	t.Helper()
	c.Converge()
	synctest.Wait()
	want := durableList(c, "n1")
	assert.Len(t, want, commands)
	for _, id := range c.IDs() {
		assert.Equal(t, want, durableList(c, id), id)
	}
}

func TestDurableFSM_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return &diskFSM{of: &diskFSMs{}, disk: &fsmDisk{}} }, [][]byte{[]byte("a"), []byte("b")})
}

// The log of a DurableFSM is compacted up to the entry that the FSM has synced. A restart finds no gap, even if entries other
// than commands follow the last command.
func TestDurableFSM_ItsLogIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		o := s.options()
		o.Members = 1
		c := startAll(t, o)
		for i := range 5 {
			proposeMany(t, c.Leader(), 20*i, 20*i+20)
			s.crash(c, "n1")
			c.Start("n1")
		}
		for range 40 { // each start leads in a new term, with an entry that no FSM is given
			s.crash(c, "n1")
			c.Start("n1")
			c.Leader()
		}
		id, err := c.Leader().Snapshot(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		status := c.Leader().Status()
		assert.Equal(t, id, status.Snapshot.Last)
		assert.Zero(t, status.Snapshot.Bytes, "there is no file")
		assert.Zero(t, c.Leader().Metrics().SnapshotBytes)
		assert.Greater(t, status.Base.Index, raft.Index(80))
		s.crash(c, "n1")
		c.Start("n1")
		require.NoError(t, c.Leader().Ready(t.Context()))
		assert.Len(t, durableList(c, "n1"), 100)
	})
}

// The state of a DurableFSM has no file. The leader sends it directly from a frozen state.
func TestHeld_AFollowerBehindTheBaseIsSentAFrozenState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c, leader, behind := awayOn(t, s.options(), "")
		c.Heal()
		sameDurable(t, c, 41)
		open, all := s.held()
		assert.Zero(t, open, "it was closed")
		assert.Equal(t, 1, all)
		assert.EqualValues(t, 1, leader.Metrics().Snapshots.Sent)
		m := c.Node(behind).Metrics()
		assert.EqualValues(t, 1, m.Snapshots.Restored)
		assert.Zero(t, m.SnapshotBytes, "its file was deleted")
		assert.Zero(t, c.Node(behind).Status().Snapshot.Bytes)
		for _, id := range c.IDs() {
			s.crash(c, id)
			c.Start(id)
			c.Leader()
		}
		proposeMany(t, c.Leader(), 0, 20)
		sameDurable(t, c, 61)
	})
}

// If a crash occurs after the installation of a snapshot but before the end of Restore, or before Sync, the next start calls
// Restore again.
func TestHeld_ARestartRestoresAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c, _, behind := awayOn(t, s.options(), "")
		s.onRestore(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		c.Heal()
		c.Await("a restoration", func() bool { return c.Node(behind).Status().Snapshot.Restoring != nil })
		before, _ := s.disks[behind].get()
		assert.Positive(t, c.Node(behind).Status().Snapshot.Bytes, "the file is there")
		s.crash(c, behind)
		s.onRestore(nil)
		n := c.Start(behind)
		require.NoError(t, n.Ready(t.Context()))
		sameDurable(t, c, 41)
		assert.EqualValues(t, 1, n.Metrics().Snapshots.Restored)
		after, _ := s.disks[behind].get()
		assert.Greater(t, after.Index, before.Index, "what was restored was synced")
		assert.Zero(t, n.Status().Snapshot.Bytes, "and only then the file was deleted")
	})
}

// The snapshot's file must stay until the restored state is durable. If a crash occurs before that, the next start needs the
// file.
func TestHeld_TheFileStaysUntilTheStateIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c, _, behind := awayOn(t, s.options(), "")
		gate := make(chan struct{})
		s.restoredGate.Store(&gate)
		c.Heal()
		time.Sleep(10 * time.Second)
		status := c.Node(behind).Status()
		require.NotNil(t, status.Snapshot.Restoring, "it waits for Sync")
		assert.Positive(t, status.Snapshot.Bytes)
		assert.Less(t, status.Applied, status.Base.Index)
		s.disks[behind].mu.Lock()
		s.disks[behind].off = true
		s.disks[behind].mu.Unlock()
		s.restoredGate.Store(nil)
		close(gate)
		c.Crash(behind)
		n := c.Start(behind)
		require.NoError(t, n.Ready(t.Context()))
		sameDurable(t, c, 41)
	})
}

// If the FSM's state is older than the beginning of the log, the log cannot complete it. The error gives the remedy.
func TestDurableFSM_AnOlderStateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		o := s.options()
		o.Members = 1
		c := startAll(t, o)
		proposeMany(t, c.Leader(), 0, 40)
		c.Await("a compacted log", func() bool { return c.Leader().Status().Base.Index > 20 })
		base := c.Leader().Status().Base
		s.crash(c, "n1")
		at, commands := s.disks["n1"].get()
		s.disks["n1"] = &fsmDisk{at: raft.EntryID{Term: 1, Index: 4}, commands: commands[:2]}
		_, err := c.TryStart("n1")
		var below *raft.AppliedBelowBaseError
		require.ErrorAs(t, err, &below)
		assert.Equal(t, raft.AppliedBelowBaseError{Applied: raft.EntryID{Term: 1, Index: 4}, Base: base}, *below)
		assert.ErrorContains(t, err, "replace this member")
		s.disks["n1"] = &fsmDisk{at: at, commands: commands}
		c.Start("n1")
		require.NoError(t, c.Leader().Ready(t.Context()))
		assert.Len(t, durableList(c, "n1"), 40)
	})
}

// After Sync, a DurableFSM must know which entries the applier has passed to it. If it does not, the node cannot trust it
// after a restart.
func TestDurableFSM_SyncThatForgetsEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		o := s.options()
		newFSM := o.NewFSM
		o.Members, o.NewFSM = 1, func() raft.FSM { return forgetfulFSM{newFSM().(*diskFSM)} }
		c := startAll(t, o)
		n := c.Leader()
		propose(t, n, "a")
		_, _ = n.Snapshot(t.Context())
		<-n.Done()
		var broken *node.FSMError
		require.ErrorAs(t, n.Err(), &broken)
		assert.Equal(t, "Applied", broken.Op)
		assert.ErrorContains(t, n.Err(), "after Sync it returns entry")
	})
}

type forgetfulFSM struct{ *diskFSM }

func (f forgetfulFSM) Applied() (raft.EntryID, error) { return raft.EntryID{}, nil }

// padded makes a state large: it writes blanks before the JSON of a journal. It calls noted after each piece.
func padded(bytesMax int, noted func(bytes int)) func(context.Context, io.Writer, raft.FSMSnapshot) error {
	return func(ctx context.Context, w io.Writer, frozen raft.FSMSnapshot) error {
		blank := bytes.Repeat([]byte(" "), 64<<10)
		for range bytesMax / len(blank) {
			if _, err := w.Write(blank); err != nil {
				return err
			}
			noted(len(blank))
		}
		return frozen.WriteTo(ctx, w)
	}
}

// eightMiB returns state machines with a state of 8 MiB, which is more than a window of a stream. It also returns a setting
// with which the stream takes eight seconds.
func eightMiB() (*diskFSMs, func(*node.Config)) {
	return &diskFSMs{writeTo: padded(8<<20, func(int) {})}, func(cfg *node.Config) { cfg.SnapshotBytesPerSecond = 1 << 20 }
}

func half(c *rafttest.Cluster, behind raft.NodeID) func() bool {
	return func() bool {
		r := c.Node(behind).Status().Snapshot.Receiving
		return r != nil && r.Done > 600<<10
	}
}

// A stream resumes after a short break: the sender keeps the bytes in flight and the frozen state.
func TestHeld_ResumesAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rate := eightMiB()
		c, leader, behind := awayOn(t, s.options(rate), "")
		c.Heal()
		c.Await("half of it", half(c, behind))
		c.Isolate(behind)
		time.Sleep(500 * time.Millisecond)
		open, _ := s.held()
		assert.Equal(t, 1, open)
		c.Heal()
		sameDurable(t, c, 41)
		_, all := s.held()
		assert.Equal(t, 1, all, "it was frozen once")
		assert.Less(t, leader.Metrics().SnapshotBytesSent, uint64(12<<20), "it went on where it stopped")
	})
}

// A frozen state for a follower that has gone is soon given up. When the follower comes back, the state is frozen again.
func TestHeld_IsGivenUpAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rate := eightMiB()
		c, leader, behind := awayOn(t, s.options(rate), "")
		c.Heal()
		c.Await("half of it", half(c, behind))
		c.Isolate(behind)
		time.Sleep(3 * time.Second) // 20 election timeouts
		open, all := s.held()
		assert.Zero(t, open, "it costs memory, and was closed")
		assert.Nil(t, leader.Status().Snapshot.Sending)
		c.Heal()
		sameDurable(t, c, 41)
		open, later := s.held()
		assert.Zero(t, open)
		assert.Greater(t, later, all)
	})
}

// The FSM writes no faster than the follower reads: the stream's window bounds the bytes that wait in memory.
func TestHeld_HoldsAWindowInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		s := &diskFSMs{writeTo: padded(16<<20, func(bytes int) { written.Add(int64(bytes)) })}
		c, leader, behind := awayOn(t, s.options(func(cfg *node.Config) { cfg.SnapshotBytesPerSecond = 1 << 20 }), "")
		c.Heal()
		for c.Node(behind).Metrics().Snapshots.Restored == 0 {
			ahead := written.Load()
			if sending := leader.Status().Snapshot.Sending; sending != nil {
				require.LessOrEqual(t, ahead-sending.Done, int64(4<<20+1<<20))
				require.True(t, sending.Total == -1 || ahead == 16<<20, "nobody knows how much it will be")
			}
			time.Sleep(time.Second)
		}
		sameDurable(t, c, 41)
	})
}

// While the leader sends a frozen state, the log grows by more than the leader usually keeps for a follower. The state is
// frozen only once, because the leader keeps the entries that the follower needs after the state.
func TestHeld_TheLogIsKeptWhileItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rate := eightMiB()
		c, leader, behind := awayOn(t, s.options(rate, func(cfg *node.Config) { cfg.SnapshotHoldBytes = 128 << 10 }), "")
		c.Heal()
		c.Await("a stream", func() bool { return leader.Status().Snapshot.Sending != nil })
		at, count := leader.Status().Last.Index, 41
		for c.Node(behind).Metrics().Snapshots.Restored == 0 {
			propose(t, leader, strings.Repeat("x", 8<<10))
			count++
			require.Less(t, count, 2000, "the follower is never brought up")
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, int(leader.Status().Last.Index-at)*(8<<10), 256<<10, "the log has grown by more than is kept")
		sameDurable(t, c, count)
		_, all := s.held()
		assert.Equal(t, 1, all, "it was frozen once")
	})
}

var errHeld = errors.New("the frozen state is gone")

// If an error occurs while a frozen state is written, neither node ends. The leader reports the error, and freezes the state
// again.
func TestHeld_Trouble(t *testing.T) {
	for _, row := range []struct {
		name    string
		writeTo func(ctx context.Context, w io.Writer, good <-chan struct{}) error
		says    string
	}{
		{"WriteTo fails", func(context.Context, io.Writer, <-chan struct{}) error { return errHeld }, "write: the frozen state is gone"},
		{"WriteTo fails half way", func(_ context.Context, w io.Writer, _ <-chan struct{}) error {
			_, err := w.Write(make([]byte, 300<<10))
			return errors.Join(err, errHeld)
		}, "write: the frozen state is gone"},
		{"WriteTo panics", func(context.Context, io.Writer, <-chan struct{}) error { return panics() }, "panic: the state machine is beside itself"},
		{"WriteTo never ends", func(ctx context.Context, _ io.Writer, _ <-chan struct{}) error {
			<-ctx.Done()
			return ctx.Err()
		}, "WriteTo has written nothing for 10s"},
		{"WriteTo hangs after a piece that the follower has taken", func(ctx context.Context, w io.Writer, _ <-chan struct{}) error {
			_, err := w.Write(make([]byte, 300<<10))
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}, "WriteTo has written nothing for 10s"},
		{"WriteTo does not even end with its context", func(_ context.Context, _ io.Writer, good <-chan struct{}) error {
			<-good
			return nil
		}, "WriteTo has written nothing for 10s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := make(chan struct{})
				free := sync.OnceFunc(func() { close(good) })
				defer free()
				s := &diskFSMs{writeTo: func(ctx context.Context, w io.Writer, frozen raft.FSMSnapshot) error {
					select {
					case <-good:
						return frozen.WriteTo(ctx, w)
					default:
						return row.writeTo(ctx, w, good)
					}
				}}
				c, leader, behind := awayOn(t, s.options(func(cfg *node.Config) { cfg.SnapshotStallMax = 10 * time.Second }), "")
				c.Heal()
				c.Await("the trouble", func() bool { return leader.Status().Snapshot.Err != nil })
				var failed *node.SnapshotError
				require.ErrorAs(t, leader.Status().Snapshot.Err, &failed)
				assert.ErrorContains(t, failed, row.says)
				assert.Positive(t, leader.Metrics().Snapshots.Failed)
				time.Sleep(10 * time.Second)
				require.NoError(t, leader.Err())
				require.NoError(t, c.Node(behind).Err())
				assert.Zero(t, c.Node(behind).Metrics().Snapshots.Restored)
				open, _ := s.held()
				assert.LessOrEqual(t, open, 1)
				propose(t, leader, "continues")
				free()
				sameDurable(t, c, 42)
				open, _ = s.held()
				assert.Zero(t, open)
			})
		})
	}
}

// If a state announces its size, it must write exactly that number of bytes.
func TestHeld_ASizeThatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		o := s.options()
		newFSM := o.NewFSM
		o.NewFSM = func() raft.FSM { return sizedFSM{newFSM().(*diskFSM)} }
		c := startAll(t, o)
		leader := c.Leader()
		behind := c.Follower().Status().ID
		c.Isolate(behind)
		proposeMany(t, leader, 0, 40)
		c.Await("a compacted log", func() bool { return leader.Status().Base.Index > 20 })
		c.Heal()
		c.Await("the trouble", func() bool { return leader.Status().Snapshot.Err != nil })
		assert.ErrorContains(t, leader.Status().Snapshot.Err, "Size of the frozen state said 7")
		require.NoError(t, leader.Err())
	})
}

type sizedFSM struct{ *diskFSM }

func (f sizedFSM) Snapshot() (raft.FSMSnapshot, error) {
	frozen, err := f.diskFSM.Snapshot()
	return sizedState{frozen}, err
}

type sizedState struct{ raft.FSMSnapshot }

func (sizedState) Size() int64 { return 7 }

// Close does not wait for a follower that reads slowly, and closes the frozen state.
func TestHeld_CloseEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rate := eightMiB()
		c, leader, behind := awayOn(t, s.options(rate), "")
		c.Heal()
		c.Await("half of it", half(c, behind))
		open, all := s.held()
		require.Equal(t, 1, open)
		c.Crash(leader.Status().ID)
		open, later := s.held()
		assert.Equal(t, later-all, open, "only what the next leader has frozen")
	})
}

// If Close of a frozen state hangs, it delays neither the stream of the state nor the node. The leader freezes the state
// again only after Close has returned.
func TestHeld_ACloseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{closeGate: make(chan struct{})}
		free := sync.OnceFunc(func() { close(s.closeGate) })
		defer free()
		c, leader, behind := awayOn(t, s.options(), "")
		c.Heal()
		c.Await("the follower", func() bool { return c.Node(behind).Metrics().Snapshots.Restored > 0 })
		sameDurable(t, c, 41)
		open, all := s.held()
		assert.Equal(t, 1, open)
		assert.Equal(t, 1, all)
		synctest.Wait()
		assert.Nil(t, leader.Status().Snapshot.Sending, "the next stream may begin")
		free()
		synctest.Wait()
		open, _ = s.held()
		assert.Zero(t, open)
	})
}
