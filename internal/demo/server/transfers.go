package server

import (
	"container/list"
	"sync"
)

// transfers holds the bodies that the server is reading from clients, or the replies that it is writing to them. Clients may
// be slow, so both the number and the bytes of these transfers are bounded. If there is no room for another transfer, the
// oldest transfer is cut off. An honest client finishes within moments, so slow clients cannot keep out an honest client.
type transfers struct {
	countMax, bytesMax int

	mu       sync.Mutex
	underWay list.List // of *transfer, oldest first
	bytes    int       // bytes of all of them, and of bodies that have arrived
}

// transfer is one body or reply.
type transfer struct {
	of    *transfers
	cut   func() // interrupts the transfer; called at most once
	bytes int
	at    *list.Element // nil once the transfer has arrived, was cut off or has ended
	gone  bool          // the transfer was cut off or has ended
}

// begin registers a transfer, which has no bytes yet.
func (t *transfers) begin(cut func()) *transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay.Len() >= t.countMax {
		t.underWay.Front().Value.(*transfer).end(true)
	}
	x := &transfer{of: t, cut: cut}
	x.at = t.underWay.PushBack(x)
	return x
}

// take reserves n more bytes. To make room, it cuts off the oldest other transfers that hold more than their share of
// bytesMax. Smaller transfers together cannot exhaust bytesMax. If this transfer was cut off meanwhile, or if there is still
// no room, take ends this transfer and returns false.
func (x *transfer) take(bytes int) bool {
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	for !x.gone && t.bytes+bytes > t.bytesMax {
		if large := t.oldestLarge(x); large != nil {
			large.end(true)
		} else {
			x.end(false)
		}
	}
	if x.gone {
		return false
	}
	x.bytes += bytes
	t.bytes += bytes
	return true
}

// oldestLarge returns the oldest other transfer that holds more than its share. It returns nil if there is none. The caller
// holds mu.
func (t *transfers) oldestLarge(but *transfer) *transfer {
	for at := t.underWay.Front(); at != nil; at = at.Next() {
		if other := at.Value.(*transfer); other != but && other.bytes > t.bytesMax/t.countMax {
			return other
		}
	}
	return nil
}

// arrived records that the client has nothing left to send. From now on, the transfer cannot be cut off, and it keeps its
// bytes until done. If the transfer was already cut off, arrived returns false.
func (x *transfer) arrived() bool {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.leave()
	return !x.gone
}

// done releases the transfer's bytes. It is idempotent.
func (x *transfer) done() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.end(false)
}

// end ends the transfer. The caller holds mu.
func (x *transfer) end(cut bool) {
	if x.gone {
		return
	}
	x.gone = true
	x.of.bytes -= x.bytes
	x.leave()
	if cut {
		x.cut()
	}
}

func (x *transfer) leave() {
	if x.at != nil {
		x.of.underWay.Remove(x.at)
		x.at = nil
	}
}
