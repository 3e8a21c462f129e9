package raft

import (
	"fmt"
	"slices"
)

// This file holds what a leader knows about each other member, and every change of it.

// progressState says how a leader sends to a follower.
type progressState uint8

const (
	// probe: the leader does not know where the logs agree. It sends one append at a time.
	probe progressState = iota
	// replicate: the logs agree up to match. The leader sends appends one after another without waiting.
	replicate
	// snapshot: the follower lacks entries that are compacted here, or that are too large for an append to it. The leader
	// offers it a snapshot that covers every entry before next.
	snapshot
	// stale: the follower holds less than it has acknowledged in this term. It no longer counts.
	stale
)

func (s progressState) String() string {
	switch s {
	case probe:
		return "probe"
	case replicate:
		return "replicate"
	case snapshot:
		return "snapshot"
	case stale:
		return "stale"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// progress is what a leader knows about one other member. All transitions are in this file.
//
//	probe ──an append is acknowledged──► replicate
//	replicate ──conflict, loss, silence──► probe
//	either ──conflict at the base of the leader's log, or an entry that is too large for it──► snapshot
//	snapshot ──all before next is acknowledged──► replicate
//	any ──it has lost what it acknowledged──► stale
type progress struct {
	peer  Peer
	votes Halves // in which halves of the configuration it votes
	state progressState
	match Index // matchIndex
	next  Index // nextIndex

	probe probing    // the one append of a probe, or what a stale member is sent
	flow  flow       // the appends in flight, while it is replicated to
	snap  installing // in state snapshot: the offered snapshot

	oversized oversized // in state snapshot: the entry that is too large for it; zero: another reason for the snapshot

	beats heartbeats // what the heartbeats show

	heard Time // when a message of this term last came from it
	// promisedUntil is the latest time, on this leader's clock, up to which it has promised not to elect another leader.
	promisedUntil Time
	backAt        Time    // when it was first heard after a silence longer than the check-quorum window
	acks          recent  // how long its acknowledgements of appends took, without the time when it was silent
	joins         catchUp // while it has no vote

	hindered   Hindrance // why it does not count, as its last answer to a heartbeat says
	appVersion uint64    // of its program, as its last answer to a heartbeat says
	versioned  bool      // appVersion is known: its connection has not broken since that answer
	backoff    Time      // for how long it still counts as one without priority, as it has reported; 0: it does not
	lag        lag

	moment  Moment // the latest time on its clock that it has sent in this term; zero: none
	proving Moment // moment when the leader's round for ages began

	sentCommit Index // the highest commit index sent to it
	applied    Index // the last index that its FSM has applied, as it has reported in this term

	matchedAt Time    // when match last rose, or nothing was missing; initially, the election
	brought   int64   // bytes of the snapshot that it is sent or catches up from, as far as is known; 0: it needs none
	compacted EntryID // the entry at match, if that was compacted since it was acknowledged
	lost      EntryID // stale: the entry at lostMatch or, if it is not known, the base
	lostMatch Index   // stale: it acknowledged entries up to here, and has lost some of them

	departs      Index // the entry that has removed it; 0: it is a member
	departsUntil Time  // the latest end of its service once the removal is committed; 0: not committed
	removalRound RPCID // the first heartbeat round that has shown it the committed removal; zero: none yet
}

// lag measures for how long a member has lacked entries.
type lag struct {
	target Index // where the log ended when the member last held an earlier target
	since  Time  // when that was
}

// measure is called with each heartbeat.
func (l *lag) measure(match, last Index, now Time) {
	if match >= l.target {
		l.target, l.since = last, now
	}
}

// lags returns the latest possible time since which the leader's log has held an entry that the member lacks. It returns 0 if
// the member lacks no entry, or lacks only entries that are newer than the last measurement.
func (p *progress) lags() Time {
	if p.match >= p.lag.target {
		return 0
	}
	return p.lag.since
}

// oversized is an entry that is too large for an append to a follower.
type oversized struct {
	id    EntryID
	bytes int // of its record
}

// probing is the state of a leader that sends one append at a time, and repeats it if necessary.
type probing struct {
	out     bool // an append is unanswered
	sentAt  Time // when it was last sent
	bare    bool // it was sent before: repeat it without entries
	askedAt Time // when it was first sent, before any repetition
}

// begin allows the next append to be sent at once, with entries.
func (q *probing) begin() { q.out, q.bare = false, false }

// repeat allows the same append to be sent once more, without entries.
func (q *probing) repeat() { q.out, q.bare = false, true }

// sent records that an append has left. The duration of its answer is measured from the first time that it was sent. The
// reason is that the follower acknowledges a repetition only once the entries that were sent before are durable.
func (q *probing) sent(now Time) {
	q.out, q.sentAt = true, now
	if !q.bare {
		q.askedAt = now
	}
}

// overdue reports whether an append has been unanswered for at least patience.
func (q *probing) overdue(now, patience Time) bool { return q.out && now-q.sentAt >= patience }

// flow is a window of appends that the leader sends one after another without waiting.
type flow struct {
	inflight []inflightAppend // not answered, in order
	bytes    int              // of all in flight
	movedAt  Time             // when one was last answered, or when the first one left
}

// inflightAppend is one append that the leader has sent and the follower has not answered.
type inflightAppend struct {
	last   Index
	bytes  int
	sentAt Time
}

// hasRoom reports whether another append may leave. If none is in flight, one append of any size may leave.
func (f *flow) hasRoom(limits *Limits) bool {
	return len(f.inflight) < limits.InflightMax && (len(f.inflight) == 0 || f.bytes < limits.InflightBytesMax)
}

// sent records that an append has left.
func (f *flow) sent(last Index, bytes int, now Time) {
	if len(f.inflight) == 0 {
		f.movedAt = now
	}
	f.inflight = append(f.inflight, inflightAppend{last, bytes, now})
	f.bytes += bytes
}

// answered drops the appends up to match. It returns the time at which the first dropped append left, if one was dropped.
func (f *flow) answered(match Index, now Time) (sentAt Time, found bool) {
	f.movedAt = now
	if len(f.inflight) > 0 && f.inflight[0].last <= match {
		sentAt, found = f.inflight[0].sentAt, true
	}
	n := 0
	for n < len(f.inflight) && f.inflight[n].last <= match {
		f.bytes -= f.inflight[n].bytes
		n++
	}
	f.inflight = append(f.inflight[:0], f.inflight[n:]...)
	return sentAt, found
}

// forget drops all appends in flight.
func (f *flow) forget() { f.inflight, f.bytes = f.inflight[:0], 0 }

// silent reports whether appends are in flight and none of them has been answered for the given time.
func (f *flow) silent(now, silence Time) bool { return len(f.inflight) > 0 && now-f.movedAt >= silence }

// heartbeats is what the heartbeat rounds show about a follower. They show that it hears this leader, how long a round trip
// takes, and whether it has forgotten what it acknowledged.
type heartbeats struct {
	echoed     RPCID // the latest round that it has answered
	pinged     RPCID // the round that measures the round trip; 0: no measurement is running
	pingedAt   Time
	roundTrip  recent
	asked      RPCID // a round whose answer shows whether the follower has forgotten
	askedMatch Index // match when that round began
}

// sent records that a round begins. The round also measures the round trip, unless another measurement is running.
func (h *heartbeats) sent(round RPCID, match Index, now Time) {
	if !h.echoed.Less(h.asked) {
		h.asked, h.askedMatch = round, match
	}
	if h.pinged == (RPCID{}) {
		h.pinged, h.pingedAt = round, now
	}
}

// answered handles the answer to a round. If a measurement of the round trip is running, the answer to its round ends it. The
// answer to a later round ends it, too. That answer gives no duration, because the earlier answer is lost.
func (h *heartbeats) answered(round RPCID, now Time) {
	if h.echoed.Less(round) {
		h.echoed = round
	}
	if h.pinged == (RPCID{}) {
		return
	}
	if round == h.pinged {
		h.roundTrip.add(now - h.pingedAt)
	}
	if !round.Less(h.pinged) {
		h.pinged = RPCID{}
	}
}

// showsLess reports whether the follower's answer to a round says that it holds less than it had acknowledged before that
// round.
func (h *heartbeats) showsLess(round RPCID, match Index) bool {
	return !round.Less(h.asked) && match < h.askedMatch
}

// becomeProbe makes the next append begin at this index, but never at or below match or the base.
func (p *progress) becomeProbe(next, base Index) {
	p.state = probe
	p.next = max(next, p.match+1, base+1)
	p.flow.forget()
	p.probe.begin()
	p.sentCommit, p.oversized = 0, oversized{}
}

// becomeSnapshot handles a follower that lacks the entry at to. No append can bring that entry, because it is compacted here
// or too large for the follower.
func (p *progress) becomeSnapshot(to, base Index) {
	p.becomeProbe(to+1, base)
	p.state, p.snap = snapshot, installing{}
}

func (p *progress) becomeReplicate() {
	p.state, p.oversized = replicate, oversized{}
	p.next = p.match + 1
	p.probe.begin()
	assert(len(p.flow.inflight) == 0, "replication begins with nothing in flight")
}

// becomeStale handles a follower that does not hold what it has acknowledged. It runs on an older image of its disk, or its
// disk has lost what was synced. For the rest of this term, neither its later answers nor its earlier answers count. lost is
// the last entry that it acknowledged, or the base.
func (p *progress) becomeStale(lost EntryID) {
	*p = progress{
		peer: p.peer, votes: p.votes, state: stale, lost: lost, lostMatch: p.match, next: lost.Index + 1,
		departs: p.departs, departsUntil: p.departsUntil,
	}
}

// sentProbe records that the probe's single append has been sent.
func (p *progress) sentProbe(now Time) {
	assert(p.state == probe && !p.probe.out, "one probe at a time")
	p.probe.sent(now)
}

// sentAppend records that an append has left in the state replicate.
func (p *progress) sentAppend(last Index, bytes int, now Time) {
	assert(p.state == replicate && last >= p.next, "replication only goes forward")
	p.flow.sent(last, bytes, now)
	p.next = last + 1
}

// acknowledged records that the follower durably holds our log up to match. A probe ends once match covers every entry before
// next. The answer to an earlier append may not cover them all. The same condition ends a snapshot.
func (p *progress) acknowledged(match Index, now Time) {
	if match > p.match {
		p.matchedAt, p.joins.movedAt = now, now
	}
	if p.state == probe || p.state == snapshot {
		p.match = max(p.match, match)
		if p.match >= p.next-1 {
			if p.state == probe && p.probe.out {
				p.acks.add(now - max(p.probe.askedAt, p.backAt))
			}
			p.becomeReplicate()
			p.measure(now) // what it held before was not sent
		}
		return
	}
	if match <= p.match {
		return
	}
	p.match = match
	p.next = max(p.next, match+1)
	if sentAt, found := p.flow.answered(match, now); found {
		p.acks.add(now - max(sentAt, p.backAt))
	}
}

// conflicted handles a failed consistency check at prev, and reports whether it showed anything new. agreed is the last index
// at which the logs may agree. If the check fails at the base, the follower needs entries that are compacted here:
//
//	"the leader must occasionally send snapshots to followers that lag behind. This happens when the leader has
//	already discarded the next log entry that it needs to send to a follower." (§7)
func (p *progress) conflicted(prev, agreed, base Index) bool {
	if prev <= p.match || p.state == snapshot || p.state == probe && prev != p.next-1 {
		return false // an old answer
	}
	if prev == base {
		p.becomeSnapshot(base, base)
		return true
	}
	p.becomeProbe(min(agreed, prev-1)+1, base)
	return true
}

// forgot handles a follower whose answer to a heartbeat says that it holds less than it had acknowledged when the heartbeat
// left. That follower has restarted. This leader must prove again which entries match before the follower commits them.
func (p *progress) forgot(round RPCID, match, base Index) {
	if p.state == replicate && p.beats.showsLess(round, match) {
		p.becomeProbe(p.match+1, base)
	}
}

// retransmit repeats an append that seems to be lost, because the follower answers heartbeats but not appends. The follower
// may only be slow, so the repetition has no entries. If the follower has received the entries, it acknowledges them once
// they are durable. Otherwise it reports a conflict at once.
func (p *progress) retransmit(now, patience, silence Time, base Index) {
	switch {
	case p.state == probe && p.probe.overdue(now, patience):
		p.probe.repeat()
	case p.state == replicate && p.flow.silent(now, silence):
		p.probe.askedAt = p.flow.inflight[0].sentAt
		p.becomeProbe(p.next, base)
		p.probe.repeat()
	}
}

// recent keeps the latest of some durations.
type recent struct {
	last [8]Time
	next int
}

func (r *recent) add(d Time) {
	r.last[r.next] = d
	r.next = (r.next + 1) % len(r.last)
}

// median returns the median of the durations, or 0 if there are none.
func (r *recent) median() Time {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(r.last[:])), func(d Time) bool { return d == 0 })
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// max returns the longest of the durations, or 0 if there are none.
func (r *recent) max() Time { return slices.Max(r.last[:]) }
