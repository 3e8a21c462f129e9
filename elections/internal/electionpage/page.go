package electionpage

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/viewer"
)

//go:embed assets
var assets embed.FS

// usualSize is the number of members in the diagrams, if that size was compared.
const usualSize = 5

// lanesMax is the largest number of columns in a readable diagram.
const lanesMax = 25

// Write writes the page of a comparison: a diagram of one run of each cell of one size, and charts of all
// cells. cells are those that p.Compare returned.
func Write(w io.Writer, p *elections.Plan, cells []elections.Cell, measures []elections.MeasureInfo) error {
	setup := p.Setup
	setup.N = size(p.Sizes)
	page := viewer.Page{
		Title: "Leader elections, side by side",
		Axes:  []string{"algorithm", "scenario"}, Shared: "scenario", Panes: 2, About: about(p),
	}
	var err error
	if page.Diagrams, err = diagrams(p, cells, &setup); err != nil {
		return err
	}
	stops := tour(page.Diagrams)
	if len(stops) > 0 {
		page.Start = string(stops[0].Place)
	}
	lead := map[string]any{
		"Stops": stops, "N": setup.N, "Algorithms": len(p.Algorithms), "Seeds": p.Seeds, "Diagrams": len(page.Diagrams), "States": states,
	}
	if page.Lead, err = part("lead.html", lead); err != nil {
		return err
	}
	if page.Body, err = charts(p, cells, measures, setup.N); err != nil {
		return err
	}
	return viewer.Write(w, page)
}

// diagrams returns a diagram for one run of each cell of this size, and those of the example.
func diagrams(p *elections.Plan, cells []elections.Cell, setup *elections.Setup) (drawn []viewer.Diagram, err error) {
	if setup.N > lanesMax {
		return nil, nil
	}
	add := func(a *elections.Algorithm, s *elections.Scenario, seed uint64) {
		t, failed := read(a, s, setup, seed)
		if err = errors.Join(err, failed); err == nil {
			d := draw(t, a, s, setup.Times.Heartbeat)
			d.Text = fmt.Sprintf("Seed %d", seed)
			drawn = append(drawn, d)
		}
	}
	for i := range cells {
		if c := &cells[i]; c.N == setup.N {
			add(c.Algorithm, c.Scenario, p.First+uint64(telling(c)))
		}
	}
	for _, a := range p.Algorithms {
		if setup.N >= exampleFrom {
			add(a, elections.LostVotes(), exampleSeed)
		}
	}
	return drawn, err
}

// The example needs at least this many members; the seed could be any other. With this seed Raft's leader is member 2, and
// member 1 does not hear it.
const (
	exampleFrom = 5
	exampleSeed = 9
)

// size returns the number of members in the diagrams.
func size(sizes []int) int {
	if slices.Contains(sizes, usualSize) {
		return usualSize
	}
	return slices.Min(sizes)
}

// telling returns the index of the run of a cell that shows most. That is the run in which two leaders of one term last
// longest. A tie is decided by the time with two leaders in any terms, then by the number of changes without a cause.
func telling(c *elections.Cell) int {
	best := 0
	for i := range c.Outcomes {
		a, b := &c.Outcomes[i], &c.Outcomes[best]
		for _, m := range []elections.Measure{elections.TwoInTerm, elections.TwoLeaders, elections.Changes} {
			if a[m] != b[m] {
				if a[m] > b[m] {
					best = i
				}
				break
			}
		}
	}
	return best
}

// about describes each algorithm, with its source and its guarantee, and each scenario.
func about(p *elections.Plan) map[string][]viewer.Fact {
	facts := map[string][]viewer.Fact{}
	for _, a := range p.Algorithms {
		for _, fact := range []viewer.Fact{
			{Name: "Assumes", Text: a.Assumes}, {Name: "Guarantees", Text: a.Guarantees},
			{Name: "In the core today", Text: a.CoreHas()}, {Name: "Not in the core", Text: a.CoreLacks()},
			{Name: "Not taken over", Text: a.Leaves},
			{Name: "Source", Text: a.Source},
		} {
			if fact.Text != "" {
				facts[a.Title] = append(facts[a.Title], fact)
			}
		}
	}
	for _, s := range append(slices.Clip(p.Scenarios), elections.LostVotes()) {
		facts[s.Title] = []viewer.Fact{{Name: "Scenario", Text: s.Told(&p.Setup.Times)}}
	}
	return facts
}

// part fills in a template of assets.
func part(name string, values any) (template.HTML, error) {
	t, err := template.ParseFS(assets, "assets/"+name)
	if err != nil {
		return "", fmt.Errorf("electionpage: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, values); err != nil {
		return "", fmt.Errorf("electionpage: %w", err)
	}
	return template.HTML(b.String()), nil
}

// asset returns a file that is compiled in.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the names are constants of this package
	}
	return string(text)
}
