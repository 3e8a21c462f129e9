package raft

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bootstrapped returns a cluster that has elected a and is idle.
func bootstrapped(t *testing.T, ids ...NodeID) *world {
	w := newWorld(t, 1, ids...)
	w.startAll()
	w.run(time.Second)
	if w.leader().id != "a" {
		w.leader().transfer("a")
		w.run(time.Second)
	}
	require.Equal(t, NodeID("a"), w.leader().id)
	return w
}

// settleWithout is like settle, on a network that loses some messages.
func (w *world) settleWithout(lost func(Message) bool) {
	for busy := true; busy; {
		w.wire = slices.DeleteFunc(w.wire, lost)
		busy = len(w.wire) > 0
		if busy {
			w.deliver(0)
			continue
		}
		for _, id := range w.order {
			if m := w.members[id]; len(m.queue) > 0 && m.core != nil {
				m.persist(len(m.queue))
				busy = true
			}
		}
	}
}

// A follower restarts and has forgotten the commit index. Reads follow each other so closely that each answer of the follower
// arrives after the next round has begun.
func TestSchedule_ARestartedFollowerCatchesUpBesideReads(t *testing.T) {
	w := bootstrapped(t, "a", "b", "c")
	a, c := w.members["a"], w.members["c"]
	a.propose("x")
	w.run(100 * time.Millisecond)
	c.crash()
	c.disk.commit = 0
	c.start()
	var late []Message // answers of c
	for range 50 {
		w.now += Time(10 * time.Millisecond)
		a.step()
		a.read()
		for _, m := range late { // the next round has begun
			a.step(Received{m})
		}
		late = nil
		w.settleWithout(func(m Message) bool {
			if m.From.ID == "c" {
				late = append(late, m)
			}
			return m.From.ID == "c"
		})
	}
	require.Equal(t, a.applied, c.applied, "%s", w)
}

// runSlow lets time pass. Every write takes some time; messages arrive at once.
func (w *world) runSlow(write, d time.Duration) {
	type job struct {
		until  Time
		writes int
	}
	busy := map[NodeID]job{}
	for end := w.now + Time(d); w.now < end; {
		for len(w.wire) > 0 {
			w.deliver(0)
		}
		next := end
		for _, id := range w.order {
			m := w.members[id]
			if _, ok := busy[id]; !ok && len(m.queue) > 0 {
				busy[id] = job{w.now + Time(write), len(m.queue)} // one sync for all queued writes
			}
			next = min(next, max(m.wakeAt, w.now))
			if j, ok := busy[id]; ok {
				next = min(next, j.until)
			}
		}
		w.now = next
		for _, id := range w.order {
			m := w.members[id]
			if j, ok := busy[id]; ok && j.until <= w.now {
				delete(busy, id)
				m.persist(j.writes)
			}
			if m.wakeAt <= w.now {
				m.step()
			}
		}
	}
}

// Disks that take an election timeout for each write delay the election, but do not prevent it.
func TestSchedule_SlowDisksElect(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, seed, "a", "b", "c")
		w.startAll()
		w.runSlow(160*time.Millisecond, 10*time.Second)
		require.NotNil(t, w.leader(), "seed %d\n%s", seed, w)
		require.Len(t, w.leaders, 1, "seed %d: the leader stays", seed)
	}
}

// The leader crashes, and the links between the others delay everything for five seconds. Then the links are fast again. The
// waits have grown meanwhile, but they do not keep the cluster leaderless much longer.
func TestSchedule_OneHoldUpIsSoonOver(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, "a", "b", "c")
		w.startAll()
		w.run(time.Second)
		w.leader().crash()
		for end := w.now + Time(5*time.Second); w.now < end; {
			next := end
			for _, id := range w.order {
				m := w.members[id]
				if m.core == nil {
					continue
				}
				m.persist(len(m.queue))
				if m.wakeAt <= w.now {
					m.step()
				}
				next = min(next, m.wakeAt)
			}
			w.now = next
		}
		w.rng.Shuffle(len(w.wire), func(i, j int) { w.wire[i], w.wire[j] = w.wire[j], w.wire[i] })
		w.run(2 * time.Second)
		require.NotNil(t, w.leader(), "seed %d\n%s", seed, w)
	}
}

// A Step without events before the deadline does nothing, and does not move the deadline.
func TestSchedule_AnEarlyStepHasNothingToDo(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c")
	w.startAll()
	for range 400 {
		for _, id := range w.order {
			m := w.members[id]
			if m.wakeAt <= w.now {
				continue
			}
			out := m.core.Step(Now{Mono: w.now, Wall: int64(w.now)})
			require.True(t, out.WakeAt == m.wakeAt || out.WakeAt == w.now+idleMax, "the deadline of %s moved\n%s", id, w)
			out.WakeAt = 0
			require.Equal(t, Output{}, out, "%s\n%s", id, w)
		}
		if w.rng.IntN(20) == 0 {
			w.members[w.order[w.rng.IntN(3)]].propose("x")
		}
		w.run(time.Duration(w.rng.IntN(20)) * time.Millisecond)
	}
	require.NotNil(t, w.leader())
}

// Under load, appends replace most heartbeats. They prevent election timeouts as well.
func TestHeartbeat_AppendsKeepFollowersCalm(t *testing.T) {
	for _, pause := range []time.Duration{7, 33, 49, 51, 90, 130} {
		w := newWorld(t, 1, "a", "b", "c")
		w.startAll()
		w.run(time.Second)
		lead := w.leader()
		clear(w.sent)
		for _, m := range w.members {
			m.events = nil
		}
		for range int(3 * time.Second / (pause * time.Millisecond)) {
			lead.propose("x")
			w.run(pause * time.Millisecond)
		}
		require.Equal(t, lead, w.leader())
		for _, m := range w.members {
			for _, n := range m.events {
				require.NotEqual(t, TraceTimeout, n.Kind, "%s, a write every %v ms", m.id, int(pause))
			}
		}
	}
}
