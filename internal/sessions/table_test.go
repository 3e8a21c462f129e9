package sessions

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// wrapped returns an FSM with sessions, and its table.
func wrapped(t testing.TB, inner raft.FSM) (raft.SessionFSM, *FSM) {
	t.Helper()
	fsm, err := Wrap(inner)
	require.NoError(t, err)
	if d, ok := fsm.(*durableFSM); ok {
		return fsm, &d.FSM
	}
	return fsm, fsm.(*FSM)
}

// copyOf returns an FSM that was restored from a snapshot of another one.
func copyOf(t testing.TB, from raft.FSM, to raft.FSM, id raft.EntryID) raft.SessionFSM {
	t.Helper()
	frozen, err := from.Snapshot()
	require.NoError(t, err)
	var snapshot bytes.Buffer
	require.NoError(t, frozen.WriteTo(context.Background(), &snapshot))
	require.NoError(t, frozen.Close())
	if sized, ok := frozen.(interface{ Size() int64 }); assert.True(t, ok) {
		require.EqualValues(t, snapshot.Len(), sized.Size())
	}
	fsm, _ := wrapped(t, to)
	require.NoError(t, fsm.Restore(context.Background(), id, &snapshot))
	return fsm
}

// All members give the same answers and reach the same table, in whatever batches the entries come, on both kinds of FSM, and
// across snapshots and restarts: those of the rules.
func TestTable_FollowsTheRulesOnEveryMember(t *testing.T) {
	seen := map[Outcome]int{}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 38))
		log := entriesOf(rng, 150)
		model := &naive{fsm: newCounter(), sessions: map[raft.Index]*naiveSession{}}
		answers := map[raft.Index][]byte{}
		for _, e := range log {
			answers[e.Index] = model.apply(e)
			if e.Kind == raft.EntrySession {
				seen[Outcome(answers[e.Index][0])]++
			}
		}
		for kind, newInner := range map[string]func() raft.FSM{
			"memory": func() raft.FSM { return newCounter() }, "durable": func() raft.FSM { return newDisk() },
		} {
			inner := newInner()
			fsm, state := wrapped(t, inner)
			for _, batch := range batches(rng, log, 1+rng.IntN(40)) {
				results := make([][]byte, len(batch))
				require.NoError(t, fsm.Apply(batch, results))
				for i, e := range batch {
					if !bytes.Equal(answers[e.Index], results[i]) { // they may be large
						t.Fatalf("%s, seed %d, entry %d: %.60q instead of %.60q", kind, seed, e.Index, results[i], answers[e.Index])
					}
					clear(results[i]) // it belongs to its caller
				}
				last := batch[len(batch)-1].ID()
				switch rng.IntN(6) {
				case 0:
					inner = newInner()
					fsm = copyOf(t, fsm, inner, last)
					state = stateOf(fsm)
				case 1:
					if d, ok := inner.(*disk); ok { // a restart
						inner = d.commits[len(d.commits)-1]
						fsm, state = wrapped(t, inner)
					}
				}
			}
			require.Equal(t, model.bytes(), state.table.Bytes(), "%s, seed %d", kind, seed)
			require.Equal(t, len(model.sessions), state.table.Len())
			counted, ok := inner.(*counter)
			if !ok {
				counted = &inner.(*disk).counter
			}
			require.True(t, maps.Equal(model.fsm.Counts, counted.Counts), "%s, seed %d", kind, seed)
		}
	}
	for o := Applied; o <= TooLarge; o++ {
		assert.NotZero(t, seen[o], "no seed reaches %v", o)
	}
}

func stateOf(fsm raft.SessionFSM) *FSM {
	if d, ok := fsm.(*durableFSM); ok {
		return &d.FSM
	}
	return fsm.(*FSM)
}

// replay applies the log to a store from where it is, and returns how often each command has taken effect in the end.
func replay(t *testing.T, d *disk, log []raft.Entry, answers map[raft.Index][]byte) (problem string) {
	fsm, _ := wrapped(t, d)
	at, err := fsm.(raft.DurableFSM).Applied()
	require.NoError(t, err)
	for _, e := range log {
		if e.Index <= at.Index {
			continue
		}
		results := make([][]byte, 1)
		require.NoError(t, fsm.Apply([]raft.Entry{e}, results))
		if known, ok := answers[e.Index]; ok && !bytes.Equal(known, results[0]) {
			return fmt.Sprintf("entry %d is answered with %.60q after a crash, and was with %.60q", e.Index, results[0], known)
		}
	}
	return ""
}

// A crash between any two writes of a DurableFSM loses and doubles no effect. A table that is stored apart from the state would.
func TestDurable_ACrashBetweenAnyTwoWrites(t *testing.T) {
	crash := func(apart bool) (problems int) {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 39))
			log := entriesOf(rng, 60)
			d := newDisk()
			d.apart = apart
			d.commit()
			fsm, state := wrapped(t, d)
			answers := map[raft.Index][]byte{}
			for _, batch := range batches(rng, log, 5) {
				results := make([][]byte, len(batch))
				require.NoError(t, fsm.Apply(batch, results))
				for i, e := range batch {
					answers[e.Index] = results[i]
				}
			}
			for _, image := range d.commits {
				problem := replay(t, image, log, answers)
				if problem == "" && (image.Total != d.Total || !stateOf(must(Wrap(image))).table.Equal(state.table)) {
					problem = "the state differs after a crash"
				}
				if problem != "" {
					problems++
				}
				if !apart {
					require.Empty(t, problem, "seed %d", seed)
				}
			}
		}
		return problems
	}
	crash(false)
	assert.NotZero(t, crash(true), "the check finds the mistake")
}

func must(fsm raft.SessionFSM, err error) raft.SessionFSM {
	if err != nil {
		panic(err)
	}
	return fsm
}

func TestWrap_RefusesWhatItCannotKeep(t *testing.T) {
	_, err := Wrap(nil)
	assert.ErrorContains(t, err, "nil")
	plain := struct{ raft.DurableFSM }{newDisk()}
	_, err = Wrap(plain)
	var unsupported *UnsupportedError
	require.ErrorAs(t, err, &unsupported)
	assert.ErrorContains(t, err, "struct { raft.DurableFSM }")
	assert.ErrorContains(t, err, "implement session.Durable")
	fsm, _ := wrapped(t, newCounter())
	_, err = Wrap(fsm)
	assert.ErrorContains(t, err, "once")
	_, durable := fsm.(raft.DurableFSM)
	assert.False(t, durable)
	assert.True(t, raft.AppliesSessions(fsm))
	assert.False(t, raft.AppliesSessions(newCounter()))
}

// A state machine that forgets to store the table must not go on.
type forgetful struct{ *disk }

func (f forgetful) ApplyWith(batch []raft.Entry, results [][]byte, _ raft.EntryID, _ func() []Change) error {
	return f.counter.Apply(batch, results)
}

func TestWrap_AnFSMThatDoesNotStoreTheTable(t *testing.T) {
	fsm, _ := wrapped(t, forgetful{newDisk()})
	err := fsm.Apply([]raft.Entry{{Index: 2, Term: 1, Kind: raft.EntryCommand, Data: []byte("x")}}, make([][]byte, 1))
	assert.ErrorContains(t, err, "ApplyWith has not called changes")
}

// A program that has not opened a session yet may go back to one without, and the other way round.
func TestSnapshot_FromBeforeTheFirstSession(t *testing.T) {
	plain := newCounter()
	fsm, _ := wrapped(t, plain)
	require.NoError(t, fsm.Apply([]raft.Entry{{Index: 2, Term: 1, Kind: raft.EntryCommand, Data: []byte("x")}}, make([][]byte, 1)))
	frozen, err := fsm.Snapshot()
	require.NoError(t, err)
	var snapshot bytes.Buffer
	require.NoError(t, frozen.WriteTo(context.Background(), &snapshot))
	assert.Equal(t, `{"Counts":{"x":1},"Total":1}`, snapshot.String())
	for _, content := range []string{snapshot.String(), ""} {
		other := newCounter()
		again, _ := wrapped(t, other)
		if err := again.Restore(context.Background(), raft.EntryID{}, bytes.NewReader([]byte(content))); content != "" {
			require.NoError(t, err)
			assert.Equal(t, plain, other)
		}
	}
}

// What is stored may be damaged: an error, and no panic.
func TestStored_DamageIsAnError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	table := NewTable()
	for _, e := range entriesOf(rng, 100) {
		if e.Kind == raft.EntrySession {
			if _, _, effect := table.Take(&e); effect.New {
				table.Finish(effect, []byte("answer"))
			}
		}
	}
	data := table.encode()
	for n := range data {
		if cut, err := decodeTable(data[:n]); err == nil { // between two sessions
			require.Less(t, cut.Len(), table.Len())
		}
	}
	for range 20_000 {
		damaged := slices.Clone(data)
		damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
		_, _ = decodeTable(damaged)
	}
	for _, bad := range []Change{
		{[]byte("x"), nil}, {[]byte("s1234567"), nil}, {[]byte("s12345678"), []byte{1}}, {[]byte("a1234567812345678"), []byte{1}}, {[]byte{metaKey}, []byte{9}}, {nil, nil},
	} {
		_, err := fromStore(func(load func(key, value []byte) error) error { return load(bad.Key, bad.Value) })
		assert.Error(t, err, "%q", bad.Key)
	}
	_, err := decodeTable([]byte{2, 9, 9})
	var later *raft.LaterVersionError
	assert.ErrorAs(t, err, &later)
}

// full returns a table of that many sessions, each with the stored answer to one command.
func full(count int) *Table {
	t := NewTable()
	limits := Limits{Sessions: count}.WithDefaults()
	for i := range raft.Index(count) {
		id := ID{Cluster: raft.ClusterID{1}, Nonce: uint64(i)}
		t.Take(&raft.Entry{Index: i + 1, Time: 1_764_000_000_000_000_000 + int64(i), Kind: raft.EntrySession, Data: Request{Kind: Open, ID: id, Limits: limits}.Encode()})
		id.Index = i + 1
		_, _, effect := t.Take(&raft.Entry{Time: 1_764_000_000_000_000_000 + int64(i), Data: Request{Kind: Command, ID: id, Number: 1, Floor: 1, Data: []byte("x")}.Encode()})
		t.Finish(effect, []byte("8 bytes."))
	}
	return t
}

// At most 200 bytes a session at rest.
func TestTable_BytesOfASession(t *testing.T) {
	const count = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := full(count)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / count
	t.Logf("%.0f bytes a session in memory, %d counted, %.0f in a snapshot", each, table.Bytes()/count, float64(len(table.encode()))/count)
	assert.Less(t, each, 200.0)
	assert.Less(t, float64(table.Bytes()/count), 1.5*each, "what is counted is about what is taken")
	assert.Greater(t, float64(table.Bytes()/count), each/1.5)
	runtime.KeepAlive(table)
}

// BenchmarkSnapshot takes and restores a snapshot of 100,000 sessions: under a second.
func BenchmarkSnapshot(b *testing.B) {
	fsm, state := wrapped(b, newCounter())
	state.table = full(100_000)
	for b.Loop() {
		began := time.Now()
		frozen, err := fsm.Snapshot()
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began))/1e6, "ms-frozen")
		var snapshot bytes.Buffer
		require.NoError(b, frozen.WriteTo(context.Background(), &snapshot))
		other, _ := wrapped(b, newCounter())
		require.NoError(b, other.Restore(context.Background(), raft.EntryID{}, &snapshot))
	}
}
