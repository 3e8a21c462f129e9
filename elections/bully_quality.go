package elections

import "slices"

// bullyQuality ranks members by the quality of their hosts first.
var bullyQuality = &Algorithm{
	Name:  "bully-quality",
	Title: "Bully, quality before rank",
	Source: "The usual cure for the bully's endless re-election: a measure of the host's quality is part " +
		"of the rank; here in the three steps of Kordafshari et al., 2005",
	Assumes: "What the bully in three steps assumes, and a disk that keeps one number: how good the host " +
		"has been.",
	Guarantees: "While that holds, the best host that lives is the one leader, the highest rank of equal " +
		"ones, and a member that comes and goes displaces nobody once its quality is below that of the " +
		"leader; otherwise nothing: each part of a partition has a leader.",
	InCore: []*CorePart{coreMajority, coreStickiness}, NotInCore: []*CoreLack{lackRank, lackBackOff},
	Leaves: "A cure that the core does not need: a working leader stays when another member comes back, so " +
		"a member that flaps costs an election only when it leads.",
	Choices: []string{
		"The quality is 100 at first (`--qualities`), and each restart of the process takes 10 from it, " +
			"down to 0; nothing restores it, since a run is short.",
		"Nobody knows the present quality of another: ELECTION, which carries the sender's, goes to all, " +
			"and only a better member answers, with its own.",
		"For the same reason the highest rank no longer leads at once: it asks, too, and ELECTED goes to all.",
		seatChoice,
	},
	Qualities: true,
	New:       func(o Options) Machine { return &qualityBully{quality: o.Quality()} },
}

// A host's quality ranges from QualityMin to QualityMax.
const (
	qualityRestart = 10 // subtracted at each restart
	qualityBytes   = 1  // of a quality in a message
)

// worth is what this bully compares: quality first, then rank.
type worth struct {
	quality int
	rank    Rank
}

// below reports whether another member is better.
func (w worth) below(other worth) bool {
	return w.quality < other.quality || w.quality == other.quality && w.rank < other.rank
}

// qualityMessage is a message of the bully in three steps with its sender's quality.
type qualityMessage struct {
	signal
	quality int
}

func (qualityMessage) Bytes() int { return HeaderBytes + qualityBytes }

// qualityBully is one member. It asks while timerAlive runs, and waits for ELECTED while timerElected does.
type qualityBully struct {
	seat
	quality  int
	electing bool
	answered []worth // the members that answered and were not told to proceed yet
}

// Start: a process that finds a quality on its disk has run before, and failed: that lowers the
// quality by which it is ranked. An election starts at initialisation.
func (b *qualityBully) Start(e *Env) {
	if kept, again := e.Stored().(int); again {
		b.quality = max(kept-qualityRestart, QualityMin)
	}
	e.Keep(b.quality)
	b.elect(e)
}

func (b *qualityBully) worth(e *Env) worth { return worth{b.quality, e.Self()} }

func (b *qualityBully) send(e *Env, to Rank, kind signal) {
	e.Send(to, qualityMessage{kind, b.quality})
}

// elect begins an election. Any other member may be better, so all are asked (choice).
func (b *qualityBully) elect(e *Env) {
	e.Elect()
	e.Rule("I start an election: I tell all how good my host is, and wait.")
	b.quit(e)
	b.electing = true
	e.Broadcast(qualityMessage{bullyElection, b.quality})
	e.Set(timerAlive, e.Times().Answer)
}

// quit ends this member's election, if it holds one.
func (b *qualityBully) quit(e *Env) {
	b.electing, b.answered = false, b.answered[:0]
	e.Stop(timerAlive)
	e.Stop(timerElected)
}

// Receive handles a message.
func (b *qualityBully) Receive(e *Env, from Rank, m Message) {
	switch m := m.(type) {
	case Heartbeat:
		if b.hear(e, from) && !b.electing {
			e.Rule("I lead and hear another leader: I start an election.")
			b.elect(e)
		}
	case announcement:
		b.heed(e, b.electing)
		b.quit(e)
		b.take(e, from)
	case qualityMessage:
		b.onQuality(e, m.signal, worth{m.quality, from})
	}
}

func (b *qualityBully) onQuality(e *Env, kind signal, other worth) {
	switch higher := b.worth(e).below(other); {
	case kind == bullyElection && higher:
		e.Rule("A better member than me asks: I do not answer.")
	case kind == bullyElection:
		e.Rule("A worse member than me asks: I answer with my quality.")
		b.send(e, other.rank, bullyAlive)
	case kind == bullyAlive && b.electing && higher:
		e.Rule("A better member than me is alive: I note it, and wait.")
		b.note(other)
	case kind == bullyProceed && !higher:
		e.Rule("I am told to proceed: I lead, and tell all.")
		b.lead(e)
	default:
		e.Rule("This is too late, or a duplicate: I drop it.")
	}
}

// note records each member that answered once, in order, the best last.
func (b *qualityBully) note(other worth) {
	at := len(b.answered)
	for at > 0 && other.below(b.answered[at-1]) {
		at--
	}
	if at == 0 || b.answered[at-1] != other {
		b.answered = slices.Insert(b.answered, at, other)
	}
}

// Fire handles an expired timer.
func (b *qualityBully) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		b.Beat(e, Heartbeat{e.Self()})
	case TimerSuspect:
		b.suspect()
		b.elect(e)
	case timerAlive:
		if len(b.answered) == 0 {
			e.Rule("No better member than me answered: I lead, and tell all.")
			b.lead(e)
			return
		}
		b.proceed(e)
	case timerElected:
		b.proceed(e)
	}
}

// proceed asks the best member that answered to lead. Without ELECTED within T it asks the next best, and in
// the end starts again.
func (b *qualityBully) proceed(e *Env) {
	last := len(b.answered) - 1
	if last < 0 {
		e.Rule("None that answered announced itself in time: I start again.")
		b.elect(e)
		return
	}
	e.Rule("I tell the best of those that answered to lead, or the next.")
	b.send(e, b.answered[last].rank, bullyProceed)
	b.answered = b.answered[:last]
	e.Set(timerElected, e.Times().Answer)
}

// lead makes this member leader, and notifies all: a better member may have a lower rank.
func (b *qualityBully) lead(e *Env) {
	b.quit(e)
	b.take(e, e.Self())
	e.Broadcast(announcement{})
}
