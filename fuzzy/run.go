package fuzzy

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariant of the simulation itself, which is checked on a sample of the seeds of every campaign.
//
//	T1  The same seed gives the same run, whichever program runs it.

// Class is the kind of failure that ended a run.
type Class string

// The classes.
const (
	Panic    Class = "crash"    // a core panicked
	Safety   Class = "safety"   // something happened that must never happen
	Liveness Class = "liveness" // something that must happen did not
	Staging  Class = "staging"  // a precondition of a directed scenario did not hold: the run proves nothing

	// Simulation is the class of a panic in the simulation or in a checker. Such a failure says nothing about the core.
	Simulation Class = "simulation"
)

// Failure is the first invariant that did not hold in a run.
type Failure struct {
	Class Class
	Rule  string // name of the rule, see the invariants_*.go files
	Text  string
	At    sim.Time
	Event int // number of the event
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s: %s (at %v, event %d)", f.Class, f.Rule, f.Text, f.At, f.Event)
}

// Stats counts what happened in a run.
type Stats struct {
	Events, Steps, Messages, Starts, Crashes int
	Faults, DiskFailures                     int
	ByFault                                  [faultKinds]int
	Injections                               [faultKinds]int64 // including those that were skipped
	Commits, Elections                       int
	Proposals                                int
	Requests                                 int // begun by clients in the first phase
	Changes                                  int // changes of members requested by admins in the first phase
	Changed                                  int // changes of members answered as made
	Ages                                     int // proofs of how old a state is
	StaleReads, StaleRefused                 int // reads with such a proof, and those without any
	Forwards                                 int // how often a member that does not lead has sent a write to the leader
	Forwarded                                int // writes of these that were answered as applied
	Errands, ErrandsDone                     int // changes and transfers that were forwarded so, with repetitions; those that were carried out
	Histories                                int
	SessionCommands                          [11]int // answers to commands of sessions, by sessions.Outcome
	Decisions                                [len(decisions)]int
	Raised, Outdated                         int // minimums of versions raised; programs that ended or did not start because of one
	Promises, LeaseReads                     int // of leases; reads that a lease has answered
	Takeovers                                int // transfers of leadership begun for a priority
	News                                     int // that a process has ended, true or not
	Told                                     int // members told of a cluster, whether it exists or not
	Petitions, Corrections                   int // changes decided for petitioners; corrections of entries that were asked for
	Aside                                    int // stores set aside
	Given                                    int // lists of initial members given to running members
	Images, Refusals, Marked                 int // disks put back, handshakes refused, stores marked
	Edges                                    int // logs cut beside the last acknowledged entry
	Compactions                              int // of logs
	Restores, Streams, EndedInstalls         int // of snapshots
	Segments                                 SegmentStats
	Passed                                   int    // members that came back to a log that begins after the end of their own
	Freezes                                  int    // states frozen to be streamed without a file
	Snapshots                                int    // snapshots written by an application
	Recoveries, Strangers                    int    // clusters recovered; messages of other clusters that reached a member
	Beyond                                   int    // runs that ended because nothing can be promised any longer
	Handed                                   Handed // configurations that leaders left unfinished
	Excuse                                   string // what the second phase lacked; "": nothing
}

// Result is how a run ended.
type Result struct {
	Seed    Seed
	Profile Profile
	Virtual sim.Time
	Hash    uint64 // hash of all events: the same in every run of the seed
	Failure *Failure
	Stats
	did
}

// Run runs one seed. If trace is not nil, it receives every record; trace does not influence the run.
func Run(seed Seed, trace func(*Record)) (Result, error) {
	p, err := Draw(seed)
	if err != nil {
		return Result{}, err
	}
	return RunProfile(seed, p, trace), nil
}

// RunProfile runs a seed with a given profile instead of the one that the seed draws.
func RunProfile(seed Seed, p Profile, trace func(*Record)) Result {
	return runEdited(seed, p, nil, trace)
}

func runEdited(seed Seed, p Profile, e *edits, trace func(*Record)) Result {
	c := newCluster(seed, p)
	c.edits, c.trace = e, trace
	c.hostApplication(e.application())
	c.record(Record{Kind: "begin", Format: TraceFormat, Seed: seed.String(), Profile: &p, Nodes: c.lanes()})
	c.guarded()
	for _, k := range c.all() {
		k.conclude()
		c.failure = cmp.Or(c.failure, k.failure)
	}
	c.record(Record{Kind: "end", Text: c.stats.Excuse})
	c.count()
	r := Result{Seed: seed, Profile: p, Virtual: c.now(), Hash: c.hash.sum, Failure: c.failure, Stats: c.stats}
	if c.host != nil {
		r.did = c.host.did
	}
	return r
}

// conclude ends the checks of a run, and completes the counts of what happened in it.
func (c *cluster) conclude() {
	if c.failure == nil && !c.edits.over(c) {
		c.checkHistory()
	}
	c.stats.Elections = c.check.elections
	c.stats.Proposals = len(c.work.writes) - 1
	c.check.endTenure()
	c.stats.Requests, c.stats.Changes = int(c.work.begun), int(c.admins.begun)
}

func (c *cluster) ids() (ids []string) {
	for _, n := range c.nodes {
		ids = append(ids, n.name())
	}
	return ids
}

// guarded runs the cluster and turns a panic into a failure.
func (c *cluster) guarded() {
	defer func() {
		p := recover()
		if p == nil || p == errCut {
			return
		}
		who := ""
		if c.current != nil {
			who = c.current.String()
		}
		var broken *raft.InvariantError
		if err, ok := p.(error); ok && errors.As(err, &broken) {
			c.fail(Panic, "invariant", "%s: %s\n%s", who, broken.Rule, debug.Stack())
			return
		}
		class, rule := Panic, "panic"
		if oursPanicked() {
			class, rule = Simulation, "simulation"
		}
		c.fail(class, rule, "%s: %v\n%s", who, p, debug.Stack())
	}()
	c.run()
}

// oursPanicked reports whether the panic being recovered began in the simulation or a checker, and not in the code under
// test. It looks at the first function of this module on the stack.
func oursPanicked() bool {
	places := make([]uintptr, 64)
	frames := runtime.CallersFrames(places[:runtime.Callers(1, places)])
	for panicking := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && strings.HasPrefix(frame.Function, module):
			return strings.HasPrefix(frame.Function, module+"/fuzzy.") || strings.HasPrefix(frame.Function, module+"/internal/sim.")
		case !more:
			return false
		}
	}
}

const module = "github.com/coxswain/raft"
