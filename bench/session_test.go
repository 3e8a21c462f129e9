package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMain makes the test program host replicas if it is called with "host", like the real program.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "host" {
		if err := serveHost(os.Args[2]); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// Each contestant runs under a short load. This shows that the adapters work, and that finished runs are not repeated.
func TestSession_EveryContestantRunsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a cluster of each contestant")
	}
	results := filepath.Join(t.TempDir(), "results.jsonl")
	s := session{
		tiers: []tier{{1, []cell{loop(4, 128), {Kind: limits}, read(4, linearizable), read(4, byLease), read(4, fromFollower), inSessions(4, 128)}}}, contestants: names(contestants), rounds: 1, once: true,
		warmup: 10 * time.Millisecond, measure: 100 * time.Millisecond, results: results, dir: t.TempDir(), out: t.Output(),
	}
	now := conditionsNow("")
	if err := s.run(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	records, err := readResults(results)
	if err != nil || len(records) != 1+len(s.plan()) {
		t.Fatalf("%d lines, %v", len(records), err)
	}
	for _, r := range records[1:] {
		if r.Run.Failure != "" {
			t.Errorf("%s: %s", r.Run.Contestant, r.Run.Failure)
		}
	}
	if err := s.run(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	again, err := readResults(results)
	if err != nil || len(again) != len(records)+1 {
		t.Errorf("the second session measured: %d lines after %d, %v", len(again), len(records), err)
	}
	later := now
	later.Commit = "another"
	if err := s.run(t.Context(), later); err == nil {
		t.Error("results of two commits are mixed")
	}
	if now, err := os.ReadFile(results); err != nil || !bytes.HasPrefix(now, first) {
		t.Errorf("results were lost: %v", err)
	}
}

func TestSession_TheContextEndsIt(t *testing.T) {
	s := session{
		tiers: []tier{{1, []cell{loop(1, 16)}}}, contestants: names(contestants), rounds: 1, warmup: time.Hour,
		results: filepath.Join(t.TempDir(), "results.jsonl"), dir: t.TempDir(), out: t.Output(),
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errTimeIsUp)
	defer cancel()
	if err := s.run(ctx, conditionsNow("")); !errors.Is(err, errTimeIsUp) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSummary_ComparesRoundByRound(t *testing.T) {
	c := loop(1, 16)
	var records []record
	for round := range 6 {
		for name, x := range map[string]float64{"coxswain-bbolt": 20, "etcd-raft": 10, "dragonboat": 5} {
			records = append(records, record{Run: &result{
				Cell: c, Contestant: name, Round: round, Figures: figures{opsPerSecond: x * float64(round+1)},
			}})
		}
	}
	records = append(records, record{Run: &result{
		Cell: c, Contestant: "etcd-raft", Disturbed: true, Figures: figures{opsPerSecond: 1000},
	}})
	s := summarise(records)
	_, others := oursAndOthers()
	got, found := s.compare(c, "coxswain-bbolt", others, opsPerSecond, false)
	if !found || got.best != "etcd-raft" || got.ratio.Low != 2 || got.ratio.High != 2 || got.verdict(false) != "better" {
		t.Errorf("got %+v, %s", got, got.verdict(false))
	}
	if s.Runs != 18 || s.Disturbed != 1 {
		t.Errorf("got %d runs, %d disturbed", s.Runs, s.Disturbed)
	}
}
