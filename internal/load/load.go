// Package load drives a system with many callers, and measures what they see. In a closed loop, each caller begins its next
// operation when its last operation has ended. This measures throughput. An open loop begins operations at a fixed rate, even
// if earlier operations have not ended, as independent users do. This measures the latency at that rate.
package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is one measurement. Call Run once. Ended may be called while Run runs.
type Load struct {
	// Callers is the number of callers of the closed loop. In an open loop, it is the maximum number of operations at once.
	// Further operations that are due wait, and their latency includes this wait.
	Callers int
	// Rate is the rate of the open loop in operations per second. 0 means a closed loop.
	Rate float64
	// Warmup comes first and is not measured; Measure follows. In a closed loop, Measure is extended until at least one
	// operation has ended.
	Warmup, Measure time.Duration
	// Operations, if not 0, ends a closed loop after that many operations have begun.
	Operations int64
	// Do runs one operation of a caller. Callers are numbered from 0.
	Do func(ctx context.Context, caller int) error

	begun, ended, counted atomic.Int64
	phase                 atomic.Int32
	records               [shards]record
}

// Report is the result of the measured time.
type Report struct {
	Operations int64 // successful operations
	Failed     int64
	Took       time.Duration
	// Latency holds the latencies of the successful operations, in nanoseconds. In an open loop, a latency begins when the
	// operation is due. If a stall of the system delays the driver, the latencies therefore still show how long users would
	// have waited.
	Latency *hdrhistogram.Histogram
	Err     error // the first failure
}

// PerSecond returns the throughput.
func (r Report) PerSecond() float64 { return float64(r.Operations) / r.Took.Seconds() }

// The phases of a closed loop.
const (
	warming = iota
	measuring
	over
)

const (
	// failurePause keeps callers from spinning while a system refuses everything.
	failurePause = 2 * time.Millisecond
	shards       = 8 // callers share histograms: a thousand of them would take most of the memory in use
)

// record collects what some of the callers see.
type record struct {
	mu      sync.Mutex
	latency *hdrhistogram.Histogram
	failed  int64
	err     error
}

// Run drives the system until the load is over and the last operation has ended, or until the context ends.
func (l *Load) Run(ctx context.Context) Report {
	for i := range l.records {
		l.records[i].latency = newHistogram()
	}
	if l.Rate > 0 {
		return l.open(ctx)
	}
	return l.closed(ctx)
}

// newHistogram covers a microsecond to ten minutes with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(time.Microsecond.Nanoseconds(), (10 * time.Minute).Nanoseconds(), 3)
}

// Ended returns the number of operations that have ended, including the warm-up. Any goroutine may call it.
func (l *Load) Ended() int64 { return l.ended.Load() }

// closed counts the operations that end within the measured time. It also counts the operations that fail after it, because
// they had no answer.
func (l *Load) closed(ctx context.Context) Report {
	var callers sync.WaitGroup
	for caller := range l.Callers {
		callers.Go(func() {
			for l.phase.Load() != over && ctx.Err() == nil && l.mayBegin() {
				began := time.Now()
				err := l.Do(ctx, caller)
				l.note(caller, began, err, l.counts(ctx, err))
			}
		})
	}
	if l.Operations > 0 {
		l.phase.Store(measuring)
		began := time.Now()
		callers.Wait()
		return l.report(time.Since(began))
	}
	pause(ctx, l.Warmup)
	l.phase.Store(measuring)
	began := time.Now()
	pause(ctx, l.Measure)
	for l.counted.Load() == 0 && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	l.phase.Store(over)
	took := time.Since(began)
	callers.Wait()
	return l.report(took)
}

func (l *Load) counts(ctx context.Context, err error) bool {
	phase := l.phase.Load()
	return phase == measuring || phase == over && err != nil && ctx.Err() == nil
}

func (l *Load) mayBegin() bool { return l.Operations == 0 || l.begun.Add(1) <= l.Operations }

// open counts the operations that are due within the measured time, even if they end much later.
func (l *Load) open(ctx context.Context) Report {
	due := make(chan time.Time)
	began := time.Now()
	from, until := began.Add(l.Warmup), began.Add(l.Warmup+l.Measure)
	var callers sync.WaitGroup
	for caller := range l.Callers {
		callers.Go(func() {
			for at := range due {
				l.note(caller, at, l.Do(ctx, caller), !at.Before(from))
			}
		})
	}
	for i := int64(0); ; i++ {
		at := began.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
		if !at.Before(until) || ctx.Err() != nil {
			break
		}
		if wait := time.Until(at); wait > 0 {
			pause(ctx, wait)
		}
		due <- at
	}
	close(due)
	callers.Wait()
	return l.report(time.Since(from))
}

// note records an operation that has just ended.
func (l *Load) note(caller int, began time.Time, err error, counts bool) {
	took := time.Since(began)
	l.ended.Add(1)
	if counts {
		l.records[caller%shards].add(took, err)
		l.counted.Add(1)
	}
	if err != nil {
		time.Sleep(failurePause)
	}
}

func (r *record) add(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		if r.err == nil {
			r.err = err
		}
		return
	}
	if r.latency.RecordValue(took.Nanoseconds()) != nil { // longer than the histogram reaches
		r.failed++
		r.err = fmt.Errorf("an operation took %v", took)
	}
}

func (l *Load) report(took time.Duration) Report {
	r := Report{Took: took, Latency: newHistogram()}
	for i := range l.records {
		part := &l.records[i]
		r.Latency.Merge(part.latency)
		r.Failed += part.failed
		if r.Err == nil {
			r.Err = part.err
		}
	}
	r.Operations = r.Latency.TotalCount()
	return r
}

// pause waits for the given time. If the context ends first, pause ends with it.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
