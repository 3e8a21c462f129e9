package fuzzy

import (
	"cmp"
	"slices"
)

// span is the knowledge about one value of a key: the write of the value, and all reads of it.
type span struct {
	called int64 // when the write was called
	begun  int64 // when the last of the operations was called
	ended  int64 // when the first of them was answered
}

// linearizable reports whether the operations of one key could each have happened at one instant between call and answer. No
// two operations may write the same value. The operations are linearizable if they have an order with two properties. Each
// read returns the value of the last write before it. An operation that was answered before another one was called comes
// before the other one. (Herlihy and Wing, Linearizability, 1990)
//
// The problem is NP-hard in general. It is easy here, because each read names its write (Gibbons and Korach, Testing Shared
// Memories, 1997). In such an order no other write comes between a write and its reads, so all operations of a value move
// together. Value A must come before B if an operation of A was answered before an operation of B was called: if A.ended <
// B.begun.
//
// An order exists unless these demands form a cycle. If there is a cycle, there is also a cycle of only two values. Suppose
// that the shortest cycle were longer. Then each of its values would have ended before the previous value, all the way around
// the cycle, which is impossible.
func linearizable(history []operation) bool {
	written := map[uint64]*span{0: {called: -1, begun: -1, ended: -1}} // initially a key holds nothing
	for _, o := range history {
		if o.write {
			written[o.serial] = &span{o.call, o.call, o.answer}
		}
	}
	for _, o := range history {
		s := written[o.serial]
		if s == nil || o.answer < s.called {
			return false // a read of a value that nobody had begun to write
		}
		s.begun, s.ended = max(s.begun, o.call), min(s.ended, o.answer)
	}
	byEnd := make([]*span, 0, len(written))
	for _, s := range written {
		byEnd = append(byEnd, s)
	}
	slices.SortFunc(byEnd, func(a, b *span) int { return cmp.Compare(a.ended, b.ended) })
	// At most one value before s in this list has a call after the end of s, because two such values would contradict each
	// other.
	latest := byEnd[0]
	for _, s := range byEnd[1:] {
		if s.ended < latest.begun && latest.ended < s.begun {
			return false
		}
		if s.begun > latest.begun {
			latest = s
		}
	}
	return true
}
