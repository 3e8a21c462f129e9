package raft

// progressState says how a leader sends to a follower.
type progressState uint8

const (
	// probe: it is not known where the logs agree; one append at a time.
	probe progressState = iota
	// replicate: the logs agree up to match; appends follow each other without waiting.
	replicate
	// stale: it holds less than it has acknowledged in this term. It counts for nothing any more.
	stale
)

func (s progressState) String() string {
	switch s {
	case replicate:
		return "replicate"
	case stale:
		return "stale"
	}
	return "probe"
}

// progress is what a leader knows of one other member. All transitions are in this file.
//
//	probe ──an append is acknowledged──► replicate
//	replicate ──conflict, loss, silence──► probe
//	either ──it has lost what it acknowledged──► stale
type progress struct {
	peer  Peer
	voter bool
	state progressState
	match Index // matchIndex
	next  Index // nextIndex

	probe probing    // the one append of a probe, and the refusals of a stale one
	flow  flow       // the appends of a stream
	beats heartbeats // what the heartbeats tell

	heard  Time   // any message in this term
	backAt Time   // when it was first heard after a silence longer than the check-quorum window
	acks   recent // how long its acknowledgements of appends took, without the time when it was away

	sentCommit Index // it knows this commit index, unless messages were lost
	lost       Index // stale: it has acknowledged up to here, and does not hold that
}

// probing sends one append at a time, and repeats it.
type probing struct {
	out     bool // one is on its way
	sentAt  Time // the latest one
	bare    bool // this next was probed before; probe it again without entries
	askedAt Time // when the first append left that is not answered, before any repetition
}

// begin lets the next append leave at once, with entries.
func (q *probing) begin() { q.out, q.bare = false, false }

// repeat lets the same append leave once more, without entries.
func (q *probing) repeat() { q.out, q.bare = false, true }

// sent records that an append has left. Its answer takes as long as it does since the first time: a
// repetition is acknowledged only when what was sent before is durable.
func (q *probing) sent(now Time) {
	q.out, q.sentAt = true, now
	if !q.bare {
		q.askedAt = now
	}
}

// overdue reports whether an append has been on its way for that long.
func (q *probing) overdue(now, patience Time) bool { return q.out && now-q.sentAt >= patience }

// flow is a window of appends that follow each other without waiting.
type flow struct {
	inflight []inflightAppend // not answered, in order
	bytes    int              // of them
	movedAt  Time             // when one was last answered, or the first one of them left
}

// inflightAppend is one append that is under way.
type inflightAppend struct {
	last   Index
	bytes  int
	sentAt Time
}

// hasRoom reports whether another append may leave. The first one may, whatever its size.
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

// answered drops the appends up to match, and returns when the first one of them left, if there is any.
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

// forget drops all of them.
func (f *flow) forget() { f.inflight, f.bytes = f.inflight[:0], 0 }

// silent reports whether appends are on their way, and none was answered for that long.
func (f *flow) silent(now, silence Time) bool { return len(f.inflight) > 0 && now-f.movedAt >= silence }

// heartbeats is what the rounds of heartbeats tell of a follower: that it hears this leader, how far away it
// is, and whether it has forgotten what it acknowledged.
type heartbeats struct {
	echoed     RPCID // the latest round that it has answered
	pinged     RPCID // the round that measures the round trip; 0: none is out
	pingedAt   Time
	roundTrip  recent
	asked      RPCID // a round whose answer shows whether the follower has forgotten
	askedMatch Index // match when it began
	tickLast   Index // what was sent when the last heartbeat fell due
}

// sent takes note of a round that begins: it may measure the round trip, unless another one does already.
func (h *heartbeats) sent(round RPCID, match Index, now Time) {
	if !h.echoed.Less(h.asked) {
		h.asked, h.askedMatch = round, match
	}
	if h.pinged == (RPCID{}) {
		h.pinged, h.pingedAt = round, now
	}
}

// answered takes the answer to a round: of the one that measures, or, if that is lost, of a later one, which
// says nothing of how long the way is.
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

// showsLess reports whether the answer to a round holds less than was acknowledged before that round.
func (h *heartbeats) showsLess(round RPCID, match Index) bool {
	return !round.Less(h.asked) && match < h.askedMatch
}

func (p *progress) becomeProbe(next Index) {
	p.state = probe
	p.next = max(next, p.match+1)
	p.flow.forget()
	p.probe.begin()
	p.sentCommit = 0
}

func (p *progress) becomeReplicate() {
	p.state = replicate
	p.next = p.match + 1
	p.probe.begin()
	assert(len(p.flow.inflight) == 0, "replication begins with nothing in flight")
}

// becomeStale takes into account that the follower does not hold what it has acknowledged: it runs on an
// older image of its disk, or the disk has lost what was synced. Nothing that it says in this term is
// believed any more, and what it said before does not count.
func (p *progress) becomeStale() {
	*p = progress{peer: p.peer, voter: p.voter, state: stale, lost: p.match, next: p.match + 1}
}

// sentProbe records that the one append of a probe has left.
func (p *progress) sentProbe(now Time) {
	assert(p.state == probe && !p.probe.out, "one probe at a time")
	p.probe.sent(now)
}

// sentAppend records that an append that does not wait for the one before has left.
func (p *progress) sentAppend(last Index, bytes int, now Time) {
	assert(p.state == replicate && last >= p.next, "replication only goes forward")
	p.flow.sent(last, bytes, now)
	p.next = last + 1
}

// acknowledged takes into account that the follower's log holds ours up to match, durably. A probe ends
// when all before its next entry is: an answer to an earlier append says nothing of what is between.
func (p *progress) acknowledged(match Index, now Time) {
	if p.state == probe {
		p.match = max(p.match, match)
		if p.match >= p.next-1 {
			if p.probe.out {
				p.acks.add(now - max(p.probe.askedAt, p.backAt))
			}
			p.becomeReplicate()
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

// conflicted takes a failed consistency check at prev into account, and reports whether it said
// anything new. agreed is the last place where the logs may still agree.
func (p *progress) conflicted(prev, agreed Index) bool {
	if prev <= p.match || p.state == probe && prev != p.next-1 {
		return false // an old answer
	}
	p.becomeProbe(min(agreed, prev-1) + 1)
	return true
}

// forgot takes into account that the follower answered a heartbeat with less than it had acknowledged
// before that left: it has restarted, and must be shown again what matches before it commits.
func (p *progress) forgot(round RPCID, match Index) {
	if p.state == replicate && p.beats.showsLess(round, match) {
		p.becomeProbe(p.match + 1)
	}
}

// retransmit repeats what seems to be lost: the follower answers heartbeats, but not appends. It may only
// be slow, so it is asked about the last append sent, without entries: if it has that, it answers once
// its disk has; if not, it says so at once.
func (p *progress) retransmit(now, patience, silence Time) {
	switch {
	case p.state == probe && p.probe.overdue(now, patience):
		p.probe.repeat()
	case p.state == replicate && p.flow.silent(now, silence):
		p.probe.askedAt = p.flow.inflight[0].sentAt
		p.becomeProbe(p.next)
		p.probe.repeat()
	}
}
