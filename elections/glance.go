package elections

// glanceAt is the number of members in the first table.
const glanceAt = 5

// glances are the columns of the first table. Each is one number that tells algorithms apart.
var glances = []struct {
	head     string
	scenario string // empty: the worst over all scenarios and sizes
	measure  Measure
	of       func(s Summary) int64
}{
	{"messages", "leader-crash", Messages, typical},
	{"until they agree", "leader-crash", Agreement, typical},
	{"two lead in a partition", "minority", TwoLeaders, typical},
	{"two in one term, anywhere", "", TwoInTerm, worst},
	{"changes by a flapping leader", "flapping-leader", Changes, typical},
	{"changes at 20 % loss", "loss-20", Changes, typical},
}

func typical(s Summary) int64 { return s.Median }
func worst(s Summary) int64   { return s.Worst }

// glance writes the table that a newcomer should see first.
func glance(printf printer, p *Plan, cells []Cell) {
	table := [][]string{{"algorithm"}}
	for i := range glances {
		table[0] = append(table[0], glances[i].head)
	}
	for _, a := range p.Algorithms {
		row := []string{a.Name}
		for i := range glances {
			if text, ok := glanceOf(p, cells, a, i); ok {
				row = append(row, text)
			}
		}
		if len(row) == len(table[0]) {
			table = append(table, row)
		}
	}
	if len(table) == 1 {
		return // nothing that it shows was compared
	}
	printf("\n### At a glance, n = %d\n\nMedians; times are in %s. When the leader crashes: messages and time. When "+
		"it is cut off with a minority: how long two members lead.\nThen the longest time with two leaders in one term, in any run of any "+
		"scenario and size; and the leader changes without\na cause: when the member that leads comes and goes, and when one "+
		"message in five is lost.\n\n", glanceAt, p.Setup.Times.unit())
	writePipes(printf, table)
}

// glanceOf returns one column of one algorithm, if it was run.
func glanceOf(p *Plan, cells []Cell, a *Algorithm, column int) (text string, ok bool) {
	g, value := &glances[column], int64(Never)
	for i := range cells {
		c := &cells[i]
		if c.Algorithm == a && (g.scenario == "" || g.scenario == c.Scenario.Name && c.N == glanceAt) {
			value, ok = max(value, g.of(Summarize(c.Values(g.measure)))), true
		}
	}
	return p.Setup.Times.in(measureInfos)[g.measure].value(value), ok
}
