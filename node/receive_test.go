package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The limit of waiting chunks counts bytes, so no buffer may have a capacity far above its length.
func TestReceiver_KeepsFewSpareBuffers(t *testing.T) {
	var s spareBuffers
	assert.Nil(t, s.take(100))
	chunk := make([]byte, streamChunkBytes)
	s.give(chunk)
	got := s.take(streamChunkBytes * 3 / 4)
	assert.Same(t, &chunk[0], &got[:1][0])
	assert.Nil(t, s.take(1), "it is given away")

	s.give(chunk)
	assert.Nil(t, s.take(1), "far too much room")
	assert.Zero(t, s.bytes)
	for range 100 {
		s.give(make([]byte, streamChunkBytes))
	}
	assert.Len(t, s.buffers, streamWindowBytes/streamChunkBytes)
	assert.Nil(t, s.take(2*streamChunkBytes))
	assert.Empty(t, s.buffers, "they are too small")
}
