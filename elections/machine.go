package elections

import "github.com/coxswain/raft/internal/sim"

// Rank is a member's number, 1 to n; a higher one wins unless an algorithm says otherwise. 0 is nobody.
type Rank int

// Machine is one member's side of an algorithm. It is deterministic: no clock, no goroutine; the same
// calls give the same effects. After a crash a new Machine is made and started.
type Machine interface {
	// Start is called once, when the process starts.
	Start(e *Env)
	// Receive takes a message of another member.
	Receive(e *Env, from Rank, m Message)
	// Fire says that a timer that was set has run out.
	Fire(e *Env, t Timer)
	// Leader is `elected`: whom this member takes for the leader, itself if it leads, 0 for nobody, and
	// the epoch, term or round of that leader where the algorithm has one, else 0.
	Leader() (leader Rank, epoch uint64)
}

// Prioritized is a Machine whose priority can be changed while it runs.
type Prioritized interface {
	Prioritize(e *Env, priority int)
}

// Message is one of the small structs of an algorithm. It is a value: nobody changes one that was sent.
type Message interface {
	Kind() string // its name in the source, in capitals
	Bytes() int   // what it would take on the wire: HeaderBytes and its fields
}

// HeaderBytes is what every message takes before its own fields: a length, a kind, a sender.
const HeaderBytes = 8

// RankBytes and NumberBytes are what a rank, and a term, counter or time, take in a message.
const (
	RankBytes   = 2
	NumberBytes = 8
)

// Timer names one of a member's timers. Each algorithm has constants of its own, from AlgorithmTimer on;
// the ones before it are shared pieces'.
type Timer int

// timersMax bounds the timers of one member.
const timersMax = 12

// Env is what a Machine may do during one call.
type Env struct {
	host   host
	self   Rank
	n      int
	times  *Times
	random *sim.Stream
}

// host is what runs a machine: a simulated world, or a test that does everything by hand.
type host interface {
	now(self Rank) sim.Time
	wall(self Rank) int64
	send(from, to Rank, m Message)
	set(self Rank, t Timer, after sim.Time)
	stop(self Rank, t Timer)
	rule(self Rank, sentence string)
	elect(self Rank)
	stored(self Rank) any
	keep(self Rank, v any)
}

// Self is the member itself.
func (e *Env) Self() Rank { return e.self }

// N is how many members are configured.
func (e *Env) N() int { return e.n }

// Times is how long things take.
func (e *Env) Times() *Times { return e.times }

// Now is the member's own clock. It never falls, and says nothing about another member's.
func (e *Env) Now() sim.Time { return e.host.now(e.self) }

// Wall is its wall clock: what messages are stamped with whose age counts. Those of two members may differ.
func (e *Env) Wall() int64 { return e.host.wall(e.self) }

// Random is the member's own stream of random numbers.
func (e *Env) Random() *sim.Stream { return e.random }

// Send takes a message to another member on its way. One to oneself is a mistake of the algorithm.
func (e *Env) Send(to Rank, m Message) { e.host.send(e.self, to, m) }

// Broadcast sends a message to all others, from the lowest rank to the highest.
func (e *Env) Broadcast(m Message) {
	for to := Rank(1); to <= Rank(e.n); to++ {
		if to != e.self {
			e.host.send(e.self, to, m)
		}
	}
}

// Set lets a timer run out once, that much later; one that runs already is set anew.
func (e *Env) Set(t Timer, after sim.Time) { e.host.set(e.self, t, after) }

// Stop stops a timer. One that does not run stays so.
func (e *Env) Stop(t Timer) { e.host.stop(e.self, t) }

// Rule says in one sentence which rule acts at this step: for the diagram. The member speaks, so there is an
// I, me or my in it, and it is short enough for a row. It must be a constant.
func (e *Env) Rule(sentence string) { e.host.rule(e.self, sentence) }

// Elect says that the member begins an election of its own: they are counted. One that joins another's begins
// none.
func (e *Env) Elect() { e.host.elect(e.self) }

// Stored is what the member kept before its crash; nil if there is nothing. Keep is for algorithms that
// ask for a disk: it is durable at once, so that who waits for one sets a timer first.
func (e *Env) Stored() any { return e.host.stored(e.self) }

// Keep replaces what a restart finds.
func (e *Env) Keep(v any) { e.host.keep(e.self, v) }
