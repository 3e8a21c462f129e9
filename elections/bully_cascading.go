package elections

// bullyCascading is the bully in which a member holds its own election if a lower rank asks it.
var bullyCascading = &Algorithm{
	Name:   "bully-b",
	Title:  "Bully, cascading",
	Source: "H. Garcia-Molina, Elections in a Distributed Computing System, 1982",
	Assumes: "Messages arrive and are answered within T = 2 · transmission + processing, every " +
		"member knows every other and reaches it, and what is silent has crashed; clocks " +
		"measure T and nothing else.",
	Guarantees: "While that holds, the highest rank that lives is the one leader, though members " +
		"crash during the election; n² - n - 1 messages if the lowest rank detects; otherwise " +
		"nothing: each part of a partition has a leader, and a highest rank that comes and " +
		"goes is elected each time.",
	InCore: []*CorePart{coreStickiness, coreTransfer, coreRank, coreTakeover, coreBackOff},
	Leaves: "The takeover by the highest rank at its return: the leader itself transfers its leadership, " +
		"later, and with a majority behind both.",
	Choices: []string{
		"A member waits for COORDINATOR for 2T from the first ANSWER.",
		"A leader that joins an election keeps leading until another is announced.",
		"The highest rank sends COORDINATOR at once when it starts, and waits T when a " +
			"lower rank asked: otherwise it would end elections whose messages are still in flight, " +
			"each of which starts another, and among a hundred members that never stops.",
		seatChoice,
	},
	New: func(Options) Machine { return &cascading{} },
}

// The messages of the cascading bully.
const (
	cascadeElection    signal = "ELECTION"    // to all higher ranks: hold an election
	cascadeAnswer      signal = "ANSWER"      // I do; leave it to me
	cascadeCoordinator signal = "COORDINATOR" // I lead
)

// The timers of the cascading bully.
const (
	timerAnswer      = AlgorithmTimer + iota // an the wait for an ANSWER
	timerCoordinator                         // the wait for COORDINATOR, after the first ANSWER
)

// cascading is one member of the cascading bully.
type cascading struct {
	seat
	electing bool
	answered bool // a higher rank has taken this election over
}

// Start begins an election, also after a restart. The restarted member displaces a working leader only if it has the highest
// rank alive. A leader that joins an election continues to lead until another is announced (choice).
func (b *cascading) Start(e *Env) { b.begin(e) }

// begin starts an election that no lower rank asked for:
//
//	The highest rank may send COORDINATOR at once.
//
// If a lower rank asked, the highest rank does not send it at once (choice). It would end elections whose messages are still
// in flight, and each of those messages starts a new election. Among a hundred members that never stops.
func (b *cascading) begin(e *Env) {
	if e.Self() == Rank(e.N()) {
		e.Rule("No rank is above mine: I lead, and tell any lower rank.")
		e.Elect()
		b.lead(e)
		return
	}
	b.elect(e)
}

// elect holds an election: ELECTION to all higher ranks.
func (b *cascading) elect(e *Env) {
	if e.Self() == Rank(e.N()) {
		e.Rule("I hold an election: no rank is above mine to ask, but I wait.")
	} else {
		e.Rule("I hold an election: I ask every higher rank, and wait.")
	}
	e.Elect()
	b.quit(e)
	b.electing = true
	for r := e.Self() + 1; r <= Rank(e.N()); r++ {
		e.Send(r, cascadeElection)
	}
	e.Set(timerAnswer, e.Times().Answer)
}

// quit ends this member's election, if it holds one.
func (b *cascading) quit(e *Env) {
	b.electing, b.answered = false, false
	e.Stop(timerAnswer)
	e.Stop(timerCoordinator)
}

// Receive handles a message.
func (b *cascading) Receive(e *Env, from Rank, m Message) {
	switch m {
	case Heartbeat{from}:
		b.onHeartbeat(e, from)
	case cascadeElection:
		b.onElection(e, from)
	case cascadeAnswer:
		b.onAnswer(e)
	case cascadeCoordinator:
		b.onCoordinator(e, from)
	}
}

func (b *cascading) onHeartbeat(e *Env, from Rank) {
	if b.hear(e, from) && !b.electing {
		e.Rule("I lead and hear another leader: I start an election.")
		b.begin(e)
	}
}

// onElection: a receiver returns ANSWER and begins an election of its own unless one is under way.
func (b *cascading) onElection(e *Env, from Rank) {
	if from > e.Self() {
		e.Rule("I answer only lower ranks.") // only they ask
		return
	}
	e.Send(from, cascadeAnswer)
	if b.electing {
		e.Rule("A lower rank holds an election: I answer, and my own goes on.")
		return
	}
	e.Rule("A lower rank holds an election: I answer, and hold my own.")
	b.elect(e)
}

// onAnswer: the member waits a further T′ for COORDINATOR; T′ is 2T from the first ANSWER (choice).
func (b *cascading) onAnswer(e *Env) {
	switch {
	case !b.electing:
		e.Rule("An answer to an earlier election of mine: I drop it.")
		return
	case b.answered:
		e.Rule("A higher rank has answered me before: I wait already.")
		return
	}
	e.Rule("A higher rank takes over: I wait until a leader is announced.")
	b.answered = true
	e.Stop(timerAnswer)
	e.Set(timerCoordinator, 2*e.Times().Answer)
}

// onCoordinator: a member sets `elected` to the sender, whatever its own rank, and ends its election.
func (b *cascading) onCoordinator(e *Env, from Rank) {
	b.heed(e, b.electing)
	b.quit(e)
	b.take(e, from)
}

// Fire handles an expired timer:
//
//	No ANSWER within T: COORDINATOR to all lower ranks. Otherwise wait a further T′ for COORDINATOR, else begin
//	again.
func (b *cascading) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		b.Beat(e, Heartbeat{e.Self()})
	case TimerSuspect:
		b.suspect()
		if b.electing {
			e.Rule("My leader is silent, and my election goes on already.")
			return
		}
		b.begin(e)
	case timerAnswer:
		e.Rule("No higher rank answered: I lead, and tell any lower rank.")
		b.lead(e)
	case timerCoordinator:
		e.Rule("No leader announced itself in time: I begin again.")
		b.elect(e)
	}
}

// lead makes this member leader, and notifies all lower ranks.
func (b *cascading) lead(e *Env) {
	b.quit(e)
	b.take(e, e.Self())
	for r := Rank(1); r < e.Self(); r++ {
		e.Send(r, cascadeCoordinator)
	}
}
