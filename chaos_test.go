package raft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chaosSeeds is enough to meet every rule of the core under crashes, and quick.
var chaosSeeds = 300

func TestCore_FoundsElectsAndCommits(t *testing.T) {
	for n := 1; n <= 5; n++ {
		w := newWorld(t, uint64(n), []NodeID{"a", "b", "c", "d", "e"}[:n]...)
		w.startAll()
		w.run(2 * time.Second)
		lead := w.leader()
		require.NotNil(t, lead, "n=%d\n%s", n, w)
		ticket := lead.propose("x")
		w.settle()
		require.Equal(t, AnswerAccepted, lead.answers[ticket].Kind)
		for _, m := range w.members {
			require.EqualValues(t, 3, m.applied, "n=%d %s\n%s", n, m.id, w)
		}
	}
}

// TestCore_SurvivesChaos drives whole clusters with random loss, duplicates, reordering, partitions
// and crashes that keep any legal prefix of the unsynced writes, and checks Figure 3 after each step;
// at the end everything heals, and the cluster must serve.
func TestCore_SurvivesChaos(t *testing.T) {
	seeds := chaosSeeds
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chaosRun(t, uint64(seed)) })
	}
}

func chaosRun(t *testing.T, seed uint64) {
	ids := []NodeID{"a", "b", "c", "d", "e"}
	w := newWorld(t, seed, ids[:1+seed%5]...)
	if seed%3 == 0 {
		w.tweak = func(c *CoreConfig) { c.AppendBytesMax, c.InflightMax = 100, 2 }
	}
	w.startAll()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r, w)
		}
	}()
	if seed%4 != 0 {
		w.run(2 * time.Second)
	}
	for range 1500 {
		w.disturb()
	}
	w.heal()
	w.run(5 * time.Second)
	lead := w.leader()
	require.NotNil(t, lead, "seed %d: no leader\n%s", seed, w)
	ticket := lead.propose("last")
	w.run(time.Second)
	require.Equal(t, AnswerAccepted, lead.answers[ticket].Kind)
	for _, m := range w.members {
		require.Equal(t, lead.applied, m.applied, "seed %d\n%s", seed, w)
		require.GreaterOrEqual(t, m.applied, lead.answers[ticket].ID.Index)
	}
}

// disturb does one random thing.
func (w *world) disturb() {
	m := w.members[w.order[w.rng.IntN(len(w.order))]]
	switch k := w.rng.IntN(100); {
	case k < 45 && len(w.wire) > 0:
		w.deliver(w.rng.IntN(min(len(w.wire), 1+w.rng.IntN(20))))
	case k < 50 && len(w.wire) > 0:
		w.wire = slices.Delete(w.wire, 0, 1)
	case k < 53 && len(w.wire) > 0:
		w.wire = append(w.wire, w.wire[w.rng.IntN(len(w.wire))])
	case k < 70:
		m.persist(1 + w.rng.IntN(3))
	case k < 80:
		w.now += Time(w.rng.IntN(40)) * Time(time.Millisecond)
		for _, id := range w.order {
			if x := w.members[id]; x.core != nil && x.wakeAt <= w.now {
				x.step()
			}
		}
	case k < 88:
		if m.core != nil {
			m.propose(fmt.Sprintf("%d", w.rng.IntN(1000)))
			m.w.tickets++
			m.step(ReadRequested{m.w.tickets})
		}
	case k < 90:
		if m.core != nil {
			m.crash()
		}
	case k < 95:
		if m.core == nil {
			m.start()
		}
	case k < 97:
		other := w.order[w.rng.IntN(len(w.order))]
		w.cut[[2]NodeID{m.id, other}] = w.rng.IntN(2) == 0
	case k < 98:
		w.tickets++
		m.step(TransferRequested{Ticket: w.tickets})
	default:
		if m.core != nil && m.applied > 0 {
			m.step(Applied{m.tail[m.applied-1].ID()})
		}
	}
}

func (w *world) heal() {
	clear(w.cut)
	for _, id := range w.order {
		if w.members[id].core == nil {
			w.members[id].start()
		}
	}
}
