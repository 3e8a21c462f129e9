package rafttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/fuzzy"
)

// shelf is a small store of keys. Its commands are "set key=value", "del key", "get key", "list" and "count".
type shelf struct {
	items map[string][]byte
	count int
	fault string
}

func newShelf(fault string) raft.FSM { return &shelf{items: map[string][]byte{}, fault: fault} }

func shelfCommand(r *rand.Rand) []byte {
	switch key := r.IntN(6); r.IntN(7) {
	case 0:
		return fmt.Appendf(nil, "get %d", key)
	case 1:
		return []byte("list")
	case 2:
		return []byte("count")
	case 3:
		return fmt.Appendf(nil, "del %d", key)
	default:
		return fmt.Appendf(nil, "set %d=%d", key, r.IntN(100))
	}
}

func (s *shelf) Apply(batch []raft.Entry, results [][]byte) error {
	if s.fault == "an error that depends on the batch" && len(batch) > 10 {
		return errors.New("too many commands")
	}
	for i, e := range batch {
		s.count++
		results[i] = s.apply(e, len(batch))
	}
	return nil
}

func (s *shelf) apply(e raft.Entry, batch int) []byte {
	verb, rest, _ := strings.Cut(string(e.Data), " ")
	switch verb {
	case "set":
		key, _, _ := strings.Cut(rest, "=")
		s.items[key] = e.Data[len("set ")+len(key)+1:]
		if s.fault != "keeps the bytes of entries" {
			s.items[key] = slices.Clone(s.items[key])
		}
	case "del":
		delete(s.items, rest)
	case "get":
		return slices.Clone(s.items[rest])
	case "list":
		keys := slices.Collect(maps.Keys(s.items))
		if s.fault != "the order of a map in an answer" {
			slices.Sort(keys)
		}
		return []byte(strings.Join(keys, " "))
	case "count":
		switch s.fault {
		case "the time in an answer":
			return fmt.Append(nil, time.Now().UnixNano())
		case "a random number in an answer":
			return fmt.Append(nil, rand.IntN(1000))
		case "the size of the batch in an answer":
			return fmt.Append(nil, batch)
		}
		return fmt.Append(nil, s.count)
	}
	return nil
}

// shelfState is the content of a snapshot, as JSON.
type shelfState struct {
	Items map[string][]byte
	Count int
}

func (s *shelf) Snapshot() (raft.FSMSnapshot, error) {
	frozen := &frozenShelf{shelfState{maps.Clone(s.items), s.count}, s.fault}
	switch s.fault {
	case "a key that Snapshot forgets":
		delete(frozen.state.Items, "3")
	case "a count that is not in the snapshot":
		frozen.state.Count = 0
	case "a freeze that is not one":
		frozen.state.Items = s.items
	}
	return frozen, nil
}

func (s *shelf) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.fault != "a Restore that merges" {
		s.items = nil
	}
	state := shelfState{Items: s.items}
	err = json.Unmarshal(data, &state)
	s.items, s.count = state.Items, state.Count
	return err
}

type frozenShelf struct {
	state shelfState
	fault string
}

func (f *frozenShelf) WriteTo(ctx context.Context, w io.Writer) error {
	data, err := json.Marshal(f.state)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(ctx.Err(), err)
}

func (f *frozenShelf) Close() error { return nil }

// simulating returns the simulation of a state machine.
func simulating(newFSM func() raft.FSM, command func(*rand.Rand) []byte) *simulation {
	return &simulation{app: fuzzy.Application{New: newFSM, Command: command}, callMax: callMax}
}

func TestSimulate_AStateMachineThatKeepsTheContract(t *testing.T) {
	Simulate(t, soundSeeds, func() raft.FSM { return newShelf("") }, shelfCommand)
}

// seedsForBugs is the number of seeds that is enough to find each of the bugs below.
const seedsForBugs = 100

var (
	soundSeeds = 100
	explains   = true // the tests also look for the causes of what they find
)

// finds runs seeds until one of them finds a bug, and logs that seed. It checks the rule and the cause of the failure.
func (s *simulation) finds(t *testing.T, rule, cause string) {
	t.Helper()
	_, failed, _ := s.run(seedsForBugs)
	require.NotNil(t, failed)
	if explains {
		s.explain(failed, time.Millisecond)
		assert.Contains(t, failed.String(), cause)
	}
	failed.story = nil // there was no time to look for a smaller run
	t.Logf("seeds that it took: %d. %s", failed.number+1, failed)
	if rule != "" {
		assert.Equal(t, rule, failed.failure.Rule)
	}
}

// The seeds find each bug. If a seed can show the cause, the failure names it.
func TestSimulate_FindsBrokenStateMachines(t *testing.T) {
	for _, row := range []struct{ fault, rule, cause string }{
		{"a key that Snapshot forgets", "A1", "the snapshot does not hold the whole state"},
		{"the order of a map in an answer", "A1", "in the same way every time"},
		{"keeps the bytes of entries", "A1", "the state machine keeps them"},
		{"a freeze that is not one", "A1", "not frozen"},
		{"a Restore that merges", "A1", "does not replace the whole state"},
		{"a count that is not in the snapshot", "A1", "the snapshot does not hold the whole state"},
		{"the time in an answer", "A1", "in the same way every time"},
		{"a random number in an answer", "A1", "in the same way every time"},
		{"an error that depends on the batch", "A5", "cut into batches"},
		{"the size of the batch in an answer", "A1", "cut into batches"},
	} {
		t.Run(row.fault, func(t *testing.T) {
			simulating(func() raft.FSM { return newShelf(row.fault) }, shelfCommand).finds(t, row.rule, row.cause)
		})
	}
}
