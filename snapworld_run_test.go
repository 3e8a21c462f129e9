package raft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settle does everything that can be done at this time, and reports whether there was anything.
func (w *snapWorld) settle() (busy bool) {
	for len(w.wire) > 0 {
		w.deliver(0)
		busy = true
	}
	for _, m := range w.members {
		if m.core == nil {
			continue
		}
		if len(m.events) > 0 {
			m.flush()
			busy = true
		}
		if len(m.queue) > 0 {
			m.persist(len(m.queue))
			busy = true
		}
		for len(m.ops) > 0 {
			m.applyNext()
			busy = true
		}
		if m.frozen != nil {
			m.finishTake(false)
			busy = true
		}
		for _, other := range w.members {
			if _, ok := m.streams[other.peer.ID]; ok && other.want != nil {
				m.stream(other, false)
			}
		}
	}
	return busy
}

// heal ends all faults, and lets the cluster go on for a while under load.
func (w *snapWorld) heal() {
	clear(w.cut)
	w.away, w.late = nil, false
	for _, m := range w.members {
		if m.core == nil {
			m.start()
		}
		for _, other := range w.members {
			if m != other {
				m.step(w.connected(other, ProtocolSnapshots))
			}
		}
	}
	proposeAt := w.now
	for end := w.now + Time(20*time.Second); w.now < end; w.passTime() {
		for n := 0; w.settle(); n++ {
			require.Less(w.t, n, 10_000, "the cluster settles")
		}
		for _, m := range w.members { // streams whose receiver has forgotten them end by themselves
			for _, other := range w.members {
				if file, ok := m.streams[other.peer.ID]; ok && w.rng.IntN(100) == 0 {
					delete(m.streams, other.peer.ID)
					m.step(SnapshotSent{To: other.peer, File: file, Err: StreamUnknown})
				}
			}
		}
		if w.now >= proposeAt && w.now < end-Time(5*time.Second) {
			proposeAt = w.now + Time(100*time.Millisecond)
			for _, m := range w.members {
				w.propose(m)
			}
		}
	}
}

// Whatever happens between any two effects, no committed entry is lost, no state differs, and in the end all members
// agree and their logs are short.
func TestSnapWorld(t *testing.T) {
	seeds, counts, inRandom := uint64(25), snapCounts{}, snapCounts{}
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		w := newSnapWorld(t, seed)
		func() {
			defer func() {
				if e := recover(); e != nil {
					t.Logf("seed %d", seed)
					panic(e)
				}
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			for _, m := range w.members {
				m.start()
			}
			for range 8000 {
				w.chance()
			}
			random := w.counts
			w.heal()
			inRandom.installed += random.installed
			inRandom.taken += random.taken
			inRandom.compacted += random.compacted
			inRandom.synced += random.synced
			inRandom.restored += random.restored
			inRandom.held += random.held
			inRandom.late += random.late
			for _, m := range w.members {
				status := m.core.Status()
				require.Equal(t, w.members[0].fsm, m.fsm, "seed %d: all members agree", seed)
				require.Equal(t, status.Last.Index, status.Applied, "seed %d", seed)
				require.Empty(t, m.asked, "seed %d: every request is answered", seed)
				kept := status.Last.Index - status.Base.Index
				require.LessOrEqual(t, int(kept), 3*w.cfg.SnapshotEntries+(w.cfg.SnapshotTailBytes+w.cfg.SnapshotHoldBytes)/RecordOverheadBytes+8,
					"seed %d: the log is short", seed)
			}
		}()
		counts.taken += w.counts.taken
		counts.compacted += w.counts.compacted
		counts.installed += w.counts.installed
		counts.restored += w.counts.restored
		counts.synced += w.counts.synced
		counts.held += w.counts.held
		counts.late += w.counts.late
		counts.answered += w.counts.answered
	}
	t.Logf("%+v, before the faults ended %+v", counts, inRandom)
	for what, n := range map[string]int{
		"taken": counts.taken, "compacted": counts.compacted, "installed": counts.installed, "restored": counts.restored,
		"synced": counts.synced, "held": counts.held,
		"answered": counts.answered,
	} {
		require.Positive(t, n, "nothing was %s", what)
	}
}
