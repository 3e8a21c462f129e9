package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// lookEvery is the interval at which a member looks for problems to log.
const lookEvery = time.Second

// problems logs each finding of this member when it begins and when it ends. A finding begins once two looks in a row have
// found it, and ends once two looks in a row have not: elections and restarts are no problems. Only its own goroutine uses it.
type problems struct {
	node *Node
	seen map[problem]*spell
}

// problem is what a finding is about.
type problem struct {
	verdict string
	member  raft.NodeID
}

// spell is the time for which a problem lasts.
type spell struct {
	since   time.Time
	looks   int       // looks in a row that agree: positive that have found it, negative that have not
	logged  bool      // that it has begun
	warned  time.Time // when that was logged last
	leftOut int       // spells that were too close to the last line to be logged
}

// watchProblems ends with the node.
func (n *Node) watchProblems() {
	p := problems{n, map[problem]*spell{}}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.loopEnded:
			return
		case <-ticker.C:
		}
		n.clockWatch.look(time.Now(), n.now())
		p.look(time.Now(), n.Status().Findings)
	}
}

func (p *problems) look(now time.Time, found []Finding) {
	for of, s := range p.seen {
		if !slices.ContainsFunc(found, func(f Finding) bool { return problem{f.Verdict, f.Member} == of }) {
			p.absent(now, of, s)
		}
	}
	for _, f := range found {
		of := problem{f.Verdict, f.Member}
		s := p.seen[of]
		if s == nil {
			s = &spell{}
			p.seen[of] = s
		}
		p.present(now, f, s)
	}
}

func (p *problems) present(now time.Time, f Finding, s *spell) {
	if s.looks = max(s.looks, 0) + 1; s.looks == 1 && !s.logged {
		s.since = now
	}
	if s.logged || s.looks < 2 || !s.warned.IsZero() && now.Sub(s.warned) < warnEvery {
		return
	}
	v, _ := VerdictNamed(f.Verdict)
	level := hclog.Warn
	if v.Severity == Outage {
		level = hclog.Error
	}
	p.node.logger.log(level, "a problem has begun", "verdict", f.Verdict, "member", string(f.Member), "says", f.Says,
		"see", v.Runbook(), "left_out", s.leftOut)
	s.logged, s.warned, s.leftOut = true, now, 0
}

func (p *problems) absent(now time.Time, of problem, s *spell) {
	if s.looks = min(s.looks, 0) - 1; s.looks > -2 {
		if s.looks == -1 && !s.logged && !s.warned.IsZero() {
			s.leftOut++
		}
		return
	}
	if s.logged {
		s.logged = false
		p.node.logger.log(hclog.Info, "a problem has ended", "verdict", of.verdict, "member", string(of.member),
			"lasted", now.Sub(s.since).Round(time.Second).String())
	}
	if now.Sub(s.warned) >= warnEvery {
		delete(p.seen, of)
	}
}

// ofCertificate reports whether a connection was not made because one side does not accept the certificate of the other.
func ofCertificate(err error) bool {
	var alert tls.AlertError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var refused *raft.Rejection
	var identity interface{ OfCertificate() }
	return errors.As(err, &alert) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &identity) ||
		errors.As(err, &refused) && refused.Reason == raft.RejectCertificate
}

const (
	// writesKept is the number of the latest writes that decide whether the disk is slow, and writesFresh their age.
	writesKept  = 16
	writesFresh = time.Minute
)

// slowDisk keeps the times of the latest writes. The writer notes them, and Status reads them.
type slowDisk struct {
	mu    sync.Mutex
	took  [writesKept]time.Duration // a ring
	count int
	at    time.Time // of the last write
}

func (d *slowDisk) note(now time.Time, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took[d.count%writesKept], d.at = took, now
	d.count++
}

// median returns the median of the latest writes, if it is half the election timeout or more; else 0.
func (d *slowDisk) median(now time.Time, timeout time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count < writesKept || now.Sub(d.at) > writesFresh {
		return 0
	}
	sorted := d.took
	slices.Sort(sorted[:])
	if half := sorted[writesKept/2]; half >= timeout/2 {
		return half
	}
	return 0
}

const (
	clockJumpMin   = time.Second      // a smaller difference between the clocks is no jump
	clockJumpFresh = 10 * time.Minute // so long a jump is a finding
)

// clockWatch compares the wall clock with the monotonic clock, which nobody can set, and which does not advance while a machine
// is suspended.
type clockWatch struct {
	mu     sync.Mutex
	before raft.Now // zero: none
	jump   time.Duration
	at     time.Time
}

func (c *clockWatch) look(now time.Time, clocks raft.Now) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := time.Duration(clocks.Wall-c.before.Wall) - time.Duration(clocks.Mono-c.before.Mono)
	if c.before != (raft.Now{}) && by.Abs() >= clockJumpMin {
		c.jump, c.at = by, now
	}
	c.before = clocks
}

// last returns the last jump, and 0 if there was none lately.
func (c *clockWatch) last(now time.Time) (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jump == 0 || now.Sub(c.at) > clockJumpFresh {
		return 0, time.Time{}
	}
	return c.jump, c.at
}
