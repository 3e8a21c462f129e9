package raft_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

var errPowerCut = errors.New("the power was cut")

// cutStore cuts the power of its host at some writes. The cut comes before the write is durable, or after that but before any
// other part learns of it.
type cutStore struct {
	*storage.Memory
	rng       *rand.Rand
	discarded *int
}

func (s *cutStore) DiscardSnapshot(file raft.SnapshotID) error {
	*s.discarded++
	return s.Memory.DiscardSnapshot(file)
}

func (s *cutStore) Write(w raft.StorageWrite) error {
	if s.rng.IntN(25) == 0 {
		return errPowerCut
	}
	if err := s.Memory.Write(w); err != nil || s.rng.IntN(25) > 0 {
		return err
	}
	return errPowerCut
}

// loopWorld holds three hosts of the example, on a network that loses and reorders messages.
type loopWorld struct {
	t         *testing.T
	rng       *rand.Rand
	now       raft.Now
	members   raft.Configuration
	hosts     []*host
	disks     []*storage.Memory
	network   []raft.Message
	away      int      // index of the host that is cut off; none if out of range
	applied   []string // longest state of any host so far
	cuts      int
	installed int // snapshots received from a leader
	discarded int // discarded snapshot files
}

func (w *loopWorld) start(i int, members *raft.Configuration) {
	for {
		w.hosts[i] = &host{
			store:  &cutStore{w.disks[i], w.rng, &w.discarded},
			send:   func(m raft.Message) { w.network = append(w.network, m) },
			answer: func(raft.Answer) {},
		}
		err := w.hosts[i].start(w.now, w.members.Members[i], members)
		if err == nil {
			w.hosts[i].restored = 0 // from its own snapshot
			return
		}
		require.ErrorIs(w.t, err, errPowerCut)
		w.disks[i] = w.disks[i].Reopen()
	}
}

func (w *loopWorld) step(i int, events ...raft.Event) { w.ran(i, w.hosts[i].step(w.now, events...)) }

// ran restarts a host whose power was cut.
func (w *loopWorld) ran(i int, err error) {
	if w.hosts[i].restored != 0 {
		w.installed, w.hosts[i].restored = w.installed+1, 0
	}
	if err != nil {
		require.ErrorIs(w.t, err, errPowerCut)
		w.cuts++
		w.disks[i] = w.disks[i].Reopen()
		w.start(i, nil)
	}
}

func (w *loopWorld) act(calm bool) {
	if n := len(w.network); n > 0 && w.rng.IntN(4) > 0 {
		k := 0
		if !calm {
			k = w.rng.IntN(n)
		}
		m := w.network[k]
		w.network = append(w.network[:k], w.network[k+1:]...)
		to, from := int(m.To.ID[0]-'a'), int(m.From.ID[0]-'a')
		if calm || to != w.away && from != w.away && w.rng.IntN(10) > 0 {
			w.ran(to, w.hosts[to].receive(w.now, m))
		}
		return
	}
	w.now.Mono += 5 * ms
	for i, h := range w.hosts {
		if w.now.Mono >= h.wakeAt {
			w.step(i)
		}
	}
}

// check compares the state of every host with the longest state so far: the same commands in the same order.
func (w *loopWorld) check() {
	for _, h := range w.hosts {
		n := min(len(h.state), len(w.applied))
		require.True(w.t, slices.Equal(w.applied[:n], h.state[:n]), "%q was applied, and then %q", w.applied, h.state)
		if len(h.state) > n {
			w.applied = slices.Clone(h.state)
		}
	}
}

// The loop of the example keeps everything that it acknowledged, wherever the power is cut. It also keeps the order: all
// hosts apply the same commands, or adopt a snapshot of them. It does not need any of the events that it leaves out.
func TestExampleLoop_SurvivesPowerCutsAndLoss(t *testing.T) {
	discarded := 0
	for seed := range uint64(8) {
		w := &loopWorld{
			t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: raft.Now{Mono: 1}, hosts: make([]*host, 3),
			members: raft.NewConfiguration(membersNamed("abc")),
		}
		for i := range w.hosts {
			w.disks = append(w.disks, storage.NewMemory())
			w.start(i, &w.members)
		}
		for n := range 6000 {
			if n%500 == 0 {
				w.away = w.rng.IntN(6)
			}
			w.act(n > 5000)
			if i := w.rng.IntN(3); n%20 == 0 && n < 5000 {
				command := []byte(fmt.Sprintf("%d", n))
				w.step(i, raft.Proposed{Proposals: []raft.Proposal{raft.NewProposal(raft.RequestID(n+1), raft.EntryCommand, command)}})
			}
			w.check()
		}
		assert.Positive(t, w.cuts, "seed %d", seed)
		assert.Positive(t, w.installed, "seed %d", seed)
		discarded += w.discarded
		assert.Greater(t, len(w.applied), 20, "seed %d", seed)
		for _, h := range w.hosts {
			assert.Equal(t, w.applied, h.state, "seed %d: without faults all hosts have the whole state", seed)
			assert.Positive(t, h.core.Status().Snapshot.Index, "seed %d: it has a snapshot", seed)
			assert.Less(t, h.store.LogBytes(), int64(40*raft.RecordOverheadBytes), "seed %d: its log is short", seed)
		}
	}
	assert.Positive(t, discarded)
}
