package elections

// seatChoice describes a choice that every algorithm with a seat makes.
const seatChoice = "A leader that hears another leader's heartbeat starts an election, which ends a healed " +
	"split; a follower that hears one goes on waiting for its own leader's."

// seat is the part that bully, next-in-line, candidate/ordinary and the ring share. It holds the leader that a member
// follows, and watches that leader. Its rules are choices, because the sources say only that a process notices.
type seat struct {
	Detector
	elected Rank
	fixed   bool // the timeout is the fixed silence plus the member's δ
}

// Leader returns `elected`.
func (s *seat) Leader() (Rank, uint64) { return s.elected, 0 }

// leads reports whether this member is the leader.
func (s *seat) leads(e *Env) bool { return s.elected == e.Self() }

// take sets `elected`. A new leader has just announced itself to the others, so it sends its first heartbeat one interval
// later.
func (s *seat) take(e *Env, leader Rank) {
	led := s.leads(e)
	s.elected = leader
	switch {
	case leader != e.Self():
		s.watch(e)
	case !led:
		e.Stop(TimerSuspect)
		e.Set(TimerHeartbeat, e.Times().Heartbeat)
	}
}

// watch waits for the leader's next sign of life.
func (s *seat) watch(e *Env) {
	if s.fixed {
		s.WatchFixed(e)
	} else {
		s.Watch(e)
	}
}

// hear handles a heartbeat, and reports whether this member leads, so that its sender is a rival:
//
//	A leader that hears another leader's heartbeat starts its own algorithm's election; that is how a
//	healed split ends (choice).
//
// If a follower hears the heartbeat of a leader that is not its own, it still waits for its own leader's heartbeat (choice).
func (s *seat) hear(e *Env, from Rank) (rival bool) {
	if from == s.elected {
		e.Rule("My leader's heartbeat: I restart my timer.")
		s.watch(e)
	} else {
		e.Rule("A heartbeat, but not from my leader.")
	}
	return s.leads(e)
}

// heed records the rule that a leader announced itself.
func (*seat) heed(e *Env, electing bool) {
	if electing {
		e.Rule("A leader announces itself: I follow, my election is over.")
		return
	}
	e.Rule("A leader announces itself: I follow.")
}

// suspect gives up a silent leader. `elected` is 0 until the election that follows is over.
func (s *seat) suspect() { s.elected = 0 }

// signal is a message that carries no more than its kind.
type signal string

func (s signal) Kind() string { return string(s) }
func (signal) Bytes() int     { return HeaderBytes }
