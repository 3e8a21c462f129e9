package zoo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mutant is one bug.
type Mutant struct {
	ID     string
	Rule   string // statement that holds without the bug
	Bug    string // what happens with the bug
	Edits  []Edit
	Expect string // the invariants that should catch it
	Seen   string // real incident behind it, if any

	// Before is true if the bug was known when the check that kills the mutant was written. In that case, its death was
	// arranged. All other mutants are newer than the checks that kill them.
	Before bool

	Profiles []string // profiles of the simulator to hunt it with; none: defaultProfiles
	Outside  bool     // the bug is in code that the simulator does not run
	Test     *Test    // the test that catches it, if no seed did
	MustKill bool     // each change of the library must leave it killable
	Alive    string   // why nothing catches it, if nothing does
}

// Test names tests of the module by package and by the pattern of -run.
type Test struct {
	Package string // directory, relative to the module's root
	Run     string
}

// Edit is a change of one place in a file. Its anchor is a text that occurs in the file exactly once.
type Edit struct {
	File   string // path relative to the module's root
	Kind   EditKind
	Anchor string
	Code   string
}

// EditKind says how the code of the mutant changes the anchor.
type EditKind uint8

// The kinds of edits. Several mutants may share an anchor. Anchors that overlap without being equal are refused.
const (
	Before  EditKind = iota // the code runs before the anchor, a statement
	Instead                 // the code runs instead of the anchor, a statement
	Value                   // the anchor, an expression, has the code's value; both are computed
)

const (
	// Canary must fail every run, and Noop must fail no run. Otherwise the reports on all other mutants are invalid.
	Canary = "canary"
	Noop   = "no-op"
)

func before(file, anchor, code string) Edit  { return Edit{file, Before, anchor, code} }
func instead(file, anchor, code string) Edit { return Edit{file, Instead, anchor, code} }
func value(file, anchor, code string) Edit   { return Edit{file, Value, anchor, code} }

// mutant returns a mutant that is hunted with the default profiles, and that is newer than the checks that kill it. Each
// method of a Mutant returns the mutant with one property changed.
func mutant(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Rule: rule, Bug: bug, Edits: edits, Expect: expect}
}

// arranged sets Before: the mutant was known when the check that kills it was written.
func (m Mutant) arranged() Mutant {
	m.Before = true
	return m
}

// seen sets the incident on which the mutant is modelled.
func (m Mutant) seen(incident string) Mutant {
	m.Seen = incident
	return m
}

// profiles sets the profiles with which the mutant is hunted.
func (m Mutant) profiles(names ...string) Mutant {
	m.Profiles = names
	return m
}

// or sets the test of the core that catches the mutant if no seed does.
func (m Mutant) or(run string) Mutant { return m.test(".", run) }

// test sets the test of a package that catches the mutant if no seed does.
func (m Mutant) test(where, run string) Mutant {
	m.Test = &Test{where, run}
	return m
}

// outside marks the mutant as part of code that the simulator does not run, and sets the test that catches it.
func (m Mutant) outside(where, run string) Mutant {
	m.Outside = true
	return m.test(where, run)
}

// lives sets the reason why nothing catches the mutant.
func (m Mutant) lives(why string) Mutant {
	m.Alive = why
	return m
}

// must sets MustKill.
func (m Mutant) must() Mutant {
	m.MustKill = true
	return m
}

// All returns every mutant, including the canary and the no-op.
func All() []Mutant {
	return slices.Concat(keepers, elections, preVotes, replication, persistence, reads, transfers, bootstrap, images, marks, clients,
		surroundings, ports, contacts, invitations, admissions, edges, waits, slowness, counters, early, queues, formats, snapshotFiles, snapshots, freezes, takers, memberships, memberChanges, priorities, appVersions, preferences, takeovers, leases, joining, segmentLogs, hangs, forwards, founding, verdicts, sizes, schedules, leaks, quiet, bounds, questions, working, ages, sessionRules, recoveries)
}

// keepers are the mutants that test the zoo itself.
var keepers = []Mutant{
	{
		ID: Canary, Rule: "the zoo notices a bug", Bug: "a member panics when it is elected",
		Edits:  []Edit{before("raft.go", `c.setRole(c.self, nil, c.newLeader(roundTrip))`, `panic("the canary sings")`)},
		Expect: "panic", MustKill: true,
	},
	{
		ID: Noop, Rule: "the zoo reports no bug where there is none", Bug: "nothing",
		Edits: []Edit{before("raft.go", `c.setRole(c.self, nil, c.newLeader(roundTrip))`, `_ = c`)},
		Alive: "nothing is wrong with it",
	},
}

// ErrUsage is matched by errors of the caller's arguments.
var ErrUsage = errors.New("zoo")

// Choose returns the mutants with the given ids. Without ids, it returns all mutants.
func Choose(ids []string) ([]Mutant, error) {
	all := All()
	if len(ids) == 0 {
		return all, nil
	}
	var chosen []Mutant
	for _, id := range ids {
		i := slices.IndexFunc(all, func(m Mutant) bool { return m.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: unknown mutant %q; there are %s", ErrUsage, id, strings.Join(idsOf(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func idsOf(mutants []Mutant) (ids []string) {
	for _, m := range mutants {
		ids = append(ids, m.ID)
	}
	return ids
}
