package transporttest

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twins starts a member a, and two members with the id b and the incarnations 1 and 2.
func (w *world) twins(t *testing.T) (a, first, second member) {
	t.Helper()
	again := NewRecorder("b")
	again.Self.From.Incarnation = 2
	return w.start(t, NewRecorder("a")), w.start(t, NewRecorder("b")), w.startAt(t, "c", again)
}

// awaitPeer waits for the next event of this kind for this incarnation of the peer.
func (m member) awaitPeer(t *testing.T, kind EventKind, p raft.Peer) Event {
	t.Helper()
	return m.Await(t, string(kind)+" of "+string(p.ID), func(e Event) bool { return e.Kind == kind && e.Peer == p })
}

// awaitSuccession waits for two events: the member loses one peer, and connects to another one. raft.Handler allows both
// orders.
func (m member) awaitSuccession(t *testing.T, former, next raft.Peer) {
	t.Helper()
	for missing := map[EventKind]raft.Peer{EventLost: former, EventUp: next}; len(missing) > 0; {
		e := m.Await(t, "loss of the former and up of the next peer", func(e Event) bool {
			p, waits := missing[e.Kind]
			return waits && e.Peer == p
		})
		delete(missing, e.Kind)
	}
}

func testTwins(t *testing.T, w *world) {
	a, first, second := w.twins(t)
	contacts := []raft.Contact{w.contact(first.peer(), "b"), w.contact(second.peer(), "c")}
	a.Connect(contacts)
	for up := map[raft.Peer]bool{}; len(up) < 2; {
		up[a.AwaitUp(t, "b").Peer] = true
	}
	for _, m := range []member{first, second} {
		m.Connect(w.at("a"))
		m.AwaitUp(t, "a")
	}
	for i := range 20 {
		for _, m := range []member{first, second} {
			to, from := message(a, m, raft.Heartbeat{Commit: raft.Index(i)}), message(m, a, raft.Heartbeat{Commit: raft.Index(i)})
			assert.Equal(t, to, w.deliver(t, a, m, to))
			assert.Equal(t, from, w.deliver(t, m, a, from))
		}
	}
	require.NoError(t, second.Transport.Close())
	a.Await(t, "the end of the second incarnation", func(e Event) bool {
		assert.False(t, e.Kind == EventLost && e.Peer == first.peer(), "the first incarnation stays connected")
		return e.Kind == EventLost && (e.Refused || w.profile.Connectionless)
	})
	assert.Error(t, a.Send(second.peer(), raft.LaneUrgent, []raft.Message{message(a, second, raft.TimeoutNow{})}))
	assert.False(t, a.Peer(second.peer()).Connected)
	assert.True(t, a.Peer(first.peer()).Connected)
	last := message(a, first, raft.TimeoutNow{})
	assert.Equal(t, last, w.deliver(t, a, first, last))
}

func testSendNamesThePeer(t *testing.T, w *world) {
	a, first, second := w.twins(t)
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	for _, lane := range []raft.Lane{raft.LaneUrgent, raft.LaneBulk} {
		assert.Error(t, a.Send(second.peer(), lane, []raft.Message{message(a, second, raft.TimeoutNow{})}),
			"the open contact is connected to another incarnation")
	}
	assert.Equal(t, raft.PeerStatus{}, a.Peer(second.peer()))
	anyIncarnation := message(a, first, raft.TimeoutNow{})
	anyIncarnation.To.Incarnation = 0
	require.NoError(t, a.Send(anyIncarnation.To, raft.LaneUrgent, []raft.Message{anyIncarnation}))
	if !w.profile.Unordered {
		assert.Equal(t, anyIncarnation, first.AwaitMessages(t, 1)[0])
	}
	assert.True(t, a.Peer(raft.Peer{ID: "b"}).Connected)
	assert.True(t, a.Peer(first.peer()).Connected)
}

func testAdoption(t *testing.T, w *world) {
	a, first, second := w.twins(t)
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	a.Connect([]raft.Contact{w.contact(first.peer(), "b")})
	for i := range 20 {
		m := message(a, first, raft.Heartbeat{Commit: raft.Index(i)})
		assert.Equal(t, m, w.deliver(t, a, first, m))
	}
	assert.Zero(t, a.Count(), "the connection neither broke nor was made again")
	a.Connect([]raft.Contact{w.contact(second.peer(), "c")})
	a.awaitSuccession(t, first.peer(), second.peer())
	assert.Error(t, a.Send(first.peer(), raft.LaneUrgent, []raft.Message{message(a, first, raft.TimeoutNow{})}))
}

func testAdoptsOnlyItsPeer(t *testing.T, w *world) {
	a, first, second := w.twins(t)
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	a.Connect([]raft.Contact{w.contact(second.peer(), "b", "c")}) // the address stays
	a.awaitSuccession(t, first.peer(), second.peer())
	m := message(a, second, raft.TimeoutNow{})
	assert.Equal(t, m, w.deliver(t, a, second, m))
}

func testAddressesInTurn(t *testing.T, w *world) {
	a, b, c := w.start(t, NewRecorder("a")), w.start(t, NewRecorder("b")), w.start(t, NewRecorder("c"))
	contact := w.contact(b.peer(), "c", "b")
	a.Connect([]raft.Contact{contact})
	up := a.Await(t, "up of b, although c answers first", func(e Event) bool {
		assert.NotEqual(t, EventLost, e.Kind, "it is lost only if it is found nowhere")
		return e.Kind == EventUp
	})
	assert.Equal(t, b.peer(), up.Peer)
	assert.Equal(t, w.network.Address("b"), a.Peer(b.peer()).Address)
	require.NoError(t, c.Transport.Close())
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	again := NewRecorder("b")
	again.Self.StartCount = 2
	b = w.startAt(t, "c", again)
	a.AwaitUp(t, "b")
	assert.Equal(t, w.network.Address("c"), a.Peer(b.peer()).Address)
	m := message(a, b, raft.TimeoutNow{})
	assert.Equal(t, m, w.deliver(t, a, b, m))
}
