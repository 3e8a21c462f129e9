package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// figures are the results of one run, by their names.
type figures map[string]float64

// The names of the figures of a closed or an open loop.
const (
	opsPerSecond = "operations a second"
	operations   = "operations"
	failed       = "failed"
	p50          = "p50 ms"
	p99          = "p99 ms"
	p999         = "p99.9 ms"
	slowest      = "slowest ms"
	cpu          = "CPU s per 100,000"
	allocations  = "allocations an operation"
	switches     = "switches an operation"
	residentMax  = "resident MiB under load"
	anonymousMax = "of it anonymous MiB" // without memory that is mapped from files
	residentRest = "resident MiB after it"
	// Without memory that is mapped from files.
	anonymousRest = "anonymous MiB after it"
)

// The names of the figures of other kinds.
const (
	failoverMs     = "failover ms"     // mean of the run's kills
	failoverWorst  = "worst ms"        // slowest of the run's kills
	firstAckMs     = "first write ms"  // from the start of all processes
	allAppliedMs   = "all applied ms"  // on all replicas
	caughtUpMs     = "caught up ms"    // from the start of the follower's process
	idleCPU        = "CPU % of a core" // of all processes
	idleSwitches   = "switches a second"
	idleResident   = "resident MiB"
	idleAnonymous  = "anonymous MiB"
	emptyResident  = "empty process MiB"
	loopbackMicros = "loopback round trip p50 us"
)

const mebi = 1 << 20

// run is one run of one contestant on one cell.
type run struct {
	cell            cell
	contestant      string
	dir             string // empty, and removed after the run
	warmup, measure time.Duration
	profiles        string // directory for profiles; "": none

	firstFailure string // first failed operation, for the results
}

// do runs the scenario of the cell's kind.
func (r *run) do(ctx context.Context) (figures, error) {
	switch r.cell.Kind {
	case limits:
		return r.limits(ctx)
	case store:
		return r.store(ctx)
	}
	c, err := newCluster(r.contestant, r.cell, r.dir)
	if err != nil {
		return nil, err
	}
	f, err := r.on(ctx, c)
	return f, c.end(err)
}

func (r *run) on(ctx context.Context, c *cluster) (figures, error) {
	switch r.cell.Kind {
	case failover:
		return r.failover(ctx, c)
	case restart:
		return r.restart(ctx, c)
	case catchUp:
		return r.catchUp(ctx, c)
	case idle:
		return r.idle(ctx, c)
	}
	return r.loop(ctx, c)
}

// begin starts the whole cluster and returns the process that leads.
func (r *run) begin(ctx context.Context, c *cluster) (leader int, err error) {
	if err := c.start(ctx); err != nil {
		return 0, err
	}
	return c.firstWrite(ctx)
}

// loop runs a closed or an open loop.
func (r *run) loop(ctx context.Context, c *cluster) (figures, error) {
	if r.cell.Follower == followerSlow {
		unmount, err := mountSlow(filepath.Join(r.dir, fmt.Sprint(r.cell.Replicas)), slowSync)
		if err != nil {
			return nil, err
		}
		f, err := r.loopWithLaggard(ctx, c)
		return f, errors.Join(c.end(err), unmount())
	}
	return r.loopWithLaggard(ctx, c)
}

func (r *run) loopWithLaggard(ctx context.Context, c *cluster) (figures, error) {
	leader, err := r.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	if leader, err = r.hinder(ctx, c, leader); err != nil {
		return nil, err
	}
	f, err := r.drive(ctx, c, leader)
	if err != nil || r.cell.Rest == 0 {
		return f, err
	}
	wait(ctx, r.cell.Rest)
	after, err := c.usage(ctx)
	f[residentRest], f[anonymousRest] = float64(after.Resident)/mebi, float64(after.Anonymous)/mebi
	return f, err
}

// hinder stops or slows one follower, as the cell requires. It returns the process that leads afterwards.
func (r *run) hinder(ctx context.Context, c *cluster, leader int) (int, error) {
	last := len(c.processes) - 1
	switch {
	case r.cell.Follower == followerStopped:
		return leader, c.freeze((leader + 1) % len(c.processes))
	case r.cell.Follower == followerSlow && leader == last: // its disk is the slow one
		c.kill(last)
		next, err := c.firstWrite(ctx)
		if err != nil {
			return 0, err
		}
		return next, r.rejoin(ctx, c, last, next)
	}
	return leader, nil
}

// usagePause is the time between two measurements of memory under load.
const usagePause = 200 * time.Millisecond

// drive runs the load, and measures the resources of all processes meanwhile.
func (r *run) drive(ctx context.Context, c *cluster, leader int) (figures, error) {
	var driven Driven
	ended := make(chan error, 1)
	go func() {
		ended <- c.processes[leader].call(ctx, "Drive", Drive{
			Callers: r.cell.Callers, Bytes: r.cell.Bytes, Rate: r.cell.Rate, Warmup: r.warmup, Measure: r.measure, Profiles: r.profiles,
			Read: r.cell.Read, Sessions: r.cell.Sessions,
		}, &driven)
	}()
	used, usageErr := r.usageWithin(ctx, c)
	if err := errors.Join(<-ended, usageErr); err != nil {
		return nil, err
	}
	f := driven.Figures
	r.firstFailure = driven.Failure
	if f[operations] == 0 {
		return nil, fmt.Errorf("no operation succeeded: %s", driven.Failure)
	}
	perSecond := f[opsPerSecond]
	f[cpu] = used.cpu / perSecond * 100_000
	f[allocations] = used.allocations / perSecond
	f[switches] = used.switches / perSecond
	f[residentMax], f[anonymousMax] = used.resident, used.anonymous
	return f, nil
}

// rates are the resources of a cluster per second, and its peak memory, in MiB.
type rates struct{ cpu, allocations, switches, resident, anonymous float64 }

func (r *run) usageWithin(ctx context.Context, c *cluster) (rates, error) {
	wait(ctx, r.warmup)
	first, err := c.usage(ctx)
	if err != nil {
		return rates{}, err
	}
	began, last, most := time.Now(), first, first
	for time.Since(began) < r.measure && ctx.Err() == nil {
		wait(ctx, min(usagePause, r.measure-time.Since(began)))
		if last, err = c.usage(ctx); err != nil {
			return rates{}, err
		}
		most.Resident, most.Anonymous = max(most.Resident, last.Resident), max(most.Anonymous, last.Anonymous)
	}
	took := time.Since(began).Seconds()
	return rates{
		cpu:         (last.CPU - first.CPU).Seconds() / took,
		allocations: float64(last.Allocations-first.Allocations) / took,
		switches:    float64(last.Switches-first.Switches) / took,
		resident:    float64(most.Resident) / mebi,
		anonymous:   float64(most.Anonymous) / mebi,
	}, ctx.Err()
}

// failover kills the leader's process repeatedly.
func (r *run) failover(ctx context.Context, c *cluster) (figures, error) {
	all, err := r.killLeaders(ctx, c)
	if err != nil {
		return nil, err
	}
	var sum time.Duration
	for _, took := range all {
		sum += took
	}
	return figures{failoverMs: milliseconds(sum) / float64(len(all)), failoverWorst: milliseconds(slices.Max(all))}, nil
}

// failoverRest is the time between a rejoin and the next kill, in which the leader tells the others what it tells them in time.
const failoverRest = 500 * time.Millisecond

// killLeaders kills the leader's process repeatedly. It returns the times from each kill to the next acknowledged write.
func (r *run) killLeaders(ctx context.Context, c *cluster) (all []time.Duration, err error) {
	leader, err := r.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	for range r.cell.Kills {
		wait(ctx, failoverRest)
		began := time.Now()
		killed := leader
		c.processes[killed].signalKill() // its end, which takes time, is awaited afterwards
		if leader, err = c.firstWrite(ctx); err != nil {
			return all, err
		}
		all = append(all, time.Since(began))
		c.kill(killed)
		if err := r.rejoin(ctx, c, killed, leader); err != nil {
			return all, err
		}
	}
	return all, nil
}

// rejoin restarts a process, and waits until the process has caught up with the leader. Then the process can win the next
// election.
func (r *run) rejoin(ctx context.Context, c *cluster, which, leader int) error {
	if err := c.start(ctx, which); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startupMax)
	defer cancel()
	var applied []uint64
	if err := c.processes[leader].call(ctx, "Applied", None(false), &applied); err != nil {
		return err
	}
	return c.awaitApplied(ctx, which, applied[0])
}

// fill writes entries through the leader.
func (r *run) fill(ctx context.Context, c *cluster, leader int) error {
	var driven Driven
	err := c.processes[leader].call(ctx, "Drive",
		Drive{Callers: r.cell.Callers, Bytes: r.cell.Bytes, Operations: r.cell.Entries}, &driven)
	if err == nil && driven.Figures[failed] > 0 {
		err = fmt.Errorf("%v writes failed, one of them: %s", driven.Figures[failed], driven.Failure)
	}
	return err
}

// restart fills the logs, kills all processes, and starts them again.
func (r *run) restart(ctx context.Context, c *cluster) (figures, error) {
	c.tune(false) // with short timeouts some libraries lose their leader under this load, which is not measured here
	leader, err := r.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, c, leader); err != nil {
		return nil, err
	}
	for _, i := range c.running() {
		if err := c.awaitApplied(ctx, i, uint64(r.cell.Entries)); err != nil {
			return nil, err
		}
	}
	for _, i := range c.running() {
		c.kill(i)
	}
	c.tune(r.cell.Tuned)
	began := time.Now()
	if _, err := r.begin(ctx, c); err != nil {
		return nil, err
	}
	f := figures{firstAckMs: milliseconds(time.Since(began))}
	for _, i := range c.running() {
		if err := c.awaitApplied(ctx, i, uint64(r.cell.Entries)); err != nil {
			return nil, err
		}
	}
	f[allAppliedMs] = milliseconds(time.Since(began))
	u, err := c.usage(ctx)
	f[idleResident], f[idleAnonymous] = float64(u.Resident)/mebi, float64(u.Anonymous)/mebi
	return f, err
}

// catchUp kills a follower that has almost no log, fills the logs of the others, and restarts the follower.
func (r *run) catchUp(ctx context.Context, c *cluster) (figures, error) {
	leader, err := r.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	follower := (leader + 1) % len(c.processes)
	c.kill(follower)
	if err := r.fill(ctx, c, leader); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.start(ctx, follower); err != nil {
		return nil, err
	}
	err = c.awaitApplied(ctx, follower, uint64(r.cell.Entries))
	return figures{caughtUpMs: milliseconds(time.Since(began))}, err
}

// idle leaves the cluster alone.
func (r *run) idle(ctx context.Context, c *cluster) (figures, error) {
	if _, err := r.begin(ctx, c); err != nil {
		return nil, err
	}
	wait(ctx, r.warmup)
	first, err := c.usage(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	wait(ctx, idleFactor*r.measure)
	last, err := c.usage(ctx)
	took := time.Since(began).Seconds()
	return figures{
		idleCPU:       100 * (last.CPU - first.CPU).Seconds() / took,
		idleSwitches:  float64(last.Switches-first.Switches) / took,
		idleResident:  float64(last.Resident) / mebi,
		idleAnonymous: float64(last.Anonymous) / mebi,
	}, err
}

// idleFactor is the duration of an idle cell as a multiple of a load's duration. Idle cells last longer, because a low CPU
// use takes longer to measure.
const idleFactor = 3

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// wait pauses, but not beyond the end of the context.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
