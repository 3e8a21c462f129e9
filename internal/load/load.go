// Package load drives a system with many callers and measures what they see. A closed loop of callers, each of which begins
// its next operation when the last one has ended, finds the throughput. An open loop begins operations at a fixed rate,
// whether or not earlier ones have ended, as independent users do: it finds the latency at that rate.
package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is one drive. The methods Run and Ended may run at the same time; Run is called once.
type Load struct {
	// Callers of the closed loop. In an open loop, how many operations may run at once: others that are due wait, and their
	// wait counts.
	Callers int
	// Rate of the open loop in operations a second. 0: a closed loop.
	Rate float64
	// Warmup comes first and is not measured, then comes Measure. In a closed loop Measure is longer if otherwise no operation
	// had ended within it.
	Warmup, Measure time.Duration
	// Operations ends a closed loop once that many have begun, unless 0.
	Operations int64
	// Do runs one operation of a caller. Callers are numbered from 0.
	Do func(ctx context.Context, caller int) error

	begun, ended, counted atomic.Int64
	phase                 atomic.Int32
	records               [shards]record
}

// Report tells how it went within the measured time.
type Report struct {
	Operations int64 // that succeeded
	Failed     int64
	Took       time.Duration
	// Latency in nanoseconds of the successful ones. In an open loop it counts from the moment at which the operation was
	// due, so that the driver's own delay, when the system stalls, does not hide how long users would have waited.
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
	shards       = 8 // callers share histograms: one for each of a thousand callers would be most of the memory in use
)

// record collects what some of the callers see.
type record struct {
	mu      sync.Mutex
	latency *hdrhistogram.Histogram
	failed  int64
	err     error
}

// Run drives until the load is over, the last operation has ended, or the context ends.
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

// Ended returns how many operations have ended, the warm-up included. Any goroutine may call it.
func (l *Load) Ended() int64 { return l.ended.Load() }

// closed counts the operations that end within the measured time, and those that fail after it: they had no answer.
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

// open counts the operations that are due within the measured time, however late they end.
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

// pause waits, but not beyond the end of the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
