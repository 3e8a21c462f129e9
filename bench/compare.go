package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// measure is a figure by which contestants are compared.
type measure struct {
	title, figure string
	lower         bool // less is better
	cells         []cell
}

// measures returns the measures by which our contestants are compared with the best of the others.
func measures() []measure {
	loops := kindOf(closedLoop)
	single := slices.DeleteFunc(slices.Clone(loops), func(c cell) bool { return c.Callers != 1 })
	return []measure{
		{"Operations a second", opsPerSecond, false, loops},
		{"Median latency of one caller", p50, true, single},
		{"99th percentile of latency", p99, true, loops},
		{"99.9th percentile of an open loop", p999, true, kindOf(openLoop)},
		{"CPU an operation", cpu, true, loops},
		{"Allocations an operation", allocations, true, loops},
		{"Resident memory under load", residentMax, true, loops},
		{"Anonymous memory under load", anonymousMax, true, loops},
		{"Resident memory after the load", residentRest, true, loops},
		{"Anonymous memory after the load", anonymousRest, true, loops},
		{"Reads a second", opsPerSecond, false, readCells},
		{"99th percentile of reads", p99, true, readCells},
		{"CPU a read", cpu, true, readCells},
		{"Failover", failoverMs, true, kindOf(failover)},
		{"Restart, to the first write", firstAckMs, true, kindOf(restart)},
		{"Restart, until all have applied all", allAppliedMs, true, kindOf(restart)},
		{"Catch-up", caughtUpMs, true, kindOf(catchUp)},
		{"Idle CPU", idleCPU, true, kindOf(idle)},
		{"Idle resident memory", idleResident, true, kindOf(idle)},
	}
}

// kindOf returns all cells of a kind in the order of the tables.
func kindOf(k kind) []cell {
	cells := slices.DeleteFunc(allCells(), func(c cell) bool { return c.Kind != k })
	slices.SortStableFunc(cells, func(a, b cell) int {
		return cmp.Or(
			compareBools(a.Apart, b.Apart), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Bytes, b.Bytes),
			cmp.Compare(a.Callers, b.Callers), cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.Entries, b.Entries),
		)
	})
	return cells
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// inShort counts, for each of our contestants, the cells in which it is better. It names the cells in which it is worse.
func (p *page) inShort() {
	homes, others := oursAndOthers()
	p.line("## In short\n")
	p.line(`Each of ours beside the best of the others in the same cell. *Better* and *worse* are cells in which the interval of the
ratio does not contain 1, *even* are the rest. The ratio is the median of the cells, ours divided by the other. Those that are
[for reference](#how-everybody-is-set-up) are not among the others; etcd-raft-yields has tables of its own.
`)
	for _, name := range homes {
		var rows, losses []string
		for _, m := range measures() {
			s := p.score(m, name, others)
			if s.cells == 0 {
				continue
			}
			rows = append(rows, s.row())
			if len(s.lost) > 0 {
				losses = append(losses, fmt.Sprintf("- %s: %s", m.title, strings.Join(s.lost, "; ")))
			}
		}
		if len(rows) > 0 {
			p.line("### %s\n\n| | ratio, median of cells | better | even | worse |\n|---|---|---|---|---|\n%s\n",
				name, strings.Join(rows, "\n"))
		}
		if len(losses) > 0 {
			p.line("Where it is worse, or with a star, for too few runs, seems to be, times the best of the others:\n\n%s\n",
				strings.Join(losses, "\n"))
		}
	}
}

// score summarizes one of ours by one measure.
type score struct {
	measure
	cells    int
	ratios   []float64 // medians of the cells
	verdicts map[string]int
	lost     []string // the cells in which it is worse
}

func (p *page) score(m measure, name string, others []string) score {
	s := score{measure: m, verdicts: map[string]int{}}
	for _, c := range m.cells {
		compared, found := p.compare(c, name, others, m.figure, m.lower)
		if !found {
			continue
		}
		s.cells++
		s.ratios = append(s.ratios, compared.ratio.Median)
		verdict := compared.verdict(m.lower)
		s.verdicts[verdict]++
		if verdict == worse || verdict == tooFew && compared.seemsWorse(m.lower) {
			s.lost = append(s.lost, fmt.Sprintf("%s: %s of %s", c.row(), compared.ratio.brief(), compared.best))
		}
	}
	return s
}

func (s score) row() string {
	even := fmt.Sprint(s.verdicts[noDifference])
	if few := s.verdicts[tooFew]; few > 0 {
		even = fmt.Sprintf("%s, %d with too few runs", even, few)
	}
	return fmt.Sprintf("| %s (%s is better) | %s | %d | %s | %d |",
		s.title, s.direction(), short(estimateOf(s.ratios).Median), s.verdicts[better], even, s.verdicts[worse])
}

func (m measure) direction() string {
	if m.lower {
		return "less"
	}
	return "more"
}

// comparisons compares each of our contestants with the best of the others, whether ours is better or worse.
func (p *page) comparisons() {
	homes, others := oursAndOthers()
	p.line("## Beside the best of the others\n")
	p.line("Ours divided by the contestant of the others with the best median in that cell.\n")
	p.beside(measures(), homes, others)
}

// besideYields compares our contestants with a special host of etcd's raft. Like our node, that host yields before it takes
// queued work.
func (p *page) besideYields() {
	homes, _ := oursAndOthers()
	loops := kindOf(closedLoop)
	if len(p.measured(loops, []string{etcdYields}, opsPerSecond)) == 0 {
		return
	}
	p.line("## Beside a host of etcd-raft with our scheduling\n")
	p.line(`The yields of our node, lent to the host of etcd-raft-async: neither the library nor etcd has them. What is left
is the difference without that idea.
`)
	p.beside([]measure{
		{"Operations a second, beside our scheduling", opsPerSecond, false, loops},
		{"Median latency, beside our scheduling", p50, true, loops},
		{"99th percentile, beside our scheduling", p99, true, loops},
	}, homes, []string{etcdYields})
}

// beside prints a table for each measure.
func (p *page) beside(measures []measure, homes, others []string) {
	for _, m := range measures {
		var rows []string
		for _, c := range m.cells {
			best, row := "", ""
			for _, name := range homes {
				compared, found := p.compare(c, name, others, m.figure, m.lower)
				if !found {
					row += " | –"
					continue
				}
				best = compared.best
				row += fmt.Sprintf(" | %s, %s", compared.ratio, compared.verdict(m.lower))
			}
			if best != "" {
				rows = append(rows, fmt.Sprintf("| %s | %s%s |", c.row(), best, row))
			}
		}
		if len(rows) > 0 {
			p.line("### %s (%s is better)\n\n| | best of the others | %s |\n|---|---%s|\n%s\n",
				m.title, m.direction(), strings.Join(homes, " | "), strings.Repeat("|---", len(homes)), strings.Join(rows, "\n"))
		}
	}
}

// shares divides a figure of each of some cells by the same figure of another cell, for each contestant.
func (p *page) shares(title string, cells []cell, whole cell, figure string) {
	var rows []string
	who := p.measured(append([]cell{whole}, cells...), names(contestants), figure)
	for _, c := range cells {
		row, some := "| "+c.row(), false
		for _, name := range who {
			e := estimateOf(ratios(p.values[place{c.String(), name, figure}], p.values[place{whole.String(), name, figure}]))
			some = some || e.Runs > 0
			row += " | " + e.String()
		}
		if some {
			rows = append(rows, row+" |")
		}
	}
	if len(rows) > 0 {
		p.line("### %s\n\n| | %s |\n|---%s|\n%s\n", title, strings.Join(who, " | "), strings.Repeat("|---", len(who)),
			strings.Join(rows, "\n"))
	}
}
