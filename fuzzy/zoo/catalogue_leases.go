package zoo

// leases: what leaders and voters do about leases. The broken rules are those that the model of leases has shown to matter.
var leases = []Mutant{
	leased("Q05", "a lease begins when the leader asked for it", "it begins when the promise arrives", "G12, G13",
		value("lease.go", leaseEnd, `c.now.Mono+granted.Duration/fast*slow`)).arranged().or("TestLease_EndsBeforeThePromise"),
	leased("Q06", "a lease ends earlier, by what clocks may drift apart", "it lasts as long as the promise", "G12, G13",
		value("lease.go", leaseEnd, `granted.SentAt+granted.Duration`)).arranged().or("TestLease_AtTheBound"),
	leased("Q07", "TimeoutNow ends the leases of its term", "it does not", "G12, G13",
		value("lease.go", `l == nil || l.leaseEnded`, `l == nil`)).arranged().seen("tikv #1593; etcd #12704; raft-rs #234").must(),
	leased("Q08", "a restarted member waits as long as it may have promised", "it does not wait", "N107, G12",
		value("raft.go", `now.Mono + stored.Hard.Lease`, `now.Mono`)).arranged().seen("etcd #5451").must(),
	leased("Q09", "a transfer marks the vote requests of one term", "later ones are marked, too", "G12, N107, N12",
		value("election.go", `VoteRequest{Last: c.log.Last, Transfer: transfer}`,
			`VoteRequest{Last: c.log.Last, Transfer: transfer || c.follower.vacancy.cause == CauseTransfer}`)).arranged().seen("raft-rs #234"),
	testedFile("Q10", "a reader uses a lease only while its clock is before the end", "it does not look at the clock", "tests", "node", "TestLease_",
		value("node/lease.go", `clock().Mono >= held.Until`, `false`)),
	leased("Q11", "promises go by the clock that does not jump", "they go by the wall clock", "N107, G12",
		value("lease.go", `max(c.follower.promisedUntil, c.now.Mono+granted)`, `max(c.follower.promisedUntil, Time(c.now.Wall)+granted)`),
		value("lease.go", `c.now.Mono < c.follower.promisedUntil`, `Time(c.now.Wall) < c.follower.promisedUntil`)).arranged(),
	leased("B30", "a lease allows for both clocks", "it allows for one", "G12, G13",
		value("lease.go", leaseEnd, `granted.SentAt+granted.Duration/100*slow`)).arranged().or("TestLease_EndsBeforeThePromise"),
	leased("B31", "a restarted member waits as long as its stamp says", "it goes by its configuration", "N107, G12",
		value("raft.go", `now.Mono + stored.Hard.Lease`, `now.Mono + min(stored.Hard.Lease, Time(c.config().LeaseDuration))`)).arranged().or("TestLease_ARestarted"),
	leased("B32", "a failed transfer leaves its term without leases", "the leases resume", "G12, G13",
		before("transfer.go", `c.leader.transfer = nil`, `c.leader.leaseEnded = false`)).arranged().or("TestLease_NotAfterTimeoutNow"),
	leased("B34", "news of the leader's end waits for the promise", "the member campaigns at once", "N107, invariant",
		value("election.go", `max(c.follower.deadline, c.follower.promisedUntil)`, `c.follower.deadline`)).arranged(),
	leased("B35", "a member keeps its promises", "it does not", "N107, G12",
		value("lease.go", `c.now.Mono < c.follower.promisedUntil`, `false`)).arranged().must(),
	leased("B37", "a lease goes by what was granted", "it goes by what was asked for", "G12, G13",
		value("lease.go", leaseEnd, `granted.SentAt+Time(c.config().LeaseDuration)/fast*slow`)).arranged().or("TestLease_EndsBeforeThePromise"),
	leased("B38", "a quorum has promised the lease", "one member has", "G12, G13",
		value("lease.go", leaseQuorum, `func() (t Time) { for i := range l.peers { t = max(t, l.peers[i].promisedUntil) }; return t }()`)).arranged().or("TestLease_NeedsAQuorum"),
	leased("B39", "a promise does not shorten an earlier one", "it does", "N107, G12",
		value("lease.go", `max(c.follower.promisedUntil, c.now.Mono+granted)`, `c.now.Mono+granted`)).arranged().or("TestLease_APromiseDoesNotShorten"),
	leased("B40", "both halves of a joint configuration promise", "the new half does", "G12, G13",
		value("lease.go", leaseQuorum, `func() Time { v, _ := halfValue(l, IncomingHalf, &l.times, forever, func(p *progress) Time { return p.promisedUntil }); return v }()`)).
		arranged().profiles("members", "leases").or("TestLease_NeedsBothHalves"),
	leased("B41", "a leader reads by lease once it has committed an entry of its term", "it reads at once", "G13",
		value("lease.go", `!c.committedOwn()`, `false`)).arranged().must(),
	leased("B42", "a newer term leaves promises in force", "it ends them", "N107, G12",
		before("raft.go", `c.termLeader = termLeader{}`, `c.follower.promisedUntil = 0`)).arranged(),
	leased("B43", "a member promises what its durable stamp covers", "it promises more", "N108",
		value("lease.go", `min(asked.Duration, c.disk.hard.Lease)`, `asked.Duration`)).arranged().must(),
	leased("B45", "appends renew leases", "only heartbeats do", "tests",
		value("replicate.go", `c.asksForLease()`, `Promise{}`)).or("TestLease_AppendsRenew"),
	leased("B46", "a leader that has stepped down is promised nothing", "it is", "invariant",
		value("lease.go", `granted <= 0 || c.termLeader.resigned`, `granted <= 0`)).or("TestLease_AResigned"),
	leased("B48", "a member that has promised denies its vote in the present term", "it votes", "N107",
		value("election.go", `why == Granted && !r.Transfer && c.promised()`, `false`)).arranged().or("TestLease_DeniesVotes"),
	leased("B49", "a member that has promised denies pre-votes", "it grants them", "N107",
		value("election.go", `guarded == DeniedHearsLeader || guarded != Granted && why == Granted`, `guarded == DeniedHearsLeader`)).arranged(),
	leased("B52", "the stamp of a promise never falls", "it follows the configuration", "N108, N107",
		value("lease.go", `max(c.hard.Lease, min(Time(c.config().LeaseDuration), c.electionTimeout()))`, `min(Time(c.config().LeaseDuration), c.electionTimeout())`)).or("TestLease_ARestarted"),
	leased("B53", "a read by lease sees what is committed", "it sees what is committed and durable on the leader", "G13",
		value("lease.go", `c.log.commit`, `c.log.applying`)).must(),
	leased("B54", "a step ends with the lease that is left", "it ends with the one that it began with", "G13, G12",
		before("raft.go", `c.lead()`, `c.step.out.Lease = c.lease()`),
		value("raft.go", `c.lease()`, `out.Lease`)).or("TestLease_NotAfterTimeoutNow").must(),
	leased("B55", "a restarted member waits as long as its stamp says", "at most its present election timeout", "N107, G12",
		value("raft.go", `now.Mono + stored.Hard.Lease`, `now.Mono + min(stored.Hard.Lease, c.electionTimeout())`)).or("TestLease_ARestarted").must(),
	outsideOf("B56", "a lease is published before anything else of its step", "it is published after the messages have left", "TestLease_IsPublishedBeforeAny",
		instead("node/node.go", `n.lease.publish(out.Lease)`, `defer n.lease.publish(out.Lease)`)),
	outsideOf("B57", "a lease is published when its commit index moves", "only when its end does", "TestLease_IsPublishedBefore",
		value("node/lease.go", `next == l.last`, `next.Term == l.last.Term && next.Until == l.last.Until`)),
	outsideOf("B58", "the time of a step is later than its events", "it is that at which the loop went to sleep", "TestLease_Nobody",
		before("node/node.go", `out = n.core.Step(now, batch...)`, `if n.late.idleSince > 0 { now.Mono = n.late.idleSince }`)),
	outsideOf("B59", "a leader's work is cancelled before the messages of its step leave", "it is cancelled afterwards", "TestLease_IsPublishedBeforeAny",
		instead("node/node.go", `n.works.follow(n.core)`, `defer n.works.follow(n.core)`)),
	leased("B51", "a lease longer than the timeouts allow is refused", "it is taken", "tests",
		value("lease.go", `d != nil && *d > c.leaseLimit()`, `false`)).or("TestLease_TooLong"),
}

const (
	leaseEnd    = `granted.SentAt+granted.Duration/fast*slow`
	leaseQuorum = `quorumValue(l, &l.times, forever, func(p *progress) Time { return p.promisedUntil })`
)

// leased returns a mutant that is hunted with the profile whose leaders have leases.
func leased(id, rule, bug, expect string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).profiles("leases")
}
