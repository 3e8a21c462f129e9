package fuzzy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// counters is a correct state machine.
type counters struct{ totals map[string]int }

func (c *counters) Apply(batch []raft.Entry, results [][]byte) error {
	for i, e := range batch {
		c.totals[string(e.Data)]++
		results[i] = fmt.Append(nil, c.totals[string(e.Data)])
	}
	return nil
}

func (c *counters) Snapshot() (raft.FSMSnapshot, error) {
	data, err := json.Marshal(c.totals)
	return frozenCounters(data), err
}

func (c *counters) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	c.totals = map[string]int{}
	return json.Unmarshal(data, &c.totals)
}

type frozenCounters []byte

func (f frozenCounters) WriteTo(_ context.Context, w io.Writer) error {
	_, err := w.Write(f)
	return err
}

func (f frozenCounters) Close() error { return nil }

func counting() *Application {
	return &Application{
		New:     func() raft.FSM { return &counters{map[string]int{}} },
		Command: func(r *rand.Rand) []byte { return fmt.Appendf(nil, "key %d", r.IntN(10)) },
	}
}

// The profile must exercise restarts and restores.
func TestApplication_IsRestartedAndRestored(t *testing.T) {
	seeds := fewer(40)
	var total Stats
	for number := range uint64(seeds) {
		r := counting().Run(number, nil)
		require.Nil(t, r.Failure, "seed %v", r.Seed)
		total.Commits += r.Commits
		total.Snapshots += r.Snapshots
		total.Restores += r.Restores
		total.Streams += r.Streams
		total.Starts += r.Starts
		total.Elections += r.Elections
	}
	t.Logf("%d seeds: %d commits, %d starts, %d elections, %d snapshots, %d streams, %d restores", seeds,
		total.Commits, total.Starts, total.Elections, total.Snapshots, total.Streams, total.Restores)
	assert.Greater(t, total.Commits, 10*seeds)
	assert.Greater(t, total.Snapshots, 2*seeds)
	assert.Greater(t, total.Restores, seeds)
	assert.Positive(t, total.Streams)
}

// The checker finds an acknowledgement from the past. A command must be committed after every entry that was committed when
// the client called.
func TestApplication_AnAcknowledgementFromThePastIsFound(t *testing.T) {
	c := newCluster(Seed{ApplicationProfile, 0}, drawApplication(Seed{ApplicationProfile, 0}))
	c.hostApplication(counting())
	r := &request{floor: 6}
	c.host.acknowledged(r, raft.EntryID{Index: 7})
	require.Nil(t, c.failure)
	c.host.acknowledged(r, raft.EntryID{Index: 6})
	require.NotNil(t, c.failure)
	assert.Equal(t, "A3", c.failure.Rule)
}

// A seed needs its test, because the seed alone does not name the state machine that it runs.
func TestApplication_ASeedNeedsItsTest(t *testing.T) {
	seed, err := ParseSeed(Seed{ApplicationProfile, 42}.String())
	require.NoError(t, err)
	assert.Equal(t, Seed{ApplicationProfile, 42}, seed)
	_, err = Run(seed, nil)
	require.ErrorContains(t, err, "run that test with COXSWAIN_SEED="+seed.String())
}

// hashedCounters has a hash that is not 0 in the empty state.
type hashedCounters struct{ counters }

func (c *hashedCounters) Hash() uint64 { return 7 + uint64(len(c.totals)) }

// If a member is restored before the first command, its state machine must have the hash of an empty state.
func TestApplication_TheHashBeforeTheFirstCommand(t *testing.T) {
	c := newCluster(Seed{ApplicationProfile, 0}, drawApplication(Seed{ApplicationProfile, 0}))
	app := counting()
	app.New = func() raft.FSM { return &hashedCounters{counters{map[string]int{}}} }
	c.hostApplication(app)
	c.check.canonical = []committedEntry{{slot: slot{entry: &raft.Entry{Index: 1, Kind: raft.EntryBootstrap}}}}
	assert.EqualValues(t, 7, c.host.at(1).hash)
}
