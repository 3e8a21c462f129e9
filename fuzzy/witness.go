package fuzzy

import (
	"cmp"
	"maps"

	"github.com/coxswain/raft"
)

// witness records the messages to and from a member in this life, as far as the rules need them. It does not rely on the
// core's own reports.
type witness struct {
	now          raft.Time               // time of the running step
	promised     raft.Time               // until then its promises of leases last
	sought       map[raft.Time]raft.Time // by when a request for a promise was sent: how long it asked for
	heard        raft.Time               // when the leader that it follows was last heard, in the present term; 0: never
	beat         raft.Time               // when it last heard a leader of its term or a later one; 0: never
	reign        raft.Term               // the term of that leader
	leads        raft.Peer               // the leader that it has heard in the present term
	denied       []raft.Event            // the last request for a pre-vote that it denied because of its leader, before the running step
	freed        raft.Time               // when the leader of the term said that it stepped down
	rested       raft.Time               // when it last heard its leader, voted, campaigned, led, or started
	rest         raft.Time               // for how long it must not campaign after that
	news         raft.Time               // when the last news came that the process of its leader has ended; 0: never
	gone         bool                    // its leader has sent nothing since that news
	needed       raft.Time               // when it last denied a candidate a pre-vote because of its log
	enfranchised raft.Time               // when its configuration last began to need it as a leader; 0: never
	cause        raft.Time               // when it last had a reason not to campaign
	waits        raft.Time               // the longest wait of its elections since cause
	limit        raft.Time               // the longest time for which it may wait after cause
	deposed      raft.Time               // when it last lost its leadership; 0: never
	wake         raft.Time               // the wake-up time that it last requested
	failed       bool                    // its latest snapshot failed, so it may ask to be woken for the next attempt
	slept        bool                    // it has slept through that time since it last heard a leader
	late         raft.Time               // when a reply to its attempt last came too late, which lengthens its wait
	prompt       raft.Time               // when a reply to its present vote request last came within a timeout, which ends a long wait

	hardWas raft.HardState // the hard state before the running step
	asked   bool           // its leader has told it to campaign, and it has neither won nor counted that as a loss
	named   raft.Term      // in which it does not transfer its leadership for a priority, because somebody has named a member
	triedAt raft.Time      // when it last began a takeover; 0: never

	yielded  raft.Index // the end of the batch for which it last stepped down as a leader whose FSM hung; 0: none
	attempts attemptsWitness

	round         raft.RPCID // id of its latest round of pre-votes
	preVotes      peerSet    // members that granted it
	probe         raft.RPCID // id of its latest probe
	uninitialized peerSet    // members that answered that they are uninitialized
	hearing       raft.Heard // of which cluster it was told, while it belongs to none

	// In the present term.
	term  raft.Term
	votes peerSet                // members that granted its vote request
	peers []peerWitness          // in any order
	begun raft.RPCID             // its latest heartbeat round
	reads map[reading]raft.RPCID // the latest heartbeat round when a read was requested
	open  map[reading]raft.Time  // unanswered reads, and when they were last requested
	again []reading              // those that were requested twice at that time

	inOffice officeWitness

	list    *raft.Member        // the member list of the configuration that it last used
	mustUse *raft.Configuration // the configuration with which that was compared

	ids     raft.RPCID // the latest id that it used
	earlier raft.RPCID // the latest id of its earlier lives on the same disk
	disk    raft.Incarnation
	epoch   int  // epoch of the disk: an older image reuses the counts of the newer one
	reused  bool // it has used an id twice

	office raft.Index // the end of the log before its own first entry, as leader of the term
	led    raft.Time  // when it was last elected
	closed bool       // it was told that its node closes

	transfer    raft.RequestID // the running transfer of its leadership; 0: none
	since       raft.Time      // when the transfer began
	transferMax raft.Time      // how long the transfer may take, given how slow acknowledgements are
	toldUntil   raft.Time      // until when it may wait for the member that it told to campaign
	told        raft.Time      // until when it reported, at that time, that it waits

	inquiry   raft.RPCID // its latest read request to the leader
	inquired  raft.Time  // when that request first left
	persisted bool       // the request was retried for too long

	walls map[raft.Peer]int64 // the furthest that each wall clock was ever ahead of this member's monotonic time
	stamp int64               // the highest stamp that its log has ever held

	stranger strangerWitness // the leader that has shown it a loss of acknowledged entries

	carries map[raft.Peer]int    // limits of an append to each peer, from the latest PeerUp
	speaks  map[raft.Peer]uint16 // protocol of the connection to each peer, from the latest PeerUp

	policy  policyWitness // of its snapshots
	resumed raft.Index    // the last entry that its machine had applied at its start

	offered map[offering]raft.EntryID // the last entries of the snapshots that leaders have offered

	reported   raft.Index // the highest index that it reported in a reply to a heartbeat, in the term reportedIn
	reportedIn raft.Term

	resigned   raft.NodeID // the last leader that said that it stepped down
	resignedIn raft.Term
	wrote      raft.Time      // when its disk last completed a write
	hard       raft.HardState // the hard state as last written
	tried      raft.Time      // when it last wrote the same hard state again
}

// peerWitness records the messages of one voter or learner in the present term.
type peerWitness struct {
	peer     raft.Peer
	heard    raft.Time
	proved   raft.Index // the highest index that it acknowledged
	provedAt raft.Time  // when proved last rose
	matched  raft.Index // what the leader knew of that after the last step in which it counted the member
	lost     bool       // it said later that it does not hold that index: its acknowledgements no longer count

	offer     raft.Snapshot // the last snapshot that was offered to it, first at offeredAt
	offeredAt raft.Time
	failed    bool       // a stream to it has failed since it last acknowledged entries
	brought   int64      // most bytes of a snapshot that it had; another snapshot begins anew unless a stream has failed
	movedAt   raft.Time  // when brought last rose; initially, when the leader began with it
	echoed    raft.RPCID // the latest heartbeat round that it answered
	version   uint64     // the version of the application in that answer

	asked     map[raft.RPCID]raft.Time // when the unanswered heartbeats to it left
	roundTrip raft.Time                // the longest round trip of a heartbeat or of the election

	round   int          // the present round of catching up
	slowest [2]raft.Time // the slowest recent acknowledgement in the present round and in the one before
}

// strangerWitness records a leader that a member does not know, and the term in which this leader has shown that the member
// lost entries.
type strangerWitness struct {
	by   raft.Peer
	term raft.Term
}

// attemptsWitness records the durations of a member's election attempts, since the last time that a term committed.
type attemptsWitness struct {
	rounds map[raft.RPCID]raft.Time // when its pre-vote requests left
	stood  map[raft.Term]raft.Time  // when it began to campaign
	asked  map[raft.Term]raft.Time  // when its vote requests left
	took   raft.Time                // the longest time of its own write or of a reply
	latest raft.Time                // the longest time that ended in the running step
}

func newAttemptsWitness() attemptsWitness {
	return attemptsWitness{
		rounds: map[raft.RPCID]raft.Time{}, stood: map[raft.Term]raft.Time{}, asked: map[raft.Term]raft.Time{},
	}
}

// answered records the reply to a request that left at the time at; at is 0 if there was no request. It returns the time that
// the reply took.
func (a *attemptsWitness) answered(at, now raft.Time) raft.Time {
	if at == 0 {
		return 0
	}
	a.latest = max(a.latest, now-at)
	a.took = max(a.took, a.latest)
	return now - at
}

// forget drops the attempts before the running step. It is called if the wait has fallen to the shortest one in this step, or
// has fallen and grown again. It keeps a write that is still running. It also keeps a request of this step, because the
// request may have left after the wait fell.
func (a *attemptsWitness) forget(now raft.Time, shortest bool) {
	clear(a.rounds)
	maps.DeleteFunc(a.asked, func(_ raft.Term, at raft.Time) bool { return at < now })
	if a.took = a.latest; shortest {
		a.took = 0
	}
}

// offering is the offer of a snapshot by a leader, in any term.
type offering struct {
	from raft.Peer
	file raft.SnapshotID
}

// reading is a read by a client of this member, or a read that another member has forwarded.
type reading struct {
	requestID raft.RequestID
	from      raft.Peer
	id        raft.RPCID
}

func (w *witness) begin(n *node) {
	now, earlier := n.now().Mono, w.ids
	if w.disk != n.disk.incarnation || w.epoch != n.disk.epoch {
		earlier = raft.RPCID{}
	}
	*w = witness{
		now: now, promised: now + n.disk.hard.Lease, rested: now, rest: raft.Time(n.timeout()), cause: now, wake: now,
		ids: earlier, earlier: earlier, disk: n.disk.incarnation, epoch: n.disk.epoch, attempts: newAttemptsWitness(),
		walls: map[raft.Peer]int64{}, resumed: n.applied, offered: map[offering]raft.EntryID{}, carries: map[raft.Peer]int{}, speaks: map[raft.Peer]uint16{},
	}
	if len(n.disk.log) > 0 {
		w.stamp = max(n.disk.base.Time, n.disk.log[len(n.disk.log)-1].entry.Time)
	}
}

// recordEvents records the events of a step. It ignores messages for other members, and messages from another cluster or from
// a stranger.
func (w *witness) recordEvents(n *node, before *raft.CoreStatus, events []raft.Event) {
	s := &n.status
	w.attempts.latest = 0
	if w.term != s.Term {
		w.term, w.heard, w.votes, w.begun, w.reads, w.open, w.again, w.transfer = s.Term, 0, nil, raft.RPCID{}, nil, nil, nil, 0
		w.leads, w.peers, w.gone = raft.Peer{}, nil, false
	}
	if s.Role == raft.Leader && (before.Role != raft.Leader || before.Term != s.Term) {
		took := w.now - w.attempts.asked[s.Term]
		w.peers = nil
		w.recordServed(s.Config.Members, took)
		for l := configured(n.log); l != nil && l.before != nil && l.index > before.Commit; l = l.before {
			w.recordServed(l.before.Members, took) // the removal is not known to be committed
		}
		w.office = n.earlier(s.Term)
	}
	for i := range w.peers { // its own pause does not count
		slept := max(0, w.now-w.wake)
		w.peers[i].heard, w.peers[i].movedAt = min(w.now, w.peers[i].heard+slept), min(w.now, max(w.peers[i].movedAt, w.peers[i].provedAt)+slept)
	}
	for _, e := range events {
		switch e := e.(type) {
		case raft.Received:
			if e.Message.To == n.peer() && n.concerns(&e.Message) {
				w.message(n, before, &e.Message)
			}
		case raft.PeerLost:
			led := raft.Peer{ID: before.Leader, Incarnation: before.LeaderIncarnation}
			if e.Refused && (e.Peer == w.leads || e.Peer == led) && !n.preferences.NoNews {
				w.news, w.gone = w.now, e.Peer == w.leads
			}
		case raft.ReadRequested:
			if s.Role == raft.Leader {
				w.recordRead(reading{requestID: e.RequestID})
			}
		case raft.SnapshotSending:
			if p := w.of(e.To); e.Bytes > p.brought {
				p.brought, p.movedAt = e.Bytes, w.now
			}
		case raft.SnapshotSent:
			p := w.of(e.To)
			p.failed = p.failed || e.Err != nil && e.File == p.offer.File
		case raft.SnapshotTaken:
			w.failed = w.failed || e.Err != nil
		case raft.PeerUp:
			w.cause = w.now // ends a wait that a late answer in this very step has lengthened
			w.speaks[raft.Peer{ID: e.ID, Incarnation: e.Incarnation}] = cmp.Or(e.Protocol, raft.ProtocolNewest)
		case raft.Persisted:
			if s.Role == raft.Candidate || s.Durable != before.Durable {
				w.cause = w.now // a vote, its own or another's, may have become durable
			}
			term := s.Durable.Term // a later event of the step may have raised the term again
			if at := w.attempts.stood[term]; at > 0 && s.Durable != before.Durable && s.Durable.Vote == n.peer() {
				w.attempts.answered(at, w.now)
				w.attempts.stood[term] = 0
				w.attempts.asked[term] = w.now
			}
		}
	}
}

// recordServed records members that a leader has served since its election. took is the time from the leader's vote requests
// to its election.
func (w *witness) recordServed(members []raft.Member, took raft.Time) {
	for _, m := range members {
		if p := w.of(m.Peer()); p.asked == nil {
			p.heard, p.movedAt, p.roundTrip, p.asked = w.now, w.now, took, map[raft.RPCID]raft.Time{}
		}
	}
}

// earlier returns the index of the last entry with a term below this one.
func (n *node) earlier(term raft.Term) raft.Index {
	i := len(n.log)
	for i > 0 && n.log[i-1].entry.Term >= term {
		i--
	}
	return raft.Index(i)
}

// concerns reports whether a message belongs to the member's cluster. A message without a cluster, or a member without one,
// matches any cluster. A bootstrap message may belong to another cluster.
func (n *node) concerns(m *raft.Message) bool {
	switch m.Body.(type) {
	case raft.BootstrapProbe, raft.BootstrapProbeReply, raft.BootstrapRequest, raft.BootstrapReply:
		return true
	}
	none := raft.ClusterID{}
	return m.Cluster == n.status.Cluster || m.Cluster == none || n.status.Cluster == none
}

// of returns the record of a member. The pointer is valid until the next call, because the next call may move the record.
func (w *witness) of(p raft.Peer) *peerWitness {
	for i := range w.peers {
		if w.peers[i].peer == p {
			return &w.peers[i]
		}
	}
	w.peers = append(w.peers, peerWitness{peer: p})
	return &w.peers[len(w.peers)-1]
}

func (w *witness) message(n *node, before *raft.CoreStatus, m *raft.Message) {
	switch b := m.Body.(type) {
	case raft.BootstrapProbeReply:
		w.recordClock(n, m)
		if b.ID == w.probe && b.Result == raft.ProbeUninitialized {
			w.uninitialized.add(m.From)
		}
		return
	case raft.Heartbeat, raft.AppendRequest, raft.InstallSnapshot:
		if m.Term >= before.Term {
			w.beat, w.reign, w.cause = w.now, max(w.reign, m.Term), w.now
		}
		if m.Term == w.term {
			w.leads = m.From
		}
		if o, ok := m.Body.(raft.InstallSnapshot); ok && m.Term >= before.Term {
			w.offered[offering{m.From, o.Snapshot.File}] = o.Snapshot.ID
		}
		if m.Term == w.term && n.status.Leader == m.From.ID {
			w.heard, w.gone = w.now, false
		}
		return
	case raft.SteppedDown:
		if m.Term == w.term || m.Term == before.Term { // only its leader sends this; the member may campaign at once
			w.heard, w.freed = 0, w.now
		}
		return
	}
	if !n.knows(m.From) {
		if b, ok := m.Body.(raft.ReadRequest); ok && m.Term == w.term { // a leader serves it, whichever member sent it
			w.recordRead(reading{from: m.From, id: b.ID})
		}
		return
	}
	w.recordClock(n, m)
	var took raft.Time
	switch b := m.Body.(type) {
	case raft.PreVoteReply:
		took = w.attempts.answered(w.attempts.rounds[b.ID], w.now)
	case raft.VoteReply:
		took = w.attempts.answered(w.attempts.asked[m.Term], w.now)
		if m.Term == w.term && took > 0 && took <= n.timeout() {
			w.prompt = w.now
		}
	}
	if took > before.Election.Wait {
		w.late = w.now
	}
	if b, ok := m.Body.(raft.PreVoteReply); ok && b.Granted && b.ID == w.round {
		w.preVotes.add(m.From)
	}
	if m.Term == w.term { // a message of another term proves nothing
		w.reply(w.of(m.From), m)
	}
}

// reply records a reply of the present term.
func (w *witness) reply(p *peerWitness, m *raft.Message) {
	if b, ok := m.Body.(raft.AppendConflict); ok && b.Acknowledged > 0 && b.Acknowledged <= p.proved && b.Prev == b.Acknowledged {
		*p = peerWitness{peer: p.peer, lost: true, matched: p.matched, movedAt: w.now}
	}
	if _, asks := m.Body.(raft.ReadRequest); p.lost && !asks {
		return
	}
	switch b := m.Body.(type) {
	case raft.VoteReply:
		if b.Granted {
			w.votes.add(m.From)
		}
	case raft.AppendReply:
		p.heard = w.now
		p.recordProof(w.now, b.Match)
	case raft.AppendConflict:
		p.heard = w.now
	case raft.HeartbeatReply:
		p.heard = w.now
		p.recordProof(w.now, b.Match)
		if p.echoed.Less(b.Round) {
			p.echoed = b.Round
		}
		if p.echoed == b.Round {
			p.version = b.AppVersion
		}
		if at := p.asked[b.Round]; at > 0 {
			p.roundTrip = max(p.roundTrip, w.now-at)
			delete(p.asked, b.Round)
		}
	case raft.ReadRequest:
		w.recordRead(reading{from: m.From, id: b.ID})
	}
}

// recordRound records how a member catches up.
func (p *peerWitness) recordRound(progress *raft.PeerProgress) {
	if r := progress.CatchUp.Round; r != p.round {
		p.round, p.slowest = r, [2]raft.Time{0, p.slowest[0]}
	}
	p.slowest[0] = max(p.slowest[0], progress.SlowestAck)
}

func (p *peerWitness) recordProof(now raft.Time, match raft.Index) {
	if match > p.proved {
		p.proved, p.provedAt, p.failed = match, now, false
	}
}

func (w *witness) recordRead(r reading) {
	if w.reads == nil {
		w.reads, w.open = map[reading]raft.RPCID{}, map[reading]raft.Time{}
	}
	if at, open := w.open[r]; open && at == w.now {
		w.again = append(w.again, r)
	}
	w.open[r] = w.now
	if _, again := w.reads[r]; !again {
		w.reads[r] = w.begun
	}
}

// recordDenied keeps the last request for a pre-vote that the member denies because of its leader. Its news may make it answer
// that one again, however many others it has answered since.
func (w *witness) recordDenied(events []raft.Event, out *raft.Output) {
	for i := range out.Trace {
		t := &out.Trace[i]
		if t.Kind != raft.TracePreVoteDenied || t.Reason != raft.DeniedHearsLeader && t.Reason != raft.DeniedPromised {
			continue
		}
		for _, e := range events {
			r, ok := e.(raft.Received)
			if !ok || r.Message.From.ID != t.Peer {
				continue
			}
			if b, ok := r.Message.Body.(raft.PreVoteRequest); ok && b.Last == t.ID {
				w.denied = []raft.Event{r}
			}
		}
	}
}

// recordMessages records the messages of a step after the checker has checked them.
func (w *witness) recordMessages(n *node, out *raft.Output) {
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			switch b := list[i].Body.(type) {
			case raft.PreVoteRequest:
				w.recordID(b.ID)
				if b.ID != w.round {
					w.round, w.preVotes = b.ID, nil
					w.attempts.rounds[b.ID] = w.now
				}
			case raft.BootstrapProbe:
				w.recordID(b.ID)
				if b.ID != w.probe {
					w.probe, w.uninitialized = b.ID, nil
				}
			case raft.Heartbeat:
				if w.begun.Less(b.Round) {
					w.recordID(b.Round)
					w.begun = b.Round
				}
				if p := w.of(list[i].To); p.asked != nil {
					p.asked[b.Round] = w.now
				}
			case raft.InstallSnapshot:
				if p := w.of(list[i].To); p.offer.File != b.Snapshot.File {
					if p.offer, p.offeredAt = b.Snapshot, w.now; !p.failed {
						p.brought = 0
					}
				}
			case raft.ReadRequest:
				w.recordID(b.ID)
				w.recordInquiry(n, b.ID)
			}
		}
	}
	w.wake = out.WakeAt
	if out.Keep != nil && out.Keep.Take != nil {
		w.failed = false
	}
}

// recordID records an id, which must be newer than any id of an earlier life.
func (w *witness) recordID(id raft.RPCID) {
	w.reused = w.reused || !w.earlier.Less(id)
	if w.ids.Less(id) {
		w.ids = id
	}
}
