package elections

// Two-phase ELECT/VOTE election.
//
// Source: gmt, "A Leader Election Algorithm", 2000.
//
// Assumes: a known membership, unique ids, a bound RTT on a round trip, and no restart. Messages may be lost.
//
// Guarantees: a leader soon after the members of a majority hear each other. It does not guarantee one leader per term,
// because votes are not durable, a member votes again in each round, and tallies keep older votes. So loss alone, or a
// restart, can elect two.
//
// Every message carries (term, msg): term counts leaders, msg the leader's messages. Each member runs two machines side by
// side, the elector and the candidate.

var twoPhase = &Algorithm{
	Name:   "two-phase",
	Title:  "Two-phase ELECT/VOTE",
	Source: `gmt, "A Leader Election Algorithm", 2000`,
	Assumes: "A known membership, unique ids, a generous bound on a round trip, no restart. " +
		"Messages may be lost; clocks only measure intervals.",
	Guarantees: "A leader soon after the members of a majority hear each other, with at most two messages per member " +
		"and round trip. Not one leader a term: loss alone, or a restart, can elect two.",
	InCore: []*CorePart{coreBounded, coreRedraw}, NotInCore: []*CoreLack{lackTie},
	Leaves: "Votes that are repeated each round and kept in memory: a vote is durable and given once a term, " +
		"or two leaders of one term follow.",
	Choices: []string{
		"A LEAD while voting counts as its sender's claim and leaves the timer.",
		"The winner's numbers: VOTE carries the best claim's, votes are identical when both are, and the winner leads the term above every term " +
			"that it has seen, from msg 0.",
		"A follower follows the sender of the last LEAD, obsolete or not, until its timer expires.",
		"A broadcast reaches the sender's elector, never its candidate machine; a vote for oneself counts.",
	},
	Epochs: true,
	New:    func(o Options) Machine { return newTwoPhase(o) },
}

const (
	tpElector Timer = AlgorithmTimer + iota
	tpLead
)

// tpStamp is (term, msg); a lower one is obsolete.
type tpStamp struct{ term, msg uint64 }

func (s tpStamp) before(o tpStamp) bool { return s.term < o.term || s.term == o.term && s.msg < o.msg }

// tpKind is one of the three messages.
type tpKind string

const (
	tpLEAD  tpKind = "LEAD"  // heartbeat, claim to leadership and carrier of other state
	tpELECT tpKind = "ELECT" // a claim: the last leader message that its sender has seen
	tpVOTE  tpKind = "VOTE"  // for its receiver, with the numbers of its claim
)

type tpMessage struct {
	kind  tpKind
	stamp tpStamp
}

func (m tpMessage) Kind() string { return string(m.kind) }
func (m tpMessage) Bytes() int   { return HeaderBytes + 2*NumberBytes }

type twoPhaseMachine struct {
	o Options
	// Of the elector.
	voting  bool
	seen    tpStamp // the highest (term, msg) seen or sent
	sender  Rank    // the sender of that message
	newest  uint64  // the highest term of any message
	follows Rank    // the sender of the last LEAD; 0: the timer has expired since
	reign   uint64  // the term of that LEAD
	slate   []tpClaim
	// Of the candidate.
	leads bool
	tally []tpStamp // latest vote of each member, by rank; voted says whether there is one
	voted []bool
}

// tpClaim is a claim on the slate: an ELECT, or a LEAD that came while voting.
type tpClaim struct {
	on    bool
	stamp tpStamp
}

func newTwoPhase(o Options) *twoPhaseMachine {
	return &twoPhaseMachine{
		o: o, slate: make([]tpClaim, o.N+1), tally: make([]tpStamp, o.N+1), voted: make([]bool, o.N+1),
	}
}

func (m *twoPhaseMachine) Leader() (Rank, uint64) {
	switch {
	case m.leads:
		return m.o.Self, m.seen.term
	case m.follows == 0:
		return 0, 0
	}
	return m.follows, m.reign
}

func (m *twoPhaseMachine) Start(e *Env) {
	e.Rule("I begin to watch: a leader has five heartbeats' time.")
	m.watch(e)
}

// watch: on entry the timer is 5·HBT and the voting slate is empty.
func (m *twoPhaseMachine) watch(e *Env) {
	m.voting = false
	clear(m.slate)
	e.Set(tpElector, 5*e.Times().Heartbeat)
}

// vote goes to voting: on entry the timer is RTT and ELECT(id, term, msg) is broadcast, reporting the last leader message
// seen. The ELECT also joins this member's own slate. A leader's ELECT reports its last sent numbers.
func (m *twoPhaseMachine) vote(e *Env) {
	e.Rule("I begin to vote, and claim with the last LEAD I know, if any.")
	m.voting = true
	e.Set(tpElector, e.Times().RTT)
	m.slate[m.o.Self] = tpClaim{true, m.seen}
	e.Broadcast(tpMessage{tpELECT, m.seen})
}

func (m *twoPhaseMachine) Fire(e *Env, t Timer) {
	switch {
	case t == tpLead:
		m.lead(e)
	case !m.voting:
		e.Elect()
		m.follows = 0
		m.vote(e) // timeout goes to voting
	default:
		m.elect(e)
	}
}

// elect ends voting: on timeout VOTE(term, msg) goes to the best claim, then back to watching. A vote for oneself counts
// (choice).
func (m *twoPhaseMachine) elect(e *Env) {
	best := m.best()
	stamp := m.slate[best].stamp
	m.watch(e)
	if best == m.o.Self {
		e.Rule("The time for claims is up: mine is best, I vote for myself.")
		m.count(e, best, stamp)
		return
	}
	e.Rule("The time for claims is up: I vote for the best one.")
	e.Send(best, tpMessage{tpVOTE, stamp})
}

// best returns the sender of the best claim. That is the old leader, if it still claims. The old leader is the sender of the
// highest (term, msg) that the voter has seen, and it claims if its ELECT is on the slate. Otherwise the best claim has the
// latest (term, msg); ties go to the smallest id.
func (m *twoPhaseMachine) best() Rank {
	if m.sender != 0 && m.slate[m.sender].on {
		return m.sender
	}
	best := m.o.Self
	for r := Rank(1); int(r) <= m.o.N; r++ {
		c := m.slate[r]
		if !c.on {
			continue
		}
		if latest := m.slate[best].stamp; latest.before(c.stamp) || latest == c.stamp && r < best {
			best = r
		}
	}
	return best
}

func (m *twoPhaseMachine) Receive(e *Env, from Rank, message Message) {
	msg := message.(tpMessage)
	m.newest = max(m.newest, msg.stamp.term)
	switch msg.kind {
	case tpELECT:
		m.onElect(e, from, msg.stamp)
	case tpVOTE:
		m.count(e, from, msg.stamp)
	case tpLEAD:
		m.onLead(e, from, msg.stamp)
	}
}

// onElect: ELECT records the claim and goes to voting; while voting it only records the claim.
func (m *twoPhaseMachine) onElect(e *Env, from Rank, stamp tpStamp) {
	m.slate[from] = tpClaim{true, stamp}
	if !m.voting {
		m.vote(e)
		return
	}
	e.Rule("I put the claim on my slate.")
}

// onLead handles LEAD. A LEAD with a lower (term, msg) than the last seen or sent is obsolete. A leader ignores an obsolete
// LEAD, and any other LEAD makes the leader a follower. Only a leader asks whether a LEAD is obsolete: a follower's timer and
// tally heed any LEAD. Otherwise, if a leader restarts before the others miss it, they would ignore it for as long as its
// earlier reign lasted. A LEAD clears the candidate's tally, and resets the timer to 3·HBT. While voting, a LEAD counts as
// its sender's claim and leaves the timer (choice). A follower follows the sender of the last LEAD (choice).
func (m *twoPhaseMachine) onLead(e *Env, from Rank, stamp tpStamp) {
	obsolete := stamp.before(m.seen)
	if m.leads {
		if obsolete {
			e.Rule("I lead, and ignore an obsolete LEAD.")
			return
		}
		e.Rule("A LEAD that is not obsolete: I stop leading, and follow it.")
		e.Stop(tpLead)
		m.leads = false
	}
	if !obsolete {
		m.seen, m.sender = stamp, from
	}
	m.follows, m.reign = from, stamp.term
	clear(m.voted)
	if m.voting {
		e.Rule("A LEAD while I vote counts as its sender's claim.")
		m.slate[from] = tpClaim{true, stamp}
		return
	}
	e.Rule("LEAD: I follow its sender, for three heartbeats' time.")
	e.Set(tpElector, 3*e.Times().Heartbeat)
}

// count handles VOTE: VOTE is recorded; more than n/2 identical votes for itself make it leader; a leader ignores it. Votes
// are identical when both numbers are (choice). The winner leads term + 1 from msg 0, and a winner's term is above every term
// that it has seen. This matters because a restarted member may win with a claim that is older than the claims that others
// report.
func (m *twoPhaseMachine) count(e *Env, from Rank, stamp tpStamp) {
	if m.leads {
		e.Rule("I lead, and ignore votes.")
		return
	}
	m.tally[from], m.voted[from] = stamp, true
	same := 0
	for r, voted := range m.voted {
		if voted && m.tally[r] == stamp {
			same++
		}
	}
	if 2*same <= m.o.N {
		e.Rule("I add the vote to my tally: too few votes in it are alike yet.")
		return
	}
	e.Rule("More than half voted alike for me: I lead the next term.")
	m.leads = true
	clear(m.voted)
	m.newest++
	m.seen = tpStamp{m.newest, 0}
	m.announce(e)
}

// lead: a leader broadcasts at once on entry and then at least every HBT.
func (m *twoPhaseMachine) lead(e *Env) {
	e.Rule("I lead: I send my heartbeats.")
	m.seen.msg++
	m.announce(e)
}

func (m *twoPhaseMachine) announce(e *Env) {
	m.sender = m.o.Self
	e.Set(tpLead, e.Times().Heartbeat)
	e.Broadcast(tpMessage{tpLEAD, m.seen})
	if m.voting { // its own LEAD reaches its own elector, as another's does (choice)
		m.slate[m.o.Self] = tpClaim{true, m.seen}
		return
	}
	e.Set(tpElector, 3*e.Times().Heartbeat)
}
