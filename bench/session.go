package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	triesMax = 3               // attempts of one run
	runMax   = 4 * time.Minute // time of one run without its load
)

// session measures tiers of cells, one round after another. Within a cell the contestants take turns. The speed of a machine
// drifts, so figures from different hours are not comparable. Each finished run is written at once, so that a later session
// continues from there.
type session struct {
	tiers           []tier
	contestants     []string
	skips           func(c cell, contestant string) bool // nil: none
	rounds          int
	warmup, measure time.Duration
	once            bool // disturbed runs are not repeated
	results         string
	dir             string // directory for the data
	profiles        string // directory for profiles; "": none
	out             io.Writer

	done map[string]int             // attempts of each run in this session; triesMax if one counts
	took map[string][]time.Duration // durations of finished runs, by their key in round 0
}

// runKey identifies a run that needs one result.
func runKey(c cell, contestant string, round int) string {
	return fmt.Sprintf("%+v/%s/%d", c, contestant, round)
}

// resume reads the results of earlier sessions. A run without a valid result stays in the plan, and is repeated.
func (s *session) resume(now conditions) error {
	records, err := readResults(s.results)
	s.done, s.took = map[string]int{}, map[string][]time.Duration{}
	for _, r := range records {
		if r.Run != nil {
			if r.Run.counts() {
				s.note(*r.Run)
			}
			continue
		}
		if why := now.differs(*r.Conditions); why != "" {
			return fmt.Errorf("%s has results %s: use another file for --results", s.results, why)
		}
	}
	return err
}

func (s *session) note(r result) {
	key, each := runKey(r.Cell, r.Contestant, r.Round), runKey(r.Cell, r.Contestant, 0)
	s.done[key]++
	s.took[each] = append(s.took[each], r.Took)
	if r.counts() {
		s.done[key] = triesMax
	}
}

// run measures the remaining runs, or returns when the context ends.
func (s *session) run(ctx context.Context, now conditions) error {
	if err := s.resume(now); err != nil {
		return err
	}
	if err := appendRecord(s.results, record{Conditions: &now}); err != nil {
		return err
	}
	s.outline()
	left, missing := s.left(), 0
	for i, x := range left {
		measured, err := s.measureOnce(ctx, x, left[i:])
		if err != nil {
			return err
		}
		if !measured {
			missing++
		}
	}
	if missing > 0 {
		s.say("%d runs have no result that counts; start it again to repeat them", missing)
	}
	return nil
}

// shuffled returns the names in an order that depends only on the seeds. The orders differ, so that no contestant always runs
// after the same one.
func shuffled(names []string, seed1, seed2 uint64) []string {
	random := rand.New(rand.NewPCG(seed1, seed2))
	order := slices.Clone(names)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

func (s *session) contestantsOf(c cell) []string {
	if c.Kind == limits {
		return []string{machine}
	}
	return slices.DeleteFunc(slices.Clone(s.contestants), func(name string) bool {
		if of, found := contestantOf(name); found && !of.has(c) {
			return true
		}
		return slices.Contains(storeNames(), name) != (c.Kind == store) || s.skips != nil && s.skips(c, name)
	})
}

// measureOnce repeats the first of the remaining steps until one of its runs counts, or triesMax runs are made.
func (s *session) measureOnce(ctx context.Context, x step, left []step) (measured bool, err error) {
	key := runKey(x.cell, x.contestant, x.round)
	for s.done[key] < triesMax {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		r := s.try(ctx, x.cell, x.contestant)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		r.Round = x.round
		if s.once {
			r.Disturbed = false
		}
		if err := appendRecord(s.results, record{Run: &r}); err != nil {
			return false, err
		}
		s.note(r)
		measured = r.counts()
		s.say("%s left  %d  %-20s %-52s %s", minutes(s.expected(left[1:])), x.round, x.contestant, x.cell, r.line())
		if s.once {
			return true, nil
		}
	}
	return measured, nil
}

// try makes one run on empty disks.
func (s *session) try(ctx context.Context, c cell, contestant string) result {
	began := time.Now()
	syscall.Sync() // writes of earlier runs must not happen during this one
	result := result{Time: began.UTC().Truncate(time.Second), Cell: c, Contestant: contestant}
	err := func() (err error) {
		dir, err := os.MkdirTemp(s.dir, "run-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		before, err := useNow()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.warmup+s.measure+runMax)
		defer cancel()
		r := run{cell: c, contestant: contestant, dir: dir, warmup: s.warmup, measure: s.measure}
		if s.profiles != "" {
			r.profiles = filepath.Join(s.profiles, strings.ReplaceAll(fmt.Sprint(c, ", ", contestant), " ", "-"))
			if err := os.MkdirAll(r.profiles, 0o755); err != nil {
				return err
			}
		}
		if result.Figures, err = r.do(ctx); err != nil {
			return err
		}
		result.Operation = r.firstFailure
		after, err := useNow()
		result.Shares = after.since(before)
		result.Disturbed = result.Shares.tooMuch()
		return err
	}()
	if err != nil {
		result.Failure = err.Error()
	}
	result.Took = time.Since(began).Round(time.Millisecond)
	return result
}

// line describes the run in one line.
func (r result) line() string {
	if r.Failure != "" {
		return "failed: " + r.Failure
	}
	text := ""
	for _, name := range headlines[r.Cell.Kind] {
		if x, found := r.Figures[name]; found {
			text += fmt.Sprintf("%s: %s; ", name, short(x))
		}
	}
	if r.Operation != "" {
		text += "the first failure: " + r.Operation + "; "
	}
	if r.Disturbed {
		text += fmt.Sprintf("disturbed: others %.2f, stolen %.2f of a core; ", r.Shares.Others, r.Shares.Stolen)
	}
	return strings.TrimSuffix(text, "; ")
}

// headlines lists, for each kind, the figures that are shown. The first one is the main result.
var headlines = map[kind][]string{
	closedLoop: {opsPerSecond, p50, p99, cpu, allocations, residentMax, anonymousMax, residentRest, anonymousRest, failed},
	openLoop:   {opsPerSecond, p50, p99, p999, failed},
	reads:      {opsPerSecond, p50, p99, cpu, allocations, failed},
	failover:   {failoverMs, failoverWorst},
	restart:    {firstAckMs, allAppliedMs, idleResident, idleAnonymous},
	catchUp:    {caughtUpMs},
	idle:       {idleCPU, idleSwitches, idleResident, idleAnonymous},
	store:      {opsPerSecond, p50, p99, p999, residentMax, failed},
	limits:     {syncMicros(syncSizes[0]), syncRate(syncSizes[len(syncSizes)-1]), loopbackMicros, emptyResident},
}
