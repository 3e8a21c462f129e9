package elections

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// intro is the head of the document. What people wrote about the lab is docs/elections.md.
//
//go:embed intro.md
var intro string

// rules lists every rule of the sources with the test that checks it.
//
//go:embed rules.md
var rules string

// WriteMarkdown writes docs/results/elections.md: the assumptions and guarantees of each algorithm, its features that the
// core has, the test of each rule, and the tables.
func WriteMarkdown(w io.Writer, p *Plan, cells []Cell, measures []MeasureInfo) error {
	out := bufio.NewWriter(w)
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) } // Flush returns the error
	times := &p.Setup.Times
	measures = times.in(measures)
	printf("%s", intro)
	printf("\n## Measures\n\n")
	for _, m := range measures {
		printf("- **%s**: %s.\n", m.Title, m.Meaning)
	}
	printf("\n%s A share is a single number.\n", times.legend())
	printf("\n## Scenarios\n\nA run lasts %v of virtual time after its fault. The page has one scenario more, `%s`.\n\n", time.Duration(times.lasting(runTime)), lostVotes.Name)
	for _, s := range p.Scenarios {
		printf("- **%s** (`%s`): %s\n", s.Title, s.Name, s.Told(times))
	}
	printf("\n## Algorithms\n")
	for _, a := range p.Algorithms {
		describe(printf, a)
	}
	describeCore(printf)
	printf("%s", rules)
	printf("\n## Tables\n\nTimes are those of the profile *%s*. Seeds begin at %d, the same for all.\n", p.Setup.Times.Name, p.First)
	glance(printf, p, cells)
	for i := range measures {
		if slices.Contains(overview, measures[i].Measure) {
			matrices(printf, p, cells, &measures[i])
		}
	}
	for _, group := range groups(cells) {
		if slices.Contains(detailed, group[0].N) {
			printf("\n### %s, n = %d, %d seeds\n\n", group[0].Scenario.Title, group[0].N, len(group[0].Outcomes))
			writePipes(printf, rows(group, measures))
		}
	}
	return out.Flush()
}

// detailed are the sizes whose cells are shown in full; overview are the measures that are shown for all sizes.
var (
	detailed = []int{5, MembersMax}
	overview = []Measure{Agreement, TwoLeaders, TwoInTerm, Changes, Ends}
)

type printer func(format string, args ...any)

func describe(printf printer, a *Algorithm) {
	printf("\n### %s\n\n`%s`. %s.\n\n", a.Title, a.Name, strings.TrimSuffix(a.Source, "."))
	for _, line := range []struct{ what, text string }{
		{"Assumes", a.Assumes}, {"Guarantees", a.Guarantees}, {"In the core today", a.CoreHas()}, {"Not in the core", a.CoreLacks()},
		{"Not taken over", a.Leaves},
	} {
		if line.text != "" {
			printf("- %s: %s\n", line.what, line.text)
		}
	}
	for _, c := range a.Choices {
		printf("- *(choice)* %s\n", c)
	}
}

// describeCore writes which features of the algorithms the core has, and which it lacks.
func describeCore(printf printer) {
	printf("\n## The Raft core today\n\n| in the core | file | function |\n|---|---|---|\n")
	for _, p := range coreParts {
		printf("| %s | `%s` | `%s` |\n", p.What, p.File, p.Func)
	}
	printf("\nIt does not have, though an algorithm here suggests it:\n\n")
	for i, l := range coreLacks {
		end := ";"
		if i == len(coreLacks)-1 {
			end = "."
		}
		printf("- %s%s\n", l.What, end)
	}
}

// matrices writes one measure of every algorithm in every scenario, for each size that is not shown in full.
func matrices(printf printer, p *Plan, cells []Cell, m *MeasureInfo) {
	title := strings.ToUpper(m.Title[:1]) + m.Title[1:]
	switch m.unit {
	case nanoseconds:
		title += " (ms)"
	case inSeconds:
		title += " (s)"
	}
	for _, n := range p.Sizes {
		table := matrix(p, cells, m, n)
		if len(table) > 1 && !slices.Contains(detailed, n) {
			printf("\n### %s, n = %d\n\n", title, n)
			writePipes(printf, table)
		}
	}
}

// matrix returns a table with a row for each algorithm and a column for each scenario.
func matrix(p *Plan, cells []Cell, m *MeasureInfo, n int) [][]string {
	head := []string{"algorithm"}
	texts := map[*Algorithm][]string{} // empty if the scenario does not apply to the algorithm
	for _, group := range groups(cells) {
		if group[0].N != n {
			continue
		}
		for i := range group {
			c := &group[i]
			for len(texts[c.Algorithm]) < len(head)-1 {
				texts[c.Algorithm] = append(texts[c.Algorithm], "")
			}
			texts[c.Algorithm] = append(texts[c.Algorithm], m.Text(Summarize(c.Values(m.Measure)), len(c.Outcomes)))
		}
		head = append(head, group[0].Scenario.Name)
	}
	if len(head) == 1 {
		return nil
	}
	table := [][]string{head}
	for _, a := range p.Algorithms {
		if m.Measure == TwoInTerm && !a.Epochs {
			continue
		}
		row := append([]string{a.Name}, texts[a]...)
		for len(row) < len(head) {
			row = append(row, "")
		}
		table = append(table, row)
	}
	return table
}

// writePipes writes a table, headings first. The first column is aligned to the left.
func writePipes(printf printer, table [][]string) {
	for i, row := range table {
		printf("| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			printf("|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
}
