package node_test

import (
	"context"
	"errors"
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

// crowded is a store whose disk is full at times. A write without room waits until there is room, or until GiveUp.
type crowded struct {
	raft.Storage
	mu    sync.Mutex
	full  error
	waits bool
	done  chan struct{}
	once  sync.Once
}

func (s *crowded) set(full error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.waits = full, waits
}

func (s *crowded) Room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == errBroken {
		panic("the storage has a bug")
	}
	return s.full
}

func (s *crowded) GiveUp() { s.once.Do(func() { close(s.done) }) }

func (s *crowded) Write(w raft.StorageWrite) error {
	s.mu.Lock()
	waits := s.waits
	s.mu.Unlock()
	if waits {
		<-s.done
		return errDisk
	}
	return s.Storage.Write(w)
}

// errBroken makes Room panic: the test passes it to set.
var errBroken = errors.New("broken")

// onCrowdedDisks starts the given number of members, and returns their disks.
func onCrowdedDisks(t *testing.T, members int) (disks map[raft.NodeID]*crowded, c *rafttest.Cluster) {
	disks = map[raft.NodeID]*crowded{}
	var mu sync.Mutex
	c = startAll(t, rafttest.Options{Members: members, NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
		mu.Lock()
		defer mu.Unlock()
		disks[id] = &crowded{Storage: s, done: make(chan struct{})}
		return disks[id]
	}})
	return disks, c
}

// A leader refuses proposals while its disk has no room. If there is no other voter to transfer leadership to, it continues
// to lead and to answer reads.
func TestPropose_WithoutRoomOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 1)
		leader := c.Leader()
		_, err := leader.Propose(t.Context(), []byte("before"))
		require.NoError(t, err)
		disks[leader.Status().ID].set(errDisk, false)
		_, err = leader.Propose(t.Context(), []byte("meanwhile"))
		var full *raft.NoRoomError
		require.ErrorAs(t, err, &full)
		assert.True(t, errors.Is(err, raft.ErrOverloaded) && errors.Is(err, errDisk))
		_, err = leader.ProposeAsync(t.Context(), []byte("meanwhile"), func(node.Result, error) {})
		require.ErrorAs(t, err, &full)
		_, err = leader.ReadIndex(t.Context())
		require.NoError(t, err)
		c.Await("it says so", func() bool { return leader.Metrics().NoRoom })
		assert.Contains(t, leader.Status().Members[0].Problem, "no room for more entries of the log: make room, and it continues by itself")
		assert.Contains(t, leader.Status().LeaderReason, "it refuses proposals")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorContains(t, leader.Ready(ctx), "it refuses proposals")

		disks[leader.Status().ID].set(nil, false)
		_, err = leader.Propose(t.Context(), []byte("after"))
		require.NoError(t, err)
		require.NoError(t, leader.Ready(t.Context()), "at once")
		c.Await("it says so no longer", func() bool { return !leader.Metrics().NoRoom && leader.Status().NoRoom == "" })
	})
}

// A write that waits for room does not delay Close.
func TestClose_WhileAWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 3)
		leader, follower := c.Leader(), c.Follower()
		disks[follower.Status().ID].set(errDisk, true)
		_, err := leader.Propose(t.Context(), []byte("reaches the others"))
		require.NoError(t, err)
		require.NoError(t, follower.Close())
	})
}

// patient is a storage with a Write that may wait. Unlike crowded, it is not a RoomStorage. storage.Bolt is such a storage,
// too.
type patient struct {
	raft.Storage
	crowded *crowded
}

func (s patient) GiveUp() { s.crowded.GiveUp() }

func TestClose_WhileAWriteWaitsForAFileDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &crowded{done: make(chan struct{})}
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			disk.Storage = s
			return patient{disk, disk}
		}})
		_, err := c.Leader().Propose(t.Context(), []byte("x"))
		require.NoError(t, err)
		disk.set(nil, true)
		go func() { _, _ = c.Leader().Propose(t.Context(), []byte("waits")) }()
		synctest.Wait()
		require.NoError(t, c.Leader().Close())
	})
}

// crowdedSnapshots is a crowded storage that has snapshots.
type crowdedSnapshots struct {
	raft.SnapshotStorage
	crowded *crowded
}

func (s crowdedSnapshots) Room() error { return s.crowded.Room() }
func (s crowdedSnapshots) GiveUp()     { s.crowded.GiveUp() }

// If the log has no room, the node takes a snapshot to shorten the log, although no snapshot is due.
func TestSnapshot_IsTakenForALogWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &crowded{done: make(chan struct{})}
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			return crowdedSnapshots{s.(raft.SnapshotStorage), disk}
		}})
		leader := c.Leader()
		written, err := leader.Propose(t.Context(), []byte("x"))
		require.NoError(t, err)
		disk.set(syscall.EMFILE, false)
		time.Sleep(time.Minute)
		require.Zero(t, leader.Status().Snapshot.Last, "it brings no file descriptor")
		disk.set(errDisk, false)
		c.Await("a snapshot", func() bool { return leader.Status().Snapshot.Last.Index == written.Index })
	})
}

// nearlyFull is a storage with room for a given number of bytes of entries. The record of a snapshot makes room again.
// Writes without room wait.
type nearlyFull struct {
	raft.SnapshotStorage
	mu    sync.Mutex
	full  bool
	left  int
	begun chan struct{}
	goOn  chan error // the snapshot fails with it
	done  chan struct{}
}

func (s *nearlyFull) set(left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.left = true, left
}

func (s *nearlyFull) Room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errDisk
	}
	return nil
}

func (s *nearlyFull) GiveUp() { close(s.done) }

func (s *nearlyFull) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	s.begun <- struct{}{}
	if err := <-s.goOn; err != nil {
		return nil, err
	}
	return s.SnapshotStorage.CreateSnapshot(file)
}

func (s *nearlyFull) Write(w raft.StorageWrite) error {
	s.mu.Lock()
	if w.Log != nil && s.full {
		for _, e := range w.Log.Entries {
			s.left -= len(e.Data)
		}
	}
	waits := s.left < 0
	if w.Snapshot != nil && !waits {
		s.full = false
	}
	s.mu.Unlock()
	if waits {
		<-s.done
		return errDisk
	}
	return s.SnapshotStorage.Write(w)
}

// onANearlyFullDisk starts three members, and returns a follower and its disk.
func onANearlyFullDisk(t *testing.T) (*rafttest.Cluster, *node.Node, *nearlyFull) {
	disks := map[raft.NodeID]*nearlyFull{}
	var mu sync.Mutex
	c := startAll(t, rafttest.Options{Members: 3, NewFSM: newJournal, Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
		mu.Lock()
		defer mu.Unlock()
		disks[id] = &nearlyFull{
			SnapshotStorage: s.(raft.SnapshotStorage),
			begun:           make(chan struct{}), goOn: make(chan error), done: make(chan struct{}),
		}
		return disks[id]
	}})
	follower := c.Follower()
	return c, follower, disks[follower.Status().ID]
}

// The record of a snapshot makes more room, but it needs room itself. So the entries that are written before the record must
// leave room for it. This must also hold if the snapshot is slow, or if the first snapshot failed.
func TestSnapshot_IsRecordedBeforeTheRoomIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, follower, disk := onANearlyFullDisk(t)
		leader := c.Leader()
		before := leader.Status()
		for range 3 { // each time that the disk is full
			disk.set(3 << 20)
			_, err := leader.Propose(t.Context(), []byte("shows it"))
			require.NoError(t, err)
			<-disk.begun
			disk.goOn <- errDisk
			var last node.Result
			for range 200 {
				last, err = leader.Propose(t.Context(), make([]byte, 64<<10))
				require.NoError(t, err)
			}
			<-disk.begun
			time.Sleep(time.Minute)
			disk.goOn <- nil
			c.Await("it has them all, and room", func() bool {
				return follower.Status().Applied >= last.Index && !follower.Metrics().NoRoom
			})
		}
		assert.NotZero(t, follower.Status().Snapshot.Last)
		assert.Equal(t, before.Term, leader.Status().Term)
	})
}

// On a full disk, a member takes 2 MiB from each leader, so that a new one can commit something.
func TestPropose_TakesSomeEntriesOfEachLeaderOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, follower, disk := onANearlyFullDisk(t)
		leader := c.Leader()
		disk.set(100 << 20)
		var last node.Result
		for range 3 << 4 {
			var err error
			last, err = leader.Propose(t.Context(), make([]byte, 64<<10))
			require.NoError(t, err)
		}
		<-disk.begun
		time.Sleep(time.Minute)
		assert.Less(t, follower.Status().Applied, last.Index)
		require.NoError(t, leader.TransferLeadership(t.Context(), ""))
		c.Await("it has all of them", func() bool { return follower.Status().Applied >= last.Index })
		assert.True(t, follower.Metrics().NoRoom)
		disk.goOn <- nil
	})
}

// Members without room transfer leadership from one to the next, until it reaches a member with room. No member ends, and
// all of them continue when there is room.
func TestPropose_AnotherDiskHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 3)
		accepts := func(n *node.Node) error { // it may not lead yet
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for {
				if _, err := n.Propose(ctx, nil); err == nil || ctx.Err() != nil {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		var roomy *node.Node
		for _, roomy = range []*node.Node{c.Leader(), c.Follower()} {
			for id, disk := range disks {
				if disk.set(errDisk, false); id == roomy.Status().ID {
					disk.set(nil, false)
				}
			}
			require.NoError(t, accepts(roomy))
			assert.Equal(t, raft.Leader, roomy.Status().Role)
		}
		full := c.Follower()
		var notLeader *node.NotLeaderError
		_, err := full.Propose(t.Context(), nil)
		require.ErrorAs(t, err, &notLeader, "it is not its disk that matters")
		for _, disk := range disks {
			disk.set(nil, false)
		}
		require.NoError(t, roomy.TransferLeadership(t.Context(), full.Status().ID))
		require.NoError(t, accepts(full))
	})
}

// A panic of RoomStorage.Room does not end the process.
func TestPropose_WhereRoomPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 1)
		leader := c.Leader()
		disks[leader.Status().ID].set(errBroken, false)
		_, err := leader.Propose(t.Context(), []byte("a command"))
		require.NoError(t, err)
	})
}

// A leader does not count voters that cannot take its entries, although they answer its heartbeats.
func TestTolerance_DoesNotCountVotersWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 3)
		leader := c.Leader()
		followers := others(c, leader)
		says := func(want string) func() bool {
			return func() bool { return strings.HasPrefix(leader.Status().Tolerance, want) }
		}
		c.Await("all count", says("the cluster survives 1 failure more: 3 of 3 voters can be reached"))
		disks[followers[0]].set(errDisk, true)
		propose(t, leader, "waits for room at one of them")
		c.Await("one does not", says("none: 2 of 3 voters count, and the next failure stops the cluster; "+string(followers[0])+" does not count: its disk has no room"))
		disks[followers[1]].set(errDisk, true)
		c.Await("two do not", says("the cluster does not work as seen from here: 1 of 3 voters count, 2 are needed"))
		for _, m := range leader.Status().Members {
			assert.Equal(t, m.State != "self", m.Verdict == "no room", "%s: %s", m.ID, m.Problem)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.Await("its write waits for room", func() bool { return c.Node(followers[0]).Status().DiskStalled })
		assert.ErrorContains(t, c.Node(followers[0]).Ready(ctx), "its disk has no room for more entries of the log: make room")
		disks[followers[1]].set(nil, false)
		c.Await("there is room again", says("none: 2 of 3 voters count"))
	})
}

// While no disk has room, leadership moves from member to member. The status must not conclude that the election timeout is
// too short.
func TestStatus_ATransferForWantOfRoomIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks, c := onCrowdedDisks(t, 3)
		propose(t, c.Leader(), "a")
		for _, disk := range disks {
			disk.set(errDisk, false)
		}
		n := c.Node("n1")
		before := n.Metrics().LeaderChanges
		c.Await("leadership to go around", func() bool { return n.Metrics().LeaderChanges > before+20 })
		for _, id := range c.IDs() {
			assert.Empty(t, c.Node(id).Status().SlowElection)
		}
	})
}

// ofSize is a storage on a disk of a given size, of which it uses a part.
type ofSize struct {
	raft.SnapshotStorage
	size *atomic.Int64 // negative: nobody knows
}

const takenOfIt = 5 << 20

func (s ofSize) DiskBytes() (used, free int64, err error) {
	if s.size.Load() < 0 {
		return 0, 0, errors.New("unknown")
	}
	return takenOfIt, s.size.Load() - takenOfIt, nil
}

// A disk below the documented size is reported at the start, and again when a snapshot shows that it has become too small.
func TestStatus_ASmallDisk(t *testing.T) {
	const documented = 64<<20 + 128<<20
	for _, row := range []struct {
		size, later int64
		want        string // at the start
		then        string // after a snapshot
	}{
		{documented, documented, "", "should have 193 MiB for two snapshots (of 1 MiB)"},
		{documented + 1<<20, documented + 1<<20, "", ""},
		{60 << 20, documented + 1<<20, "its disk has room for 60 MiB of its data, and should have 192 MiB", ""},
		{-1, -1, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			size, log := new(atomic.Int64), new(strings.Builder)
			size.Store(row.size)
			c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal,
				Configure: func(cfg *node.Config) {
					cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
				},
				Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return ofSize{s.(raft.SnapshotStorage), size} }})
			n := c.Leader()
			says := func(want string) {
				said := n.Status().SmallDisk
				assert.Equal(t, want == "", said == "", said)
				assert.Contains(t, said, want)
				assert.Empty(t, n.Status().Members[0].Problem, "it serves")
			}
			says(row.want)
			time.Sleep(time.Minute) // the log names what lasts
			size.Store(row.later)
			proposeMany(t, n, 0, 3)
			_, err := n.Snapshot(t.Context())
			require.NoError(t, err)
			says(row.then)
			time.Sleep(time.Minute)
			require.NoError(t, n.Close())
			assert.Equal(t, row.want != "" || row.then != "", strings.Contains(log.String(), `a problem has begun: verdict="small disk"`))
		})
	}
}

// A disk that was enlarged is noticed without a snapshot or a restart.
func TestStatus_ADiskThatHasGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := new(atomic.Int64)
		size.Store(60 << 20)
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal,
			Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage { return ofSize{s.(raft.SnapshotStorage), size} }})
		assert.NotEmpty(t, c.Leader().Status().SmallDisk)
		size.Store(1 << 40)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, c.Leader().Status().SmallDisk)
	})
}
