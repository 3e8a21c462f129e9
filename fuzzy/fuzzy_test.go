package fuzzy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seedsInTests is the number of seeds that the tests run, for each profile. raftlab runs more seeds.
var seedsInTests = map[string]int{
	"swarm": 100, "bootstrap": 50, "elections": 20, "history": 50, "alone": 50, "forwards": 50,
	"calm": 2, "beyond": 15, "slow": 20, "durable": 30, "snapshots": 30, "images": 30, "members": 60, "segments": 30, "hangs": 30, "unequal": 20, "leases": 100, "sessions": 60, "preference": 50, "recoveries": 60,
}

func TestFuzzy_EveryInvariantHolds(t *testing.T) {
	for _, p := range profiles {
		if slices.Contains(dear, p.name) {
			continue // TestDay and TestChurn run parts of them
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			require.Positive(t, seedsInTests[p.name], "a new profile needs seeds here, too")
			total := Stats{}
			for number := range uint64(fewer(seedsInTests[p.name]) + 1) {
				r, err := Run(Seed{p.name, number}, nil)
				require.NoError(t, err)
				require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", r.Seed)
				total.Commits += r.Commits
				total.Elections += r.Elections
				total.Faults += r.Faults
			}
			assert.Positive(t, total.Commits)
			assert.Positive(t, total.Elections)
			assert.Equal(t, p.name == "calm", total.Faults == 0)
		})
	}
}

// hashVariable is the environment variable that makes the test binary print only the hashes of some seeds.
const hashVariable = "FUZZY_PRINT_HASHES"

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a run allocates much and keeps little
	if os.Getenv(hashVariable) != "" {
		fmt.Println(hashes())
		return
	}
	os.Exit(m.Run())
}

func hashes() string {
	var b strings.Builder
	for _, name := range []string{"swarm", "alone", "bootstrap", "history"} {
		for number := range uint64(4 / thrift) { // flags are not parsed yet
			r, _ := Run(Seed{name, number}, nil)
			fmt.Fprintf(&b, "%v %x %d\n", r.Seed, r.Hash, r.Events)
		}
	}
	return strings.TrimSpace(b.String())
}

// T1: the same seed gives the same run in this process and in others, on one processor and on two, traced and untraced.
func TestDeterminism_TheSameSeedDoesTheSame(t *testing.T) {
	want := hashes()
	assert.Equal(t, want, hashes())
	for _, processors := range []string{"1", "2"} {
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), hashVariable+"=1", "GOMAXPROCS="+processors)
		got, err := other.Output()
		require.NoError(t, err)
		assert.Equal(t, want, strings.TrimSpace(string(got)), "GOMAXPROCS=%s", processors)
	}
	seed := Seed{"swarm", 1}
	plain, err := Run(seed, nil)
	require.NoError(t, err)
	traced, err := Run(seed, func(*Record) {})
	require.NoError(t, err)
	assert.Equal(t, plain.Hash, traced.Hash)
	another, err := Run(Seed{"swarm", 2}, nil)
	require.NoError(t, err)
	assert.NotEqual(t, plain.Hash, another.Hash)
}

func TestTrace_NDJSONIsComplete(t *testing.T) {
	var out bytes.Buffer
	_, err := Run(Seed{"history", 3}, NDJSON(&out))
	require.NoError(t, err)
	kinds, sent, seq := map[string]int{}, map[uint64]bool{}, uint64(0)
	decoder := json.NewDecoder(&out)
	for decoder.More() {
		var r struct {
			Seq      uint64
			Kind     string
			Format   int
			ID       uint64
			Receives []uint64
		}
		require.NoError(t, decoder.Decode(&r))
		seq++
		require.Equal(t, seq, r.Seq)
		kinds[r.Kind]++
		if r.Kind == "begin" {
			assert.Equal(t, TraceFormat, r.Format)
		}
		if r.Kind == "send" {
			sent[r.ID] = true
		}
		for _, id := range r.Receives {
			require.True(t, sent[id], "message %d arrives, and was never sent", id)
		}
	}
	for _, kind := range []string{"begin", "start", "step", "send", "heal", "end"} {
		assert.Positive(t, kinds[kind], kind)
	}
}

func TestTrace_TextReadsAsAStory(t *testing.T) {
	var short, all bytes.Buffer
	_, err := Run(Seed{"alone", 17}, Text(&short, false))
	require.NoError(t, err)
	_, err = Run(Seed{"alone", 17}, Text(&all, true))
	require.NoError(t, err)
	for _, want := range []string{"lead term 1", "crash", "heal", "probe the members"} {
		assert.Contains(t, short.String(), want)
	}
	assert.Contains(t, all.String(), "AppendRequest")
	assert.Less(t, short.Len(), all.Len()/3)
}

func TestSeed_SaysWhatIsWrongWithIt(t *testing.T) {
	s, err := ParseSeed("f10.swarm.2a")
	require.NoError(t, err)
	assert.Equal(t, Seed{"swarm", 42}, s)
	assert.Equal(t, "f10.swarm.2a", s.String())
	for _, row := range []struct{ text, want string }{
		{"", "not a seed"}, {"42", "not a seed"}, {"fx.swarm.1", "not a seed"}, {"f9.swarm.1", "format 9"},
		{"f10.swarm.zz", "not a hexadecimal number"}, {"f10.nonsense.1", "swarm: each class"},
	} {
		_, err := ParseSeed(row.text)
		assert.ErrorContains(t, err, row.want)
	}
}
