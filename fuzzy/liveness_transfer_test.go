package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checker notices a feasible transfer that is refused or takes too long.
func TestLiveness_ATransferMustComeAbout(t *testing.T) {
	for _, fails := range []func(c *cluster, r *request){
		func(_ *cluster, r *request) { r.state = answeredNo },
		func(c *cluster, r *request) { r.opened = c.now() - (transferUnits+1)*c.profile.unit() },
	} {
		c, lead, _ := running(t)
		c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, random: lead.random}
		require.False(t, c.live.transferEnded())
		require.Nil(t, c.failure)
		fails(c, &c.work.requests[c.live.transferOutcome])
		c.live.transferEnded()
		expectBreach(t, c, "L13")
	}
}

// A member that times out between the leader's heartbeats need not be seen following, but it must be in the leader's term.
func TestLiveness_AMemberThatTimesOutBetweenHeartbeatsNeedNotFollow(t *testing.T) {
	for _, row := range []struct {
		about    string
		faster   sim.Time // how many times shorter its election timeout is than the leader's
		leader   bool     // it knows the leader
		earlier  raft.Term
		followed bool
	}{
		{"it follows", 1, true, 0, true},
		{"it follows nobody", 1, false, 0, false},
		{"it follows nobody, although heartbeats come often enough", 3, false, 0, false},
		{"it times out between heartbeats", 4, false, 0, true},
		{"it times out between heartbeats, in an earlier term", 4, false, 1, false},
	} {
		c, lead, follower := running(t)
		l := &liveness{c: c, core: 0b111, leader: lead}
		require.True(t, l.followed())
		if follower.faster, follower.status.Term = row.faster, lead.status.Term-row.earlier; !row.leader {
			follower.status.Leader = ""
		}
		assert.Equal(t, row.followed, l.followed(), row.about)
	}
}

// A leader whose disk stalls appends a no-op, and repeats that append until the followers have written it.
func TestLiveness_AnIdleLeaderRepeatsTheNoOpOfAStalledDisk(t *testing.T) {
	c, lead, _ := running(t)
	c.edits = &edits{ignored: []string{"L9", "L10"}} // a request may be under way
	c.profile.World.Disk = 10 * c.profile.ElectionTimeout
	beats := 2 * beatMessages * 3 * int(c.profile.quietTime()/c.profile.ElectionTimeout+2)
	repeats := 2 * beatMessages * 3 * 2 * 10
	c.live = &liveness{c: c, core: 7, leader: lead, sent: c.net.Sent - beats - repeats}
	c.live.end()
	require.Nil(t, c.failure)
	c.live.sent--
	c.live.end()
	expectBreach(t, c, "L8")
}

// An infeasible transfer is not requested.
func TestLiveness_AnInfeasibleTransferIsNotRequested(t *testing.T) {
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, random: lead.random}
	assert.True(t, c.live.transferEnded(), "others meddle")
	c.live.exiled = true
	c.profile.World.Pause = 1
	assert.True(t, c.live.transferEnded(), "a process may be paused meanwhile")
	assert.Zero(t, c.live.transferOutcome)
}

// If a member lacks more entries than those in flight, it may need longer than the leader waits for it.
func TestLiveness_NoTransferToAMemberThatLagsFarBehind(t *testing.T) {
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, random: lead.random}
	for i := range lead.status.Peers {
		lead.status.Peers[i].Next = lead.status.Last.Index
	}
	assert.True(t, c.live.transferEnded())
	assert.Zero(t, c.live.transferOutcome)
}

// A garbled message from before the heal breaks no connection of the healed members, because L13 and L14 allow no time for a
// broken connection.
func TestLiveness_WhatWasGarbledBeforeTheHealBreaksNoConnection(t *testing.T) {
	c, lead, follower := running(t)
	c.profile.Node.Connections = true
	garbled := sim.Delivery[envelope]{
		From: follower.index, To: lead.index, Corrupt: true,
		Message: envelope{message: *message(follower, lead, 1, raft.ReadRequest{}), start: follower.disk.start()},
	}
	under := c.queue.Len()
	c.net.Core = 1<<lead.index | 1<<follower.index
	c.deliver(garbled)
	assert.Equal(t, under, c.queue.Len())
	c.net.Core = 1 << lead.index
	c.deliver(garbled)
	assert.Greater(t, c.queue.Len(), under)
}

// The checker notices a request that waits too long, even if the request is answered in the end.
func TestLiveness_AnswersComeInTime(t *testing.T) {
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, asked: len(c.work.requests), stage: serving}
	c.work.ask(request{kind: readRequest, node: lead})
	c.live.checkPrompt()
	require.Nil(t, c.failure)
	c.work.requests[len(c.work.requests)-1].opened -= (requestIDUnits + c.live.backlog() + 1) * c.profile.unit()
	c.live.checkPrompt()
	expectBreach(t, c, "L14")
}

// The test requests no transfer to a member that cannot win an election. It also does not let the leader choose among such
// members.
func TestLiveness_OnlyAMemberThatCanWinGetsTheLead(t *testing.T) {
	c, lead := runningFive(t)
	var healed []*node
	for i := 1; i < 4; i++ {
		healed = append(healed, c.nodes[(lead.index+i)%5])
	}
	x, y, z := healed[0], healed[1], healed[2]
	l := &liveness{c: c, core: 1<<lead.index | 1<<x.index | 1<<y.index | 1<<z.index, leader: lead, exiled: true, random: lead.random}
	asked := func() map[raft.NodeID]bool {
		drawn := map[raft.NodeID]bool{}
		for range 50 {
			if to, some := l.successor(); some {
				drawn[to] = true
			}
		}
		return drawn
	}
	assert.Equal(t, map[raft.NodeID]bool{"": true, x.id: true, y.id: true, z.id: true}, asked())
	c.net.Links.CutBoth(sim.Partitions, x.index, y.index)
	assert.Equal(t, map[raft.NodeID]bool{"": true, x.id: true, y.id: true, z.id: true}, asked(), "three of five are left to each")
	c.net.Links.CutBoth(sim.Partitions, x.index, z.index)
	assert.Equal(t, map[raft.NodeID]bool{y.id: true, z.id: true}, asked(), "x meets the leader alone")
	c.net.Links.CutBoth(sim.Partitions, y.index, z.index)
	assert.Empty(t, asked())
}

// If the sender drops appends, a member that lags may not catch up in time.
func TestLiveness_ALaggardDoesNotGetTheLeadWhereAppendsAreDropped(t *testing.T) {
	c, lead, _ := running(t)
	lead.status.Peers = append([]raft.PeerProgress(nil), lead.status.Peers...)
	l := &liveness{c: c, core: 7, leader: lead, exiled: true, random: lead.random}
	for i := range lead.status.Peers {
		lead.status.Peers[i].Match = lead.status.Last.Index - 1
	}
	_, some := l.successor()
	assert.True(t, some)
	c.profile.Node.DropSpan = 1
	_, some = l.successor()
	assert.False(t, some, "everybody lags")
	for i := range lead.status.Peers {
		lead.status.Peers[i].Match = lead.status.Last.Index
	}
	_, some = l.successor()
	assert.True(t, some)
}

// Votes are lost on a connection that does not exist yet. So a candidate that needs these votes may not be elected.
func TestLiveness_AMemberThatHasNotMetAQuorumDoesNotGetTheLead(t *testing.T) {
	c, lead := runningFive(t)
	x, y := c.nodes[(lead.index+1)%5], c.nodes[(lead.index+2)%5]
	l := &liveness{c: c, core: 1<<lead.index | 1<<x.index | 1<<y.index, leader: lead, exiled: true, random: lead.random}
	require.True(t, l.electable(x))
	c.profile.Node.Handshakes = true
	for _, n := range []*node{lead, x, y} {
		n.hands.admits = make([][]int32, 5)
		n.disk.begin(c, uint64(n.index))
	}
	assert.False(t, l.electable(x), "it has met nobody")
	meet := func(n, other *node) {
		n.hands.admits[other.index] = []int32{other.disk.start()}
		other.hands.admits[n.index] = []int32{n.disk.start()}
	}
	meet(x, lead)
	assert.False(t, l.electable(x), "it has met the leader alone")
	meet(x, y)
	assert.True(t, l.electable(x))
	y.hands.admits[x.index] = nil
	assert.False(t, l.electable(x), "y does not hear it")
}

// runningFive returns a cluster of five without faults, and its leader.
func runningFive(t *testing.T) (c *cluster, lead *node) {
	p := calmOfThree(t)
	p.Voters = 5
	c = runningAs(t, p)
	return c, c.nodes[c.leader()]
}
