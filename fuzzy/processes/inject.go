package processes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
)

// leaderWait is the time for which a fault aimed at the leader waits until there is a leader.
const leaderWait = 5 * time.Second

// storm injects the faults of the schedule until the duration is over or the context ends.
func (w *world) storm(ctx context.Context) error {
	faults := draw(w.Seed, w.budget(""), w.kinds, w.Duration)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(watching, w.Duration)
	defer cancel()
	w.began = time.Now()
	errs := make([]error, lanes)
	var watch, injecting sync.WaitGroup
	watch.Go(func() { w.observe(watching) })
	for l := range lanes {
		injecting.Go(func() {
			errs[l] = w.guard(func() error { return w.injectAll(ctx, inLane(faults, l)) })
			if errs[l] != nil {
				cancel()
			}
		})
	}
	<-ctx.Done()
	injecting.Wait()
	interrupted := watching.Err() != nil
	stop()
	watch.Wait()
	w.report.Seconds = time.Since(w.began).Seconds()
	if len(w.report.Faults) == 0 && !interrupted {
		errs = append(errs, errors.New("no fault was injected: choose a longer --duration"))
	}
	return errors.Join(errs...)
}

// injectAll injects the faults one after another. If a fault is late, injectAll injects it at once.
func (w *world) injectAll(ctx context.Context, faults []Fault) error {
	for _, f := range faults {
		pause(ctx, time.Until(w.began.Add(f.At)))
		if ctx.Err() != nil {
			return nil
		}
		h, _ := habitOf(f.Kind)
		var err error
		switch h.lane {
		case network:
			err = w.disturb(ctx, f)
		case changes:
			err = w.reshape(ctx, f)
		default:
			err = w.harm(ctx, f, h.fuse)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Kind, err)
		}
	}
	return nil
}

// count records a fault that has begun.
func (w *world) count(f Fault, format string, args ...any) {
	w.note("%-14s %s", f.Kind, fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Faults[f.Kind]++
}

// victim returns the member that the fault is aimed at, and whether it leads.
func (w *world) victim(ctx context.Context, f Fault, wait time.Duration) (m *member, leads bool) {
	if f.Leader {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if leader, err := w.cluster.AwaitLeader(ctx, ""); err == nil {
			return w.members[w.index(leader.ID)], true
		}
	}
	some := w.inside()
	m = some[f.Node%len(some)]
	leader, found := w.cluster.Leader(ctx)
	return m, found && leader.ID == m.ID
}

// harm runs a fault of a process or its disk, and then starts all members that have ended.
func (w *world) harm(ctx context.Context, f Fault, disk bool) error {
	if disk {
		w.disks.Lock()
		defer w.disks.Unlock()
	}
	return errors.Join(w.inject(ctx, f), w.startAll())
}

// inject runs a fault of a process or its disk from beginning to end. It may leave the member stopped.
func (w *world) inject(ctx context.Context, f Fault) error {
	switch f.Kind {
	case KillAll, PowerCutAll:
		return w.injectEach(ctx, f)
	}
	m, leads := w.victim(ctx, f, leaderWait)
	if f.aimed() {
		m = w.whileWriting(ctx, f, m)
	}
	if ctx.Err() != nil {
		return nil
	}
	switch f.Kind {
	case Pause:
		return w.pause(ctx, f, m)
	case Away:
		return w.away(ctx, f, m)
	case KillTaking, KillSending, KillReceiving:
		return w.killAimed(ctx, f, m)
	case FullDisk:
		return w.failDisk(ctx, f, m, func() error { return m.disk.fs.Fill(true) })
	case FailSync:
		return w.failDisk(ctx, f, m, func() error { return m.disk.fs.FailSyncs(int(f.Random % 8)) })
	case StallSync:
		return w.stall(ctx, f, m)
	}
	w.kill(m)
	w.count(f, "%s, leads: %v, for %v", m.ID, leads, f.For)
	var err error
	if f.Kind == Kill && leads {
		w.tell(func(r *Report) { r.LeaderKills++ })
	}
	if f.Kind == PowerCut {
		err = m.disk.cut(w.cutHow(f.Random))
	}
	pause(ctx, f.For)
	return err
}

// kill kills the members, all at the same time.
func (w *world) kill(members ...*member) {
	var ids []string
	for _, m := range members {
		m.starting.Lock() // otherwise a process that starts now would not be marked as doomed
		defer m.starting.Unlock()
		m.doom()
		ids = append(ids, m.ID)
	}
	w.cluster.Kill(ids...)
}

// injectEach kills all members at once. For PowerCutAll, it also cuts the power of all disks.
func (w *world) injectEach(ctx context.Context, f Fault) error {
	w.blackouts.Add(1)
	w.kill(w.members...)
	w.count(f, "all, for %v", f.For)
	var err error
	for i, m := range w.members {
		if f.Kind == PowerCutAll {
			err = errors.Join(err, m.disk.cut(w.cutHow(f.Random>>i)))
		}
	}
	pause(ctx, f.For)
	return err
}

// cutHow returns the number that decides which unsynced writes survive a power cut. On a disk that lies about syncs, no
// unsynced write survives. If half of these writes survived, the member would find a damaged file. A damaged file does not
// show lost writes.
func (w *world) cutHow(random uint64) uint64 {
	if w.Lie {
		return 0
	}
	return random
}

func (w *world) pause(ctx context.Context, f Fault, m *member) error {
	p := w.cluster.Process(m.ID)
	err := p.Freeze()
	if errors.Is(err, local.ErrNoFreeze) {
		return nil // this system cannot pause processes, so nothing is counted
	}
	w.count(f, "%s, for %v", m.ID, f.For)
	if err != nil && p.Running() {
		return err
	}
	pause(ctx, f.For)
	if err := p.Resume(); err != nil && p.Running() {
		return err
	}
	return nil
}

// failDisk makes a member's disk fail until the member has ended by itself, or until the fault's time is over.
func (w *world) failDisk(ctx context.Context, f Fault, m *member, begin func() error) error {
	p := w.cluster.Process(m.ID)
	m.ail()
	err := begin()
	w.count(f, "%s, for %v", m.ID, f.For)
	timer := time.NewTimer(f.For)
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-ctx.Done():
	case <-timer.C:
	}
	return errors.Join(err, m.disk.heal())
}

// stall delays the syncs of a disk. It delays each sync briefly, or it holds all syncs until the fault is over.
func (w *world) stall(ctx context.Context, f Fault, m *member) error {
	each := time.Duration(1+f.Random>>1%100) * time.Millisecond
	if f.Random&1 == 0 {
		each = healthyMax
	}
	err := m.disk.fs.StallSyncs(each)
	w.count(f, "%s, each for %v, for %v", m.ID, each, f.For)
	pause(ctx, f.For)
	return errors.Join(err, m.disk.heal())
}
