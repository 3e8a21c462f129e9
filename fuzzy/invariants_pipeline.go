package fuzzy

import (
	"cmp"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// The invariants of internal/pipeline, which connects a core with its disk and network.
//
//	N42  A disk that has completed all issued writes holds the contents that the core wrote. Merging writes loses nothing of them.
//	N43  The log cache counts entries as durable only if they are durable. If no write is pending, it counts all entries and stays within its limit. A reader of the log finds the entries that the core wrote.
//	N44  An append leaves only if the log has not been truncated since the core created the append. It leaves with exactly the entries that it names, and with no more bytes than its receiver takes.
//	N45  The messages that wait for a connection leave in order and completely, or are reported as dropped. Only appends that continue each other are joined.

// checkMerge checks that a merged write keeps everything that its parts would leave behind, one after the other.
func (k *checker) checkMerge(n *node, parts []raft.Write, merged *raft.Write) {
	w, promises := raft.Write{}, 0
	for i := range parts {
		p := &parts[i]
		w.Mark, w.Hard, w.Snapshot, w.Base = cmp.Or(p.Mark, w.Mark), cmp.Or(p.Hard, w.Hard), cmp.Or(p.Snapshot, w.Snapshot), cmp.Or(p.Base, w.Base)
		w.Seq, w.Commit, w.Log, promises = p.Seq, max(w.Commit, p.Commit), cmp.Or(p.Log, w.Log), promises+len(p.Then)
	}
	same := w.Seq == merged.Seq && w.Mark == merged.Mark && w.Hard == merged.Hard && w.Snapshot == merged.Snapshot && w.Base == merged.Base &&
		w.Commit == merged.Commit && promises == len(merged.Then) && (w.Log == nil) == (merged.Log == nil)
	if l, m := w.Log, merged.Log; same && l != nil {
		same = l.Generation == m.Generation && l.After.Index+raft.Index(len(l.Entries)) == m.After.Index+raft.Index(len(m.Entries))
	}
	if !same {
		k.broken("N42", "%s merges %d writes, the last of them %+v, into %+v", n, len(parts), w, *merged)
	}
}

// checkCompletedWrites checks a disk that has just completed a write.
func (k *checker) checkCompletedWrites(n *node) {
	k.checkCache(n)
	d := &n.disk
	if len(n.queue) > 0 {
		return
	}
	memory, _ := at(n.log, n.last())
	durable, _ := at(d.log, n.last())
	if memory != durable || len(d.log) != len(n.log) || d.hard != n.hard || d.base.ID != n.base || n.doomed && d.mark == nil {
		k.broken("N42", "%s has completed all issued writes, but %s; its core wrote term %d and a log from after %v up to %d",
			n, d.describe(), n.hard.Term, n.base, n.last())
	}
	last, persisted, waiting := n.cache.Depth()
	if persisted != last || waiting != 0 {
		k.broken("N43", "%s has completed all issued writes, but its log cache waits for the entries after %d, %d bytes", n, persisted, waiting)
	}
	if kept, limit := n.cacheKeeps(), n.c.profile.Node.CacheBytesMax; kept > limit {
		k.broken("N43", "%s keeps %d bytes in its log cache, over the limit of %d", n, kept, limit)
	}
}

// checkCache checks the entries that a log cache counts as durable.
func (k *checker) checkCache(n *node) {
	_, persisted, _ := n.cache.Depth()
	if persisted <= n.status.Base.Index {
		return // nothing up to the base is read, and an install that is not yet durable has replaced that part
	}
	memory, there := at(n.log, persisted)
	durable, stored := at(n.disk.log, persisted)
	if !there || !stored || memory != durable {
		k.broken("N43", "%s: its log cache counts the log up to %d as durable, which it is not", n, persisted)
	}
}

// checkReread reads a whole log after it was truncated.
func (k *checker) checkReread(n *node) {
	for at := n.status.Base.Index; at < n.last(); {
		entries, err := n.reader().Read(raft.Span{After: at, Last: n.last()}, 1<<20)
		if err != nil {
			k.broken("N43", "%s: its log cannot be read after %d: %v", n, at, err)
			return
		}
		for i := range entries {
			if at++; entries[i].ID() != n.log[at-1].entry.ID() {
				k.broken("N43", "%s: its core wrote %v, but a reader finds %v", n, n.log[at-1].entry.ID(), entries[i].ID())
				return
			}
		}
	}
}

// cachedEntryBytes is a lower bound of the overhead of one entry in a cache, in bytes.
const cachedEntryBytes = 80

// cacheKeeps returns a lower bound of the size of the entries in a log cache, in bytes.
func (n *node) cacheKeeps() int {
	_, first := n.cache.Read(raft.Span{}, 1)
	last := n.last()
	if first > last {
		return 0
	}
	bytes := n.log[last-1].payload
	if first > 1 {
		bytes -= n.log[first-2].payload
	}
	return int(bytes) + int(last-first+1)*cachedEntryBytes
}

// checkFilledAppend checks an append that is about to leave.
func (k *checker) checkFilledAppend(n *node, r *raft.AppendRequest, carries int) {
	if bytes := pipeline.RecordBytes(r.Entries); carries > 0 && bytes > carries {
		k.broken("N44", "%s sends %d bytes of entries in one append, but its receiver takes only %d", n, bytes, carries)
	}
	sound := r.Generation == n.cache.Generation() && n.holds(r.Prev) && n.holds(r.Last) && int(r.Last.Index-r.Prev.Index) == len(r.Entries)
	for i := range r.Entries {
		sound = sound && r.Entries[i].Index == r.Prev.Index+raft.Index(i)+1 && n.holds(r.Entries[i].ID())
	}
	if !sound {
		k.broken("N44", "%s sends other entries than those from %v to %v of its log", n, r.Prev, r.Last)
	}
}

// checkDelivered checks the messages that waited for a connection. left are those that have left or were dropped.
func (k *checker) checkDelivered(n *node, waiting, left []raft.Message) {
	for len(waiting) > 0 {
		whole, joined := joinable(waiting)
		parts := carrying(whole, left)
		if parts == 0 {
			k.broken("N45", "%s sends %s something else than the %T of term %d that waits", n, k.c.title(whole.To), whole.Body, whole.Term)
			return
		}
		waiting, left = waiting[joined:], left[parts:]
	}
	if len(left) > 0 {
		k.broken("N45", "%s sends %s a %T that did not wait", n, k.c.title(left[0].To), left[0].Body)
	}
}

// joinable returns the first waiting message, extended by the spans of all appends that continue it. n is the number of
// messages that it stands for.
func joinable(waiting []raft.Message) (whole raft.Message, n int) {
	whole, n = waiting[0], 1
	a, appends := whole.Body.(raft.AppendRequest)
	for ; appends && n < len(waiting) && sameEnvelope(waiting[n], whole); n++ {
		next, too := waiting[n].Body.(raft.AppendRequest)
		if !too || next.Prev != a.Last || next.Generation != a.Generation {
			break
		}
		a.Last = next.Last
	}
	if appends {
		whole.Body = a
	}
	return whole, n
}

// carrying returns the number of the messages that together carry a whole message, in order; 0 if they do not carry it.
func carrying(whole raft.Message, left []raft.Message) int {
	span, appends := whole.Body.(raft.AppendRequest)
	at := span.Prev
	for i := range left {
		a, too := left[i].Body.(raft.AppendRequest)
		if !sameEnvelope(left[i], whole) || too != appends {
			return 0
		}
		if !appends {
			return 1
		}
		if a.Prev != at || a.Acknowledged > a.Prev.Index {
			return 0
		}
		if at = a.Last; at == span.Last {
			return i + 1
		}
	}
	return 0
}

// sameEnvelope reports whether two messages have the same sender, receiver, cluster and term.
func sameEnvelope(a, b raft.Message) bool {
	a.Body, b.Body = nil, nil
	return a == b
}
