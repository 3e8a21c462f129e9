package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

const (
	judgeTimeout = 10 * time.Minute // enough to read everything on a slow machine
	readTimeout  = 10 * time.Second // limit of one request
	healPause    = 20 * time.Millisecond
	settleMax    = 3 // as a multiple of patience, because several changes may be left
)

// conclude heals everything and judges the run: the cluster must serve again, agree, and hold every acknowledged write.
func (w *world) conclude(ctx context.Context, stopWork func()) error {
	healed := time.Now()
	w.note("everything is healed")
	w.say("healing and judging ...")
	if err := w.heal(); err != nil {
		return err
	}
	if !w.await(ctx, "a healed cluster serves", "no write was acknowledged", func() bool {
		return w.stats.writtenAfter(healed)
	}) {
		return nil
	}
	served := time.Since(healed)
	if err := w.settle(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	stopWork() // waits for the checks of the histories so far
	stopped := time.Now()
	if !w.await(ctx, "a healed cluster agrees", "the members have not applied the same entries, or see different configurations",
		func() bool { return w.agreed(ctx) }) {
		return nil
	}
	w.report.Converged = (served + time.Since(stopped)).Seconds()
	ctx, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()
	verdict, err := w.work.Verify(ctx)
	if wrong := verdict.Err(); wrong != nil {
		w.fail(fuzzy.Safety, "linearizability and durability", "%v", wrong)
	}
	if ctx.Err() != nil { // because of a failure, an interrupt, or judgeTimeout
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return w.compare(ctx)
}

// heal ends every fault.
func (w *world) heal() (err error) {
	w.calm()
	for _, m := range w.members {
		p := w.cluster.Process(m.ID)
		if p != nil && p.Running() && p.Frozen() {
			err = errors.Join(err, p.Resume())
		}
		err = errors.Join(err, m.disk.heal())
	}
	return errors.Join(err, w.startAll())
}

// await waits for a condition that a cluster without faults must reach, and reports whether the cluster reaches it. Some
// members end late because of an earlier disk failure. await restarts them.
func (w *world) await(ctx context.Context, rule, otherwise string, happened func() bool) bool {
	for deadline := time.Now().Add(w.patience); ctx.Err() == nil; {
		if happened() {
			return true
		}
		if time.Now().After(deadline) {
			w.fail(fuzzy.Liveness, rule, "after %v without a fault, %s: %s", w.patience, otherwise, w.describe(ctx))
			return false
		}
		if err := w.startAll(); err != nil {
			w.fail(fuzzy.Liveness, rule, "%v", err)
			return false
		}
		pause(ctx, healPause)
	}
	return false
}

// describe returns the status of all members as text.
func (w *world) describe(ctx context.Context) (text string) {
	for i, s := range w.cluster.Statuses(ctx) {
		m := w.members[i]
		text += fmt.Sprintf("\n  %s at %s: role %q, term %d, leader %q, last %d, commit %d, applied %d, wiped %v %s; wanted: %+v", m.ID,
			m.address(), s.Role, s.Term, s.Leader, s.Last, s.Commit, s.Applied, s.Wiped, s.Error, m.now())
		for _, other := range s.Members {
			if other.Problem != "" || !other.Connected {
				text += fmt.Sprintf("\n    %s: %s %s %s", other.ID, other.Address, other.Problem, other.ConnectionErr)
			}
		}
	}
	return text
}

// settle waits until the cluster has the wanted membership.
func (w *world) settle(ctx context.Context) error {
	began := time.Now()
	ending, stop := context.WithCancel(ctx)
	var starting sync.WaitGroup
	starting.Go(func() {
		for ; ending.Err() == nil; pause(ending, healPause) { // some members end late because of an earlier disk failure
			if err := w.startAll(); err != nil {
				w.fail(fuzzy.Liveness, "no change hangs", "%v", err)
			}
		}
	})
	_, reached, err := w.reach(ctx, Fault{}, settleMax*w.patience)
	stop()
	starting.Wait()
	if reached {
		w.tell(func(r *Report) { r.Membership.Settled = time.Since(began).Seconds() })
	}
	return err
}

// agreed reports whether all members agree: each has applied every committed entry, knows the same configuration, and has no
// problem.
func (w *world) agreed(ctx context.Context) bool {
	statuses := w.cluster.Statuses(ctx)
	var commit uint64
	for _, s := range statuses {
		commit = max(commit, s.Last)
	}
	now, known := w.look(ctx)
	if !known || now.Change != nil {
		return false
	}
	for i, s := range statuses {
		switch place := w.members[i].now(); {
		case place.out && len(now.Of(w.members[i].ID)) > 0:
			return false
		case place.out:
		case s.ID == "" || s.Applied != commit || len(s.Members) != len(now.Members):
			return false
		}
	}
	return !slices.ContainsFunc(now.Members, func(m admin.ClusterMember) bool { return m.Problem != "" || m.Replace })
}

// compare reads every key from every member, without any question to the leader. It fails the run if two members differ.
func (w *world) compare(ctx context.Context) error {
	shared := client.NewHTTP(1, readTimeout)
	defer shared.CloseIdleConnections()
	sound := w.inside()
	for _, key := range w.keys() {
		var first string
		for i, m := range sound {
			value, err := m.Client(shared).Get(ctx, key, api.Stale)
			if err != nil && api.CodeOf(err) != admin.NotFound {
				return fmt.Errorf("reading %s from %s: %w", key, m.ID, err)
			}
			here := fmt.Sprintf("%q of revision %d", value.Data, value.Revision)
			if i == 0 {
				first = here
			}
			if here != first {
				w.fail(fuzzy.Safety, "all members hold the same", "%s: %s holds %s, %s holds %s", key, sound[0].ID, first, m.ID, here)
				return nil
			}
		}
	}
	w.report.Checks.Members = len(sound)
	return nil
}
