package node

import "slices"

// queue holds items that wait for one goroutine, the consumer, oldest first. It wakes the consumer. A queue has no lock of
// its own: a lock of its owner guards it. A queue is never closed. To learn that it must end, the consumer also waits for
// another channel. Only callbacks.run empties its queue before it ends.
type queue[T any] struct {
	signal      // wakes the consumer
	items   []T // including those dropped at the front
	dropped int // number of items dropped at the front
}

// offer adds the item unless limit items already wait. It reports whether it added the item.
func (q *queue[T]) offer(item T, limit int) bool {
	if q.len() >= limit {
		return false
	}
	q.add(item)
	return true
}

// add adds an item without a check of a limit. Either the item needs no limit, or the owner has checked the limit.
func (q *queue[T]) add(item T) {
	q.items = append(q.items, item)
	q.wake()
}

// waiting returns the items. The slice is valid until the next call of another method.
func (q *queue[T]) waiting() []T { return q.items[q.dropped:] }

func (q *queue[T]) len() int { return len(q.items) - q.dropped }

// drop removes the first n items. It wakes the consumer again if items are left.
func (q *queue[T]) drop(n int) {
	clear(q.items[q.dropped : q.dropped+n])
	q.dropped += n
	if q.len() <= q.dropped { // moves at most as many items as were dropped
		q.items, q.dropped = slices.Delete(q.items, 0, q.dropped), 0
	}
	if q.len() > 0 {
		q.wake()
	}
}
