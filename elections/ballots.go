package elections

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coxswain/raft/internal/sim"
)

// Ballots: a product's periodic election with priority, quorum and consecutive wins. It has one variant for each of its three
// quorum strategies, and one with priorities that differ.
//
// Source: the manual of a commercial cluster product; it names no paper.
//
// Assumes: a known membership, unique ids, and wall clocks that differ by less than one period minus one message delay. A
// ballot counts for two periods, but it may already be one period and one delay old when a member counts it.
//
// Guarantees: with the majority strategy, no leader in a minority, except while ballots from before a cut still count. With
// n-1 the same, and no leader at all once two members are missing. With no quorum, one leader in each part of a partition. No
// strategy guarantees one leader at a time: if a claim is lost, or a one-way link blocks it, two members lead.
//
// Every period each member sends a timestamped ballot for itself to all; its vote count is its priority.

var (
	ballotsMajority = ballots("ballots-majority", "Ballots, majority", majorityOf, equalPriorities,
		"No leader in a minority, except while ballots from before a cut still count. Two leaders at one time "+
			"are possible: a claim that is lost, or blocked by a one-way link, makes two.")
	ballotsRanked = ballots("ballots-ranked", "Ballots, majority, by rank", majorityOf, rankedPriorities,
		"As with a majority. A higher priority takes over at once, says the manual: that is, once it has won two "+
			"elections among the others, one to two periods after it was raised (measured with a period of 100 ms: 150 ms in "+
			"the median, 205 ms at most). A highest rank that comes and goes takes over each time, from a leader that works.")
	ballotsAllButOne = ballots("ballots-n-1", "Ballots, all but one", func(n int) int { return max(n-1, 1) }, equalPriorities,
		"As with a majority (from three members on), and no leader at all once two members are missing.")
	ballotsNone = ballots("ballots-none", "Ballots, no quorum", func(int) int { return 1 }, equalPriorities,
		"A leader in each part of a partition, however small: split brain by choice.")
)

func majorityOf(n int) int { return n/2 + 1 }

// priorities are the members' priorities in a variant, unless a run is given others.
type priorities struct {
	of     func(n int) []int
	choice string
}

var (
	equalPriorities = priorities{
		func(n int) []int { return slices.Repeat([]int{priorityDefault}, n) },
		"Priorities are equal, which is the product's default, unless they are given.",
	}
	rankedPriorities = priorities{priorityByRank, "The priority is the rank, unless it is given."}
)

func priorityByRank(n int) (all []int) {
	for r := 1; r <= n; r++ {
		all = append(all, r)
	}
	return all
}

func ballots(name, title string, quorum func(n int) int, p priorities, guarantees string) *Algorithm {
	return &Algorithm{
		Name: name, Title: title, Guarantees: guarantees, Priorities: p.of,
		Source: "The manual of a commercial cluster product",
		Assumes: "A known membership, unique ids, wall clocks that differ by less than one period less a message delay: a " +
			"ballot counts for two periods, but may be a period and a delay old when it is counted. " +
			"Messages may be lost: the next ballot says the same.",
		InCore: []*CorePart{coreMajority, corePriority, coreTakeover, coreStandby}, NotInCore: []*CoreLack{lackConsecutive},
		Leaves: "Ballots by timestamp: a safety rule never reads a clock. A quorum that can be chosen: " +
			"only a majority of the configured members prevents split brain.",
		Choices: []string{
			"A leader claims in its ballots and keeps leading though it loses a tie; it goes to standby when the quorum " +
				"fails or it hears a claim of higher priority; of two equal claims the lower id stays; a dead leader's " +
				"claim lasts as long as its ballot.",
			p.choice,
			"The strategies n-1 (all but one) and none, and what a priority below 0 means (out of service: the member never " +
				"leads, but its ballot counts for the quorum), are named and read so by this lab.",
			"An election without a quorum ends a series of wins.",
			"A priority that changes counts from the member's next election on, and for the others from its next ballot; " +
				"only a leader that is taken out of service goes to standby at once.",
			"The id is the rank, as text: in alphabetical order 10 comes before 2.",
		},
		New: func(o Options) Machine {
			if len(o.Priorities) == 0 {
				o.Priorities = p.of(o.N)
			}
			m := &ballotsMachine{o: o, quorum: quorum(o.N), box: make([]ballot, o.N+1), wins: o.Wins}
			m.priority = o.Priorities[o.Self-1]
			if m.wins == 0 {
				m.wins = 2
			}
			return m
		},
	}
}

const ballotsPeriod Timer = AlgorithmTimer

// ballot is a member's vote for itself.
type ballot struct {
	stamp  int64 // its sender's wall clock
	votes  int   // its priority
	claims bool  // it leads now
	cast   bool  // there is one
}

func (ballot) Kind() string { return "BALLOT" }
func (ballot) Bytes() int   { return HeaderBytes + 2*NumberBytes + 1 }

type ballotsMachine struct {
	o        Options
	priority int // below 0: out of service
	quorum   int
	wins     int      // how many consecutive wins a leader needs
	box      []ballot // the latest ballot of each member, by rank
	active   bool
	inARow   int // how many elections it has won
	leader   Rank
}

func (m *ballotsMachine) Leader() (Rank, uint64) { return m.leader, 0 }

func (m *ballotsMachine) Start(e *Env) { m.hold(e) }

// Fire: an election is held every period.
func (m *ballotsMachine) Fire(e *Env, _ Timer) { m.hold(e) }

// Receive stores a ballot. Ballots are idempotent: the box holds the latest ballot of each member. Receive drops an invalid
// ballot at once. If it kept a ballot from a clock that ran ahead, that ballot would lock its sender out until time catches
// up. For the same reason, any new ballot replaces a stored ballot that is no longer valid.
func (m *ballotsMachine) Receive(e *Env, from Rank, message Message) {
	b := message.(ballot)
	switch {
	case !m.valid(e, b):
		e.Rule("This ballot's time is too far from my clock: I drop it.")
		return
	case m.valid(e, m.box[from]) && b.stamp < m.box[from].stamp:
		e.Rule("This ballot is older than the one that I keep: I drop it.")
		return
	}
	m.box[from] = b
	if m.active && m.yieldsTo(from) {
		e.Rule("Another claims, of a higher priority or a lower id: I yield.")
		m.active = false
		m.look(e)
		return
	}
	e.Rule("I keep the latest ballot of each, for as long as it is valid.")
	if b.claims || from == m.leader {
		m.look(e)
	}
}

// Prioritize changes this member's priority. A member with a priority below 0 never leads, so a leader that is
// given one goes to standby at once (choice).
func (m *ballotsMachine) Prioritize(e *Env, priority int) {
	m.priority = priority
	if m.active && priority < 0 {
		e.Rule("I am taken out of service: I stop leading.")
		m.active = false
		m.look(e)
		return
	}
	e.Rule("My next ballot has the priority that I am given.")
}

// hold casts this member's ballot, decides, and sends it. Every member decides the winner on its own.
func (m *ballotsMachine) hold(e *Env) {
	e.Elect()
	e.Set(ballotsPeriod, e.Times().Period)
	m.box[m.o.Self] = ballot{e.Wall(), m.priority, m.active, true}
	m.decide(e)
	m.box[m.o.Self].claims = m.active
	m.look(e)
	e.Broadcast(m.box[m.o.Self])
}

// decide decides whether this member leads. The winner leads only if (a) no member claims leadership now, or the winner's
// priority is higher than the claimant's; (b) the quorum strategy holds; (c) it has won two consecutive elections
// (configurable). A higher priority waives only (a). An election without a quorum is not valid, so a win in it does not count
// for (c).
func (m *ballotsMachine) decide(e *Env) {
	winner, ballots := m.count(e)
	if winner == m.o.Self && ballots >= m.quorum {
		m.inARow = min(m.inARow+1, m.wins)
	} else {
		m.inARow = 0
	}
	switch {
	case ballots < m.quorum:
		e.Rule("Too few valid ballots for the quorum: I do not lead.")
		m.active = false
	case m.active: // keeps leading though it loses a tie (choice)
		e.Rule("The quorum holds: I keep leading, and claim so in my ballot.")
	case winner == 0:
		e.Rule("I am out of service, and so is all that I hear: nobody wins.")
	case m.priority < 0:
		e.Rule("I am out of service: I count for the quorum, and never lead.")
	case winner != m.o.Self:
		e.Rule("Another has more votes than I, or as many and a lower id.")
	case m.inARow < m.wins:
		e.Rule("I win, but not often enough in a row yet.")
	case m.claimedAbove(e):
		e.Rule("I win, but a member of no lower priority claims to lead.")
	default:
		e.Rule("The quorum holds, I won often enough in a row: I lead.")
		m.active = true
	}
}

// count returns the winner, and the number of valid ballots. A member whose priority is below 0 never leads, but its ballot
// counts towards the quorum.
func (m *ballotsMachine) count(e *Env) (winner Rank, ballots int) {
	for r := Rank(1); int(r) <= m.o.N; r++ {
		if !m.valid(e, m.box[r]) {
			continue
		}
		ballots++
		if m.box[r].votes >= 0 && (winner == 0 || m.beats(r, winner)) {
			winner = r
		}
	}
	return winner, ballots
}

// beats: most votes, ties to the lowest id in alphabetical order.
func (m *ballotsMachine) beats(a, b Rank) bool {
	va, vb := m.box[a].votes, m.box[b].votes
	return va > vb || va == vb && alphabetical[a] < alphabetical[b]
}

// alphabetical is the position of each id. An id is the rank as text: 1, 10, 100, 101, 11 ...
var alphabetical = func() (places [MembersMax + 1]int) {
	ids := priorityByRank(MembersMax)
	slices.SortFunc(ids, func(a, b int) int { return strings.Compare(strconv.Itoa(a), strconv.Itoa(b)) })
	for place, id := range ids {
		places[id] = place
	}
	return places
}()

// valid reports whether a ballot counts: |receiver's clock − its timestamp| ≤ 2 periods, also for the member's own ballot.
// The clocks may still not differ by two periods, because the ballot's age uses up a part of them (see the assumptions
// above).
func (m *ballotsMachine) valid(e *Env, b ballot) bool {
	age := sim.Time(e.Wall() - b.stamp)
	return b.cast && max(age, -age) <= 2*e.Times().Period
}

// claimedAbove reports whether another member of the same or a higher priority claims leadership.
func (m *ballotsMachine) claimedAbove(e *Env) bool {
	for r := Rank(1); int(r) <= m.o.N; r++ {
		if r != m.o.Self && m.box[r].claims && m.valid(e, m.box[r]) && m.box[r].votes >= m.priority {
			return true
		}
	}
	return false
}

// yieldsTo reports whether this leader goes to standby for the claim of r. It does so if the claim has a higher priority; of
// two equal claims the lower id stays (choice).
func (m *ballotsMachine) yieldsTo(r Rank) bool {
	own := m.box[m.o.Self].votes // a changed priority counts from the next election on
	b := m.box[r]
	return b.claims && (b.votes > own || b.votes == own && alphabetical[r] < alphabetical[m.o.Self])
}

// look determines the leader. If this member is active, it is the leader; otherwise the leader is the sender of the best
// valid claim. A dead leader's claim lasts as long as its ballot (choice).
func (m *ballotsMachine) look(e *Env) {
	before := m.leader
	m.leader = m.claimant(e)
	switch {
	case m.leader == before || m.active || before == m.o.Self: // the rule that made it lead, or stop leading, has been shown already
	case m.leader == 0:
		e.Rule("No valid ballot claims to lead any longer: I know no leader.")
	default:
		e.Rule("The best of the ballots that claim to lead: I follow it.")
	}
}

func (m *ballotsMachine) claimant(e *Env) (best Rank) {
	if m.active {
		return m.o.Self
	}
	for r := Rank(1); int(r) <= m.o.N; r++ {
		b := m.box[r]
		if b.claims && r != m.o.Self && m.valid(e, b) && (best == 0 || m.beats(r, best)) {
			best = r
		}
	}
	return best
}
