package transport

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
)

// An append of a thousand small entries is longer than the buffer of a connection. It is written in parts, from one buffer
// that is reused. It still arrives whole.
func TestSend_ALongAppendLeavesNoGarbage(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	o := &outbound{conn: ours, writeTimeout: 10 * time.Second, limits: standard, directBytes: directBytes, encoder: &encoder{}}
	sent := longAppend(3000, 1000)
	arrived := make(chan []byte, 1)
	go func() {
		f := newFrameReader(theirs, FrameBytesMax)
		for {
			_, frame, err := f.next()
			if err != nil {
				return
			}
			arrived <- frame
		}
	}()
	var buffer *byte
	for range 3 {
		skipped, broken := o.send([]raft.Message{sent}, &atomic.Uint64{})
		require.NoError(t, skipped)
		require.NoError(t, broken)
		whole, err := EncodeMessage(sent)
		require.NoError(t, err)
		assert.Equal(t, whole, <-arrived)
		require.NotNil(t, o.buf, "the buffer is kept")
		if first := &o.buf[:1][0]; buffer == nil {
			buffer = first
		} else {
			assert.Same(t, buffer, first, "no buffer is made for a later append")
		}
	}
	assert.LessOrEqual(t, cap(o.buf), 2*flushBytes)
}

// Entries share the bytes of their frame. So the next frame must not overwrite these bytes.
func TestFrameReader_LongFramesShareNothing(t *testing.T) {
	read, write := io.Pipe()
	var frames [][]byte
	for _, count := range []int{100, 120, 300, 1000, 3000} {
		whole, err := EncodeMessage(longAppend(count, 1000))
		require.NoError(t, err)
		frames = append(frames, whole)
	}
	exact, err := EncodeMessage(longAppend(1, 1000))
	require.NoError(t, err)
	exact, err = EncodeMessage(longAppend(1, 1000+growBytes-len(exact)))
	require.NoError(t, err)
	require.Len(t, exact, growBytes)
	frames = append(frames, exact, frames[0])
	go func() {
		for _, f := range frames {
			_, _ = write.Write(f)
		}
		_ = write.Close()
	}()
	f := newFrameReader(read, FrameBytesMax)
	var got [][]byte
	for range frames {
		_, frame, err := f.next()
		require.NoError(t, err)
		got = append(got, frame)
	}
	assert.Equal(t, frames, got)
	assert.Equal(t, growBytes, cap(f.first), "the longer frames began in it")
}

// longAppend returns an append with many entries, each with different bytes.
func longAppend(count, bytes int) raft.Message {
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = bytes + i%7
	}
	return raft.Message{From: alice, To: bob, Term: 7, Body: transporttest.Append(raft.EntryID{Term: 7}, sizes, 0)}
}
