package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/processes"
	"github.com/coxswain/raft/fuzzy/zoo"
	"github.com/coxswain/raft/internal/usage"
)

//go:embed reliability.md.tmpl
var reliabilityTemplate string

// The names of the report files from which the page is made.
const (
	campaignFile = "campaign.json" // raftlab fuzz --json
	zooFile      = "zoo.json"      // raftlab zoo --json
	chaosFile    = "chaos.json"    // raftlab chaos --json
	caseFile     = "../../../fuzzy/testdata/cases/two_votes_in_a_term.txt"
)

// page is the data of the template.
type page struct {
	Campaign  *report
	Faults    []counted
	Decisions []counted
	Reached   int
	Rules     []fuzzy.Rule
	Summary   string // summary of the zoo
	Zoo       string
	Verdict   string // verdict of chaos
	Chaos     string
	Case      string // text of a case file
}

// counted is an event, and the number of times that it happened.
type counted struct {
	Name  string
	Count int
}

func newPage() *cobra.Command {
	var reports string
	cmd := &cobra.Command{
		Use: "page", Short: "Print docs/results/reliability.md from the reports of fuzz, zoo and chaos",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return writePage(cmd.OutOrStdout(), reports) },
	}
	cmd.Flags().StringVar(&reports, "reports", "docs/results/reliability", "directory of the reports")
	return cmd
}

// writePage prints the page. The same reports give the same page.
func writePage(w io.Writer, reports string) error {
	p := page{Rules: fuzzy.Rules(), Campaign: &report{}}
	var mutants []zoo.Report
	var chaotic processes.Report
	for name, into := range map[string]any{campaignFile: p.Campaign, zooFile: &mutants, chaosFile: &chaotic} {
		if err := readReport(filepath.Join(reports, name), into); err != nil {
			return err
		}
	}
	if p.Campaign.Seeds == 0 || len(mutants) == 0 || chaotic.Verdict == "" {
		return fmt.Errorf("%s: a report holds no result; `make reliability` makes the reports", reports)
	}
	var table strings.Builder
	if err := zoo.WriteMarkdown(&table, mutants); err != nil {
		return err
	}
	p.Summary, p.Zoo = zoo.Summary(mutants), table.String()
	p.Verdict, p.Chaos = chaotic.Verdict, chaotic.Markdown()
	shrunk, err := os.ReadFile(filepath.Join(reports, caseFile))
	if err != nil {
		return err
	}
	p.Case = string(shrunk)
	p.Faults = byCount(p.Campaign.ByFault)
	p.Decisions = byCount(p.Campaign.Decisions)
	for _, d := range p.Decisions {
		if d.Count > 0 {
			p.Reached++
		}
	}
	t, err := template.New("reliability").Parse(reliabilityTemplate)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, &p); err != nil {
		return err
	}
	_, err = w.Write(text.Bytes())
	return err
}

func readReport(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; `make reliability` makes the reports", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s is not a report: %w", path, err)
	}
	return nil
}

// byCount sorts by count, the most frequent first.
func byCount(counts map[string]int) []counted {
	var list []counted
	for name, count := range counts {
		list = append(list, counted{name, count})
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].Count != list[j].Count {
			return list[i].Count > list[j].Count
		}
		return list[i].Name < list[j].Name
	})
	return list
}
