package elections

import (
	"cmp"
	"slices"
)

// bullyThreeStep asks which members are alive, tells the best one to proceed, and hears from it.
var bullyThreeStep = &Algorithm{
	Name:  "bully-a",
	Title: "Bully, three steps",
	Source: "M. S. Kordafshari et al., Modified Bully Election Algorithm in Distributed Systems, " +
		"2005; after H. Garcia-Molina, Elections in a Distributed Computing System, 1982",
	Assumes: "Messages arrive and are answered within T, every member knows every other and " +
		"reaches it, and what is silent has crashed; clocks measure T and nothing else.",
	Guarantees: "While that holds, the highest rank that lives is the one leader, after at most 3n - " +
		"4 messages for one detector; otherwise nothing: each part of a partition has a " +
		"leader, and a highest rank that comes and goes is elected each time.",
	InCore: []*CorePart{coreMajority, coreRank, coreTakeover, coreBackOff},
	Leaves: "Silence as a proof of death: a majority says who leads, and the lost answer of a " +
		"higher rank costs no second leader.",
	Choices: []string{
		"No ELECTED within T of PROCEED: the next highest that answered is told, then it " +
			"starts afresh.",
		"The highest rank has nobody to ask, and leads at once.",
		seatChoice,
	},
	New: func(Options) Machine { return &threeStep{} },
}

// The messages of the bully in three steps.
const (
	bullyElection signal = "ELECTION" // to all higher ranks: who is alive?
	bullyAlive    signal = "ALIVE"    // I am
	bullyProceed  signal = "PROCEED"  // to the best that answered: lead
)

// announcement is ELECTED: its sender leads from now on.
type announcement struct {
	alternates []Rank // the next in line, if the algorithm names them (see nextinline.go)
}

func (announcement) Kind() string { return "ELECTED" }
func (m announcement) Bytes() int { return HeaderBytes + RankBytes*len(m.alternates) }

// The timers of the bully in three steps.
const (
	timerAlive   = AlgorithmTimer + iota // the wait for answers to ELECTION
	timerElected                         // the wait for ELECTED, after PROCEED
	threeStepTimers
)

// worth is the value by which members are compared: quality first, then rank. The quality is 0 if the algorithm has none.
type worth struct {
	quality int
	rank    Rank
}

func compareWorth(a, b worth) int {
	return cmp.Or(cmp.Compare(a.quality, b.quality), cmp.Compare(a.rank, b.rank))
}

// threeStep is one member of the bully in three steps. It asks while timerAlive runs, and waits for ELECTED
// while timerElected does.
type threeStep struct {
	seat
	electing  bool
	asking    bool    // it waits for answers, and has told no member to proceed
	answered  []worth // the members that answered and were not told to proceed yet
	names     int     // how many alternates it names as leader; none in this algorithm
	qualities bool    // messages carry qualities: see bully_quality.go
	quality   int
}

// Start: an election also starts at initialisation.
func (b *threeStep) Start(e *Env) { b.elect(e) }

// elect begins an election:
//
//	The detector sends ELECTION to all higher ranks and waits T for ALIVE.
//
// The highest rank has nobody to ask, and leads at once (choice). If qualities count, any other member may be better, so the
// detector asks all of them (choice).
func (b *threeStep) elect(e *Env) {
	e.Elect()
	b.quit(e)
	if e.Self() == Rank(e.N()) && !b.qualities {
		e.Rule("No rank is above mine: I lead, and tell any lower rank.")
		b.lead(e)
		return
	}
	b.electing, b.asking = true, true
	e.Set(timerAlive, e.Times().Answer)
	if b.qualities {
		e.Rule("I start an election: I tell all how good my host is, and wait.")
		e.Broadcast(b.message(bullyElection))
		return
	}
	e.Rule("I start an election: I ask every higher rank if it is alive.")
	for r := e.Self() + 1; r <= Rank(e.N()); r++ {
		e.Send(r, bullyElection)
	}
}

// message returns a message of this kind, with the member's quality if qualities count.
func (b *threeStep) message(kind signal) Message {
	if b.qualities {
		return qualityMessage{kind, b.quality}
	}
	return kind
}

// quit ends this member's election, if it holds one.
func (b *threeStep) quit(e *Env) {
	b.electing, b.asking, b.answered = false, false, b.answered[:0]
	e.Stop(timerAlive)
	e.Stop(timerElected)
}

// Receive handles a message.
func (b *threeStep) Receive(e *Env, from Rank, m Message) {
	switch m := m.(type) {
	case Heartbeat:
		b.onHeartbeat(e, from)
	case announcement:
		b.heed(e, b.electing)
		b.quit(e)
		b.take(e, from)
	case signal:
		b.onSignal(e, worth{rank: from}, m)
	case qualityMessage:
		b.onSignal(e, worth{m.quality, from}, m.signal)
	}
}

func (b *threeStep) onSignal(e *Env, other worth, m signal) {
	above := compareWorth(other, worth{b.quality, e.Self()}) > 0
	switch {
	case m == bullyElection && above:
		e.Rule("One above me asks who is alive: I do not answer.")
	case m == bullyElection:
		e.Rule("One below me asks who is alive: I answer, and do nothing else.")
		e.Send(other.rank, b.message(bullyAlive))
	case m == bullyAlive && b.asking && above && !slices.Contains(b.answered, other):
		e.Rule("One above me is alive: I note it, and wait for more answers.")
		b.answered = append(b.answered, other)
	case m == bullyProceed && !above:
		e.Rule("I am told to proceed: I lead, and tell all below me.")
		b.lead(e)
	default:
		e.Rule("This is too late, or a duplicate: I drop it.")
	}
}

func (b *threeStep) onHeartbeat(e *Env, from Rank) {
	if b.hear(e, from) && !b.electing {
		e.Rule("I lead and hear another leader: I start an election.")
		b.elect(e)
	}
}

// Fire handles an expired timer.
func (b *threeStep) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		b.Beat(e, Heartbeat{e.Self()})
	case TimerSuspect:
		b.suspect()
		b.elect(e)
	case timerAlive:
		b.onAnswers(e)
	case timerElected:
		b.proceed(e)
	}
}

// onAnswers ends the wait for answers:
//
//	None: it is leader and sends ELECTED to all lower ranks. Some: it sends PROCEED to the highest that
//	answered, which sends ELECTED.
func (b *threeStep) onAnswers(e *Env) {
	if len(b.answered) == 0 {
		e.Rule("None above me answered: I lead, and tell all below me.")
		b.lead(e)
		return
	}
	slices.SortFunc(b.answered, compareWorth)
	b.asking = false
	b.proceed(e)
}

// proceed asks the best member that answered to lead:
//
//	No ELECTED within T: the next highest, then afresh (choice)
func (b *threeStep) proceed(e *Env) {
	last := len(b.answered) - 1
	if last < 0 {
		e.Rule("None that answered announced itself in time: I start again.")
		b.elect(e)
		return
	}
	e.Rule("I tell the best that answered to lead, or the next below.")
	e.Send(b.answered[last].rank, b.message(bullyProceed))
	b.answered = b.answered[:last]
	e.Set(timerElected, e.Times().Answer)
}

// lead makes this member leader, and notifies all lower ranks. If qualities count, it notifies all members, because a better
// member may have a lower rank.
func (b *threeStep) lead(e *Env) {
	b.quit(e)
	b.take(e, e.Self())
	if b.qualities {
		e.Broadcast(announcement{})
		return
	}
	for r := Rank(1); r < e.Self(); r++ {
		e.Send(r, announcement{b.alternates(e)})
	}
}

// alternates returns the members that are next in line if this member leads.
func (b *threeStep) alternates(e *Env) []Rank {
	var line []Rank
	for r := e.Self() - 1; r > 0 && len(line) < b.names; r-- {
		line = append(line, r)
	}
	return line
}
