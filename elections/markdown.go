package elections

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// intro is the part of the document that no run changes: what the lab is, and how to read it.
//
//go:embed intro.md
var intro string

// WriteMarkdown writes docs/elections.md: what each algorithm assumes and guarantees, what the core makes of
// it, and the tables.
func WriteMarkdown(w io.Writer, p *Plan, cells []Cell, measures []MeasureInfo) error {
	out := bufio.NewWriter(w)
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) } // Flush tells
	printf("%s", intro)
	printf("\n## Measures\n\n")
	for _, m := range measures {
		printf("- **%s**: %s.\n", m.Title, m.Meaning)
	}
	printf("\n%s Of the share there is one number.\n", Legend)
	printf("\n## Scenarios\n\nA run lasts %v of virtual time after its fault.\n\n", runTime)
	for _, s := range p.Scenarios {
		printf("- **%s** (`%s`): %s\n", s.Title, s.Name, s.Meaning)
	}
	printf("\n## Algorithms\n")
	for _, a := range p.Algorithms {
		describe(printf, a)
	}
	printf("\n### Raft with leader preferences\n\nIt joins when the core has them: its place in the tables is below Raft.\n")
	printf("\n## Tables\n\nTimes are those of the profile *%s*. Seeds begin at %d, the same for all.\n", p.Setup.Times.Name, p.First)
	for _, m := range measures {
		matrices(printf, p, cells, &m)
	}
	for _, group := range groups(cells) {
		if group[0].N == detailed {
			printf("\n### %s, n = %d, %d seeds\n\n", group[0].Scenario.Title, group[0].N, len(group[0].Outcomes))
			writePipes(printf, rows(group, measures))
		}
	}
	return out.Flush()
}

// detailed is the size whose cells are shown in full.
const detailed = 5

type printer func(format string, args ...any)

func describe(printf printer, a *Algorithm) {
	printf("\n### %s\n\n`%s`. %s.\n\n", a.Title, a.Name, strings.TrimSuffix(a.Source, "."))
	for _, line := range []struct{ what, text string }{
		{"Assumes", a.Assumes}, {"Guarantees", a.Guarantees}, {"The core takes over", a.Takes},
		{"The core does not take over", a.Leaves},
	} {
		if line.text != "" {
			printf("- %s: %s\n", line.what, line.text)
		}
	}
	for _, c := range a.Choices {
		printf("- *(choice)* %s\n", c)
	}
}

// matrices writes, for each size, one measure of every algorithm in every scenario.
func matrices(printf printer, p *Plan, cells []Cell, m *MeasureInfo) {
	if m.Measure == Bytes { // told with the details: it goes with the messages
		return
	}
	for _, n := range p.Sizes {
		table := matrix(p, cells, m, n)
		if len(table) > 1 {
			printf("\n### %s, n = %d\n\n", strings.ToUpper(m.Title[:1])+m.Title[1:], n)
			writePipes(printf, table)
		}
	}
}

// matrix has an algorithm a row and a scenario a column.
func matrix(p *Plan, cells []Cell, m *MeasureInfo, n int) [][]string {
	head := []string{"algorithm"}
	texts := map[*Algorithm][]string{}
	for _, group := range groups(cells) {
		if group[0].N != n {
			continue
		}
		head = append(head, group[0].Scenario.Name)
		for i := range group {
			c := &group[i]
			texts[c.Algorithm] = append(texts[c.Algorithm], m.Text(Summarize(c.Values(m.Measure)), len(c.Outcomes)))
		}
	}
	if len(head) == 1 {
		return nil
	}
	table := [][]string{head}
	for _, a := range p.Algorithms {
		table = append(table, append([]string{a.Name}, texts[a]...))
	}
	return table
}

// writePipes writes a table, headings first; the first column is to the left.
func writePipes(printf printer, table [][]string) {
	for i, row := range table {
		printf("| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			printf("|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
}
