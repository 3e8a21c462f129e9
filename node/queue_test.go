package node

import (
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSignal_AnyNumberWakesOnce(t *testing.T) {
	s := newSignal()
	for range 3 {
		s.wake()
	}
	<-s
	expect.Empty(t, s)
	s.wake()
	expect.Len(t, s, 1, "one that is sent after the goroutine has woken wakes it again")
}

func TestQueue_RefusesWhatIsOverTheLimitAndWakesWhileItemsAreLeft(t *testing.T) {
	q := queue[int]{signal: newSignal()}
	require.True(t, q.offer(1, 2))
	require.True(t, q.offer(2, 2))
	expect.False(t, q.offer(3, 2))
	q.add(4)
	expect.Equal(t, []int{1, 2, 4}, q.waiting(), "what is added needs no room")
	<-q.signal
	q.drop(2)
	expect.Len(t, q.signal, 1, "one is left")
	expect.True(t, q.offer(5, 2), "what was dropped makes room")
	expect.Equal(t, []int{4, 5}, q.waiting())
	<-q.signal
	q.drop(2)
	expect.Empty(t, q.signal)
}

// The test adds and drops items in batches of different sizes. The items stay in order, dropped items can be
// garbage-collected, and the queue's memory is proportional to the waiting items.
func TestQueue_KeepsTheOrderAndLittleMemory(t *testing.T) {
	q := queue[*int]{signal: newSignal()}
	next, first := 0, 0
	for round := range 5000 {
		for range round % 5 {
			item := next
			q.add(&item)
			next++
		}
		n := min(round%7, len(q.waiting()))
		for _, item := range q.waiting()[:n] {
			require.Equal(t, first, *item)
			first++
		}
		q.drop(n)
		require.Len(t, q.waiting(), next-first)
		for _, item := range q.items[:q.dropped] {
			require.Nil(t, item)
		}
		require.LessOrEqual(t, cap(q.items), 64)
	}
	expect.Positive(t, first)
}
