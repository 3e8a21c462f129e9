package zoo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Verdict says in a few words how a mutant was killed: by the simulator, by a test, or not at all.
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

// Honest returns an error if the reports on the keepers of the zoo show that the other reports are invalid.
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

// Survivors returns the ids of the mutants that nothing killed and that have no known reason to survive.
func Survivors(reports []Report) (ids []string) {
	for i := range reports {
		if r := &reports[i]; !r.Killed && r.Excuse == "" && r.ID != Noop {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// grouped holds the reports of a scoreboard in groups by result. Each report is in one group.
type grouped struct {
	newer   []Report // killed by a check that is older than the bug
	alive   []Report // killed by nothing
	known   []Report // killed by a check that was written when the bug was known, so that its death was arranged
	keepers []Report
}

func group(reports []Report) (g grouped) {
	for _, r := range reports {
		into := &g.newer
		switch {
		case r.ID == Canary || r.ID == Noop:
			into = &g.keepers
		case !r.Killed:
			into = &g.alive
		case r.Before:
			into = &g.known
		}
		*into = append(*into, r)
	}
	return g
}

// Summary counts the results. It begins with the mutants that are newer than the checks that kill them.
func Summary(reports []Report) string {
	g, survivors := group(reports), len(Survivors(reports))
	return fmt.Sprintf("Of %d mutants, %d were killed by a check that is older than they are (%s), and %d by a check that was "+
		"written when the bug was known, so that their death was arranged (%s); %d live for a reason, and %d survive",
		len(g.newer)+len(g.alive)+len(g.known), len(g.newer), killers(g.newer), len(g.known), killers(g.known),
		len(g.alive)-survivors, survivors)
}

// killers counts the mutants by their killers.
func killers(killed []Report) string {
	byScenario, byTest := 0, 0
	for i := range killed {
		switch r := &killed[i]; {
		case r.ByTest:
			byTest++
		case r.ByScenario:
			byScenario++
		}
	}
	return fmt.Sprintf("%d by seeds of the simulator, %d by its directed scenarios alone, %d by tests alone",
		len(killed)-byScenario-byTest, byScenario, byTest)
}

// medians returns the sentence that explains the figures of killed mutants.
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
	_, err := fmt.Fprintf(w, "\n%s\n%s\n", Summary(reports), medians(reports))
	return err
}

// WriteJSON prints the reports as one JSON array.
func WriteJSON(w io.Writer, reports []Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(reports)
}

// WriteMarkdown prints the scoreboard as tables for a page. First come the mutants that are newer than the checks that kill
// them, then the survivors, and then the mutants whose death was arranged.
func WriteMarkdown(w io.Writer, reports []Report) error {
	var b strings.Builder
	g := group(reports)
	for _, section := range []struct {
		title   string
		reports []Report
	}{
		{"Bugs that are newer than the check that kills them", g.newer},
		{"Bugs that nothing kills", g.alive},
		{"Bugs that were known when the check that kills them was written", g.known},
		{"Tests of the zoo itself", g.keepers},
	} {
		if len(section.reports) > 0 {
			fmt.Fprintf(&b, "#### %s: %d\n\n", section.title, len(section.reports))
			writeTable(&b, section.reports)
		}
	}
	fmt.Fprintf(&b, "%s.\n\nNot in the zoo:\n\n", medians(reports))
	for _, a := range absences {
		fmt.Fprintf(&b, "- %s: %s.\n", strings.Join(a.ids, ", "), a.because)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable prints a row for each report.
func writeTable(b *strings.Builder, reports []Report) {
	b.WriteString("| id | the rule | the bug | killed by | seeds | virtual time | seen in the wild |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
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
		cells := []string{r.ID, r.Broken, r.Bug, by, r.seeds(), r.virtual(), dash(r.Seen)}
		for k, cell := range cells {
			cells[k] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	b.WriteString("\n")
}

// written says whether the mutant was known before or after the check that kills it was written.
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

// by returns the rule and the scenario that noticed the mutant.
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
