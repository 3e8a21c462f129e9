package sim

import (
	"math/bits"
	"math/rand/v2"
)

// Concern names the purpose of a Stream.
type Concern uint64

// The concerns. Streams of different concerns never influence each other.
const (
	Profile Concern = iota + 1
	NetworkConcern
	PartitionConcern
	DiskConcern
	ClockConcern
	ProcessConcern
	WorkloadConcern
	HandshakeConcern
	MembersConcern
	// NodeConcern is the concern of the first node. The concern of each further node is higher by one.
	NodeConcern Concern = 1 << 20
)

// Million is probability 1: probabilities are given in millionths.
const Million = 1_000_000

// Stream is a source of random numbers, determined by a seed and a concern.
type Stream struct{ rng *rand.PCG }

// NewStream returns the stream of a concern.
func NewStream(seed uint64, c Concern) *Stream {
	return &Stream{rand.NewPCG(scramble(seed), scramble(uint64(c)))}
}

// scramble maps neighbouring numbers to unrelated ones.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Uint64 returns 64 random bits.
func (s *Stream) Uint64() uint64 { return s.rng.Uint64() }

// IntN returns a number from 0 to n - 1. n is at least 1.
func (s *Stream) IntN(n int) int { return int(s.below(int64(n))) }

// below is like IntN for int64, which can hold times even if int has 32 bits.
func (s *Stream) below(n int64) int64 {
	high, _ := bits.Mul64(s.rng.Uint64(), uint64(n))
	return int64(high)
}

// Chance returns true with this probability. It always draws one number, so a change of the probability does not change later
// draws.
func (s *Stream) Chance(millionths int) bool { return s.IntN(Million) < millionths }

// Coin returns true with probability 1/2.
func (s *Stream) Coin() bool { return s.rng.Uint64()&1 == 0 }

// Between returns a time from low to high.
func (s *Stream) Between(low, high Time) Time {
	return low + Time(s.below(int64(max(high-low, 0))+1))
}

// Exponential returns a time from a distribution close to the exponential one with this mean. No time is longer than 44 times
// the mean. The computation uses no floats, so that all machines agree.
func (s *Stream) Exponential(mean Time) Time {
	halvings := Time(min(bits.LeadingZeros64(s.rng.Uint64()), 63))
	const ln2 = 693 // thousandths
	step := mean/1000*ln2 + mean%1000*ln2/1000
	return halvings*step + s.Between(0, step)
}

// Pareto returns a time from low to high with a heavy tail: the time exceeds k times low with probability 1 / k.
func (s *Stream) Pareto(low, high Time) Time {
	doublings := min(bits.LeadingZeros64(s.rng.Uint64()), 30)
	from := low << doublings
	if from > high || from < low {
		return high
	}
	return min(s.Between(from, 2*from), high)
}

// LogUniform returns a number from low, which is at least 1, to high; each order of magnitude is equally
// likely.
func (s *Stream) LogUniform(low, high int) int {
	return int(s.LogTime(Time(low), Time(high)))
}

// LogTime is LogUniform for times.
func (s *Stream) LogTime(low, high Time) Time {
	steps := bits.Len64(uint64(high/low)) - 1
	from := low << s.IntN(steps+1)
	return min(from+Time(s.below(int64(from))), high)
}

// Subset returns k of the numbers 0 to n - 1, as bits. n is at most 64.
func (s *Stream) Subset(n, k int) uint64 {
	var chosen uint64
	for left, i := k, 0; i < n && left > 0; i++ {
		if s.IntN(n-i) < left {
			chosen |= 1 << i
			left--
		}
	}
	return chosen
}

// Pick returns one of the choices.
func Pick[T any](s *Stream, choices ...T) T { return choices[s.IntN(len(choices))] }

// Flip changes one to three bits of b, which is not empty.
func (s *Stream) Flip(b []byte) {
	for range 1 + s.IntN(3) {
		b[s.IntN(len(b))] ^= 1 << s.IntN(8)
	}
}
