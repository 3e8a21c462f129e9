package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/internal/usage"
)

// A report takes a kilobyte, and one more for each failure.
const reportBytesMax = 64 << 20

func newMerge() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "merge FILE...", Short: "Join the reports of all shards of a campaign into one",
		Args: usage.Args(cobra.MinimumNArgs(1)),
		Long: `Joins what "fuzz --shard ... --keep-going --json" printed for each shard of a campaign. The result is what one call of
fuzz without --shard would have printed, and "raftlab page" takes it. All shards must be there, once, complete and
of the same build: otherwise merge says what is wrong and prints nothing.

` + exitHelp,
		Example: `  seq 16 | parallel 'raftlab fuzz --profile all --seeds 200000 --shard {}/16 --keep-going --json > shard-{}.json'
  raftlab merge --json shard-*.json > campaign.json`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			shards, err := readShards(paths)
			if err != nil {
				return err
			}
			r, err := merge(shards)
			if err != nil {
				return err
			}
			if err := r.print(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			return r.failed()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// shard is the report of a shard, with its file's name.
type shard struct {
	path string
	report
}

func readShards(paths []string) (shards []shard, err error) {
	for _, path := range paths {
		s := shard{path: path}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Size() > reportBytesMax {
			return nil, fmt.Errorf("%s is no report: it has %d bytes", path, info.Size())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &s.report); err != nil {
			return nil, fmt.Errorf("%s is no report of fuzz --json: %w", path, err)
		}
		if s.Part == nil || s.Part.seeds() < 1 {
			return nil, fmt.Errorf("%s is no report of a shard: fuzz --shard N/M --json prints one", path)
		}
		shards = append(shards, s)
	}
	return shards, nil
}

// merge returns the report of the campaign whose shards these are, in any order.
func merge(shards []shard) (report, error) {
	slices.SortStableFunc(shards, func(a, b shard) int { return cmp.Compare(a.Part.From, b.Part.From) })
	first := shards[0]
	sum := report{
		Profiles: first.Profiles, Base: first.Base, Build: first.Build,
		Decisions: map[string]int{}, ByFault: map[string]int{}, Failures: []failure{},
	}
	next, origins := 0, []string{}
	for i, s := range shards {
		p := *s.Part
		switch {
		case s.Build != first.Build:
			return report{}, fmt.Errorf("%s is of %s and %s of %s: run all shards with one build", s.path, s.Build, first.path, first.Build)
		case s.Profiles != first.Profiles || s.Base != first.Base || p.Of != first.Part.Of:
			return report{}, fmt.Errorf("%s is of another campaign (%s) than %s (%s)", s.path, s.campaign(), first.path, first.campaign())
		case p.From < next:
			return report{}, fmt.Errorf("%s (%v) overlaps %s (%v): each shard counts once", s.path, p, shards[i-1].path, *shards[i-1].Part)
		case p.From > next:
			return report{}, fmt.Errorf("the shard with the seeds %d to %d is missing", next, p.From-1)
		case s.Seeds != p.seeds():
			return report{}, fmt.Errorf("%s has run %d of its %d seeds, with %d failures: run the shard to its end, with --keep-going",
				s.path, s.Seeds, p.seeds(), len(s.Failures))
		}
		next = p.To
		sum.add(&s.report)
		if !slices.Contains(origins, s.Origin) {
			origins = append(origins, s.Origin)
		}
	}
	if next != first.Part.Of {
		return report{}, fmt.Errorf("the shard with the seeds %d to %d is missing", next, first.Part.Of-1)
	}
	sum.Origin = fmt.Sprintf("%d shards: %s", len(shards), strings.Join(origins, "; "))
	sum.rate()
	return sum, nil
}

// campaign says which campaign a shard is of.
func (s *shard) campaign() string {
	return fmt.Sprintf("--profile %s --seed %s --seeds %d", s.Profiles, s.Base, s.Part.Of)
}

// add adds what another report counts. The time is that of the slowest shard: they are taken to run side by side.
func (r *report) add(o *report) {
	r.Seeds, r.Events, r.Again = r.Seeds+o.Seeds, r.Events+o.Events, r.Again+o.Again
	r.Seconds, r.CoreSeconds = max(r.Seconds, o.Seconds), r.CoreSeconds+o.CoreSeconds
	r.VirtualHours += o.VirtualHours
	r.Faults, r.Crashes, r.Elections = r.Faults+o.Faults, r.Crashes+o.Crashes, r.Elections+o.Elections
	r.Proposals, r.Commits = r.Proposals+o.Proposals, r.Commits+o.Commits
	r.Changes, r.Changed = r.Changes+o.Changes, r.Changed+o.Changed
	r.Histories, r.Repeated = r.Histories+o.Histories, r.Repeated+o.Repeated
	r.Excused, r.BeyondBudget = r.Excused+o.Excused, r.BeyondBudget+o.BeyondBudget
	r.Handed.Add(&o.Handed)
	for name, count := range o.Decisions {
		r.Decisions[name] += count
	}
	for name, count := range o.ByFault {
		r.ByFault[name] += count
	}
	r.Failures = append(r.Failures, o.Failures...)
}

// rate computes what follows from the counts and the CPU time.
func (r *report) rate() {
	if r.CoreSeconds > 0 {
		r.EventsPerCoreSecond = float64(r.Events+r.Again) / r.CoreSeconds
		r.VirtualHoursPerCoreHour = r.VirtualHours * time.Hour.Seconds() / r.CoreSeconds
		r.FaultsPerCoreHour = float64(r.Faults) * time.Hour.Seconds() / r.CoreSeconds
	}
}

// failed returns the first failure, if there is one.
func (r *report) failed() error {
	if len(r.Failures) == 0 {
		return nil
	}
	return r.Failures[0].err()
}
