package pipeline

import (
	"errors"
	"fmt"

	"github.com/coxswain/raft"
)

// Entries is the reading part of a raft.Storage.
type Entries interface {
	Entries(span raft.Span, bytesMax int) ([]raft.Entry, error)
}

// Log reads the present log. It reads entries from the cache, and from the storage if the cache lacks them.
type Log struct {
	Cache   *Cache
	Storage Entries
}

// Read returns the first entries of the span, at most bytesMax bytes but at least one.
func (l Log) Read(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	entries, first := l.Cache.Read(span, bytesMax)
	if len(entries) > 0 {
		return entries, nil
	}
	span.Last = min(span.Last, first-1)
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: entry %d", raft.ErrNotStored, span.After+1)
	}
	entries, err := l.Storage.Entries(span, bytesMax)
	if err == nil && (len(entries) == 0 || entries[0].Index != span.After+1) {
		err = fmt.Errorf("%w: entry %d", raft.ErrNotStored, span.After+1)
	}
	return entries, err
}

// ErrStale is the reason to drop an append whose entries are no longer in the log.
var ErrStale = errors.New("pipeline: the log has changed since the append was made")

// Fill puts entries into an append: as many as bytesMax allows, but at least one. If more is true, rest is an append with the
// rest of the span. Fill leaves messages of other types unchanged.
func (l Log) Fill(m raft.Message, bytesMax int) (piece, rest raft.Message, more bool, err error) {
	a, ok := m.Body.(raft.AppendRequest)
	if !ok {
		return m, raft.Message{}, false, nil
	}
	var entries []raft.Entry
	if a.Prev.Index < a.Last.Index {
		entries, err = l.Read(raft.Span{After: a.Prev.Index, Last: a.Last.Index}, bytesMax)
	}
	if err != nil {
		return raft.Message{}, raft.Message{}, false, err
	}
	last := a.Prev
	if len(entries) > 0 {
		last = entries[len(entries)-1].ID()
	}
	// The entries are only valid if the log has not been truncated since the core created this append.
	changed := l.Cache.Generation() != a.Generation
	if changed || last != a.Last && last.Index >= a.Last.Index {
		return raft.Message{}, raft.Message{}, false, ErrStale
	}
	if more = last != a.Last; more {
		left := a
		left.Prev = last
		rest, rest.Body = m, left
	}
	a.Last, a.Entries = last, entries
	m.Body = a
	return m, rest, more, nil
}

// ErrOversized is the reason to drop an append whose first entry is larger than the receiver takes in one append.
var ErrOversized = errors.New("pipeline: an entry is larger than the receiver takes")

// Deliver joins the appends among the messages that wait for one connection. It fills them with about bytesMax bytes of
// records, and calls send for each message to send. takes is how many bytes of records the receiver takes in one append, or 0
// for any number. Deliver sends no larger append. If Deliver cannot fill an append, it calls drop with the rest of the
// append. With ErrOversized, that rest includes its first entry.
func (l Log) Deliver(waiting []raft.Message, bytesMax, takes int, send func(raft.Message), drop func(raft.Message, error)) {
	if takes > 0 {
		bytesMax = min(bytesMax, takes)
	}
	for len(waiting) > 0 {
		m, n := JoinAppends(waiting)
		waiting = waiting[n:]
		for more := true; more; {
			piece, rest, goesOn, err := l.Fill(m, bytesMax)
			if err == nil && takes > 0 && Records(piece) > takes {
				left := m.Body.(raft.AppendRequest)
				left.Entries = piece.Body.(raft.AppendRequest).Entries[:1]
				m.Body, err = left, ErrOversized
			}
			if err != nil {
				drop(m, err)
				break
			}
			send(piece)
			m, more = rest, goesOn
		}
	}
}

// Records returns the size of the records in an append in bytes. For any other message it returns 0.
func Records(m raft.Message) int {
	a, _ := m.Body.(raft.AppendRequest)
	return RecordBytes(a.Entries)
}

// Dropped returns the event that tells the core that an append was not sent. It returns false if the message is no append.
// why is the reason that Deliver gave.
func Dropped(m raft.Message, why error) (e raft.SendDropped, appends bool) {
	a, appends := m.Body.(raft.AppendRequest)
	e = raft.SendDropped{To: m.To, Span: raft.Span{After: a.Prev.Index, Last: a.Last.Index}}
	if appends && errors.Is(why, ErrOversized) {
		e.Oversized, e.OversizedBytes = a.Entries[0].ID(), RecordBytes(a.Entries[:1])
	}
	return e, appends
}

// JoinAppends joins the first messages if they are appends that follow each other without a gap. It returns one append for
// all of them, and their number. If it joins none, it returns the first message and 1.
func JoinAppends(messages []raft.Message) (raft.Message, int) {
	first := messages[0]
	joined, ok := first.Body.(raft.AppendRequest)
	n := 1
	for ok && n < len(messages) {
		next, isAppend := messages[n].Body.(raft.AppendRequest)
		goesOn := isAppend && next.Prev == joined.Last && next.Generation == joined.Generation
		if !goesOn || !sameButBody(messages[n], first) {
			break
		}
		joined.Last = next.Last
		joined.Commit = max(joined.Commit, next.Commit)
		n++
	}
	if n > 1 {
		first.Body = joined
	}
	return first, n
}

// sameButBody reports whether the messages are equal apart from their bodies.
func sameButBody(a, b raft.Message) bool {
	a.Body, b.Body = nil, nil
	return a == b
}
