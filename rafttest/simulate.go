package rafttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/fuzzy"
)

// seedVariable is the name of the environment variable that selects a single seed for Simulate.
const seedVariable = "COXSWAIN_SEED"

// Limits of Simulate.
const (
	callMax    = time.Minute      // real time of one call of the state machine or of workload
	explainMax = 10 * time.Second // real time of the search for a smaller run that fails
	shortShare = 10               // with -short, one of this many seeds is run
)

// Simulate runs a state machine in simulated clusters, and fails the test at the first seed that breaks a rule. Each seed is
// a different cluster of three to five members, each with a state machine from newFSM. The members lose messages, are cut
// off, crash, restart, are paused, and lose their disks. They take snapshots often, write them while they apply commands,
// send them to each other, and restore them. Clients propose the commands that workload returns. Time is virtual; one core
// runs some tens of seeds a second.
//
// One more state machine applies the same commands one at a time, and is never restored. It is the reference:
//
//   - every member answers each command like the reference, after restarts and restores and in batches of any size, so
//     that the history of the clients is linearizable;
//   - if the state machine has a method Hash() uint64, every member has the reference's hash;
//   - no method fails, panics or calls runtime.Goexit, and none runs for longer than a minute;
//   - the state machine keeps the contract of raft.FSM: it neither keeps nor changes the bytes of a command, its answers
//     share no bytes with its state, Restore reads to the end however few bytes each Read returns, and WriteTo reports the
//     errors of its writer;
//   - a second run of the seed gives the same answers.
//
// Simulate checks the simulator's own rules, too. If a rule about committed data is broken, the test fails. If another rule
// is broken, for instance about the time of an election, Simulate logs it.
//
// Only an answer or the hash can show a difference between two state machines. So workload should return all kinds of
// commands, including reads, and use few different keys. The result of workload must depend only on r. Seeds run in parallel:
// newFSM and workload must allow concurrent calls.
//
// The message of a failure names the seed, the cause as far as it is known, and the command that runs the seed again. It also
// has the story of a smaller run that fails in the same way. If the environment variable COXSWAIN_SEED is set, Simulate runs
// only that seed, and logs its events. With -short, Simulate runs a tenth of the seeds.
//
// Simulate refuses a raft.DurableFSM, because it does not simulate the disk of one. CheckFSM checks a state machine without a
// cluster; with -race it also finds races between WriteTo and Apply.
func Simulate(t testing.TB, seeds int, newFSM func() raft.FSM, workload func(r *rand.Rand) []byte) {
	t.Helper()
	s := simulation{app: fuzzy.Application{New: newFSM, Command: workload}, callMax: callMax}
	if err := s.check(seeds); err != nil {
		t.Fatalf("rafttest: %v", err)
	}
	if text := os.Getenv(seedVariable); text != "" {
		s.replay(t, text)
		return
	}
	if testing.Short() {
		seeds = max(1, seeds/shortShare)
	}
	total, failed, others := s.run(seeds)
	for _, other := range others {
		t.Logf("rafttest: %s", other)
	}
	if failed == nil {
		t.Logf("rafttest: %d seeds: %d commands and other entries, %d starts of members, %d snapshots taken, %d sent, %d restored",
			seeds, total.Commits, total.Starts, total.Snapshots, total.Streams, total.Restores)
		return
	}
	s.explain(failed, explainMax)
	t.Fatalf("rafttest: %s\nRun it again:\n  %s=%v go test -run '%s' %s",
		failed, seedVariable, seedOf(failed.number), pattern(t.Name()), testedPackage())
}

// simulation is a state machine with its workload.
type simulation struct {
	app     fuzzy.Application
	callMax time.Duration
}

// finding is a seed that broke a rule.
type finding struct {
	number  uint64
	failure *fuzzy.Failure
	lost    bool // a goroutine was lost, so the seed cannot be explained
	causes  []string
	story   []string
}

func seedOf(number uint64) fuzzy.Seed {
	return fuzzy.Seed{Profile: fuzzy.ApplicationProfile, Number: number}
}

// aboutData reports whether the broken rule is about the state machine or about committed data. Other rules
// limit, for instance, how long members take.
func (f *finding) aboutData() bool {
	return strings.ContainsAny(f.failure.Rule[:1], "AGH") || f.failure.Class == fuzzy.Panic
}

// check refuses what cannot be simulated.
func (s *simulation) check(seeds int) error {
	switch {
	case seeds < 1:
		return fmt.Errorf("Simulate(%d): it needs at least one seed", seeds)
	case s.app.New == nil || s.app.Command == nil:
		return errors.New("Simulate needs both newFSM and workload")
	}
	if d, is := s.app.New().(raft.DurableFSM); is {
		return fmt.Errorf("Simulate does not support a raft.DurableFSM, and %T is one: its disk is not simulated; "+
			"simulate a raft.FSM that wraps it without Applied and Sync, and that begins with an empty disk", d)
	}
	return nil
}

// run runs seeds, beginning with seed 0. It returns the sum of their statistics, the first seed that breaks a rule about
// data, and all seeds that break other rules.
func (s *simulation) run(seeds int) (total fuzzy.Stats, failed *finding, others []*finding) {
	results := make(chan fuzzy.Result, seeds)
	next := newCounter(seeds)
	stuck := s.supervise(min(seeds, runtime.GOMAXPROCS(0)), func(w *worker) {
		for number, ok := next.take(); ok; number, ok = next.take() {
			w.number.Store(number)
			r := w.app.Run(number, nil)
			results <- r
			if r.Failure != nil && (&finding{failure: r.Failure}).aboutData() {
				next.stop()
			}
		}
	})
	if stuck != nil {
		return total, stuck, nil
	}
	close(results)
	for r := range results {
		total.Commits += r.Commits
		total.Starts += r.Starts
		total.Snapshots += r.Snapshots
		total.Streams += r.Streams
		total.Restores += r.Restores
		f := &finding{number: r.Seed.Number, failure: r.Failure}
		switch {
		case r.Failure == nil:
		case !f.aboutData():
			others = append(others, f)
		case failed == nil || f.number < failed.number:
			failed = f
		}
	}
	return total, failed, others
}

// explain looks for the cause of the failure, and then for a smaller run that fails. It takes at most this time.
func (s *simulation) explain(f *finding, most time.Duration) {
	if f.lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	var causes, story []string
	stuck := s.supervise(1, func(w *worker) { causes, story = w.app.Explain(ctx, f.number, f.failure) })
	if stuck == nil {
		f.causes, f.story = causes, story
	}
}

// String describes the finding.
func (f *finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %v breaks rule %s.\n%s\n", seedOf(f.number), f.failure.Rule, f.failure.Text)
	if !strings.HasPrefix(f.failure.Rule, "A") {
		b.WriteString("The rule is about the cluster, not about the state machine. Please report this seed.\n")
	}
	for _, cause := range f.causes {
		fmt.Fprintf(&b, "Cause: %s.\n", cause)
	}
	if len(f.story) > 0 {
		fmt.Fprintf(&b, "The smallest run that was found to fail like this:\n  %s\n", strings.Join(f.story, "\n  "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// replay runs one seed and logs its events.
func (s *simulation) replay(t testing.TB, text string) {
	t.Helper()
	seed, err := fuzzy.ParseSeed(text)
	if err == nil && seed.Profile != fuzzy.ApplicationProfile {
		err = fmt.Errorf("%q is a seed of the simulator itself", text)
	}
	if err != nil {
		t.Fatalf("rafttest: %s: %v; seeds of Simulate look like %v", seedVariable, err, seedOf(42))
	}
	var log strings.Builder
	var r fuzzy.Result
	failed := s.supervise(1, func(w *worker) {
		w.number.Store(seed.Number)
		r = w.app.Run(seed.Number, fuzzy.Text(&log, false))
	})
	if failed == nil && r.Failure != nil {
		failed = &finding{number: seed.Number, failure: r.Failure}
	}
	if failed != nil && failed.lost {
		t.Fatalf("rafttest: %s", failed) // its goroutine may still write into the log
	}
	t.Logf("rafttest: seed %v:\n%s", seed, log.String())
	if failed != nil {
		t.Fatalf("rafttest: %s", failed)
	}
}

// pattern returns the regular expression that selects only this test, such as "^TestA$/^b$".
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// testedPackage returns the import path of the test that called Simulate.
func testedPackage() string {
	places := make([]uintptr, 32)
	frames := runtime.CallersFrames(places[:runtime.Callers(1, places)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.File, "_test.go") {
			return packageOf(frame.Function)
		}
		if !more {
			return "."
		}
	}
}

// packageOf returns the import path that is part of a function's name, such as "example.com/a/b_test.TestX.func1".
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return cmp.Or(function[:slash]+strings.TrimSuffix(name, "_test"), ".")
}
