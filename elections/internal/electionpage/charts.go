package electionpage

import (
	"encoding/json"
	"html/template"
	"slices"

	"github.com/coxswain/raft/elections"
)

// chartData is what the charts are drawn from.
type chartData struct {
	Algorithms []named       `json:"algorithms"`
	Scenarios  []named       `json:"scenarios"`
	Measures   []chartOf     `json:"measures"`
	Sizes      []int         `json:"sizes"`
	Shown      int           `json:"shown"` // the size that is shown first
	Cells      []chartedCell `json:"cells"`
}

type named struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

type chartOf struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Meaning string `json:"meaning"`
	Unit    string `json:"unit"`
	Bad     bool   `json:"bad,omitempty"` // it must not be above 0
}

// chartedCell is a cell; the values are by measure: median, p99, worst, sum.
type chartedCell struct {
	Algorithm int        `json:"a"` // by index
	Scenario  int        `json:"s"`
	N         int        `json:"n"`
	Runs      int        `json:"r"`
	Values    [][4]int64 `json:"v"`
}

// charts is the part of the page below the diagrams.
func charts(
	p *elections.Plan, cells []elections.Cell, measures []elections.MeasureInfo, shown int,
) (template.HTML, error) {
	d := chartData{Sizes: p.Sizes, Shown: shown}
	algorithms, scenarios := map[*elections.Algorithm]int{}, map[*elections.Scenario]int{}
	for i, a := range p.Algorithms {
		algorithms[a] = i
		d.Algorithms = append(d.Algorithms, named{a.Name, a.Title})
	}
	for _, s := range p.Scenarios {
		if slices.ContainsFunc(p.Algorithms, s.Takes) {
			scenarios[s] = len(d.Scenarios)
			d.Scenarios = append(d.Scenarios, named{s.Name, s.Title})
		}
	}
	for i := range measures {
		m := &measures[i]
		bad := m.Measure == elections.TwoLeaders || m.Measure == elections.TwoInTerm
		d.Measures = append(d.Measures, chartOf{m.Name, m.Title, m.Meaning, m.Unit(), bad})
	}
	for i := range cells {
		c := &cells[i]
		charted := chartedCell{
			Algorithm: algorithms[c.Algorithm], Scenario: scenarios[c.Scenario], N: c.N, Runs: len(c.Outcomes),
		}
		for _, m := range measures {
			s := elections.Summarize(c.Values(m.Measure))
			charted.Values = append(charted.Values, [4]int64{s.Median, s.P99, s.Worst, s.Sum})
		}
		d.Cells = append(d.Cells, charted)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return part("charts.html", map[string]any{
		"Data": template.JS(text), "Style": template.CSS(asset("lab.css")), "Script": template.JS(asset("charts.js")),
	})
}
