package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
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

// journal is a state machine that keeps every command, and answers with the number of commands.
type journal struct {
	mu       sync.Mutex
	commands []string
}

func newJournal() raft.FSM { return &journal{} }

func (j *journal) Apply(batch []raft.Entry, results [][]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, e := range batch {
		j.commands = append(j.commands, string(e.Data))
		results[i] = []byte(strconv.Itoa(len(j.commands)))
	}
	return nil
}

func (j *journal) Snapshot() (raft.FSMSnapshot, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return frozenJournal(j.commands[:len(j.commands):len(j.commands)]), nil
}

func (j *journal) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.commands = nil
	return json.Unmarshal(data, &j.commands)
}

func (j *journal) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.commands...)
}

type frozenJournal []string

func (f frozenJournal) WriteTo(ctx context.Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(f)
}

func (f frozenJournal) Close() error { return nil }

func TestJournal_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, newJournal, [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")})
}

// listOf returns the commands that a member of a cluster has applied.
func listOf(c *rafttest.Cluster, id raft.NodeID) []string { return c.FSM(id).(*journal).list() }

func propose(t *testing.T, n *node.Node, command string) node.Result {
	t.Helper()
	r, err := n.Propose(context.Background(), []byte(command))
	require.NoError(t, err)
	return r
}

func TestNode_ThreeMembersElectALeaderAndOrderCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader := c.Leader()
		first := propose(t, leader, "a")
		second := propose(t, leader, "b")
		assert.Equal(t, "1", string(first.Data))
		assert.Equal(t, "2", string(second.Data))
		assert.Equal(t, first.Index+1, second.Index)
		assert.Equal(t, leader.Status().Term, second.Term)

		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []string{"a", "b"}, listOf(c, id))
		}
	})
}

func TestNode_ASingleMemberIsACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		assert.Equal(t, "1", string(propose(t, c.Leader(), "a").Data))
		_, err := c.Leader().ReadIndex(context.Background())
		assert.NoError(t, err)
		assert.ErrorIs(t, c.Leader().TransferLeadership(context.Background(), ""), node.ErrNoTarget)
	})
}

func TestPropose_AFollowerNamesTheLeaderAndItsMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		_, err := c.Follower().Propose(context.Background(), []byte("a"))
		var notLeader *node.NotLeaderError
		require.ErrorAs(t, err, &notLeader)
		require.NotNil(t, notLeader.Leader)
		leader := c.Leader().Status().ID
		assert.Equal(t, leader, notLeader.Leader.ID)
		assert.Equal(t, "http://"+string(leader), notLeader.Leader.Meta)
	})
}

func TestPropose_TheCallerMayReuseItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		command := []byte("kept")
		_, err := c.Leader().Propose(context.Background(), command)
		require.NoError(t, err)
		copy(command, "gone")
		propose(t, c.Leader(), "next")
		c.Restart("n1")
		c.Converge()
		assert.Equal(t, []string{"kept", "next"}, listOf(c, "n1"))
	})
}

func TestReadIndex_SeesEveryAcknowledgedWriteOnEveryMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		for round := range 20 {
			written := propose(t, c.Leader(), strconv.Itoa(round))
			for _, id := range c.IDs() {
				index, err := c.Node(id).ReadIndex(context.Background())
				require.NoError(t, err, id)
				assert.GreaterOrEqual(t, index, written.Index)
				assert.Len(t, listOf(c, id), round+1, id)
			}
		}
	})
}

func TestBarrier_ReturnsOnceAllBeforeItIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		r := propose(t, c.Leader(), "a")
		index, err := c.Leader().Barrier(context.Background())
		require.NoError(t, err)
		assert.Greater(t, index, r.Index)
		assert.GreaterOrEqual(t, c.Leader().Status().Applied, index)

		_, err = c.Follower().Barrier(context.Background())
		var notLeader *node.NotLeaderError
		assert.ErrorAs(t, err, &notLeader)
	})
}

func TestTransferLeadership_ToTheNamedVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		before, to := c.Leader(), c.Follower().Status().ID
		require.NoError(t, before.TransferLeadership(context.Background(), to))
		assert.Equal(t, to, c.Leader().Status().ID)
		propose(t, c.Leader(), "a")

		var notLeader *node.NotLeaderError
		assert.ErrorAs(t, before.TransferLeadership(context.Background(), ""), &notLeader)
		assert.ErrorIs(t, c.Leader().TransferLeadership(context.Background(), "nobody"), node.ErrNoTarget)
	})
}

// A member that comes back under load answers appends from the first moment on, so the leader sends it no heartbeat. It can
// take over leadership nevertheless.
func TestTransferLeadership_ToAMemberThatCameBackUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		away := c.Leader().Status().ID
		c.Close(away)
		n := c.Leader()
		var load sync.WaitGroup
		load.Go(func() {
			for err := error(nil); err == nil; time.Sleep(3 * time.Millisecond) {
				_, err = n.Propose(context.Background(), []byte("x"))
			}
		})
		time.Sleep(time.Second)
		c.Start(away)
		time.Sleep(10 * time.Second)
		require.NoError(t, n.TransferLeadership(context.Background(), away))
		load.Wait()
		assert.Equal(t, away, c.Leader().Status().ID)
	})
}

func TestTransferLeadership_ToTheOneThatLeadsIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader, follower := c.Leader(), c.Follower()
		before, began := leader.Status(), time.Now()
		require.NoError(t, leader.TransferLeadership(context.Background(), before.ID))
		assert.Zero(t, time.Since(began))
		propose(t, leader, "no proposal is refused for it")
		assert.Equal(t, before.Leadership, leader.Status().Leadership)

		var notLeader *node.NotLeaderError
		assert.ErrorAs(t, follower.TransferLeadership(context.Background(), follower.Status().ID), &notLeader,
			"a follower transfers nothing, not even to itself")
	})
}

func TestWatch_YieldsTheLatestFirstThenEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader, follower := c.Leader(), c.Follower()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seen := make(chan raft.Leadership, 100)
		go func() {
			defer close(seen)
			for l := range follower.Watch(ctx) {
				seen <- l
			}
		}()
		assert.Equal(t, leader.Status().ID, (<-seen).Leader)

		to := follower.Status().ID
		require.NoError(t, leader.TransferLeadership(ctx, to))
		c.Await("the watcher to see it", func() bool { return (<-seen).Role == raft.Leader })
		cancel()
		for range seen {
		}
	})
}

func TestWatch_EndsWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		ended := make(chan struct{})
		go func() {
			for range c.Leader().Watch(context.Background()) {
			}
			close(ended)
		}()
		synctest.Wait()
		c.Close("n1")
		<-ended
	})
}

func TestClose_TransfersLeadershipFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		old := c.Leader().Status()
		propose(t, c.Leader(), "a")
		began := time.Now()
		c.Close(old.ID)
		assert.Less(t, time.Since(began), 150*time.Millisecond, "no election timeout had to pass")
		now := c.Leader().Status()
		assert.Equal(t, old.Term+1, now.Term)
	})
}

func TestClose_EveryCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		c.Isolate(n.Status().ID)
		ctx := context.Background()
		calls := map[string]func() error{
			"Propose":     func() error { _, err := n.Propose(ctx, []byte("a")); return err },
			"Barrier":     func() error { _, err := n.Barrier(ctx); return err },
			"ReadIndex":   func() error { _, err := n.ReadIndex(ctx); return err },
			"WaitApplied": func() error { return n.WaitApplied(ctx, 1<<40) },
		}
		errs := make(chan error, 2*len(calls))
		for _, call := range calls {
			go func() { errs <- call() }()
		}
		synctest.Wait()
		require.NoError(t, n.Close())
		require.NoError(t, n.Close(), "idempotent")
		for range calls {
			assert.Error(t, <-errs)
		}
		for name, call := range calls {
			assert.ErrorIs(t, call(), raft.ErrClosed, name)
		}
		_, err := n.WaitLeader(ctx)
		assert.ErrorIs(t, err, raft.ErrClosed)
		assert.ErrorIs(t, n.Ready(ctx), raft.ErrClosed)
		assert.ErrorIs(t, n.Err(), raft.ErrClosed)
		<-n.Done()
		s := n.Status()
		assert.ErrorIs(t, s.Err, raft.ErrClosed)
		assert.Equal(t, raft.NodeID(""), s.Leader, "a node that has ended knows of no leader")
	})
}

func TestPropose_ACancelledCallSaysWhetherTheEntryMayBeApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()

		done, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := n.Propose(done, []byte("never"))
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, node.ErrOutcomeUnknown, "it never reached the core")

		c.Isolate(n.Status().ID)
		short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err = n.Propose(short, []byte("perhaps"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "it is in the leader's log")
	})
}

func TestPropose_ALeaderThatIsCutOffDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		old := c.Leader()
		c.Isolate(old.Status().ID)
		_, err := old.Propose(context.Background(), []byte("lost"))
		assert.ErrorIs(t, err, node.ErrOutcomeUnknown)

		propose(t, c.Leader(), "kept")
		c.Heal()
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []string{"kept"}, listOf(c, id))
		}
	})
}

func TestPropose_LimitsAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			cfg.CommandBytesMax, cfg.ProposalsMax = 100, 4
		}})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		n := c.Leader()
		_, err := n.Propose(context.Background(), bytes.Repeat([]byte("x"), 101))
		var tooLarge *raft.TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, raft.TooLargeError{Bytes: 101, Limit: 100}, *tooLarge)

		c.Isolate(n.Status().ID)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		errs := make(chan error, 5)
		for range 5 {
			go func() { _, err := n.Propose(ctx, []byte("x")); errs <- err }()
		}
		assert.ErrorIs(t, <-errs, raft.ErrOverloaded, "the fifth does not wait")
	})
}

func TestRestart_KeepsWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		var want []string
		for round := range 10 {
			propose(t, c.Leader(), strconv.Itoa(round))
			want = append(want, strconv.Itoa(round))
			for _, id := range c.IDs() {
				c.Crash(id)
			}
			for _, id := range c.IDs() {
				c.Start(id)
			}
			require.NoError(t, c.Leader().Ready(context.Background()))
			c.Converge()
			for _, id := range c.IDs() {
				require.Equal(t, want, listOf(c, id), "round %d, %s", round, id)
			}
		}
	})
}

func TestCrash_TheOthersContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 5, newJournal)
		for round := range 6 {
			propose(t, c.Leader(), strconv.Itoa(round))
			old := c.Leader().Status().ID
			c.Crash(old)
			propose(t, c.Leader(), "without "+string(old))
			c.Start(old)
		}
		c.Converge()
		for _, id := range c.IDs() {
			assert.Len(t, listOf(c, id), 12)
		}
	})
}

// inquiring is a storage with a hook that runs before each call of LogBytes. Status makes this call, too.
type inquiring struct {
	raft.SnapshotStorage
	asked func()
}

func (s inquiring) LogBytes() int64 { s.asked(); return s.SnapshotStorage.LogBytes() }

func TestStatus_AppliesNothingThatIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := func() {}
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Storage: func(_ raft.NodeID, s raft.Storage) raft.Storage {
			return inquiring{s.(raft.SnapshotStorage), func() { asked() }}
		}})
		n := c.Leader()
		asked = func() { propose(t, n, "applied while Status runs") }
		s := n.Status()
		assert.LessOrEqual(t, s.Applied, s.Commit)
	})
}
