package rafttest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// recorder is a testing.TB that fails without failing the test that runs it.
type recorder struct {
	testing.TB
	failed, logged string
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "TestShelf/under faults?" }
func (r *recorder) Logf(format string, args ...any) {
	r.logged += fmt.Sprintf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// simulateRecorded calls Simulate with a recorder.
func simulateRecorded(seeds int, newFSM func() raft.FSM, workload func(*rand.Rand) []byte) *recorder {
	r := &recorder{}
	var wg sync.WaitGroup
	wg.Go(func() { Simulate(r, seeds, newFSM, workload) })
	wg.Wait()
	return r
}

// durableShelf is a raft.DurableFSM.
type durableShelf struct{ shelf }

func (*durableShelf) Applied() (raft.EntryID, error) { return raft.EntryID{}, nil }
func (*durableShelf) Sync() error                    { return nil }

func TestSimulate_RefusesWhatItCannotSimulate(t *testing.T) {
	durable := func() raft.FSM { return &durableShelf{} }
	for _, row := range []struct {
		what   string
		seeds  int
		newFSM func() raft.FSM
		want   string
	}{
		{"no seeds", 0, func() raft.FSM { return newShelf("") }, "at least one seed"},
		{"no FSM", 1, nil, "needs both"},
		{"nil for an FSM", 1, func() raft.FSM { return nil }, "newFSM returned an error: it returned nil"},
		{"a DurableFSM", 1, durable, "does not support a raft.DurableFSM, and *rafttest.durableShelf is one"},
	} {
		t.Run(row.what, func(t *testing.T) {
			assert.Contains(t, simulateRecorded(row.seeds, row.newFSM, shelfCommand).failed, row.want)
		})
	}
	large := func(*rand.Rand) []byte { return make([]byte, 1<<20) }
	assert.Contains(t, simulateRecorded(1, func() raft.FSM { return newShelf("") }, large).failed, "a command of 1048576 bytes; the limit is 1048564")
}

// The message of a failure names the command that runs the seed again. That run logs the events of the seed.
func TestSimulate_AFailureRunsAgain(t *testing.T) {
	newFSM := func() raft.FSM { return newShelf("a count that is not in the snapshot") }
	failed := simulateRecorded(20, newFSM, shelfCommand).failed
	line := failed[strings.LastIndex(failed, "\n")+1:]
	seed, command, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), seedVariable+"="), " ")
	assert.Equal(t, `go test -run '^TestShelf$/^under faults\?$' github.com/coxswain/raft/rafttest`, command)
	assert.Contains(t, failed, "The smallest run that was found to fail like this:\n")

	t.Setenv(seedVariable, seed)
	again := simulateRecorded(1, newFSM, shelfCommand)
	assert.Contains(t, again.failed, "seed "+seed+" breaks rule A1")
	for _, happened := range []string{"freezes its state", "applies", "in a batch of"} {
		assert.Contains(t, again.logged, happened)
	}
	for _, row := range []struct{ seed, want string }{
		{"x", `"x" is not a seed`},
		{strings.Replace(seed, "fsm", "mine", 1), "seeds of Simulate look like"},
		{"f1.fsm.2a", "of format 1"},
		{strings.Replace(seed, "fsm", "swarm", 1), "is a seed of the simulator itself; seeds of Simulate look like f10.fsm.2a"},
	} {
		t.Setenv(seedVariable, row.seed)
		assert.Contains(t, simulateRecorded(1, newFSM, shelfCommand).failed, row.want)
	}
}

func TestSimulate_NamesThePackageOfTheTest(t *testing.T) {
	for function, want := range map[string]string{
		"example.com/a/b.TestX":            "example.com/a/b",
		"example.com/a/b_test.TestX.func1": "example.com/a/b",
		"example.com/a.v2/b.(*T).TestX":    "example.com/a.v2/b",
		"main.TestX":                       "main",
	} {
		assert.Equal(t, want, packageOf(function))
	}
}

func TestSimulate_APanicIsShownWithItsStack(t *testing.T) {
	s := simulating(func() raft.FSM {
		return &variant{apply: func(*variant, []raft.Entry, [][]byte) error { panic("no shelf") }}
	}, shelfCommand)
	_, failed, _ := s.run(1)
	require.NotNil(t, failed)
	assert.Equal(t, "A5", failed.failure.Rule)
	assert.Contains(t, failed.String(), "panicked: no shelf\n")
	assert.Contains(t, failed.String(), "simulate_failures_test.go")
}

func TestSimulate_AnEndedGoroutineIsShown(t *testing.T) {
	for _, v := range []variant{
		{apply: func(*variant, []raft.Entry, [][]byte) error { runtime.Goexit(); return nil }},
		{snapshot: func(*variant) (raft.FSMSnapshot, error) {
			return writes(func(io.Writer) error { runtime.Goexit(); return nil }), nil
		}},
	} {
		s := simulating(func() raft.FSM {
			fresh := v
			fresh.items = map[string][]byte{}
			return &fresh
		}, shelfCommand)
		_, failed, _ := s.run(1)
		require.NotNil(t, failed)
		assert.Contains(t, failed.String(), "called runtime.Goexit")
	}
}

// lockedShelf holds a lock from Snapshot until Close, so that Apply waits until the snapshot is written.
type lockedShelf struct {
	shelf
	mu sync.Mutex
}

func (l *lockedShelf) Apply(batch []raft.Entry, results [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shelf.Apply(batch, results)
}

func (l *lockedShelf) Snapshot() (raft.FSMSnapshot, error) {
	l.mu.Lock()
	frozen, err := l.shelf.Snapshot()
	return &unlocks{frozen, &l.mu}, err
}

type unlocks struct {
	raft.FSMSnapshot
	mu *sync.Mutex
}

func (u *unlocks) Close() error {
	u.mu.Unlock()
	return nil
}

func TestSimulate_ACallThatDoesNotReturnIsShown(t *testing.T) {
	s := simulating(func() raft.FSM { return &lockedShelf{shelf: shelf{items: map[string][]byte{}}} }, shelfCommand)
	s.callMax = 200 * time.Millisecond
	_, failed, _ := s.run(1)
	require.NotNil(t, failed)
	assert.True(t, failed.lost)
	assert.Contains(t, failed.String(), "has not returned for 200ms")
	assert.Contains(t, failed.String(), "lockedShelf).Apply")
}

// Many small writes are allowed; endless writes are an error.
func TestSimulate_WritesOfAnySize(t *testing.T) {
	for _, row := range []struct {
		what  string
		write func(w io.Writer) error
		want  string
	}{
		{"bytes", func(w io.Writer) error {
			for range 20_000 {
				if _, err := w.Write([]byte{' '}); err != nil {
					return err
				}
			}
			return nil
		}, ""},
		{"no end", func(w io.Writer) error {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		}, "may hold: the limit is 67108864 bytes"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := simulating(func() raft.FSM {
				return &variant{shelf: shelf{items: map[string][]byte{}}, snapshot: func(v *variant) (raft.FSMSnapshot, error) {
					frozen, err := v.shelf.Snapshot()
					return writes(func(w io.Writer) error {
						return errors.Join(row.write(w), frozen.WriteTo(context.Background(), w))
					}), err
				}}
			}, shelfCommand)
			_, failed, _ := s.run(1)
			if row.want == "" {
				require.Nil(t, failed)
				return
			}
			require.NotNil(t, failed)
			assert.Contains(t, failed.String(), row.want)
		})
	}
}

// hashed is a shelf whose hash also depends on the number of its restores.
type hashed struct {
	shelf
	restored int
}

func (h *hashed) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	h.restored++
	return h.shelf.Restore(ctx, id, r)
}

func (h *hashed) Hash() uint64 {
	sum := fnv.New64()
	fmt.Fprint(sum, h.items, h.count, h.restored)
	return sum.Sum64()
}

// soundHash is a shelf with a correct hash.
type soundHash struct{ shelf }

func (h *soundHash) Hash() uint64 {
	sum := fnv.New64()
	fmt.Fprint(sum, h.items, h.count)
	return sum.Sum64()
}

// No answer shows the difference.
func TestSimulate_ComparesHashes(t *testing.T) {
	s := simulating(func() raft.FSM { return &soundHash{shelf{items: map[string][]byte{}}} }, shelfCommand)
	_, failed, _ := s.run(soundSeeds / 5)
	require.Nil(t, failed)

	s = simulating(func() raft.FSM { return &hashed{shelf: shelf{items: map[string][]byte{}}} }, shelfCommand)
	_, failed, _ = s.run(seedsForBugs)
	require.NotNil(t, failed)
	assert.Equal(t, "A2", failed.failure.Rule)
	assert.Contains(t, failed.String(), "after it restored the state at")
}

func TestSimulate_AWorkloadThatDependsOnMoreThanItsRandomNumbers(t *testing.T) {
	s := simulating(func() raft.FSM { return newShelf("") }, func(*rand.Rand) []byte { return shelfCommand(rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	_, failed, _ := s.run(1)
	require.NotNil(t, failed)
	assert.Equal(t, "A4", failed.failure.Rule)
	assert.Contains(t, failed.String(), "workload must depend on nothing but r")
}
