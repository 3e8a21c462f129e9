package elections

import "github.com/coxswain/raft/internal/sim"

// Rank is a member's number, from 1 to n. The higher one wins unless an algorithm says otherwise. 0 stands for
// no member.
type Rank int

// Machine is one member's side of an algorithm. It is deterministic: it has no clock and no goroutine, and the
// same calls have the same effects. After a crash a new Machine is created and started.
type Machine interface {
	// Start is called once, when the process starts.
	Start(e *Env)
	// Receive handles a message of another member.
	Receive(e *Env, from Rank, m Message)
	// Fire handles a timer that has expired.
	Fire(e *Env, t Timer)
	// Leader returns `elected`: the member that this member believes to be the leader, or 0. A leader returns itself. epoch
	// is that leader's epoch, term or round, or 0 if the algorithm has none.
	Leader() (leader Rank, epoch uint64)
}

// Prioritized is a Machine whose priority can be changed while it runs.
type Prioritized interface {
	Prioritize(e *Env, priority int)
}

// Message is one of an algorithm's small structs. It never changes after it was sent.
type Message interface {
	Kind() string // its name in the source, in capitals
	Bytes() int   // its size on the wire: HeaderBytes and its fields
}

// HeaderBytes is the size of every message's header: a length, a kind, a sender.
const HeaderBytes = 8

// RankBytes is the size of a rank in a message. NumberBytes is the size of a term, a counter or a time.
const (
	RankBytes   = 2
	NumberBytes = 8
)

// Timer names one of a member's timers. Each algorithm defines its own from AlgorithmTimer on; the ones below
// belong to shared code.
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

// host runs a machine. It is a simulated world, or a test that controls every step by hand.
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

// Self returns the rank of this member.
func (e *Env) Self() Rank { return e.self }

// N returns the number of configured members.
func (e *Env) N() int { return e.n }

// Times returns the time profile of the run.
func (e *Env) Times() *Times { return e.times }

// Now returns the time of this member's monotonic clock. It cannot be compared with another member's.
func (e *Env) Now() sim.Time { return e.host.now(e.self) }

// Wall returns this member's wall clock, for timestamps in messages. The wall clocks of two members may differ.
func (e *Env) Wall() int64 { return e.host.wall(e.self) }

// Random returns this member's stream of random numbers.
func (e *Env) Random() *sim.Stream { return e.random }

// Send sends a message to another member, never to itself.
func (e *Env) Send(to Rank, m Message) { e.host.send(e.self, to, m) }

// Broadcast sends a message to all others, from the lowest rank to the highest.
func (e *Env) Broadcast(m Message) {
	for to := Rank(1); to <= Rank(e.n); to++ {
		if to != e.self {
			e.host.send(e.self, to, m)
		}
	}
}

// Set starts a timer, which expires once, after this time. A running timer is restarted.
func (e *Env) Set(t Timer, after sim.Time) { e.host.set(e.self, t, after) }

// Stop stops a timer. It does nothing if the timer does not run.
func (e *Env) Stop(t Timer) { e.host.stop(e.self, t) }

// Rule records for the diagram which rule acts at this step. The sentence must be a constant, in the first
// person, and short enough for a row of the diagram.
func (e *Env) Rule(sentence string) { e.host.rule(e.self, sentence) }

// Elect counts an election that this member begins. A member that joins another's election does not call it.
func (e *Env) Elect() { e.host.elect(e.self) }

// Stored returns the value that the member last passed to Keep, also after a crash. If there is none, it returns nil.
func (e *Env) Stored() any { return e.host.stored(e.self) }

// Keep stores v on the member's disk. The value is durable at once. If an algorithm models a slow disk, it sets a timer first
// and calls Keep when the timer expires.
func (e *Env) Keep(v any) { e.host.keep(e.self, v) }
