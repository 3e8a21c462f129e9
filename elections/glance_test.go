package elections

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// glanced gives each scenario its own number, so that the values of different scenarios differ.
var glanced = map[string]int{"leader-crash": 1, "minority": 4, "flapping-leader": 7, "loss-20": 9, "restart-storm": 10}

// glanceCells returns cells with three runs of two algorithms in each of the named scenarios. Each value encodes its
// scenario, its measure and its run.
func glanceCells(n int, names ...string) (cells []Cell) {
	for _, s := range Scenarios() {
		i := glanced[s.Name]
		if !strings.Contains(strings.Join(names, " "), s.Name) {
			continue
		}
		for _, a := range []*Algorithm{twoPhase, bullyThreeStep} {
			outcomes := make([]Outcome, 3)
			for k := range outcomes {
				for m := range measures {
					outcomes[k][m] = int64(i*100+int(m)*10+k) * int64(time.Millisecond)
				}
				outcomes[k][Messages], outcomes[k][Changes] = int64(i*100+k), int64(i*1000+k)
				if !a.Epochs {
					outcomes[k][TwoInTerm] = Never
				}
			}
			cells = append(cells, Cell{a, s, n, outcomes})
		}
	}
	return cells
}

func glanceOfCells(t *testing.T, cells []Cell) string {
	t.Helper()
	p := somePlan(1)
	p.Algorithms = []*Algorithm{twoPhase, bullyThreeStep}
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out, p, cells, Measures()))
	_, after, _ := strings.Cut(out.String(), "### At a glance, n = 5\n")
	table, _, _ := strings.Cut(after, "\n###")
	return table
}

func TestGlance_HasOneNumberForEachWayToDiffer(t *testing.T) {
	cells := glanceCells(5, "leader-crash", "minority", "flapping-leader", "loss-20")
	cells = append(cells, glanceCells(9, "restart-storm")...)
	table := glanceOfCells(t, cells)
	assert.Contains(t, table, "| two-phase | 101 | 131 | 441 | 1052 | 7001 | 9001 |\n",
		"medians, and two in one term at its worst, whatever the size")
	assert.Contains(t, table, "| bully-a | 101 | 131 | 441 | – | 7001 | 9001 |\n", "it has no terms")
}

func TestGlance_IsLeftOutIfNotAllOfItWasCompared(t *testing.T) {
	assert.Empty(t, glanceOfCells(t, glanceCells(5, "leader-crash", "minority")))
	assert.Empty(t, glanceOfCells(t, glanceCells(9, "leader-crash", "minority", "flapping-leader", "loss-20")))
}
