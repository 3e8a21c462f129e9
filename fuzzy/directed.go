package fuzzy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Directed scenarios play situations on purpose that random search rarely finds. A director controls a cluster without faults
// whose members use the real codec. Every invariant is checked after every event, and the second phase follows, as in every
// run. The scenarios add these rules:
//
//	S1  Each condition of a directed scenario is met within a bounded time.
//	S2  What a scenario says must happen, happens.
//	S3  What a scenario says must not happen, does not happen.

// ScenarioPrefix is the first part of a scenario's profile name. The name of the scenario follows: Seed{"scenario:figure-8",
// 0}. The seed's number varies delays, timeouts and ids, but not the story.
const ScenarioPrefix = "scenario:"

// scenario is one directed scenario.
type scenario struct {
	name     string
	about    string // what it shows, in a sentence
	source   string // where it comes from; empty: our own
	voters   int
	learners int
	shape    func(p *Profile) // changes the usual profile; may be nil
	play     func(d *director)
}

func scenarios() []scenario {
	return slices.Concat(electionScenarios, connectionScenarios, replicationScenarios, staleScenarios, markScenarios,
		readScenarios, transferScenarios, bootstrapScenarios, clockScenarios, strangerScenarios, stallScenarios, snapshotScenarios,
		memberScenarios, roomScenarios, newsScenarios, preferenceScenarios, heardScenarios, joiningScenarios)
}

// Scenarios lists the directed scenarios, each with its name and a sentence about its story: "figure-8: ...".
func Scenarios() []string {
	var list []string
	for _, s := range scenarios() {
		line := s.name + ": " + s.about
		if s.source != "" {
			line += " (" + s.source + ")"
		}
		list = append(list, line)
	}
	return list
}

// RunScenario plays a directed scenario. trace has the same meaning as in Run.
func RunScenario(name string, trace func(*Record)) (Result, error) {
	return Run(Seed{ScenarioPrefix + name, 0}, trace)
}

func findScenario(name string) (scenario, error) {
	all := scenarios()
	if i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name }); i >= 0 {
		return all[i], nil
	}
	return scenario{}, fmt.Errorf("fuzzy: unknown scenario %q; there are\n  %s", name, strings.Join(Scenarios(), "\n  "))
}

// drawScenario returns the world of a scenario, which has no faults and a little jitter.
func drawScenario(seed Seed, name string) (Profile, error) {
	s, err := findScenario(name)
	if err != nil {
		return Profile{}, err
	}
	millisecond := sim.In(time.Millisecond)
	p := Profile{
		Name: seed.Profile, Voters: s.voters, Learners: s.learners,
		ElectionTimeout: 150 * millisecond, Length: sim.In(time.Hour),
		Network: sim.NetworkFaults{Delay: sim.Delay{Min: millisecond / 4, Mean: millisecond / 2}, FIFO: true},
		Node: NodeProfile{
			Codec: sim.Million, Atomic: seed.Number%2 == 0, MergeMax: 4, CacheBytesMax: 1 + int(seed.Number%3)*1000,
			DiskDelay: sim.Delay{Min: millisecond / 4, Mean: millisecond / 2},
		},
		Limits: generousLimits(),
		Load:   Load{Clients: 64, Think: millisecond, Keys: 1, BytesMax: 32, Burst: 1, History: true},
	}
	if s.shape != nil {
		s.shape(&p)
	}
	return p, nil
}

// director plays a scenario on a cluster.
type director struct {
	c       *cluster
	story   scenario
	holds   []*hold
	client  int
	unheard map[*node][]raft.Seq // Persisted events that are withheld from a loop
	mute    *node                // the node whose senders do not run
}

// errCut is the panic value that ends a failed scenario.
var errCut = errors.New("fuzzy: cut")

// newDirector returns the director of a scenario's run, and nil for any other run.
func newDirector(c *cluster) *director {
	name, directed := strings.CutPrefix(c.seed.Profile, ScenarioPrefix)
	if !directed {
		return nil
	}
	story, err := findScenario(name)
	if err != nil {
		return nil // its profile was never drawn
	}
	return &director{c: c, story: story, unheard: map[*node][]raft.Seq{}}
}

// perform plays the scenario, and begins the second phase.
func (d *director) perform() {
	d.story.play(d)
	for _, n := range d.c.nodes {
		d.hear(n)
	}
	d.unmute()
	for _, h := range d.holds {
		h.release()
	}
	d.c.nextPhase()
}

// settle runs every loop that has work now.
func (d *director) settle() {
	d.c.stepReady()
	d.c.ready = d.c.ready[:0]
	if d.c.failure != nil {
		panic(errCut)
	}
}

// timeouts converts a number of election timeouts to a duration.
func (d *director) timeouts(n float64) sim.Time {
	return sim.Time(n * float64(d.c.profile.ElectionTimeout))
}

// wait lets a number of election timeouts pass.
func (d *director) wait(timeouts float64) { d.reached(timeouts, func() bool { return false }) }

// reached runs until a condition holds, for at most a number of election timeouts. It reports whether the condition
// holds.
func (d *director) reached(timeouts float64, is func() bool) bool {
	d.settle()
	over := d.c.now() + d.timeouts(timeouts)
	d.c.queue.Push(over, event{kind: evCue})
	for !is() {
		if d.c.now() >= over {
			return false
		}
		d.c.turn()
		if d.c.failure != nil {
			panic(errCut)
		}
	}
	return true
}

func (d *director) cut(class Class, rule, format string, args ...any) {
	d.c.fail(class, rule, format, args...)
	panic(errCut)
}

// until runs until a precondition of the scenario holds. If the precondition never holds, the run fails, because the scenario
// then proves nothing.
func (d *director) until(what string, is func() bool) {
	if !d.reached(setTimeouts, is) {
		d.cut(Staging, "S1", "the scenario did not come about: %s, within %d election timeouts\n%s",
			what, setTimeouts, d.c.describe())
	}
}

const setTimeouts = 30

// given checks a precondition of the scenario that must hold now.
func (d *director) given(what string, is bool) {
	d.settle()
	if !is {
		d.cut(Staging, "S1", "the scenario did not come about: %s\n%s", what, d.c.describe())
	}
}

// expect runs until a condition holds. It fails the run if the condition does not become true in time.
func (d *director) expect(timeouts float64, what string, is func() bool) {
	if !d.reached(timeouts, is) {
		d.cut(Liveness, "S2", "not within %.1f election timeouts: %s\n%s", timeouts, what, d.c.describe())
	}
}

// always checks that a condition holds for some time. It checks the condition after every event.
func (d *director) always(timeouts float64, what string, is func() bool) {
	if d.reached(timeouts, func() bool { return !is() }) {
		d.cut(Safety, "S3", "no longer true: %s\n%s", what, d.c.describe())
	}
}

// check checks that a condition holds now.
func (d *director) check(what string, is func() bool) {
	d.settle()
	if !is() {
		d.cut(Safety, "S3", "not true: %s\n%s", what, d.c.describe())
	}
}
