package elections

import "slices"

// candidateOrdinary has two kinds of members: candidates may lead, and ordinary members make sure that a
// candidate does.
var candidateOrdinary = &Algorithm{
	Name:  "candidate-ordinary",
	Title: "Candidate/ordinary with δ",
	Source: "M. G. Murshed and A. R. Allen, Enhanced Bully Algorithm for Leader Node Election in " +
		"Synchronous Distributed Systems, 2012",
	Assumes: "Messages arrive and are answered within T, every member knows every candidate and " +
		"reaches it, and what is silent has crashed; clocks run at one rate, as δ needs, and " +
		"need not agree.",
	Guarantees: "While that holds, the highest candidate that lives is the one leader, and no two " +
		"elections start together; otherwise nothing: each part of a partition that has a " +
		"candidate has a leader, and a part without one has none.",
	InCore: []*CorePart{coreOnlyVoters, coreRoom, coreRank, coreSpan, coreStandby},
	Leaves: "A leader appointed by one member: it takes the votes of a majority.",
	Choices: []string{
		"Every second rank is a candidate, from the highest on.",
		"No answer within T: repeat after δ.",
		"The step of δ is T and three delays: the notice leaves after T and takes one, the last heartbeat came " +
			"up to one apart, and one is for clocks.",
		"The leader that failed is not asked until there is another one.",
		"A process that starts waits for its δ before its first election, too.",
		"An ordinary member that a notice names does not lead.",
		"A heartbeat is a notice, too: a member without a leader follows its sender.",
		seatChoice,
	},
	Candidates: true,
	New:        newStanding,
}

// The messages of the candidate/ordinary election.
const (
	contactElection signal = "ELECTION" // to all candidates: who is alive?
	contactAnswer   signal = "ANSWER"   // I am
)

// notice is NOTICE: the member that it names leads.
type notice struct{ leader Rank }

func (notice) Kind() string { return "NOTICE" }
func (notice) Bytes() int   { return HeaderBytes + RankBytes }

// timerCollect bounds the wait for the candidates' answers.
const timerCollect = AlgorithmTimer

// standing is one member of the candidate/ordinary election, of either kind.
type standing struct {
	seat
	candidates []Rank
	collecting bool
	failed     Rank // the leader that fell silent; 0 once there is another one
	best       Rank // the highest candidate that answered; 0: none
}

// newStanding returns a member. If the options list no candidates, every second rank is a candidate, from the highest rank
// downwards (choice).
func newStanding(o Options) Machine {
	candidates := o.Candidates
	if len(candidates) == 0 {
		for r := Rank(o.N); r > 0; r -= 2 {
			candidates = append(candidates, r)
		}
	}
	return &standing{seat: seat{fixed: true}, candidates: candidates}
}

// Start waits for δ before the first election, as before any other (choice).
func (s *standing) Start(e *Env) {
	e.Rule("I start: after my δ I hold an election, unless another does.")
	s.pause(e)
}

// pause waits for δ:
//
//	δ keeps elections from starting together: higher priority → smaller δ, any two apart by more than a
//	round trip: δ = (n − rank + 1) · step, step above the time in which the others are told
func (s *standing) pause(e *Env) { e.Set(TimerSuspect, e.Times().Delta(e.N(), e.Self())) }

// Receive handles a message.
func (s *standing) Receive(e *Env, from Rank, m Message) {
	switch m := m.(type) {
	case Heartbeat:
		s.onHeartbeat(e, from)
	case notice:
		s.onNotice(e, m)
	case signal:
		s.onSignal(e, from, m)
	}
}

// onNotice handles NOTICE: the notice names the highest rank alive to everybody. The named member leads, though it may be the
// last to receive the notice. If a notice names an ordinary member by mistake, that member declines (choice).
func (s *standing) onNotice(e *Env, m notice) {
	if m.leader == e.Self() && !s.candidate(e) {
		e.Rule("I am told to lead, and am no candidate: I decline.")
		return
	}
	e.Rule("I am told who leads, possibly myself: I accept it.")
	s.appoint(e, m.leader)
}

// onHeartbeat handles a heartbeat: a leader's notice or another's election during δ cancels the attempt. A heartbeat counts
// as such a notice. If this member has no leader, it follows the sender of the heartbeat (choice).
func (s *standing) onHeartbeat(e *Env, from Rank) {
	if s.elected == 0 && !s.collecting {
		e.Rule("I have no leader and hear one: I follow, and drop my attempt.")
		s.appoint(e, from)
		return
	}
	if s.hear(e, from) && !s.collecting {
		e.Rule("I lead and hear another leader: I start an election.")
		s.elect(e)
	}
}

func (s *standing) onSignal(e *Env, from Rank, m signal) {
	switch {
	case m == contactElection && s.candidate(e):
		e.Rule("I am a candidate and am asked: I answer.")
		e.Send(from, contactAnswer)
		if !s.leads(e) && !s.collecting {
			s.watch(e) // another's election during δ cancels the attempt
		}
	case m == contactAnswer && s.collecting && slices.Contains(s.candidates, from):
		e.Rule("A candidate is alive: I note it, and wait for more answers.")
		s.best = max(s.best, from)
	default:
		e.Rule("This comes too late for me: I drop it.")
	}
}

// Fire handles an expired timer.
func (s *standing) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		s.Beat(e, Heartbeat{e.Self()})
	case TimerSuspect:
		s.onSilence(e)
	case timerCollect:
		s.onCollected(e)
	}
}

// onSilence gives up the leader, and holds an election.
func (s *standing) onSilence(e *Env) {
	if s.elected != 0 {
		e.Rule("My leader is silent, δ has passed: I ask any candidate left.")
		s.failed = s.elected
	} else {
		e.Rule("I know no leader, δ has passed: I ask any candidate left.")
	}
	s.suspect()
	s.elect(e)
}

// elect begins an election:
//
//	An ordinary member that notices the failure contacts all candidates, collects answers for T. A
//	candidate that notices does the same, counting itself.
//
// The leader that failed is not asked until there is another one (choice).
func (s *standing) elect(e *Env) {
	e.Elect()
	s.collecting, s.best = true, 0
	if s.candidate(e) {
		s.best = e.Self()
	}
	for _, r := range s.candidates {
		if r != e.Self() && r != s.failed {
			e.Send(r, contactElection)
		}
	}
	e.Set(timerCollect, e.Times().Answer)
}

// onCollected ends the wait for answers: no answer within T: repeat after δ (choice).
func (s *standing) onCollected(e *Env) {
	if s.best == 0 {
		e.Rule("No candidate answered: I try again after δ.")
		s.collecting = false
		s.pause(e)
		return
	}
	if s.best == e.Self() {
		e.Rule("No higher candidate answered in time: I lead, and tell all.")
	} else {
		e.Rule("Time is up: I tell all that the highest that answered leads.")
	}
	leader := s.best
	e.Broadcast(notice{leader})
	s.appoint(e, leader)
}

// appoint ends this member's election, and sets the leader.
func (s *standing) appoint(e *Env, leader Rank) {
	s.collecting, s.failed = false, 0
	e.Stop(timerCollect)
	s.take(e, leader)
}

// candidate reports whether this member may lead.
func (s *standing) candidate(e *Env) bool { return slices.Contains(s.candidates, e.Self()) }
