package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/cmd/raftkv/internal/client"
	"github.com/coxswain/raft/fuzzy"
)

const (
	judgeTimeout = 10 * time.Minute // enough to read everything on a slow machine
	readTimeout  = 10 * time.Second // of one request
	healPause    = 20 * time.Millisecond
)

// conclude heals everything and judges the run: the cluster must serve again and agree, and hold every acknowledged write.
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
	stopWork() // waits for the checks of the histories so far
	stopped := time.Now()
	if !w.await(ctx, "a healed cluster agrees", "the members have not applied the same entries, or the wiped one does not say so",
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
	if ctx.Err() != nil { // by a failure, an interrupt, or judgeTimeout
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
		if p.Running() && p.Frozen() {
			err = errors.Join(err, p.Resume())
		}
		err = errors.Join(err, m.disk.heal())
	}
	return errors.Join(err, w.startAll())
}

// await waits for something that must happen in a cluster without faults, and reports whether it did. It restarts members
// that end late because of an earlier disk failure.
func (w *world) await(ctx context.Context, rule, otherwise string, happened func() bool) bool {
	for deadline := time.Now().Add(w.patience); ctx.Err() == nil; {
		if happened() {
			return true
		}
		if time.Now().After(deadline) {
			w.fail(fuzzy.Liveness, rule, "%v without a fault, and %s: %s", w.patience, otherwise, w.describe(ctx))
			return false
		}
		if err := w.startAll(); err != nil {
			w.fail(fuzzy.Liveness, rule, "%v", err)
			return false
		}
		rest(ctx, healPause)
	}
	return false
}

// describe returns the status of all members as text.
func (w *world) describe(ctx context.Context) (text string) {
	for i, s := range w.cluster.Statuses(ctx) {
		text += fmt.Sprintf("\n  %s: role %q, term %d, leader %q, last %d, commit %d, applied %d, wiped %v %s", w.members[i].ID,
			s.Role, s.Term, s.Leader, s.Last, s.Commit, s.Applied, s.Wiped, s.Error)
	}
	return text
}

// agreed reports whether all members have applied everything that is committed, and a wiped one reports that it is wiped.
func (w *world) agreed(ctx context.Context) bool {
	statuses := w.cluster.Statuses(ctx)
	var commit uint64
	for _, s := range statuses {
		commit = max(commit, s.Last)
	}
	for i, s := range statuses {
		switch {
		case s.ID == "":
			return false
		case w.members[i].isWiped():
			if !s.Wiped || s.Applied != 0 {
				return false
			}
		case s.Applied != commit:
			return false
		}
	}
	return true
}

func (m *member) isWiped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wiped
}

// compare reads every key from every member without consulting the leader, and fails the run if two members differ.
func (w *world) compare(ctx context.Context) error {
	shared := client.NewHTTP(1, readTimeout)
	defer shared.CloseIdleConnections()
	var sound []*member
	for _, m := range w.members {
		if !m.isWiped() {
			sound = append(sound, m)
		}
	}
	for _, key := range w.keys() {
		var first string
		for i, m := range sound {
			value, err := m.Client(shared).Get(ctx, key, api.Stale)
			if err != nil && api.CodeOf(err) != api.NotFound {
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
