package node_test

import (
	"context"
	"errors"
	"fmt"
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

// forwarding returns a started cluster of three whose members forward. Each change may alter the configuration of a member.
func forwarding(t *testing.T, changes ...func(*node.Config)) *rafttest.Cluster {
	t.Helper()
	return startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(changes...)})
}

func forwards(changes ...func(*node.Config)) func(*node.Config) {
	return func(cfg *node.Config) {
		cfg.Forward = true
		for _, change := range changes {
			change(cfg)
		}
	}
}

func TestForward_AProposalOnAnyMemberIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		leader := c.Leader()
		for i, id := range c.IDs() {
			r := propose(t, c.Node(id), fmt.Sprintf("at %s", id))
			assert.Equal(t, fmt.Sprint(i+1), string(r.Data), "the FSM's answer")
			assert.Equal(t, leader.Status().Term, r.Term)
			require.NoError(t, c.Node(id).WaitApplied(t.Context(), r.Index))
			assert.Contains(t, listOf(c, id), fmt.Sprintf("at %s", id), "it reads its own write")
		}
		c.Converge()
		assert.Equal(t, []string{"at n1", "at n2", "at n3"}, listOf(c, "n1"))
	})
}

func TestForward_OnlyWhereBothMembersHaveIt(t *testing.T) {
	for _, row := range []struct {
		name             string
		leader, follower bool
		reason           string
	}{
		{"the leader takes none", false, true, "it takes no requests from other members (Config.Forward)"},
		{"the follower sends none", true, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
					cfg.Forward = map[bool]bool{true: row.leader, false: row.follower}[cfg.ID == "n1"]
				}})
				leadBy(t, c, "n1")
				_, err := c.Node("n2").Propose(within(t, time.Minute), []byte("x"))
				var elsewhere *node.NotLeaderError
				require.ErrorAs(t, err, &elsewhere)
				require.NotNil(t, elsewhere.Leader)
				assert.Equal(t, raft.NodeID("n1"), elsewhere.Leader.ID)
				assert.Equal(t, row.reason, elsewhere.Reason)
				assert.Empty(t, listOf(c, "n1"))
			})
		})
	}
}

// A leader of an earlier release gets no request. Its name and the reason come back at once.
func TestForward_ALeaderOfAnEarlierRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(),
			Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
				return earlierPeers{wire.(raft.ForwardCarrier)}
			}})
		leadBy(t, c, "n1")
		_, err := c.Node("n2").Propose(within(t, time.Minute), []byte("x"))
		var elsewhere *node.NotLeaderError
		require.ErrorAs(t, err, &elsewhere)
		require.NotNil(t, elsewhere.Leader)
		assert.Equal(t, raft.NodeID("n1"), elsewhere.Leader.ID)
		assert.Equal(t, "its release takes no requests from other members", elsewhere.Reason)
		assert.Empty(t, listOf(c, "n1"))
	})
}

// earlierPeers reports that every peer speaks the protocol before forwarding.
type earlierPeers struct{ raft.ForwardCarrier }

func (p earlierPeers) Start(e raft.Handler) error { return p.ForwardCarrier.Start(earlierHandler{e}) }

type earlierHandler struct{ raft.Handler }

func (h earlierHandler) Up(hello raft.Hello) {
	hello.Protocol = raft.ProtocolForwarding - 1
	h.Handler.Up(hello)
}

// leadBy makes a member the leader.
func leadBy(t *testing.T, c *rafttest.Cluster, id raft.NodeID) *node.Node {
	t.Helper()
	c.Await("it can lead", func() bool { // it may have to be heard from first
		leader := c.Leader()
		return leader.Status().ID == id || leader.TransferLeadership(context.Background(), id) == nil
	})
	require.NoError(t, c.Node(id).Ready(context.Background()))
	c.Converge()
	return c.Node(id)
}

func TestForward_ChangesOfMembersAndTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		leadBy(t, c, "n1")
		c.Join("n4")
		m, err := c.Node("n2").AddMember(within(t, time.Minute), c.Member("n4"), node.ChangeOptions{})
		require.NoError(t, err)
		_, added := m.Member("n4")
		assert.True(t, added)
		assert.True(t, m.Committed)
		assert.Equal(t, c.Node("n1").Members(), m)
		propose(t, c.Node("n4"), "of a new member")

		var exists *raft.MemberExistsError
		_, err = c.Node("n2").AddMember(within(t, time.Minute), c.Member("n4"), node.ChangeOptions{})
		require.ErrorAs(t, err, &exists)
		assert.Equal(t, raft.NodeID("n4"), exists.Member.ID)

		require.NoError(t, c.Node("n3").TransferLeadership(within(t, time.Minute), "n2"))
		assert.Equal(t, c.Node("n2"), c.Leader())
		require.ErrorIs(t, c.Node("n3").TransferLeadership(within(t, time.Minute), "n9"), node.ErrNoTarget)
		require.NoError(t, c.Node("n3").TransferLeadership(within(t, time.Minute), "n2"), "it leads already")
	})
}

// The leader gives a change up with its caller, so that another one may join.
func TestForward_AChangeEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		leadBy(t, c, "n1")
		c.Join("n4")
		_, err := c.Node("n2").AddMember(within(t, time.Second), raft.Member{ID: "n9", Address: "n9:1"}, node.ChangeOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Millisecond)
		_, err = c.Node("n1").AddMember(within(t, time.Minute), c.Member("n4"), node.ChangeOptions{})
		assert.NoError(t, err)
	})
}

func TestForward_NoRemoteChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t, func(cfg *node.Config) { cfg.NoRemoteChanges = true })
		leadBy(t, c, "n1")
		propose(t, c.Node("n2"), "x")
		var refused *node.RemoteChangesError
		_, err := c.Node("n2").RemoveMember(within(t, time.Minute), "n3", node.ChangeOptions{})
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, raft.NodeID("n1"), refused.Leader)
		require.ErrorAs(t, c.Node("n2").TransferLeadership(within(t, time.Minute), "n2"), &refused)
		_, err = c.Node("n1").RemoveMember(within(t, time.Minute), "n3", node.ChangeOptions{})
		assert.NoError(t, err, "the leader itself takes them")
	})
}

// The errors of the leader come back with their values.
func TestForward_TypedErrorsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t, func(cfg *node.Config) {
			if cfg.ID == "n1" {
				cfg.CommandBytesMax = 10
			}
		})
		leadBy(t, c, "n1")
		var tooLarge *raft.TooLargeError
		_, err := c.Node("n2").Propose(within(t, time.Minute), make([]byte, 11))
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, raft.TooLargeError{Bytes: 11, Limit: 10}, *tooLarge)
		_, err = c.Node("n2").Propose(within(t, time.Minute), make([]byte, 1<<20+1))
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, 1<<20, tooLarge.Limit, "this member's own limit")
		var unknown *raft.UnknownMemberError
		_, err = c.Node("n2").RemoveMember(within(t, time.Minute), "n7", node.ChangeOptions{})
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, []raft.NodeID{"n1", "n2", "n3"}, unknown.Known)
		var tooLong *raft.LeaseTooLongError
		_, err = c.Node("n2").SetLeaseDuration(within(t, time.Minute), time.Minute)
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, time.Minute, tooLong.Duration)
	})
}

// A change that changes nothing is answered with the members, also while they are those of the bootstrap.
func TestForward_AChangeOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		leadBy(t, c, "n1")
		for _, level := range []uint64{0, 5} {
			m, err := c.Node("n2").SetLeaseDuration(within(t, time.Minute), 0)
			require.NoError(t, err)
			assert.Equal(t, c.Node("n1").Members(), m)
			assert.Equal(t, level, m.Level)
			_, err = c.Node("n2").SetLeaseDuration(within(t, time.Minute), time.Millisecond)
			require.NoError(t, err)
			_, err = c.Node("n2").SetLeaseDuration(within(t, time.Minute), 0)
			require.NoError(t, err)
		}
	})
}

// Without a leader, nothing leaves. The caller's deadline ends the wait, and the error says why there is no leader.
func TestForward_WithoutALeaderACallWaitsUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		c.Isolate("n3")
		c.Await("no leader", func() bool { _, known := c.Node("n3").Leader(); return !known })
		began := time.Now()
		_, err := c.Node("n3").Propose(within(t, time.Second), []byte("x"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var elsewhere *node.NotLeaderError
		require.ErrorAs(t, err, &elsewhere)
		assert.NotEmpty(t, elsewhere.Reason)
		assert.NotErrorIs(t, err, node.ErrOutcomeUnknown)
		assert.Equal(t, time.Second, time.Since(began))

		began = time.Now()
		_, err = c.Node("n3").Propose(context.Background(), []byte("y"))
		require.ErrorAs(t, err, &elsewhere)
		assert.Less(t, time.Since(began), 11*time.Second, "without a deadline")

		go func() { time.Sleep(time.Second); c.Heal() }()
		_, err = c.Node("n3").Propose(within(t, time.Minute), []byte("z"))
		require.NoError(t, err, "a leader has come in time")
		c.Converge()
		assert.Equal(t, []string{"z"}, listOf(c, "n3"))
	})
}

// Transfers cost the callers of other members no outcome and no error.
func TestForward_AcrossTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		var applied atomic.Int64
		ctx, stop := context.WithCancel(context.Background())
		var callers sync.WaitGroup
		for i := range 16 {
			callers.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					n := c.Node(c.IDs()[(i+k)%3])
					bound, cancel := context.WithTimeout(context.Background(), time.Minute)
					_, err := n.Propose(bound, []byte(fmt.Sprintf("%d/%d", i, k)))
					cancel()
					if !assert.NoError(t, err) {
						return
					}
					applied.Add(1)
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 10 {
			time.Sleep(50 * time.Millisecond)
			_ = c.Leader().TransferLeadership(context.Background(), "")
		}
		stop()
		callers.Wait()
		c.Converge()
		list := listOf(c, "n1")
		assert.EqualValues(t, applied.Load(), len(list))
		assert.Len(t, unique(list), len(list), "each is applied once")
		assert.Positive(t, applied.Load())
	})
}

func unique(list []string) map[string]bool {
	in := make(map[string]bool, len(list))
	for _, one := range list {
		in[one] = true
	}
	return in
}

// A leader that dies leaves the requests that it has got without an outcome. All others go to the next leader.
func TestForward_TheRequestsAtALeaderThatDiesAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled atomic.Bool
		gate := make(chan struct{})
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(func(cfg *node.Config) { cfg.ElectionTimeout = time.Second }),
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				return &trap{s, func(raft.StorageWrite) error {
					if stalled.Load() && id != "n1" {
						<-gate
					}
					return nil
				}}
			}})
		leadBy(t, c, "n1")
		stalled.Store(true)
		outcome := make(chan error, 1)
		go func() {
			_, err := c.Node("n2").Propose(context.Background(), []byte("in flight"))
			outcome <- err
		}()
		synctest.Wait() // it waits for the disks
		c.Crash("n1")
		require.ErrorIs(t, soon(t, outcome), node.ErrOutcomeUnknown)
		close(gate)
	})
}

// A request that waits for its lane while the leader restarts does not go to the next start, which would not answer it.
func TestForward_ARestartOfTheLeaderWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tap *forwardTap
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(),
			Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
				of := &forwardTap{Transport: wire, bytesMax: 1 << 20}
				if id == "n2" {
					tap = of
				}
				return of
			}})
		leadBy(t, c, "n1")
		gate := make(chan struct{})
		tap.stuck.Store(&gate)
		call := func(command string) <-chan error {
			outcome := make(chan error, 1)
			go func() { outcome <- errorOf(c.Node("n2").Propose(within(t, time.Hour), []byte(command))) }()
			synctest.Wait()
			return outcome
		}
		leaving, waiting := call("leaving"), call("waiting")
		c.Crash("n1")
		require.ErrorIs(t, soon(t, leaving), node.ErrOutcomeUnknown)
		c.Start("n1")
		leadBy(t, c, "n1")
		close(gate)
		require.NoError(t, soon(t, waiting))
		c.Converge()
		assert.Equal(t, []string{"waiting"}, listOf(c, "n2"))
	})
}

// A request that has not left is sent again. One that may have left is not.
func TestForward_AFailedSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tap *forwardTap
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(),
			Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
				of := &forwardTap{Transport: wire, bytesMax: 1 << 20}
				if id == "n2" {
					tap = of
				}
				return of
			}})
		leadBy(t, c, "n1")
		notSent, broken := fmt.Errorf("not connected: %w", raft.ErrNotSent), errors.New("the connection broke")
		tap.fails.Store(&notSent)
		propose(t, c.Node("n2"), "x")
		assert.Equal(t, node.ForwardOutcomes{Sent: 2}, c.Node("n2").Metrics().Forwards)
		tap.fails.Store(&notSent)
		_, err := c.Node("n2").Propose(within(t, time.Millisecond), []byte("late"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "could not send the request to it: not connected", "it says why")
		tap.fails.Store(&broken)
		_, err = c.Node("n2").Propose(within(t, time.Minute), []byte("y"))
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		assert.Equal(t, node.ForwardOutcomes{Sent: 4, Unknown: 1}, c.Node("n2").Metrics().Forwards)
		assert.Equal(t, []string{"x"}, listOf(c, "n1"))
	})
}

// A Meta that JSON would change is refused.
func TestForward_AMetaThatIsNoText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		leadBy(t, c, "n1")
		meta := "\xff"
		m := raft.Member{ID: "n4", Address: "n4:1", Meta: meta}
		for _, change := range []raft.Change{
			{Add: []raft.Member{m}}, {Update: []raft.Update{{Peer: raft.Peer{ID: "n3"}, Meta: &meta}}},
			{Replace: []raft.Replacement{{Old: raft.Peer{ID: "n3"}, New: m}}},
		} {
			_, err := c.Node("n2").ChangeMembers(within(t, time.Minute), change, 0)
			var wrong *raft.ConfigError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, "Meta", wrong.Field)
		}
	})
}

// An answer that has not left is sent again.
func TestForward_AnAnswerThatIsNotSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		notSent := fmt.Errorf("not connected: %w", raft.ErrNotSent)
		i.tap.fails.Store(&notSent)
		r := propose(t, i.c.Node("n2"), "x")
		assert.NotZero(t, r.Index)
	})
}

// A change without a deadline does not wait for ever for an answer that was lost, and waits as long as the change runs.
func TestForward_AChangeWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		call := func(c raft.Change) <-chan error {
			outcome := make(chan error, 1)
			go func() {
				_, err := i.c.Node("n2").ChangeMembers(context.Background(), c, 0)
				outcome <- err
			}()
			synctest.Wait()
			return outcome
		}
		i.tap.lose(func(m raft.Message) bool { _, answer := m.Body.(raft.ForwardReply); return answer })
		lost := call(raft.Change{Demote: []raft.Peer{{ID: "n3"}}})
		err := soon(t, lost)
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		assert.ErrorContains(t, err, "no change is running any more")

		i.tap.lose(func(raft.Message) bool { return false })
		i.c.Crash("n3")
		waits := call(raft.Change{Add: []raft.Member{{ID: "n3", Kind: raft.Voter}}, Patience: 10 * time.Minute})
		time.Sleep(9 * time.Minute)
		require.Empty(t, waits, "the change still waits for n3")
		i.c.Start("n3")
		require.NoError(t, soon(t, waits))
	})
}

// Close answers what other members have forwarded before it ends the node.
func TestForward_CloseLeavesNoRequestWithoutAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t)
		var callers sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		for i := range 16 {
			n := c.Node([]raft.NodeID{"n2", "n3"}[i%2])
			callers.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					bound, cancel := context.WithTimeout(context.Background(), time.Minute)
					_, err := n.Propose(bound, []byte(fmt.Sprintf("%d/%d", i, k)))
					cancel()
					if !assert.NoError(t, err) {
						return
					}
					time.Sleep(time.Millisecond) // otherwise the time of the bubble stops
				}
			})
		}
		for range 5 {
			leadBy(t, c, "n1")
			c.Close("n1")
			c.Start("n1")
		}
		stop()
		callers.Wait()
		c.Converge()
		list := listOf(c, "n2")
		assert.Len(t, unique(list), len(list))
	})
}

// A member that closes takes requests for a third of an election timeout after the last one, so that the others learn who leads.
func TestForward_CloseWaitsForRequestsThatAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t, func(cfg *node.Config) { cfg.ElectionTimeout = 3 * time.Second })
		leadBy(t, c, "n1")
		began := time.Now()
		c.Close("n2")
		assert.Less(t, time.Since(began), time.Second, "it has taken none")
		c.Start("n2")
		leadBy(t, c, "n1")
		propose(t, c.Node("n2"), "x")
		began = time.Now()
		c.Close("n1")
		assert.GreaterOrEqual(t, time.Since(began), time.Second)
		assert.Less(t, time.Since(began), 4*time.Second)
	})
}

func TestForward_TheAnswerIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: func() raft.FSM { return &wordy{journal: newJournal().(*journal)} }, Configure: forwards(),
			Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
				return &forwardTap{Transport: wire, bytesMax: 1000}
			}})
		leadBy(t, c, "n1")
		r, err := c.Node("n2").Propose(within(t, time.Minute), []byte("x"))
		var tooLarge *node.AnswerTooLargeError
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, node.AnswerTooLargeError{Bytes: 1001, Limit: 1000}, *tooLarge)
		assert.Positive(t, r.Index, "it was applied")
		_, err = c.Node("n2").Propose(within(t, time.Minute), make([]byte, 1001))
		var large *raft.TooLargeError
		require.ErrorAs(t, err, &large)
		assert.Equal(t, 1000, large.Limit)
	})
}

// wordy answers each command with 1,001 bytes.
type wordy struct{ *journal }

func (w *wordy) Apply(batch []raft.Entry, results [][]byte) error {
	err := w.journal.Apply(batch, results)
	for i := range results {
		results[i] = []byte(strings.Repeat("x", 1001))
	}
	return err
}

// forwardTap lets a test see and change what a member forwards, and pass messages to it.
type forwardTap struct {
	raft.Transport
	bytesMax int
	handler  raft.Handler
	stuck    atomic.Pointer[chan struct{}]           // until it is closed, Send on that lane waits; nil: it does not
	fails    atomic.Pointer[error]                   // what the next Send on that lane returns instead of sending; nil: it sends
	loses    atomic.Pointer[func(raft.Message) bool] // nil: nothing is lost

	mu   sync.Mutex
	sent []raft.Message // on the lane for requests
}

func (p *forwardTap) lose(lost func(raft.Message) bool) { p.loses.Store(&lost) }

func (p *forwardTap) ForwardBytesMax() int { return p.bytesMax }

func (p *forwardTap) Start(e raft.Handler) error {
	p.handler = e
	return p.Transport.Start(e)
}

func (p *forwardTap) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	if lane == raft.LaneForward {
		if gate := p.stuck.Load(); gate != nil {
			<-*gate
		}
		p.mu.Lock()
		p.sent = append(p.sent, batch...)
		p.mu.Unlock()
		if failed := p.fails.Swap(nil); failed != nil {
			return *failed
		}
	}
	var left []raft.Message
	for _, m := range batch {
		if lost := p.loses.Load(); lost == nil || !(*lost)(m) {
			left = append(left, m)
		}
	}
	return p.Transport.Send(to, lane, left)
}

// answersTo returns the answers that were sent to a peer, and forgets them.
func (p *forwardTap) answersTo(to raft.Peer) (all []raft.ForwardReply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.sent {
		if r, ok := m.Body.(raft.ForwardReply); ok && m.To == to {
			all = append(all, r)
		}
	}
	p.sent = nil
	return all
}

var _ raft.ForwardCarrier = (*forwardTap)(nil)
