package session_test

import (
	"context"
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
	"github.com/coxswain/raft/session"
)

// A client that writes through any member during 30 kills of leaders sees no error, and each of its commands takes effect once.
func TestSession_ThirtyKillsOfLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		stop, done := make(chan struct{}), sync.WaitGroup{}
		said := make([][]string, 4)
		for client := range said {
			s := c.open(session.Config{})
			for worker := range 3 {
				done.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
						}
						command := fmt.Sprintf("%d.%d.%d", client, worker, i)
						_, err := s.Propose(context.Background(), []byte(command))
						assert.NoError(t, err)
						c.mu.Lock()
						said[client] = append(said[client], command)
						c.mu.Unlock()
					}
				})
			}
		}
		for range 30 {
			time.Sleep(300 * time.Millisecond)
			leader := c.Leader()
			id := leader.Status().ID
			c.mu.Lock()
			c.nodes = slices.DeleteFunc(c.nodes, func(n *node.Node) bool { return n == leader })
			c.mu.Unlock()
			c.Crash(id)
			time.Sleep(50 * time.Millisecond)
			c.start(id)
		}
		close(stop)
		done.Wait()
		counts, sum := c.counts(), 0
		for _, commands := range said {
			sum += len(commands)
			for _, command := range commands {
				require.Equal(t, 1, counts[command], command)
			}
		}
		assert.Len(t, counts, sum, "nothing else took effect")
		assert.Greater(t, sum, 1000)
	})
}

func TestSession_ARetryGetsTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		s := c.open(session.Config{})
		assert.Equal(t, "1", propose(t, s, "a"))
		lost := 0
		c.lose = func() bool { lost++; return lost%4 != 0 }
		for i := range 20 {
			assert.Equal(t, fmt.Sprint(i+2), propose(t, s, fmt.Sprint(i)))
		}
		c.lose = nil
		assert.EqualValues(t, 80, lost)
		for command, count := range c.counts() {
			assert.Equal(t, 1, count, command)
		}
		r, err := s.Propose(context.Background(), []byte("a"))
		require.NoError(t, err)
		assert.Equal(t, "22", string(r.Data), "another command, although it looks the same")
		follower := c.Follower()
		require.NoError(t, follower.WaitApplied(context.Background(), r.Index))
		assert.Equal(t, 2, c.states[follower].copy()["a"])
	})
}

// Commands without a session go on beside it.
func TestSession_BesideOtherCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		for i := range 100 { // so that a snapshot from before the first session is restored
			_, err := c.Leader().Propose(context.Background(), fmt.Append(nil, i))
			require.NoError(t, err)
		}
		id := c.Follower().Status().ID
		c.Crash(id)
		c.nodes = slices.DeleteFunc(c.nodes, func(n *node.Node) bool { return n.Status().ID == id })
		s := c.open(session.Config{})
		for i := range 200 {
			propose(t, s, fmt.Sprint("s", i))
			_, err := c.Leader().Propose(context.Background(), []byte("raw"))
			require.NoError(t, err)
		}
		c.start(id)
		counts := c.counts()
		assert.Equal(t, 200, counts["raw"])
		assert.Equal(t, 1, counts["s199"])
		assert.EqualValues(t, 4, c.Leader().Status().Level)
	})
}

func TestSession_ExpiresByTheStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		s := c.open(session.Config{Limits: session.Limits{Idle: time.Minute}})
		time.Sleep(50 * time.Second)
		propose(t, s, "a")
		time.Sleep(50 * time.Second)
		propose(t, s, "b")
		time.Sleep(70 * time.Second)
		_, err := s.Propose(context.Background(), []byte("c"))
		require.ErrorIs(t, err, session.ErrSessionExpired)
		assert.NotErrorIs(t, err, node.ErrOutcomeUnknown, "it was the first attempt")
		assert.ErrorContains(t, err, s.ID().String())
		_, err = s.Propose(context.Background(), []byte("d"))
		require.ErrorIs(t, err, session.ErrSessionExpired)
		require.NoError(t, s.Close(context.Background()))

		s = c.open(session.Config{Limits: session.Limits{Idle: time.Minute}})
		attempts := 0
		c.lose = func() bool {
			if attempts++; attempts == 1 {
				time.Sleep(2 * time.Minute) // the answer of an attempt is lost, and the session expires before the next
			}
			return attempts == 1
		}
		_, err = s.Propose(context.Background(), []byte("e"))
		require.ErrorIs(t, err, session.ErrSessionExpired)
		assert.ErrorIs(t, err, node.ErrOutcomeUnknown)
		assert.ErrorContains(t, err, "command 1")
		counts := c.counts()
		assert.Equal(t, [3]int{0, 0, 1}, [3]int{counts["c"], counts["d"], counts["e"]})
	})
}

// refusing is a cluster that refuses attempts.
type refusing struct {
	*cluster
	refusal error // nil: it does not
}

func (r *refusing) ProposeSession(ctx context.Context, entry []byte) (node.Result, error) {
	if r.refusal != nil {
		return node.Result{}, r.refusal
	}
	return r.cluster.ProposeSession(ctx, entry)
}

// A refusal says only that its own attempt is not applied. An earlier one may be.
func TestSession_ARefusalBehindALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &refusing{cluster: newCluster(t, nil)}
		s, err := session.Open(context.Background(), c, session.Config{})
		require.NoError(t, err)
		for i, refusal := range []error{raft.ErrOverloaded, &node.NotLeaderError{}, raft.ErrClosed} {
			c.refusal = nil
			c.lose = func() bool { c.refusal = refusal; return true }
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err = s.Propose(ctx, fmt.Append(nil, i))
			require.ErrorIs(t, err, node.ErrOutcomeUnknown, refusal)
			require.ErrorIs(t, err, refusal)
			require.ErrorContains(t, err, "the last attempt: ")
		}
		assert.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1}, c.counts())
	})
}

// Propose waits while its number would be beyond the window, so that no command is refused for it.
func TestSession_WaitsForItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		s := c.open(session.Config{Limits: session.Limits{Window: 2}})
		hold := make(chan struct{})
		under := make(chan string, 10)
		c.before = func(_ context.Context, entry []byte) { under <- string(entry[len(entry)-1:]); <-hold }
		var done sync.WaitGroup
		for _, command := range []string{"a", "b", "c", "d"} {
			done.Go(func() { propose(t, s, command) })
		}
		synctest.Wait()
		assert.Len(t, under, 2, "two are under way")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.Propose(ctx, []byte("e"))
		assert.Equal(t, context.DeadlineExceeded, err, "it was never sent")
		close(hold)
		done.Wait()
		c.before = nil
		assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, c.counts())
	})
}

// What the caller gives up never takes effect once the floor has passed it, and its number is not used again.
func TestSession_ACommandThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		s := c.open(session.Config{Limits: session.Limits{Window: 1}})
		c.lose = func() bool { return true }
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := s.Propose(ctx, []byte("a"))
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.lose = nil
		assert.Equal(t, "2", propose(t, s, "b"))
		_, err = session.Do(context.Background(), c, session.Command{ID: s.ID(), Number: 1, Floor: 1, Data: []byte("a")})
		require.ErrorIs(t, err, session.ErrSessionAnswered)
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, c.counts())
	})
}

func TestSession_BadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		ctx := context.Background()
		_, err := session.Open(ctx, nil, session.Config{})
		require.ErrorContains(t, err, "nil")
		var config *raft.ConfigError
		_, err = session.Open(ctx, c, session.Config{Limits: session.Limits{Window: -1}, AttemptTimeout: -1})
		require.ErrorAs(t, err, &config)
		require.ErrorContains(t, err, "AttemptTimeout")
		_, err = session.Open(ctx, c, session.Config{Limits: session.Limits{Idle: 30}}) // seconds were meant
		require.ErrorAs(t, err, &config)
		require.ErrorContains(t, err, "30ns would end the sessions of all clients")

		s := c.open(session.Config{Limits: session.Limits{Sessions: 2, Window: 3}})
		do := func(id session.ID, number, floor uint64, data string) error {
			_, err := session.Do(ctx, c, session.Command{ID: id, Number: number, Floor: floor, Data: []byte(data)})
			return err
		}
		require.NoError(t, do(s.ID(), 4, 4, "x"))
		foreign, forged, future := s.ID(), s.ID(), s.ID()
		foreign.Cluster[0]++
		forged.Nonce++
		future.Index += 1000
		for _, id := range []session.ID{foreign, forged, future, {}} {
			err := do(id, 1, 1, "refused")
			require.ErrorIs(t, err, session.ErrSessionExpired)
			require.ErrorIs(t, err, node.ErrOutcomeUnknown)
			require.ErrorContains(t, err, id.String())
			require.ErrorContains(t, err, "open another one")
		}
		err = do(s.ID(), 3, 3, "refused")
		require.ErrorIs(t, err, session.ErrSessionAnswered)
		require.ErrorContains(t, err, "command 3")
		err = do(s.ID(), 7, 4, "refused")
		require.ErrorIs(t, err, session.ErrSessionWindow)
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "window of 3 numbers from 4 on")
		require.ErrorAs(t, do(s.ID(), 4, 5, "refused"), &config)
		require.ErrorAs(t, do(s.ID(), 0, 0, "refused"), &config)

		other := c.open(session.Config{Limits: session.Limits{Sessions: 2}})
		_, err = session.Open(ctx, c, session.Config{Limits: session.Limits{Sessions: 2}})
		require.ErrorIs(t, err, session.ErrTableFull)
		require.ErrorIs(t, err, raft.ErrOverloaded)
		require.ErrorContains(t, err, "the limit is 2 (Limits.Sessions)")
		require.NoError(t, other.Close(ctx))
		other = c.open(session.Config{Limits: session.Limits{Sessions: 2, Bytes: 300}})
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = other.Propose(limited, []byte("refused"))
		require.ErrorIs(t, err, session.ErrTableFull)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, node.ErrOutcomeUnknown)
		require.NoError(t, s.Close(ctx))

		var large *session.AnswerTooLargeError
		_, err = other.Propose(ctx, []byte("large"))
		require.ErrorAs(t, err, &large)
		require.ErrorContains(t, err, "was applied")
		var tooLarge *raft.TooLargeError
		_, err = other.Propose(ctx, make([]byte, 64<<20))
		require.ErrorAs(t, err, &tooLarge)

		r, err := c.Leader().ProposeSession(ctx, []byte("malformed"))
		require.NoError(t, err, "the table answers")
		assert.Equal(t, []byte{9, 0, 0}, r.Data)
		assert.Equal(t, map[string]int{"x": 1, "large": 1}, c.counts())
	})
}

// A member whose FSM keeps no sessions refuses their entries, and ends before it would have to apply one. Nothing is lost.
func TestSession_AMemberWithoutSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := raft.NodeID("n3")
		var c *rafttest.Cluster
		starting := raft.NodeID("")
		c = rafttest.Prepare(t, rafttest.Options{
			Configure: func(cfg *node.Config) { starting, cfg.Forward = cfg.ID, true },
			NewFSM: func() raft.FSM {
				if fsm := (&counter{counts: map[string]int{}}); len(c.IDs()) > 0 && starting == "n2" { // the next one is n3
					return fsm
				}
				fsm, err := session.Wrap(&counter{counts: map[string]int{}})
				require.NoError(t, err)
				return fsm
			},
		})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		ctx := context.Background()
		transfer := func(to raft.NodeID) { // a new leader may not have heard that member yet
			c.Await("the leadership of "+string(to), func() bool {
				leader := c.Leader()
				return leader.Status().ID == to || leader.TransferLeadership(ctx, to) == nil
			})
		}
		transfer("n1")
		var none *node.NoSessionsError
		_, err := session.Open(ctx, c.Node(plain), session.Config{})
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, "session.Wrap")
		transfer(plain)
		_, err = session.Open(ctx, c.Node("n1"), session.Config{})
		require.ErrorAs(t, err, &none, "the leader refuses it")
		transfer("n1")
		_, err = c.Node("n1").Propose(ctx, []byte("x"))
		require.NoError(t, err)

		s, err := session.Open(ctx, c.Node("n1"), session.Config{})
		require.NoError(t, err)
		<-c.Node(plain).Done()
		require.ErrorAs(t, c.Node(plain).Err(), &none)
		require.Equal(t, plain, none.Member)
		c.Crash(plain)
		starting = "n2"
		_, err = c.TryStart(plain)
		require.ErrorAs(t, err, &none, "it is refused at the start")
		starting = "n1"
		c.Start(plain)
		_, err = s.Propose(ctx, []byte("y"))
		require.NoError(t, err)
		c.Converge()
	})
}

// The end of the member through which a session proposes is the end of the attempts.
func TestSession_AMemberThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		follower := c.Follower()
		s, err := session.Open(context.Background(), follower, session.Config{})
		require.NoError(t, err)
		c.Close(follower.Status().ID)
		_, err = s.Propose(context.Background(), []byte("x"))
		require.ErrorIs(t, err, raft.ErrClosed)
		require.NotErrorIs(t, err, node.ErrOutcomeUnknown)
	})
}
