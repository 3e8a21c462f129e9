package node_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// lane is a transport that may change outgoing chunks of snapshots.
type lane struct {
	raft.Transport
	change *atomic.Pointer[func(raft.SnapshotChunk) raft.SnapshotChunk]
}

func (l lane) Send(to raft.Peer, on raft.Lane, batch []raft.Message) error {
	if change := l.change.Load(); change != nil {
		for i := range batch {
			if c, ok := batch[i].Body.(raft.SnapshotChunk); ok {
				batch[i].Body = (*change)(c)
			}
		}
	}
	return l.Transport.Send(to, on, batch)
}

func (l lane) ChunkBytesMax() int { return l.Transport.(raft.SnapshotCarrier).ChunkBytesMax() }

// A receiver checks a snapshot as a whole before it uses the snapshot. If the check fails, both sides report the error, and
// the leader sends again until a correct snapshot arrives.
func TestReceive_ABadStream(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(raft.SnapshotChunk) raft.SnapshotChunk
		says   string // "": the stream only stalls
	}{
		{"a bit is flipped", func(c raft.SnapshotChunk) raft.SnapshotChunk {
			if len(c.Data) > 0 {
				c.Data = append([]byte{c.Data[0] ^ 1}, c.Data[1:]...)
			}
			return c
		}, "its size or its checksum is wrong"},
		{"it ends too early", func(c raft.SnapshotChunk) raft.SnapshotChunk {
			c.Last, c.Size = true, c.At+int64(len(c.Data))
			return c
		}, "its size or its checksum is wrong"},
		{"it is longer than was offered", func(c raft.SnapshotChunk) raft.SnapshotChunk {
			c.Data = append(c.Data[:len(c.Data):len(c.Data)], make([]byte, 200<<10)...)
			return c
		}, "its size or its checksum is wrong"},
		{"it is of another file", func(c raft.SnapshotChunk) raft.SnapshotChunk {
			c.File[3] ^= 1
			return c
		}, ""},
		{"it leaves a gap", func(c raft.SnapshotChunk) raft.SnapshotChunk {
			c.At++
			return c
		}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := new(atomic.Pointer[func(raft.SnapshotChunk) raft.SnapshotChunk])
				change.Store(&row.change)
				c, leader, behind := awayOn(t, rafttest.Options{
					NewFSM: newJournal, Configure: often,
					Transport: func(_ raft.NodeID, inner raft.Transport) raft.Transport { return lane{inner, change} },
				}, strings.Repeat("x", 8<<10))
				c.Heal()
				if row.says == "" {
					time.Sleep(30 * time.Second)
				} else {
					c.Await("the trouble", func() bool {
						return leader.Status().Snapshot.SendErr != nil && c.Node(behind).Status().Snapshot.ReceiveErr != nil
					})
					for _, err := range []error{leader.Status().Snapshot.SendErr, c.Node(behind).Status().Snapshot.ReceiveErr} {
						var failed *node.SnapshotStreamError
						require.ErrorAs(t, err, &failed)
						assert.Equal(t, leader.Status().ID, failed.From)
						assert.Equal(t, behind, failed.To)
						assert.ErrorIs(t, err, raft.StreamDamaged)
						assert.ErrorContains(t, err, row.says)
					}
					assert.Positive(t, c.Node(behind).Metrics().Snapshots.Refused)
				}
				assert.Zero(t, c.Node(behind).Metrics().Snapshots.Received)
				assert.Zero(t, c.Node(behind).Metrics().Snapshots.Restored)
				require.NoError(t, leader.Err())
				require.NoError(t, c.Node(behind).Err())
				change.Store(nil)
				same(t, c, 41)
				assert.NoError(t, c.Node(behind).Status().Snapshot.ReceiveErr)
				assert.NoError(t, leader.Status().Snapshot.SendErr)
			})
		})
	}
}

// spoiling is a storage whose snapshot files fail at a given size, or when they are finished.
type spoiling struct {
	raft.SnapshotStorage
	after  int64
	write  *atomic.Pointer[error] // nil: it works
	finish *atomic.Pointer[error]
}

func (s spoiling) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	w, err := s.SnapshotStorage.CreateSnapshot(file)
	return &spoilingWriter{w, s, 0}, err
}

type spoilingWriter struct {
	raft.SnapshotWriter
	of    spoiling
	bytes int64
}

func (w *spoilingWriter) Write(p []byte) (int, error) {
	if w.bytes += int64(len(p)); w.bytes > w.of.after {
		if err := w.of.write.Load(); err != nil {
			return 0, *err
		}
	}
	return w.SnapshotWriter.Write(p)
}

func (w *spoilingWriter) Finish(s raft.Snapshot) error {
	if err := w.of.finish.Load(); err != nil {
		return *err
	}
	return w.SnapshotWriter.Finish(s)
}

// onSpoiling returns the options of a cluster on spoiling storages, for commands of 8 KiB.
func onSpoiling() (o rafttest.Options, write, finish *atomic.Pointer[error]) {
	write, finish = new(atomic.Pointer[error]), new(atomic.Pointer[error])
	return rafttest.Options{
		NewFSM: newJournal, Configure: often,
		Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			return spoiling{s.(raft.SnapshotStorage), 32 << 10, write, finish}
		},
	}, write, finish
}

var errFull = fmt.Errorf("write snapshot: %w", syscall.ENOSPC)

// If the disk becomes full in the middle of a snapshot, only that snapshot fails. The log continues.
func TestSnapshot_AFullDiskInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, write, finish := onSpoiling()
		o.Members = 1
		c := startAll(t, o)
		n := c.Leader()
		write.Store(&errFull)
		for i := range 40 {
			propose(t, n, fmt.Sprintf("%d %s", i, strings.Repeat("x", 8<<10)))
		}
		_, err := n.Snapshot(t.Context())
		var failed *node.SnapshotError
		require.ErrorAs(t, err, &failed)
		assert.ErrorIs(t, err, syscall.ENOSPC)
		assert.Equal(t, "write", failed.Op)
		assert.ErrorIs(t, n.Status().Snapshot.Err, syscall.ENOSPC)
		write.Store(nil)
		finish.Store(&errFull)
		time.Sleep(time.Minute)
		_, err = n.Snapshot(t.Context())
		assert.ErrorIs(t, err, syscall.ENOSPC, "or when the file is completed")
		finish.Store(nil)
		propose(t, n, "continues")
		require.NoError(t, n.Err())
		c.Await("a snapshot, once there is room", func() bool { return n.Status().Snapshot.Err == nil && n.Status().Base.Index > 20 })
		c.Restart("n1")
		require.NoError(t, c.Leader().Ready(t.Context()))
		assert.Len(t, listOf(c, "n1"), 41)
	})
}

// If the disk of a member fails while the member receives a snapshot, only that snapshot fails. This holds for a full disk
// and for other errors.
func TestReceive_ADiskThatFails(t *testing.T) {
	later := error(&raft.LaterVersionError{Record: "the file of a snapshot", Found: 9, Known: 1})
	for _, row := range []struct {
		name          string
		write, finish error
		refusal       raft.StreamRefusal
	}{
		{"full in the middle", errFull, nil, raft.StreamNoSpace},
		{"full at the end", nil, errFull, raft.StreamNoSpace},
		{"it fails in the middle", errDisk, nil, raft.StreamFailed},
		{"it fails at the end", nil, errDisk, raft.StreamFailed},
		{"a later format", nil, later, raft.StreamLaterFormat},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, write, finish := onSpoiling()
				c, leader, behind := awayOn(t, o, strings.Repeat("x", 8<<10))
				synctest.Wait()
				if row.write != nil {
					write.Store(&row.write)
				} else {
					finish.Store(&row.finish)
				}
				c.Heal()
				c.Await("the trouble", func() bool {
					return leader.Status().Snapshot.SendErr != nil && c.Node(behind).Status().Snapshot.ReceiveErr != nil
				})
				assert.ErrorIs(t, leader.Status().Snapshot.SendErr, row.refusal)
				assert.ErrorIs(t, c.Node(behind).Status().Snapshot.ReceiveErr, firstOf(row.write, row.finish))
				for _, m := range leader.Status().Members {
					if m.ID == behind && m.State == "snapshot" {
						assert.Contains(t, m.Problem, "it lacks entries that are compacted here")
					}
				}
				time.Sleep(10 * time.Second)
				require.NoError(t, leader.Err())
				require.NoError(t, c.Node(behind).Err())
				assert.Zero(t, c.Node(behind).Metrics().Snapshots.Restored)
				write.Store(nil)
				finish.Store(nil)
				same(t, c, 41)
			})
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A snapshot that fails again and again is one problem: it is logged when it begins.
func TestSnapshot_ThatFailsAgainAndAgainIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		c := oneThatTakes(t, func() raft.FSM { return &awkward{freeze: func() error { return errAwkward }} },
			func(cfg *node.Config) { cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &log}) })
		proposeMany(t, c.Leader(), 0, 20)
		time.Sleep(10*time.Minute + time.Second)
		assert.Greater(t, c.Leader().Metrics().Snapshots.Failed, uint64(50), "it is tried every ten seconds")
		assert.Equal(t, 1, strings.Count(log.String(), `a problem has begun: verdict="snapshot fails" member=n1`))
	})
}

// stalling is a storage in which the write of a snapshot's record waits.
type stalling struct {
	raft.SnapshotStorage
	gate *atomic.Pointer[chan struct{}] // nil: they do not
}

func (s stalling) Write(w raft.StorageWrite) error {
	if gate := s.gate.Load(); gate != nil && w.Snapshot != nil {
		<-*gate
	}
	return s.SnapshotStorage.Write(w)
}

// The caller's answer comes once a crash can no longer lose the snapshot.
func TestSnapshot_IsAnsweredOnceItsRecordIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		gate := new(atomic.Pointer[chan struct{}])
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return stalling{s.(raft.SnapshotStorage), gate} }})
		n := c.Leader()
		propose(t, n, "a")
		gate.Store(&closed)
		answered := make(chan error, 1)
		go func() {
			_, err := n.Snapshot(t.Context())
			answered <- err
		}()
		synctest.Wait()
		assert.Empty(t, answered)
		assert.Zero(t, n.Status().Snapshot.Last)
		close(closed)
		assert.NoError(t, <-answered)
		assert.Positive(t, n.Status().Snapshot.Last.Index)
	})
}

// rotting is a storage. A test can damage the snapshots that it holds at that moment; later snapshots are intact.
type rotting struct {
	raft.SnapshotStorage
	mu    sync.Mutex
	files map[raft.SnapshotID]bool // whether each is damaged
}

func (r *rotting) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[file] = false
	return r.SnapshotStorage.CreateSnapshot(file)
}

func (r *rotting) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	r.mu.Lock()
	damaged := r.files[file]
	r.mu.Unlock()
	from, err := r.SnapshotStorage.OpenSnapshot(file)
	if err != nil || !damaged {
		return from, err
	}
	return rottenReader{from}, nil
}

func (r *rotting) rot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for file := range r.files {
		r.files[file] = true
	}
}

// The state in memory is intact, so the leader takes a new snapshot. Otherwise, until the next one is due, the follower
// could not catch up, and a restart of the leader would fail.
func TestStream_ALeaderReplacesASnapshotThatIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := map[raft.NodeID]*rotting{}
		c, leader, _ := awayOn(t, rafttest.Options{
			NewFSM: newJournal, Configure: often,
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				disks[id] = &rotting{SnapshotStorage: s.(raft.SnapshotStorage), files: map[raft.SnapshotID]bool{}}
				return disks[id]
			},
		}, "")
		commands := 41
		for s := leader.Status(); s.Applied <= s.Snapshot.Last.Index; s = leader.Status() {
			propose(t, leader, "behind the snapshot")
			commands++
			synctest.Wait()
		}
		before := leader.Status().Snapshot.Last
		disks[leader.Status().ID].rot()
		c.Heal()
		same(t, c, commands)
		assert.Greater(t, leader.Status().Snapshot.Last.Index, before.Index)
	})
}
