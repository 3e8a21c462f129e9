// Package transporttest proves that a raft.Transport keeps its contract: call Run from a test of the
// transport. Recorder is the Handler that its tests use, for further tests of one's own.
package transporttest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// Harness is what Run needs to know of a transport.
type Harness struct {
	// Network returns a fresh network for one test. Its transports must redial at least every second.
	Network func(t *testing.T) Network
	// Within runs each test, for instance in a bubble: synctest.Test. Nil: as it is.
	Within func(t *testing.T, test func(t *testing.T))
	// Stuck returns a network whose transports have that write deadline, a short one, for the test of
	// a peer that does not read. Nil: a transport whose Send lasts as long as the peer's Receive,
	// which skips that test.
	Stuck func(t *testing.T) (n Network, writeTimeout time.Duration)
	// Profile says what the transport does not promise. Zero: it is like TCP.
	Profile Profile
}

// Profile is what a transport may lack, and still keep the contract of raft.Transport. Each field says which checks it
// changes; all others apply to every transport. Messages in calls are Connectionless, datagrams both.
//
// Every transport has the handshake: the hello of a peer is checked before any of its messages is taken.
// No check sends an append with more entries than the transport's AppendBytesMax allows.
type Profile struct {
	// Connectionless: nothing breaks when a peer ends or restarts, or when a message is refused. The transport
	// finds out by silence, within seconds, and calls Lost without knowing whether anybody listens. Left out is
	// "the end of a peer is told at once, and then that nobody listens"; elsewhere Lost may come with refused or
	// without, and a message that claims another sender is dropped and nothing else happens.
	Connectionless bool
	// Unordered: messages may be lost, doubled, or overtake each other. Left out are "each lane keeps the order of
	// its messages" and "a batch of many megabytes arrives whole"; elsewhere a message is sent until it arrives.
	Unordered bool
}

// Network makes the transports of one test.
type Network interface {
	// New returns the transport of a member, not started. After a Close of that transport it may be
	// called for the same member again, and the new one has the same address.
	New(t *testing.T, id raft.NodeID) raft.Transport
	// Address returns where others dial the member, for which New was called before.
	Address(id raft.NodeID) string
}

// The rules that a Profile leaves out.
const (
	ruleOrder    = "each lane keeps the order of its messages"
	ruleBigBatch = "a batch of many megabytes arrives whole"
	ruleEnd      = "the end of a peer is told at once, and then that nobody listens"
)

// Run runs the suite, one subtest for each line of the contract.
func Run(t *testing.T, h Harness) {
	leftOut := map[string]bool{
		ruleOrder: h.Profile.Unordered, ruleBigBatch: h.Profile.Unordered, ruleEnd: h.Profile.Connectionless,
	}
	tests := []struct {
		rule string
		test func(*testing.T, *world)
	}{
		{"every type of message arrives as it was sent", testEveryMessage},
		{ruleOrder, testOrder},
		{ruleBigBatch, testBigBatch},
		{"a handshake tells each side all that the other says", testHandshakeBothSides},
		{"a rejection reaches the caller with every field", testRefusal},
		{"a caller who wants another member is refused", testWrongID},
		{"a caller who wants another incarnation is refused", testWrongIncarnation},
		{"an answer of another member than the dialed one is not believed", testAnotherAnswers},
		{"the caller too may find fault with its peer", testCallerRefuses},
		{"a message that claims another sender does not arrive", testWrongSender},
		{ruleEnd, testLostThenRefused},
		{"a peer that returns on its address is connected again", testRestart},
		{"a send to a peer without a connection fails at once", testNotConnected},
		{"Connect replaces the list of peers", testConnectReplaces},
		{"a list that names the member itself does no harm", testSelf},
		{"Peer says how the connection is", testPeerStatus},
		{"Close is idempotent, and nothing is told after it", testClose},
	}
	within := h.Within
	if within == nil {
		within = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	for _, row := range tests {
		t.Run(row.rule, func(t *testing.T) {
			if leftOut[row.rule] {
				t.Skip("the transport's Profile leaves this check out")
			}
			within(t, func(t *testing.T) { row.test(t, newWorld(t, h.Network(t), h.Profile)) })
		})
	}
	t.Run("a send to a stuck peer ends by the write deadline", func(t *testing.T) {
		if h.Stuck == nil {
			t.Skip("a Send of this transport lasts as long as the peer's Receive")
		}
		within(t, func(t *testing.T) {
			n, writeTimeout := h.Stuck(t)
			testStuckPeer(t, newWorld(t, n, h.Profile), writeTimeout)
		})
	})
}

// world is the members of one test.
type world struct {
	network Network
	profile Profile
	open    map[raft.NodeID]raft.Transport

	delivered []raft.Message
}

func newWorld(t *testing.T, n Network, p Profile) *world {
	w := &world{network: n, profile: p, open: map[raft.NodeID]raft.Transport{}}
	t.Cleanup(func() {
		for _, tr := range w.open {
			_ = tr.Close() // a test that needs it closes, and looks, itself
		}
	})
	return w
}

// member is a transport and the Handler that it was started with.
type member struct {
	raft.Transport
	*Recorder
}

// start starts the transport of the recorder's member.
func (w *world) start(t *testing.T, r *Recorder) member {
	t.Helper()
	return w.startAt(t, r.Self.From.ID, r)
}

// startAt starts the recorder's member on the address of that member, which may be another.
func (w *world) startAt(t *testing.T, id raft.NodeID, r *Recorder) member {
	t.Helper()
	tr := w.network.New(t, id)
	w.open[id] = tr
	if err := tr.Start(r); err != nil {
		t.Fatalf("start %s: %v", id, err)
	}
	return member{tr, r}
}

// at returns the members of these ids, for Connect.
func (w *world) at(ids ...raft.NodeID) []raft.Member {
	var peers []raft.Member
	for _, id := range ids {
		peers = append(peers, raft.Member{ID: id, Address: w.network.Address(id)})
	}
	return peers
}

// pair starts a and b and connects a to b.
func (w *world) pair(t *testing.T) (a, b member) {
	t.Helper()
	a, b = w.start(t, NewRecorder("a")), w.start(t, NewRecorder("b"))
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	return a, b
}

// awaitGone waits until the member has found out that the peer has ended.
func (w *world) awaitGone(t *testing.T, m member, peer raft.NodeID) {
	t.Helper()
	m.Await(t, "the end of "+string(peer), func(e Event) bool {
		return e.Kind == EventLost && e.Peer == peer && (e.Refused || w.profile.Connectionless)
	})
}

// deliver sends the message, again and again if the transport may lose it, and returns the first one that arrives
// and is none of those that were delivered before.
func (w *world) deliver(t *testing.T, from, to member, m raft.Message) raft.Message {
	t.Helper()
	for {
		require.NoError(t, from.Send(to.Self.From.ID, laneOf(m), []raft.Message{m}))
		wait := patience
		if w.profile.Unordered {
			wait = resendAfter
		}
		e, ok := to.await(wait, func(e Event) bool {
			return e.Kind == EventReceived && !slices.ContainsFunc(w.delivered, func(d raft.Message) bool { return assert.ObjectsAreEqual(d, e.Message) })
		})
		if ok {
			assert.Equal(t, from.Self.From.ID, e.Peer)
			if w.profile.Unordered { // it may come once more
				w.delivered = append(w.delivered, e.Message)
			}
			return e.Message
		}
		if !w.profile.Unordered {
			t.Fatalf("%s: a message did not arrive within %v", to.Self.From.ID, patience)
		}
	}
}

func (m member) peer() raft.Peer { return m.Self.From }
