package elections

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Plan says what to compare: every algorithm in every scenario at every size.
type Plan struct {
	Algorithms []*Algorithm
	Scenarios  []*Scenario
	Sizes      []int
	First      uint64 // the first seed
	Seeds      int    // of a cell of up to 9 members; see SeedsAt
	Setup      Setup  // of every run, except N
	Workers    int
	// Done, if it is not nil, is called with the number of runs that a worker has just ended. Several
	// goroutines call it.
	Done func(runs int)
}

// The limits of a Plan.
const (
	SeedsMax   = 1_000_000
	WorkersMax = 1024
	// crashOnlyAbove is the largest size at which all scenarios are run. Above it, only the leader crash is.
	crashOnlyAbove = 25
	crashOnly      = "leader-crash"
	batch          = 25 // seeds that a worker takes at a time
)

// DefaultSizes returns the sizes of the comparison. At the last one, only the leader crash is run.
func DefaultSizes() []int { return []int{3, 5, 9, 25, 101} }

// SeedsAt returns how many seeds a cell of n members gets: all up to 9 members, a tenth up to 25, a hundredth
// above.
func (p *Plan) SeedsAt(n int) int {
	switch {
	case n <= 9:
		return p.Seeds
	case n <= crashOnlyAbove:
		return (p.Seeds + 9) / 10
	}
	return (p.Seeds + 99) / 100
}

// Cell holds all runs of one algorithm in one scenario at one size.
type Cell struct {
	Algorithm *Algorithm
	Scenario  *Scenario
	N         int
	Outcomes  []Outcome // by seed, from Plan.First on
}

// Values returns one measure of all runs, by seed.
func (c *Cell) Values(m Measure) []int64 {
	values := make([]int64, len(c.Outcomes))
	for i := range c.Outcomes {
		values[i] = c.Outcomes[i][m]
	}
	return values
}

// Cells returns the empty cells of the plan, ordered by scenario, size and algorithm. There is no cell for a
// scenario that does not apply to an algorithm.
func (p *Plan) Cells() []Cell {
	var cells []Cell
	for _, s := range p.Scenarios {
		for _, n := range p.Sizes {
			if n > crashOnlyAbove && s.Name != crashOnly {
				continue
			}
			for _, a := range p.Algorithms {
				if s.Takes(a) {
					cells = append(cells, Cell{a, s, n, make([]Outcome, p.SeedsAt(n))})
				}
			}
		}
	}
	return cells
}

// Runs returns the number of runs in the plan.
func (p *Plan) Runs() (runs int) {
	for _, c := range p.Cells() {
		runs += len(c.Outcomes)
	}
	return runs
}

// Validate returns what is wrong with the plan, and the remedy.
func (p *Plan) Validate() error {
	if len(p.Algorithms) == 0 || len(p.Scenarios) == 0 || len(p.Sizes) == 0 {
		return fmt.Errorf("elections: nothing to compare: it takes an algorithm, a scenario and a size")
	}
	if p.Seeds < 1 || p.Seeds > SeedsMax {
		return fmt.Errorf("elections: %d seeds: it takes 1 to %d", p.Seeds, SeedsMax)
	}
	if p.Workers < 1 || p.Workers > WorkersMax {
		return fmt.Errorf("elections: %d workers: it takes 1 to %d", p.Workers, WorkersMax)
	}
	if err := p.Setup.CheckUsed(p.Algorithms...); err != nil {
		return err
	}
	for i, n := range p.Sizes {
		s := p.Setup
		s.N = n
		if err := s.Validate(); err != nil {
			return err
		}
		for _, other := range p.Sizes[:i] {
			if n == other {
				return fmt.Errorf("elections: the size %d is named twice", n)
			}
		}
	}
	if len(p.Cells()) == 0 {
		if s := p.Scenarios[0]; !slices.ContainsFunc(p.Algorithms, s.Takes) {
			return fmt.Errorf("elections: %s means something only to %s", s.Name, namesOf(algorithms, s.Takes))
		}
		return fmt.Errorf("elections: above %d members there is only the scenario %s", crashOnlyAbove, crashOnly)
	}
	return nil
}

// job is some seeds of a cell.
type job struct{ cell, from, to int }

// Compare runs the plan. The result depends on the plan alone, not on the number of workers.
func (p *Plan) Compare(ctx context.Context) ([]Cell, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	cells := p.Cells()
	var jobs []job
	for i := range cells {
		for from := 0; from < len(cells[i].Outcomes); from += batch {
			jobs = append(jobs, job{i, from, min(from+batch, len(cells[i].Outcomes))})
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(jobs)) {
					return
				}
				if err := p.do(&cells[jobs[i].cell], jobs[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return cells, context.Cause(ctx)
}

func (p *Plan) do(c *Cell, j job) error {
	setup := p.Setup
	setup.N = c.N
	for i := j.from; i < j.to; i++ {
		outcome, err := Run(c.Algorithm, c.Scenario, &setup, p.First+uint64(i), nil)
		if err != nil {
			return err
		}
		c.Outcomes[i] = outcome
	}
	if p.Done != nil {
		p.Done(j.to - j.from)
	}
	return nil
}
