package raft

import (
	"context"
	"fmt"
	"time"
)

// This file holds leases, with which a leader answers reads without a round of messages:
//
//	"The leader would use the normal heartbeat mechanism to maintain a lease. Once the leader's heartbeats were acknowledged
//	by a majority of the cluster, it would extend its lease to start + election timeout / clock drift bound, since the
//	followers shouldn't time out before then." (dissertation §6.4.1)
//
// Here the followers promise it: their election timeouts may differ from the leader's, a refused connection ends the wait for
// a leader early, and a restarted member has forgotten what it heard.

// LeaseDriftPercentMax is how far the rates of two members' clocks may be from true time, in percent, so that no two of them
// believe in a lease at once. A usual clock is a hundred times better. A clock that stops, as when a virtual machine is
// suspended, is outside of any bound: see docs/reads.md.
const LeaseDriftPercentMax = 1

// leaseMax bounds Configuration.LeaseDuration: no election timeout is longer.
const leaseMax = timeoutMax

// forever is later than any time.
const forever Time = 1<<63 - 1

// Promise is a lease as a leader asks a member for it, and as the member grants it; zero: neither. A member that has promised
// does not vote for another leader, and does not campaign, until Duration has passed on its own clock since the request came.
type Promise struct {
	SentAt   Time // when the leader sent the request, on its own clock; the reply repeats it
	Duration Time // at most what the leader asks for
}

// LeaderLease is what a leader needs to answer a read. While its clock is before Until, no other leader has committed anything: all
// that was acknowledged before is in the log up to Commit. Once the leader has applied that, its state is linearizable.
type LeaderLease struct {
	Term   Term
	Commit Index
	Until  Time // on the clock of Now.Mono
}

// leaseEndKey is the key of WithLeaseEnd.
type leaseEndKey struct{}

// WithLeaseEnd returns a context from which LeaseEnd returns what end does. node.Node.RunAsLeader calls it. It is also for loops
// of your own, and for tests of functions that ask LeaseEnd. Any goroutine may call end.
func WithLeaseEnd(ctx context.Context, end func() (time.Time, bool)) context.Context {
	return context.WithValue(ctx, leaseEndKey{}, end)
}

// LeaseEnd returns when the context of a function of node.Node.RunAsLeader is cancelled unless the member's lease is renewed
// before, as it is in each heartbeat interval. Until then, no other member runs such a function, as long as the clocks keep what
// docs/reads.md asks of them. Compare it with time.Now, also if it has passed: the context may end a moment later. It returns false if the
// leadership that the context belongs to has ended, or has no lease because leases are off. Any goroutine may call it.
// (dissertation §6.4.1)
func LeaseEnd(ctx context.Context) (time.Time, bool) {
	if end, known := ctx.Value(leaseEndKey{}).(func() (time.Time, bool)); known {
		return end()
	}
	return time.Time{}, false
}

// LeaseTooLongError refuses a lease that would outlast the wait for a silent leader, and so delay every election. Ask for at
// most Limit, or give all members a longer ElectionTimeout first.
type LeaseTooLongError struct {
	Duration, Limit time.Duration
	ElectionTimeout time.Duration // of the leader
}

func (e *LeaseTooLongError) Error() string {
	return fmt.Sprintf(notChanged+"a lease of %v is too long for an election timeout of %v: it takes at most %v, so that elections do not wait for it; "+
		"ask for less, or raise ElectionTimeout first", e.Duration, e.ElectionTimeout, e.Limit)
}

// leaseLimit returns the longest lease that this leader takes: a clock that is as slow as allowed must not make it outlast an
// election timeout.
func (c *Core) leaseLimit() time.Duration {
	return c.cfg.ElectionTimeout - c.cfg.ElectionTimeout*LeaseDriftPercentMax/100
}

// Leases reports whether the configuration in force has leases. It allocates nothing.
func (c *Core) Leases() bool { return c.config().LeaseDuration > 0 }

// leaseRefused refuses a change that asks for a longer lease than the timeouts allow.
func (c *Core) leaseRefused(ch Change) refusal {
	if d := ch.LeaseDuration; d != nil && *d > c.leaseLimit() {
		return refusal{kind: RefusedLeaseTooLong}
	}
	return refusal{}
}

// leaseProblems checks the length of the leases.
func (c Configuration) leaseProblems(p *problems) {
	if c.LeaseDuration < 0 || c.LeaseDuration > leaseMax {
		p.add("its leases last %v; they take 0 to %v", c.LeaseDuration, leaseMax)
	}
	if c.LeaseDuration > 0 && c.Level < featureLevelLeases {
		p.add("its leases last %v at feature level %d; leases begin with level %d", c.LeaseDuration, c.Level, featureLevelLeases)
	}
}

// stampLease makes the longest promise that this member may give durable before it gives one. After a restart, it waits that
// long before it votes: it does not know what it has promised. The stamp never falls.
func (c *Core) stampLease() {
	c.hard.Lease = max(c.hard.Lease, min(Time(c.config().LeaseDuration), c.electionTimeout()))
}

// promised reports whether this member has promised a leader, perhaps of an earlier term or before a restart, not to elect
// another one yet.
func (c *Core) promised() bool { return c.now.Mono < c.follower.promisedUntil }

// promise grants the leader of the present term what it asks for, but at most what the durable stamp allows. A promise never
// shortens an earlier one. The caller has heard that leader. A leader that has said that it stepped down needs none.
func (c *Core) promise(asked Promise) Promise {
	granted := min(asked.Duration, c.disk.hard.Lease)
	if granted <= 0 || c.termLeader.resigned {
		return Promise{}
	}
	assert(c.termLeader.isHeard(), "only the leader of the present term is promised anything")
	c.follower.promisedUntil = max(c.follower.promisedUntil, c.now.Mono+granted)
	return Promise{SentAt: asked.SentAt, Duration: granted}
}

// guarded returns why this member does not help to elect another leader now; Granted: it may.
func (c *Core) guarded() DenyReason {
	switch {
	case c.hearsLeader():
		return DeniedHearsLeader
	case c.promised():
		return DeniedPromised
	}
	return Granted
}

// asksForLease returns what this leader asks its followers to promise.
func (c *Core) asksForLease() Promise {
	if d := c.config().LeaseDuration; d > 0 && !c.leader.leaseEnded {
		return Promise{SentAt: c.now.Mono, Duration: Time(d)}
	}
	return Promise{}
}

// onPromise counts a promise from when the leader asked for it, because the answer may have taken any time. If the clock of
// the follower is as fast as allowed, and that of the leader as slow, the promise is shorter on the leader's clock. It returns
// what is wrong with the promise, or "".
func (c *Core) onPromise(p *progress, granted Promise) (why string) {
	switch {
	case granted.Duration == 0:
		return ""
	case granted.SentAt > c.now.Mono || granted.Duration < 0 || granted.Duration > Time(leaseMax):
		return "it promises what was not asked"
	}
	const slow, fast = 100 - LeaseDriftPercentMax, 100 + LeaseDriftPercentMax
	p.promisedUntil = max(p.promisedUntil, granted.SentAt+granted.Duration/fast*slow)
	return ""
}

// lease returns the lease of this member; zero: it has none. A quorum of the configuration in force has promised it, in both
// halves if that is joint. It needs a committed entry of this term, like any read. Once TimeoutNow has left, there is no lease
// in this term any more, even if the transfer fails: the message may be late, and its target may pass the promises.
func (c *Core) lease() LeaderLease {
	l := c.leader
	if l == nil || l.leaseEnded || c.config().LeaseDuration == 0 || !c.committedOwn() {
		return LeaderLease{}
	}
	until := quorumValue(l, &l.times, forever, func(p *progress) Time { return p.promisedUntil })
	if until <= c.now.Mono {
		return LeaderLease{}
	}
	return LeaderLease{Term: c.hard.Term, Commit: c.log.commit, Until: until}
}
