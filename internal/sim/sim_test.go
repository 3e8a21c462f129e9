package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueue_OrdersByTimeThenByWhenPushed(t *testing.T) {
	var q Queue[int]
	s := NewStream(1, Profile)
	var want [][2]int
	for i := range 2000 {
		at := s.IntN(100)
		want = append(want, [2]int{at, i})
		q.Push(Time(at), i)
	}
	slices.SortStableFunc(want, func(a, b [2]int) int { return a[0] - b[0] })
	for _, w := range want {
		got, ok := q.Pop()
		require.True(t, ok)
		require.Equal(t, w[1], got)
		require.Equal(t, Time(w[0]), q.Now())
	}
	_, ok := q.Pop()
	assert.False(t, ok)
	q.Push(3, 1)
	q.Pop()
	assert.Equal(t, Time(99), q.Now(), "time does not fall")
}

func TestStream_ItsDistributions(t *testing.T) {
	s := NewStream(7, NetworkConcern)
	var sum Time
	long := 0
	for range 20000 {
		sum += s.Exponential(1000)
		if s.Pareto(10, 100000) > 100 {
			long++
		}
		require.Contains(t, []int{3, 4, 5}, int(s.Between(3, 5)))
		n := s.LogUniform(2, 1000)
		require.True(t, n >= 2 && n <= 1000)
	}
	assert.InDelta(t, 1040, float64(sum)/20000, 30)
	assert.InDelta(t, 2000, long, 400)
	assert.NotEqual(t, NewStream(7, DiskConcern).Uint64(), NewStream(7, NetworkConcern).Uint64())
}

// arrivals sends 1,000 messages and returns the messages that arrive, in order.
func arrivals(f NetworkFaults) (got []int, w *Network[int]) {
	var q Queue[Packet]
	w = NewNetwork[int](3, 1, NewStream(1, NetworkConcern), q.Push)
	w.Faults = f
	for i := range 1000 {
		w.Send(Time(i), 0, 1, 0, 100, i)
	}
	for p, ok := q.Pop(); ok; p, ok = q.Pop() {
		if d, ok := w.Arrive(p); ok && d.To == 1 {
			got = append(got, d.Message)
		}
	}
	return got, w
}

func TestNetwork_EachFault(t *testing.T) {
	slow := Delay{Shape: Exponential, Min: 1, Mean: 50, Max: 1000}
	for _, row := range []struct {
		fault  string
		faults NetworkFaults
		check  func(got []int, w *Network[int]) bool
	}{
		{"none", NetworkFaults{}, func(got []int, w *Network[int]) bool { return len(got) == 1000 && slices.IsSorted(got) }},
		{"loss", NetworkFaults{Loss: 300000}, func(got []int, w *Network[int]) bool { return w.Lost > 200 && len(got) == 1000-w.Lost }},
		{"bursts", NetworkFaults{BurstBegin: 10000, BurstEnd: 100000}, func(got []int, w *Network[int]) bool { return w.Lost > 20 && w.Lost < 500 }},
		{"duplicates", NetworkFaults{Duplicate: 100000}, func(got []int, w *Network[int]) bool { return w.Doubled > 50 && len(got) == 1000+w.Doubled }},
		{"replay", NetworkFaults{Replay: 100000, ReplayMax: 1e9}, func(got []int, w *Network[int]) bool { return w.Replayed > 50 && !slices.IsSorted(got) }},
		{"reordering", NetworkFaults{Delay: slow}, func(got []int, w *Network[int]) bool { return len(got) == 1000 && !slices.IsSorted(got) }},
		{"order in FIFO mode", NetworkFaults{Delay: slow, FIFO: true}, func(got []int, w *Network[int]) bool { return len(got) == 1000 && slices.IsSorted(got) }},
		{"misdelivery", NetworkFaults{Misdeliver: 100000}, func(got []int, w *Network[int]) bool { return w.Misdelivered > 50 && len(got) == 1000-w.Misdelivered }},
		{"corruption", NetworkFaults{Corrupt: 100000}, func(got []int, w *Network[int]) bool { return w.Corrupted > 50 }},
		{"bounded queues", NetworkFaults{Delay: slow, Capacity: 5}, func(got []int, w *Network[int]) bool { return w.Evicted > 100 && len(got) == 1000-w.Evicted }},
	} {
		got, w := arrivals(row.faults)
		assert.True(t, row.check(got, w), "%s: %d arrived of %+v", row.fault, len(got), w)
		assert.Zero(t, w.Under())
	}
}

func TestNetwork_RemovingOneFaultMovesNoOther(t *testing.T) {
	all := NetworkFaults{Loss: 100000, Duplicate: 100000, Misdeliver: 100000, Corrupt: 100000}
	_, with := arrivals(all)
	all.Loss, all.Misdeliver = 0, 0
	_, without := arrivals(all)
	assert.Equal(t, with.Corrupted, without.Corrupted)
	assert.InDelta(t, with.Doubled, without.Doubled, float64(with.Lost))
}

func TestNetwork_BandwidthDelays(t *testing.T) {
	var q Queue[Packet]
	w := NewNetwork[int](2, 2, NewStream(1, NetworkConcern), q.Push)
	w.Faults.Bandwidth = 1000
	w.Send(0, 0, 1, 0, 500, 1)
	w.Send(0, 0, 1, 0, 500, 2)
	w.Send(0, 0, 1, 1, 1, 3) // another lane does not wait
	var order []int
	for p, ok := q.Pop(); ok; p, ok = q.Pop() {
		d, _ := w.Arrive(p)
		order = append(order, d.Message)
	}
	assert.Equal(t, []int{3, 1, 2}, order)
	assert.Equal(t, Time(1e9), q.Now())
}

func TestNetwork_ABrokenConnectionLosesWhatIsInFlight(t *testing.T) {
	var q Queue[Packet]
	w := NewNetwork[int](2, 3, NewStream(1, NetworkConcern), q.Push)
	w.Faults.Delay = Delay{Min: 10, Mean: 10}
	for lane := range 3 {
		w.Send(0, 0, 1, lane, 100, lane)
	}
	w.Break(0, 1, 2)
	w.Send(0, 0, 1, 2, 100, 3)
	var got []int
	for p, ok := q.Pop(); ok; p, ok = q.Pop() {
		if d, arrived := w.Arrive(p); arrived {
			got = append(got, d.Message)
		}
	}
	assert.ElementsMatch(t, []int{0, 1, 3}, got)
}

func TestNetwork_CalmEndsTheFaultsWithinASet(t *testing.T) {
	var q Queue[Packet]
	w := NewNetwork[int](3, 2, NewStream(1, NetworkConcern), q.Push)
	w.Faults = NetworkFaults{Loss: Million, FIFO: true}
	w.Clog(0, 2, 1e9)
	w.Links.Bridge(1)
	w.Calm(0b101, NetworkFaults{Delay: Delay{Shape: Uniform, Mean: 10}, FIFO: true})
	for from := range 3 {
		for to := range 3 {
			w.Send(0, from, to, 1, 10, from*10+to)
		}
	}
	var got []int
	for p, ok := q.Pop(); ok; p, ok = q.Pop() {
		d, ok := w.Arrive(p)
		require.True(t, ok)
		got = append(got, d.Message)
	}
	assert.ElementsMatch(t, []int{0, 2, 20, 22}, got)
	assert.LessOrEqual(t, q.Now(), Time(20))
}

// up lists the links that are up. "01" means the link from 0 to 1.
func up(l *Links) (s []string) {
	for a := range l.n {
		for b := range l.n {
			if a != b && l.Up(a, b) {
				s = append(s, string(rune('0'+a))+string(rune('0'+b)))
			}
		}
	}
	return s
}

func TestLinks_NamedTopologies(t *testing.T) {
	for _, row := range []struct {
		name string
		cut  func(l *Links)
		want []string
	}{
		{"one node is the bridge", func(l *Links) { l.Bridge(1) }, []string{"01", "10", "12", "13", "21", "31"}},
		{"constrained election", func(l *Links) { l.ConstrainedElection(0, 1) }, []string{"12", "13", "21", "31"}},
		{"a chain", func(l *Links) { l.Chain([]int{0, 1, 2, 3}) }, []string{"01", "10", "12", "21", "23", "32"}},
		{"the leader behind one bridge", func(l *Links) { l.BehindBridge(0, 1) },
			[]string{"01", "10", "12", "13", "21", "23", "31", "32"}},
		{"a side that cannot send", func(l *Links) { l.Split(1, Outward) },
			[]string{"10", "12", "13", "20", "21", "23", "30", "31", "32"}},
		{"a side that cannot hear", func(l *Links) { l.Split(1, Inward) },
			[]string{"01", "02", "03", "12", "13", "21", "23", "31", "32"}},
		{"two sides", func(l *Links) { l.Split(3, BothWays) }, []string{"01", "10", "23", "32"}},
	} {
		l := NewLinks(4)
		row.cut(l)
		assert.Equal(t, row.want, up(l), row.name)
		l.Heal(Partitions)
		assert.Len(t, up(l), 12)
	}
	l := NewLinks(4)
	l.Bridge(1)
	l.MendAmong(0b1101)
	assert.Equal(t, uint64(0b1101), l.Reach(0)&0b1101)
}

func TestClock_DriftsStopsAndNeverFalls(t *testing.T) {
	var c Clock
	assert.Equal(t, Time(100), c.Local(100))
	c.SetDrift(100, 100_000)
	assert.Equal(t, Time(210), c.Local(200))
	at := c.Shows(321, 200)
	assert.GreaterOrEqual(t, c.Local(at), Time(321))
	assert.Less(t, c.Local(at-2), Time(321))
	c.Stop(300)
	assert.Equal(t, c.Local(300), c.Local(900))
	assert.Equal(t, Never, c.Shows(1000, 900))
	c.Resume(900)
	for then, showed := range map[Time]Time{50: 50, 100: 100, 200: 210, 300: 320, 600: 320, 900: 320, 1000: 430} {
		assert.Equal(t, showed, c.Showed(then), "at %d", then)
	}
	assert.Equal(t, c.Local(900), Time(320))
	before := c.Wall(900)
	c.Jump(-1000)
	assert.Equal(t, before-1000, c.Wall(900))
	assert.Equal(t, c.Local(900), Time(320), "a jump of the wall clock moves nothing else")
}

func TestOutages_EachKindHasItsOwnStream(t *testing.T) {
	all, one := OutageFaults{}, OutageFaults{}
	for k := Crash; k <= Slow; k++ {
		all.Every[k], all.For[k] = 1000, 100
	}
	one.Every[PowerCut], one.For[PowerCut] = 1000, 100
	sources := NewOutages(3, 5, all)
	require.Len(t, sources, 6)
	alone := NewOutages(3, 5, one)[0]
	assert.Equal(t, "power cut", alone.Kind.String())
	for range 100 {
		assert.Equal(t, sources[PowerCut].Wait(), alone.Wait())
		assert.Equal(t, sources[PowerCut].Next(), alone.Next())
	}
}

// Sets of nodes are bits of a word, so they limit the number of nodes. But a network whose links are never cut needs no sets.
func TestNetwork_WithoutCutsCarriesMoreNodesThanASetHolds(t *testing.T) {
	const n = NodesMax + 37
	var arrivals []Packet
	w := NewNetwork[int](n, 1, NewStream(1, NetworkConcern), func(_ Time, p Packet) { arrivals = append(arrivals, p) })
	for from := range n {
		for to := range n {
			w.Send(0, from, to, 0, 1, from*n+to)
		}
	}
	for _, p := range arrivals {
		d, ok := w.Arrive(p)
		require.True(t, ok)
		require.Equal(t, d.Message, d.From*n+d.To)
	}
	assert.Len(t, arrivals, n*n)
}
