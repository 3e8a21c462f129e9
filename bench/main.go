// Command bench compares this library with another one on one workload: callers in a closed loop propose small commands to
// a cluster of three replicas in one process, over loopback TCP, with real files and every write synced. The contestants
// take turns in one run, because figures of different runs are not comparable: machines drift. The result is a figure, not
// a gate.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// cell is the workload that is measured.
type cell struct {
	callers, bytes, rounds int
	warmup, measured       time.Duration
}

// contestant makes clusters of three in a directory.
type contestant struct {
	name  string
	start func(dir string) (cluster, error)
}

// cluster is three replicas with a leader.
type cluster interface {
	// Propose returns once the command is applied on the leader. Many goroutines call it. If it fails, it looks for the new
	// leader before it returns.
	Propose(command []byte) error
	Close() error
}

// result is the result of one contestant in one round.
type result struct {
	opsPerSecond float64
	p50, p99     time.Duration
	failed       int
}

func main() {
	c := cell{}
	flag.IntVar(&c.callers, "callers", 64, "callers in a closed loop")
	flag.IntVar(&c.bytes, "bytes", 128, "bytes of a command")
	flag.IntVar(&c.rounds, "rounds", 3, "rounds; in each every contestant runs once")
	flag.DurationVar(&c.warmup, "warmup", time.Second, "warm-up before each measurement")
	flag.DurationVar(&c.measured, "measure", 4*time.Second, "length of each measurement")
	dir := flag.String("dir", "", "where the data goes (default: a temporary directory, removed at the end)")
	flag.Parse()
	if err := run(c, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(c cell, dir string) error {
	temporary, err := os.MkdirTemp(dir, "coxswain-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	contestants := []contestant{
		{"coxswain (bbolt)", startCoxswain},
		{"hashicorp/raft (raft-boltdb), defaults", startHashicorp(defaults)},
		{"hashicorp/raft (raft-boltdb), big batches", startHashicorp(bigBatches)},
	}
	fmt.Printf("%d callers, commands of %d bytes, three replicas in one process, sync on; %v after %v of warm-up\n\n",
		c.callers, c.bytes, c.measured, c.warmup)
	results := make([][]result, len(contestants))
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "round\tops/s\tp50\tp99\tfailed\t contestant")
	for round := range c.rounds {
		for i, who := range contestants {
			r, err := measure(c, who, filepath.Join(temporary, fmt.Sprintf("%d-%d", round, i)))
			if err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
			results[i] = append(results[i], r)
			fmt.Fprintf(table, "%d\t%.0f\t%.2f ms\t%.2f ms\t%d\t %s\n",
				round+1, r.opsPerSecond, milliseconds(r.p50), milliseconds(r.p99), r.failed, who.name)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println()
	for i, who := range contestants[1:] {
		fmt.Printf("median of the rounds' ratios: %.2f times the operations of %s\n",
			medianRatio(results[0], results[i+1]), who.name)
	}
	return nil
}

// measure runs one contestant once, on empty disks.
func measure(c cell, who contestant, dir string) (result, error) {
	cl, err := who.start(dir)
	if err != nil {
		return result{}, err
	}
	r, err := drive(c, cl)
	return r, errors.Join(err, cl.Close(), os.RemoveAll(dir))
}

// drive keeps all callers busy and counts what ends within the measured time.
func drive(c cell, cl cluster) (result, error) {
	var measuring, over atomic.Bool
	latencies := make([][]time.Duration, c.callers)
	failures := make([]int, c.callers)
	errs := make([]error, c.callers)
	var wg sync.WaitGroup
	for i := range c.callers {
		wg.Go(func() {
			command := make([]byte, c.bytes)
			for !over.Load() {
				counts, begun := measuring.Load(), time.Now()
				err := cl.Propose(command)
				switch {
				case !counts || over.Load():
				case err != nil:
					failures[i]++
					errs[i] = err
				default:
					latencies[i] = append(latencies[i], time.Since(begun))
				}
			}
		})
	}
	time.Sleep(c.warmup)
	measuring.Store(true)
	begun := time.Now()
	time.Sleep(c.measured)
	over.Store(true)
	took := time.Since(begun)
	wg.Wait()
	return summarise(slices.Concat(latencies...), took, failures, errors.Join(errs...))
}

func summarise(latencies []time.Duration, took time.Duration, failures []int, err error) (result, error) {
	r := result{}
	for _, n := range failures {
		r.failed += n
	}
	if len(latencies) == 0 {
		return r, fmt.Errorf("nothing was applied: %w", err)
	}
	slices.Sort(latencies)
	r.opsPerSecond = float64(len(latencies)) / took.Seconds()
	r.p50 = latencies[len(latencies)/2]
	r.p99 = latencies[len(latencies)*99/100]
	return r, nil
}

// medianRatio compares round by round, because the machine behaves alike in measurements close in time.
func medianRatio(ours, theirs []result) float64 {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i].opsPerSecond/theirs[i].opsPerSecond)
	}
	slices.SortFunc(ratios, cmp.Compare[float64])
	middle := len(ratios) / 2
	if len(ratios)%2 == 0 {
		return (ratios[middle-1] + ratios[middle]) / 2
	}
	return ratios[middle]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
