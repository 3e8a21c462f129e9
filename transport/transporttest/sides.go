package transporttest

import (
	"errors"
	"slices"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sideBytesMax returns how many bytes of data a message on the side lane may carry, or 0 if the transport has no such lane.
func sideBytesMax(t raft.Transport, lane raft.Lane) int {
	if c, ok := t.(raft.SnapshotCarrier); ok && lane == raft.LaneSnapshot {
		return c.ChunkBytesMax()
	}
	if c, ok := t.(raft.ForwardCarrier); ok && lane == raft.LaneForward {
		return c.ForwardBytesMax()
	}
	return 0
}

// side returns a message for a side lane.
func side(lane raft.Lane, dataBytes int) raft.Body {
	if lane == raft.LaneForward {
		return Request(1, dataBytes)
	}
	return Chunk(0, dataBytes)
}

// laneOf returns the lane on which the member sends the message.
func laneOf(from member, m raft.Message) raft.Lane {
	lane := m.Lane()
	if lane >= raft.LaneSnapshot && sideBytesMax(from.Transport, lane) == 0 {
		return raft.LaneBulk
	}
	return lane
}

// carriers returns two connected members. It skips the test if they do not have the side lane.
func (w *world) carriers(t *testing.T, receiver *Recorder, lane raft.Lane) (a, b member) {
	t.Helper()
	a, b = w.start(t, NewRecorder("a")), w.start(t, receiver)
	if sideBytesMax(a.Transport, lane) == 0 {
		t.Skipf("the transport has no %v lane", lane)
	}
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	return a, b
}

func testChunks(t *testing.T, w *world) {
	a, b := w.carriers(t, NewRecorder("b"), raft.LaneSnapshot)
	most := sideBytesMax(a.Transport, raft.LaneSnapshot)
	var all []raft.Message
	at := int64(0)
	for i, size := range []int{1, 0, 4096, most, 100, most, most - 1} {
		c := Chunk(at, size)
		if size == 0 {
			c.Data = nil
		}
		c.Last = i == 6
		at += int64(size)
		all = append(all, message(a, b, c))
	}
	var err error
	for i := 0; i < len(all); i += 2 {
		batch := slices.Clone(all[i:min(i+2, len(all))])
		for j := range batch {
			c := batch[j].Body.(raft.SnapshotChunk)
			c.Data = slices.Clone(c.Data)
			batch[j].Body = c
		}
		err = errors.Join(err, a.Send(b.peer(), raft.LaneSnapshot, batch))
		for _, m := range batch {
			clear(m.Body.(raft.SnapshotChunk).Data) // they are the sender's again
		}
	}
	require.NoError(t, err)
	got := b.AwaitMessages(t, len(all))
	for i := range all {
		require.True(t, assert.ObjectsAreEqual(all[i], got[i]), "chunk %d is not as it was sent", i)
	}
}

func testRequests(t *testing.T, w *world) {
	a, b := w.carriers(t, NewRecorder("b"), raft.LaneForward)
	most := min(sideBytesMax(a.Transport, raft.LaneForward), 1<<20)
	var all []raft.Message
	for i, size := range []int{1, 0, 4096, most, 100, most} {
		request := Request(uint64(i+1), size)
		if size == 0 {
			request.Data = nil
		}
		all = append(all, message(a, b, request))
	}
	all = append(all, message(a, b, raft.ForwardReply{
		Outcome: raft.ForwardApplied, Data: Chunk(0, most).Data, Error: Chunk(0, raft.ForwardErrorBytesMax).Data,
	}))
	require.NoError(t, errors.Join(a.Send(b.peer(), raft.LaneForward, all[:2]), a.Send(b.peer(), raft.LaneForward, all[2:])))
	got := b.AwaitMessages(t, len(all))
	for i := range all {
		require.True(t, assert.ObjectsAreEqual(all[i], got[i]), "message %d is not as it was sent", i)
	}
}

func testSideWaits(lane raft.Lane) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		stuck := NewRecorder("b")
		stuck.Held = make(chan struct{})
		stuck.Holds = func(m raft.Message) bool { return m.Lane() == lane }
		a, b := w.carriers(t, stuck, lane)
		sent := make(chan error, 1)
		go func() {
			m := message(a, b, side(lane, min(sideBytesMax(a.Transport, lane), 1<<20)))
			sent <- a.Send(b.peer(), lane, []raft.Message{m, m, m})
		}()
		for i := range 20 {
			urgent := message(a, b, raft.Heartbeat{Commit: raft.Index(i)})
			assert.Equal(t, urgent, w.deliver(t, a, b, urgent))
			bulk := message(a, b, raft.AppendReply{Match: raft.Index(i)})
			assert.Equal(t, bulk, w.deliver(t, a, b, bulk))
		}
		close(stuck.Held)
		require.NoError(t, <-sent)
		b.AwaitMessages(t, 3)
	}
}

func testSideNotConnected(lane raft.Lane) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		a, b := w.carriers(t, NewRecorder("b"), lane)
		m := message(a, b, side(lane, 100))
		assert.Error(t, a.Send(nobody, lane, []raft.Message{m}))
		require.NoError(t, b.Transport.Close())
		w.awaitGone(t, a, "b")
		assert.Error(t, a.Send(b.peer(), lane, []raft.Message{m}))
	}
}

func testSideAfterRestart(lane raft.Lane) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		a, b := w.carriers(t, NewRecorder("b"), lane)
		first := message(a, b, side(lane, 100))
		assert.Equal(t, first, w.deliver(t, a, b, first))
		require.NoError(t, b.Transport.Close())
		w.awaitGone(t, a, "b")
		again := NewRecorder("b")
		again.Self.StartCount = 2
		b = w.start(t, again)
		a.AwaitUp(t, "b")
		second := message(a, b, side(lane, 100))
		assert.Equal(t, second, w.deliver(t, a, b, second))
	}
}
