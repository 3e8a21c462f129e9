package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// heard returns the events that wait for a loop, and drops them.
func (n *node) heard() (events []raft.Event) {
	events, n.inbox = n.inbox, nil
	return events
}

// comes delivers a message with this id, as if the sender's present process had sent it.
func comes(c *cluster, from, to *node, id int) {
	e := envelope{message: *message(from, to, 1, raft.Heartbeat{}), id: uint64(id), start: from.disk.start()}
	c.deliver(sim.Delivery[envelope]{From: from.index, To: to.index, Message: e})
}

func TestNews_NothingThatThePeerSentBeforeArrivesAfterwards(t *testing.T) {
	c, lead, follower := running(t)
	follower.heard()
	isOver := raft.PeerLost{Peer: lead.peer(), Refused: true}
	sent := c.net.Sent
	follower.lie(lead, 5)
	require.Equal(t, []raft.Event{raft.PeerLost{Peer: lead.peer()}, isOver}, follower.heard())
	comes(c, lead, follower, sent)
	assert.Empty(t, follower.heard())
	assert.True(t, follower.isRefused(lead))
	comes(c, lead, follower, sent+1)
	assert.Len(t, follower.heard(), 1)
}

func TestNews_OfAPeer(t *testing.T) {
	for _, row := range []struct {
		rule   string
		happen func(lead, follower *node)
		news   bool
	}{
		{"its process has ended", func(lead, _ *node) { lead.crash() }, true},
		{"its host has vanished", func(lead, _ *node) { lead.vanish() }, false},
		{"it lives", func(_, _ *node) { /* its connection has only broken */ }, false},
		{"it cannot be reached", func(lead, follower *node) {
			lead.crash()
			lead.c.net.Links.Cut(sim.Partitions, follower.index, lead.index)
		}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead, follower := running(t)
			row.happen(lead, follower)
			for range 3 {
				follower.peerEvent(int64(lead.index) << 1)
			}
			news := c.stats.News
			for ends := c.now() + sim.In(1e9); c.now() < ends && c.failure == nil; {
				c.turn()
			}
			assert.Equal(t, row.news, c.stats.News > news)
			assert.LessOrEqual(t, c.stats.News, news+1, "it is told once")
		})
	}
}

// The process has ended, and its successor connects before the news is told.
func TestNews_ThatIsOverIsNotTold(t *testing.T) {
	c, lead, follower := running(t)
	lead.crash()
	follower.peerEvent(int64(lead.index) << 1)
	lead.start()
	follower.heard()
	comes(c, lead, follower, c.net.Sent+1)
	require.Len(t, follower.heard(), 1)
	follower.tellNews(lead)
	assert.Empty(t, follower.heard())
}

// The profile has news of every kind.
func TestPreference_InjectsEveryKind(t *testing.T) {
	var total Stats
	for number := range uint64(20) {
		r, err := Run(Seed{"preference", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure)
		total.News += r.News
		for kind, count := range r.ByFault {
			total.ByFault[kind] += count
		}
	}
	assert.Positive(t, total.News)
	for _, kind := range []FaultKind{Crash, Vanish, LateNews, Lie} {
		assert.Positive(t, total.ByFault[kind], kind)
	}
	assert.Greater(t, total.News, total.ByFault[Lie], "there is true news, too")
}
