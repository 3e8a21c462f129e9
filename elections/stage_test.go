package elections

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// stage is a bench that advances time on its own. Messages arrive at once over the links that are up, and timers run out in
// their order.
type stage struct {
	*bench
	algorithm *Algorithm
	options   Options
	up        func(from, to Rank) bool
}

// newStage starts n members, which reach each other.
func newStage(t *testing.T, a *Algorithm, n int) *stage {
	s := &stage{bench: newBench(t, n, Scaled()), algorithm: a, options: Options{N: n}}
	s.heal()
	s.startAll(a, s.options)
	return s
}

// elected returns a stage after the cold start, with no messages recorded yet.
func elected(t *testing.T, a *Algorithm, n int) *stage {
	s := newStage(t, a, n)
	s.pass(time.Second)
	require.Len(t, s.inOffice(), 1, "the cold start elects one leader")
	s.steps()
	return s
}

func (s *stage) heal() { s.up = func(Rank, Rank) bool { return true } }

// split cuts the members into parts. Each given rank is the lowest rank of a new part.
func (s *stage) split(begins ...Rank) {
	part := func(r Rank) (i int) {
		for _, b := range begins {
			if r >= b {
				i++
			}
		}
		return i
	}
	s.up = func(from, to Rank) bool { return part(from) == part(to) }
}

// restart starts a crashed member anew.
func (s *stage) restart(r Rank) {
	o := s.options
	o.Self = r
	s.start(r, s.algorithm.New(o))
}

// pass lets time pass.
func (s *stage) pass(d time.Duration) {
	end := s.clock + sim.In(d)
	for i := 0; ; i++ {
		require.Less(s.t, i, 100_000, "timers without end")
		s.carry()
		r, timer, due := s.next()
		if r == 0 || due > end {
			break
		}
		s.clock = max(s.clock, due)
		s.fire(r, timer)
	}
	s.clock = end
}

// carry delivers the waiting messages. It loses a message if the message's link is cut.
func (s *stage) carry() {
	for i := 0; len(s.waiting) > 0; i++ {
		require.Less(s.t, i, 100_000, "messages without end")
		l := s.waiting[0]
		s.waiting = s.waiting[1:]
		if m := s.machines[l.to]; m != nil && s.up(l.from, l.to) {
			m.Receive(s.envs[l.to], l.from, l.message)
		}
	}
}

// next returns the timer that runs out next. If several timers run out at that time, it returns the timer of the lowest rank.
func (s *stage) next() (r Rank, timer Timer, due sim.Time) {
	for m := Rank(1); m <= Rank(s.n); m++ {
		for t := Timer(0); t < timersMax; t++ {
			at, runs := s.timers[m][t]
			if s.machines[m] != nil && runs && (r == 0 || at < due) {
				r, timer, due = m, t, at
			}
		}
	}
	return r, timer, due
}

// inOffice returns the live members that believe that they lead, in ascending order.
func (s *stage) inOffice() (leaders []Rank) {
	held := s.leaders()
	for r := Rank(1); r <= Rank(s.n); r++ {
		if held[r] == r {
			leaders = append(leaders, r)
		}
	}
	return leaders
}

// requireAll requires that every live member follows this leader.
func (b *bench) requireAll(leader Rank) {
	b.t.Helper()
	for r, held := range b.leaders() {
		require.Equal(b.t, leader, held, "whom %d holds for the leader", r)
	}
}

// lines makes a text of messages, one a line.
func lines(messages ...string) string { return strings.Join(messages, "\n") }

// count returns the number of messages of these kinds that were sent since the last call of steps. If no kind is named, it
// counts all kinds except acknowledgements and heartbeats.
func (b *bench) count(kinds ...string) (n int) {
	for _, l := range b.sent {
		kind := l[strings.LastIndexByte(l, ' ')+1:]
		if len(kinds) == 0 && kind != "ACK" && kind != "HEARTBEAT" || slices.Contains(kinds, kind) {
			n++
		}
	}
	return n
}
