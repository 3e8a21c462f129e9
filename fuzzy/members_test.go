package fuzzy

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// A wiped disk gets a new incarnation. The old and the new incarnation both belong to the disk's node, even if another node
// has the same id.
func TestMembers_ANodeIsFoundByEachIncarnationOfItsDisk(t *testing.T) {
	c, lead, follower := running(t)
	before := follower.peer()
	follower.crash()
	follower.disk.wipe()
	require.NotEqual(t, before, follower.peer())
	assert.Equal(t, follower.index, c.at(before).index)
	assert.Equal(t, follower.index, c.at(follower.peer()).index)
	assert.Equal(t, follower.index, c.at(raft.Peer{ID: follower.id}).index, "a probe names no incarnation")
	assert.Nil(t, c.at(raft.Peer{ID: "stranger", Incarnation: 77}))

	lead.id = follower.id
	assert.Equal(t, lead.index, c.at(lead.peer()).index)
	assert.Equal(t, follower.index, c.at(follower.peer()).index)
	assert.Equal(t, follower.index, c.at(before).index)
}

// Two members may have the same id while one replaces the other. A wiped disk carries a new member. So the text of a failure
// names the incarnation.
func TestMembers_TheTextOfARuleNamesTheIncarnation(t *testing.T) {
	c, lead, twin := running(t)
	assert.Equal(t, "a", lead.String(), "no other node has this id")
	c.profile.Members.Admins = 1
	lead.disk.incarnation, twin.id, twin.disk.incarnation = 0x7_1f3a, lead.id, 0x5_02bc
	c.check.broken("N1", "%s follows %s, and not %s", lead, c.title(twin.peer()), c.title(raft.Peer{ID: "x", Incarnation: 9}))
	require.NotNil(t, c.failure)
	assert.Equal(t, "a/1f3a follows a'/02bc, and not x/0009", c.failure.Text)
}

// A quorum is a majority of the voters that a configuration names, by incarnation.
func TestQuorum_IsAMajorityOfTheVoters(t *testing.T) {
	a, b, c, d := raft.Peer{ID: "a", Incarnation: 1}, raft.Peer{ID: "b", Incarnation: 2}, raft.Peer{ID: "c", Incarnation: 3}, raft.Peer{ID: "d", Incarnation: 4}
	var config raft.Configuration
	for _, p := range []raft.Peer{a, b, c, d} {
		config.Members = append(config.Members, raft.Member{ID: p.ID, Incarnation: p.Incarnation})
	}
	config.Members[3].Kind = raft.Learner
	for _, row := range []struct {
		rule  string
		holds peerSet
		spare int
		says  string
	}{
		{"nobody", nil, -2, "0 of 3 voters"},
		{"one of three", peerSet{a}, -1, "1 of 3 voters"},
		{"two of three are a quorum", peerSet{a, c}, 0, "2 of 3 voters"},
		{"one of three may be missing", peerSet{a, b, c}, 1, "3 of 3 voters"},
		{"a learner does not count", peerSet{a, d}, -1, "1 of 3 voters"},
		{"nor does another incarnation", peerSet{a, {ID: "b", Incarnation: 9}}, -1, "1 of 3 voters"},
	} {
		got := quorum(&config, row.holds.has)
		assert.Equal(t, row.spare, got.spare(), row.rule)
		assert.Equal(t, row.spare >= 0, got.reached(), row.rule)
		assert.Equal(t, row.says, got.String(), row.rule)
	}
}

// The order of a leader's peers changes when another member joins or leaves.
func TestInvariants_AProgressIsComparedWithThatOfTheSameMember(t *testing.T) {
	c, n, _ := running(t)
	n.seen.now = n.now().Mono
	n.status.Peers = slices.Clone(n.status.Peers)
	n.status.Peers[1].Match--
	before := n.status
	before.Peers = slices.Clone(n.status.Peers)
	slices.Reverse(before.Peers)
	c.check.checkOffice(n, &before)
	assert.Nil(t, c.failure)
	n.status.Peers[1].Match--
	c.check.checkOffice(n, &before)
	expectBreach(t, c, "N18")
}

// After an election, each voter counts as heard for one election timeout. If one of them proves to be stale meanwhile, the
// leader still has this time.
func TestInvariants_ANewLeaderHasTimeToHearItsVoters(t *testing.T) {
	for _, row := range []struct {
		since func(n *node) raft.Time
		fails bool
	}{
		{func(n *node) raft.Time { return n.timeout() - 1 }, false},
		{func(n *node) raft.Time { return n.timeout() }, true},
	} {
		c, n, _ := running(t)
		n.seen.now = n.now().Mono
		n.seen.led = n.seen.now - row.since(n)
		for i := range n.seen.peers {
			n.seen.peers[i] = peerWitness{peer: n.seen.peers[i].peer, lost: true, proved: n.seen.peers[i].proved}
		}
		c.check.checkOffice(n, &n.status)
		if !row.fails {
			assert.Nil(t, c.failure)
			continue
		}
		expectBreach(t, c, "N13")
	}
}

// A member that knows about a loss on other disks ends, even if it was healed.
func TestLiveness_AMemberThatKnowsOfALossMayEnd(t *testing.T) {
	c, lead, follower := running(t)
	l := &liveness{c: c, core: 1<<lead.index | 1<<follower.index, leader: lead}
	follower.disk.damaged = true
	assert.Empty(t, l.outvoted(), "nothing was lost")
	c.lost = true
	assert.NotEmpty(t, l.outvoted())
	follower.disk.damaged = false
	assert.Empty(t, l.outvoted())
}

// A leader continues a change as soon as a member has caught up. This member may have ended permanently just before.
func TestLiveness_AMemberThatHasEndedMayBeMissing(t *testing.T) {
	c, lead, follower := finding(t)
	third := c.nodes[3-lead.index-follower.index]
	l := &liveness{c: c, core: 1<<lead.index | 1<<follower.index, leader: lead}
	assert.Empty(t, l.outvoted())
	change := *configured(lead.log)
	change.index, change.before = lead.last(), configured(lead.log)
	change.Members = []raft.Member{{ID: third.id, Incarnation: third.peer().Incarnation}}
	lead.log[len(lead.log)-1].config = &change
	assert.Empty(t, l.outvoted(), "it runs, and its links may be unchanged")
	l.exiled = true
	assert.NotEmpty(t, l.outvoted())
	l.exiled = false
	third.disk.stallTill = sim.Never
	assert.NotEmpty(t, l.outvoted())
	third.disk.stallTill, third.disk.segments.fullTill = 0, sim.Never
	assert.NotEmpty(t, l.outvoted())
	third.disk.segments.fullTill = 0
	assert.Empty(t, l.outvoted())
	c.check.leaders[change.term], third.disk.stallTill = third.peer(), sim.Never
	assert.Empty(t, l.outvoted(), "it began the change itself while its disk was stalled")
	third.crash()
	assert.NotEmpty(t, l.outvoted())
}

// The checker watches an idle cluster. Messages that were sent or received before this watch do not count, even if they leave
// only during the watch.
func TestLiveness_WhatWaitsWhenTheQuietBeginsWasSentBefore(t *testing.T) {
	c, lead, follower := running(t)
	before := c.unsent()
	lead.outbox = append(lead.outbox, raft.Message{}, raft.Message{})
	follower.inbox = append(follower.inbox, raft.Received{})
	assert.Equal(t, before+3, c.unsent())
}

// Before any other member has a term, the cluster needs the bootstrapper. The other members hold entry 1, and may not
// campaign.
func TestLiveness_SomebodyWithATermIsNeeded(t *testing.T) {
	c, lead, _ := finding(t)
	l := &liveness{c: c, random: sim.NewStream(1, sim.ProcessConcern)}
	for _, n := range c.nodes {
		if n != lead {
			n.disk.hard = raft.HardState{}
		}
	}
	core, missing := l.chooseAmong(c.standing())
	assert.Empty(t, missing)
	assert.NotZero(t, core&(1<<lead.index))
	lead.disk.damaged = true
	_, missing = l.chooseAmong(c.standing())
	assert.Equal(t, noneAwake, missing)
}

// A term that is being written counts as written. After that no member bootstraps the cluster again, so a member with an
// emptied disk is lost. Before that, such a member takes part in the bootstrap with its new incarnation.
func TestLiveness_TheFirstTermEndsTheBootstrap(t *testing.T) {
	c, lead, follower := running(t)
	l := &liveness{c: c, random: sim.NewStream(1, sim.ProcessConcern)}
	for _, n := range c.nodes {
		n.disk.hard, n.status.Term = raft.HardState{}, 0
	}
	follower.disk.incarnation++
	_, missing := l.chooseBootstrap()
	assert.Empty(t, missing)
	lead.status.Term = 1
	_, missing = l.chooseBootstrap()
	assert.Contains(t, missing, string(follower.id)+" was emptied after the first election had begun")
	follower.disk.incarnation--
	_, missing = l.chooseBootstrap()
	assert.Empty(t, missing)
}
