package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// stepBreach is a step that a correct core never makes. It has the step's input, the step itself, and its output.
type stepBreach struct {
	rule   string
	breach func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event
}

func given(m *raft.Message) []raft.Event { return []raft.Event{raft.Received{Message: *m}} }

// lateAndPrompt makes a member late: it should have campaigned a moment ago. It returns two answers to the member's own
// attempts. The first answer lengthens the member's wait, and the second ends it. A step with both of them excuses the
// member.
func lateAndPrompt(n, other *node, before *raft.CoreStatus) []raft.Event {
	w, round := &n.seen, raft.RPCID{StartCount: 1, Counter: 7}
	w.cause = w.now - 2*n.timeout() - 1
	w.attempts.rounds[round], w.attempts.asked[before.Term] = w.now-n.timeout()-1, w.now-n.timeout()
	late := given(message(other, n, before.Term, raft.PreVoteReply{ID: round}))
	return append(late, given(message(other, n, before.Term, raft.VoteReply{}))...)
}

// linkReturns gives a member two events in one step. First the link of the member returns. Then the member's own vote becomes
// durable, which ends its long wait. The vote took the given time. The member had requested a round of pre-votes before it.
func linkReturns(k *checker, n *node, before *raft.CoreStatus, out *raft.Output, took raft.Time) {
	w := &n.seen
	before.Election.Wait, before.Durable = 8*n.timeout(), raft.HardState{Term: before.Term}
	n.status.Durable = raft.HardState{Term: before.Term, Vote: n.peer()}
	w.attempts.rounds[raft.RPCID{StartCount: 1, Counter: 7}] = w.now - 2*n.timeout()
	w.attempts.stood[before.Term] = w.now - took
	k.checkConversation(n, before, []raft.Event{raft.PeerUp{}, raft.Persisted{}}, out)
	*before = n.status
}

// arrives makes a member acknowledge a snapshot that a sender has brought. offers is the member that has offered the
// snapshot; nil if none has.
func arrives(n, sender, to, offers *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
	var s raft.Snapshot
	s.ID, s.File = n.log[3].entry.ID(), raft.SnapshotID{1}
	if offers != nil {
		offer := message(offers, n, before.Term, raft.InstallSnapshot{Snapshot: s})
		n.seen.message(n, before, offer)
	}
	out.Write.Then = []raft.Message{*message(n, to, before.Term, raft.AppendReply{Match: s.ID.Index})}
	return []raft.Event{raft.SnapshotArrived{From: sender.peer(), Snapshot: s}}
}

// ofFollower lists breaches by a follower; other leads.
var ofFollower = []stepBreach{
	{"N12", func(_ *checker, n, other *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Term++
		n.hard = raft.HardState{Term: n.status.Term}
		return given(message(other, n, n.status.Term, raft.PreVoteRequest{}))
	}},
	{"N12", func(_ *checker, n, other *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Term++
		n.hard = raft.HardState{Term: n.status.Term}
		n.seen.heard = n.seen.now
		return given(message(other, n, n.status.Term, raft.VoteRequest{}))
	}},
	{"N12", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Term++
		n.hard = raft.HardState{Term: n.status.Term, Vote: n.peer()}
		return given(message(other, n, before.Term-1, raft.TimeoutNow{}))
	}},
	{"N14", func(_ *checker, n, other *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.beat = n.seen.now - n.timeout()
		out.Trace = []raft.TraceEvent{{Kind: raft.TracePreVoteDenied, Peer: other.id, Reason: raft.DeniedHearsLeader}}
		return nil
	}},
	{"N14", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // of an earlier term
		n.seen.beat, n.seen.reign = n.seen.now, before.Term-1
		out.Trace = []raft.TraceEvent{{Kind: raft.TracePreVoteDenied, Peer: other.id, Reason: raft.DeniedHearsLeader}}
		return nil
	}},
	{"N15", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.seen.cause = n.seen.now - 2*n.timeout() - 1
		return nil
	}},
	{"N15", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event { // it has slept before
		n.seen.slept, n.seen.wake = true, n.seen.now-n.timeout()
		n.seen.cause = n.seen.now - 3*n.timeout() - 1
		return nil
	}},
	{"N15", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		return lateAndPrompt(n, other, before)[:1]
	}},
	{"N15", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		return lateAndPrompt(n, other, before)[1:]
	}},
	{"N15", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		events := lateAndPrompt(n, other, before)
		n.seen.attempts.asked[before.Term] -= n.timeout()
		return events // both are late
	}},
	{"N15", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		events := lateAndPrompt(n, other, before)
		n.seen.attempts.asked[before.Term-1] = n.seen.attempts.asked[before.Term]
		return append(events[:1], given(message(other, n, before.Term-1, raft.VoteReply{}))...) // from an earlier candidacy
	}},
	{"N15", func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.status.Durable = n.hard
		n.status.Successors = nil
		k.draws, k.shortest, k.longest = drawsMin, n.timeout(), n.timeout()
		out.WakeAt = n.seen.now + n.timeout()
		return given(message(other, n, before.Term, raft.Heartbeat{}))
	}},
	{"N31", func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		linkReturns(k, n, before, out, n.timeout())
		n.seen.now++
		n.status.Election.Wait = 2 * n.timeout() // because of an answer to an earlier request
		return given(message(other, n, before.Term, raft.PreVoteReply{ID: raft.RPCID{StartCount: 1, Counter: 7}}))
	}},
	{"N31", func(k *checker, n, _ *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		linkReturns(k, n, before, out, n.timeout())
		n.status.Election.Wait = 2 * n.timeout() // for no reason
		return nil
	}},
	{"N16", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		out.Write.Then = []raft.Message{*message(n, other, before.Term, raft.VoteReply{Granted: true})}
		return given(message(other, n, before.Term, raft.VoteRequest{Last: raft.EntryID{Term: before.Last.Term, Index: 2}}))
	}},
	{"N16", func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // another leads the term
		third := k.c.nodes[3-n.index-other.index]
		out.Write.Then = []raft.Message{*message(n, third, before.Term, raft.VoteReply{Granted: true})}
		n.seen.leads = other.peer()
		return given(message(third, n, before.Term, raft.VoteRequest{Last: before.Last}))
	}},
	{"N63", func(_ *checker, n, other *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.leads = other.peer()
		out.Trace = []raft.TraceEvent{{Kind: raft.TracePreVoteDenied, Reason: raft.DeniedBound}}
		return nil
	}},
	{"N17", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		out.Send = []raft.Message{*message(n, other, before.Term, raft.AppendReply{Match: 5})}
		return given(message(other, n, before.Term, raft.AppendRequest{Prev: n.log[3].entry.ID(), Last: n.log[3].entry.ID()}))
	}},
	{"N17", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // it has offered none
		return arrives(n, other, other, nil, before, out)
	}},
	{"N17", func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // it does not lead
		third := k.c.nodes[3-n.index-other.index]
		return arrives(n, third, third, third, before, out)
	}},
	{"N17", func(k *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // another has offered it
		third := k.c.nodes[3-n.index-other.index]
		return arrives(n, other, other, third, before, out)
	}},
	{"N19", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		m := message(other, n, before.Term, raft.Heartbeat{})
		m.Cluster = foreign(before.Cluster)
		return given(m)
	}},
	{"N19", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		m := message(other, n, before.Term, raft.BootstrapProbe{})
		m.To = raft.Peer{ID: other.id}
		return given(m)
	}},
	{"N19", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		a := raft.AppendRequest{Prev: n.log[3].entry.ID(), Last: n.log[4].entry.ID(), Entries: []raft.Entry{*n.log[4].entry}}
		a.Entries[0].Term++
		return given(message(other, n, before.Term, a))
	}},
	{"N21", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.earlier = raft.RPCID{StartCount: 7}
		out.Send = []raft.Message{*message(n, other, before.Term, raft.ReadRequest{ID: raft.RPCID{StartCount: 6, Counter: 9}})}
		return nil
	}},
	{"G16", func(_ *checker, n, _ *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		before.Term, before.Uninitialized, n.status.Term = 0, true, 0
		n.given = raft.NewConfiguration(n.given.Members[1:])
		out.Write.Log = &raft.LogWrite{Entries: []raft.Entry{*n.log[0].entry}}
		return nil
	}},
	{"N102", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Heard.From = "b" // nobody told it
		return nil
	}},
	{"N102", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		wasTold(n, before)
		out.Send = []raft.Message{*message(n, other, 0, raft.BootstrapProbe{ID: raft.RPCID{StartCount: 1 << 40}})}
		return nil
	}},
	{"N102", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		wasTold(n, before)
		out.Send = []raft.Message{*message(n, other, 0, raft.BootstrapProbeReply{Result: raft.ProbeInitialized})}
		return nil
	}},
	{"N102", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		says := wasTold(n, before)
		out.Send = []raft.Message{*message(n, other, 0, raft.BootstrapProbeReply{Result: raft.ProbeNoInitial, HeardOf: says.Cluster, HeardFrom: says.From})}
		return nil
	}},
	{"N102", func(_ *checker, n, other *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event { // not told
		out.Send = []raft.Message{*message(n, other, 0, raft.BootstrapProbeReply{Result: raft.ProbeInitialized, HeardFrom: "b"})}
		return nil
	}},
	{"N102", func(_ *checker, n, _ *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		wasTold(n, before)
		n.status.Uninitialized, n.status.Heard, n.status.Bootstrapper = false, raft.Heard{}, n.peer()
		out.Write.Log = &raft.LogWrite{Entries: []raft.Entry{*n.log[0].entry}}
		return nil
	}},
	{"G16", func(_ *checker, n, _ *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		before.Term, n.status.Bootstrapper = 0, n.peer()
		out.Write.Log = &raft.LogWrite{Entries: []raft.Entry{*n.log[0].entry}}
		n.status.Term, n.seen.uninitialized = 0, nil
		return nil
	}},
}

// wasTold makes a member one that belongs to no cluster, and was told of one before the step.
func wasTold(n *node, before *raft.CoreStatus) raft.Heard {
	told := raft.Heard{Cluster: raft.ClusterID{7}, From: "b"}
	n.seen.hearing, n.status.Heard, n.status.Uninitialized, before.Uninitialized = told, told, true, true
	return told
}

// ofLeader are breaches by a leader.
var ofLeader = []stepBreach{
	{"N13", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		for i := range n.seen.peers {
			n.seen.peers[i].heard = n.seen.now - waitsMax*n.timeout()
		}
		return nil
	}},
	{"G8", func(_ *checker, n, _ *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		before.Role, n.seen.votes = raft.Candidate, nil
		return nil
	}},
	{"N18", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Peers[0].Match++
		n.status.Peers[0].Next++
		return nil
	}},
	{"N18", func(_ *checker, n, _ *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event {
		before.Peers = append([]raft.PeerProgress(nil), before.Peers...)
		before.Peers[0].Match++
		return nil
	}},
	{"N18", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Peers[0].Next = n.status.Peers[0].Match
		return nil
	}},
	{"N18", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event { // an earlier incarnation acknowledged it
		n.status.Peers[0].Incarnation++
		return nil
	}},
	{"N75", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event { // a quorum holds more
		n.status.Commit--
		return nil
	}},
	{"N75", func(_ *checker, n, _ *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event { // nobody has acknowledged it
		before.Commit--
		for i := range n.seen.peers {
			n.seen.peers[i].proved = 0
		}
		return nil
	}},
	{"N75", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event { // it is not durable here
		before.Commit--
		n.status.Persisted, n.seen.of(other.peer()).proved = 0, 0
		return nil
	}},
	{"G13", func(_ *checker, n, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event {
		out.Answers = []raft.Answer{{RequestID: 1 << 20, Kind: raft.AnswerReadSafe}}
		return []raft.Event{raft.ReadRequested{RequestID: 1 << 20}}
	}},
	{"G13", func(_ *checker, _, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event { // asked of a follower
		out.Answers = []raft.Answer{{RequestID: 1 << 20, Kind: raft.AnswerReadSafe}}
		return nil
	}},
	{"G13", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		id := raft.RPCID{StartCount: 1, Counter: 1 << 40}
		out.Send = []raft.Message{*message(n, other, before.Term, raft.ReadReply{ID: id, OK: true})}
		return given(message(other, n, before.Term, raft.ReadRequest{ID: id}))
	}},
	{"G15", func(_ *checker, n, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.transfer, n.seen.since = 1<<20, n.seen.now
		out.Answers = []raft.Answer{{RequestID: 1<<20 + 1, Kind: raft.AnswerAccepted}}
		return nil
	}},
	{"G15", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.seen.transfer, n.seen.since = 1<<20, n.seen.now-600*n.timeout()
		return nil
	}},
	{"G15", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		for i := range n.status.Peers {
			n.status.Peers[i].Match, n.status.Peers[i].Next = 3, 4
		}
		before.Peers = n.status.Peers
		out.Send = []raft.Message{*message(n, other, before.Term, raft.TimeoutNow{})}
		return nil
	}},
	{"G15", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		members := append([]raft.Member(nil), n.status.Config.Members...)
		members[other.index].Kind = raft.Learner
		config := n.status.Config
		config.Members = members
		n.rule(config)
		out.Write.Then = []raft.Message{*message(n, other, before.Term, raft.TimeoutNow{})}
		return nil
	}},
}

func TestInvariants_OfAStepNoticeTheirBreach(t *testing.T) {
	for role, rows := range [][]stepBreach{ofFollower, ofLeader} {
		for _, row := range rows {
			c, n, other := running(t)
			if role == 0 {
				n, other = other, n
			}
			before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
			before.Peers = append([]raft.PeerProgress(nil), before.Peers...)
			n.seen.now = n.now().Mono
			c.check.checkConversation(n, &before, nil, &out)
			require.Nil(t, c.failure, "a step in which nothing happens: %s", row.rule)
			events := row.breach(c.check, n, other, &before, &out)
			c.check.checkConversation(n, &before, events, &out)
			expectBreach(t, c, row.rule)
		}
	}
}

// A correct conversation is no breach. Here, a later heartbeat confirms the read.
func TestInvariants_AConfirmedReadIsSound(t *testing.T) {
	c, n, other := running(t)
	before, out := n.status, raft.Output{}
	n.seen.now = n.now().Mono
	requestID, round := raft.RequestID(1<<20), raft.RPCID{StartCount: 1, Counter: 1 << 40}
	out.Send = []raft.Message{*message(n, other, before.Term, raft.Heartbeat{Round: round})}
	c.check.checkConversation(n, &before, []raft.Event{raft.ReadRequested{RequestID: requestID}}, &out)
	out = raft.Output{Answers: []raft.Answer{{RequestID: requestID, Kind: raft.AnswerReadSafe}}}
	c.check.checkConversation(n, &before, given(message(other, n, before.Term, raft.HeartbeatReply{Round: round})), &out)
	assert.Nil(t, c.failure)
}

// The present leader may offer a file that it got from the previous leader. The previous leader's stream of the file may end
// only now.
func TestInvariants_ASnapshotMayComeFromAnEarlierLeader(t *testing.T) {
	c, other, n := running(t)
	n.seen.now = n.now().Mono
	third := c.nodes[3-n.index-other.index]
	before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
	events := arrives(n, third, other, other, &before, &out)
	c.check.checkConversation(n, &before, events, &out)
	assert.Nil(t, c.failure)
}

// An uninitialized member needs no list to take its first term and entry 1 from a leader, in one step.
func TestInvariants_AMemberThatIsAddedTakesPartInNoBootstrap(t *testing.T) {
	c, _, n := running(t)
	before, out := raft.CoreStatus{Uninitialized: true}, raft.Output{}
	n.given = raft.Configuration{}
	out.Write.Log = &raft.LogWrite{Entries: []raft.Entry{*n.log[0].entry, *n.log[1].entry}}
	c.check.checkBootstraps(n, &before, &out)
	require.Nil(t, c.failure)
	n.status.Term = 0
	c.check.checkBootstraps(n, &before, &out)
	expectBreach(t, c, "G16")
}

// A wait may grow and end within one step. Then it has the same length after the step as before, but it is newly drawn.
func TestInvariants_AnAttemptDrawnAnewIsSound(t *testing.T) {
	c, other, n := running(t)
	n.seen.now = n.now().Mono
	before, out := n.status, raft.Output{WakeAt: n.seen.now + 3*n.timeout()}
	c.check.checkConversation(n, &before, lateAndPrompt(n, other, &before), &out)
	assert.Nil(t, c.failure)
	n.seen.now += 2 * n.timeout()
	c.check.checkConversation(n, &before, nil, &out)
	assert.Nil(t, c.failure)
	n.seen.now++
	c.check.checkConversation(n, &before, nil, &out)
	expectBreach(t, c, "N15")
}

// A follower waits for its rank among the successors that its leader had named when it stepped down. A heartbeat that arrives
// later may name others, which does not end that wait.
func TestInvariants_ALateHeartbeatOfAFormerLeaderBeginsNoWait(t *testing.T) {
	c, other, n := running(t)
	w := &n.seen
	w.now = n.now().Mono
	before, out := n.status, raft.Output{WakeAt: w.now + 4*n.timeout()}
	beat := given(message(other, n, before.Term, raft.Heartbeat{}))
	n.status.Successors, n.status.Span = []raft.Peer{{ID: "x"}, {ID: "y"}, {ID: "z"}, n.peer()}, n.timeout()
	c.check.checkConversation(n, &before, beat, &out)
	n.status.Leader, n.status.LeaderIncarnation = "", 0
	out.Trace = []raft.TraceEvent{{Kind: raft.TraceSteppedDown, Peer: other.id}}
	c.check.checkConversation(n, &before, given(message(other, n, before.Term, raft.SteppedDown{})), &out)
	before, out.Trace = n.status, nil
	n.status.Successors = nil
	c.check.checkConversation(n, &before, beat, &out)
	w.now += 4 * n.timeout()
	c.check.checkConversation(n, &before, nil, &out)
	require.Nil(t, c.failure)
	w.now++
	c.check.checkConversation(n, &before, nil, &out)
	expectBreach(t, c, "N15")
}

// If a long wait ends in a step, later events of the same step count for the next wait.
func TestInvariants_AWaitGrowsByWhatFollowsItsEnd(t *testing.T) {
	for _, row := range []struct {
		rule     string
		took     raft.Time // time to write the member's own vote, beyond an election timeout
		wait     raft.Time // after the step, in election timeouts
		answered bool      // the answer comes late
	}{
		{"the own vote was slow", 1, 2, false},
		{"an answer to the votes that were then asked for is late", 0, 1, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, other, n := running(t)
			n.seen.now = n.now().Mono
			before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
			n.status.Election.Wait = row.wait * n.timeout()
			linkReturns(c.check, n, &before, &out, n.timeout()+row.took)
			n.seen.now += n.timeout() + 1
			n.status.Election.Wait = 2 * n.timeout()
			var events []raft.Event
			if row.answered {
				events = given(message(other, n, before.Term, raft.VoteReply{}))
			}
			c.check.checkConversation(n, &before, events, &out)
			assert.Nil(t, c.failure)
		})
	}
}
