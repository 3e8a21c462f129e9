package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTransfers_TheOldestMakesRoom(t *testing.T) {
	var cut []string
	ts := transfers{countMax: 3, bytesMax: 12}
	begin := func(name string) *transfer { return ts.begin(func() { cut = append(cut, name) }) }
	a, small, b := begin("a"), begin("small"), begin("b")
	c := begin("c")
	assert.Equal(t, []string{"a"}, cut, "by number")
	assert.False(t, a.take(1), "it has been cut off")
	assert.False(t, a.arrived())
	assert.True(t, small.take(4))
	assert.True(t, b.take(6))
	assert.True(t, c.take(6))
	assert.Equal(t, []string{"a", "b"}, cut, "by bytes: the oldest that holds more than its share")
	assert.Equal(t, 10, ts.bytes)
	assert.True(t, c.arrived())
	assert.False(t, begin("d").take(5), "a transfer that has arrived is not cut off")
	assert.True(t, begin("e").take(2), "the transfer without room has ended")
	c.done()
	c.done()
	small.done()
	assert.Equal(t, 2, ts.bytes)
	assert.Equal(t, []string{"a", "b"}, cut)
}
