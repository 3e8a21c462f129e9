package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/node"
	"github.com/spf13/cobra"
)

func newDoctor(r *reach) *cobra.Command {
	var asJSON bool
	var mayStop string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with the cluster, and what to do first",
		Long: `doctor asks the servers, and all members that they name, and joins what they say. It prints the verdict first, then the
evidence, the command to begin with and the entry of the runbook, then what else is wrong, and who hears whom. It changes nothing.

Exit codes: 0 healthy; 2 bad usage; 6 degraded: the cluster serves, but a member does not count; 7 not serving; 8 no server could be
asked; 10 nothing but notices: the cluster serves fully, and something needs attention by day. With --may-stop: 0 the member may be
stopped now; 4 it must not; 8 no server could be asked.`,
		Example: "  raftkv doctor\n  raftkv doctor --server http://10.0.0.1:4001\n  raftkv doctor --may-stop n3 && systemctl stop raftkv",
		Args:    usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			urls, err := r.found()
			if err != nil {
				return err
			}
			shared := client.NewHTTP(1, min(r.timeout, admin.AskTimeout))
			defer shared.CloseIdleConnections()
			ask := admin.Asking(shared)
			if mayStop != "" {
				return showStopping(cmd.OutOrStdout(), admin.MayStop(cmd.Context(), mayStop, urls, ask), asJSON)
			}
			return showDiagnosis(cmd.OutOrStdout(), admin.Diagnose(cmd.Context(), urls, ask), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the diagnosis, with all that the servers report, as one JSON object")
	cmd.Flags().StringVar(&mayStop, "may-stop", "", "say whether this member may be stopped now, and why not")
	return cmd
}

func showStopping(out io.Writer, s admin.Stopping, asJSON bool) error {
	var err error
	switch {
	case asJSON:
		err = json.NewEncoder(out).Encode(s)
	case s.May:
		_, err = fmt.Fprintf(out, "yes: %s\n", s.Says)
	default:
		if _, err = fmt.Fprintf(out, "no: %s\n", s.Says); err == nil && s.Diagnosis.Severity != "" {
			err = printFinding(out, s.Diagnosis.Findings[0], "verdict")
		}
	}
	switch {
	case err != nil:
		return err
	case !s.Diagnosis.Answered():
		return &exitError{exitUnanswered, errors.New("no server answers")}
	case !s.May:
		return &exitError{exitConditionFailed, fmt.Errorf("do not stop %s now", s.Member)}
	}
	return nil
}

func showDiagnosis(out io.Writer, d *admin.Diagnosis, asJSON bool) error {
	print := printDiagnosis
	if asJSON {
		print = func(out io.Writer, d *admin.Diagnosis) error { return json.NewEncoder(out).Encode(d) }
	}
	if err := print(out, d); err != nil {
		return err
	}
	codes := map[node.Severity]int{node.Outage: exitNotServing, node.Degraded: exitDegraded, node.Notice: exitNotice}
	switch {
	case !d.Answered():
		return &exitError{exitUnanswered, errors.New("no server answers")}
	case d.Severity != "":
		return &exitError{codes[d.Severity], fmt.Errorf("%s: %s", d.Severity, d.Verdict)}
	}
	return nil
}

func printDiagnosis(out io.Writer, d *admin.Diagnosis) error {
	if len(d.Findings) == 0 {
		if _, err := fmt.Fprintf(out, "verdict: %s%s\n", admin.Healthy, prefixed(": ", survives(d.Leader()))); err != nil {
			return err
		}
	}
	for i, f := range d.Findings {
		title := "also"
		if i == 0 {
			title = "verdict"
		}
		if err := printFinding(out, f, title); err != nil {
			return err
		}
	}
	return printLinks(out, d.Links)
}

// survives says how many failures a healthy cluster survives.
func survives(leader *admin.Status) string {
	if leader == nil {
		return ""
	}
	voters := 0
	for _, m := range leader.Members {
		if m.Kind == admin.StandingVoter {
			voters++
		}
	}
	switch left := voters - quorum(voters); {
	case left == 0:
		return map[int]string{1: "one voter", 2: "two voters"}[voters] + ", so it survives no failure; add the others"
	case left == 1:
		return "survives 1 failure"
	default:
		return fmt.Sprintf("survives %d failures", left)
	}
}

func printFinding(out io.Writer, f admin.Diagnosed, title string) error {
	about := ""
	if f.Member != "" {
		about = " (" + f.Member + ")"
	}
	_, err := fmt.Fprintf(out, "%s: %s%s, %s\n  %s\n", title, f.Verdict, about, f.Severity, cmp.Or(f.Says, "-"))
	for _, e := range f.Evidence {
		if err == nil && e != f.Says {
			_, err = fmt.Fprintf(out, "  evidence: %s\n", e)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "  next: %s\n  see:  %s\n", f.Next, f.Runbook)
	}
	return err
}

// printLinks prints a matrix: the members of a row hear those of the columns.
func printLinks(out io.Writer, links []admin.Link) error {
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, l := range links {
		rows, columns = append(rows, l.Member), append(columns, l.Member, l.Hears)
		cells[[2]string{l.Member, l.Hears}] = map[bool]string{true: "yes", false: "NO"}[l.Works]
	}
	slices.Sort(rows)
	slices.Sort(columns)
	rows, columns = slices.Compact(rows), slices.Compact(columns)
	if len(rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "who hears whom") // Flush returns the error
	for _, c := range columns {
		_, _ = fmt.Fprint(table, "\t"+c)
	}
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, "\n%s hears", r)
		for _, c := range columns {
			_, _ = fmt.Fprint(table, "\t"+cmp.Or(cells[[2]string{r, c}], "-"))
		}
	}
	_, _ = fmt.Fprintln(table)
	return table.Flush()
}
