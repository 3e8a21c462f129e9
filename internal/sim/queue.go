package sim

import "time"

// Time is virtual time in nanoseconds since the beginning of the simulation.
type Time int64

// Never is later than any event.
const Never = Time(1<<63 - 1)

// In converts a duration.
func In(d time.Duration) Time { return Time(d) }

func (t Time) String() string { return time.Duration(t).String() }

// Queue holds the events to come, ordered by time. Events of the same time keep the order in which they were pushed. The
// zero value is an empty queue at time 0.
type Queue[E any] struct {
	heap []item[E] // a 4-ary heap: flatter than a binary one, and its children share a cache line
	seq  uint64
	now  Time
}

type item[E any] struct {
	at    Time
	seq   uint64
	event E
}

func (i *item[E]) before(other *item[E]) bool {
	return i.at < other.at || i.at == other.at && i.seq < other.seq
}

const arity = 4

// Now returns the time of the last popped event.
func (q *Queue[E]) Now() Time { return q.now }

// Begin makes an empty queue begin at a time.
func (q *Queue[E]) Begin(at Time) { q.now = at }

// Next returns the time of the next event, or Never if there is none.
func (q *Queue[E]) Next() Time {
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// Len returns the number of events to come.
func (q *Queue[E]) Len() int { return len(q.heap) }

// Push adds an event. An event in the past happens now.
func (q *Queue[E]) Push(at Time, event E) {
	q.seq++
	q.heap = append(q.heap, item[E]{max(at, q.now), q.seq, event})
	i := len(q.heap) - 1
	added := q.heap[i]
	for i > 0 {
		parent := (i - 1) / arity
		if !added.before(&q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = added
}

// Pop removes and returns the next event, and advances the time to it. It returns false if there is no event.
func (q *Queue[E]) Pop() (E, bool) {
	var none item[E]
	if len(q.heap) == 0 {
		return none.event, false
	}
	next := q.heap[0]
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap[last] = none
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(moved)
	}
	q.now = next.at
	return next.event, true
}

// sink replaces the first item with the new one, and moves the new item down to its place.
func (q *Queue[E]) sink(moved item[E]) {
	i := 0
	for {
		first := i*arity + 1
		if first >= len(q.heap) {
			break
		}
		least := first
		for child := first + 1; child < min(first+arity, len(q.heap)); child++ {
			if q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if !q.heap[least].before(&moved) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = moved
}
