package zoo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/fuzzy"
)

// Hung is the rule that a run breaks if it does not end.
const Hung = "hung"

// Options bound a hunt. Zero values mean the defaults in parentheses.
type Options struct {
	Seeds   int           // seeds per mutant, at most (2000)
	Budget  time.Duration // elapsed time per mutant, at most (30 s)
	First   uint64        // number of the first seed
	Workers int           // mutants hunted at once (1)
	Ranges  int           // of seeds, each hunted in to the first kill (1)
	// Verdict asks only whether each mutant dies, not how many seeds the kill takes. With Verdict, the hunt runs no seeds for
	// a mutant that a scenario kills, or that has a test.
	Verdict bool
	// Done, if not nil, is called after the hunt of each mutant, one call at a time.
	Done func(Report)
}

// Find is the result of a hunt.
type Find struct {
	Killed  bool          `json:"killed"`
	Rule    string        `json:"rule,omitempty"` // invariant or test that noticed the mutant
	Text    string        `json:"text,omitempty"`
	Seed    string        `json:"seed,omitempty"` // last seed that was run
	Seeds   int           `json:"seeds"`          // number of seeds that were run
	Virtual time.Duration `json:"virtual_ns"`     // virtual time of these runs
}

// Take adds the result of a run. If the preconditions of a scenario did not hold, the run is not a kill. A panic of the
// simulation or of a checker is not a kill either, even if the mutant provoked the panic. Such a panic is an error, and makes
// the hunt invalid.
func (f *Find) Take(failure *fuzzy.Failure) error {
	switch {
	case failure == nil || failure.Class == fuzzy.Staging:
		return nil
	case failure.Class == fuzzy.Simulation:
		return fmt.Errorf("the simulation itself failed, which is no kill: %w", failure)
	}
	f.Killed, f.Rule, f.Text = true, failure.Rule, failure.Text
	return nil
}

// Report is the result of hunting one mutant.
type Report struct {
	ID       string        `json:"id"`
	Broken   string        `json:"rule_broken"`
	Bug      string        `json:"bug"`
	Expect   string        `json:"expected,omitempty"`
	Seen     string        `json:"seen,omitempty"`
	Before   bool          `json:"before_its_check,omitempty"`
	ByTest   bool          `json:"by_test,omitempty"` // killed by a test, and by no seed
	Outside  bool          `json:"outside,omitempty"` // in code that the simulator does not run
	MustKill bool          `json:"must_kill,omitempty"`
	Excuse   string        `json:"excuse,omitempty"`
	Unsound  int           `json:"unsound,omitempty"` // seeds that also failed without a mutant
	Wall     time.Duration `json:"wall_ns"`
	Find
	// Scenario is the directed scenario that notices the mutant, if any. ByScenario is true if no seed noticed the mutant.
	Scenario   string `json:"scenario,omitempty"`
	ByScenario bool   `json:"by_scenario,omitempty"`
	// Ranges are the results of all ranges of seeds, including the first range. It is empty unless the simulator kills the
	// mutant.
	Ranges []Range `json:"ranges,omitempty"`
}

// Range is the result of a hunt in one range of seeds.
type Range struct {
	Killed  bool          `json:"killed"`
	Seeds   int           `json:"seeds"`
	Virtual time.Duration `json:"virtual_ns"`
}

// Median returns the median range by number of seeds. If two ranges are in the middle, it returns the later one. A range that
// the mutant survived counts as the longest.
func (r *Report) Median() Range {
	sorted := slices.SortedFunc(slices.Values(r.Ranges), func(a, b Range) int {
		if a.Killed != b.Killed {
			if a.Killed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Seeds, b.Seeds), cmp.Compare(a.Virtual, b.Virtual))
	})
	if len(sorted) == 0 {
		return Range{r.Killed && !r.ByTest, r.Seeds, r.Virtual}
	}
	return sorted[len(sorted)/2]
}

// Hunt hunts each mutant, and returns the reports in the order of the mutants. A survivor is not an error. An error means
// that the hunt itself is invalid.
func (b *Binary) Hunt(ctx context.Context, mutants []Mutant, o Options) ([]Report, error) {
	o.Seeds = cmp.Or(o.Seeds, 2000)
	o.Budget = cmp.Or(o.Budget, 30*time.Second)
	o.Ranges = max(o.Ranges, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make([]Report, len(mutants))
	next := make(chan int)
	var workers sync.WaitGroup
	var done sync.Mutex
	for range max(o.Workers, 1) {
		workers.Go(func() {
			for i := range next {
				r, err := b.hunt(ctx, &mutants[i], o)
				if err != nil {
					cancel(fmt.Errorf("zoo: mutant %s: %w", mutants[i].ID, err))
					continue
				}
				reports[i] = r
				done.Lock()
				if o.Done != nil {
					o.Done(r)
				}
				done.Unlock()
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	workers.Wait()
	return reports, context.Cause(ctx)
}

// defaultProfiles are used in turn in a hunt that names no profile.
var defaultProfiles = []string{"swarm", "elections", "alone"}

// hunt hunts one mutant.
func (b *Binary) hunt(ctx context.Context, m *Mutant, o Options) (r Report, err error) {
	r = Report{
		ID: m.ID, Broken: m.Rule, Bug: m.Bug, Expect: m.Expect, Seen: m.Seen,
		Before: m.Before, MustKill: m.MustKill, Outside: m.Outside, Excuse: m.Alive,
	}
	if err := context.Cause(ctx); err != nil {
		return r, err
	}
	began := time.Now()
	defer func() { r.Wall = time.Since(began) }()
	if m.Alive != "" && (m.ID != Noop || o.Verdict) {
		o.Seeds = min(o.Seeds, aliveSeeds)
	}
	if !m.Outside {
		staged, err := b.stage(ctx, m, &r)
		if err != nil {
			return r, err
		}
		if !o.Verdict || !staged.Killed && m.Test == nil {
			err = b.chase(ctx, m, o, &r)
		}
		if err != nil {
			return r, err
		}
		if r.Killed {
			return r, b.ranges(ctx, m, o, &r)
		}
		if staged.Killed {
			r.Killed, r.ByScenario, r.Rule, r.Text, r.Seed = true, true, staged.Rule, staged.Text, staged.Seed
			return r, nil
		}
	}
	if m.Test == nil {
		return r, nil
	}
	failed, err := b.test(ctx, m.ID, m.Test)
	if err != nil || failed == "" {
		return r, err
	}
	r.Killed, r.ByTest, r.Rule = true, true, failed
	return r, b.control(ctx, m.Test, failed)
}

// aliveSeeds is the number of seeds for a mutant that nothing is expected to kill.
const aliveSeeds = 100

// rangeSeeds is the distance between the starts of two ranges of seeds.
const rangeSeeds = 1 << 32

// ranges hunts a mutant in the other ranges of seeds, if the mutant was killed in the first range.
func (b *Binary) ranges(ctx context.Context, m *Mutant, o Options, r *Report) error {
	if m.ID == Noop {
		return nil
	}
	r.Ranges = []Range{{r.Killed, r.Seeds, r.Virtual}}
	for range o.Ranges - 1 {
		o.First += rangeSeeds
		var another Report
		if err := b.chase(ctx, m, o, &another); err != nil {
			return err
		}
		r.Unsound += another.Unsound
		r.Ranges = append(r.Ranges, Range{another.Killed, another.Seeds, another.Virtual})
	}
	return nil
}

// control runs a failed test again without any mutant. If the test fails there, too, control returns an error.
func (b *Binary) control(ctx context.Context, t *Test, failed string) error {
	alone := Test{t.Package, "^" + failed + "$"}
	if failed == hungTest {
		alone = *t
	}
	anyway, err := b.test(ctx, Noop, &alone)
	if err == nil && anyway != "" {
		err = fmt.Errorf("%s of package %q fails without any mutant", anyway, t.Package)
	}
	return err
}

// stagings is the number of variants of each directed scenario that are run.
const stagings = 2

// stage runs the directed scenarios until one kills the mutant.
func (b *Binary) stage(ctx context.Context, m *Mutant, r *Report) (Find, error) {
	var profiles []string
	for _, line := range fuzzy.Scenarios() {
		name, _, _ := strings.Cut(line, ":")
		profiles = append(profiles, fuzzy.ScenarioPrefix+name)
	}
	find, err := b.run(ctx, m.ID, profiles, 0, 0, stagings*len(profiles), time.Minute)
	if err != nil || !find.Killed {
		return find, err
	}
	if m.ID != Noop {
		if find.Killed, err = b.sound(ctx, find.Seed); err != nil || !find.Killed {
			r.Unsound++
			return find, err
		}
	}
	seed, err := fuzzy.ParseSeed(find.Seed)
	r.Scenario = strings.TrimPrefix(seed.Profile, fuzzy.ScenarioPrefix)
	return find, err
}

// chase runs seeds until one fails with the mutant and passes without it.
func (b *Binary) chase(ctx context.Context, m *Mutant, o Options, r *Report) error {
	profiles := m.Hunted()
	over := time.Now().Add(o.Budget)
	for r.Seeds < o.Seeds && time.Now().Before(over) {
		find, err := b.run(ctx, m.ID, profiles, o.First, r.Seeds, o.Seeds-r.Seeds, time.Until(over))
		if err != nil {
			return err
		}
		find.Seeds, find.Virtual = find.Seeds+r.Seeds, find.Virtual+r.Virtual
		r.Find = find
		if !find.Killed || m.ID == Noop {
			return nil
		}
		sound, err := b.sound(ctx, find.Seed)
		if err != nil || sound {
			return err
		}
		r.Unsound++
		r.Find = Find{Seeds: find.Seeds, Virtual: find.Virtual, Seed: find.Seed}
	}
	return nil
}

// sound runs a seed without any mutant, because a seed that fails without a mutant proves nothing.
func (b *Binary) sound(ctx context.Context, text string) (bool, error) {
	seed, err := fuzzy.ParseSeed(text)
	if err != nil {
		return false, err
	}
	find, err := b.run(ctx, Noop, []string{seed.Profile}, seed.Number, 0, 1, time.Minute)
	return !find.Killed, err
}

// run is the child process.
func (b *Binary) run(ctx context.Context, id string, profiles []string, first uint64, skip, seeds int, budget time.Duration) (find Find, err error) {
	cmd := exec.CommandContext(ctx, b.hunter, "-profiles", strings.Join(profiles, ","),
		"-first", strconv.FormatUint(first, 10), "-skip", strconv.Itoa(skip), "-seeds", strconv.Itoa(seeds), "-budget", budget.String())
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }),
		append(environment(id), "GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=1GiB")...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return find, context.Cause(ctx)
	}
	if err != nil {
		return find, fmt.Errorf("the hunter: %w: %s", err, firstLine(stderr.String()))
	}
	if err := json.Unmarshal(out, &find); err != nil {
		return find, errors.New("the hunter's answer is cut short")
	}
	return find, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
