package elections

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// bench runs machines by hand. Messages wait until the test delivers them, and timers wait until the test lets them run out.
// Time passes only when the test advances it. With a bench, tests follow published examples step by step.
type bench struct {
	t        *testing.T
	n        int
	times    Times
	machines map[Rank]Machine // of the members that are up
	envs     map[Rank]*Env
	clock    sim.Time
	walls    map[Rank]int64 // how far a wall clock is off
	waiting  []letter       // in the order of sending
	timers   map[Rank]map[Timer]sim.Time
	disks    map[Rank]any
	sent     []string // every message since the last call of steps: "3 -> 4 ELECTION"
	elected  int      // elections that members began
	rules    []string // every rule since the last call of steps: "3: ..."
}

// letter is a message under way.
type letter struct {
	from, to Rank
	message  Message
}

func (l letter) String() string { return fmt.Sprintf("%d -> %d %s", l.from, l.to, l.message.Kind()) }

// newBench makes n machines, and starts none.
func newBench(t *testing.T, n int, times Times) *bench {
	return &bench{
		t: t, n: n, times: times, machines: map[Rank]Machine{}, envs: map[Rank]*Env{}, walls: map[Rank]int64{},
		timers: map[Rank]map[Timer]sim.Time{}, disks: map[Rank]any{},
	}
}

// start starts a member with this machine. It also restarts a member after a crash.
func (b *bench) start(r Rank, m Machine) {
	b.machines[r], b.timers[r] = m, map[Timer]sim.Time{}
	b.envs[r] = &Env{host: b, self: r, n: b.n, times: &b.times, random: sim.NewStream(1, sim.NodeConcern+sim.Concern(r))}
	m.Start(b.envs[r])
}

// startAll starts every member, from the lowest rank to the highest.
func (b *bench) startAll(a *Algorithm, o Options) {
	for r := Rank(1); r <= Rank(b.n); r++ {
		o.Self, o.N = r, b.n
		b.start(r, a.New(o))
	}
}

// crash ends a member; messages to it are lost.
func (b *bench) crash(r Rank) { delete(b.machines, r) }

// fire lets a timer run out, which must run.
func (b *bench) fire(r Rank, t Timer) {
	require.Contains(b.t, b.timers[r], t, "timer %d of %d runs", t, r)
	delete(b.timers[r], t)
	b.machines[r].Fire(b.envs[r], t)
}

// deliver delivers the first waiting message that the filter wants. It reports whether there is such a message.
func (b *bench) deliver(wanted func(letter) bool) bool {
	for i, l := range b.waiting {
		if wanted == nil || wanted(l) {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			if m := b.machines[l.to]; m != nil {
				m.Receive(b.envs[l.to], l.from, l.message)
			}
			return true
		}
	}
	return false
}

// deliverAll delivers, in the order of sending, until nothing waits.
func (b *bench) deliverAll() {
	for i := 0; b.deliver(nil); i++ {
		require.Less(b.t, i, 10_000, "messages without end")
	}
}

// lose drops the waiting messages that the filter wants.
func (b *bench) lose(wanted func(letter) bool) {
	kept := b.waiting[:0:0]
	for _, l := range b.waiting {
		if !wanted(l) {
			kept = append(kept, l)
		}
	}
	b.waiting = kept
}

// steps returns the messages sent since its last call, and forgets them.
func (b *bench) steps() string {
	text := strings.Join(b.sent, "\n")
	b.sent, b.rules = nil, nil
	return text
}

// leaders returns whom each live member takes for the leader.
func (b *bench) leaders() map[Rank]Rank {
	held := map[Rank]Rank{}
	for r, m := range b.machines {
		held[r], _ = m.Leader()
	}
	return held
}

func (b *bench) now(Rank) sim.Time    { return b.clock }
func (b *bench) wall(self Rank) int64 { return int64(b.clock) + b.walls[self] }
func (b *bench) send(from, to Rank, m Message) {
	require.NotEqual(b.t, from, to, "nobody sends to itself")
	l := letter{from, to, m}
	b.waiting, b.sent = append(b.waiting, l), append(b.sent, l.String())
}
func (b *bench) set(self Rank, t Timer, after sim.Time) { b.timers[self][t] = b.clock + after }
func (b *bench) stop(self Rank, t Timer)                { delete(b.timers[self], t) }
func (b *bench) rule(self Rank, sentence string) {
	b.rules = append(b.rules, fmt.Sprintf("%d: %s", self, sentence))
}
func (b *bench) elect(Rank)            { b.elected++ }
func (b *bench) stored(self Rank) any  { return b.disks[self] }
func (b *bench) keep(self Rank, v any) { b.disks[self] = v }
