package elections

// nextInLineFailover lets the leader name its successors, and falls back to the bully in three steps.
var nextInLineFailover = &Algorithm{
	Name:  "next-in-line",
	Title: "Next-in-line failover",
	Source: "M. Gholipour et al., A New Approach for Election Algorithm in Distributed Systems, " +
		"2009",
	Assumes: "What the bully in three steps assumes.",
	Guarantees: "While that holds, one leader, which need not be the highest rank that lives; n + 1 " +
		"messages if the first alternate lives; otherwise nothing: each part of a partition " +
		"has a leader.",
	InCore: []*CorePart{coreSuccessors, coreTransfer, coreTarget},
	Leaves: "The alternate that leads because it was asked: in the core, a member that is told to take over " +
		"campaigns, and needs a majority.",
	Choices: []string{
		"Two alternates are named: the two ranks below the leader, since those above were " +
			"silent when it was elected.",
		"An alternate that answers and does not announce itself within T: bully a in " +
			"full.",
		seatChoice,
	},
	New: func(Options) Machine {
		return &nextInLine{threeStep: threeStep{names: alternatesMax}}
	},
}

// The messages of next-in-line failover, beside those of the bully in three steps.
const nextInLineAsk signal = "NEXT" // to an alternate: you are next in line, if you are alive

// namingHeartbeat is a heartbeat that names the alternates.
type namingHeartbeat struct{ alternates []Rank }

func (namingHeartbeat) Kind() string { return "HEARTBEAT" }
func (m namingHeartbeat) Bytes() int { return HeaderBytes + RankBytes*(1+len(m.alternates)) }

// timerNext bounds the wait for the alternate that was asked. The alternate first answers, and then announces itself.
const timerNext = threeStepTimers

// alternatesMax is the number of alternates: alternates go out with ELECTED and with each heartbeat, highest rank first, two
// of them (choice). They are the two ranks just below the leader's, because the ranks above the leader were silent when it
// was elected (choice).
const alternatesMax = 2

// nextInLine is one member of next-in-line failover.
type nextInLine struct {
	threeStep
	line  []Rank // the alternates that the leader named and that were not asked yet; never changed in place
	asked Rank   // the alternate that is to answer
}

// Receive handles a message.
func (n *nextInLine) Receive(e *Env, from Rank, m Message) {
	switch m := m.(type) {
	case namingHeartbeat:
		if from == n.elected {
			n.line = m.alternates
		}
		n.onHeartbeat(e, from)
	case announcement:
		n.heed(e, n.electing || n.elected == 0)
		n.relax(e)
		n.line = m.alternates
		n.quit(e)
		n.take(e, from)
	case signal:
		n.onSignal(e, from, m)
	}
}

func (n *nextInLine) onSignal(e *Env, from Rank, m signal) {
	switch {
	case m == nextInLineAsk:
		n.onNext(e, from)
	case m == bullyAlive && from == n.asked:
		e.Rule("The alternate lives: I ask nobody else, and wait for it.")
		n.asked, n.line = 0, nil
		e.Set(timerNext, e.Times().Answer)
	default:
		if m == bullyProceed {
			n.relax(e)
		}
		n.threeStep.onSignal(e, worth{rank: from}, m)
	}
}

// onNext handles NEXT: the first alternate that is alive answers, becomes leader and tells all. Its answer keeps the detector
// from asking others.
func (n *nextInLine) onNext(e *Env, from Rank) {
	e.Rule("I am asked as the next in line: I answer, lead, and tell all.")
	e.Send(from, bullyAlive)
	n.succeed(e)
}

// Fire handles an expired timer.
func (n *nextInLine) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		n.Beat(e, namingHeartbeat{n.alternates(e)})
	case TimerSuspect:
		n.suspect()
		if len(n.line) > 0 { // else the bully's election begins at once
			e.Elect()
		}
		n.next(e)
	case timerNext:
		n.next(e)
	default:
		n.threeStep.Fire(e, t)
	}
}

// next asks the next alternate:
//
//	A detector asks them in order, T each, skipping itself. If the detector is itself on the list and
//	all above it stay silent, it leads at once. No alternate: bully a) in full.
//
// If an alternate answers but never announces itself, the detector also starts the bully (choice).
func (n *nextInLine) next(e *Env) {
	n.asked = 0
	if len(n.line) == 0 {
		n.elect(e)
		return
	}
	n.asked, n.line = n.line[0], n.line[1:]
	if n.asked == e.Self() {
		e.Rule("I am next in line, and nobody before me answered: I lead.")
		n.succeed(e)
		return
	}
	e.Rule("The leader is silent: I ask the next in line that it named.")
	e.Send(n.asked, nextInLineAsk)
	e.Set(timerNext, e.Times().Answer)
}

// relax ends the search for an alternate, and clears the leader's list.
func (n *nextInLine) relax(e *Env) {
	n.asked, n.line = 0, nil
	e.Stop(timerNext)
}

// succeed makes this alternate the leader, and notifies all members. Members of a higher rank are notified too, and follow
// this leader.
func (n *nextInLine) succeed(e *Env) {
	n.relax(e)
	n.quit(e)
	n.take(e, e.Self())
	e.Broadcast(announcement{n.alternates(e)})
}
