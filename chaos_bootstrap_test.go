package raft

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBootstrap_SurvivesWipesBeforeTheFirstTerm empties disks of members other than the bootstrapper while
// the cluster is being bootstrapped, beside loss, duplicates, reordering and crashes. Once the faults end
// and nobody is in term 1 yet, the bootstrap is redone and ends; where somebody is, at most one
// cluster has ever decided anything (the harness checks the content of every decided entry).
func TestBootstrap_SurvivesWipesBeforeTheFirstTerm(t *testing.T) {
	bootstrapped := 0
	for seed := range uint64(seedsOfThisRun()) {
		w := newWorld(t, seed, []NodeID{"a", "b", "c"}[:2+seed%2]...)
		w.startAll()
		for range 20 + w.rng.IntN(300) {
			w.disturb()
			m := w.members[w.order[w.rng.IntN(len(w.order))]]
			if m.id != "a" && w.rng.IntN(20) == 0 && w.inTermZero() {
				m.wipe()
			}
		}
		w.heal()
		w.wire = nil // what was acknowledged by a disk that is gone arrives no more
		before := w.inTermZero()
		w.run(10 * time.Second)
		if before {
			bootstrapped++
			require.NotNil(t, w.leader(), "seed %d\n%s", seed, w)
		}
	}
	require.NotZero(t, bootstrapped)
}

// wipe empties the disk: another incarnation comes back.
func (m *member) wipe() {
	m.queue, m.core = nil, nil
	m.disk = simDisk{incarnation: m.disk.incarnation + 1000}
	m.start()
}

// inTermZero reports whether no member has a term, in memory or on the disk.
func (w *world) inTermZero() bool {
	for _, m := range w.members {
		if m.disk.hard.Term > 0 || m.core != nil && m.core.Leadership().Term > 0 {
			return false
		}
	}
	return true
}

// TestCore_IsDeterministic: the same events give the same outputs, byte for byte.
func TestCore_IsDeterministic(t *testing.T) {
	for seed := range uint64(10) {
		require.Equal(t, chaosTrace(t, seed), chaosTrace(t, seed), "seed %d", seed)
	}
}

// chaosTrace returns a digest of every output of a chaos run.
func chaosTrace(t *testing.T, seed uint64) string {
	digest, outputs := sha256.New(), 0
	w := chaosWorld(t, seed)
	w.trace = func(id NodeID, out Output) {
		line, err := json.Marshal(out)
		require.NoError(t, err)
		fmt.Fprintf(digest, "%s %s\n", id, line)
		outputs++
	}
	for range 1500 {
		w.disturb()
	}
	return fmt.Sprintf("%d outputs, digest %x", outputs, digest.Sum(nil))
}

// TestBootstrap_WipesNeverMakeTwoClusters empties any disks at any time, the bootstrapper's too, but never the
// last one that was not emptied. The cluster may stop for good; it never decides two things for one
// index, and no second cluster ever decides anything.
func TestBootstrap_WipesNeverMakeTwoClusters(t *testing.T) {
	for seed := range uint64(seedsOfThisRun()) {
		w := newWorld(t, seed, []NodeID{"a", "b", "c", "d"}[:2+seed%3]...)
		w.startAll()
		spared := w.order[w.rng.IntN(len(w.order))]
		for range 300 {
			w.disturb()
			if w.rng.IntN(60) == 0 {
				w.wipeSome(spared)
			}
		}
		w.heal()
		w.run(2 * time.Second)
	}
}

// wipeSome empties the disks of one member, or of all; some cannot reach the one that is spared.
func (w *world) wipeSome(spared NodeID) {
	one, all := w.order[w.rng.IntN(len(w.order))], w.rng.IntN(2) == 0
	for _, id := range w.order {
		if id == spared || id != one && !all {
			continue
		}
		w.members[id].wipe()
		away := w.rng.IntN(2) == 0
		w.cut[[2]NodeID{id, spared}], w.cut[[2]NodeID{spared, id}] = away, w.rng.IntN(2) == 0
	}
}
