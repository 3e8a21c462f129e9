package elections

import (
	"fmt"

	"github.com/coxswain/raft/internal/sim"
)

// Run runs one seed, and returns the measured values. If trace is not nil, Run calls it with every event of the run. The
// trace does not change the run.
func Run(a *Algorithm, s *Scenario, setup *Setup, seed uint64, trace func(Record)) (Outcome, error) {
	if err := setup.Validate(); err != nil {
		return Outcome{}, err
	}
	if s.cuts && setup.N > sim.NodesMax {
		return Outcome{}, fmt.Errorf("elections: n = %d: %s cuts links, and takes at most %d members", setup.N, s.Name, sim.NodesMax)
	}
	if !s.Takes(a) {
		return Outcome{}, fmt.Errorf("elections: the members of %s have no priorities, which %s changes; those of %s do",
			a.Name, s.Name, namesOf(algorithms, s.Takes))
	}
	var disks []any
	if a.Bootstrap != nil {
		var err error
		if disks, err = a.Bootstrap(setup); err != nil {
			return Outcome{}, err
		}
	}
	w := newWorld(a, setup, seed, disks)
	w.trace = trace
	w.record(Record{Kind: RecordBegin, Text: a.Name + " " + s.Name, N: setup.N, Seed: seed, Format: TraceFormat})
	fault := s.plan(w)
	inTime := w.run(fault + w.times.lasting(runTime))
	outcome := w.watch.end(inTime)
	w.record(Record{Kind: RecordEnd})
	return outcome, nil
}
