package raft_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addVoter returns a change that adds a voter, with a patience of a second.
func addVoter(id raft.NodeID) raft.Change {
	return raft.Change{Add: []raft.Member{joining(id, raft.Voter)}, Patience: time.Second}
}

// joins returns a leader of abc in term 5 that waits for d to catch up; b and c hold its log.
func joins(t *testing.T, ch raft.Change) *core {
	c := replicating(t, 5, 1)
	c.echo("b", 3)
	c.echo("c", 3)
	c.change(ch)
	require.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	c.hold("bc")
	require.True(t, c.Status().Config.Changing())
	return c
}

// answering lets time pass. Meanwhile the given members answer heartbeats.
func (c *core) answering(d raft.Time, members string) {
	for end := c.now + d; c.now < end && c.Leadership().Role == raft.Leader; {
		c.after(heartbeatPace)
		c.persist()
		for _, r := range members {
			if id := raft.NodeID(string(r)); c.Leadership().Role == raft.Leader {
				c.echo(id, c.progress(id).Match)
			}
		}
	}
}

// "new servers join the cluster as non-voting members" (§6). Once they have caught up, they become voters without another
// request.
func TestCatchUp_ANewVoterJoinsAsALearner(t *testing.T) {
	c := joins(t, addVoter("d"))
	s := c.Status()
	assert.Len(t, s.Config.Voters(), 3)
	assert.Equal(t, raft.ChangeProgress{Stage: raft.ChangeCatchesUp, Since: c.now, Waiting: []raft.NodeID{"d"}}, *s.Change)
	assert.Equal(t, raft.CatchUpRound{Round: 1, Target: s.Last.Index, Since: c.now, FromAt: c.now, MovedAt: c.now}, c.progress("d").CatchUp)
	c.hold("d")
	assert.True(t, c.Status().Config.Joint())
	c.hold("bcd")
	c.hold("bc")
	assert.Equal(t, []raft.AnswerKind{raft.AnswerChanged}, c.answered())
	assert.Len(t, c.Status().Config.Voters(), 4)
}

// "If the last round lasts less than an election timeout, then the leader adds the new server to the cluster"
// (dissertation §4.2.1)
func TestCatchUp_AMemberThatLagsWaits(t *testing.T) {
	c := joinsLate(t)
	target := c.progress("d").CatchUp.Target
	for match := c.progress("d").Match + 1; match < target; match++ {
		c.answering(heartbeatPace, "bcd")
		c.receive("d", 5, raft.AppendReply{Match: match})
		assert.False(t, c.Status().Config.Joint(), "at %d of %d", match, target)
	}
	c.propose("x")
	c.hold("bc")
	c.receive("d", 5, raft.AppendReply{Match: target})
	assert.False(t, c.Status().Config.Joint(), "the round has taken too long")
	assert.Equal(t, 2, c.progress("d").CatchUp.Round)
	c.hold("d")
	assert.True(t, c.Status().Config.Joint())
}

// The leader measures a member's speed by the entries that it sent to the member. Entries that the member held before do not
// count.
func TestCatchUp_IsMeasuredFromWhereTheLogsAgree(t *testing.T) {
	c := joinsLate(t)
	begun := c.now
	assert.Equal(t, raft.Index(1), c.progress("d").CatchUp.From)
	assert.Equal(t, begun, c.progress("d").CatchUp.FromAt)
	c.answering(heartbeatPace, "bcd")
	c.receive("d", 5, raft.AppendReply{Match: 3})
	moved := c.progress("d").CatchUp
	assert.Equal(t, []any{raft.Index(1), begun, c.now}, []any{moved.From, moved.FromAt, moved.MovedAt})
	for match := raft.Index(4); match < moved.Target; match++ { // the round takes too long
		c.answering(heartbeatPace, "bcd")
		c.receive("d", 5, raft.AppendReply{Match: match})
	}
	c.propose("x")
	c.hold("bc")
	c.receive("d", 5, raft.AppendReply{Match: moved.Target})
	next := c.progress("d").CatchUp
	assert.Equal(t, 2, next.Round)
	assert.Equal(t, moved.Target, next.From, "each round is measured anew")
}

// joinsLate returns a leader of abc in term 5. Its log has several entries, and it sends one entry at a time. d is a future
// voter and holds only the first entry.
func joinsLate(t *testing.T) *core {
	cfg := coreConfig()
	cfg.InflightMax, cfg.AppendBytesMax = 1, 1
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 4}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	for i := range raft.Index(20) {
		require.NoError(t, stored.Log.Observe(entries(2+i, 1)[0]))
	}
	c := begin(t, cfg, stored)
	c.electedBy("b")
	c.hold("bc")
	c.change(addVoter("d"))
	c.hold("bc")
	c.receive("d", 5, raft.AppendConflict{Prev: c.Status().Last.Index})
	c.receive("d", 5, raft.AppendReply{Match: 1})
	require.Equal(t, "replicate", c.progress("d").State)
	return c
}

// When a member would become a voter, the leader checks in that same step whether the member has caught up.
func TestCatchUp_IsJudgedAnew(t *testing.T) {
	for name, spoil := range map[string]func(*core){
		"silent": func(c *core) { c.answering(2*electionTimeout, "bc") },
		"stale": func(c *core) {
			last := c.Status().Last.Index
			c.receive("d", 5, raft.AppendConflict{Prev: last, Hint: id(1, 0), Acknowledged: last})
		},
		"behind": func(c *core) {
			c.propose("x")
			c.hold("bc")
			c.answering(2*electionTimeout, "bcd")
		},
	} {
		c := caughtUp(t)
		spoil(c)
		assert.False(t, c.progress("d").CatchUp.Ready, name)
		c.change(promote("d"))
		c.hold("bc")
		assert.True(t, c.Status().Config.Changing(), name)
	}
}

// A voter may lag. If it is demoted, its rounds from before it got its vote say nothing.
func TestCatchUp_OfADemotedVoterBeginsAnew(t *testing.T) {
	c := caughtUp(t)
	c.change(promote("d"))
	for range 3 {
		c.hold("bcd")
	}
	require.Len(t, c.Status().Config.Voters(), 4)
	for range 3 { // d lags
		c.propose("x")
		c.hold("bc")
	}
	c.change(raft.Change{Demote: []raft.Peer{{ID: "d"}}})
	c.hold("bc")
	c.hold("bc")
	require.Zero(t, c.progress("d").Votes)
	require.Less(t, c.progress("d").Match, c.Status().Commit)
	require.Equal(t, "replicate", c.progress("d").State)
	assert.False(t, c.progress("d").CatchUp.Ready)
	c.change(promote("d"))
	c.hold("bc")
	assert.False(t, c.Status().Config.Joint(), "d lags still")
	c.hold("d")
	assert.True(t, c.Status().Config.Joint())
}

// A member must also acknowledge the entry with which a change begins in time. This holds even if the leader's process sleeps
// right after it has appended the entry.
func TestCatchUp_TheRoundOfTheChangeBeginsWithItsEntry(t *testing.T) {
	c := caughtUp(t)
	c.change(promote("d"))
	target, match := c.Status().Last.Index, c.progress("d").Match
	require.Less(t, match, target)
	assert.Equal(t, raft.CatchUpRound{
		Round: c.progress("d").CatchUp.Round, Target: target, Since: c.now, Ready: true, From: match, FromAt: c.now, MovedAt: c.now,
	}, c.progress("d").CatchUp)
	c.now += 2 * electionTimeout
	c.step(
		raft.Persisted{Seq: c.seq}, c.from("b", 5, raft.AppendReply{Match: target}), c.from("c", 5, raft.AppendReply{Match: target}),
		c.from("d", 5, raft.AppendReply{Match: match}), // d is heard
	)
	require.Equal(t, target, c.Status().Commit)
	assert.False(t, c.Status().Config.Joint(), "d lacks entry %d", target)
	c.hold("d")
	assert.True(t, c.Status().Config.Joint())
}

func (c *core) givenUp() raft.Answer {
	c.t.Helper()
	c.hold("b")
	for _, a := range c.out.Answers {
		if a.Kind == raft.AnswerGivenUp {
			return a
		}
	}
	require.Fail(c.t, "the change was not given up")
	return raft.Answer{}
}

// If a member delays a change for longer than its patience, the leader gives the change up. The member stays a learner, and
// no member is removed. The next attempt continues from there.
func TestCatchUp_IsGivenUp(t *testing.T) {
	ch := addVoter("d")
	ch.Remove = []raft.Peer{{ID: "c"}}
	c := joins(t, ch)
	began := c.now
	for c.after(heartbeatPace); c.Status().Config.Changing(); c.after(heartbeatPace) {
		require.Less(t, c.now-began, raft.Time(2*time.Second))
		c.echo("b", 0)
		c.echo("c", 0)
	}
	assert.InDelta(t, float64(time.Second), float64(c.now-began), float64(2*heartbeatPace))
	assert.Contains(t, traced(c.out), raft.TraceChangeGivenUp)
	at := c.Status().Last
	c.persist()
	assert.Empty(t, c.out.Answers, "the entry that gives it up is not committed")
	a := c.givenUp()
	assert.Equal(t, [2]any{at, raft.RefusedNotCaughtUp}, [2]any{a.ID, a.Refusal})
	var slow *raft.CatchUpError
	require.ErrorAs(t, a.Err, &slow)
	assert.Equal(t, raft.CatchUpError{ID: "d", Last: at.Index - 1, Patience: time.Second}, *slow)
	want := raft.NewConfiguration(append(membersNamed("abc"), joining("d", raft.Learner)))
	want.Level = 1
	assert.Equal(t, want, c.Status().Config)

	c.change(addVoter("d"))
	assert.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	c.hold("bcd")
	assert.True(t, c.Status().Config.Joint())
}

// Patience limits the time without progress, not the whole time: a large state takes long.
func TestCatchUp_ProgressIsNotGivenUp(t *testing.T) {
	c := joinsLate(t)
	for range 10 {
		c.receive("d", 5, raft.AppendReply{Match: c.progress("d").Match + 1})
		c.answering(raft.Time(900*time.Millisecond), "bcd")
		require.True(t, c.Status().Config.Changing())
	}
	c.answering(raft.Time(1200*time.Millisecond), "bcd")
	assert.False(t, c.Status().Config.Changing())
}

func TestCatchUp_Cancel(t *testing.T) {
	c := joins(t, addVoter("d"))
	c.step(raft.ChangeRequested{RequestID: 8, Change: addLearner("e")})
	var pending *raft.ChangePendingError
	c.assertRefused(raft.RefusedChanging, &pending)
	assert.Equal(t, []raft.NodeID{"d"}, pending.Waits)
	c.step(raft.ChangeRequested{RequestID: 9, Change: raft.Change{Cancel: true}})
	assert.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())
	at := c.Status().Last
	c.persist()
	out := c.acknowledge("b")
	require.Len(t, out.Answers, 2)
	assert.Equal(t, raft.RefusedCanceled, out.Answers[0].Refusal)
	assert.True(t, errors.Is(out.Answers[0].Err, raft.ErrChangeGivenUp))
	assert.Equal(t, raft.Answer{RequestID: 9, Kind: raft.AnswerChanged, ID: at}, out.Answers[1])
	m, _ := c.Status().Config.Member("d")
	assert.Equal(t, raft.Learner, m.Kind)

	c = joins(t, addVoter("d"))
	c.hold("d")
	require.True(t, c.Status().Config.Joint())
	c.change(raft.Change{Cancel: true})
	c.assertRefused(raft.RefusedChanging, &pending)
	assert.True(t, pending.Joint, "a joint configuration cannot be canceled")
}

// A member's disk is replaced, but the member keeps its id. The configuration contains the id twice until the new incarnation
// has caught up and votes.
func TestCatchUp_AReplacementWithTheSameID(t *testing.T) {
	by := raft.Member{ID: "c", Address: "c:1", Incarnation: 1}
	c := joins(t, raft.Change{Replace: []raft.Replacement{{Old: raft.Peer{ID: "c"}, New: by}}})
	late := raft.AppendReply{Match: c.Status().Last.Index}
	from := func(incarnation raft.Incarnation) {
		c.step(raft.Received{Message: raft.Message{
			From: raft.Peer{ID: "c", Incarnation: incarnation}, To: peer("a"), Cluster: clusterOfTheTests, Term: 5, Body: late,
		}})
	}
	from('c')
	assert.True(t, c.Status().Config.Changing(), "acknowledgements of the former incarnation do not count for the new one")
	from(1)
	require.True(t, c.Status().Config.Joint())
	assert.Equal(t, []raft.Peer{peer("a"), peer("b"), peer("c")}, c.Status().Config.Outgoing)
	c.hold("b")
	c.hold("b")
	s := c.Status()
	assert.Equal(t, []raft.AnswerKind{raft.AnswerChanged}, c.answered())
	assert.Equal(t, []raft.Removal{{Peer: peer("c"), Index: s.ConfigIndex}}, s.Removals)
	m, _ := s.Config.Member("c")
	assert.Equal(t, raft.Incarnation(1), m.Incarnation)
}

// The next leader continues the change, with its full patience. No caller waits for an answer from that leader.
func TestCatchUp_TheNextLeaderGoesOn(t *testing.T) {
	changing := raft.NewConfiguration(append(membersNamed("abc"), joining("d", raft.Learner)))
	changing.Members[3].Next, changing.Level, changing.Patience = raft.NextVoter, 1, time.Second
	leading := func() *core {
		c := follower(t, 5, 1)
		c.appendConfigs("b", 5, id(2, 1), 1, changing)
		c.persist()
		c.electedBy("b")
		require.Equal(t, raft.Leader, c.Leadership().Role)
		return c
	}
	c := leading()
	c.persist()
	c.acknowledge("d")
	assert.True(t, c.Status().Config.Changing(), "nothing of its term is committed")
	c.echo("b", 0)
	c.acknowledge("b")
	assert.True(t, c.Status().Config.Joint())
	c.hold("bd")
	c.hold("bd")
	assert.Len(t, c.Status().Config.Voters(), 4)
	assert.Nil(t, c.Status().Change)

	c = leading()
	began := c.now
	c.hold("b")
	for c.Status().Config.Changing() {
		require.Less(t, c.now-began, raft.Time(2*time.Second))
		c.answering(heartbeatPace, "bc")
	}
	assert.InDelta(t, float64(time.Second), float64(c.now-began), float64(2*heartbeatPace))
}

// A member that belongs to no cluster yet answers no heartbeat, so the leader repeats the first append to it.
func TestCatchUp_TheFirstAppendIsRepeated(t *testing.T) {
	c := joins(t, addVoter("d"))
	last := c.Status().Last
	var sent []raft.Time
	for begin := c.now; c.now-begin < 5*electionTimeout; {
		out := c.after(heartbeatPace)
		for _, b := range bodies(out.Send, "d") {
			if r, ok := b.(raft.AppendRequest); ok {
				assert.Equal(t, [2]raft.EntryID{last, last}, [2]raft.EntryID{r.Prev, r.Last}, "without entries")
				sent = append(sent, c.now-begin)
			}
		}
		c.echo("b", 0)
		c.echo("c", 0)
	}
	assert.Len(t, sent, 5, "once per election timeout: %v", sent)
	c.receive("d", 5, raft.AppendConflict{Prev: last.Index})
	assert.Equal(t, []raft.Span{{After: 0, Last: last.Index}}, appends(c.out.Send, "d"))
}

// brought adds d, which needs a snapshot. The leader then waits for d.
func (c *core) brought() {
	c.change(raft.Change{Add: []raft.Member{joining("d", raft.Voter)}})
	c.hold("c")
	require.True(c.t, c.Status().Config.Changing())
	for _, prev := range []raft.Index{c.Status().Last.Index, c.Status().Base.Index} {
		c.receive("d", 3, raft.AppendConflict{Prev: prev})
	}
	require.Equal(c.t, "snapshot", c.progress("d").State)
}

// If a stream fails repeatedly at the same place, that is no progress, because the member may have no room.
func TestCatchUp_AStreamThatFailsIsNoProgress(t *testing.T) {
	c := compactedLeader(t, nil)
	c.brought()
	began, failed, bytes := c.now, 0, int64(50)
	for c.Status().Config.Changing() {
		require.Less(t, c.now-began, raft.Time(3*time.Minute))
		c.answering(heartbeatPace, "cd")
		if c.progress("d").Offered == id(0, 0) {
			continue
		}
		if failed++; failed == 3 {
			bytes, began = 60, c.now
		}
		c.step(raft.SnapshotSending{To: peer("d"), File: fileOf(1), Bytes: bytes})
		c.step(raft.SnapshotSent{To: peer("d"), File: fileOf(1), Err: errors.New("no room")})
	}
	assert.Greater(t, failed, 5)
	assert.InDelta(t, float64(time.Minute), float64(c.now-began), float64(2*heartbeatPace), "since its last progress")
}

// A DurableFSM is frozen for one member at a time. While a member waits for its turn, the leader does not give it up, unless
// the member is silent.
func TestCatchUp_WaitsForItsTurn(t *testing.T) {
	for members, changing := range map[string]bool{"bcd": true, "bc": false} {
		c, out := durableLeader(t, nil)
		c.step(frozen(out.Keep.Take, 5))
		c.brought()
		for i := range int64(3000) {
			c.answering(heartbeatPace, members)
			c.step(raft.SnapshotSending{To: peer("b"), File: fileOf(5), Bytes: i})
		}
		assert.Equal(t, changing, c.Status().Config.Changing(), members)
	}
}

// A member cannot make progress while the leader takes the snapshot for it. The wait for snapshots has a limit.
func TestCatchUp_WaitsForItsSnapshotToBeTaken(t *testing.T) {
	for members, least := range map[string]time.Duration{"bcd": 10 * time.Minute, "bc": time.Minute} {
		c, out := durableLeader(t, nil)
		require.True(t, out.Keep.Take.Hold)
		c.brought()
		began := c.now
		for c.Status().Config.Changing() {
			require.Less(t, c.now-began, raft.Time(20*time.Minute))
			c.answering(heartbeatPace, members)
		}
		assert.InDelta(t, float64(least+time.Minute), float64(c.now-began), float64(time.Minute)+2*float64(heartbeatPace), members)
	}
}

// The time in which the leader's own process slept does not count as time without progress.
func TestCatchUp_APauseOfTheLeaderDoesNotCount(t *testing.T) {
	c := joins(t, addVoter("d"))
	c.after(raft.Time(10 * time.Second))
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.True(t, c.Status().Config.Changing())
	c.answering(raft.Time(1200*time.Millisecond), "bc")
	assert.False(t, c.Status().Config.Changing())
}

// A member that was ready to vote may fall behind. Its present round counts as too long as soon as the round exceeds the
// limit, even before the round ends.
func TestCatchUp_ARoundThatTakesTooLongIsNoticedWhileItRuns(t *testing.T) {
	c := caughtUp(t)
	c.propose("1", "2", "3", "4", "5", "6", "7", "8")
	held := c.progress("d")
	require.True(t, held.CatchUp.Ready, "its round has just begun")
	require.Equal(t, c.Status().Last.Index, held.CatchUp.Target)
	for since := c.now; c.now-since <= 2*electionTimeout; {
		c.answering(heartbeatPace, "bcd")
		held.Match++
		c.receive("d", 5, raft.AppendReply{Match: held.Match})
		require.Equal(t, "replicate", c.progress("d").State)
		require.Equal(t, c.now-since <= electionTimeout, c.progress("d").CatchUp.Ready, "after %v", c.now-since)
	}
	c.hold("bc")
	c.change(promote("d"))
	c.hold("bc")
	assert.Equal(t, []raft.NodeID{"d"}, c.Status().Change.Waiting)
}
