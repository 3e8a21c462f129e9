package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
)

// stuckForwards returns the part of n2 that forwards, with a lane to n1 that sends nothing.
func stuckForwards(change func(*Config)) (*forwards, *forwardLane) {
	n1, n2 := raft.Peer{ID: "n1", Incarnation: 11}, raft.Peer{ID: "n2", Incarnation: 22}
	cfg := Config{ID: "n2", Cluster: "test"}.withDefaults()
	change(&cfg)
	n := &Node{cfg: cfg, base: time.Now(), counters: newCounters(), fsmCalls: newFSMCalls(), members: newWatched(membership{})}
	n.identity = &identity{node: n, self: n2, live: map[raft.Peer]raft.StartID{n1: {Count: 3}}}
	lane := &forwardLane{to: n1, stop: make(chan struct{}), queue: queue[forwardItem]{signal: newSignal()}}
	n.forwards = &forwards{
		node: n, bytesMax: 1 << 20, sender: forward.NewSender(n2, 7), receiver: forward.NewReceiver(n2, 7, forward.Limits{}),
		lanes: map[raft.Peer]*forwardLane{n1: lane}, left: map[uint64]*forwarded{},
	}
	return n.forwards, lane
}

func toN1(data []byte) *forwarded {
	to := forward.Target{Peer: raft.Peer{ID: "n1", Incarnation: 11}, StartCount: 3, Term: 5}
	return &forwarded{to: to, kind: raft.ForwardPropose, data: data, answer: make(chan forwardAnswer, 1)}
}

// What comes after the end of a node concerns no request any more.
func TestForwards_AnAnswerAfterTheEnd(t *testing.T) {
	f, lane := stuckForwards(func(*Config) {})
	c := toN1(nil)
	lane.queue.add(forwardItem{request: c})
	f.take(lane)
	f.retain(func(raft.Peer) bool { return false })
	f.end()
	expect.Equal(t, forward.Unknown, (<-c.answer).next)
	f.answered(raft.Message{From: c.to.Peer, To: f.node.identity.self}, raft.ForwardReply{StartCount: 7, Counter: c.counter, Outcome: raft.ForwardApplied})
	f.lost(c.to.Peer)
	expect.Empty(t, c.answer)
}

// Callers that come and go while a lane sends nothing leave a bounded number of requests behind, and no commands.
func TestForwards_AStuckLaneHoldsABoundedNumber(t *testing.T) {
	f, lane := stuckForwards(func(cfg *Config) { cfg.ForwardsMax = 3 })
	gone, stop := context.WithCancel(t.Context())
	stop()
	for range 10 {
		expect.Equal(t, forward.Again, f.send(gone, toN1([]byte("x"))).next)
	}
	require.Equal(t, 3, lane.queue.len())
	for _, item := range lane.queue.waiting() {
		expect.Nil(t, item.request.data)
	}
	f.take(lane)
	expect.Zero(t, lane.queue.len())
	expect.Empty(t, f.left)
}

// If the bytes of the answers that wait for a lane reach the limit, further ones say that the outcome is unknown.
func TestForwards_TheAnswersThatWaitAreBounded(t *testing.T) {
	f, lane := stuckForwards(func(cfg *Config) { cfg.ForwardBytesMax = 100 })
	answer := func(reply raft.ForwardReply) raft.ForwardReply {
		f.carrying++
		f.answer(raft.Message{From: lane.to}, raft.Forward{}, raft.Leadership{}, reply)
		waiting := lane.queue.waiting()
		return waiting[len(waiting)-1].answer.Body.(raft.ForwardReply)
	}
	applied := raft.ForwardReply{Outcome: raft.ForwardApplied, Data: make([]byte, 60)}
	refused := raft.ForwardReply{Outcome: raft.ForwardRefused}
	expect.Equal(t, applied, answer(applied))
	expect.Equal(t, applied, answer(applied))
	expect.Equal(t, raft.ForwardReply{Outcome: raft.ForwardUnknown}, answer(applied))
	expect.Equal(t, refused, answer(refused), "it takes no room")
	f.take(lane)
	expect.Equal(t, applied, answer(applied))
}

// Close waits neither for the answer to a caller that has gone nor for one that could not be sent.
func TestForwards_CloseWaitsForNothingThatHasEnded(t *testing.T) {
	f, lane := stuckForwards(func(*Config) {})
	c := toN1(nil)
	lane.queue.add(forwardItem{request: c})
	f.take(lane)
	expect.False(t, f.settled(0), "its caller waits")
	expect.Equal(t, forward.Unknown, f.abandon(c, context.Canceled).next)
	expect.True(t, f.settled(0))

	f.carrying++
	f.answer(raft.Message{From: lane.to}, raft.Forward{}, raft.Leadership{}, raft.ForwardReply{Outcome: raft.ForwardApplied})
	expect.False(t, f.settled(0), "its answer waits")
	f.node.transport = brokenWire{}
	f.deliver(lane)
	expect.True(t, f.settled(0))
}

// brokenWire sends nothing.
type brokenWire struct{ raft.Transport }

func (brokenWire) Send(raft.Peer, raft.Lane, []raft.Message) error { return errors.New("broken") }

// downWire is not connected.
type downWire struct {
	raft.Transport
	tries atomic.Int32
}

func (w *downWire) Send(raft.Peer, raft.Lane, []raft.Message) error {
	if w.tries.Add(1) > 1000 {
		return errors.New("too many tries")
	}
	return raft.ErrNotSent
}

// The lane to a peer that is away pauses between two tries also if more answers wait than fit into one batch, and then gives up.
func TestForwards_AnswersToAPeerThatIsAwayDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lane := stuckForwards(func(*Config) {})
		wire := &downWire{}
		f.node.transport = wire
		f.mu.Lock()
		for range 2*sendBatchMax + 1 {
			f.carrying++
			f.answer(raft.Message{From: lane.to}, raft.Forward{}, raft.Leadership{}, raft.ForwardReply{Outcome: raft.ForwardApplied})
		}
		f.mu.Unlock()
		go f.run(lane)
		time.Sleep(2 * answerPatience)
		expect.True(t, f.settled(0))
		expect.LessOrEqual(t, wire.tries.Load(), int32(2*answerPatience/answerPause))
		close(lane.stop)
	})
}

// Peers that no configuration names leave lanes for members.
func TestForwards_StrangersLeaveLanesForMembers(t *testing.T) {
	f, _ := stuckForwards(func(*Config) {})
	f.node.members.publish(membership{now: Members{Configuration: raft.NewConfiguration([]raft.Member{{ID: "n3", Incarnation: 33, Address: "n3:1"}})}})
	for i := range 2 * sendersMax {
		f.lane(raft.Peer{ID: "stranger", Incarnation: raft.Incarnation(i + 1)})
	}
	expect.Len(t, f.lanes, sendersMax-raft.MembersMax)
	expect.NotNil(t, f.lane(raft.Peer{ID: "n3", Incarnation: 33}))
	f.end()
	f.node.wg.Wait()
}

// A peer may send any value of any type.
func TestForwardErrors_AnyValueHasAText(t *testing.T) {
	for _, known := range knownTypes {
		for _, value := range []string{"null", "{}"} {
			if err, ok := known.decode(json.RawMessage(value)); ok {
				expect.NotEmpty(t, err.Error(), known.name)
			}
		}
	}
}
