package fuzzy

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// withSpare returns a running cluster whose members may change. It has a learner d that the leader knows.
func withSpare(t *testing.T) (c *cluster, lead, follower *node) {
	c, lead, follower = running(t)
	c.profile.Members.Admins = 1
	lead.seen.now = lead.now().Mono
	lead.seen.inOffice = officeWitness{}
	return c, lead, follower
}

// memberBreach is a step in which a leader treats its members in a forbidden way.
type memberBreach struct {
	rule   string
	breach func(k *checker, lead, follower *node, before *raft.CoreStatus, out *raft.Output)
}

var memberBreaches = []memberBreach{
	{"N65", func(k *checker, lead, follower *node, _ *raft.CoreStatus, _ *raft.Output) { // it was never a member
		stranger := *message(lead, follower, lead.hard.Term, raft.Heartbeat{})
		stranger.To.Incarnation++
		k.checkReceiver(lead, &stranger)
	}},
	{"N65", func(k *checker, lead, follower *node, before *raft.CoreStatus, out *raft.Output) { // entries after its removal
		l := expels(lead, follower)
		k.checkMembers(lead, before, out)
		k.checkReceiver(lead, message(lead, follower, lead.hard.Term, raft.AppendRequest{Last: raft.EntryID{Index: l.index + 1}}))
	}},
	{"N65", func(k *checker, lead, follower *node, before *raft.CoreStatus, out *raft.Output) { // for too long
		expels(lead, follower)
		k.checkMembers(lead, before, out)
		lead.seen.inOffice.gone[0].since = 1
		lead.seen.inOffice.stepped[1] = 1 + (departTimeouts+1)*lead.timeout()
		k.checkReceiver(lead, message(lead, follower, lead.hard.Term, raft.Heartbeat{}))
	}},
	{"N66", func(k *checker, lead, _ *node, before *raft.CoreStatus, out *raft.Output) { // it lingers
		lead.rule(voteless(lead, lead))
		lead.seen.inOffice.votedOut = 1
		k.checkMembers(lead, before, out)
	}},
	{"N66", func(k *checker, lead, _ *node, before *raft.CoreStatus, out *raft.Output) { // it steps down too early
		l := lead.rule(voteless(lead, lead))
		lead.status.Role, lead.status.Commit = raft.Follower, l.index-1
		k.checkMembers(lead, before, out)
	}},
	{"N67", func(k *checker, lead, follower *node, before *raft.CoreStatus, out *raft.Output) { // it lacks what was there long ago
		promoted(lead, follower)
		lead.seen.inOffice.lasts = []lastAt{{1, 1 << 20}}
		k.checkMembers(lead, before, out)
	}},
	{"N67", func(k *checker, lead, follower *node, before *raft.CoreStatus, out *raft.Output) { // it is silent
		promoted(lead, follower)
		lead.seen.of(follower.peer()).heard = 0
		k.checkMembers(lead, before, out)
	}},
	{"N68", func(k *checker, lead, _ *node, before *raft.CoreStatus, out *raft.Output) {
		joint := jointWith(lead)
		for i := range joint.Members {
			joint.Members[i].Kind = raft.Voter
		}
		lead.joins(joint)
		for i := range lead.seen.peers {
			lead.seen.peers[i].heard = 0
		}
		k.checkMembers(lead, before, out)
	}},
	{"N70", func(k *checker, lead, _ *node, before *raft.CoreStatus, out *raft.Output) {
		lead.status.Removed = 7
		k.checkMembers(lead, before, out)
	}},
	{"N70", func(k *checker, _, follower *node, before *raft.CoreStatus, out *raft.Output) { // and does not know it
		l := follower.rule(expelled(follower))
		follower.status.Commit = l.index
		k.checkMembers(follower, before, out)
	}},
	{"N70", func(k *checker, _, follower *node, before *raft.CoreStatus, out *raft.Output) { // and ends, though it was added again
		again := *follower.config()
		follower.status.Commit, follower.status.Removed = follower.rule(expelled(follower)).index, 3
		follower.rule(again)
		k.checkMembers(follower, before, out)
	}},
}

// expelled returns the configuration of a member after an entry has removed the member.
func expelled(n *node) raft.Configuration {
	c := *n.config()
	c.Members = slices.DeleteFunc(slices.Clone(c.Members), func(m raft.Member) bool { return m.Peer() == n.peer() })
	c.Removed = []raft.Removal{{Peer: n.peer(), Index: 3}}
	return c
}

// joins puts a configuration in force in the running step.
func (n *node) joins(config raft.Configuration) *loggedConfig {
	before := configured(n.log)
	l := n.rule(config)
	l.term, n.configBefore = n.status.Term, before
	return l
}

// expels removes a follower from a leader's configuration in the running step.
func expels(lead, follower *node) *loggedConfig {
	c := *lead.config()
	c.Members = slices.Delete(slices.Clone(c.Members), follower.index, follower.index+1)
	return lead.joins(c)
}

// promoted makes a follower a voter by a joint configuration. The follower had no vote in the previous configuration.
func promoted(lead, follower *node) {
	c := *lead.config()
	for i := range c.Members {
		if i != follower.index {
			c.Outgoing = append(c.Outgoing, c.Members[i].Peer())
		}
	}
	lead.joins(c)
}

func TestInvariants_OfMembersNoticeTheirBreach(t *testing.T) {
	for _, row := range memberBreaches {
		c, lead, follower := withSpare(t)
		before := lead.status
		row.breach(c.check, lead, follower, &before, &raft.Output{})
		expectBreach(t, c, row.rule)
	}
}

// A leader may serve a removed member. It may also promote a learner that has caught up.
func TestInvariants_AMemberMayDepartAndAnotherJoin(t *testing.T) {
	c, lead, follower := withSpare(t)
	before := lead.status
	l := expels(lead, follower)
	c.check.checkMembers(lead, &before, &raft.Output{})
	c.check.checkReceiver(lead, message(lead, follower, lead.hard.Term, raft.AppendRequest{Last: raft.EntryID{Index: l.index}}))
	assert.Nil(t, c.failure)

	c, lead, follower = withSpare(t)
	before = lead.status
	lead.seen.of(follower.peer()).heard = lead.seen.now
	promoted(lead, follower)
	c.check.checkMembers(lead, &before, &raft.Output{})
	assert.Nil(t, c.failure)
	for rule, since := range map[string]raft.Time{"judged by a slow acknowledgement of its round": 3, "": 9} {
		c, lead, follower = withSpare(t)
		before, peer := lead.status, lead.seen.of(follower.peer())
		peer.heard = lead.seen.now
		peer.recordRound(&raft.PeerProgress{CatchUp: raft.CatchUpRound{Round: 1}, SlowestAck: 2 * lead.timeout()})
		peer.recordRound(&raft.PeerProgress{CatchUp: raft.CatchUpRound{Round: 2}})
		lead.seen.inOffice.lasts = []lastAt{{lead.seen.now - since*lead.timeout(), peer.proved + 1}}
		promoted(lead, follower)
		c.check.checkMembers(lead, &before, &raft.Output{})
		assert.Equal(t, rule != "", c.failure == nil, rule)
	}
}

// A leader may be elected although it has no vote in a configuration that has long been committed. It transfers its
// leadership after it has committed an entry of its own term.
func TestInvariants_ALeaderWithoutAVoteFirstCommitsAnEntryOfItsOwn(t *testing.T) {
	for _, own := range []bool{false, true} {
		c, lead, _ := withSpare(t)
		l := lead.rule(voteless(lead, lead))
		lead.status.Commit = l.index
		if !own {
			lead.status.Term++
		}
		c.check.checkVotedOut(lead, l)
		assert.Equal(t, own, lead.seen.inOffice.votedOut > 0)
	}
}

// If a new leader does not know that a removal is committed, it serves the removed member. The slow answers of this member
// raise the leader's estimate for the members that join next.
func TestWitness_AnEstimateCountsMembersRemovedSinceTheElection(t *testing.T) {
	for _, known := range []bool{false, true} {
		_, lead, follower := withSpare(t)
		w, slow := &lead.seen, 5*lead.timeout()
		before, joiner := lead.status, raft.Member{ID: "x", Incarnation: 7}
		before.Role, before.Commit = raft.Candidate, expels(lead, follower).index
		if !known {
			before.Commit--
		}
		w.attempts.asked[lead.status.Term] = w.now
		w.recordEvents(lead, &before, nil)
		gone, round := w.of(follower.peer()), raft.RPCID{StartCount: 1 << 20, Counter: 1}
		if assert.Equal(t, known, gone.asked == nil); known {
			continue
		}
		gone.asked[round] = w.now - slow
		w.reply(gone, message(follower, lead, lead.status.Term, raft.HeartbeatReply{Round: round}))
		next := *lead.config()
		next.Members = append(slices.Clone(next.Members), joiner)
		lead.joins(next)
		w.recordGained(lead)
		assert.Equal(t, slow, w.of(joiner.Peer()).roundTrip)
	}
}

// The answer to a change must be true.
func TestInvariants_OfChangesNoticeTheirBreach(t *testing.T) {
	two := func(ids ...raft.NodeID) (peers []raft.Peer) {
		for _, id := range ids {
			peers = append(peers, raft.Peer{ID: id})
		}
		return peers
	}
	accepted := raft.AnswerAccepted
	for _, row := range []struct {
		about   string
		now     string // the configuration in force, and the one that is appended, if any
		next    string
		change  raft.Change
		ifIndex raft.Index
		answer  raft.Answer
		breach  bool
	}{
		{"the learner leaves", "a b c d:learner", "a b c//d", raft.Change{Remove: two("d")}, 0, raft.Answer{Kind: accepted}, false},
		{"the index is another", "a b c d:learner", "a b c//d", raft.Change{Remove: two("d")}, 1, raft.Answer{Kind: accepted}, true},
		{"there is no such member", "a b c d:learner", "a b c//d", raft.Change{Remove: two("x")}, 0, raft.Answer{Kind: accepted}, true},
		{"no voter would be left", "a", "a", raft.Change{Remove: two("a")}, 0, raft.Answer{Kind: accepted}, true},
		{"one is named twice", "a b c", "a b", raft.Change{Remove: two("b"), Demote: two("b")}, 0, raft.Answer{Kind: accepted}, true},
		{"refused for another index", "a b c", "", raft.Change{Remove: two("b")}, 1, raft.Answer{Kind: raft.AnswerRefused, Refusal: raft.RefusedConfigIndex}, false},
		{"it is that index", "a b c", "", raft.Change{Remove: two("b")}, 0, raft.Answer{Kind: raft.AnswerRefused, Refusal: raft.RefusedConfigIndex}, true},
		{"that member is there", "a b c", "", raft.Change{Remove: two("b")}, 0, raft.Answer{Kind: raft.AnswerRefused, Refusal: raft.RefusedUnknownMember}, true},
		{"a voter is left", "a b c", "", raft.Change{Remove: two("b")}, 0, raft.Answer{Kind: raft.AnswerRefused, Refusal: raft.RefusedLastVoter}, true},
		{"done", "a b c d:learner", "a b c//d", raft.Change{Remove: two("d")}, 0, raft.Answer{Kind: raft.AnswerChanged}, false},
		{"not done", "a b c d:learner", "a b c d:learner", raft.Change{Remove: two("d")}, 0, raft.Answer{Kind: raft.AnswerChanged}, true},
		{"nothing waited", "a b c d:learner", "a b c d:learner", raft.Change{Promote: two("d")}, 0, raft.Answer{Kind: raft.AnswerGivenUp}, true},
		{"given up", "a b c d:learner>voter", "a b c d:learner", raft.Change{Promote: two("d")}, 0, raft.Answer{Kind: raft.AnswerGivenUp}, false},
	} {
		c, lead, _ := withSpare(t)
		was := lead.rule(namedConfig(row.now))
		was.index--
		l := lead.joins(namedConfig(row.next))
		l.before = was
		lead.log[len(lead.log)-2].config = was
		if row.next == "" {
			lead.log = lead.log[:len(lead.log)-1]
		}
		lead.status.Commit = l.index
		ch := &changing{Change: row.change, ifIndex: row.ifIndex}
		row.answer.ID = lead.log[len(lead.log)-1].entry.ID()
		require.Nil(t, c.failure)
		if row.answer.Kind == raft.AnswerChanged {
			ch.entry = row.answer.ID
		}
		c.check.checkChangeAnswer(lead, &request{kind: changeRequest, change: ch, node: lead}, row.answer)
		if row.breach {
			expectBreach(t, c, "N69")
		}
		assert.Equal(t, row.breach, c.failure != nil, "%s: %v", row.about, c.failure)
	}
}

// The result of a change is no older than what was committed when the change was asked for, unless a disk has lost that.
func TestInvariants_N69ExcusesAnOldResultOnlyAfterALoss(t *testing.T) {
	for _, row := range []struct {
		about   string
		lie     func(c *cluster, liar *node)
		excused bool
	}{
		{"no disk lied", func(*cluster, *node) {}, false},
		{"a disk lied, and has lost nothing", liesIdly, false},
		{"a disk has lost what is committed", forgetsCommitted, true},
	} {
		c, lead, follower := withSpare(t)
		row.lie(c, follower)
		floor := c.check.committed()
		newest := &c.check.canonical[floor-1]
		newest.slot.config = &loggedConfig{Configuration: *lead.config(), index: floor}
		ch := &changing{Change: raft.Change{Promote: []raft.Peer{follower.peer()}}}
		answer := raft.Answer{Kind: raft.AnswerChanged, ID: raft.EntryID{Index: configured(lead.log).index}}
		require.Nil(t, c.failure)
		c.check.checkChangeAnswer(lead, &request{kind: changeRequest, change: ch, node: lead, floor: floor}, answer)
		if !row.excused {
			expectBreach(t, c, "N69")
		}
		assert.Equal(t, row.excused, c.failure == nil, "%s: %v", row.about, c.failure)
	}
}

// A leader that is told to end in the step in which a change would be given up leaves the change to the next leader.
func TestInvariants_N69ExcusesALeaderThatEnds(t *testing.T) {
	for _, events := range [][]raft.Event{nil, {raft.Closing{}}} {
		c, lead, follower := withSpare(t)
		waiting := voteless(lead, follower)
		waiting.Members[follower.index].Next, waiting.Patience = raft.NextVoter, 1
		lead.rule(waiting)
		before := lead.status
		c.edits = &edits{ignored: []string{"N9", "N13", "N28", "N121"}} // it was not in force before, and the step answers nobody and ends no work
		lead.seen.now = lead.now().Mono + 10*raft.Time(lead.timeout())
		c.check.checkStep(lead, &before, events, &raft.Output{})
		if events == nil {
			expectBreach(t, c, "N69")
		} else {
			assert.Nil(t, c.failure)
		}
	}
}

// A leader that was voted out first lets its host end its work, like any leader that transfers its leadership.
func TestMembers_N66AllowsTheHostToEndItsWork(t *testing.T) {
	for _, more := range []raft.Time{0, 1} {
		c, lead, _ := withSpare(t)
		c.profile.Node.WorkStopMax = sim.Time(lead.timeout())
		before := lead.status
		lead.rule(voteless(lead, lead))
		lead.seen.inOffice.votedOut = lead.seen.now - 4*lead.timeout() - 8*slowestAck(lead) - more
		c.check.checkMembers(lead, &before, &raft.Output{})
		if more > 0 {
			expectBreach(t, c, "N66")
		} else {
			assert.Nil(t, c.failure)
		}
	}
}
