package zoo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Verdict returns in a word how a mutant was killed: by the simulator, by a test, or not at all.
func (r *Report) Verdict() string {
	switch {
	case r.ID == Noop && !r.Killed:
		return "lives, as it must"
	case r.Killed && r.ByTest:
		return "killed by a test"
	case r.Killed && r.ByScenario:
		return "killed in a scenario"
	case r.Killed:
		return "killed"
	case r.Excuse != "":
		return "lives, for a reason"
	}
	return "SURVIVES"
}

// Honest returns an error if the keepers of the zoo show that the other reports are invalid.
func Honest(reports []Report) error {
	for i := range reports {
		switch r := &reports[i]; {
		case r.ID == Canary && !r.Killed:
			return fmt.Errorf("zoo: the canary lives: mutants are not noticed, or not in the build")
		case r.ID == Noop && r.Killed:
			return fmt.Errorf("zoo: the no-op was killed: seed %s fails without any mutant: %s: %s", r.Seed, r.Rule, firstLine(r.Text))
		}
	}
	return nil
}

// Survivors returns the ids of the mutants that nothing killed, without a known reason.
func Survivors(reports []Report) (ids []string) {
	for i := range reports {
		if r := &reports[i]; !r.Killed && r.Excuse == "" && r.ID != Noop {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// summary counts the results, and separately those of the mutants that were written before their checks.
func summary(reports []Report) string {
	var arranged, blind []Report
	for _, r := range reports {
		if r.Before {
			arranged = append(arranged, r)
		} else {
			blind = append(blind, r)
		}
	}
	return fmt.Sprintf("%s. Of these, %s were written before the check that kills them, or with it, so that their death was "+
		"arranged; and %s after it, against checks that were there", count(reports), count(arranged), count(blind))
}

func count(reports []Report) string {
	bySeed, byScenario, byTest, excused, all := 0, 0, 0, 0, 0
	for i := range reports {
		r := &reports[i]
		if r.ID == Noop || r.ID == Canary {
			continue
		}
		all++
		switch {
		case r.Killed && r.ByTest:
			byTest++
		case r.Killed && r.ByScenario:
			byScenario++
		case r.Killed:
			bySeed++
		case r.Excuse != "":
			excused++
		}
	}
	return fmt.Sprintf("%d mutants: %d killed by seeds of the simulator, %d by its directed scenarios alone, %d by tests alone, "+
		"%d live for a reason, %d survive", all, bySeed, byScenario, byTest, excused, all-bySeed-byScenario-byTest-excused)
}

// medians says what the figures of killed mutants are.
func medians(reports []Report) string {
	ranges := 1
	for i := range reports {
		ranges = max(ranges, len(reports[i].Ranges))
	}
	if ranges == 1 {
		return "Seeds and virtual time are those until the kill, in one range of seeds"
	}
	return fmt.Sprintf("Seeds and virtual time until the kill are medians of %d ranges of seeds", ranges)
}

// WriteText prints the scoreboard for a terminal.
func WriteText(w io.Writer, reports []Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tVERDICT\tBY\tWRITTEN\tSEEDS\tVIRTUAL\tWALL\tRULE BROKEN")
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%v\t%s\n",
			r.ID, r.Verdict(), r.by(), r.written(), r.seeds(), r.virtual(), r.Wall.Round(10*time.Millisecond), r.Broken)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n", summary(reports), medians(reports))
	return err
}

// WriteJSON prints the reports as one JSON array.
func WriteJSON(w io.Writer, reports []Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(reports)
}

// WriteMarkdown prints the scoreboard as a table for a page.
func WriteMarkdown(w io.Writer, reports []Report) error {
	var b strings.Builder
	b.WriteString("| id | the rule | the bug | killed by | written | seeds | virtual time | seen in the wild |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for i := range reports {
		r := &reports[i]
		by := r.by()
		if r.ByTest && r.Killed {
			by = "`" + r.Rule + "`"
		} else if !r.Killed && r.ID != Noop {
			by = "**survives**"
			if r.Excuse != "" {
				by = "lives, because " + r.Excuse
			}
		}
		cells := []string{r.ID, r.Broken, r.Bug, by, r.written(), r.seeds(), r.virtual(), dash(r.Seen)}
		for k, cell := range cells {
			cells[k] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintf(&b, "\n%s. %s.\n\nNot in the zoo:\n\n", summary(reports), medians(reports))
	for _, a := range absences {
		fmt.Fprintf(&b, "- %s: %s.\n", strings.Join(a.ids, ", "), a.because)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// written returns whether the mutant is older than the check that kills it.
func (r *Report) written() string {
	switch {
	case !r.Killed || r.ID == Canary:
		return "–"
	case r.Before:
		return "before its check"
	}
	return "after its check"
}

func (r *Report) seeds() string {
	if r.Outside {
		return "–"
	}
	m := r.Median()
	if r.Killed && !r.ByTest && (r.ByScenario || !m.Killed) {
		return fmt.Sprintf("over %d", m.Seeds)
	}
	return fmt.Sprint(m.Seeds)
}

func (r *Report) virtual() string {
	if r.Outside {
		return "–"
	}
	return r.Median().Virtual.Round(100 * time.Millisecond).String()
}

// by is the rule that noticed, and the scenario that does.
func (r *Report) by() string {
	switch {
	case r.ByScenario:
		return r.Rule + " in " + r.Scenario
	case r.Scenario != "":
		return dash(r.Rule) + ", also in " + r.Scenario
	}
	return dash(r.Rule)
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
