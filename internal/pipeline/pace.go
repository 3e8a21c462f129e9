package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

// Pace limits the bytes per second of a sender or a writer. It is a token bucket: bytes that are not used at once can be used
// later, but never more than burstBytes at once.
type Pace struct {
	bytesPerSecond int64         // 0: no limit
	burst          time.Duration // time in which the bucket fills
	full           raft.Time     // when the bucket is full again, if nothing more is taken
}

// NewPace returns a full bucket. A rate of 0 is no limit.
func NewPace(bytesPerSecond int64, burstBytes int) *Pace {
	p := &Pace{bytesPerSecond: bytesPerSecond}
	p.burst = p.cost(burstBytes)
	return p
}

// cost returns the time that so many bytes take at the rate, rounded up. The calculation cannot overflow, because every piece
// is smaller than 8 GiB.
func (p *Pace) cost(bytes int) time.Duration {
	if p.bytesPerSecond <= 0 {
		return 0
	}
	return time.Duration((int64(bytes)*int64(time.Second) + p.bytesPerSecond - 1) / p.bytesPerSecond)
}

// Next takes bytes from the bucket and returns 0, or takes none and returns how long to wait. A piece that is larger than the
// bucket needs a full bucket. The next piece then waits until the bucket has recovered.
func (p *Pace) Next(now raft.Time, bytes int) (wait time.Duration) {
	owed := max(time.Duration(p.full-now), 0)
	cost := p.cost(bytes)
	if allowed := max(p.burst-cost, 0); owed > allowed {
		return owed - allowed
	}
	p.full = now + raft.Time(owed+cost)
	return 0
}
