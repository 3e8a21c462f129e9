package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBench_WritesAndShowsTheLatencies(t *testing.T) {
	n := newDemo(t)
	n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Term: 1, Leader: "n1", Role: raft.Leader}})
	code, out, errs := run(t, "", "bench", "--callers", "2", "--warmup", "0s", "--duration", "50ms", "--keys", "3",
		"--bytes", "1KiB", "--timeout", "60s")
	require.Zero(t, code, errs)
	assert.Contains(t, out, "2 callers in a closed loop; values of 1.0 KiB; 50ms after 0s of warm-up\n")
	assert.Contains(t, out, "0 failed\n")
	assert.Contains(t, out, "latency in ms: p50 ")
	assert.Contains(t, out, " %")

	_, keys, _ := run(t, "", "list", "bench/")
	assert.LessOrEqual(t, strings.Count(keys, "\n"), 3)
	assert.Contains(t, keys, "1024 bytes")
}

func TestBench_AtARate(t *testing.T) {
	newDemo(t)
	code, out, errs := run(t, "", "bench", "--rate", "200", "--warmup", "50ms", "--duration", "100ms", "--json", "--timeout", "60s")
	require.Zero(t, code, errs)
	var figures map[string]float64
	require.NoError(t, json.Unmarshal([]byte(out), &figures))
	assert.EqualValues(t, 20, figures["operations"], "all that were due")
	assert.Positive(t, figures["p50_ms"])
}

func TestBench_SaysWhyNothingWasWritten(t *testing.T) {
	code, _, errs := run(t, "", "bench", "--server", "http://127.0.0.1:1", "--timeout", "50ms",
		"--warmup", "0s", "--duration", "100ms")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "nothing was written")
	assert.Contains(t, errs, "127.0.0.1:1")
}

// An open loop ends even if the cluster accepts fewer writes than the loop asks for.
func TestBench_ARateThatTheClusterDoesNotKeepUpWith(t *testing.T) {
	newDemo(t)
	_, _, errs := run(t, "", "bench", "--rate", "1e6", "--warmup", "0s", "--duration", "200ms", "--keys", "10", "--timeout", "500ms")
	assert.Contains(t, errs, "the cluster does not keep up with --rate: use a lower one")
}

func TestBench_RefusesWhatMakesNoSense(t *testing.T) {
	for _, args := range []string{
		"--callers 0", "--rate -1", "--rate 0", "--rate NaN", "--rate Inf", "--rate 1e12", "--timeout 0s",
		"--bytes 2MiB", "--keys 0", "--duration 0s", "--warmup -1s", "--nodes 10", "--nodes 0", "--nodes -1", "--nodes 1 --log tape", "--log segments",
		"--nodes 3 --server http://127.0.0.1:1", "surplus",
	} {
		code, _, errs := run(t, "", append([]string{"bench"}, strings.Fields(args)...)...)
		assert.Equal(t, 2, code, "%s: %s", args, errs)
	}
}
