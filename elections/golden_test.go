package elections

import (
	"bytes"
	"context"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden table (make fix)")

// The same seeds give the same table and the same JSON, byte for byte, on any machine. Raft is left out: its
// numbers change with the core.
func TestGolden_TheSameSeedsGiveTheSameTableOnAnyMachine(t *testing.T) {
	p := somePlan(2)
	p.Seeds = 4
	p.Sizes = []int{5}
	p.Algorithms = slices.DeleteFunc(slices.Clone(p.Algorithms), func(a *Algorithm) bool { return a == raftCore })
	p.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *Scenario) bool {
		return !slices.Contains([]string{"leader-crash", "loss-20", "restart-storm"}, s.Name)
	})
	cells, err := p.Compare(context.Background())
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, WriteTable(&now, p, cells, Measures()))
	require.NoError(t, NewReport(p, cells, Measures()).Write(&now))

	const path = "testdata/table.golden"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, now.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), now.String(), "if this change is meant, make fix and make elections")
}
