package raft

// progressState says how a leader sends to a follower.
type progressState uint8

const (
	// probe: it is not known where the logs agree; one append at a time.
	probe progressState = iota
	// stream: the logs agree up to match; appends follow each other without waiting.
	stream
	// stale: it holds less than it has acknowledged in this term. It counts for nothing any more.
	stale
)

func (s progressState) String() string {
	switch s {
	case stream:
		return "stream"
	case stale:
		return "stale"
	}
	return "probe"
}

// progress is what a leader knows of one other member. All transitions are in this file.
//
//	probe ──an append is acknowledged──► stream
//	stream ──conflict, loss, silence──► probe
//	either ──it has lost what it acknowledged──► stale
type progress struct {
	peer  Peer
	voter bool
	state progressState
	match Index // matchIndex
	next  Index // nextIndex

	flights     []flight // stream: appends that are not answered, in order
	flightBytes int
	movedAt     Time // when a flight was last answered, or the first one of them left

	probing  bool // probe: one is out
	probedAt Time
	repeated bool // probe: this next was probed before; probe it again without entries
	askedAt  Time // probe: when the first append left that it has not answered, before any repetition

	heard  Time      // any message in this term
	backAt Time      // when it was first heard after a silence longer than the check-quorum window
	round  RequestID // the latest heartbeat round that it echoed

	pinged    RequestID // the heartbeat round that measures the round trip; 0: none is out
	pingedAt  Time
	roundTrip recent
	acks      recent // how long its acknowledgements of appends took, without the time when it was away

	sentCommit Index // it knows this commit index, unless messages were lost
	tickLast   Index // what was sent when the last heartbeat fell due

	lost Index // stale: it has acknowledged up to here, and does not hold that

	beatRound RequestID // a heartbeat round whose answer shows whether the follower has forgotten
	beatMatch Index     // match when it began
}

// flight is one append that is under way.
type flight struct {
	last   Index
	bytes  int
	sentAt Time
}

// ping lets this heartbeat round measure the round trip, unless another one does already.
func (p *progress) ping(round RequestID, now Time) {
	if p.pinged == (RequestID{}) {
		p.pinged, p.pingedAt = round, now
	}
}

// pong takes the answer to a heartbeat round: of the one that measures, or, if that is lost, of a later
// one, which says nothing of how long the way is.
func (p *progress) pong(round RequestID, now Time) {
	if p.pinged == (RequestID{}) {
		return
	}
	if round == p.pinged {
		p.roundTrip.add(now - p.pingedAt)
	}
	if !round.Less(p.pinged) {
		p.pinged = RequestID{}
	}
}

func (p *progress) becomeProbe(next Index) {
	p.state = probe
	p.next = max(next, p.match+1)
	p.flights, p.flightBytes = p.flights[:0], 0
	p.probing, p.repeated = false, false
	p.sentCommit = 0
}

func (p *progress) becomeStream() {
	p.state = stream
	p.next = p.match + 1
	p.probing, p.repeated = false, false
	assert(len(p.flights) == 0, "a stream begins with nothing in flight")
}

// becomeStale takes into account that the follower does not hold what it has acknowledged: it runs on an
// older image of its disk, or the disk has lost what was synced. Nothing that it says in this term is
// believed any more, and what it said before does not count.
func (p *progress) becomeStale() {
	*p = progress{peer: p.peer, voter: p.voter, state: stale, lost: p.match, next: p.match + 1}
}

// sentProbe records that the one append of a probe has left. Its answer takes as long as it does since the
// first time: a repetition is acknowledged only when what was sent before is durable.
func (p *progress) sentProbe(now Time) {
	assert(p.state == probe && !p.probing, "one probe at a time")
	p.probing, p.probedAt = true, now
	if !p.repeated {
		p.askedAt = now
	}
}

// sentAppend records that an append of a stream has left.
func (p *progress) sentAppend(last Index, bytes int, now Time) {
	assert(p.state == stream && last >= p.next, "a stream only goes forward")
	if len(p.flights) == 0 {
		p.movedAt = now
	}
	p.flights = append(p.flights, flight{last, bytes, now})
	p.flightBytes += bytes
	p.next = last + 1
}

// acknowledged takes into account that the follower's log holds ours up to match, durably. A probe ends
// when all before its next entry is: an answer to an earlier append says nothing of what is between.
func (p *progress) acknowledged(match Index, now Time) {
	if p.state == probe {
		p.match = max(p.match, match)
		if p.match >= p.next-1 {
			if p.probing {
				p.acks.add(now - max(p.askedAt, p.backAt))
			}
			p.becomeStream()
		}
		return
	}
	if match <= p.match {
		return
	}
	p.match, p.movedAt = match, now
	p.next = max(p.next, match+1)
	n := 0
	if len(p.flights) > 0 && p.flights[0].last <= match {
		p.acks.add(now - max(p.flights[0].sentAt, p.backAt))
	}
	for n < len(p.flights) && p.flights[n].last <= match {
		p.flightBytes -= p.flights[n].bytes
		n++
	}
	p.flights = append(p.flights[:0], p.flights[n:]...)
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
func (p *progress) forgot(match Index) {
	if p.state == stream && match < p.beatMatch {
		p.becomeProbe(p.match + 1)
	}
}

// roused repeats what seems to be lost: the follower answers heartbeats, but not appends. It may only
// be slow, so it is asked about the last append sent, without entries: if it has that, it answers once
// its disk has; if not, it says so at once.
func (p *progress) roused(now, patience, silence Time) {
	switch {
	case p.state == probe && p.probing && now-p.probedAt >= patience:
		p.probing, p.repeated = false, true
	case p.state == stream && len(p.flights) > 0 && now-p.movedAt >= silence:
		p.askedAt = p.flights[0].sentAt
		p.becomeProbe(p.next)
		p.repeated = true
	}
}
