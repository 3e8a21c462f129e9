package raft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// familyOfLogs is what leaders of several terms may have left behind: each extends a prefix of an earlier
// log, so that Log Matching (Figure 3) holds.
func familyOfLogs(rng *rand.Rand, members int) [][]Term {
	logs := [][]Term{{}}
	for term := Term(1); term <= Term(3+rng.IntN(8)); term++ {
		base := logs[rng.IntN(len(logs))]
		log := append([]Term{}, base[:rng.IntN(len(base)+1)]...)
		for range 1 + rng.IntN(5) {
			log = append(log, term)
		}
		logs = append(logs, log)
	}
	family := make([][]Term, members)
	for i := range family {
		log := logs[rng.IntN(len(logs))]
		family[i] = log[:rng.IntN(len(log)+1)]
	}
	return family
}

// differingTerms counts the terms that either log holds behind the last entry that they share.
func differingTerms(a, b []Term) int {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	terms := map[Term]bool{}
	for _, log := range [][]Term{a[same:], b[same:]} {
		for _, term := range log {
			terms[term] = true
		}
	}
	return len(terms)
}

// "it is possible to ... [need] one AppendEntries RPC ... for each term with conflicting entries, rather
// than one RPC per entry" (§5.3): a leader finds the place where the logs agree with at most one probe
// for each term in which they differ, and one more.
func TestProbe_AtMostOneForEachDifferingTerm(t *testing.T) {
	for seed := range uint64(500) {
		w := newWorld(t, seed, "1", "2", "3", "4", "5")
		s := &scenario{t: t, w: w, muted: true}
		logs := familyOfLogs(w.rng, 5)
		for i, id := range w.order {
			w.members[id].disk.log = s.entriesOf(logs[i])
			w.members[id].disk.hard.Term = 20
		}
		best := 0
		for i := range logs {
			if upToDate(lastOf(logs[i]), lastOf(logs[best])) {
				best = i
			}
		}
		w.startAll()
		conflicts := map[NodeID]int{}
		w.trace = func(id NodeID, out Output) {
			for _, n := range out.Trace {
				if n.Kind == TraceConflict {
					conflicts[id]++
				}
			}
		}
		w.members[w.order[best]].timeout()
		w.settle()
		for i, id := range w.order {
			require.LessOrEqual(t, conflicts[id], differingTerms(logs[i], logs[best])+1, "seed %d: %v to %v", seed, logs[best], logs[i])
			require.EqualValues(t, len(logs[best])+2, w.members[id].applied)
		}
	}
}

func lastOf(log []Term) EntryID {
	if len(log) == 0 {
		return EntryID{}
	}
	return EntryID{log[len(log)-1], Index(len(log))}
}
