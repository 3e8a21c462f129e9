package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// summary combines all runs.
type summary struct {
	Conditions conditions `json:"conditions"` // conditions of the first session
	Sessions   int        `json:"sessions"`
	Runs       int        `json:"runs"` // number of runs that count
	// Disturbed and failed runs do not count.
	Disturbed int           `json:"disturbed"`
	Failed    int           `json:"failed"`
	Results   []measurement `json:"-"`

	values map[place]map[int]float64
	failed []failure
}

// failure describes the failed runs of a contestant in a cell.
type failure struct {
	cell, contestant, why string
	runs                  int
}

func (s *summary) addFailure(r result) {
	s.Failed++
	for i, f := range s.failed {
		if f.cell == r.Cell.String() && f.contestant == r.Contestant {
			s.failed[i].runs++
			return
		}
	}
	s.failed = append(s.failed, failure{r.Cell.String(), r.Contestant, r.Failure, 1})
}

// measurement is one figure of one contestant in one cell.
type measurement struct {
	Cell       string          `json:"cell"`
	Contestant string          `json:"contestant"`
	Figure     string          `json:"figure"`
	Median     float64         `json:"median"`
	Interval   []float64       `json:"interval_95,omitempty"`
	Rounds     map[int]float64 `json:"rounds"`
}

// place identifies a measurement.
type place struct{ cell, contestant, figure string }

func summarise(records []record) summary {
	s := summary{values: map[place]map[int]float64{}}
	for _, r := range records {
		switch {
		case r.Conditions != nil && s.Sessions == 0:
			s.Conditions = *r.Conditions
			s.Sessions++
		case r.Conditions != nil:
			s.Sessions++
		case r.Run.Failure != "":
			s.addFailure(*r.Run)
		case r.Run.Disturbed:
			s.Disturbed++
		default:
			s.add(*r.Run)
		}
	}
	for at, rounds := range s.values {
		e := estimateOf(valuesOf(rounds))
		m := measurement{at.cell, at.contestant, at.figure, e.Median, nil, rounds}
		if e.known() {
			m.Interval = []float64{e.Low, e.High}
		}
		s.Results = append(s.Results, m)
	}
	slices.SortFunc(s.Results, func(a, b measurement) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Contestant, b.Contestant), cmp.Compare(a.Figure, b.Figure))
	})
	return s
}

func (s *summary) add(r result) {
	s.Runs++
	for name, x := range r.Figures {
		at := place{r.Cell.String(), r.Contestant, name}
		if s.values[at] == nil {
			s.values[at] = map[int]float64{}
		}
		s.values[at][r.Round] = significant(x)
	}
}

// significant rounds a figure to four digits, because the other digits are noise.
func significant(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // a number
	return rounded
}

// json returns the summary with a line for each measurement.
func (s *summary) json() ([]byte, error) {
	var lines [][]byte
	for _, m := range s.Results {
		line, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	head, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, err
	}
	head = bytes.TrimSuffix(head, []byte("\n}"))
	return fmt.Appendf(nil, "%s,\n \"results\": [\n%s\n]}\n", head, bytes.Join(lines, []byte(",\n"))), nil
}

// of returns one figure of one contestant.
func (s *summary) of(c cell, contestant, figure string) estimate {
	return estimateOf(valuesOf(s.values[place{c.String(), contestant, figure}]))
}

func valuesOf(rounds map[int]float64) []float64 { return slices.Collect(maps.Values(rounds)) }

// measured returns, in the given order, the contestants that have this figure in at least one of the cells.
func (s *summary) measured(cells []cell, names []string, figure string) (who []string) {
	for _, name := range names {
		if slices.ContainsFunc(cells, func(c cell) bool { return s.of(c, name, figure).Runs > 0 }) {
			who = append(who, name)
		}
	}
	return who
}

// comparison compares one of ours with the best of the others.
type comparison struct {
	best  string
	ratio estimate // ours ÷ theirs, round by round
}

// compare finds the best of the others, and divides the figure of ours by theirs. If lower is true, a lower figure is better.
func (s *summary) compare(c cell, ours string, others []string, figure string, lower bool) (comparison, bool) {
	best, found := estimate{}, ""
	for _, name := range others {
		e := s.of(c, name, figure)
		if e.Runs > 0 && (found == "" || (e.Median < best.Median) == lower) {
			best, found = e, name
		}
	}
	values := ratios(s.values[place{c.String(), ours, figure}], s.values[place{c.String(), found, figure}])
	return comparison{found, estimateOf(values)}, len(values) > 0
}

// verdict returns the conclusion that the interval allows.
func (c comparison) verdict(lower bool) string {
	switch e := c.ratio; {
	case !e.known():
		return tooFew
	case e.Low <= 1 && e.High >= 1:
		return noDifference
	case (e.Median < 1) == lower:
		return better
	}
	return worse
}

// seemsWorse compares only the median.
func (c comparison) seemsWorse(lower bool) bool {
	return c.ratio.Median != 1 && (c.ratio.Median > 1) == lower
}

// The verdicts.
const (
	tooFew       = "too few runs"
	noDifference = "even"
	better       = "better"
	worse        = "**worse**"
)

func names(of []contestant) (list []string) {
	for _, c := range of {
		list = append(list, c.name)
	}
	return list
}

// oursAndOthers returns the names of our contestants and of the others, without the contestants that are only a reference.
func oursAndOthers() (ours, others []string) {
	for _, c := range contestants {
		switch {
		case c.ours():
			ours = append(ours, c.name)
		case !c.reference:
			others = append(others, c.name)
		}
	}
	return ours, others
}

func (c conditions) String() string {
	return fmt.Sprintf("%s, %d cores, %d MiB, Linux %s, %s; commit %s; %s", c.CPU, c.Cores, c.Memory, c.Kernel, c.Go, c.Commit,
		c.Time.Format("2006-01-02"))
}
