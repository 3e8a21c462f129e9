package processes

import (
	"math/bits"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/workload"
)

// stats counts what the clients observe. Its methods may be called from any goroutine.
type stats struct {
	mu        sync.Mutex
	results   [workload.Unknown + 1]uint64
	latencies histogram // latencies of the answered requests
	lastWrite time.Time // time of the last acknowledgement of a write
	gap       time.Duration
}

// begin starts the clock. The time from then until the first acknowledged write counts as unavailable, too.
func (s *stats) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastWrite = time.Now()
}

func (s *stats) observe(r workload.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[r.Result]++
	if r.Result == workload.Answered {
		s.latencies.add(r.Ended.Sub(r.Called))
	}
	if r.Write {
		s.gap = max(s.gap, r.Ended.Sub(s.lastWrite))
		s.lastWrite = r.Ended
	}
}

// writtenAfter reports whether a write was acknowledged after the given time.
func (s *stats) writtenAfter(moment time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastWrite.After(moment)
}

func (s *stats) operations() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[workload.Answered]
}

// histogram counts durations in buckets an eighth of an octave wide, so its quantiles are accurate to 12 %.
type histogram struct {
	buckets [64 * 8]uint64
	count   uint64
	max     time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 8)
	octave := bits.Len64(uint64(d)) - 1
	h.buckets[octave*8+int(d>>(octave-3))&7]++
	h.count++
	h.max = max(h.max, d)
}

// at returns the quantile for a share in thousandths, as the upper end of its bucket.
func (h *histogram) at(share uint64) time.Duration {
	rank := (h.count*share + 999) / 1000
	for i, n := range h.buckets {
		if rank <= n {
			if h.count == 0 {
				return 0
			}
			octave, eighth := i/8, time.Duration(i%8)
			return min((8+eighth+1)<<(octave-3), h.max)
		}
		rank -= n
	}
	return h.max
}
