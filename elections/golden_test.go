package elections

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/golden"
)

// The same seeds give the same table and the same JSON, byte for byte, on any machine. Raft is left out: its
// numbers change with the core.
func TestGolden_TheSameSeedsGiveTheSameTableOnAnyMachine(t *testing.T) {
	p := somePlan(2)
	p.Seeds = 4
	p.Sizes = []int{5}
	p.Algorithms = slices.DeleteFunc(slices.Clone(p.Algorithms), isCore)
	p.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *Scenario) bool {
		return !slices.Contains([]string{"leader-crash", "loss-20", "restart-storm"}, s.Name)
	})
	cells, err := p.Compare(context.Background())
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, WriteTable(&now, p, cells, Measures()))
	require.NoError(t, NewReport(p, cells, Measures()).Write(&now))

	golden.Check(t, "testdata/table.golden", now.String(), "make fix and make elections")
}
