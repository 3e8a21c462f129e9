package transporttest

import (
	"errors"
	"slices"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chunkBytesMax returns the limit of a chunk's data in bytes, or 0 if the transport has no snapshot lane.
func chunkBytesMax(t raft.Transport) int {
	if c, ok := t.(raft.SnapshotCarrier); ok {
		return c.ChunkBytesMax()
	}
	return 0
}

// laneOf returns the lane on which the member sends the message.
func laneOf(from member, m raft.Message) raft.Lane {
	if m.Lane() == raft.LaneSnapshot && chunkBytesMax(from.Transport) == 0 {
		return raft.LaneBulk
	}
	return m.Lane()
}

// carriers returns two connected members. It skips the test if they have no snapshot lane.
func (w *world) carriers(t *testing.T, receiver *Recorder) (a, b member) {
	t.Helper()
	a, b = w.start(t, NewRecorder("a")), w.start(t, receiver)
	if chunkBytesMax(a.Transport) == 0 {
		t.Skip("the transport is no raft.SnapshotCarrier")
	}
	a.Connect(w.at("b"))
	a.AwaitUp(t, "b")
	return a, b
}

func testChunks(t *testing.T, w *world) {
	a, b := w.carriers(t, NewRecorder("b"))
	var all []raft.Message
	at := int64(0)
	for i, size := range []int{1, 0, 4096, chunkBytesMax(a.Transport), 100, chunkBytesMax(a.Transport), chunkBytesMax(a.Transport) - 1} {
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

func testSnapshotWaits(t *testing.T, w *world) {
	stuck := NewRecorder("b")
	stuck.Held = make(chan struct{})
	stuck.Holds = func(m raft.Message) bool { return m.Lane() == raft.LaneSnapshot }
	a, b := w.carriers(t, stuck)
	sent := make(chan error, 1)
	go func() {
		chunk := message(a, b, Chunk(0, chunkBytesMax(a.Transport)))
		sent <- a.Send(b.peer(), raft.LaneSnapshot, []raft.Message{chunk, chunk, chunk})
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

func testChunksNotConnected(t *testing.T, w *world) {
	a, b := w.carriers(t, NewRecorder("b"))
	chunk := []raft.Message{message(a, b, Chunk(0, 100))}
	assert.Error(t, a.Send(nobody, raft.LaneSnapshot, chunk))
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	assert.Error(t, a.Send(b.peer(), raft.LaneSnapshot, chunk))
}

func testChunksAfterRestart(t *testing.T, w *world) {
	a, b := w.carriers(t, NewRecorder("b"))
	first := message(a, b, Chunk(0, 100))
	assert.Equal(t, first, w.deliver(t, a, b, first))
	require.NoError(t, b.Transport.Close())
	w.awaitGone(t, a, "b")
	again := NewRecorder("b")
	again.Self.StartCount = 2
	b = w.start(t, again)
	a.AwaitUp(t, "b")
	second := message(a, b, Chunk(100, 100))
	assert.Equal(t, second, w.deliver(t, a, b, second))
}
