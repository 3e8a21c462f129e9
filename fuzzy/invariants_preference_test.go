package fuzzy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// preferringLeader returns a leader whose configuration has priorities, and its follower. The follower has the higher one.
func preferringLeader(t *testing.T) (c *cluster, n, follower *node) {
	c, n, follower = running(t)
	n.seen.now = n.now().Mono + 20*raft.Time(time.Second)
	n.seen.of(follower.peer()).heard = n.seen.now
	n.status.Peers = slices.Clone(n.status.Peers)
	config := n.status.Config
	config.Members = slices.Clone(config.Members)
	for i := range config.Members {
		if config.Members[i].ID == follower.id {
			config.Members[i].Priority = 9
		}
	}
	n.status.Config = config
	n.configBefore = nil
	return c, n, follower
}

func TestInvariants_OfTakeoversNoticeTheirBreach(t *testing.T) {
	for about, breach := range map[string]func(n *node, p *raft.PeerProgress){
		"":                                  func(*node, *raft.PeerProgress) {},
		"it has just begun to lead":         func(n *node, _ *raft.PeerProgress) { n.seen.led = n.seen.now },
		"something hinders the target":      func(_ *node, p *raft.PeerProgress) { p.Hindered = raft.HinderedFSM },
		"the target backs off":              func(_ *node, p *raft.PeerProgress) { p.Backoff = 1 },
		"the target lacks entries":          func(n *node, p *raft.PeerProgress) { p.LagsSince = n.seen.now - n.timeout() },
		"the target is silent":              func(n *node, p *raft.PeerProgress) { n.seen.of(peerOf(p)).heard = 1 },
		"the target has no higher priority": func(n *node, _ *raft.PeerProgress) { n.preferences.NoPriorities = true },
	} {
		c, n, follower := preferringLeader(t)
		for i := range n.status.Peers {
			if n.status.Peers[i].ID == follower.id {
				breach(n, &n.status.Peers[i])
			}
		}
		before := n.status
		c.check.checkTakeover(n, &before, &raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TraceTakeover, Peer: follower.id}}})
		if about == "" {
			require.Nil(t, c.failure)
			continue
		}
		expectBreach(t, c, "G21")
	}
}

func TestInvariants_OfLossesNoticeTheirBreach(t *testing.T) {
	lost := []raft.TraceEvent{{Kind: raft.TraceBackoff}}
	for about, breach := range map[string]func(n *node, before *raft.CoreStatus, out *raft.Output){
		"it says that it leads, without priorities": func(n *node, _ *raft.CoreStatus, _ *raft.Output) { n.hard.Leading = true },
		"it counts a loss, without priorities":      func(n *node, _ *raft.CoreStatus, out *raft.Output) { n.hard.Losses, out.Trace = 1, lost },
		"it counts two":                             func(n *node, _ *raft.CoreStatus, out *raft.Output) { n.hard.Losses, out.Trace = 2, lost },
		"it has not led": func(n *node, before *raft.CoreStatus, out *raft.Output) {
			before.Role, n.hard.Losses, out.Trace = raft.Follower, 1, lost
		},
	} {
		c, n, _ := running(t)
		before, out := n.status, raft.Output{}
		n.seen.hardWas = n.hard
		c.check.checkLosses(n, &before, nil, &out)
		require.Nil(t, c.failure)
		breach(n, &before, &out)
		c.check.checkLosses(n, &before, nil, &out)
		assert.NotNil(t, c.failure, about)
		expectBreach(t, c, "N87")
	}
}

func TestInvariants_OfSuccessorsNoticeTheirBreach(t *testing.T) {
	for about, breach := range map[string]func(n, follower *node){
		"their order": func(n, _ *node) { slices.Reverse(n.status.Successors) },
		"a hindered one": func(n, _ *node) {
			n.status.Peers[0].Hindered = raft.HinderedStalled
			n.status.Successors = []raft.Peer{peerOf(&n.status.Peers[0])}
		},
		"a stranger": func(n, _ *node) { n.status.Successors = []raft.Peer{{ID: "z", Incarnation: 1}} },
	} {
		c, n, follower := preferringLeader(t)
		other := peerOf(&n.status.Peers[0])
		if other == follower.peer() {
			other = peerOf(&n.status.Peers[1])
		}
		n.seen.of(other).heard = n.seen.now
		n.status.Successors = []raft.Peer{follower.peer(), other}
		before := n.status
		before.Successors, before.Peers = nil, nil
		c.check.checkSuccessors(n, &before)
		require.Nil(t, c.failure)
		breach(n, follower)
		c.check.checkSuccessors(n, &before)
		assert.NotNil(t, c.failure, about)
		expectBreach(t, c, "N88")
	}
}

// A caretaker that leads on although another voter can lead.
func TestInvariants_OfCaretakersNoticeTheirBreach(t *testing.T) {
	c, n, _ := preferringLeader(t)
	for i := range n.status.Config.Members {
		if n.status.Config.Members[i].ID == n.id {
			n.status.Config.Members[i].Priority = raft.PriorityNever
		}
	}
	l := &liveness{c: c, leader: n, core: 7, exiled: true}
	n.seen.named = n.status.Term
	l.checkCaretaker()
	require.Nil(t, c.failure, "somebody has named it")
	n.seen.named = 0
	l.checkCaretaker()
	expectBreach(t, c, "L22")
}
