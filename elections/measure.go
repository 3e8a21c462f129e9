package elections

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Measure names a number that is measured in each run.
type Measure int

// The measures.
const (
	Messages   Measure = iota // sent from the fault until the members agree
	Bytes                     // of these messages
	Elections                 // that members began from the fault until they agree
	Agreement                 // time from the fault until the members agree, in nanoseconds
	TwoLeaders                // the longest time with two leaders at one instant
	TwoInTerm                 // the longest time with two leaders in one term
	Changes                   // leader changes without a cause
	Leaderless                // total time without any leader
	Ends                      // 1: the members agree when the time is up
	measures
)

// Never is the value of a measure that does not exist in a run, because the members never agreed, or because the algorithm
// has no terms. It is worse than any other value.
const Never = -1

// Outcome holds what was measured in one run, by Measure.
type Outcome [measures]int64

// MeasureInfo describes a measure.
type MeasureInfo struct {
	Measure Measure
	Name    string // in commands and JSON
	Title   string // in tables
	Meaning string
	unit    unit
}

type unit int

const (
	count       unit = iota
	nanoseconds      // shown in milliseconds
	inSeconds        // nanoseconds, shown in seconds
	share
)

var measureInfos = []MeasureInfo{
	{Messages, "messages", "messages", "messages sent from the fault until the members agree", count},
	{Bytes, "bytes", "bytes", "bytes of these messages", count},
	{Elections, "elections", "elections", "elections that members began from the fault until they agree; a member with " +
		"ballots holds one in every period", count},
	{Agreement, "agreement", "agreement", "time from the fault until the members agree: all that " +
		"are connected to a live leader follow it in its present reign", nanoseconds},
	{TwoLeaders, "two-leaders", "two leaders", "longest time with two leaders at one instant", nanoseconds},
	{TwoInTerm, "two-in-term", "two in one term", "longest time with two leaders in one term, round or epoch", nanoseconds},
	{Changes, "changes", "changes", "leader changes without a cause: the old leader was up, and connected both ways to a majority, " +
		"ever since it began to lead, no priority was changed, and nobody else leads", count},
	{Leaderless, "leaderless", "no leader", "total time without any leader", nanoseconds},
	{Ends, "ends", "ends", "share of the runs in which the members agree when the time is up", share},
}

// in returns the measures with the units that tables of this profile use.
func (t *Times) in(measures []MeasureInfo) []MeasureInfo {
	if !t.inSeconds() {
		return measures
	}
	shown := slices.Clone(measures)
	for i := range shown {
		if shown[i].unit == nanoseconds {
			shown[i].unit = inSeconds
		}
	}
	return shown
}

// Measures returns every measure, in the order of the tables.
func Measures() []MeasureInfo { return measureInfos }

// Summary summarizes a measure over all seeds of a cell.
type Summary struct {
	Median, P99, Worst int64
	Sum                int64 // of the values that are not Never; the Sum of Ends is the number of runs that end in agreement
}

// Summarize summarizes the values. It sorts Never last, because Never is the worst value. The p-th percentile is the smallest
// value that p percent of the values do not exceed.
func Summarize(values []int64) Summary {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b int64) int { // Never, as an unsigned number, is the largest
		switch ua, ub := uint64(a), uint64(b); {
		case ua < ub:
			return -1
		case ua > ub:
			return 1
		}
		return 0
	})
	s := Summary{Median: percentile(sorted, 50), P99: percentile(sorted, 99), Worst: percentile(sorted, 100)}
	for _, v := range sorted {
		s.Sum += max(v, 0)
	}
	return s
}

func percentile(sorted []int64, p int) int64 {
	if len(sorted) == 0 {
		return Never
	}
	return sorted[(len(sorted)*p+99)/100-1]
}

// Unit returns the unit of its values: "ns", "%" for a share of the runs, or nothing.
func (i *MeasureInfo) Unit() string {
	return [...]string{count: "", nanoseconds: "ns", inSeconds: "ns", share: "%"}[i.unit]
}

// Text returns the text of a table for the summary s of this many runs.
func (i *MeasureInfo) Text(s Summary, runs int) string {
	if i.unit == share {
		perMille := s.Sum * 1000 / int64(max(runs, 1))
		return fmt.Sprintf("%d.%d %%", perMille/10, perMille%10)
	}
	return i.value(s.Median) + " / " + i.value(s.P99) + " / " + i.value(s.Worst)
}

// value formats times in milliseconds or seconds, and large numbers in thousands. It shows a value as 0 only if the value is
// exactly 0, because two leaders of one term are a fault, however short.
func (i *MeasureInfo) value(v int64) string {
	switch {
	case v == Never:
		return "–"
	case i.unit == nanoseconds && v > 0 && v < int64(time.Millisecond)/2:
		return "<1"
	case i.unit == nanoseconds:
		return strconv.FormatInt((v+int64(time.Millisecond)/2)/int64(time.Millisecond), 10)
	case v == 0:
		return "0"
	case i.unit == inSeconds && v < int64(time.Second)/20:
		return "<0.1"
	case i.unit == inSeconds:
		tenths := (v + int64(time.Second)/20) / (int64(time.Second) / 10)
		return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
	case v >= 100_000:
		return strconv.FormatInt((v+500)/1000, 10) + "k"
	}
	return strconv.FormatInt(v, 10)
}
