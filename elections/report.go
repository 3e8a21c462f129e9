package elections

import (
	"encoding/json"
	"io"
)

// ReportFormat is the version of Report. If a change matters to a reader, the change raises the version.
const ReportFormat = 1

// Report is a comparison as JSON. It holds the measures of every run, so that each number of a table can be
// computed again.
type Report struct {
	Format int    `json:"format"`
	Times  string `json:"times"` // the time profile
	First  uint64 `json:"first"` // the seed of the first run of each cell; the others follow
	Legend string `json:"legend"`
	// How the members were configured, if not by default; see Options.
	Candidates []Rank `json:"candidates,omitempty"`
	Priorities []int  `json:"priorities,omitempty"`
	Wins       int    `json:"wins,omitempty"`
	Qualities  []int  `json:"qualities,omitempty"`

	Changes []PriorityChange `json:"priority_changes,omitempty"`

	Cells []ReportCell `json:"cells"`
}

// ReportCell is one cell. It maps the name of each measure to its summary, and to its value in each run, by
// seed. Times are in nanoseconds. -1 is Never.
type ReportCell struct {
	Algorithm string                   `json:"algorithm"`
	Scenario  string                   `json:"scenario"`
	N         int                      `json:"n"`
	Runs      int                      `json:"runs"`
	Summary   map[string]ReportSummary `json:"summary"`
	Values    map[string][]int64       `json:"values"`
}

// ReportSummary is a Summary as JSON.
type ReportSummary struct {
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
	Worst  int64 `json:"worst"`
	Sum    int64 `json:"sum"` // of the values that are not -1
}

// NewReport returns a report of the cells. Its encoding is the same on every machine.
func NewReport(p *Plan, cells []Cell, measures []MeasureInfo) *Report {
	s := &p.Setup
	r := &Report{
		Format: ReportFormat, Times: s.Times.Name, First: p.First, Legend: s.Times.legend(),
		Candidates: s.Candidates, Priorities: s.Priorities, Wins: s.Wins, Changes: s.Changes, Qualities: s.Qualities,
	}
	for i := range cells {
		c := &cells[i]
		cell := ReportCell{
			Algorithm: c.Algorithm.Name, Scenario: c.Scenario.Name, N: c.N, Runs: len(c.Outcomes),
			Summary: map[string]ReportSummary{}, Values: map[string][]int64{},
		}
		for _, m := range measures {
			cell.Values[m.Name] = c.Values(m.Measure)
			cell.Summary[m.Name] = ReportSummary(Summarize(cell.Values[m.Name]))
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

// Write writes the report as one line.
func (r *Report) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
