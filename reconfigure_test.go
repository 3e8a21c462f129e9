package raft_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// change requests a membership change.
func (c *core) change(change raft.Change) raft.Output {
	return c.step(raft.ChangeRequested{RequestID: requestIDOfTheTests, Change: change})
}

// joining returns a member that is to join as a learner or as a voter.
func joining(id raft.NodeID, kind raft.MemberKind) raft.Member {
	return raft.Member{ID: id, Address: string(id) + ":1", Kind: kind, Incarnation: peer(id).Incarnation}
}

func addLearner(id raft.NodeID) raft.Change {
	return raft.Change{Add: []raft.Member{joining(id, raft.Learner)}}
}

func remove(ids ...raft.NodeID) (ch raft.Change) {
	for _, id := range ids {
		ch.Remove = append(ch.Remove, raft.Peer{ID: id})
	}
	return ch
}

// hold makes the whole log durable here. It also lets these members acknowledge the log and answer a heartbeat.
func (c *core) hold(members string) raft.Output {
	c.persist()
	return c.acknowledge(members)
}

func (c *core) acknowledge(members string) (out raft.Output) {
	term, last := c.Leadership().Term, c.Status().Last.Index
	for _, r := range members {
		out = c.receive(raft.NodeID(string(r)), term, raft.AppendReply{Match: last})
	}
	return out
}

// assertRefused checks that a request was refused for this reason, with an error of the type of target, and
// that nothing has changed.
func (c *core) assertRefused(why raft.RefusalKind, target any) {
	c.t.Helper()
	if len(c.out.Answers) == 0 { // an answer about the configuration is confirmed first
		c.echo("b", 0)
	}
	if assert.Len(c.t, c.out.Answers, 1) {
		a := c.out.Answers[0]
		assert.Equal(c.t, [2]uint8{uint8(raft.AnswerRefused), uint8(why)}, [2]uint8{uint8(a.Kind), uint8(a.Refusal)}, "%v", a.Err)
		if target != nil {
			assert.ErrorAs(c.t, a.Err, target)
		} else {
			assert.NoError(c.t, a.Err)
		}
	}
	assert.Nil(c.t, c.out.Config)
	assert.Nil(c.t, c.out.Write.Log)
}

// withLearner returns a leader of abc, with the learner d, in term 5; the change that added d is committed.
func withLearner(t *testing.T) *core {
	c := replicating(t, 5, 1)
	c.change(addLearner("d"))
	c.hold("bc")
	require.Equal(t, c.Status().ConfigIndex, c.Status().ConfigCommitted)
	return c
}

func TestChange_ALearnerJoins(t *testing.T) {
	c := replicating(t, 5, 1)
	last := c.Status().Last.Index
	out := c.change(addLearner("d"))
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerAccepted, ID: id(last+1, 5)}}, out.Answers)
	want := raft.NewConfiguration(append(membersNamed("abc"), joining("d", raft.Learner)))
	want.Level = 1
	c.assertGiven(want, last+1, 1)
	assert.Equal(t, raft.ChangeProgress{Stage: raft.ChangeCommits, Since: c.now}, *c.Status().Change)
	assert.Equal(t, []raft.Body{raft.AppendRequest{
		Prev: id(last+1, 5), Last: id(last+1, 5), Commit: last, Generation: 1,
	}}, bodies(append(out.Send, out.Write.Then...), "d"), "the new member is probed behind the log")

	c.persist()
	out = c.acknowledge("b")
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerChanged, ID: id(last+1, 5)}}, out.Answers)
	c.assertGiven(want, last+1, last+1)
	assert.Nil(t, c.Status().Change)
}

// A learner counts towards no quorum.
func TestChange_ALearnerDoesNotCommit(t *testing.T) {
	c := withLearner(t)
	c.propose("x")
	c.hold("d")
	assert.Less(t, c.Status().Commit, c.Status().Last.Index)
	c.acknowledge("b")
	assert.Equal(t, c.Status().Last.Index, c.Status().Commit)
}

func TestChange_WhatIsRefused(t *testing.T) {
	long := string(make([]byte, raft.MetaBytesMax+1))
	other := joining("b", raft.Learner)
	other.Incarnation = 1
	elsewhere := joining("d", raft.Learner)
	elsewhere.Address = "b:1"
	for _, row := range []struct {
		rule   string
		change raft.Change
		why    raft.RefusalKind
		want   any
		text   string
	}{
		{"a member that is there", addLearner("b"), raft.RefusedMemberExists, new(*raft.MemberExistsError), "b is a voter, at b:1"},
		{"its id with another store", raft.Change{Add: []raft.Member{other}}, raft.RefusedMemberExists, new(*raft.MemberExistsError), "replace it"},
		{"no such member", remove("x"), raft.RefusedUnknownMember, new(*raft.UnknownMemberError), "there is no x; there are a b c"},
		{"all voters", remove("a", "b", "c"), raft.RefusedLastVoter, new(*raft.LastVoterError), "add another one first"},
		{"all voters become standbys", raft.Change{Update: slices.Concat(prefer("a", -1).Update, prefer("b", -1).Update, prefer("c", -1).Update)},
			raft.RefusedNotElectable, new(*raft.NotElectableError), "as in SetPriority(a, 1)"},
		{"a priority out of range", prefer("b", 101), raft.RefusedMalformed, new(*raft.PriorityError), "it takes 1 to 100"},
		{"another's address", raft.Change{Add: []raft.Member{elsewhere}}, raft.RefusedAddressInUse, new(*raft.AddressInUseError), "d cannot be at b:1: that is the address of b"},
		{"a Meta that is too long", raft.Change{Update: []raft.Update{{Peer: peer("b"), Meta: &long}}}, raft.RefusedMalformed, new(*raft.ConfigError), "the limit is 1024"},
		{"one member twice", remove("b", "b"), raft.RefusedMalformed, new(*raft.ConfigError), `names member "b" twice`},
	} {
		c := replicating(t, 5, 1)
		c.change(row.change)
		c.assertRefused(row.why, row.want)
		assert.ErrorContains(t, c.out.Answers[0].Err, row.text, row.rule)
		c.change(addLearner("d"))
		assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "%s: the next change is accepted", row.rule)
	}
}

// A caller that has read a configuration changes exactly that configuration.
func TestChange_ComparesTheIndex(t *testing.T) {
	c := replicating(t, 5, 1)
	c.step(raft.ChangeRequested{RequestID: 1, IfIndex: 2, Change: addLearner("d")})
	var changed *raft.ConfigChangedError
	c.assertRefused(raft.RefusedConfigIndex, &changed)
	assert.Equal(t, raft.ConfigChangedError{IfIndex: 2, Index: 1}, *changed)
	c.step(raft.ChangeRequested{RequestID: 2, IfIndex: 1, Change: addLearner("d")})
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
}

// At most one configuration is uncommitted.
func TestChange_OneAtATime(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(addLearner("d"))
	c.persist()
	c.change(addLearner("e"))
	var pending *raft.ChangePendingError
	c.assertRefused(raft.RefusedChanging, &pending)
	assert.Equal(t, c.Status().ConfigIndex, pending.Index)
	c.acknowledge("b")
	c.change(addLearner("e"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
	c.hold("b")

	out := c.step(raft.ChangeRequested{RequestID: 8, Change: remove("d")}, raft.ChangeRequested{RequestID: 9, Change: remove("e")})
	require.Len(t, out.Answers, 2)
	assert.Equal(t, raft.RefusedChanging, out.Answers[0].Refusal, "the second of two in one step is refused")
	assert.Equal(t, raft.Answer{RequestID: 8, Kind: raft.AnswerAccepted, ID: c.Status().Last}, out.Answers[1])
}

// "a leader may not append a configuration entry until it has committed an entry from its current term": otherwise two
// leaders could append configurations whose majorities do not meet.
func TestChange_WaitsForAnEntryOfItsTerm(t *testing.T) {
	c := leaderOf(t, "abc", 5, 1)
	out := c.change(addLearner("d"))
	assert.Empty(t, out.Answers)
	c.step(raft.ChangeRequested{RequestID: 8, Change: addLearner("e")})
	c.assertRefused(raft.RefusedChanging, new(*raft.ChangePendingError))
	out = c.persist()
	assert.Empty(t, out.Answers)
	assert.Nil(t, out.Config)
	out = c.acknowledge("b")
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerAccepted, ID: c.Status().Last}}, out.Answers)
	assert.Equal(t, c.Status().Last.Index, c.Status().ConfigIndex)

	c = leaderOf(t, "abc", 5, 1)
	c.change(addLearner("d"))
	out = c.receive("b", 6, raft.AppendReply{})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader}}, out.Answers)
}

func TestChange_WithoutEffect(t *testing.T) {
	c := withLearner(t)
	at := c.Status().ConfigIndex
	address := "d:1"
	for _, ch := range []raft.Change{
		{}, {Promote: []raft.Peer{peer("b")}}, {Demote: []raft.Peer{peer("d")}}, {Cancel: true}, {Update: []raft.Update{{Peer: peer("d"), Address: &address}}},
	} {
		out := c.change(ch)
		assert.Nil(t, out.Write.Log)
		assert.Empty(t, out.Answers, "another member may lead by now")
		out = c.echo("b", 0)
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerChanged, ID: raft.EntryID{Index: at}}}, out.Answers)
	}
	alone := leaderOf(t, "a", 5, 1)
	alone.persist()
	alone.change(raft.Change{})
	assert.Equal(t, []raft.AnswerKind{raft.AnswerChanged}, alone.answered(), "nobody else could lead")
}

// If another leader has replaced this leader without its knowledge, this leader has an earlier configuration. So it must not
// answer that the members are as requested, or that a member does not exist. The second answer could suggest that a change
// with an unknown outcome was made.
func TestChange_ADeposedLeaderSaysNothingOfTheConfiguration(t *testing.T) {
	for rule, e := range map[string]raft.ChangeRequested{
		"the members are as requested": {Change: promote("b")},
		"the member is not there":      {Change: remove("d")},
		"the member is there":          {Change: addLearner("b")},
		"the configuration is later":   {IfIndex: 99, Change: addLearner("d")},
	} {
		c := replicating(t, 5, 1)
		e.RequestID = requestIDOfTheTests
		assert.Empty(t, c.step(e).Answers, rule)
		out := c.receive("b", 6, raft.Heartbeat{})
		assert.Equal(t, refused(raft.RefusedNotLeader, ""), out.Answers, rule)
	}
}

// The number of answers that wait for a round of heartbeats is limited, as for reads.
func TestChange_WhatWaitsToBeConfirmedHasALimit(t *testing.T) {
	c := replicating(t, 5, 1)
	for range coreConfig().ProposalsMax {
		require.Empty(t, c.change(raft.Change{}).Answers)
	}
	assert.Equal(t, refused(raft.RefusedOverloaded, ""), c.change(raft.Change{}).Answers)
	assert.Len(t, c.echo("b", 0).Answers, 1, "the first one had its own round")
	assert.Len(t, c.echo("b", 0).Answers, coreConfig().ProposalsMax-1)
}

func TestChange_AddressesAndMeta(t *testing.T) {
	c := replicating(t, 5, 1)
	address, meta := "elsewhere:1", "http://b"
	c.change(raft.Change{Update: []raft.Update{{Peer: peer("b"), Address: &address, Meta: &meta}}})
	c.hold("b")
	assert.Equal(t, raft.AnswerChanged, c.out.Answers[0].Kind)
	m, _ := c.Status().Config.Member("b")
	assert.Equal(t, raft.Member{ID: "b", Address: address, Meta: meta, Incarnation: 'b'}, m)
}

// One entry replaces a learner by another store with the same id. Acknowledgements of the former store no longer count.
func TestChange_ALearnerIsReplaced(t *testing.T) {
	c := withLearner(t)
	c.acknowledge("d")
	require.EqualValues(t, c.Status().Last.Index, c.progress("d").Match)
	by := joining("d", raft.Learner)
	by.Incarnation = 1
	c.change(raft.Change{Replace: []raft.Replacement{{Old: raft.Peer{ID: "d"}, New: by}}})
	at := c.Status().ConfigIndex
	c.acknowledge("d")
	var seen []raft.PeerProgress
	for _, p := range c.Status().Peers {
		if p.ID == "d" {
			seen = append(seen, p)
		}
	}
	require.Len(t, seen, 2)
	assert.Equal(t, []any{raft.Incarnation(1), raft.Index(0), false}, []any{seen[0].Incarnation, seen[0].Match, seen[0].Departing})
	assert.Equal(t, []any{raft.Incarnation('d'), at, true}, []any{seen[1].Incarnation, seen[1].Match, seen[1].Departing})
	assert.Equal(t, []raft.Removal{{Peer: peer("d"), Index: at}}, c.Status().Config.Removed)

	c.hold("b")
	assert.Equal(t, c.Status().Config.Removed, c.Status().Removals)
	c.change(addLearner("d"))
	c.assertRefused(raft.RefusedWasRemoved, new(*raft.WasRemovedError))
	c.change(remove("x"))
	c.assertRefused(raft.RefusedUnknownMember, new(*raft.UnknownMemberError))
}

// During a leadership transfer, no member joins or leaves, because the target must get the whole log.
func TestChange_NotDuringATransfer(t *testing.T) {
	c := withLearner(t)
	c.propose("x") // so that the target has to catch up
	c.echo("b", 0)
	c.step(raft.TransferRequested{RequestID: 3, To: "b"})
	c.change(addLearner("e"))
	c.assertRefused(raft.RefusedTransferring, nil)
	assert.Equal(t, raft.NodeID("b"), c.out.Answers[0].Leader)
}

func TestChange_NotWhileTheDiskIsStalled(t *testing.T) {
	c := replicating(t, 5, 1)
	c.propose("x")
	c.now += raft.Time(time.Second)
	c.echo("b", 0)
	require.True(t, c.Status().DiskStalled)
	c.change(addLearner("d"))
	c.assertRefused(raft.RefusedStalled, nil)
}

func TestChange_WhoDoesNotLeadRefuses(t *testing.T) {
	c := follower(t, 5, 1)
	c.receive("b", 5, raft.Heartbeat{})
	out := c.change(addLearner("d"))
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader, Leader: "b"}}, out.Answers)

	c = withLearner(t)
	c.change(addLearner("e"))
	out = c.step(raft.Closing{})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: c.Status().Last}}, out.Answers)
	c.change(addLearner("f"))
	c.assertRefused(raft.RefusedClosing, nil)
}

// As for a proposal, the outcome of a change is known once another entry is committed at the index of the change's entry.
func TestChange_TheFateAfterItsLeadership(t *testing.T) {
	begun := func() *core {
		c := replicating(t, 5, 1)
		c.change(addLearner("d"))
		c.persist()
		return c
	}
	c := begun()
	first := c.Status().Last
	out := c.receive("b", 6, raft.Heartbeat{})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: first}}, out.Answers, "the next leader may have it")

	c = begun()
	out = c.append("b", 6, id(first.Index-1, 5), first.Index, 6)
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerNotApplied, ID: first}}, out.Answers, "another entry is committed at its index")
	c.assertGiven(asBootstrapped(), 1, 1)
}

// A member of an earlier release could read neither the configuration entry nor any entry after it.
func TestChange_AnEarlierReleaseIsInTheWay(t *testing.T) {
	speaks := func(c *core, id raft.NodeID, protocol uint16) {
		c.step(raft.PeerUp{ID: id, Incarnation: peer(id).Incarnation, Protocol: protocol})
	}
	c := replicating(t, 5, 1)
	speaks(c, "c", raft.ProtocolMembership-1)
	c.change(addLearner("d"))
	var earlier *raft.EarlierReleaseError
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
	assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"c"}, Speaks: 2, Needs: 3}, *earlier)
	speaks(c, "b", 1)
	c.change(remove("b"))
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
	assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"c"}, Speaks: 2, Needs: 3}, *earlier, "b is removed, so its version does not count")
	speaks(c, "b", raft.ProtocolMembership)

	speaks(c, "c", raft.ProtocolMembership)
	c.change(addLearner("d"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "it was upgraded")
	c.hold("b")
	speaks(c, "d", raft.ProtocolMembership-1)
	c.change(remove("d"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "it may be removed")

	c = replicating(t, 5, 1)
	speaks(c, "c", raft.ProtocolMembership-1)
	c.change(raft.Change{Replace: []raft.Replacement{{Old: raft.Peer{ID: "c"}, New: joining("d", raft.Voter)}}})
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "it may be replaced, although it stays until the new member has caught up")
}

// prefer returns a change of a member's priority.
func prefer(id raft.NodeID, p raft.Priority) raft.Change {
	return raft.Change{Update: []raft.Update{{Peer: raft.Peer{ID: id}, Priority: &p}}}
}

// The first priority raises the feature level. A member of a release without priorities could read nothing from then on.
func TestChange_TheFirstPriority(t *testing.T) {
	speaks := func(c *core, id raft.NodeID, protocol uint16) {
		c.step(raft.PeerUp{ID: id, Incarnation: peer(id).Incarnation, Protocol: protocol})
	}
	c := withLearner(t)
	speaks(c, "c", raft.ProtocolMembership)
	for _, change := range []raft.Change{prefer("b", 5), prefer("c", raft.PriorityNever)} {
		c.change(change)
		var earlier *raft.EarlierReleaseError
		c.assertRefused(raft.RefusedEarlierRelease, &earlier)
		assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"c"}, Speaks: 3, Needs: 4}, *earlier)
	}
	c.change(prefer("b", 1))
	c.hold("b")
	assert.EqualValues(t, 1, c.Status().Config.Level, "it has that priority: no effect")
	c.change(addLearner("e"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "other changes need no protocol but their own")
	c.hold("b")
	c.change(remove("e"))
	c.hold("b")

	speaks(c, "c", raft.ProtocolPriorities)
	c.change(prefer("b", 5))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind, "it was upgraded")
	m, _ := c.Status().Config.Member("b")
	assert.Equal(t, raft.Priority(5), m.Priority, "it is in force at once")
	assert.EqualValues(t, 2, c.Status().Config.Level)

	c.change(prefer("b", 6))
	var pending *raft.ChangePendingError
	c.assertRefused(raft.RefusedChanging, &pending)
	c.hold("b")
	c.change(prefer("b", 1))
	c.hold("b")
	assert.EqualValues(t, 2, c.Status().Config.Level, "the level stays")
	speaks(c, "f", raft.ProtocolMembership)
	c.change(addLearner("f"))
	var earlier *raft.EarlierReleaseError
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
	assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"f"}, Speaks: 3, Needs: 4}, *earlier)
}

// A member that returns as an earlier release can read neither the configuration in force nor a snapshot with it.
func TestChange_AMemberThatWentBackIsRemoved(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(prefer("b", 5))
	c.hold("bc")
	c.step(raft.PeerUp{ID: "c", Incarnation: peer("c").Incarnation, Protocol: raft.ProtocolMembership})
	assert.True(t, c.progress("c").EarlierRelease)
	var earlier *raft.EarlierReleaseError
	c.change(remove("b"))
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
	c.change(remove("c"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
}

// The leader serves a removed member until the member knows that its removal is committed. The member gets no entry after the
// one that removed it.
func TestLeader_RemovedLearnerIsServedUntilItKnows(t *testing.T) {
	c := withLearner(t)
	c.acknowledge("d")
	c.echo("d", c.Status().Last.Index)
	c.change(remove("d"))
	at := c.Status().ConfigIndex
	c.propose("x", "y")
	sent := appends(append(c.persist().Send, c.out.Write.Then...), "d")
	c.acknowledge("b")
	for range 3 {
		c.after(heartbeatPace)
		c.echo("b", at)
	}
	for _, span := range append(sent, appends(c.out.Send, "d")...) {
		assert.LessOrEqual(t, span.Last, at)
	}
	assert.True(t, c.progress("d").Departing)
	c.receive("d", 5, raft.AppendReply{Match: at})
	assert.Contains(t, bodies(c.out.Send, "d"), raft.Heartbeat{Commit: at})
	c.after(heartbeatPace)
	assert.True(t, c.progress("d").Departing, "it may not know of the commit")
	c.echo("d", at)
	c.after(heartbeatPace)
	assert.Zero(t, c.progress("d"))
	assert.NotContains(t, c.Status().Config.Members, joining("d", raft.Learner))
}

// A removed member answers heartbeats even before it holds the entry of its removal. Those heartbeats do not tell it of the
// removal.
func TestLeader_RemovedLearnerThatOnlyAnswersIsServed(t *testing.T) {
	c := withLearner(t)
	c.acknowledge("d")
	c.change(remove("d"))
	at := c.Status().ConfigIndex
	c.after(heartbeatPace)
	c.echo("d", at-1)
	c.hold("bc")
	for range 3 {
		c.after(heartbeatPace)
		c.echo("b", at)
		c.echo("d", at-1)
	}
	assert.Equal(t, at, c.Status().ConfigCommitted)
	assert.True(t, c.progress("d").Departing)
}

func TestLeader_RemovedLearnerIsServedForTenTimeouts(t *testing.T) {
	c := withLearner(t)
	c.change(remove("d"))
	c.hold("bc")
	begin := c.now
	for c.now-begin < 20*electionTimeout && c.progress("d").Departing {
		c.after(heartbeatPace)
		c.echo("b", 0)
		c.echo("c", 0)
	}
	assert.InDelta(t, float64(10*electionTimeout), float64(c.now-begin), float64(3*heartbeatPace))
}

// The leader refuses the reads of a removed member, because that member may never apply the entries that they need.
func TestLeader_RemovedMemberIsRefusedItsReads(t *testing.T) {
	c := withLearner(t)
	c.acknowledge("d")
	read := raft.ReadRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}}
	c.receive("d", 5, read)
	out := c.change(remove("d"))
	refusal := raft.ReadReply{ID: read.ID, Refusal: raft.RefusedNotLeader}
	assert.Contains(t, bodies(append(out.Send, out.Write.Then...), "d"), refusal)
	read.ID.Counter++
	out = c.receive("d", 5, read)
	assert.Equal(t, []raft.Body{raft.ReadReply{ID: read.ID, Refusal: raft.RefusedNotLeader}}, bodies(out.Send, "d"))
}

// Each error names the remedy, and has its own text.
func TestChange_Errors(t *testing.T) {
	for text, err := range map[string]error{
		"configuration is 8 now, not 5":                &raft.ConfigChangedError{IfIndex: 5, Index: 8},
		"next leader finishes it, too":                 &raft.ChangePendingError{Index: 8, Joint: true},
		"waits for d, since 2s":                        &raft.ChangePendingError{Index: 8, Waits: []raft.NodeID{"d"}, Since: 2 * time.Second},
		"it was removed by configuration 9":            &raft.UnknownMemberError{ID: "d", Known: []raft.NodeID{"a"}, Removed: 9},
		"of the voters a c d, c d are not heard":       &raft.QuorumLossError{Silent: []raft.NodeID{"c", "d"}, Voters: []raft.NodeID{"a", "c", "d"}},
		"n2 speaks protocol 2, and this needs 3":       &raft.EarlierReleaseError{IDs: []raft.NodeID{"n2"}, Speaks: 2, Needs: 3},
		"was removed by configuration 7: empty":        &raft.WasRemovedError{ID: "d", Index: 7},
		"no progress for 1m0s, at entry 7 of 900":      &raft.CatchUpError{ID: "d", Match: 7, Last: 900, Patience: time.Minute},
		"removed from the cluster, by configuration 4": &raft.RemovedError{Index: 4},
	} {
		assert.ErrorContains(t, err, text)
		assert.ErrorContains(t, err, "raft: ")
	}
	assert.True(t, errors.Is(&raft.CatchUpError{}, raft.ErrChangeGivenUp))
	assert.True(t, errors.Is(&raft.RemovedError{}, raft.ErrRemoved))
}
