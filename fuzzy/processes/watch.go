package processes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
)

// fate records the faults that hit a process. These faults explain how the process ends.
type fate struct {
	doomed  bool // killed, or about to be killed
	ailing  bool // its disk has failed
	spoiled bool // its store cannot be used again
	joins   bool // it joins by itself
}

// doom records that the member's running processes are about to be killed.
func (m *member) doom() { m.mark(func(f *fate) { f.doomed = true }) }

// ail records that the disk of the member's running processes is failing.
func (m *member) ail() { m.mark(func(f *fate) { f.ailing = true }) }

func (m *member) mark(as func(*fate)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, f := range m.fates {
		as(&f)
		m.fates[p] = f
	}
}

// start starts the member. It does nothing if the member runs, is not wanted, or is just getting another disk.
func (w *world) start(m *member) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	now := m.now()
	if p := w.cluster.Process(m.ID); now.out || now.held || p != nil && p.Running() {
		return nil
	}
	if err := w.cluster.Start(m.ID); err != nil {
		return err
	}
	p := w.cluster.Process(m.ID)
	m.mu.Lock()
	m.fates[p] = fate{spoiled: now.spoiled, joins: now.joins}
	m.mu.Unlock()
	w.tasks.Go(func() { w.awaitEnd(m, p) })
	return nil
}

func (w *world) startAll() (err error) {
	for _, m := range w.members {
		err = errors.Join(err, w.start(m))
	}
	return err
}

// diskTroubles are the texts that the log of a member contains when its disk has failed.
var diskTroubles = []string{"no space left on the disk", "input/output error"}

// exitRemoved is the exit code of a member that was removed.
const exitRemoved = 9

// awaitEnd waits for the end of a process and judges it. A killed process may end. A process whose disk has failed or whose
// store is spoiled may end with code 1 and the reason in its log. A removed member ends with exitRemoved. Every other end is a
// crash.
func (w *world) awaitEnd(m *member, p *local.Process) {
	<-p.Done()
	m.mu.Lock()
	f := m.fates[p]
	delete(m.fates, p)
	leaves := m.place.leaves
	if leaves && endedWith(p) == exitRemoved {
		m.place.out = true
	}
	m.mu.Unlock()
	code, says := endedWith(p), w.cluster.LogTail(m.ID)
	switch {
	case f.doomed && code == -1:
	case leaves && code == exitRemoved:
		w.note("%s ended by itself: it was removed", m.ID)
		w.tell(func(r *Report) { r.Membership.Removed++ })
	case f.ailing && code == 1 && contains(says, diskTroubles):
		w.note("%s ended by itself: its disk has failed", m.ID)
		w.tell(func(r *Report) { r.LoudEnds++ })
	case f.spoiled && code == 1 && contains(says, spoiltStores):
		w.note("%s ended by itself: its store cannot be used again", m.ID)
		w.tell(func(r *Report) { r.LoudEnds++ })
	default:
		w.fail(fuzzy.Panic, "a process ends for a reason", "%s ended by itself (%v), with a sound disk; its log ends: %s",
			m.ID, p.Err(), says)
	}
}

// endedWith returns the exit code of a process that has ended; -1: by a signal.
func endedWith(p *local.Process) int {
	var exit *exec.ExitError
	if errors.As(p.Err(), &exit) {
		return exit.ExitCode()
	}
	return 0
}

// tell updates the report.
func (w *world) tell(how func(*Report)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how(&w.report)
}

// spoiltStores are the texts that the log of a member contains when its store is an older image, or damaged.
var spoiltStores = []string{"older image of the member's disk", "is damaged at "}

func contains(log string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(log, text) })
}

const lookPause = 100 * time.Millisecond

// observe repeatedly asks all members for their status until the context ends, and checks the answers.
func (w *world) observe(ctx context.Context) {
	look, images := newLook(), make([]int64, len(w.members))
	for ctx.Err() == nil {
		before := w.images()
		for i, s := range w.cluster.Statuses(ctx) {
			if now := w.members[i].images.Load(); now != images[i] || now != before[i] {
				images[i] = now
				delete(look.lives, w.members[i].ID) // after a change of the disk, earlier answers no longer count
				continue
			}
			if rule, text := look.at(s); text != "" {
				w.fail(fuzzy.Safety, rule, "%s", text)
			}
			w.checkLog(s)
		}
		if verdict := w.work.Verdict(); verdict.Err() != nil {
			w.fail(fuzzy.Safety, "linearizability", "%v", verdict.Err())
		}
		w.mu.Lock()
		w.report.Elections, w.report.Checks.Statuses = len(look.leaders), look.count
		w.mu.Unlock()
		w.progress()
		pause(ctx, lookPause)
	}
}

// images returns the number of times that the disk of each member was replaced.
func (w *world) images() (all []int64) {
	for _, m := range w.members {
		all = append(all, m.images.Load())
	}
	return all
}

func (w *world) progress() {
	if w.Progress == nil {
		return
	}
	w.mu.Lock()
	p := Progress{Elapsed: time.Since(w.began), LeaderKills: w.report.LeaderKills, Operations: w.stats.operations()}
	for _, n := range w.report.Faults {
		p.Faults += n
	}
	w.mu.Unlock()
	w.Progress(p)
}

// look holds the answers of the members so far.
type look struct {
	leaders map[uint64]string // leaders by term
	lives   map[string]api.Status
	count   int
}

func newLook() *look { return &look{leaders: map[uint64]string{}, lives: map[string]api.Status{}} }

// at adds a member's answer, and returns the rule that the answer breaks, if any. The rules: there is one leader per term, a
// snapshot covers what the log lacks, and nothing goes back while a process runs.
func (l *look) at(s api.Status) (rule, text string) {
	if s.ID == "" {
		return "", "" // no answer
	}
	l.count++
	if s.Role == "leader" {
		if other, found := l.leaders[s.Term]; found && other != s.ID {
			return "one leader a term", other + " and " + s.ID + " lead in the same term"
		}
		l.leaders[s.Term] = s.ID
	}
	before, found := l.lives[s.ID]
	l.lives[s.ID] = s
	if !found || before.StartCount != s.StartCount || before.Incarnation != s.Incarnation {
		return "", ""
	}
	if s.Base > s.Snapshot.Last && before.Applied >= s.Base { // a received snapshot may not be recorded on disk until it is applied
		return "a snapshot covers what the log lacks",
			fmt.Sprintf("the log of %s begins behind entry %d, but its snapshot covers only entry %d", s.ID, s.Base, s.Snapshot.Last)
	}
	if s.Term < before.Term || s.Commit < before.Commit || s.Applied < before.Applied {
		return "nothing goes back", s.ID + " went back in its term, its commit index or what it has applied"
	}
	if s.Base < before.Base || s.Snapshot.Last < before.Snapshot.Last {
		return "nothing goes back", s.ID + " went back in the base of its log or its newest snapshot"
	}
	return "", ""
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
