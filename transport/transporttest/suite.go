// Package transporttest checks that a raft.Transport keeps its contract. To use it, call Run from a test of the transport.
// Recorder is the Handler of these checks; your own tests may use it, too.
package transporttest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// Harness describes a transport to Run.
type Harness struct {
	// Network returns a fresh network for one test. Its transports must redial at least every second.
	Network func(t *testing.T) Network
	// Within runs each test, for instance in a bubble: synctest.Test. Nil: Run calls the test directly.
	Within func(t *testing.T, test func(t *testing.T))
	// Stuck returns a network for the check with a peer that does not read. The transports of the network have a short write
	// deadline, writeTimeout. Nil skips that check. Set it to nil for a transport whose Send lasts as long as the peer's
	// Receive.
	Stuck func(t *testing.T) (n Network, writeTimeout time.Duration)
	// Profile names the properties that the transport lacks. The zero value is for a transport like TCP.
	Profile Profile
}

// Profile names the properties that a transport lacks. Without these properties, the transport still keeps the contract of
// raft.Transport. Each field says which checks it changes. All other checks apply to every transport. A transport that sends
// messages in RPCs is Connectionless. A transport that sends datagrams is Connectionless and Unordered.
//
// Every transport has the handshake: it checks a peer's hello before it accepts any of the peer's messages. No check sends an
// append with more bytes of entries than the transport's AppendBytesMax allows. If a transport is no raft.SnapshotCarrier
// or no raft.ForwardCarrier, the checks of that lane are skipped.
type Profile struct {
	// Connectionless: no connection breaks when a peer ends or restarts, or when a message is refused. The transport notices
	// the peer's silence within seconds. It then calls Lost without knowing whether anybody listens. The checks of the news
	// that a peer has ended are left out. In the other checks, refused may be true or false, and the transport only drops a
	// message that claims another sender.
	Connectionless bool
	// Unordered: messages may be lost or doubled, or may overtake each other. The checks "each lane keeps the order of its
	// messages", "a batch of many megabytes arrives whole", "chunks of snapshots arrive whole and in order" and "callers'
	// requests and answers of any size arrive whole and in order" are left out. The other checks repeat a message until it
	// arrives.
	Unordered bool
}

// Network creates the transports of one check.
type Network interface {
	// New returns a transport at an address that no other transport uses. The transport is not started. After the transport
	// is closed, New may be called with the same name again. Then the new transport has the same address. Run may start a
	// transport with a member id that differs from the name. The names and ids are a, b and c.
	New(t *testing.T, name raft.NodeID) raft.Transport
	// Address returns the address at which others dial the transport with that name. Run calls New for that name before
	// Address.
	Address(name raft.NodeID) string
}

// The rules that a Profile leaves out.
const (
	ruleOrder    = "each lane keeps the order of its messages"
	ruleBigBatch = "a batch of many megabytes arrives whole"
	ruleChunks   = "chunks of snapshots arrive whole and in order"
	ruleRequests = "callers' requests and answers of any size arrive whole and in order"
	ruleEnd      = "the end of a peer is reported at once, and then once that nobody listens"
	ruleDial     = "a dial that fails is no news of the peer's end"
	ruleOwn      = "a connection that this side closes is no news of the peer's end"
	ruleAlive    = "a connection that breaks while the peer lives is no news of its end"
)

// Run runs the checks, one subtest for each rule of the contract.
func Run(t *testing.T, h Harness) {
	leftOut := map[string]bool{
		ruleOrder: h.Profile.Unordered, ruleBigBatch: h.Profile.Unordered, ruleChunks: h.Profile.Unordered,
		ruleRequests: h.Profile.Unordered,
	}
	for _, rule := range []string{ruleEnd, ruleDial, ruleOwn, ruleAlive} {
		leftOut[rule] = h.Profile.Connectionless
	}
	tests := []struct {
		rule string
		test func(*testing.T, *world)
	}{
		{"every type of message arrives as it was sent", testEveryMessage},
		{ruleOrder, testOrder},
		{ruleBigBatch, testBigBatch},
		{"a handshake delivers every field of each side's hello", testHandshakeBothSides},
		{"a rejection reaches the caller with every field", testRejection},
		{"a caller that wants another member is rejected", testWrongID},
		{"a caller that wants another incarnation is rejected", testWrongIncarnation},
		{"an answer of a member other than the dialed one is ignored", testAnotherAnswers},
		{"the caller, too, may reject its peer", testCallerRejects},
		{"a message that claims another sender does not arrive", testWrongSender},
		{ruleEnd, testLostThenRefused},
		{ruleDial, testFailedDial},
		{ruleOwn, testClosedHere},
		{ruleAlive, testBrokenButAlive},
		{"a peer that returns at its address is connected again", testRestart},
		{"a send to a peer without a connection fails at once", testNotConnected},
		{"Connect replaces the list of peers", testConnectReplaces},
		{"Disconnect closes the connections of one caller, which may dial again", testDisconnect},
		{"a list that names the member itself does no harm", testSelf},
		{"two incarnations of one id are two peers", testTwins},
		{"a send goes to the incarnation that it names", testSendNamesThePeer},
		{"a contact takes over the connection of an open contact", testAdoption},
		{"a contact takes over no connection to another incarnation", testAdoptsOnlyItsPeer},
		{"the addresses of a contact are tried in turn", testAddressesInTurn},
		{ruleChunks, testChunks},
		{ruleRequests, testRequests},
		{"a snapshot that waits delays no message of the other lanes", testSideWaits(raft.LaneSnapshot)},
		{"a request that waits delays no message of the other lanes", testSideWaits(raft.LaneForward)},
		{"a send of a chunk to a peer without a connection fails at once", testSideNotConnected(raft.LaneSnapshot)},
		{"a send of a request to a peer without a connection fails at once", testSideNotConnected(raft.LaneForward)},
		{"a peer that returns gets chunks of snapshots again", testSideAfterRestart(raft.LaneSnapshot)},
		{"a peer that returns gets requests again", testSideAfterRestart(raft.LaneForward)},
		{"Peer returns the state of the connection", testPeerStatus},
		{"Close is idempotent, and no call of the Handler follows it", testClose},
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

// world holds the members of one check.
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
			_ = tr.Close() // a test of Close calls it itself and checks the error
		}
	})
	return w
}

// member is a started transport with its Handler.
type member struct {
	raft.Transport
	*Recorder
}

// start starts the transport of the recorder's member.
func (w *world) start(t *testing.T, r *Recorder) member {
	t.Helper()
	return w.startAt(t, r.Self.From.ID, r)
}

// startAt starts the recorder's member at the address of the member id. The recorder's member may have another id.
func (w *world) startAt(t *testing.T, id raft.NodeID, r *Recorder) member {
	t.Helper()
	tr := w.network.New(t, id)
	w.open[id] = tr
	if err := tr.Start(r); err != nil {
		t.Fatalf("start %s: %v", id, err)
	}
	return member{tr, r}
}

// at returns open contacts with these ids.
func (w *world) at(ids ...raft.NodeID) []raft.Contact {
	var contacts []raft.Contact
	for _, id := range ids {
		contacts = append(contacts, w.contact(raft.Peer{ID: id}, id))
	}
	return contacts
}

// contact returns the contact of a peer. Its addresses are those of the members at.
func (w *world) contact(p raft.Peer, at ...raft.NodeID) raft.Contact {
	c := raft.Contact{Member: raft.Member{ID: p.ID, Incarnation: p.Incarnation}}
	for _, id := range at {
		c.Addresses = append(c.Addresses, w.network.Address(id))
	}
	return c
}

// pair starts a and b and connects a to b.
func (w *world) pair(t *testing.T) (a, b member) {
	t.Helper()
	a, b = w.start(t, NewRecorder("a")), w.start(t, NewRecorder("b"))
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	return a, b
}

// awaitGone waits until the member has noticed that the peer has ended.
func (w *world) awaitGone(t *testing.T, m member, peer raft.NodeID) {
	t.Helper()
	m.Await(t, "the end of "+string(peer), func(e Event) bool {
		return e.Kind == EventLost && e.Peer.ID == peer && (e.Refused || w.profile.Connectionless)
	})
}

// deliver sends the message. If the transport may lose the message, deliver sends it repeatedly. It returns the first message
// that arrives and that it did not return before.
func (w *world) deliver(t *testing.T, from, to member, m raft.Message) raft.Message {
	t.Helper()
	for {
		require.NoError(t, from.Send(to.peer(), laneOf(from, m), []raft.Message{m}))
		wait := patience
		if w.profile.Unordered {
			wait = resendAfter
		}
		e, ok := to.await(wait, func(e Event) bool {
			return e.Kind == EventReceived && !slices.ContainsFunc(w.delivered, func(d raft.Message) bool { return assert.ObjectsAreEqual(d, e.Message) })
		})
		if ok {
			assert.Equal(t, from.peer(), e.Peer)
			if w.profile.Unordered { // it may arrive again
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
