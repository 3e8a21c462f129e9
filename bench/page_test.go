package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twice returns a session of six rounds. In it, coxswain-segments is twice as fast as the other library, and coxswain-bbolt
// is half as fast. In a cell with fewer rounds, both are half as fast.
func twice() (records []record) {
	records = append(records, record{Conditions: &conditions{Commit: "c"}})
	add := func(c cell, contestant string, round int, f figures) {
		records = append(records, record{Run: &result{Cell: c, Contestant: contestant, Round: round, Figures: f}})
	}
	for round := 1; round <= 6; round++ {
		limit := figures{loopbackMicros: 10}
		for i, size := range syncSizes {
			limit[syncMicros(size)] = float64(100 * (i + 1))
		}
		add(cell{Kind: limits}, machine, round, limit)
		for _, c := range []cell{loop(1, 128), loop(64, 128), rested(), apart(3, followerStopped)} {
			for name, speed := range map[string]float64{"coxswain-segments": 2, "coxswain-bbolt": 0.5, "etcd-raft": 1, etcdYields: 4} {
				add(c, name, round, figures{opsPerSecond: speed * 1000, p50: 1 / speed, p99: 2 / speed})
			}
		}
		for name, speed := range map[string]float64{"coxswain-segments": 2, "etcd-raft": 1} {
			add(read(64, linearizable), name, round, figures{opsPerSecond: speed * 1000})
			add(read(64, byLease), name, round, figures{opsPerSecond: speed * 20_000})
		}
		if round <= fewRounds {
			for _, name := range []string{"coxswain-segments", "coxswain-bbolt"} {
				add(inOne(7), name, round, figures{opsPerSecond: 500})
			}
			add(inOne(7), "etcd-raft", round, figures{opsPerSecond: 1000})
		}
	}
	add(loop(64, 128), "etcd-raft", 7, nil)
	records[len(records)-1].Run.Failure = "no leader|\nand more"
	return records
}

func TestPage_TellsWhereOursIsBetterAndWhereItIsWorse(t *testing.T) {
	p := page{summary: summarise(twice())}
	p.write()
	text := p.text.String()
	for _, want := range []string{
		"### coxswain-segments\n\n| | ratio, median of cells | better | even | worse |",
		"| Operations a second (more is better) | 2.00 | 4 | 0, 1 with too few runs | 0 |",
		"| Operations a second (more is better) | 0.50 | 0 | 0, 1 with too few runs | 4 |",
		"others:\n\n- Operations a second: 256 callers, 128 B, 7 replicas: 0.50* of etcd-raft\n",
		"others:\n\n- Operations a second: 1 caller, 128 B: 0.50 of etcd-raft; 64 callers",
		"| 64 callers, 128 B | etcd-raft | 2.00 (2.00–2.00), better | 0.50 (0.50–0.50), **worse** |",
		"| 1 caller, 128 B | 0.11 (0.11–0.11) | 4.55 (4.55–4.55) |", // half a millisecond of 100 and 10 µs
		"| 64 callers, by lease | 20.0 (20.0–20.0) | 20.0 (20.0–20.0) |",
		"| 64 callers, by lease | etcd-raft | 2.00 (2.00–2.00), better | – |",
		"one follower stopped | 1.00 (1.00–1.00)",
		"| 64 callers, 128 B | etcd-raft-yields | 0.50 (0.50–0.50), **worse** |", // in a table of its own
		"| closed loop, 64 callers, 128 B | etcd-raft | 1 | no leader/ |",
		"## What limits the three hottest cells", "## How everybody is set up",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
		t.Errorf("the page holds what no reader understands:\n%s", text)
	}
}

func TestPage_IsWrittenWithItsPicturesAndASummary(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "results.jsonl")
	for _, r := range twice() {
		if err := appendRecord(results, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := writePage(results, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"throughput-128.svg", "summary.json"} {
		content, err := os.ReadFile(filepath.Join(dir, "benchmarks", name))
		if err != nil || len(content) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(content) {
			t.Errorf("%s is not JSON:\n%s", name, content)
		}
		if strings.HasSuffix(name, ".svg") && !strings.Contains(string(text), "(benchmarks/"+name+")") {
			t.Errorf("the page does not show %s", name)
		}
	}
}

// Between the measured sizes, the time of a sync is interpolated. Beyond the largest size, it is proportional to the size.
func TestSyncTime(t *testing.T) {
	micros := make([]float64, len(syncSizes))
	for i := range micros {
		micros[i] = float64(100 * (i + 1))
	}
	last := len(syncSizes) - 1
	for _, test := range []struct {
		bytes int
		want  float64
	}{
		{1, 100},
		{syncSizes[0], 100},
		{(syncSizes[0] + syncSizes[1]) / 2, 150},
		{syncSizes[last], 500},
		{3 * syncSizes[last], 1500},
	} {
		if got := syncTime(micros, test.bytes); got != test.want {
			t.Errorf("%d bytes: %v µs, want %v", test.bytes, got, test.want)
		}
	}
}
