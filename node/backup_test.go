package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// restored reads a complete backup, and restores its state.
func restored(t *testing.T, from io.Reader) (backup.Head, []string) {
	t.Helper()
	r, err := backup.NewReader(from)
	require.NoError(t, err)
	j := &journal{}
	require.NoError(t, j.Restore(t.Context(), r.Head().Base.ID, r))
	_, err = r.Entry()
	require.ErrorIs(t, err, io.EOF, "it is complete")
	return r.Head(), j.list()
}

// isNoBackup fails the test if b could be restored.
func isNoBackup(t *testing.T, b []byte) {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(b))
	if err == nil {
		if _, err = io.Copy(io.Discard, r); err == nil {
			_, err = r.Entry()
		}
	}
	var damaged *backup.DamagedError
	require.ErrorAs(t, err, &damaged)
}

// gatedWriter takes the first bytes, and then blocks until the gate is open.
type gatedWriter struct {
	taken       bytes.Buffer
	begun, gate chan struct{}
	once        sync.Once
}

func newGatedWriter() *gatedWriter {
	return &gatedWriter{begun: make(chan struct{}), gate: make(chan struct{})}
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.begun) })
	<-w.gate
	return w.taken.Write(p)
}

// failingWriter takes some bytes, and then fails.
type failingWriter struct {
	taken bytes.Buffer
	most  int
}

var errNoMore = errors.New("no more")

func (w *failingWriter) Write(p []byte) (int, error) {
	if room := w.most - w.taken.Len(); room < len(p) {
		n, _ := w.taken.Write(p[:room])
		return n, errNoMore
	}
	return w.taken.Write(p)
}

// large is a command that makes a state of several pieces.
var large = strings.Repeat("x", 512<<10)

// impatient is a member that soon gives up an FSM that writes nothing.
func impatient(cfg *node.Config) { cfg.SnapshotStallMax = time.Second }

// eachKind proposes first, and runs f with a cluster that has snapshot files, and with one whose FSMs keep their states. list returns the commands that
// a member has applied.
func eachKind(t *testing.T, first string, f func(t *testing.T, s *diskFSMs, c *rafttest.Cluster, list func(raft.NodeID) []string)) {
	s := &diskFSMs{}
	for name, o := range map[string]rafttest.Options{
		"files":  {NewFSM: newJournal, Configure: func(cfg *node.Config) { often(cfg) }},
		"frozen": s.options(impatient),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startAll(t, o)
				propose(t, c.Leader(), first)
				list := func(id raft.NodeID) []string { return listOf(c, id) }
				if name == "frozen" {
					list = func(id raft.NodeID) []string { return durableList(c, id) }
				}
				f(t, s, c, list)
				synctest.Wait()
				open, _ := s.held()
				assert.Zero(t, open, "each frozen state was closed")
			})
		})
	}
}

func TestBackup_HasEverythingAcknowledgedBefore(t *testing.T) {
	eachKind(t, "first", func(t *testing.T, s *diskFSMs, c *rafttest.Cluster, list func(raft.NodeID) []string) {
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		var mu sync.Mutex
		var acknowledged []string
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					command := fmt.Sprintf("%d-%d", w, i)
					if _, err := c.Leader().Propose(context.Background(), []byte(command)); assert.NoError(t, err) {
						mu.Lock()
						acknowledged = append(acknowledged, command)
						mu.Unlock()
					}
					<-time.After(5 * time.Millisecond)
				}
			})
		}
		for i := range 6 {
			n := c.Leader()
			if i%3 > 0 {
				n = c.Follower()
			}
			mu.Lock()
			before := slices.Clone(acknowledged)
			mu.Unlock()
			var b bytes.Buffer
			id, err := n.Backup(t.Context(), &b)
			require.NoError(t, err)
			head, state := restored(t, &b)
			status := n.Status()
			assert.Equal(t, id, head.Base.ID)
			assert.Equal(t, n.ClusterID(), head.Cluster)
			assert.Equal(t, head.Cluster, head.Base.Cluster)
			assert.Equal(t, status.Term, head.Term)
			self, _ := n.Members().Member(status.ID)
			assert.Equal(t, self.Peer(), head.Member.Peer())
			assert.Equal(t, self.Address, head.Member.Address)
			assert.WithinDuration(t, time.Now(), head.At, time.Minute)
			for _, command := range before {
				require.True(t, slices.Contains(state, command), command)
			}
			assert.Equal(t, list(status.ID)[:len(state)], state, "and it is the state after that many commands")
			<-time.After(50 * time.Millisecond)
		}
		stop()
		writers.Wait()
		assert.EqualValues(t, 2, c.Leader().Metrics().Snapshots.BackedUp)
	})
}

// A backup that failed leaves nothing behind, and the next one succeeds.
func TestBackup_ThatFailsIsNone(t *testing.T) {
	for name, row := range map[string]struct {
		do   func(ctx context.Context, cancel func(), c *rafttest.Cluster, n *node.Node) (written []byte, err error)
		want error
	}{
		"the writer fails": {func(ctx context.Context, _ func(), _ *rafttest.Cluster, n *node.Node) ([]byte, error) {
			w := &failingWriter{most: 100}
			_, err := n.Backup(ctx, w)
			return w.taken.Bytes(), err
		}, errNoMore},
		"the writer fails at the end": {func(ctx context.Context, _ func(), _ *rafttest.Cluster, n *node.Node) ([]byte, error) {
			var whole bytes.Buffer
			if _, err := n.Backup(ctx, &whole); err != nil {
				return nil, err
			}
			w := &failingWriter{most: whole.Len() - 20} // the time in it may have fewer digits
			_, err := n.Backup(ctx, w)
			return w.taken.Bytes(), err
		}, errNoMore},
		"its context ends": {func(ctx context.Context, cancel func(), _ *rafttest.Cluster, n *node.Node) ([]byte, error) {
			w := newGatedWriter()
			go func() {
				<-w.begun
				cancel()
				synctest.Wait()
				close(w.gate)
			}()
			_, err := n.Backup(ctx, w)
			return w.taken.Bytes(), err
		}, context.Canceled},
		"the node is closed": {func(ctx context.Context, _ func(), c *rafttest.Cluster, n *node.Node) ([]byte, error) {
			w := newGatedWriter()
			go func() {
				<-w.begun
				c.Close(n.Status().ID) // does not wait for the writer
				close(w.gate)
			}()
			_, err := n.Backup(ctx, w)
			_, after := n.Backup(ctx, io.Discard)
			return w.taken.Bytes(), errors.Join(err, after)
		}, raft.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, large, func(t *testing.T, s *diskFSMs, c *rafttest.Cluster, _ func(raft.NodeID) []string) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := c.Follower()
				written, err := row.do(ctx, cancel, c, n)
				require.ErrorIs(t, err, row.want)
				isNoBackup(t, written)
				synctest.Wait()
				open, _ := s.held()
				assert.Zero(t, open)
				assert.Positive(t, n.Metrics().Snapshots.BackupsFailed)
				if n.Err() == nil {
					var b bytes.Buffer
					_, err = n.Backup(t.Context(), &b)
					require.NoError(t, err)
					restored(t, &b)
				}
			})
		})
	}
}

func TestBackup_OneAtATime(t *testing.T) {
	eachKind(t, large, func(t *testing.T, _ *diskFSMs, c *rafttest.Cluster, _ func(raft.NodeID) []string) {
		w, first := newGatedWriter(), make(chan error)
		go func() {
			_, err := c.Leader().Backup(t.Context(), w)
			first <- err
		}()
		<-w.begun
		_, err := c.Leader().Backup(t.Context(), io.Discard)
		require.ErrorIs(t, err, node.ErrBackupRuns)
		for range 40 { // and snapshots are taken meanwhile: an open file stays
			propose(t, c.Leader(), "more")
		}
		<-time.After(5 * time.Second) // the time in which the writer blocks is not the FSM's
		close(w.gate)
		require.NoError(t, <-first)
		_, state := restored(t, &w.taken)
		assert.Equal(t, []string{large}, state)
		for range 3 { // at once
			_, err = c.Leader().Backup(t.Context(), io.Discard)
			require.NoError(t, err)
		}
	})
}

// The state machine that breaks ends the backup, and neither the node nor the next backup.
func TestBackup_TheStateThatCannotBeWritten(t *testing.T) {
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		writeTo func(context.Context, io.Writer, raft.FSMSnapshot) error
		check   func(*testing.T, error)
	}{
		"it panics": {func(context.Context, io.Writer, raft.FSMSnapshot) error { panic("oh") }, func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "panic: oh")
		}},
		"it fails behind its last byte": {func(ctx context.Context, w io.Writer, f raft.FSMSnapshot) error {
			return errors.Join(f.WriteTo(ctx, w), broken)
		}, func(t *testing.T, err error) { assert.ErrorIs(t, err, broken) }},
		"it stalls": {func(ctx context.Context, w io.Writer, _ raft.FSMSnapshot) error {
			_, _ = w.Write([]byte("some"))
			<-ctx.Done()
			return nil
		}, func(t *testing.T, err error) {
			var stalled *node.SnapshotStalledError
			assert.ErrorAs(t, err, &stalled)
		}},
		"it stalls for good": {func(_ context.Context, w io.Writer, f raft.FSMSnapshot) error {
			<-time.After(10 * time.Second)
			return nil
		}, func(t *testing.T, err error) {
			var stalled *node.SnapshotStalledError
			assert.ErrorAs(t, err, &stalled)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &diskFSMs{}
				c := startAll(t, s.options(impatient))
				propose(t, c.Leader(), "first")
				s.writeTo = row.writeTo
				var b bytes.Buffer
				began := time.Now()
				_, err := c.Leader().Backup(t.Context(), &b)
				var failed *node.SnapshotError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, "write", failed.Op)
				row.check(t, err)
				isNoBackup(t, b.Bytes())
				assert.LessOrEqual(t, time.Since(began), 2*time.Second)
				synctest.Wait()
				if open, _ := s.held(); open > 0 {
					_, err = c.Leader().Backup(t.Context(), &b)
					require.ErrorIs(t, err, node.ErrBackupRuns, "WriteTo has not returned")
					time.Sleep(10 * time.Second)
				}
				open, _ := s.held()
				assert.Zero(t, open)
				s.writeTo = nil
				b.Reset()
				_, err = c.Leader().Backup(t.Context(), &b)
				require.NoError(t, err)
				restored(t, &b)
			})
		})
	}
}

// Only one state is frozen at a time: a follower waits for the backup, and a backup for the follower.
func TestBackup_WaitsForTheFrozenStateOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c, leader, _ := awayOn(t, s.options(), large[:32<<10])
		w, first := newGatedWriter(), make(chan error)
		go func() {
			_, err := leader.Backup(t.Context(), w)
			first <- err
		}()
		<-w.begun
		c.Heal()
		time.Sleep(10 * time.Second)
		assert.ErrorContains(t, leader.Status().Snapshot.Err, "a backup of this member is being taken")
		close(w.gate)
		require.NoError(t, <-first)
		sameDurable(t, c, 41)

		gate := make(chan struct{})
		s.closeGate = gate
		go func() {
			_, err := leader.Backup(t.Context(), io.Discard)
			first <- err
		}()
		time.Sleep(time.Second)
		open, all := s.held()
		require.Equal(t, 1, open, "FSMSnapshot.Close hangs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := leader.BackUpAgain(ctx, io.Discard)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, again := s.held()
		assert.Equal(t, all, again)
		close(gate)
		require.NoError(t, <-first)
		_, err = leader.BackUpAgain(t.Context(), io.Discard)
		require.NoError(t, err)
	})
}

// A backup may be given up while the FSM freezes the state for it, or just before. The state is closed, and the next backup gets one.
func TestBackup_GivenUpWhileTheStateIsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c := startAll(t, s.options())
		propose(t, c.Leader(), "first")
		n, gate, done := c.Leader(), make(chan struct{}), make(chan error)
		s.freezeGate = gate
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := n.Backup(ctx, io.Discard)
			done <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		close(gate)
		synctest.Wait()
		open, all := s.held()
		assert.Zero(t, open)
		assert.Equal(t, 1, all)
		require.NoError(t, n.FreezeWithdrawn(n.Status().Last))
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := n.Backup(ctx, io.Discard)
		require.NoError(t, err)
	})
}

// Until Backup returns nil, the writer lacks the end.
func TestBackup_WhoseFrozenStateDoesNotCloseIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c := startAll(t, s.options())
		propose(t, c.Leader(), "first")
		gate, done := make(chan struct{}), make(chan error)
		defer close(gate)
		s.closeGate = gate
		ctx, cancel := context.WithCancel(t.Context())
		var b bytes.Buffer
		go func() {
			_, err := c.Leader().Backup(ctx, &b)
			done <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		isNoBackup(t, b.Bytes())
	})
}

// A leader's snapshot replaces the state of which a backup is taken: the FSM must be able to give that up.
func TestBackup_EndsWhenTheStateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		o := s.options()
		c := startAll(t, o)
		propose(t, c.Leader(), large)
		n, w, done := c.Follower(), newGatedWriter(), make(chan error)
		go func() {
			_, err := n.Backup(t.Context(), w)
			done <- err
		}()
		<-w.begun
		c.Isolate(n.Status().ID)
		proposeMany(t, c.Leader(), 0, 40)
		c.Await("a compacted log", func() bool { return c.Leader().Status().Base.Index > n.Status().Last.Index })
		c.Heal()
		sameDurable(t, c, 41)
		close(w.gate)
		var failed *node.SnapshotError
		require.ErrorAs(t, <-done, &failed)
		assert.ErrorContains(t, failed, "a snapshot from the leader replaces the state")
		isNoBackup(t, w.taken.Bytes())
	})
}

// The log may be compacted or replaced before the loop is asked for the description of a frozen state.
func TestBackup_AStateThatTheLogDoesNotDescribeIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &diskFSMs{}
		c := startAll(t, s.options())
		proposeMany(t, c.Leader(), 0, 40)
		c.Await("a compacted log", func() bool { return c.Leader().Status().Base.Index > 10 })
		last := c.Leader().Status().Last
		for _, at := range []raft.EntryID{{Term: 1, Index: 9}, {Term: last.Term + 1, Index: last.Index}, {Term: last.Term, Index: last.Index + 1}, {}} {
			frozen, err := c.FSM(c.Leader().Status().ID).(*diskFSM).Snapshot()
			require.NoError(t, err)
			_, to := io.Pipe()
			described, err := c.Leader().BackUpFrozen(t.Context(), to, at, frozen)
			require.NoError(t, err)
			assert.False(t, described)
			open, _ := s.held()
			assert.Zero(t, open)
		}
	})
}

func TestBackup_KeepsToTheRate(t *testing.T) {
	eachKind(t, large, func(t *testing.T, _ *diskFSMs, c *rafttest.Cluster, _ func(raft.NodeID) []string) {
		for range 15 {
			propose(t, c.Leader(), large)
		}
		_, err := c.Leader().Snapshot(t.Context())
		require.NoError(t, err)
		began := time.Now()
		_, err = c.Leader().Backup(t.Context(), io.Discard)
		require.NoError(t, err)
		assert.InDelta(t, 8.0/32, time.Since(began).Seconds(), 0.1)
	})
}

func TestBackup_AStorageWithoutSnapshotsHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			return struct{ raft.Storage }{s}
		}})
		var b bytes.Buffer
		_, err := c.Leader().Backup(t.Context(), &b)
		require.ErrorIs(t, err, node.ErrSnapshotUnsupported)
		assert.Empty(t, b.Bytes())
	})
}

func TestBackup_WithoutALeaderThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal})
		propose(t, c.Leader(), "first")
		n := c.Follower()
		c.Isolate(n.Status().ID)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := n.Backup(ctx, io.Discard)
		require.Error(t, err, "it might lack what was acknowledged")
	})
}

// replacedFile is a storage in which a newer snapshot replaces a file just before it is opened.
type replacedFile struct {
	raft.SnapshotStorage
	replace atomic.Pointer[func()]
}

func (s *replacedFile) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	if replace := s.replace.Swap(nil); replace != nil {
		(*replace)()
		return nil, fs.ErrNotExist
	}
	return s.SnapshotStorage.OpenSnapshot(file)
}

func TestBackup_OfAFileThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &replacedFile{}
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			files.SnapshotStorage = s.(raft.SnapshotStorage)
			return files
		}})
		propose(t, c.Leader(), "first")
		replace := func() {
			propose(t, c.Leader(), "second")
			_, err := c.Leader().Snapshot(t.Context())
			assert.NoError(t, err)
		}
		files.replace.Store(&replace)
		var b bytes.Buffer
		_, err := c.Leader().Backup(t.Context(), &b)
		require.NoError(t, err)
		_, state := restored(t, &b)
		assert.Equal(t, []string{"first", "second"}, state)

		gone := func() {}
		files.replace.Store(&gone)
		_, err = c.Leader().Backup(t.Context(), io.Discard)
		var unread *node.StorageError
		require.ErrorAs(t, err, &unread, "no other one has taken its place")
	})
}
