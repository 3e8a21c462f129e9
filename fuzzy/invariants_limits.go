package fuzzy

import (
	"maps"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
)

// The invariants of limits and counters. The limits of a core are those of raft.Limits.
//
//	N32  The counters agree with the contents. A leader counts the proposals of its term that are not being applied yet, and their bytes. It counts at most as many reads as are unanswered.
//	N33  No request is refused for a limit that is not reached, and none is accepted beyond a limit. This holds for the core's own limits and for the limits of members.
//	N34  The number of bytes in flight to a peer is zero exactly if no append is in flight.
//
// N10 checks the limits themselves.

// checkLimits checks the counters of a member after a step.
func (k *checker) checkLimits(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	k.checkBounds(n, before)
	k.checkProposalCounts(n, out)
	k.checkAdmission(n, before, events, out)
}

// checkBounds checks that no limit is exceeded. A lower limit takes back nothing, so what exceeds it was there before the step.
func (k *checker) checkBounds(n *node, before *raft.CoreStatus) {
	s := &n.status
	_, limits := n.bounds()
	if s.Pending > max(limits.ProposalsMax, before.Pending) {
		k.broken("N10", "%s: %d proposals wait, over the limit of %d", n, s.Pending, limits.ProposalsMax)
	}
	if most := limits.ProposalBytesMax + k.c.longestCommand(); s.PendingBytes >= most && s.PendingBytes > before.PendingBytes {
		k.broken("N10", "%s: %d bytes of proposals wait, over the limit of %d", n, s.PendingBytes, limits.ProposalBytesMax)
	}
	if s.Reads > max(limits.ProposalsMax, before.Reads) {
		k.broken("N10", "%s: %d reads wait, over the limit of %d", n, s.Reads, limits.ProposalsMax)
	}
	for i := range s.Peers {
		p, was := &s.Peers[i], raft.PeerProgress{}
		if known := progressOn(before, peerOf(p)); known != nil {
			was = *known
		}
		if p.Inflight > max(limits.InflightMax, was.Inflight) {
			k.broken("N10", "%s: %d appends to %s in flight, over the limit of %d", n, p.Inflight, k.c.title(peerOf(p)), limits.InflightMax)
		}
		// An append may leave while the bytes in flight are below the limit, and may then exceed it.
		most := limits.InflightBytesMax + max(limits.AppendBytesMax, largest(n, p.Match))
		if p.Inflight > 1 && p.InflightBytes >= most && p.InflightBytes > was.InflightBytes {
			k.broken("N10", "%s: %d bytes to %s in flight, over the limit of %d", n, p.InflightBytes, k.c.title(peerOf(p)), limits.InflightBytesMax)
		}
		if (p.Inflight == 0) != (p.InflightBytes == 0) {
			k.broken("N34", "%s: %d appends to %s in flight, of %d bytes", n, p.Inflight, k.c.title(peerOf(p)), p.InflightBytes)
		}
	}
}

// largest returns an upper bound of the core's estimate for the largest entry after match. The core spreads the bytes between
// two size marks of the log evenly over the entries, so each entry has a share of entry 1. This share shrinks as the log
// grows. The core estimated the append when it sent it, and the log was already longer than match then. If members change,
// any entry may be a configuration.
func largest(n *node, match raft.Index) int {
	bytes := n.c.longestCommand() + raft.RecordOverheadBytes + bootstrapBytesMax/int(match+1)
	if n.c.profile.Members.Admins > 0 {
		bytes += bootstrapBytesMax
	}
	return bytes
}

// longestCommand returns an upper bound of the bytes of each command so far. It looks at the commands of an application,
// because a profile does not bound them.
func (c *cluster) longestCommand() int {
	most := c.profile.Load.BytesMax
	if c.host != nil {
		most = max(most, c.host.longest)
	}
	if c.profile.Sessions.Chance > 0 { // the effect of a session's command has the bytes of a short one
		most = max(most, sessions.RequestBytesMax+commandBytesMin)
	}
	return commandBytesMin + most
}

// bootstrapBytesMax bounds the size of entry 1.
const bootstrapBytesMax = 4000

// checkProposalCounts checks a leader's proposals: the commands of its own term that are not being applied yet.
func (k *checker) checkProposalCounts(n *node, out *raft.Output) {
	s := &n.status
	if s.Role != raft.Leader || n.seen.closed {
		if s.Pending != 0 || s.PendingBytes != 0 {
			k.broken("N32", "%s counts %d proposals of %d bytes, but accepts none", n, s.Pending, s.PendingBytes)
		}
		return
	}
	if s.Reads > len(n.seen.open) {
		k.broken("N32", "%s counts %d reads, but %d are unanswered", n, s.Reads, len(n.seen.open))
	}
	applying := max(n.applyTo.Index, out.Apply.Index, restoring(out), n.seen.office)
	var from slot
	if applying > 0 {
		from = n.log[applying-1]
	}
	last := n.log[len(n.log)-1]
	commands, payload := int(last.commands-from.commands), int(last.payload-from.payload)
	if s.Pending != commands || s.PendingBytes != payload {
		k.broken("N32", "%s counts %d proposals of %d bytes; its log has %d of %d bytes that are not being applied",
			n, s.Pending, s.PendingBytes, commands, payload)
	}
}

// checkAdmission checks which requests a leader accepts, and which it refuses for a limit.
func (k *checker) checkAdmission(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	s := &n.status
	lowest, highest := n.bounds()
	taken, bytes, reads := 0, 0, readsAmong(events)
	least, most := k.commandLimits(n, before, events)
	for i := range out.Answers {
		a := &out.Answers[i]
		r := k.c.work.request(a.RequestID)
		if r == nil {
			return // N11 fails
		}
		switch {
		case a.Kind == raft.AnswerAccepted && r.kind == writeRequest:
			taken, bytes = taken+1, bytes+r.size
			if r.size > most || a.ID.Index > max(s.Applied, s.Base.Index)+raft.Index(highest.UnappliedMax) {
				k.broken("N33", "%s takes %d bytes as entry %d, with only %d applied", n, r.size, a.ID.Index, s.Applied)
			}
		case a.Refusal == raft.RefusedTooLarge && r.size <= least:
			k.broken("N33", "%s refuses %d bytes as too large", n, r.size)
		case a.Refusal == raft.RefusedOverloaded && r.kind == readRequest && before.Role == raft.Leader:
			if before.Reads+reads <= lowest.ProposalsMax && s.Role == raft.Leader {
				k.broken("N33", "%s has no room for a read with %d pending", n, before.Reads)
			}
		case a.Refusal == raft.RefusedOverloaded && r.kind == readRequest && s.Role != raft.Leader:
			if before.Reads+reads <= lowest.ProposalsMax && !toldNoRoom(events) {
				k.broken("N33", "%s has no room for a read with %d pending, but its leader has not said so", n, before.Reads)
			}
		case a.Refusal == raft.RefusedOverloaded && r.kind == writeRequest:
			full := before.Pending+taken >= lowest.ProposalsMax ||
				before.PendingBytes+bytes >= lowest.ProposalBytesMax ||
				max(before.Last.Index+raft.Index(taken), s.Last.Index) >= before.Applied+raft.Index(lowest.UnappliedMax)
			passing := before.Role != raft.Leader && s.Role != raft.Leader // it was leader only during this step
			begins := r.session != nil && !before.Config.Sessions          // the first session waits for a configuration
			if !full && !passing && !begins {
				k.broken("N33", "%s has no room for a write with %d pending of %d bytes", n, before.Pending, before.PendingBytes)
			}
		}
	}
}

// commandLimits returns a lower and an upper bound of the largest command that a leader may take. The leader's own limit and
// those of its members set these bounds. In some steps a member's limit may or may not count. These are steps in which the
// member's connection has shown the limit, or the member has come or gone.
func (k *checker) commandLimits(n *node, before *raft.CoreStatus, events []raft.Event) (least, most int) {
	lowest, highest := n.bounds()
	least, most = lowest.CommandBytesMax, highest.CommandBytesMax
	said := func(carries int, sure bool) {
		if limit := max(carries-raft.RecordOverheadBytes, 0); carries > 0 {
			least = min(least, limit)
			if sure {
				most = min(most, limit)
			}
		}
	}
	told := map[raft.Peer]int{}
	for _, e := range events {
		if up, ok := e.(raft.PeerUp); ok {
			p := raft.Peer{ID: up.ID, Incarnation: up.Incarnation}
			told[p] = up.AppendBytesMax
			said(up.AppendBytesMax, false)
		}
	}
	for p, carries := range n.seen.carries {
		_, changes := told[p]
		was, is := includes(&before.Config, p), includes(&n.status.Config, p)
		if was || is {
			said(carries, was && is && !changes)
		}
	}
	maps.Copy(n.seen.carries, told)
	return least, most
}

// toldNoRoom reports whether a leader has answered in this step that it has no room for a read.
func toldNoRoom(events []raft.Event) bool {
	return slices.ContainsFunc(events, func(e raft.Event) bool {
		r, ok := e.(raft.Received)
		if !ok {
			return false
		}
		b, ok := r.Message.Body.(raft.ReadReply)
		return ok && b.Refusal == raft.RefusedOverloaded
	})
}

// readsAmong counts the read requests among the events of a step.
func readsAmong(events []raft.Event) (reads int) {
	for _, e := range events {
		switch e := e.(type) {
		case raft.ReadRequested:
			reads++
		case raft.Received:
			if _, ok := e.Message.Body.(raft.ReadRequest); ok {
				reads++
			}
		}
	}
	return reads
}

// request returns the request with an id, or nil.
func (w *workload) request(t raft.RequestID) *request {
	if t == 0 || int(t) >= len(w.requests) {
		return nil
	}
	return &w.requests[t]
}

// checkRelieved checks that all counters are zero after the load has ended and everything is applied. On slow links, a leader
// may be elected during the quiet. Such a leader may still wait for the reply to its first append.
func (l *liveness) checkRelieved() {
	for _, n := range l.members() {
		s := &n.status
		// A member that does not reach its leader may still wait for an answer. A member that was not healed may request a
		// read at any time.
		waits := s.Reads > l.readsExcused(n) && l.counts(n) && !l.asksUnhealed(n)
		l.c.mustHold(s.Pending == 0 && s.PendingBytes == 0 && !waits, "L10",
			"%s of an idle cluster counts %d proposals of %d bytes and %d reads", n, s.Pending, s.PendingBytes, s.Reads)
		l.c.mustHold(n.vault.held == nil || l.mayHold(n), "L10", "%s of an idle cluster holds a frozen state", n)
		for i := range s.Peers {
			p := &s.Peers[i]
			idle := p.Inflight == 0 && p.InflightBytes == 0 || l.healed(peerOf(p)) == nil || s.Term > l.quieted
			l.c.mustHold(idle, "L10", "%s of an idle cluster has %d appends of %d bytes to %s in flight", n, p.Inflight, p.InflightBytes, l.c.title(peerOf(p)))
		}
	}
}

// readsExcused counts the reads that members outside the core have requested of a leader. It also counts requests that have
// only just arrived, because the network may have delayed them for seconds.
func (l *liveness) readsExcused(lead *node) (reads int) {
	for r, at := range lead.seen.open {
		if r.from != (raft.Peer{}) && (l.healed(r.from) == nil || lead.seen.now-at < lead.timeout()) {
			reads++
		}
	}
	return reads
}

// mayHold reports whether a member may still hold its frozen state when the quiet ends. N58 limits the time for which the
// member waits for others.
//
// Between these waits the receiver owes nothing, and the stream continues by itself. WriteTo reads the next bytes, or the
// pace delays a chunk. Or the stream ends soon, because its connection broke and no offer is answered. No rule limits the
// total time of such a stream.
//
// But all members of the core had the whole log when the quiet began. So the receiver is outside the core, or the leader was
// elected in the quiet.
func (l *liveness) mayHold(n *node) bool {
	v := &n.vault
	if h := v.held; h.owed || h.arrived() {
		return !h.overdue(n.now().Mono, n.timeout())
	}
	to := slices.IndexFunc(v.out, func(o *outStream) bool { return o != nil && o.held })
	streaming := to >= 0 && (v.held.writesAt > 0 || v.out[to].waits)
	return streaming && (l.core>>to&1 == 0 || n.status.Term > l.quieted)
}
