package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// intruder passes requests to a leader, n1, as if n2 or another peer had sent them.
type intruder struct {
	c      *rafttest.Cluster
	tap    *forwardTap // of n1
	of     map[raft.NodeID]*forwardTap
	leader raft.Peer
	start  uint64
	term   raft.Term
	n2     raft.Peer
}

func newIntruder(t *testing.T, changes ...func(*node.Config)) *intruder {
	taps := map[raft.NodeID]*forwardTap{}
	c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(changes...),
		Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
			taps[id] = &forwardTap{Transport: wire, bytesMax: 1 << 20}
			return taps[id]
		}})
	leadBy(t, c, "n1")
	s, m := c.Node("n1").Status(), c.Node("n1").Members()
	n2, _ := m.Member("n2")
	return &intruder{
		c: c, tap: taps["n1"], of: taps, leader: raft.Peer{ID: "n1", Incarnation: s.Incarnation}, start: s.StartCount, term: s.Term, n2: n2.Peer(),
	}
}

// request returns a request of n2 that n1 carries out.
func (i *intruder) request(counter uint64, command string) (raft.Message, raft.Forward) {
	f := raft.Forward{StartCount: 50, Counter: counter, ToStart: i.start, Kind: raft.ForwardPropose, Data: []byte(command)}
	return raft.Message{From: i.n2, To: i.leader, Term: i.term}, f
}

// pass gives a request to the leader, and returns the answers to it. Answers to earlier requests, which were not delivered, may be
// sent again beside them.
func (i *intruder) pass(m raft.Message, f raft.Forward) []raft.ForwardReply {
	m.Body = f
	i.tap.answersTo(m.From)
	i.tap.handler.Receive(m.From, []raft.Message{m})
	<-time.After(5 * time.Millisecond) // of the bubble; less than a heartbeat
	synctest.Wait()
	return slices.DeleteFunc(i.tap.answersTo(m.From), func(r raft.ForwardReply) bool { return r.Counter != f.Counter })
}

// typed returns the values that a refusal carries for a type.
func typed(t *testing.T, r raft.ForwardReply, kind string, into any) {
	t.Helper()
	var wire struct {
		As []struct {
			Type  string
			Value json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(r.Error, &wire))
	for _, as := range wire.As {
		if as.Type == kind {
			require.NoError(t, json.Unmarshal(as.Value, into))
			return
		}
	}
	t.Fatalf("no %s in %s", kind, r.Error)
}

func TestBadForward_WhatMayNotBeCarriedOutIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		applied := func(counter uint64) {
			t.Helper()
			m, f := i.request(counter, "good")
			answers := i.pass(m, f)
			require.Len(t, answers, 1)
			assert.Equal(t, raft.ForwardApplied, answers[0].Outcome, "%s", answers[0].Error)
			assert.Equal(t, counter, answers[0].Counter)
		}
		for n, row := range []struct {
			rule   string
			change func(m *raft.Message, f *raft.Forward)
			want   raft.ForwardOutcome // 0: no answer
		}{
			{"for another start of the leader", func(_ *raft.Message, f *raft.Forward) { f.ToStart++ }, 0},
			{"for another incarnation of the leader", func(m *raft.Message, _ *raft.Forward) { m.To.Incarnation++ }, 0},
			{"a counter that was seen", func(_ *raft.Message, f *raft.Forward) { f.Counter = 1 }, 0},
			{"of an earlier start of the sender", func(_ *raft.Message, f *raft.Forward) { f.StartCount, f.Counter = 49, 1000 }, 0},
			{"for the leader of an earlier term", func(m *raft.Message, _ *raft.Forward) { m.Term-- }, raft.ForwardNotApplied},
			{"for the leader of a later term", func(m *raft.Message, _ *raft.Forward) { m.Term++ }, raft.ForwardNotApplied},
			{"past its deadline", func(_ *raft.Message, f *raft.Forward) { f.Left = -1 }, raft.ForwardNotApplied},
			{"a kind that nobody knows", func(_ *raft.Message, f *raft.Forward) { f.Kind = 99 }, raft.ForwardRefused},
			{"a command that is too large", func(_ *raft.Message, f *raft.Forward) { f.Data = make([]byte, 1<<20+1) }, raft.ForwardRefused},
			{"a change that cannot be read", func(_ *raft.Message, f *raft.Forward) { f.Kind = raft.ForwardChange }, raft.ForwardRefused},
			{"a change of a later release", func(_ *raft.Message, f *raft.Forward) {
				f.Kind, f.Data = raft.ForwardChange, []byte(`{"Change":{"Remove":[{"ID":"n3"}],"Gently":true}}`)
			}, raft.ForwardRefused},
			{"a transfer to nobody", func(_ *raft.Message, f *raft.Forward) { f.Kind, f.Data = raft.ForwardTransfer, []byte("n9") }, raft.ForwardRefused},
		} {
			applied(uint64(2*n + 1))
			m, f := i.request(uint64(2*n+2), "bad")
			row.change(&m, &f)
			answers := i.pass(m, f)
			if row.want == 0 {
				assert.Empty(t, answers, row.rule)
				continue
			}
			require.Len(t, answers, 1, row.rule)
			assert.Equal(t, row.want, answers[0].Outcome, "%s: %s", row.rule, answers[0].Error)
			assert.Empty(t, i.pass(m, f), "%s: a second copy gets no answer", row.rule)
		}
		assert.Len(t, i.c.Node("n1").Members().Members, 3)
		assert.NotContains(t, listOf(i.c, "n1"), "bad")
	})
}

// A request for the leader of a term that has ended, or for a member that never led, is answered as not applied.
func TestBadForward_ForALeaderThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		m, f := i.request(1, "bad")
		leadBy(t, i.c, "n3")
		for n, term := range []raft.Term{i.term, i.c.Node("n3").Status().Term, 0} {
			m.Term, f.Counter = term, uint64(n+1)
			answers := i.pass(m, f)
			require.Len(t, answers, 1)
			assert.Equal(t, raft.ForwardNotApplied, answers[0].Outcome)
			assert.Equal(t, raft.NodeID("n3"), answers[0].Leader.ID, "it names the leader")
		}
		assert.Empty(t, listOf(i.c, "n3"))
	})
}

func TestBadForward_AStrangerAndARemovedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, asked := newIntruder(t), uint64(0)
		refused := func(from raft.Peer) {
			t.Helper()
			m, f := i.request(3, "bad")
			m.From = from
			i.tap.handler.Accepted(raft.Hello{From: from}) // it has connected
			answers := i.pass(m, f)
			require.Len(t, answers, 1)
			assert.Equal(t, raft.ForwardRefused, answers[0].Outcome)
			var why node.NotMemberError
			typed(t, answers[0], "NotMember", &why)
			assert.Equal(t, node.NotMemberError{Leader: "n1", ID: from.ID, Incarnation: from.Incarnation}, why)
			assert.Empty(t, i.pass(m, f), "a second copy")
			asked++
			assert.Equal(t, node.ForwardOutcomes{Refused: asked}, i.c.Node("n1").Metrics().Forwards)
		}
		refused(raft.Peer{ID: "n9", Incarnation: 9})
		refused(raft.Peer{ID: "n2", Incarnation: i.n2.Incarnation + 1}) // an emptied disk
		_, err := i.c.Node("n1").RemoveMember(context.Background(), "n2", node.ChangeOptions{})
		require.NoError(t, err)
		refused(i.n2)
		assert.Empty(t, listOf(i.c, "n1"))
	})
}

// However many strangers ask, the leader has a lane for each member.
func TestBadForward_StrangersTakeNoLaneOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		for n := range 3 * raft.MembersMax {
			m, f := i.request(1, "bad")
			m.From, m.Body = raft.Peer{ID: "n9", Incarnation: raft.Incarnation(n + 1)}, f
			i.tap.handler.Receive(m.From, []raft.Message{m})
		}
		m, f := i.request(1, "good")
		assert.Len(t, i.pass(m, f), 1)
	})
}

func TestBadForward_ACounterThatJumpsHurtsItsSenderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		m, f := i.request(math.MaxUint64, "jump")
		require.Len(t, i.pass(m, f), 1)
		for _, counter := range []uint64{1, math.MaxUint64 - 1, math.MaxUint64, 0} {
			m, f := i.request(counter, "after it")
			assert.Empty(t, i.pass(m, f))
		}
		f.StartCount, f.Counter, f.Data = 51, 1, []byte("of the next start")
		assert.Len(t, i.pass(m, f), 1)
		propose(t, i.c.Node("n3"), "of another member")
		assert.Equal(t, []string{"jump", "of the next start", "of another member"}, listOf(i.c, "n1"))
	})
}

// A sender has no more open than the limits allow. The refusal names the limit.
func TestBadForward_BeyondTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t, func(cfg *node.Config) {
			cfg.ForwardsMax, cfg.ForwardBytesMax = 2, 1000
			cfg.ElectionTimeout = 10 * time.Second
		})
		i.c.Isolate("n1") // nothing is committed any more
		pass := func(counter uint64, bytes int) []raft.ForwardReply {
			m, f := i.request(counter, "")
			f.Data = make([]byte, bytes)
			return i.pass(m, f)
		}
		limit := func(answers []raft.ForwardReply) (why node.ForwardLimitError) {
			t.Helper()
			require.Len(t, answers, 1)
			assert.Equal(t, raft.ForwardRefused, answers[0].Outcome)
			typed(t, answers[0], "ForwardLimit", &why)
			return why
		}
		assert.Empty(t, pass(1, 2000), "one of any size")
		assert.Equal(t, node.ForwardLimitError{Member: "n2", Setting: "ForwardBytesMax", Limit: 1000}, limit(pass(2, 0)))
		i.c.Heal()
		i.c.Converge()
		synctest.Wait() // it is answered, too
		i.c.Isolate("n1")
		assert.Empty(t, pass(3, 1))
		assert.Empty(t, pass(4, 1))
		assert.Equal(t, node.ForwardLimitError{Member: "n2", Setting: "ForwardsMax", Limit: 2}, limit(pass(5, 0)))
		i.c.Heal()
	})
}

// The limits of the callers of one member.
func TestForward_TooManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := forwarding(t, func(cfg *node.Config) { cfg.ForwardsMax, cfg.ForwardBytesMax = 2, 1000 })
		leadBy(t, c, "n1")
		c.Isolate("n2")
		c.Await("no leader", func() bool { _, known := c.Node("n2").Leader(); return !known })
		ended := make(chan error, 3)
		call := func(bytes int) {
			go func() {
				_, err := c.Node("n2").Propose(within(t, time.Minute), make([]byte, bytes))
				ended <- err
			}()
			synctest.Wait()
		}
		call(2000)
		call(1)
		var limit *node.ForwardLimitError
		require.ErrorAs(t, <-ended, &limit)
		assert.Equal(t, node.ForwardLimitError{Member: "n2", Setting: "ForwardBytesMax", Limit: 1000}, *limit)
		require.ErrorIs(t, limit, raft.ErrOverloaded)
		c.Heal()
		require.NoError(t, <-ended)
		c.Isolate("n2")
		c.Await("no leader", func() bool { _, known := c.Node("n2").Leader(); return !known })
		call(1)
		call(1)
		call(1)
		require.ErrorAs(t, <-ended, &limit)
		assert.Equal(t, "ForwardsMax", limit.Setting)
		c.Heal()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
}

// An answer that is lost leaves the outcome unknown, and never makes the sender try again.
func TestBadForward_ALostAnswerIsAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		i.tap.lose(func(m raft.Message) bool { _, reply := m.Body.(raft.ForwardReply); return reply })
		_, err := i.c.Node("n2").Propose(within(t, time.Second), []byte("x"))
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		outcome := make(chan error, 1)
		go func() { outcome <- errorOf(i.c.Node("n2").Propose(context.Background(), []byte("without a deadline"))) }()
		require.ErrorIs(t, soon(t, outcome), node.ErrOutcomeUnknown, "it ends, too")

		go func() {
			_, err := i.c.Node("n2").Propose(context.Background(), []byte("y"))
			outcome <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		select {
		case err := <-outcome:
			t.Fatal("nothing has ended it:", err)
		default:
		}
		i.c.Isolate("n1") // the connections end
		err = soon(t, outcome)
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		assert.False(t, errors.Is(err, context.DeadlineExceeded))
		i.c.Heal()
		i.c.Converge()
		assert.Equal(t, []string{"x", "without a deadline", "y"}, listOf(i.c, "n3"), "each once")
	})
}

// A request does not wait at a leader that transfers its leadership. It is answered at once, and may go to the next leader.
func TestBadForward_ATransferringLeaderAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t, func(cfg *node.Config) { cfg.ElectionTimeout = 10 * time.Second })
		i.tap.lose(func(m raft.Message) bool { _, order := m.Body.(raft.TimeoutNow); return order })
		outcome := make(chan error, 1)
		go func() { outcome <- i.c.Node("n1").TransferLeadership(context.Background(), "") }()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		own := make(chan error, 1)
		go func() { own <- errorOf(i.c.Node("n1").Propose(within(t, 2*time.Second), []byte("own"))) }()
		m, f := i.request(1, "x")
		answers := i.pass(m, f)
		require.Len(t, answers, 1)
		assert.Equal(t, raft.ForwardNotApplied, answers[0].Outcome)
		select {
		case err := <-own:
			t.Fatal("a proposal of this member waits for the end of the transfer:", err)
		default:
		}
		require.Error(t, <-own)
		require.ErrorIs(t, <-outcome, node.ErrTransferTimedOut)
		i.c.Converge()
		assert.NotContains(t, listOf(i.c, "n1"), "x")
	})
}

func errorOf(_ node.Result, err error) error { return err }

// soon returns the error of a call. The test fails if the call does not end.
func soon(t *testing.T, outcome <-chan error) error {
	t.Helper()
	select {
	case err := <-outcome:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the call does not end")
		return nil
	}
}

// A caller that stops waiting may reuse its buffer, even while its command is being sent.
func TestForward_ACallerMayReuseItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		gate := make(chan struct{})
		i.of["n2"].stuck.Store(&gate)
		command := []byte("mine")
		require.ErrorIs(t, errorOf(i.c.Node("n2").Propose(within(t, time.Second), command)), node.ErrOutcomeUnknown)
		copy(command, "next")
		close(gate)
		synctest.Wait() // the request reaches the leader
		i.c.Converge()
		assert.Equal(t, []string{"mine"}, listOf(i.c, "n1"))
	})
}

// If the leader dials this member again, its answers on the connection before may be lost.
func TestForward_AnswersMayBeLostWhenTheLeaderDialsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIntruder(t)
		i.tap.lose(func(m raft.Message) bool { _, answer := m.Body.(raft.ForwardReply); return answer })
		outcome := make(chan error, 1)
		go func() { outcome <- errorOf(i.c.Node("n2").Propose(within(t, time.Hour), []byte("a"))) }()
		synctest.Wait()
		i.of["n2"].handler.Accepted(i.tap.handler.Hello(i.n2))
		require.ErrorIs(t, soon(t, outcome), node.ErrOutcomeUnknown)
	})
}
