package transporttest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nobody is a peer that never runs.
var nobody = raft.Peer{ID: "nobody", Incarnation: 1}

// message returns a message from a to b.
func message(a, b member, body raft.Body) raft.Message {
	return raft.Message{From: a.peer(), To: b.peer(), Term: 7, Body: body}
}

func testEveryMessage(t *testing.T, w *world) {
	a, b := w.pair(t)
	for _, m := range Messages(a.peer(), b.peer()) {
		if r, ok := m.Body.(raft.AppendRequest); ok {
			m.Body = carried(a, r)
		}
		assert.Equal(t, m, w.deliver(t, a, b, m))
	}
}

// carried returns r. If the entries of r exceed the transport's limit, it returns a small append instead.
func carried(t raft.Transport, r raft.AppendRequest) raft.AppendRequest {
	size := 0
	for _, e := range r.Entries {
		size += len(e.Record())
	}
	if t.AppendBytesMax() == 0 || size <= t.AppendBytesMax() {
		return r
	}
	return Append(r.Prev, []int{0, 1, 300}, r.Commit)
}

func testOrder(t *testing.T, w *world) {
	const count, batchLength = 600, 7
	a, b := w.pair(t)
	var urgent, bulk []raft.Message
	for i := range count {
		urgent = append(urgent, message(a, b, raft.Heartbeat{Round: raft.RPCID{Counter: uint64(i)}}))
		bulk = append(bulk, message(a, b, raft.AppendReply{Match: raft.Index(i)}))
	}
	sent := make(chan error, 2)
	for lane, messages := range map[raft.Lane][]raft.Message{raft.LaneUrgent: urgent, raft.LaneBulk: bulk} {
		go func() {
			var err error
			for len(messages) > 0 {
				n := min(batchLength, len(messages))
				err = errors.Join(err, a.Send(b.peer(), lane, messages[:n]))
				messages = messages[n:]
			}
			sent <- err
		}()
	}
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
	var gotUrgent, gotBulk []raft.Message
	for _, m := range b.AwaitMessages(t, 2*count) {
		if m.Lane() == raft.LaneBulk {
			gotBulk = append(gotBulk, m)
		} else {
			gotUrgent = append(gotUrgent, m)
		}
	}
	assert.Equal(t, urgent, gotUrgent)
	assert.Equal(t, bulk, gotBulk)
}

func testBigBatch(t *testing.T, w *world) {
	a, b := w.pair(t)
	var batch []raft.Message
	for i := range 12 {
		prev := raft.EntryID{Term: 7, Index: raft.Index(10 * i)}
		batch = append(batch, message(a, b, carried(a, Append(prev, []int{100, 900_000, 3, 5000, 0}, 0))))
	}
	require.NoError(t, a.Send(b.peer(), raft.LaneBulk, batch))
	got := b.AwaitMessages(t, len(batch))
	for i := range batch {
		require.True(t, assert.ObjectsAreEqual(batch[i], got[i]), "message %d is not as it was sent", i)
	}
}

func testHandshakeBothSides(t *testing.T, w *world) {
	caller, acceptor := NewRecorder("a"), NewRecorder("b")
	caller.Self = fullHello("a", 66)
	acceptor.Self = fullHello("b", 77)
	a, b := w.start(t, caller), w.start(t, acceptor)
	a.Connect([]raft.Contact{w.contact(b.peer(), "b")})
	isCheck := func(e Event) bool { return e.Kind == EventChecked }
	called := b.Await(t, "check", isCheck).Hello
	assert.NotZero(t, called.Protocol, "the transport sets the version of the connection")
	assert.Equal(t, withProtocol(a.Hello(b.peer()), called.Protocol), called)
	assert.Equal(t, called, b.awaitPeer(t, EventAccepted, a.peer()).Hello, "Accepted is called with the same hello")
	assert.Equal(t, withProtocol(b.Hello(a.peer()), called.Protocol), a.Await(t, "check", isCheck).Hello)
	assert.Equal(t, withProtocol(b.Hello(a.peer()), called.Protocol), a.AwaitUp(t, "b").Hello)
}

func withProtocol(h raft.Hello, version uint16) raft.Hello {
	h.Protocol = version
	return h
}

// fullHello returns a hello in which every field is set that a node sets.
func fullHello(id raft.NodeID, incarnation raft.Incarnation) raft.Hello {
	return raft.Hello{
		ClusterName: "test", Cluster: raft.ClusterID{9, 8, 7}, From: raft.Peer{ID: id, Incarnation: incarnation},
		StartCount: 12, Term: 34, Bootstrapper: raft.Peer{ID: "a", Incarnation: 66}, Address: "host:1234",
		List: raft.NewConfiguration([]raft.Member{
			{ID: "a", Address: "x:1", Meta: "meta", Priority: 7}, {ID: "b", Address: "x:2", Kind: raft.Learner},
		}),
		ElectionTimeout: 250 * time.Millisecond,
		Lineage:         raft.Lineage{{Count: 11, Nonce: 1 << 63}, {Count: 12, Nonce: 5}},
		Confirmed:       raft.StartID{Count: 7, Nonce: 6},
		Remembers:       raft.Sighting{Peer: raft.Peer{ID: "c", Incarnation: 8}, Start: raft.StartID{Count: 9, Nonce: 10}, Term: 11},
		Named:           []raft.Incarnation{21, 22}, NamedIndex: 23,
	}
}

func testRejection(t *testing.T, w *world) {
	want := raft.Rejection{
		Reason: raft.RejectNamedOther, From: raft.Peer{ID: "b", Incarnation: 1}, Cluster: raft.ClusterID{4, 5, 6},
		Term: 44, Named: 55, Index: 66, VersionsMin: 1, VersionsMax: 3,
		List: raft.NewConfiguration([]raft.Member{
			{ID: "a", Address: "x:1", Incarnation: 55}, {ID: "b", Address: "x:2"},
		}),
		Detail: "a sentence that says why",
		Seen:   raft.Sighting{Peer: raft.Peer{ID: "a", Incarnation: 8}, Start: raft.StartID{Count: 9, Nonce: 10}, Term: 11},
	}
	acceptor := NewRecorder("b")
	acceptor.Judge = func(raft.Hello) *raft.Rejection { return &want }
	a, b := w.start(t, NewRecorder("a")), w.start(t, acceptor)
	a.Connect(w.at("b"))
	assert.Equal(t, want, a.AwaitRejected(t, "b").Rejection)
	assert.Equal(t, want, a.AwaitRejected(t, "b").Rejection, "it continues to dial")
	status := a.Peer(b.peer())
	assert.False(t, status.Connected)
	assert.Error(t, status.Err)
}

func testWrongID(t *testing.T, w *world) {
	a := w.start(t, NewRecorder("a"))
	w.startAt(t, "b", NewRecorder("c"))
	a.Connect(w.at("b"))
	e := a.AwaitRejected(t, "b")
	assert.Equal(t, raft.RejectWrongID, e.Rejection.Reason)
	assert.Equal(t, raft.NodeID("c"), e.Rejection.From.ID)
}

func testWrongIncarnation(t *testing.T, w *world) {
	a := w.start(t, NewRecorder("a"))
	w.start(t, NewRecorder("b"))
	a.Connect([]raft.Contact{w.contact(raft.Peer{ID: "b", Incarnation: 99}, "b")})
	e := a.AwaitRejected(t, "b")
	assert.Equal(t, raft.RejectWrongIncarnation, e.Rejection.Reason)
	assert.Equal(t, raft.Peer{ID: "b", Incarnation: 1}, e.Rejection.From)
}

func testAnotherAnswers(t *testing.T, w *world) {
	impostor := NewRecorder("c")
	impostor.Judge = func(raft.Hello) *raft.Rejection { return nil }
	a := w.start(t, NewRecorder("a"))
	w.startAt(t, "b", impostor)
	a.Connect(w.at("b"))
	a.Await(t, "a loss, and no connection", func(e Event) bool {
		assert.NotEqual(t, EventUp, e.Kind)
		return e.Kind == EventLost
	})
	assert.Error(t, a.Peer(raft.Peer{ID: "b"}).Err)
}

func testCallerRejects(t *testing.T, w *world) {
	caller := NewRecorder("a")
	caller.Judge = func(h raft.Hello) *raft.Rejection {
		return &raft.Rejection{Reason: raft.RejectOtherCluster, From: caller.Self.From, Detail: "not one of ours"}
	}
	a := w.start(t, caller)
	b := w.start(t, NewRecorder("b"))
	a.Connect(w.at("b"))
	a.Await(t, "a loss, and no connection", func(e Event) bool {
		assert.NotEqual(t, EventUp, e.Kind)
		assert.NotEqual(t, EventRejected, e.Kind, "the peer rejected nothing")
		return e.Kind == EventLost
	})
	require.Error(t, a.Peer(b.peer()).Err)
	assert.True(t, strings.Contains(a.Peer(b.peer()).Err.Error(), "not one of ours"))
}

func testWrongSender(t *testing.T, w *world) {
	a, b := w.pair(t)
	for _, from := range []raft.Peer{{ID: "c", Incarnation: 1}, {ID: "a", Incarnation: 2}} {
		forged := message(a, b, raft.Heartbeat{Commit: 666})
		forged.From = from
		_ = a.Send(b.peer(), raft.LaneUrgent, []raft.Message{forged}) // it may fail or not: the sender may notice, too
		if !w.profile.Connectionless {
			a.AwaitLost(t, "b", false)
			a.AwaitUp(t, "b")
		}
	}
	honest := message(a, b, raft.Heartbeat{Commit: 1})
	assert.Equal(t, honest, w.deliver(t, a, b, honest), "the first message to arrive is an honest one")
}

func testLostThenRefused(t *testing.T, w *world) {
	a, b := w.pair(t)
	require.NoError(t, b.Transport.Close())
	assert.Equal(t, b.peer(), a.AwaitLost(t, "b", false).Peer)
	e := a.Await(t, "the next loss", func(e Event) bool { return e.Kind == EventLost })
	assert.Equal(t, Event{Kind: EventLost, Peer: b.peer(), Refused: true}, e)
	a.awaitDials(t, "b")
}

// awaitDials waits for failed dials that are no news.
func (m member) awaitDials(t *testing.T, peer raft.NodeID) {
	t.Helper()
	for range 3 {
		e := m.Await(t, "a failed dial", func(e Event) bool { return e.Kind == EventLost })
		assert.Equal(t, Event{Kind: EventLost, Peer: raft.Peer{ID: peer}}, e)
	}
}

func testFailedDial(t *testing.T, w *world) {
	a, b := w.start(t, NewRecorder("a")), w.start(t, NewRecorder("b"))
	require.NoError(t, b.Transport.Close())
	a.Connect(w.at("b"))
	a.awaitDials(t, "b")
}

func testClosedHere(t *testing.T, w *world) {
	a, b := w.pair(t)
	c := w.start(t, NewRecorder("c"))
	require.NoError(t, c.Transport.Close())
	a.Connect([]raft.Contact{w.contact(raft.Peer{ID: "b"}, "c")}) // b runs, and nobody listens there
	e := a.Await(t, "the end of the connection", func(e Event) bool { return e.Kind == EventLost })
	assert.Equal(t, Event{Kind: EventLost, Peer: b.peer()}, e)
	a.awaitDials(t, "b")
}

func testBrokenButAlive(t *testing.T, w *world) {
	a, b := w.pair(t)
	for range 3 {
		b.Disconnect(a.peer())
		a.AwaitLost(t, "b", false)
		a.Await(t, "another connection", func(e Event) bool {
			assert.NotEqual(t, EventLost, e.Kind)
			return e.Kind == EventUp
		})
	}
}

func testRestart(t *testing.T, w *world) {
	a, b := w.pair(t)
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	again := NewRecorder("b")
	again.Self.StartCount = 2
	b = w.start(t, again)
	assert.Equal(t, uint64(2), a.AwaitUp(t, "b").Hello.StartCount)
	m := message(a, b, raft.Heartbeat{Commit: 5})
	assert.Equal(t, m, w.deliver(t, a, b, m))
}

func testNotConnected(t *testing.T, w *world) {
	a, b := w.pair(t)
	m := []raft.Message{message(a, b, raft.TimeoutNow{})}
	assert.Error(t, a.Send(nobody, raft.LaneUrgent, m))
	assert.Error(t, b.Send(a.peer(), raft.LaneUrgent, []raft.Message{message(b, a, raft.TimeoutNow{})}),
		"b has no contact a")
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	assert.Error(t, a.Send(b.peer(), raft.LaneUrgent, m))
}

func testConnectReplaces(t *testing.T, w *world) {
	a, b := w.pair(t)
	c := w.start(t, NewRecorder("c"))
	a.Connect(w.at("c"))
	a.awaitSuccession(t, b.peer(), c.peer())
	assert.Error(t, a.Send(b.peer(), raft.LaneUrgent, []raft.Message{message(a, b, raft.TimeoutNow{})}))
	m := message(a, c, raft.TimeoutNow{})
	assert.Equal(t, m, w.deliver(t, a, c, m))
	a.Connect(w.at("b", "c"))
	a.AwaitUp(t, "b")
	require.NoError(t, a.Send(c.peer(), raft.LaneUrgent, []raft.Message{m}), "c stayed connected")
}

func testDisconnect(t *testing.T, w *world) {
	a, b := w.pair(t)
	again := NewRecorder("b")
	again.Self.From.Incarnation = 2
	second := w.startAt(t, "c", again)
	for _, m := range []member{b, second} {
		m.Connect(w.at("a"))
		m.AwaitUp(t, "a")
		a.awaitPeer(t, EventAccepted, m.peer())
	}
	a.Disconnect(nobody)
	a.Disconnect(b.peer())
	if !w.profile.Connectionless {
		b.AwaitLost(t, "a", false)
	}
	a.Await(t, "another call of b", func(e Event) bool {
		assert.False(t, e.Kind == EventAccepted && e.Peer == second.peer(), "another incarnation stays connected")
		return e.Kind == EventAccepted && e.Peer == b.peer()
	})
	if !w.profile.Connectionless {
		b.AwaitUp(t, "a")
	}
	for _, m := range []member{b, second} {
		beat := message(m, a, raft.Heartbeat{Commit: 7})
		assert.Equal(t, beat, w.deliver(t, m, a, beat))
	}
	assert.True(t, a.Peer(b.peer()).Connected, "a's connection to b stays open")
}

func testSelf(t *testing.T, w *world) {
	a := w.start(t, NewRecorder("a"))
	b := w.start(t, NewRecorder("b"))
	a.Connect(w.at("a", "b"))
	a.Await(t, "up of b alone", func(e Event) bool {
		assert.NotEqual(t, raft.NodeID("a"), e.Peer.ID)
		return e.Kind == EventUp && e.Peer == b.peer()
	})
	assert.Error(t, a.Send(a.peer(), raft.LaneUrgent, []raft.Message{message(a, b, raft.TimeoutNow{})}))
}

func testPeerStatus(t *testing.T, w *world) {
	a, b := w.pair(t)
	status := a.Peer(b.peer())
	assert.True(t, status.Connected)
	assert.NoError(t, status.Err)
	assert.Equal(t, raft.PeerStatus{}, a.Peer(nobody))
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	status = a.Peer(b.peer())
	assert.False(t, status.Connected)
	assert.Error(t, status.Err)
}

func testClose(t *testing.T, w *world) {
	a, b := w.pair(t)
	b.Connect(w.at("a"))
	b.AwaitUp(t, "a")
	require.NoError(t, a.Transport.Close())
	before := a.Count()
	require.NoError(t, a.Transport.Close())
	a.Connect(w.at("b"))
	assert.Error(t, a.Send(b.peer(), raft.LaneUrgent, []raft.Message{message(a, b, raft.TimeoutNow{})}))
	w.awaitGone(t, b, "a") // b has dialed a once more
	assert.Equal(t, before, a.Count(), "a call of the handler after Close")
	assert.ErrorIs(t, a.Start(a.Recorder), raft.ErrClosed)
}

func testStuckPeer(t *testing.T, w *world, writeTimeout time.Duration) {
	stuck := NewRecorder("b")
	stuck.Held = make(chan struct{})
	a, b := w.start(t, NewRecorder("a")), w.start(t, stuck)
	defer close(stuck.Held)
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	batch := []raft.Message{message(a, b, Append(raft.EntryID{}, []int{1 << 20}, 0))}
	// Buffers on the way hold some megabytes before a write has to wait.
	for range 1000 {
		began := time.Now()
		if err := a.Send(b.peer(), raft.LaneBulk, batch); err != nil {
			assert.Less(t, time.Since(began), writeTimeout+patience)
			a.AwaitLost(t, "b", false)
			return
		}
	}
	t.Fatal("a gigabyte was sent to a peer that does not read")
}
