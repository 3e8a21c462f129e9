package fuzzy

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// CaseFormat is the version of the case file format. It is raised together with SeedFormat if an old case would now be
// a different run.
const CaseFormat = 1

// Clean is the rule of a case in which no rule fails, because its bug was fixed.
const Clean = "clean"

// Case is one run as text. It has the number that seeds the randomness, the settings that differ from a plain cluster, and
// the faults. It also lists the injections and requests that are left out. Most cases are made by Shrink.
type Case struct {
	About      []string // comments
	From       string   // the seed of the original run; "" if the case was written by hand
	Mutant     string   // the bug of package zoo that makes it fail; "": none
	Rule       string   // the rule that fails, or Clean
	Ignored    []string // rules whose failure does not end the run, to show the harm that follows
	Number     uint64
	Profile    Profile
	Injections map[FaultKind]ordinals // the kept injections of each class; absent: all
	Requests   ordinals               // the kept requests of the clients
	Changes    ordinals               // the kept changes that admins ask for
	Story      []string               // how it fails

	app *Application // the application that its members run; nil: none
}

// CaseOf returns the run of a seed as a case, with nothing left out.
func CaseOf(seed Seed) (Case, error) {
	p, err := Draw(seed)
	return Case{From: seed.String(), Number: seed.Number, Profile: p, Requests: ordinals{all: true}, Changes: ordinals{all: true}}, err
}

// RunCase runs a case. If trace is not nil, it receives every record of the run.
func RunCase(c *Case, trace func(*Record)) Result { return c.run(edits{}, trace) }

// run runs the case within bounds.
func (c *Case) run(bounds edits, trace func(*Record)) Result {
	bounds.injected, bounds.requested, bounds.changed = c.Injections, c.Requests, c.Changes
	bounds.ignored, bounds.app = c.Ignored, c.app
	return runEdited(Seed{c.Profile.Name, c.Number}, c.Profile, &bounds, trace)
}

// Verdict returns nil if a case ended with the result that it expects. Otherwise it returns an error that names the
// difference.
func (c *Case) Verdict(r Result) error {
	switch {
	case r.Failure == nil && c.Rule != Clean:
		return fmt.Errorf("fuzzy: rule %s was expected to fail, but no rule failed", c.Rule)
	case r.Failure != nil && c.Rule == Clean:
		return r.Failure
	case r.Failure != nil && r.Failure.Rule != c.Rule:
		return fmt.Errorf("fuzzy: rule %s was expected to fail, but another one did: %w", c.Rule, r.Failure)
	}
	return nil
}

// clone makes a deep copy: a change of the copy does not change the original.
func (c *Case) clone() Case {
	n := *c
	n.Profile.Faults = slices.Clone(c.Profile.Faults)
	n.Injections = map[FaultKind]ordinals{}
	for kind, kept := range c.Injections {
		n.Injections[kind] = kept.clone()
	}
	n.Requests, n.Changes = c.Requests.clone(), c.Changes.clone()
	return n
}

// Write writes the case in the form that ParseCase reads.
func (c *Case) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "raftlab case %d\n", CaseFormat)
	for _, line := range c.About {
		b.WriteString(strings.TrimSpace("# "+line) + "\n")
	}
	if c.From != "" {
		fmt.Fprintf(&b, "from %s\n", c.From)
	}
	if c.Mutant != "" {
		fmt.Fprintf(&b, "mutant %s\n", c.Mutant)
	}
	fmt.Fprintf(&b, "expect %s\n", c.Rule)
	if len(c.Ignored) > 0 {
		fmt.Fprintf(&b, "ignore %s\n", strings.Join(c.Ignored, " "))
	}
	fmt.Fprintf(&b, "number %x\n", c.Number)
	base := plain()
	for _, s := range settings {
		if !s.same(&c.Profile, &base) || slices.Contains(always, s.name) {
			fmt.Fprintf(&b, "%s %s\n", s.name, s.text(&c.Profile))
		}
	}
	for _, f := range c.Profile.Faults {
		kept, edited := c.Injections[f.Fault]
		fmt.Fprintf(&b, "fault %v every %v for %v injections %v\n", f.Fault, f.Every, f.For, ordinals{!edited || kept.all, kept.some})
	}
	fmt.Fprintf(&b, "requests %v\n", c.Requests)
	if c.Profile.Members.on() {
		fmt.Fprintf(&b, "changes %v\n", c.Changes)
	}
	if len(c.Story) > 0 {
		b.WriteString("story\n")
		for _, line := range c.Story {
			b.WriteString("  " + line + "\n")
		}
	}
	b.WriteString("end\n")
	_, err := io.WriteString(w, b.String())
	return err
}
