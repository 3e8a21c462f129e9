package elections

// ringChangRoberts stops the message of a low rank at a higher rank that takes part.
var ringChangRoberts = &Algorithm{
	Name:  "ring-c",
	Title: "Ring, Chang–Roberts",
	Source: "E. Chang and R. Roberts, An Improved Algorithm for Decentralized Extrema-Finding in " +
		"Circular Configurations of Processes, 1979",
	Assumes: "Messages arrive and are acknowledged within T, what is silent has crashed, and every " +
		"member knows the order of all; clocks measure T and the patience of a starter, and " +
		"need not agree.",
	Guarantees: "While that holds and nobody crashes meanwhile, the highest rank that lives is the " +
		"one leader, after at most 3n - 1 messages for one starter, beside acknowledgements " +
		"and what is sent in vain to the dead; otherwise nothing: a ring split in two elects " +
		"two leaders.",
	InCore: []*CorePart{coreTarget},
	Leaves: "The last round: heartbeats announce.",
	Choices: []string{
		"A participant that sees no COORDINATOR within 2n · T starts again; a message " +
			"past n hops is dropped.",
		"The ring is in the order of ranks, which is the worst for a lone low starter and " +
			"the best if all start at once.",
		lapChoice,
		seatChoice,
	},
	New: func(Options) Machine {
		c := &changRoberts{}
		c.form = c
		return c
	},
}

// changRoberts is one member.
type changRoberts struct{ ringMember }

// elect sends the member's own rank round the ring.
func (c *changRoberts) elect(e *Env) {
	e.Rule("My rank sets out: if it comes back, I lead.")
	e.Elect()
	l := c.newLap(e, false)
	c.mine = l.tag
	c.join(e)
	c.circulate(e, l)
}

// join makes the member take part, and wait for COORDINATOR.
func (c *changRoberts) join(e *Env) {
	if !c.electing {
		c.electing = true
		e.Set(timerRound, patience(e))
	}
}

// onLap handles a lap that comes by: a member passes on a higher rank, and replaces a lower one by its own unless it takes
// part already.
func (c *changRoberts) onLap(e *Env, l lap) {
	switch {
	case l.coordinator:
		e.Rule("The last round names the leader: I obey, and pass it on.")
		c.obey(e, l.starter)
		c.circulate(e, l)
	case l.starter > e.Self():
		e.Rule("A higher rank comes by: I pass it on.")
		c.join(e)
		c.circulate(e, l)
	case c.electing:
		e.Rule("A lower rank comes by, and I take part already: it ends here.")
	default:
		e.Rule("A lower rank comes by: mine takes its place.")
		c.elect(e)
	}
}

// onHome handles a lap that is home: a member is leader when its own rank comes back; then COORDINATOR goes round.
func (c *changRoberts) onHome(e *Env, l lap) {
	switch {
	case l.starter != e.Self():
		// Another member started this lap, and nobody else is left in the ring. This member drops the lap.
	case l.coordinator:
		e.Rule("The last round is back: I have told all that it reached.")
	case l.tag == c.mine:
		e.Rule("My rank is back, and met no higher one: I lead.")
		c.mine = 0
		c.obey(e, e.Self())
		c.circulate(e, c.newLap(e, true))
	}
}

// Fire handles an expired timer. A member that takes part already starts no second election.
func (c *changRoberts) Fire(e *Env, t Timer) {
	if t == TimerSuspect && c.electing {
		c.suspect()
		e.Rule("My leader is silent, and I take part in an election already.")
		return
	}
	c.ringMember.Fire(e, t)
}
