// Package transporttest proves that a raft.Transport keeps its contract: call Run from a test of the
// transport. Recorder is the Endpoint that its tests use, for further tests of one's own.
package transporttest

import (
	"testing"
	"time"

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
}

// Network makes the transports of one test.
type Network interface {
	// New returns the transport of a member, not started. After a Close of that transport it may be
	// called for the same member again, and the new one has the same address.
	New(t *testing.T, id raft.NodeID) raft.Transport
	// Address returns where others dial the member, for which New was called before.
	Address(id raft.NodeID) string
}

// Run runs the suite, one subtest for each line of the contract.
func Run(t *testing.T, h Harness) {
	tests := []struct {
		rule string
		test func(*testing.T, *world)
	}{
		{"every type of message arrives as it was sent", testEveryMessage},
		{"each lane keeps the order of its messages", testOrder},
		{"a batch of many megabytes arrives whole", testBigBatch},
		{"a handshake tells each side all that the other says", testHandshakeBothSides},
		{"a refusal reaches the caller with every field", testRefusal},
		{"a caller who wants another member is refused", testWrongID},
		{"a caller who wants another incarnation is refused", testWrongIncarnation},
		{"an answer of another member than the dialed one is not believed", testAnotherAnswers},
		{"the caller too may find fault with its peer", testCallerRefuses},
		{"a message that claims another sender does not arrive", testWrongSender},
		{"the end of a peer is told at once, and then that nobody listens", testLostThenRefused},
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
			within(t, func(t *testing.T) { row.test(t, newWorld(t, h.Network(t))) })
		})
	}
	t.Run("a send to a stuck peer ends by the write deadline", func(t *testing.T) {
		if h.Stuck == nil {
			t.Skip("a Send of this transport lasts as long as the peer's Receive")
		}
		within(t, func(t *testing.T) {
			n, writeTimeout := h.Stuck(t)
			testStuckPeer(t, newWorld(t, n), writeTimeout)
		})
	})
}

// world is the members of one test.
type world struct {
	network Network
	open    map[raft.NodeID]raft.Transport
}

func newWorld(t *testing.T, n Network) *world {
	w := &world{network: n, open: map[raft.NodeID]raft.Transport{}}
	t.Cleanup(func() {
		for _, tr := range w.open {
			_ = tr.Close() // a test that needs it closes, and looks, itself
		}
	})
	return w
}

// member is a transport and the Endpoint that it was started with.
type member struct {
	raft.Transport
	*Recorder
}

// start starts the transport of the recorder's member.
func (w *world) start(t *testing.T, r *Recorder) member {
	t.Helper()
	tr := w.network.New(t, r.Self.From.ID)
	w.open[r.Self.From.ID] = tr
	if err := tr.Start(r); err != nil {
		t.Fatalf("start %s: %v", r.Self.From.ID, err)
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

func (m member) peer() raft.Peer { return m.Self.From }
