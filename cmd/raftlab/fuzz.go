package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/resume"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/usage"
)

const (
	workersMax    = 1024
	seedsDefault  = 1000
	repeatedEvery = 50 // of this many seeds, one is run twice and must give the same run
	saveEvery     = time.Second
)

// campaign is one call of fuzz.
type campaign struct {
	workers  int
	seeds    int
	shard    part // the seeds to run; all of them without --shard
	duration time.Duration
	base     uint64
	profiles []string
	asJSON   bool
	onward   bool   // continue after a failure
	resume   string // path of the file with the progress, if any

	mu sync.Mutex
	progress
	again    []int // seeds of Running that an earlier process began and did not finish
	file     *resume.File
	saved    time.Time
	unsaved  error // error of saving the progress
	stop     bool
	bar      *progressbar.ProgressBar
	began    time.Time     // start, moved back by the time that earlier processes took
	computed time.Duration // CPU time at the start, minus the CPU time of earlier processes
}

// progress is the progress of a campaign. A seed is numbered by its distance from the first one.
type progress struct {
	Taken   int    `json:"taken"`   // seeds with smaller numbers have been begun
	Running []int  `json:"running"` // seeds that have been begun and not finished
	Report  report `json:"report"`  // report on the finished seeds
}

// report is the output of fuzz, as text or as JSON. Rates are per core: they are divided by the CPU time of all workers
// together, including garbage collection.
type report struct {
	Seeds        int     `json:"seeds"`
	Profiles     string  `json:"profiles"`
	Base         string  `json:"base"`
	Seconds      float64 `json:"seconds"`
	CoreSeconds  float64 `json:"core_seconds"`
	Events       int     `json:"events"`
	Again        int     `json:"events_again"` // events of the second runs of seeds that were run twice
	VirtualHours float64 `json:"virtual_hours"`
	Faults       int     `json:"faults"`
	Crashes      int     `json:"crashes"`
	Elections    int     `json:"elections"`
	Proposals    int     `json:"proposals"`
	Commits      int     `json:"commits"`
	Changes      int     `json:"changes"` // membership changes that clients asked for
	Changed      int     `json:"changed"` // membership changes that were reported as made
	Histories    int     `json:"histories"`
	Repeated     int     `json:"repeated"`
	Excused      int     `json:"excused"`
	BeyondBudget int     `json:"beyond_budget"`

	Part   *part  `json:"part,omitempty"` // the part of the campaign, if it is a shard
	Build  string `json:"build"`          // what decides how seeds run: the commit, or the hash of the program
	Origin string `json:"origin"`         // commit, machine and day

	Decisions map[string]int `json:"decisions"` // number of times that cores took each decision
	ByFault   map[string]int `json:"by_fault"`

	Handed fuzzy.Handed `json:"handed_down"` // configurations that leaders left unfinished

	EventsPerCoreSecond     float64 `json:"events_per_core_second"`
	VirtualHoursPerCoreHour float64 `json:"virtual_hours_per_core_hour"`
	FaultsPerCoreHour       float64 `json:"faults_per_core_hour"`

	Failures []failure `json:"failures"`
}

type failure struct {
	Seed   string      `json:"seed"`
	Class  fuzzy.Class `json:"class"`
	Rule   string      `json:"rule"`
	Text   string      `json:"text"`
	At     sim.Time    `json:"at_ns"`
	Event  int         `json:"event"`
	Replay string      `json:"replay"`
	Shrink string      `json:"shrink"`
}

func (f *failure) err() error {
	return &fuzzy.Failure{Class: f.Class, Rule: f.Rule, Text: f.Text, At: f.At, Event: f.Event}
}

func newFuzz() *cobra.Command {
	c := &campaign{}
	var base, profile, shard string
	cmd := &cobra.Command{
		Use: "fuzz", Short: "Run many seeds, and stop at the first that fails", Args: usage.Args(cobra.NoArgs),
		Long: `Runs seeds, with the profiles in turn, and reports what happened. The seeds before a merge are those of
make simulate; make reliability runs 200,000 for a release.

With --resume FILE, fuzz saves its progress in FILE every second and when it ends. After an interrupt, a kill or a crash
the same command continues from there: every seed counts once. The file belongs to one build of raftlab, one set of
profiles, one first seed and one number of seeds; another campaign is refused. Remove the file to begin anew.

With --shard 3/16, fuzz runs the third of sixteen equal parts of the campaign, on any machine; raftlab merge joins the
reports of all parts.

` + exitHelp,
		Example: `  raftlab fuzz --profile all --seeds 200000 --keep-going --resume progress.json --json > campaign.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.prepare(base, profile, shard); err != nil {
				return fmt.Errorf("%w; %w", err, usage.Err)
			}
			if err := c.goOn(); err != nil {
				return fmt.Errorf("--resume: %w", err)
			}
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&c.workers, "workers", runtime.NumCPU(), "number of runs at the same time")
	cmd.Flags().IntVar(&c.seeds, "seeds", 0, "number of seeds; default: 1000, or as many as --duration allows")
	cmd.Flags().DurationVar(&c.duration, "duration", 0, "how long")
	cmd.Flags().StringVar(&base, "seed", "0", "the first seed, in hexadecimal; of a commit's hash, the first 16 digits count")
	cmd.Flags().StringVar(&shard, "shard", "", "the part of the campaign to run, such as 3/16; see raftlab merge")
	cmd.Flags().StringVar(&profile, "profile", "swarm", "profiles, separated by commas, or all")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&c.onward, "keep-going", false, "continue after a failure")
	cmd.Flags().StringVar(&c.resume, "resume", "", "save the progress in this file, and continue from what it holds")
	return cmd
}

// prepare checks the flags.
func (c *campaign) prepare(base, profile, shard string) error {
	if c.workers < 1 || c.workers > workersMax {
		return fmt.Errorf("--workers %d: it takes 1 to %d", c.workers, workersMax)
	}
	if c.seeds < 0 || c.duration < 0 {
		return fmt.Errorf("--seeds %d, --duration %v: both take 0 or more", c.seeds, c.duration)
	}
	if c.seeds == 0 && c.duration == 0 {
		c.seeds = seedsDefault
	}
	number, err := parseSeedNumber(base)
	if err != nil {
		return err
	}
	c.base = number
	c.shard = part{To: c.seeds, Of: c.seeds}
	if shard != "" && c.duration > 0 {
		return fmt.Errorf("--shard %s is a part of --seeds: --duration does not say how many seeds there are", shard)
	}
	if shard != "" {
		if c.shard, err = parseShard(shard, c.seeds); err != nil {
			return err
		}
	}
	c.profiles = strings.Split(profile, ",")
	if profile == "all" {
		c.profiles = fuzzy.All()
	}
	for _, name := range c.profiles {
		if _, err := fuzzy.Draw(fuzzy.Seed{Profile: name}); err != nil {
			return err
		}
	}
	build, err := build()
	if err != nil {
		return err
	}
	c.Taken = c.shard.From
	c.Report = report{
		Profiles: strings.Join(c.profiles, ","), Base: fmt.Sprintf("%x", number), Failures: []failure{}, Build: build, Origin: origin(),
		Decisions: map[string]int{}, ByFault: map[string]int{},
	}
	if shard != "" {
		c.Report.Part = &c.shard
	}
	return nil
}

// goOn loads the progress that earlier processes of this campaign saved.
func (c *campaign) goOn() (err error) {
	what := fmt.Sprintf("fuzz --profile %s --seed %s --seeds %d", c.Report.Profiles, c.Report.Base, c.seeds)
	if c.Report.Part != nil {
		what += fmt.Sprintf(", %v", c.shard)
	}
	c.file, err = resume.Open(c.resume, what, &c.progress)
	c.again = slices.Clone(c.Running)
	c.stop = len(c.Report.Failures) > 0 && !c.onward
	return err
}

func (c *campaign) run(ctx context.Context, out, errOut io.Writer) error {
	c.began = time.Now().Add(-seconds(c.Report.Seconds))
	c.computed = cpuTime() - seconds(c.Report.CoreSeconds)
	asked := ctx
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	if !c.asJSON && isTerminal(errOut) {
		total := int64(-1)
		if c.seeds > 0 {
			total = int64(c.shard.seeds())
		}
		c.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(errOut), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetDescription("seeds"), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
		_ = c.bar.Set(c.Report.Seeds) // the bar is decoration
	}
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() { c.work(ctx) })
	}
	workers.Wait()
	if c.bar != nil {
		_ = c.bar.Finish() // the bar is decoration
	}
	c.save()
	if err := errors.Join(c.unsaved, c.Report.print(out, c.asJSON)); err != nil {
		return err
	}
	if err := c.Report.failed(); err != nil {
		return err
	}
	if asked.Err() != nil && c.file != nil {
		return fmt.Errorf("interrupted after %d seeds; the same command continues from there", c.Report.Seeds)
	}
	if asked.Err() != nil {
		return fmt.Errorf("interrupted after %d seeds", c.Report.Seeds)
	}
	if c.Report.Seeds == 0 {
		return errors.New("no seed finished: allow more time with --duration")
	}
	return nil
}

// parseSeedNumber parses --seed.
func parseSeedNumber(text string) (uint64, error) {
	number, err := strconv.ParseUint(text[:min(len(text), 16)], 16, 64)
	if err != nil || strings.Trim(text, "0123456789abcdefABCDEF") != "" {
		return 0, fmt.Errorf("--seed %q: it takes hexadecimal digits", text)
	}
	return number, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// work runs one seed after another.
func (c *campaign) work(ctx context.Context) {
	for {
		n, ok := c.take(ctx)
		if !ok {
			return
		}
		seed := fuzzy.Seed{Profile: c.profiles[n%len(c.profiles)], Number: c.base + uint64(n)}
		result, err := fuzzy.Run(seed, nil)
		repeated := err == nil && result.Failure == nil && seed.Number%repeatedEvery == 0
		if repeated {
			again, _ := fuzzy.Run(seed, nil)
			if again.Hash != result.Hash {
				result.Failure = &fuzzy.Failure{Class: fuzzy.Safety, Rule: "T1", Text: "a second run of the same seed differs"}
			}
		}
		c.add(n, result, repeated)
	}
}

// take returns the next seed to run.
func (c *campaign) take(ctx context.Context) (n int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop || ctx.Err() != nil {
		return 0, false
	}
	if len(c.again) > 0 {
		n, c.again = c.again[0], c.again[1:]
		return n, true
	}
	if c.seeds > 0 && c.Taken >= c.shard.To {
		return 0, false
	}
	n = c.Taken
	c.Taken++
	c.Running = append(c.Running, n)
	return n, true
}

// add counts the run of a seed that take has returned.
func (c *campaign) add(n int, result fuzzy.Result, repeated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Running = slices.DeleteFunc(c.Running, func(other int) bool { return other == n })
	r := &c.Report
	r.Seeds++
	if repeated {
		r.Again += result.Events
	}
	r.Events += result.Events
	r.VirtualHours += time.Duration(result.Virtual).Hours()
	r.Faults += result.Faults
	r.Crashes += result.Crashes
	r.Elections += result.Elections
	r.Proposals += result.Proposals
	r.Commits += result.Commits
	r.Histories += result.Histories
	r.Changes += result.Changes
	r.Changed += result.Changed
	r.Handed.Add(&result.Handed)
	if repeated {
		r.Repeated++
	}
	if result.Excuse != "" {
		r.Excused++
	}
	if result.Profile.Beyond {
		r.BeyondBudget++
	}
	for i, d := range fuzzy.Decisions() {
		r.Decisions[d.Name] += result.Decisions[i]
	}
	for kind, injections := range result.ByFault {
		r.ByFault[fuzzy.FaultKind(kind).String()] += injections
	}
	if c.bar != nil {
		_ = c.bar.Add(1) // the bar is decoration
	}
	if f := result.Failure; f != nil {
		seed := result.Seed.String()
		r.Failures = append(r.Failures, failure{
			seed, f.Class, f.Rule, f.Text, f.At, f.Event, "go run ./cmd/raftlab replay " + seed, "go run ./cmd/raftlab shrink " + seed,
		})
		c.stop = !c.onward
	}
	if time.Since(c.saved) >= saveEvery {
		c.save()
	}
}

// save stores the progress of the campaign. If save fails, the campaign ends, because nobody could resume it.
func (c *campaign) save() {
	c.Report.Seconds = time.Since(c.began).Seconds()
	c.Report.CoreSeconds = (cpuTime() - c.computed).Seconds()
	c.Report.rate()
	if err := c.file.Save(&c.progress); err != nil {
		c.unsaved, c.stop = fmt.Errorf("--resume: %w", err), true
	}
	c.saved = time.Now()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// printJSON prints a report for programs.
func printJSON(out io.Writer, report any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// members describes the membership changes; "" if there were none.
func (r *report) members() string {
	h := &r.Handed
	if r.Changes == 0 {
		return ""
	}
	return fmt.Sprintf(`  %.1f virtual hours, %d of %d membership changes made, %d leaders, of which L20 has judged %d
  %d configurations (%d of them joint) were left unfinished by a leader: the next one finished %d and gave up %d, the longest after %v;
  %d were left by the next one, too, %d were not in its log, and %d were open at the end of a run
`, r.VirtualHours, r.Changed, r.Changes, h.Offices, h.Undisturbed, h.Left, h.Joint, h.Finished, h.GivenUp, time.Duration(h.Longest).Round(time.Millisecond),
		h.PassedOn, h.Dropped, h.Open)
}

func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(out, r)
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(out, "FAILED %s: %s %s: %s\n  replay it: %s\n  shrink it: %s\n",
			f.Seed, f.Class, f.Rule, f.Text, f.Replay, f.Shrink); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, `%d seeds of %s from %s in %.1f s, %d failed
  %d events, %d faults, %d crashes, %d elections, %d of %d proposals committed
%s  %d histories checked for linearizability; %d seeds run twice
  %d excused from the second phase, %d beyond the fault budget, where nodes may stop but never lie
  %.0f events a core-second; %.0f virtual hours and %.0f faults a core-hour
`, r.Seeds, r.Profiles, r.Base, r.Seconds, len(r.Failures), r.Events, r.Faults, r.Crashes, r.Elections, r.Commits,
		r.Proposals, r.members(), r.Histories, r.Repeated, r.Excused, r.BeyondBudget,
		r.EventsPerCoreSecond, r.VirtualHoursPerCoreHour, r.FaultsPerCoreHour)
	return err
}
