package transport_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memoryPair is two members of a network, connected to each other.
type memoryPair struct {
	network *transport.Network
	a, b    *transport.Memory
	ra, rb  *transporttest.Recorder
}

func newMemoryPair(t *testing.T) memoryPair {
	t.Helper()
	n := transport.NewNetwork()
	p := memoryPair{
		network: n, a: n.Join("a"), b: n.Join("b"),
		ra: transporttest.NewRecorder("a"), rb: transporttest.NewRecorder("b"),
	}
	require.NoError(t, p.a.Start(p.ra))
	require.NoError(t, p.b.Start(p.rb))
	p.a.Connect(at("b", ""))
	p.b.Connect(at("a", ""))
	p.ra.AwaitUp(t, "b")
	p.rb.AwaitUp(t, "a")
	return p
}

func (p memoryPair) close(t *testing.T) {
	require.NoError(t, p.a.Close())
	require.NoError(t, p.b.Close())
}

func ping(from, to *transporttest.Recorder) []raft.Message {
	return []raft.Message{{From: from.Self.From, To: to.Self.From, Body: raft.TimeoutNow{}}}
}

func TestNetwork_CutPartsBothUntilHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMemoryPair(t)
		defer p.close(t)
		p.network.Cut("a", "b")
		p.ra.AwaitLost(t, "b", false)
		p.rb.AwaitLost(t, "a", false)
		assert.Error(t, p.a.Send(firstOf("b"), raft.LaneUrgent, ping(p.ra, p.rb)))
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.False(t, p.a.Peer(firstOf("b")).Connected)
		p.network.Heal("b", "a")
		healed := time.Now()
		p.ra.AwaitUp(t, "b")
		p.rb.AwaitUp(t, "a")
		assert.Zero(t, time.Since(healed), "nobody waits until the end of a pause")
	})
}

func TestNetwork_CutOneWayLeavesTheOtherDirectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMemoryPair(t)
		defer p.close(t)
		p.network.CutOneWay("a", "b")
		p.ra.AwaitLost(t, "b", false)
		require.Error(t, p.a.Send(firstOf("b"), raft.LaneUrgent, ping(p.ra, p.rb)))
		require.NoError(t, p.b.Send(firstOf("a"), raft.LaneUrgent, ping(p.rb, p.ra)))
		p.ra.AwaitMessages(t, 1)
		assert.True(t, p.b.Peer(firstOf("a")).Connected)
		p.network.HealAll()
		p.ra.AwaitUp(t, "b")
	})
}

func TestNetwork_MemberThatJoinsAgainReplacesItsFormerTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMemoryPair(t)
		defer p.close(t)
		again := p.network.Join("b")
		p.ra.AwaitLost(t, "b", true)
		r := transporttest.NewRecorder("b")
		r.Self.StartCount = 2
		require.NoError(t, again.Start(r))
		assert.Equal(t, uint64(2), p.ra.AwaitUp(t, "b").Hello.StartCount)
		require.Error(t, p.b.Send(firstOf("a"), raft.LaneUrgent, ping(p.rb, p.ra)), "the former transport is cut off")
		require.NoError(t, p.a.Send(firstOf("b"), raft.LaneUrgent, ping(p.ra, r)))
		r.AwaitMessages(t, 1)
		require.NoError(t, again.Close())
	})
}

// An idle network costs no virtual time and no work: every goroutine waits.
func TestNetwork_IdleMembersOnlyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMemoryPair(t)
		defer p.close(t)
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
		assert.True(t, p.a.Peer(firstOf("b")).Connected)
		assert.Zero(t, p.ra.Count()-countHandshakes(p.ra))
	})
}

// countHandshakes counts the events of handshakes, and removes them from r.
func countHandshakes(r *transporttest.Recorder) int {
	before := r.Count()
	r.Discard(func(e transporttest.Event) bool {
		return e.Kind == transporttest.EventChecked || e.Kind == transporttest.EventAccepted
	})
	return before - r.Count()
}

func TestNetwork_TwoIncarnationsOfOneIDAreFoundByTheirAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := transport.NewNetwork()
		a, first, second := n.Join("a"), n.JoinAt("b", "old:1"), n.JoinAt("b", "new:1")
		ra, r1, r2 := transporttest.NewRecorder("a"), transporttest.NewRecorder("b"), transporttest.NewRecorder("b")
		r2.Self.From.Incarnation = 2
		for tr, r := range map[*transport.Memory]*transporttest.Recorder{a: ra, first: r1, second: r2} {
			require.NoError(t, tr.Start(r))
			defer func() { require.NoError(t, tr.Close()) }()
		}
		a.Connect(at("b", "new:1"))
		assert.Equal(t, r2.Self.From, ra.AwaitUp(t, "b").Peer)
		a.Connect([]raft.Contact{
			{Member: raft.Member{ID: "b", Incarnation: 1}, Addresses: []string{"old:1"}},
			{Member: raft.Member{ID: "b", Incarnation: 2}, Addresses: []string{"new:1"}},
		})
		assert.Equal(t, r1.Self.From, ra.AwaitUp(t, "b").Peer)
		n.Cut("a", "b")
		synctest.Wait()
		assert.False(t, a.Peer(r1.Self.From).Connected)
		assert.False(t, a.Peer(r2.Self.From).Connected, "a cut is by id")
		a.Connect(at("b", "nowhere:1"))
		n.HealAll()
		synctest.Wait()
		require.ErrorContains(t, a.Peer(raft.Peer{ID: "b"}).Err, "nobody listens")
	})
}

// What is not sent because the peer is not connected may be sent elsewhere.
func TestSend_WithoutAConnectionNothingHasLeft(t *testing.T) {
	p := newMemoryPair(t)
	defer p.close(t)
	tcp, err := transport.Listen("127.0.0.1:0", transport.Options{})
	require.NoError(t, err)
	defer tcp.Close()
	require.NoError(t, tcp.Start(transporttest.NewRecorder("a")))
	for _, wire := range []raft.Transport{p.a, tcp} {
		assert.ErrorIs(t, wire.Send(raft.Peer{ID: "c", Incarnation: 1}, raft.LaneForward, nil), raft.ErrNotSent)
	}
}

// RefusedFor counts only while each dial of each address finds a host where nobody listens.
func TestMemory_RefusedForIsTheTimeInWhichEachDialWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		a := network.Join("a")
		require.NoError(t, a.Start(transporttest.NewRecorder("a")))
		defer func() { require.NoError(t, a.Close()) }()
		refused := func() time.Duration { return a.Peer(firstOf("b")).RefusedFor }
		assert.Zero(t, refused())
		a.Connect(at("b", "b:1"))
		synctest.Wait()
		assert.Equal(t, time.Duration(1), refused(), "once")
		time.Sleep(10 * time.Second)
		assert.Greater(t, refused(), 8*time.Second)
		assert.LessOrEqual(t, refused(), 10*time.Second)
		network.Cut("a", "b")
		time.Sleep(2 * time.Second)
		assert.Zero(t, refused(), "no host answers")
		network.Heal("a", "b")
		time.Sleep(3 * time.Second)
		assert.Less(t, refused(), 4*time.Second, "it begins again")
		assert.NotZero(t, refused())
		a.Connect(at("b", "b:2"))
		synctest.Wait()
		assert.Equal(t, time.Duration(1), refused(), "another address begins again, too")
		b := network.Join("b")
		require.NoError(t, b.Start(transporttest.NewRecorder("b")))
		defer func() { require.NoError(t, b.Close()) }()
		time.Sleep(2 * time.Second)
		assert.True(t, a.Peer(firstOf("b")).Connected)
		assert.Zero(t, refused())
	})
}
