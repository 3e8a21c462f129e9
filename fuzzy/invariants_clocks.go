package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
)

// The invariants of forwarded reads and of clocks.
//
//	N38  A member retries a read request to its leader for at most seventeen election timeouts.
//	N39  Before the members change for the first time: if other voters have shown their clocks, a leader stamps no entry more than a minute ahead of all these clocks, unless its log already holds a later stamp.

// readsAskedMax is the number of election timeouts for which a read request may be retried.
const readsAskedMax = 17

// recordInquiry records a read request to the leader.
func (w *witness) recordInquiry(n *node, id raft.RPCID) {
	if id != w.inquiry {
		w.inquiry, w.inquired = id, w.now
	}
	w.persisted = w.persisted || w.now-w.inquired > readsAskedMax*n.timeout()
}

// dropAnswered removes answered reads from the open reads. A read that reaches the leader twice in one step stays open,
// because the answer may belong to the first request alone. An example: the leader refuses the first request for its limit.
// Then the leader drops the reads of a member that turns out to be stale. Now it has room for the second request.
func (w *witness) dropAnswered(out *raft.Output) {
	if len(w.open) == 0 {
		return
	}
	for i := range out.Answers {
		delete(w.open, reading{requestID: out.Answers[i].RequestID})
	}
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			if b, ok := list[i].Body.(raft.ReadReply); ok {
				delete(w.open, reading{from: list[i].To, id: b.ID})
			}
		}
	}
	for _, r := range w.again {
		w.open[r] = w.now
	}
	w.again = w.again[:0]
}

// recordClock records the wall clock in a message. The clock of a member without a vote does not count, even if the
// member gets a vote later.
func (w *witness) recordClock(n *node, m *raft.Message) {
	if n.configBefore != nil && !votes(&n.configBefore.Configuration, m.From) {
		return
	}
	var wall int64
	switch b := m.Body.(type) {
	case raft.BootstrapProbeReply:
		wall = b.Wall
	case raft.VoteReply:
		wall = b.Wall
	case raft.HeartbeatReply:
		wall = b.Wall
	}
	if wall == 0 {
		return
	}
	ahead := wall - int64(w.now)
	if most, shown := w.walls[m.From]; !shown || ahead > most {
		w.walls[m.From] = ahead
	}
}

// checkStamps checks the stamps of a leader. If a clock was wrong once, its reading counts forever. This makes the check
// weaker, but the check never fails a correct leader.
func (k *checker) checkStamps(n *node, events []raft.Event, out *raft.Output) {
	w, s := &n.seen, &n.status
	for _, e := range events { // entries that are appended and truncated in one step appear in no write
		if a, ok := e.(raft.SnapshotArrived); ok { // the replaced log may have held stamps that were truncated
			w.stamp = max(w.stamp, a.Snapshot.Time)
		}
		if r, ok := e.(raft.Received); ok {
			if a, ok := r.Message.Body.(raft.AppendRequest); ok && len(a.Entries) > 0 {
				w.stamp = max(w.stamp, a.Entries[len(a.Entries)-1].Time)
			}
		}
	}
	l := out.Write.Log
	if l == nil || len(l.Entries) == 0 {
		return
	}
	last := &l.Entries[len(l.Entries)-1]
	// After the voters have changed, the clocks that a leader remembers depend on the times at which each member had a vote.
	// So only leaders without such a change are checked.
	if s.Role == raft.Leader && last.Term == s.Term && configured(n.log).before == nil {
		latest, shown := int64(0), false
		for p, ahead := range w.walls {
			if votes(n.config(), p) {
				latest, shown = max(latest, ahead+int64(w.now)+stampAheadMax), true
			}
		}
		if shown && last.Time > max(latest, w.stamp) {
			k.broken("N39", "%s stamps %v %v ahead of every other voter's clock", n, last.ID(),
				time.Duration(last.Time-latest)+time.Duration(stampAheadMax))
		}
	}
	w.stamp = max(w.stamp, last.Time)
}
