package raft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaseTime is how long leases last in these tests.
const leaseTime = 3 * electionTimeout / 4

func leasesOf(d raft.Time) raft.Change {
	asked := time.Duration(d)
	return raft.Change{LeaseDuration: &asked}
}

// withLeases returns a leader of abc in term 2 whose cluster has leases. Both others hold its log. Nobody has promised anything.
func withLeases(t *testing.T) *core {
	c := replicating(t, 2, 1)
	c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: leasesOf(leaseTime)})
	c.persist()
	for _, other := range []raft.NodeID{"b", "c"} {
		c.receive(other, 2, raft.AppendReply{Match: c.Status().Last.Index})
	}
	require.Equal(t, c.Status().ConfigIndex, c.Status().ConfigCommitted)
	require.Zero(t, c.out.Lease)
	return c
}

// promises delivers a promise of a follower, as the answer to a request that was sent at this time.
func (c *core) promises(from raft.NodeID, sentAt, d raft.Time) raft.Output {
	return c.receive(from, c.Leadership().Term, raft.HeartbeatReply{Round: c.beat, Match: c.Status().Last.Index, Promise: raft.Promise{SentAt: sentAt, Duration: d}})
}

// leasing returns a follower of b in term 2, whose stamp is durable.
func leasing(t *testing.T) *core {
	c := restart(t, membersNamed("abc"), raft.HardState{Term: 2, Lease: leaseTime}, 1)
	c.after(leaseTime)
	return c
}

// promisedFor delivers a heartbeat of b that asks for a promise, and returns what is promised.
func (c *core) promisedFor(d raft.Time) raft.Promise {
	round := raft.RPCID{StartCount: 4, Counter: 9}
	out := c.receive("b", 2, raft.Heartbeat{Round: round, Promise: raft.Promise{SentAt: 77, Duration: d}})
	return out.Send[0].Body.(raft.HeartbeatReply).Promise
}

// grantsPreVote delivers a request of c, which has all entries, for a pre-vote.
func (c *core) grantsPreVote(term raft.Term) bool {
	out := c.receive("c", term, raft.PreVoteRequest{Last: id(9, 2)})
	return append(out.Send, out.Write.Then...)[0].Body.(raft.PreVoteReply).Granted
}

// A lease counts from when the leader asked for it, and ends before the promise: the follower's clock may be too fast, and the
// leader's too slow.
func TestLease_EndsBeforeThePromise(t *testing.T) {
	c := withLeases(t)
	asked := c.now
	c.after(heartbeatPace)
	out := c.promises("b", asked, leaseTime/2)
	want := raft.LeaderLease{Term: 2, Commit: c.Status().Commit, Until: asked + leaseTime/2/101*99}
	assert.Equal(t, want, out.Lease, "it goes by what was promised, not by what was asked for")
	assert.Equal(t, want, c.promises("b", asked-10, leaseTime/2).Lease, "a late answer does not shorten it")
	assert.Equal(t, want, c.promises("b", c.now+1, leaseTime).Lease, "nobody was asked in the future")
	c.now = want.Until
	assert.Zero(t, c.step().Lease)
}

// A lease needs the promises of a quorum. The leader counts itself.
func TestLease_NeedsAQuorum(t *testing.T) {
	c := leaderOf(t, "abcde", 2, 1)
	c.persist()
	others := []raft.NodeID{"b", "c", "d", "e"}
	for _, other := range others {
		c.receive(other, 2, raft.AppendReply{Match: 3})
	}
	c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: leasesOf(leaseTime)})
	c.persist()
	for _, other := range others {
		c.receive(other, 2, raft.AppendReply{Match: 4})
	}
	asked := c.now
	assert.Zero(t, c.promises("b", asked, leaseTime).Lease)
	assert.NotZero(t, c.promises("e", asked, leaseTime).Lease)

	c = leaderOf(t, "a", 2, 1)
	c.persist()
	c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: leasesOf(leaseTime)})
	assert.NotZero(t, c.persist().Lease, "a single voter is its own quorum")
}

// While the voters change, both halves must have promised. The lease is that of the configuration in force at once.
func TestLease_NeedsBothHalves(t *testing.T) {
	c := caughtUp(t)
	c.change(leasesOf(leaseTime))
	c.hold("bcd")
	c.promises("b", c.now, leaseTime)
	require.NotZero(t, c.out.Lease)
	c.change(raft.Change{Promote: []raft.Peer{peer("d")}, Remove: []raft.Peer{peer("b"), peer("c")}})
	c.hold("bcd")
	require.True(t, c.Status().Config.Joint())
	assert.Zero(t, c.out.Lease, "d has promised nothing")
	assert.NotZero(t, c.promises("d", c.now, leaseTime).Lease)
}

// A leader without a committed entry of its term does not know what is committed.
func TestLease_NeedsAnEntryOfTheTerm(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 3, Promise: raft.Promise{SentAt: c.now, Duration: leaseTime}})
	assert.Zero(t, c.out.Lease, "and this cluster has no leases")
	c = withLeases(t)
	assert.NotZero(t, c.promises("b", c.now, leaseTime).Lease)
	c.receive("b", 3, raft.HeartbeatReply{})
	assert.Zero(t, c.out.Lease, "it leads no more")
}

// From TimeoutNow on, there are no leases in this term, even if the transfer fails: its target may pass the promises.
func TestLease_NotAfterTimeoutNow(t *testing.T) {
	c := withLeases(t)
	c.step(raft.Applied{ID: c.Status().Last})
	c.after(heartbeatPace)
	c.promises("b", c.now, leaseTime)
	require.NotZero(t, c.promises("c", c.now, leaseTime).Lease)
	out := c.transferTo("b")
	require.Contains(t, bodies(out.Send, "b"), raft.Body(raft.TimeoutNow{Named: true}))
	assert.Zero(t, out.Lease, "in the step that sends it")
	for c.Status().TransferringUntil > 0 {
		c.timeout()
		c.echo("b", c.Status().Last.Index)
		c.echo("c", c.Status().Last.Index)
	}
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.Zero(t, c.promises("b", c.now, leaseTime).Lease)
	beat := bodies(c.after(heartbeatPace).Send, "b")[0].(raft.Heartbeat)
	assert.Zero(t, beat.Promise, "it asks for none")
}

// A busy leader sends few heartbeats. Its appends ask for promises, too.
func TestLease_AppendsRenewIt(t *testing.T) {
	c := withLeases(t)
	c.after(heartbeatPace)
	out := c.propose("x")
	r := bodies(out.Send, "b")[0].(raft.AppendRequest)
	assert.Equal(t, raft.Promise{SentAt: c.now, Duration: leaseTime}, r.Promise)
	out = c.receive("b", 2, raft.AppendReply{Match: r.Last.Index, Promise: r.Promise})
	assert.Equal(t, c.now+leaseTime/101*99, out.Lease.Until)

	f := leasing(t)
	f.receive("b", 2, raft.AppendRequest{Prev: id(2, 1), Last: id(2, 1), Promise: raft.Promise{SentAt: 5, Duration: leaseTime}})
	assert.Equal(t, raft.Promise{SentAt: 5, Duration: leaseTime}, f.out.Send[0].Body.(raft.AppendReply).Promise)
}

// A follower makes the longest promise durable before it gives one. It gives no longer one.
func TestLease_IsStampedFirst(t *testing.T) {
	c := follower(t, 2, 1)
	assert.Zero(t, c.promisedFor(leaseTime), "it has no stamp")
	config := raft.NewConfiguration(membersNamed("abc"))
	config.Level, config.LeaseDuration = 5, time.Duration(leaseTime)
	e := raft.Entry{Index: 3, Term: 2, Kind: raft.EntryConfiguration, Data: config.Encode()}
	out := c.receive("b", 2, raft.AppendRequest{Prev: id(2, 1), Last: e.ID(), Entries: []raft.Entry{e}})
	require.NotNil(t, out.Write.Hard)
	assert.Equal(t, raft.Time(leaseTime), out.Write.Hard.Lease)
	assert.Zero(t, c.promisedFor(leaseTime), "the stamp is not durable yet")
	c.persist()
	assert.Equal(t, raft.Promise{SentAt: 77, Duration: leaseTime}, c.promisedFor(leaseTime))
	assert.Equal(t, raft.Promise{SentAt: 77, Duration: leaseTime}, c.promisedFor(10*leaseTime), "at most the stamp")
	assert.Zero(t, c.promisedFor(-1))
}

// A member that has promised neither votes nor campaigns. It ignores vote requests without raising its term. It obeys a
// candidate that the leader has told to campaign.
func TestLease_DeniesVotes(t *testing.T) {
	promised := func() *core {
		c := leasing(t)
		c.promisedFor(leaseTime)
		c.step(raft.PeerLost{Peer: peer("b"), Refused: true}) // it hears the leader no longer
		return c
	}
	last := id(9, 2)
	c := promised()
	end := c.now + leaseTime
	assert.Empty(t, c.receive("c", 3, raft.VoteRequest{Last: last}).Send)
	assert.EqualValues(t, 2, c.Leadership().Term, "the term stays")
	assert.False(t, c.grantsPreVote(2))
	assert.GreaterOrEqual(t, c.out.WakeAt, end, "the news does not make it campaign")
	c.receive("c", 3, raft.HeartbeatReply{}) // a newer term leaves the promise in force
	require.EqualValues(t, 3, c.Leadership().Term)
	out := c.receive("c", 3, raft.VoteRequest{Last: last})
	assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{})}, append(out.Send, out.Write.Then...), "nor does it vote in the present term")
	assert.False(t, c.grantsPreVote(3))

	c = promised()
	c.receive("c", 3, raft.VoteRequest{Last: last, Transfer: true})
	assert.EqualValues(t, 3, c.Leadership().Term, "the leader has asked for it")

	c = promised()
	c.now = end
	assert.True(t, c.grantsPreVote(2), "the promise is over")
}

// A later promise of a shorter time leaves an earlier one in force.
func TestLease_APromiseDoesNotShortenAnEarlierOne(t *testing.T) {
	c := leasing(t)
	end := c.now + leaseTime
	c.promisedFor(leaseTime)
	c.promisedFor(1)
	c.step(raft.PeerLost{Peer: peer("b"), Refused: true})
	c.now = end - 1
	assert.False(t, c.grantsPreVote(2))
}

// A restarted member has forgotten what it has promised, and waits as long as it may have. Neither its present configuration nor
// its present election timeout says anything about that: both may have been longer before.
func TestLease_ARestartedMemberWaits(t *testing.T) {
	for _, stamp := range []raft.Time{leaseTime, 3 * electionTimeout} {
		c := restart(t, membersNamed("abc"), raft.HardState{Term: 2, Lease: stamp}, 1)
		end := c.now + stamp
		c.now = end - 1
		assert.Empty(t, c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)}).Send)
		c.now = end
		c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
		assert.EqualValues(t, 3, c.Leadership().Term)
		assert.Equal(t, stamp, c.out.Write.Hard.Lease, "the stamp stays")
	}
}

// A leader that has said that it stepped down is promised nothing: its heartbeats are late.
func TestLease_AResignedLeaderIsPromisedNothing(t *testing.T) {
	c := leasing(t)
	c.promisedFor(leaseTime)
	c.receive("b", 2, raft.SteppedDown{})
	assert.Zero(t, c.promisedFor(leaseTime))
}

// A lease that is longer than the timeouts allow is refused, with the limit. So is one while a member runs an earlier release.
func TestLease_TooLongOrTooEarly(t *testing.T) {
	c := replicating(t, 2, 1)
	ask := func(d raft.Time) error {
		return c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: leasesOf(d)}).Answers[0].Err
	}
	var tooLong *raft.LeaseTooLongError
	require.ErrorAs(t, ask(electionTimeout), &tooLong)
	assert.Equal(t, raft.LeaseTooLongError{
		Duration: time.Duration(electionTimeout), Limit: time.Duration(electionTimeout / 100 * 99), ElectionTimeout: time.Duration(electionTimeout),
	}, *tooLong)
	assert.ErrorContains(t, tooLong, tooLong.Limit.String())
	var wrong *raft.ConfigError
	require.ErrorAs(t, ask(-1), &wrong)
	assert.Equal(t, "Change.LeaseDuration", wrong.Field)

	c.step(raft.PeerUp{ID: "b", Incarnation: 'b', Protocol: raft.ProtocolFounding})
	var earlier *raft.EarlierReleaseError
	require.ErrorAs(t, ask(leaseTime), &earlier)
	assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"b"}, Speaks: raft.ProtocolFounding, Needs: raft.ProtocolSessions}, *earlier)
	c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: leasesOf(0)})
	assert.EqualValues(t, 1, c.Status().ConfigIndex, "there are none, so nothing changes")
}

// Two clocks that are as far apart as LeaseDriftPercentMax allows never break a promise: when a follower is free to vote, the
// lease is over. With clocks a little farther apart, the leader still reads by it, and misses what the next one has committed.
func TestLease_AtTheBoundOfDriftAndBeyond(t *testing.T) {
	for percent, stale := range map[raft.Time]bool{0: false, raft.LeaseDriftPercentMax: false, raft.LeaseDriftPercentMax + 1: true} {
		leads, follows := withLeases(t), leasing(t)
		last := leads.Status().Last
		missing := int(last.Index - follows.Status().Last.Index)
		follows.receive("b", 2, raft.AppendRequest{
			Prev: follows.Status().Last, Last: last, Entries: entries(last.Index-raft.Index(missing)+1, slices.Repeat([]raft.Term{2}, missing)...),
		})
		follows.persist()
		require.Equal(t, last, follows.Status().Last)
		leads.after(heartbeatPace)
		asked, came := leads.now, follows.now
		follows.promisedFor(leaseTime)
		leads.promises("b", asked, leaseTime)
		require.NotZero(t, leads.out.Lease)
		follows.step(raft.PeerLost{Peer: peer("b"), Refused: true})
		passed := leaseTime * 100 / (100 + percent) // of true time, until the promise is over on a clock that is too fast
		follows.now = came + leaseTime
		require.True(t, follows.grantsPreVote(3))
		out := follows.receive("c", 3, raft.VoteRequest{Last: last})
		require.True(t, out.Write.Then[0].Body.(raft.VoteReply).Granted)
		follows.persist()
		newest := raft.EntryID{Term: 3, Index: last.Index + 1}
		follows.receive("c", 3, raft.AppendRequest{Prev: last, Last: newest, Entries: entries(newest.Index, 3)})
		follows.persist()
		require.Equal(t, newest, follows.Status().Last)
		require.Equal(t, newest.Index, follows.Status().Persisted, "it is durable on two of three members, so it is committed")
		leads.now = asked + passed*(100-percent)/100
		lease := leads.step().Lease
		assert.Equal(t, stale, leads.now < lease.Until && lease.Commit < newest.Index, "%d %%", percent)
		assert.Equal(t, stale, lease != raft.LeaderLease{}, "%d %%", percent)
	}
}
