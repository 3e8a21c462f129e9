package rafttest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft/fuzzy"
)

// worker runs seeds, one after another.
type worker struct {
	app    fuzzy.Application
	number atomic.Uint64 // number of the present seed
	calls  atomic.Uint64 // begins and ends of calls of the application: odd during a call
	ended  atomic.Bool

	seen  uint64    // last value of calls
	since time.Time // since then
}

// supervise runs work on this many goroutines and waits for them. It returns a finding in two cases: a call of the
// application does not return in time, or a call ends its goroutine. In the first case the goroutine continues to run.
func (s *simulation) supervise(workers int, work func(w *worker)) *finding {
	team, done := make([]*worker, workers), make(chan struct{})
	var wg sync.WaitGroup
	for i := range team {
		w := &worker{app: s.app}
		w.app.Watch = func() { w.calls.Add(1) }
		team[i] = w
		wg.Go(func() {
			work(w)
			w.ended.Store(true)
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	look := time.NewTicker(s.callMax / 8)
	defer look.Stop()
	for {
		select {
		case <-done:
			return exited(team)
		case now := <-look.C:
			for _, w := range team {
				if w.stuck(now, s.callMax) {
					return w.lost("a call of the state machine or of workload has not returned for %v; Apply may wait for a lock that a frozen state holds. "+
						"The stacks of all goroutines:\n%s", s.callMax, stacks())
				}
			}
		}
	}
}

// stuck reports whether one call of the application has been running for too long.
func (w *worker) stuck(now time.Time, most time.Duration) bool {
	calls := w.calls.Load()
	if calls != w.seen || calls%2 == 0 {
		w.seen, w.since = calls, now
		return false
	}
	return now.Sub(w.since) >= most
}

// exited returns a finding if a call of the application ended the goroutine of a worker.
func exited(team []*worker) *finding {
	for _, w := range team {
		if !w.ended.Load() {
			return w.lost("the state machine or workload called runtime.Goexit, as testing.T.FailNow does")
		}
	}
	return nil
}

// lost returns the finding that the goroutine of a worker was lost.
func (w *worker) lost(format string, args ...any) *finding {
	failure := &fuzzy.Failure{Class: fuzzy.Safety, Rule: "A5", Text: fmt.Sprintf(format, args...)}
	return &finding{number: w.number.Load(), failure: failure, lost: true}
}

// stacksBytesMax bounds the stacks in a message.
const stacksBytesMax = 1 << 20

func stacks() []byte {
	b := make([]byte, stacksBytesMax)
	return b[:runtime.Stack(b, true)]
}

// counter issues the numbers of seeds.
type counter struct {
	next  atomic.Uint64
	limit atomic.Uint64
}

func newCounter(limit int) *counter {
	c := &counter{}
	c.limit.Store(uint64(limit))
	return c
}

// take returns the next number. It returns false if there is none left, or if stop was called.
func (c *counter) take() (uint64, bool) {
	number := c.next.Add(1) - 1
	return number, number < c.limit.Load()
}

func (c *counter) stop() { c.limit.Store(0) }
