package raft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	testPatience = Time(50)
	testSilence  = Time(150)
)

// replicatingProgress returns a progress that matches up to 5 and has appends up to 6, 8 and 9 in flight.
func replicatingProgress() *progress {
	p := &progress{next: 6}
	p.sentProbe(0)
	p.acknowledged(5, 0)
	p.sentAppend(6, 10, 0)
	p.sentAppend(8, 20, 0)
	p.sentAppend(9, 30, 0)
	return p
}

// probingProgress returns a progress with a probe in flight whose entries begin at next.
func probingProgress(match, next Index) *progress {
	p := &progress{match: match, next: next}
	p.sentProbe(0)
	return p
}

func TestProgress_Transitions(t *testing.T) {
	type want struct {
		state       progressState
		match, next Index
		inflight    int
		bytes       int
		probing     bool
		repeated    bool
	}
	for _, row := range []struct {
		rule string
		p    *progress
		do   func(p *progress)
		want want
	}{
		{"probe: an acknowledgement starts replication", probingProgress(0, 6), func(p *progress) { p.acknowledged(5, 1) },
			want{replicate, 5, 6, 0, 0, false, false}},
		{"probe: an acknowledgement beyond the probe starts it, too", probingProgress(0, 6), func(p *progress) { p.acknowledged(9, 1) },
			want{replicate, 9, 10, 0, 0, false, false}},
		{"probe: an acknowledgement below the probe proves nothing in between", probingProgress(0, 6), func(p *progress) { p.acknowledged(3, 1) },
			want{probe, 3, 6, 0, 0, true, false}},
		{"probe: match never falls", probingProgress(4, 6), func(p *progress) { p.acknowledged(2, 1) },
			want{probe, 4, 6, 0, 0, true, false}},
		{"probe: a conflict goes back", probingProgress(0, 6), func(p *progress) { p.conflicted(5, 3, 0) },
			want{probe, 0, 4, 0, 0, false, false}},
		{"probe: a conflict goes back at least one entry", probingProgress(0, 6), func(p *progress) { p.conflicted(5, 5, 0) },
			want{probe, 0, 5, 0, 0, false, false}},
		{"probe: a conflict never goes back below the match", probingProgress(4, 6), func(p *progress) { p.conflicted(5, 1, 0) },
			want{probe, 4, 5, 0, 0, false, false}},
		{"probe: a conflict at another index is an old one", probingProgress(0, 6), func(p *progress) { p.conflicted(7, 3, 0) },
			want{probe, 0, 6, 0, 0, true, false}},
		{"probe: repeated after a while, without entries", probingProgress(0, 6), func(p *progress) { p.retransmit(50, testPatience, testSilence, 0) },
			want{probe, 0, 6, 0, 0, false, true}},
		{"probe: not repeated before", probingProgress(0, 6), func(p *progress) { p.retransmit(49, testPatience, testSilence, 0) },
			want{probe, 0, 6, 0, 0, true, false}},
		{"replicate: an answer frees the window", replicatingProgress(), func(p *progress) { p.acknowledged(8, 1) },
			want{replicate, 8, 10, 1, 30, false, false}},
		{"replicate: an acknowledgement within an append frees nothing", replicatingProgress(), func(p *progress) { p.acknowledged(7, 1) },
			want{replicate, 7, 10, 2, 50, false, false}},
		{"replicate: an old answer changes nothing", replicatingProgress(), func(p *progress) { p.acknowledged(4, 1) },
			want{replicate, 5, 10, 3, 60, false, false}},
		{"replicate: an acknowledgement beyond the last append moves next", replicatingProgress(), func(p *progress) { p.acknowledged(12, 1) },
			want{replicate, 12, 13, 0, 0, false, false}},
		{"replicate: a conflict leads back to probing", replicatingProgress(), func(p *progress) { p.conflicted(8, 6, 0) },
			want{probe, 5, 7, 0, 0, false, false}},
		{"replicate: a conflict at the match is an old one", replicatingProgress(), func(p *progress) { p.conflicted(5, 2, 0) },
			want{replicate, 5, 10, 3, 60, false, false}},
		{"replicate: after silence the last append is repeated without entries", replicatingProgress(), func(p *progress) { p.retransmit(150, testPatience, testSilence, 0) },
			want{probe, 5, 10, 0, 0, false, true}},
		{"replicate: an answer below the acknowledged index shows a restart", replicatingProgress(), func(p *progress) { p.beats.askedMatch = 5; p.forgot(RPCID{}, 0, 0) },
			want{probe, 5, 6, 0, 0, false, false}},
		{"replicate: an answer to an earlier heartbeat says nothing", replicatingProgress(), func(p *progress) { p.beats.askedMatch = 3; p.forgot(RPCID{}, 3, 0) },
			want{replicate, 5, 10, 3, 60, false, false}},
		{"replicate: after a short silence it is not repeated", replicatingProgress(), func(p *progress) { p.retransmit(149, testPatience, testSilence, 0) },
			want{replicate, 5, 10, 3, 60, false, false}},
		{"replicate: with nothing in flight, nothing is overdue", func() *progress { p := replicatingProgress(); p.acknowledged(9, 1); return p }(),
			func(p *progress) { p.retransmit(1000, testPatience, testSilence, 0) },
			want{replicate, 9, 10, 0, 0, false, false}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.do(row.p)
			p := row.p
			require.Equal(t, row.want, want{p.state, p.match, p.next, len(p.flow.inflight), p.flow.bytes, p.probe.out, p.probe.bare})
		})
	}
}

// The duration of an acknowledgement is measured from the first time that the append was sent, even if it was repeated. The
// time in which the follower lacked the append, or was silent, does not count.
func TestProgress_HowLongAcknowledgementsTake(t *testing.T) {
	probed := func() *progress { return probingProgress(0, 6) }
	repeat := func(p *progress, at Time) {
		p.retransmit(at, testPatience, testSilence, 0)
		p.sentProbe(at)
	}
	for _, row := range []struct {
		rule string
		p    *progress
		do   func(p *progress)
		want Time
	}{
		{"a probe", probed(), func(p *progress) { p.acknowledged(5, 30) }, 30},
		{"a probe that was repeated", probed(), func(p *progress) {
			repeat(p, 50)
			repeat(p, 100)
			p.acknowledged(5, 130)
		}, 130},
		{"the next probe, after a conflict", probed(), func(p *progress) {
			repeat(p, 50)
			p.conflicted(5, 3, 0)
			p.sentProbe(60)
			p.acknowledged(3, 100)
		}, 40},
		{"a probe to a follower that was away", probed(), func(p *progress) {
			p.backAt = 900
			repeat(p, 900)
			p.acknowledged(5, 920)
		}, 20},
		{"a stream", replicatingProgress(), func(p *progress) { p.acknowledged(6, 30) }, 30},
		{"a stream to a follower that was away", replicatingProgress(), func(p *progress) {
			p.backAt = 900
			p.acknowledged(6, 920)
		}, 20},
		{"a stream that was silent", replicatingProgress(), func(p *progress) {
			repeat(p, 150)
			repeat(p, 200)
			p.acknowledged(6, 210)
			p.acknowledged(9, 250)
		}, 250},
		{"a stream of which something was lost", replicatingProgress(), func(p *progress) {
			repeat(p, 150)
			p.conflicted(9, 5, 0)
			p.sentProbe(160)
			p.acknowledged(9, 170)
		}, 10},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.do(row.p)
			require.Equal(t, replicate, row.p.state)
			require.Equal(t, row.want, row.p.acks.max())
		})
	}
}

func TestProgress_BreaksItsRulesLoudly(t *testing.T) {
	require.Panics(t, func() { probingProgress(0, 6).sentProbe(1) }, "one probe at a time")
	require.Panics(t, func() { probingProgress(0, 6).sentAppend(7, 1, 1) }, "no append is sent while probing")
	require.Panics(t, func() { replicatingProgress().sentAppend(5, 1, 1) }, "replication only goes forward")
}

// If the answer that measures the round trip is lost, a later round measures it.
func TestHeartbeats_ALostAnswerIsNotWaitedForForEver(t *testing.T) {
	round := func(i uint64) RPCID { return RPCID{StartCount: 1, Counter: i} }
	h := &heartbeats{}
	h.sent(round(1), 0, 10)
	h.sent(round(2), 0, 20)
	h.answered(round(2), 25)
	require.Zero(t, h.roundTrip.max(), "it does not measure the round trip")
	h.sent(round(3), 0, 30)
	h.answered(round(3), 37)
	require.EqualValues(t, 7, h.roundTrip.max())
}

// familyOfLogs returns logs that leaders of several terms may have left. Each log extends a prefix of an earlier log, so Log
// Matching (Figure 3) holds.
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

// differingTerms counts the terms in either log after the last entry that they share.
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

// "it is possible to ... [need] one AppendEntries RPC ... for each term with conflicting entries, rather than one RPC per
// entry" (§5.3): a leader finds the place where the logs agree with at most one probe for each term in which the logs differ,
// plus one more.
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
