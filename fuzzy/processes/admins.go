package processes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
)

// commandMax is the --timeout of a command. After the timeout, the change that the command began continues, and another
// command asks for it again.
const commandMax = 20 * time.Second

// meddling lists the disturbances of a change.
type meddling struct {
	leader    bool // the leader is killed
	other     bool // another member is killed
	interrupt bool // the command is killed, and run again
	twice     bool // two commands run at once
	impatient bool // the change has a short patience with members that make no progress
	cancel    bool // somebody cancels the change
}

func (f Fault) meddling() meddling {
	if f.Kind == "" {
		return meddling{}
	}
	return meddling{
		leader: f.Random>>20%8 < 3, other: f.Random>>20%8 < 5, cancel: f.Random>>20%8 == 5,
		interrupt: f.Random>>24%3 == 0, twice: f.Random>>28%3 == 0, impatient: f.Random>>32%6 == 0,
	}
}

// command runs the first of the remaining orders, or two of them at once. It returns the orders that were done.
func (w *world) command(ctx context.Context, f Fault, left []order) (done []string) {
	how, orders := f.meddling(), left[:1:1]
	if how.twice {
		orders = append(orders, left[len(left)-1])
		w.tell(func(r *Report) { r.Membership.Twice++ })
	}
	running, stop := context.WithCancel(ctx)
	var meddler, admins sync.WaitGroup
	meddler.Go(func() { w.meddle(running, f, how) })
	results := make([]result, len(orders))
	for i, o := range orders {
		admins.Go(func() { results[i] = w.admin(ctx, f, how, o) })
	}
	admins.Wait()
	stop()
	meddler.Wait()
	for i, r := range results {
		if r.code == 0 {
			w.floor = max(w.floor, r.index)
			done = append(done, orders[i].String())
		}
	}
	return done
}

// meddle kills the leader or another member once a change is running, or cancels the change.
func (w *world) meddle(ctx context.Context, f Fault, how meddling) {
	if !how.leader && !how.other && !how.cancel {
		return
	}
	for ; ctx.Err() == nil; pause(ctx, aimPause) {
		now, err := w.seen.Look(ctx)
		if err != nil || now.Change == nil || !now.Leads() {
			continue
		}
		if how.cancel {
			r := w.admin(ctx, f, meddling{}, order{"cancel"})
			w.tell(func(report *Report) {
				if r.code == 0 {
					report.Membership.Canceled++
				}
			})
			return
		}
		m := w.members[w.index(now.Leader)]
		if !how.leader {
			m = w.members[w.index(now.Members[f.Node%len(now.Members)].ID)]
		}
		w.killAmid(ctx, f, m, m.ID == now.Leader, now.Change.Stage)
		return
	}
}

func (w *world) killAmid(ctx context.Context, f Fault, m *member, leads bool, stage string) {
	w.kill(m)
	w.note("%-14s %s is killed while the change %s, leads: %v", f.Kind, m.ID, stage, leads)
	w.tell(func(r *Report) {
		if leads {
			r.LeaderKills++
			r.Membership.LeadersKilled++
		} else {
			r.Membership.OthersKilled++
		}
	})
	pause(ctx, time.Duration(50+f.Random>>36%450)*time.Millisecond)
	w.disks.Lock()
	defer w.disks.Unlock()
	if err := w.start(m); err != nil {
		w.note("%s: %v", m.ID, err) // the member is started again later
	}
}

// result describes how a command ended.
type result struct {
	code  int
	index uint64 // index of the configuration that the command names
	says  string
}

// finished matches the report of a successful command.
var finished = regexp.MustCompile(`(?:done|nothing to do): configuration (\d+)`)

// refusals are the error codes with which a command may end under faults. After such an error, the command is run again.
var refusals = []admin.Code{
	admin.QuorumLoss, admin.MemberUnreachable, admin.MemberRuns, admin.GivenUp, admin.ChangePending, admin.OutcomeUnknown, admin.NoLeader, admin.NotLeader,
	api.Unreachable, admin.Overloaded, admin.NotReady, api.Restoring, admin.Closed, admin.RemovedMember,
}

// The exit codes of "raftkv members", besides 0.
const (
	exitRefused    = 1
	exitUnknown    = 5
	exitUnanswered = 8
)

// admin runs a command like a human administrator: if the command is killed, admin runs it again.
func (w *world) admin(ctx context.Context, f Fault, how meddling, o order) (r result) {
	if how.impatient {
		o = append(slices.Clone(o), "--patience", "2s")
	}
	if how.interrupt {
		after := time.Duration(f.Random>>44%600) * time.Millisecond
		if r = w.raftkv(ctx, o, after); r.code == -1 && ctx.Err() == nil {
			w.tell(func(r *Report) { r.Membership.Interrupted++ })
			r = w.raftkv(ctx, o, 0)
		}
	} else {
		r = w.raftkv(ctx, o, 0)
	}
	refused := func(c admin.Code) bool { return contains(r.says, []string{string(c) + ": "}) }
	switch {
	case ctx.Err() != nil:
		return result{code: -1}
	case r.code == 0:
		w.tell(func(r *Report) { r.Membership.Done++ })
	case r.code == exitRefused && slices.ContainsFunc(refusals, refused), r.code == exitUnknown, r.code == exitUnanswered:
		w.tell(func(r *Report) { r.Membership.Refused++ })
	default:
		w.broken("%q ended with code %d, and faults do not explain its reason: %s", o, r.code, r.says)
	}
	return r
}

// raftkv runs "raftkv members" with the order. It kills the command after the given time, unless that time is 0.
func (w *world) raftkv(ctx context.Context, o order, killAfter time.Duration) result {
	w.mu.Lock()
	w.admins++
	log := filepath.Join(w.dir, fmt.Sprintf("admin-%d.log", w.admins))
	w.report.Membership.Commands++
	w.mu.Unlock()
	args := append([]string{"members"}, o...)
	for _, m := range w.inside() {
		args = append(args, "--server", m.URL())
	}
	p, err := local.StartProcess(w.binary, append(args, "--timeout", commandMax.String()), log)
	if err != nil {
		return result{code: -1, says: err.Error()}
	}
	running, cancel := ctx, context.CancelFunc(func() {})
	if killAfter > 0 {
		running, cancel = context.WithTimeout(ctx, killAfter)
	}
	defer cancel()
	select {
	case <-p.Done():
	case <-running.Done():
		p.Kill()
	}
	return w.outcome(o, p, log)
}

func (w *world) outcome(o order, p *local.Process, log string) (r result) {
	text, err := os.ReadFile(log)
	if err != nil {
		return result{code: -1, says: err.Error()}
	}
	r = result{code: endedWith(p), says: string(text)}
	if found := finished.FindStringSubmatch(r.says); r.code == 0 && found != nil {
		r.index, _ = strconv.ParseUint(found[1], 10, 64) // only digits; too many of them yield 0
	}
	w.note("members %v ended with code %d: %s", o, r.code, r.says)
	return r
}

// broken fails the run because a membership change broke its promise.
func (w *world) broken(format string, args ...any) {
	w.fail(fuzzy.Safety, "a change that was reported done is in the configuration", format, args...)
}

// hang fails the run because the cluster did not reach the wanted members in time.
func (w *world) hang(ctx context.Context, most time.Duration, now admin.Members) {
	left, waits := w.left(now)
	w.fail(fuzzy.Liveness, "no change hangs", "after %v %v is left to do (a member has to join by itself: %v; each removed member "+
		"has ended: %v); the change %+v runs in configuration %d, %s%s", most, left, waits, w.gone(), now.Change, now.Index, now.Phase,
		w.describe(ctx))
}
