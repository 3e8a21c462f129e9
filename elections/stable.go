package elections

import "github.com/coxswain/raft/internal/sim"

// Stable leader election, the form for lossy links.
//
// Source: M. K. Aguilera, C. Delporte-Gallet, H. Fauconnier, S. Toueg, "Stable Leader Election", DISC 2001.
//
// Assumes: a known membership and order; links may lose messages; on a timely link, a message takes less than η. Messages
// carry the time at which they were sent, so clocks must agree to within η.
//
// Guarantees: once links are timely and lose nothing, all members that are up and connected follow one leader, and a leader
// that works and is reachable stays. This does not hold while messages are lost. After one lost OK, the next OK arrives 2η
// after the previous OK. If it arrives a little later than that, the member has already begun the next round. The algorithm
// does not guarantee one leader at a time: each part of a partition elects its own.
//
// Rounds r = 0, 1, ... Each has one possible leader.

var stable = &Algorithm{
	Name:   "stable",
	Title:  "Stable leader",
	Source: `Aguilera, Delporte-Gallet, Fauconnier, Toueg, "Stable Leader Election", DISC 2001`,
	Assumes: "A known membership and its order; links may lose messages, those that arrive in time take less than η; " +
		"clocks agree well enough to recognize an older message.",
	Guarantees: "Once links are timely and lose nothing, all members that are up and connected follow one leader, and a " +
		"leader that works and is reachable stays. Under loss a leader that works is replaced now and then: see the changes " +
		"at 5 % loss. Each part of a partition elects its own.",
	InCore: []*CorePart{corePreVote, coreStickiness, coreCheckQuorum, coreNamesLeader},
	Leaves: "Leaders in turn by round: the member with the newest log may not be next. No majority: a safe leader needs one.",
	Choices: []string{
		"A round's leader sends OK when it enters the round, then every η, and counts its own.",
		"Where rounds are shown, the first has the number 1: 0 is none.",
	},
	Epochs: true,
	New:    func(o Options) Machine { return &stableMachine{o: o} },
}

const (
	stableSend    Timer = AlgorithmTimer + iota // η is over: the next OK
	stableSilence                               // no OK for 2η
)

// stableMessage is OK(r) or START(r), with the sender's clock.
type stableMessage struct {
	ok    bool
	round uint64
	sent  int64
}

func (m stableMessage) Kind() string {
	if m.ok {
		return "OK"
	}
	return "START"
}

func (m stableMessage) Bytes() int { return HeaderBytes + 2*NumberBytes }

type stableMachine struct {
	o     Options
	round uint64
	oks   int // of this round, up to two
}

// owner returns the possible leader of a round: round r has one possible leader, member r mod n, which sends OK(r) to all
// every η.
func (m *stableMachine) owner(round uint64) Rank { return Rank(round%uint64(m.o.N)) + 1 }

// Leader returns the round's leader, or 0: a member takes the round's leader as leader only after two OKs of that round.
func (m *stableMachine) Leader() (Rank, uint64) {
	if m.oks < 2 {
		return 0, 0
	}
	return m.owner(m.round), m.round + 1
}

func (m *stableMachine) Start(e *Env) {
	e.Rule("I start in round 0, as all do: its leader is member 1.")
	m.enter(e, 0)
}

// enter begins a round. The round's leader sends OK at once, then every η, and counts its own OKs (choice).
func (m *stableMachine) enter(e *Env, round uint64) {
	m.round, m.oks = round, 0
	e.Stop(stableSend)
	e.Stop(stableSilence)
	if m.owner(round) == m.o.Self {
		e.Rule("The round is mine: I send OK to all, at once and every η.")
		m.send(e)
		return
	}
	e.Set(stableSilence, 2*e.Times().Eta)
}

func (m *stableMachine) send(e *Env) {
	m.oks = min(m.oks+1, 2)
	e.Set(stableSend, e.Times().Eta)
	e.Broadcast(stableMessage{true, m.round, e.Wall()})
}

// Fire: no OK(r) for 2η: go to round r + 1 and send START(r + 1) to all.
func (m *stableMachine) Fire(e *Env, t Timer) {
	if t == stableSend {
		e.Rule("The round is mine, and η is over: I send OK to all.")
		m.send(e)
		return
	}
	e.Rule("No OK of the round for 2η: I go to the next, and tell all.")
	e.Elect()
	m.enter(e, m.round+1)
	e.Broadcast(stableMessage{false, m.round, e.Wall()})
}

// Receive handles a message. Messages older than η are dropped. A message of a higher round moves a member to that round. The
// member answers a message of a lower round with START(own round).
func (m *stableMachine) Receive(e *Env, from Rank, message Message) {
	msg := message.(stableMessage)
	switch {
	case sim.Time(e.Wall()-msg.sent) > e.Times().Eta:
		e.Rule("By my clock this message is older than η: I drop it.")
		return
	case msg.round < m.round:
		e.Rule("A message of a lower round: I answer with START of mine.")
		e.Send(from, stableMessage{false, m.round, e.Wall()})
		return
	case msg.round == m.round && !msg.ok:
		e.Rule("START of my round: I am there already.")
		return
	case msg.round > m.round:
		e.Rule("A message of a higher round: I go to that round.")
		m.enter(e, msg.round)
	}
	if msg.ok && from == m.owner(msg.round) {
		e.Rule("OK of my round: after two I take its sender for the leader.")
		m.oks = min(m.oks+1, 2)
		e.Set(stableSilence, 2*e.Times().Eta)
	}
}
