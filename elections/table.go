package elections

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteTable writes one table for each scenario and size, with a row for each algorithm and a column for each
// measure.
func WriteTable(w io.Writer, p *Plan, cells []Cell, measures []MeasureInfo) error {
	out := bufio.NewWriter(w)
	for _, group := range groups(cells) {
		first := group[0]
		_, _ = fmt.Fprintf(out, "%s, n = %d, %d seeds from %d, %s times\n", // Flush returns the error
			first.Scenario.Title, first.N, len(first.Outcomes), p.First, p.Setup.Times.Name)
		writeColumns(out, rows(group, p.Setup.Times.in(measures)))
		_, _ = fmt.Fprintln(out)
	}
	_, _ = fmt.Fprintln(out, p.Setup.Times.legend())
	return out.Flush()
}

// Legend explains how to read a cell of a table.
const Legend = `A cell is median / p99 / worst over all seeds; times are in ms, <1 is below a half and not 0; – is never, or that the algorithm has no terms.`

// unit returns the unit in which times are shown.
func (t *Times) unit() string {
	if t.inSeconds() {
		return "s"
	}
	return "ms"
}

// legend returns Legend for tables of this profile.
func (t *Times) legend() string {
	if t.inSeconds() {
		return strings.NewReplacer("times are in ms", "times are in s", "<1 is below a half", "<0.1 is below 0.05").Replace(Legend)
	}
	return Legend
}

// groups splits cells by scenario and size.
func groups(cells []Cell) [][]Cell {
	var all [][]Cell
	for i := range cells {
		if i == 0 || cells[i].Scenario != cells[i-1].Scenario || cells[i].N != cells[i-1].N {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], cells[i])
	}
	return all
}

// rows returns the texts of a group, headings first.
func rows(group []Cell, measures []MeasureInfo) [][]string {
	head := []string{"algorithm"}
	for _, m := range measures {
		head = append(head, m.Title)
	}
	table := [][]string{head}
	for i := range group {
		c := &group[i]
		row := []string{c.Algorithm.Name}
		for k := range measures {
			row = append(row, measures[k].Text(Summarize(c.Values(measures[k].Measure)), len(c.Outcomes)))
		}
		table = append(table, row)
	}
	return table
}

// writeColumns writes a table, the first column aligned to the left, the others to the right.
func writeColumns(out io.Writer, table [][]string) {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for _, row := range table {
		var line strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i == 0 {
				line.WriteString("  " + text + pad)
			} else {
				line.WriteString("  " + pad + text)
			}
		}
		_, _ = fmt.Fprintln(out, strings.TrimRight(line.String(), " ")) // Flush returns the error
	}
}
