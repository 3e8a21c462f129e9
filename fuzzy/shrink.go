package fuzzy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// ErrNothingToShrink matches the error that Shrink returns for a case that does not fail.
var ErrNothingToShrink = errors.New("does not fail: nothing to shrink")

// ShrinkOptions bound a search for a smaller case. Zero values mean the defaults in parentheses.
type ShrinkOptions struct {
	Attempts int // maximum number of runs (200,000)
	Rolls    int // numbers with which each reduction is tried, besides the case's own (128)
	// Progress is called after each run. It may be nil.
	Progress func(*Shrunk)
}

// Shrunk is the present result of a search.
type Shrunk struct {
	Case     Case
	Failure  *Failure // of the case
	Result   Result
	Before   string // initial size of the case
	Attempts int
	Taken    int  // reductions taken
	Minimal  bool // no further reduction gives a case that fails
}

// Size describes the size of a case.
func (s *Shrunk) Size() string {
	p, injections := &s.Case.Profile, 0
	for _, kept := range s.Case.Injections {
		injections += len(kept.some)
	}
	return fmt.Sprintf("%d nodes, %d faults of %d classes, %d requests, %d changes, %d settings that are not plain, %d events in %v",
		p.nodes(), injections, len(p.Faults), len(s.Case.Requests.some), len(s.Case.Changes.some), p.unplain(), s.Result.Events,
		time.Duration(s.Failure.At).Round(time.Millisecond))
}

// unplain counts the settings that are not plain. It ignores the settings that a case always names.
func (p *Profile) unplain() int {
	n, base := 0, plain()
	for _, s := range settings {
		if !s.same(p, &base) && !slices.Contains(always, s.name) {
			n++
		}
	}
	return n
}

// firstRolls is the initial number of seed numbers that a search tries per reduction. It is small because runs are still
// long. Each seed number gives another run of the same world.
const firstRolls = 2

// shrinker searches in a fixed order, so that the same case always gives the same result.
type shrinker struct {
	Shrunk
	ctx   context.Context
	o     ShrinkOptions
	rolls int
}

// Shrink makes a failing case smaller while the same rule fails. It removes classes of faults, single injections, settings,
// nodes, requests and time. It ends when it can remove nothing more, or when a bound or the context ends the search.
func Shrink(ctx context.Context, c Case, o ShrinkOptions) (Shrunk, error) {
	o.Attempts, o.Rolls = cmp.Or(o.Attempts, 200_000), cmp.Or(o.Rolls, 128)
	s := &shrinker{ctx: ctx, o: o}
	r := c.run(edits{}, nil)
	if r.Failure == nil {
		return Shrunk{}, ErrNothingToShrink
	}
	c = c.clone()
	c.Rule = r.Failure.Rule
	s.take(&c, r)
	s.Before = s.Size()
	s.rolls = min(leapRolls, o.Rolls)
	s.leap()
	for s.rolls = min(firstRolls, o.Rolls); s.rolls < o.Rolls; s.rolls = min(4*s.rolls, o.Rolls) {
		s.rounds()
	}
	s.rounds()
	s.Minimal = !s.over()
	s.finish()
	return s.Shrunk, nil
}

func (s *shrinker) over() bool { return s.ctx.Err() != nil || s.Attempts >= s.o.Attempts }

// leapRolls is the number of seed numbers that the search tries with each small world.
const leapRolls = 64

// leap looks for the failure in small plain worlds, smallest first. If it finds the failure there, the search saves the
// many steps down from the large world.
func (s *shrinker) leap() {
	kinds := [][]FaultRate{nil}
	for _, f := range s.Case.Profile.Faults {
		kinds = append(kinds, []FaultRate{f.plain()})
	}
	var all []FaultRate
	for _, f := range s.Case.Profile.Faults {
		all = append(all, f.plain())
	}
	kinds = append(kinds, all)
	for _, voters := range []int{1, 2, 3, 5} {
		for _, faults := range kinds {
			for _, clients := range []int{0, 1, 4} {
				if voters <= s.Case.Profile.Voters && s.attempt(s.world(voters, clients, faults)) {
					return
				}
			}
		}
	}
}

// world returns a plain profile. It keeps the settings that decide which rules are checked.
func (s *shrinker) world(voters, clients int, faults []FaultRate) *Case {
	c, was := s.Case.clone(), &s.Case.Profile
	c.Profile = plain()
	c.Profile.Name, c.Profile.Beyond, c.Profile.Load.History = was.Name, was.Beyond, was.Load.History
	c.Profile.Members, c.Profile.Length = was.Members, min(was.Length, sim.In(2*time.Second))
	c.Profile.Voters, c.Profile.Load.Clients = voters, min(max(clients, 1), was.Load.Clients)
	c.Profile.Faults, c.Injections = slices.Clone(faults), map[FaultKind]ordinals{}
	c.Requests = ordinals{all: clients > 0}
	return &c
}

// plain returns the same class of faults at a common rate.
func (f FaultRate) plain() FaultRate {
	return FaultRate{f.Fault, sim.In(300 * time.Millisecond), sim.In(200 * time.Millisecond)}
}

// rounds repeats until no reduction succeeds.
func (s *shrinker) rounds() {
	for s.round() {
	}
}

// round tries every reduction once. It reports whether the search has taken any of them.
func (s *shrinker) round() bool {
	before := s.Taken
	s.dropFaults()
	s.plainSettings()
	s.fewer("voters", 1)
	s.fewer("learners", 0)
	s.fewer("members-spares", 0)
	s.fewer("members-admins", 0)
	s.fewer("clients", 1)
	s.shorten()
	for _, f := range slices.Clone(s.Case.Profile.Faults) {
		s.thin(func(c *Case) ordinals { return c.Injections[f.Fault] },
			func(c *Case, kept ordinals) { c.Injections[f.Fault] = kept })
	}
	s.thin(func(c *Case) ordinals { return c.Requests }, func(c *Case, kept ordinals) { c.Requests = kept })
	s.thin(func(c *Case) ordinals { return c.Changes }, func(c *Case, kept ordinals) { c.Changes = kept })
	return s.Taken > before && !s.over()
}

// dropFaults drops whole classes of faults, or gives them a common rate.
func (s *shrinker) dropFaults() {
	for _, f := range slices.Clone(s.Case.Profile.Faults) {
		c := s.Case.clone()
		c.drop(f.Fault)
		if s.try(&c) || f == f.plain() {
			continue
		}
		c = s.Case.clone()
		c.Profile.Faults[slices.Index(c.Profile.Faults, f)] = f.plain()
		s.try(&c)
	}
}

func (c *Case) drop(kind FaultKind) {
	c.Profile.Faults = slices.DeleteFunc(c.Profile.Faults, func(r FaultRate) bool { return r.Fault == kind })
	delete(c.Injections, kind)
}

// plainSettings makes settings plain. First it tries all settings of a group together.
func (s *shrinker) plainSettings() {
	for _, group := range []string{"network-", "node-", "limit-", "client-"} {
		s.makePlain(func(name string) bool { return strings.HasPrefix(name, group) })
	}
	for _, one := range settings {
		if !slices.Contains(always, one.name) {
			s.makePlain(func(name string) bool { return name == one.name })
		}
	}
}

func (s *shrinker) makePlain(chosen func(name string) bool) {
	c, base, changed := s.Case.clone(), plain(), false
	for _, one := range settings {
		if chosen(one.name) && !one.same(&c.Profile, &base) {
			one.copy(&c.Profile, &base)
			changed = true
		}
	}
	if changed {
		s.try(&c)
	}
}

// fewer tries each lower value of a count, the lowest first.
func (s *shrinker) fewer(name string, least int) {
	one, _ := settingNamed(name)
	for n := least; n < *one.at(&s.Case.Profile).(*int); n++ {
		c := s.Case.clone()
		*one.at(&c.Profile).(*int) = n
		if s.try(&c) {
			return
		}
	}
}

// shorten tries to make the rule fail earlier.
func (s *shrinker) shorten() {
	for _, tenths := range []sim.Time{2, 5, 8, 9} {
		c := s.Case.clone()
		c.Profile.Length = upToMillisecond(s.length() * tenths / 10)
		if c.Profile.FaultsFrom > c.Profile.Length/4 {
			c.Profile.FaultsFrom = c.Profile.Length / 4
		}
		if c.Profile.Length < s.Case.Profile.Length && s.attempt(&c) {
			return
		}
	}
}

// early reports whether the case fails in the first phase.
func (s *shrinker) early() bool { return s.Failure.At < s.Case.Profile.Length }

// length returns the time that the run spends in its first phase.
func (s *shrinker) length() sim.Time { return min(s.Case.Profile.Length, s.Failure.At) }

func upToMillisecond(t sim.Time) sim.Time {
	millisecond := sim.In(time.Millisecond)
	return (t + millisecond - 1) / millisecond * millisecond
}

// thin removes elements from a list: first all elements, then halves, quarters, and so on down to single elements. While the
// search has other reductions to try, thin removes only large parts of a long list.
func (s *shrinker) thin(list func(c *Case) ordinals, set func(c *Case, kept ordinals)) {
	for size := len(list(&s.Case).some); size > 0; size /= 2 {
		if parts := len(list(&s.Case).some) / size; parts > 8 && s.rolls < s.o.Rolls {
			return
		}
		for from := 0; from < len(list(&s.Case).some) && !s.over(); {
			c := s.Case.clone()
			some := list(&c).some
			set(&c, ordinals{some: slices.Delete(some, from, min(from+size, len(some)))})
			if !s.try(&c) {
				from += size
			}
		}
	}
}

// try makes an attempt, and allows the candidate a little more time than the best case so far.
func (s *shrinker) try(c *Case) bool {
	if s.early() {
		c.Profile.Length = upToMillisecond(s.Failure.At + s.Failure.At/4)
	}
	return s.attempt(c)
}

// attempt accepts a candidate if it fails the same rule. It tries the candidate with its own seed number and with the first
// few numbers.
func (s *shrinker) attempt(c *Case) bool {
	bounds := edits{events: 4*s.Result.Events + 2000}
	if s.early() {
		bounds.until = c.Profile.Length // a failure in the second phase would be a different one
	}
	own := c.Number
	for i := -1; i < s.rolls && !s.over(); i++ {
		if c.Number = uint64(i); i < 0 {
			c.Number = own
		} else if c.Number == own {
			continue
		}
		r := s.run(c, bounds)
		if late := bounds.until > 0 && r.Failure != nil && r.Failure.At > bounds.until; s.same(r.Failure) && !late {
			s.Taken++
			s.take(c, r)
			return true
		}
	}
	return false
}

func (s *shrinker) run(c *Case, bounds edits) Result {
	s.Attempts++
	r := c.run(bounds, nil)
	if s.o.Progress != nil {
		s.o.Progress(&s.Shrunk)
	}
	return r
}

// same reports whether a failure is the failure that the search looks for. It compares panics by their first line.
func (s *shrinker) same(f *Failure) bool {
	if f == nil || f.Class != s.Failure.Class || f.Rule != s.Failure.Rule {
		return false
	}
	return f.Class != Panic && f.Class != Simulation || f.what() == s.Failure.what()
}

// what returns a failure's text without the name of the node and without the place.
func (f *Failure) what() string {
	line, _, _ := strings.Cut(f.Text, "\n")
	_, what, _ := strings.Cut(line, ": ")
	return what
}

// take makes a case the best one. It removes the injections and requests that do not happen before the case fails.
func (s *shrinker) take(c *Case, r Result) {
	s.Case, s.Result, s.Failure = *c, r, r.Failure
	tidy := c.clone()
	for _, f := range c.Profile.Faults {
		kept, edited := c.Injections[f.Fault]
		if tidy.Injections[f.Fault] = until(kept, !edited, r.Injections[f.Fault]); len(tidy.Injections[f.Fault].some) == 0 {
			tidy.drop(f.Fault)
		}
	}
	tidy.Requests, tidy.Changes = until(c.Requests, false, int64(r.Requests)), until(c.Changes, false, int64(r.Changes))
	if again := s.run(&tidy, edits{}); s.same(again.Failure) && again.Failure.At == r.Failure.At {
		s.Case, s.Result, s.Failure = tidy, again, again.Failure
	}
}

// until keeps the numbers up to a last one.
func until(kept ordinals, all bool, last int64) ordinals {
	if all || kept.all {
		return upTo(int(last))
	}
	i, found := slices.BinarySearch(kept.some, last)
	if found {
		i++
	}
	return ordinals{some: slices.Clone(kept.some[:i])}
}

// finish rounds the length and writes the story.
func (s *shrinker) finish() {
	if c := s.Case.clone(); s.early() {
		c.Profile.Length = upToMillisecond(s.Failure.At + 1)
		if r := s.run(&c, edits{}); s.same(r.Failure) {
			s.Case, s.Result, s.Failure = c, r, r.Failure
		}
	}
	s.Case.Story = s.Case.Tell()
}
