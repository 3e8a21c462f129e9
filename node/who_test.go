package node_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// seeking is a member without a list of initial members, and its transport.
type seeking struct {
	*node.Node
	wire *transport.TCP
	self raft.Peer
}

// seeking starts a member on the store in dir. Its store is empty if dir is new.
func (l *loopback) seeking(id raft.NodeID, address, dir string) seeking {
	l.t.Helper()
	wire, err := transport.Listen(address, transport.Options{})
	require.NoError(l.t, err)
	disk, err := storage.OpenBolt(filepath.Join(l.dir, dir), storage.BoltOptions{})
	require.NoError(l.t, err)
	cfg := node.Config{
		ID: id, Cluster: "loopback", ElectionTimeout: time.Second, Advertise: wire.Addr().String(),
		Founders: []raft.NodeID{"n1", "n2", "n3"}, Meta: "http://" + string(id),
	}
	n, err := node.Start(l.t.Context(), cfg, newJournal(), disk, wire)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = n.Close() })
	return seeking{n, wire, raft.Peer{ID: id, Incarnation: n.Status().Incarnation}}
}

func (j seeking) address() string { return j.wire.Addr().String() }

// asks asks the member at the address.
func (j seeking) asks(t *testing.T, address string, change func(*raft.Who)) raft.WhoReply {
	t.Helper()
	q := raft.Who{ClusterName: "loopback", From: j.self, Address: j.address()}
	change(&q)
	reply, err := j.wire.Who(t.Context(), address, q)
	require.NoError(t, err)
	return reply
}

// petitions asks the member at the address, again and again, until the petition is granted or done accepts the answer.
func (j seeking) petitions(t *testing.T, address string, p raft.Petition, done func(raft.WhoReply) bool) (last raft.WhoReply) {
	t.Helper()
	require.Eventually(t, func() bool {
		last = j.asks(t, address, func(q *raft.Who) { q.Petition = &p })
		return last.Granted || done(last)
	}, time.Minute, 50*time.Millisecond)
	return last
}

func never(raft.WhoReply) bool { return false }

// decided reports whether the leader has decided. On a slow machine it may still look whether the address answers.
func decided(r raft.WhoReply) bool { return r.Reason != joining.ErrPetitionOpen.Error() }

func addressOf(l *loopback, n *node.Node) string {
	m, _ := n.Members().Member(n.Status().ID)
	return m.Address
}

func TestWho_AMemberSaysWhatItsOwnStoreHolds(t *testing.T) {
	l := newLoopback(t, 3)
	leader := l.leader()
	propose(t, leader, "first")
	j := l.seeking("n4", "127.0.0.1:0", "four")

	reply := j.asks(t, addressOf(l, leader), func(*raft.Who) {})
	s := leader.Status()
	assert.Equal(t, raft.WhoReply{
		From: raft.Peer{ID: s.ID, Incarnation: s.Incarnation}, ClusterName: "loopback", Cluster: s.Cluster, Term: s.Term,
		Bootstrapper: raft.Peer{ID: "n1", Incarnation: reply.Members[0].Incarnation}, Address: addressOf(l, leader),
		Leader: s.ID, Members: leader.Members().Members, Index: 1, Committed: true,
	}, reply)
	assert.Equal(t, s.Term, leader.Status().Term, "a question changes nothing")
	assert.False(t, leader.Status().Missing != nil)

	own := j.asks(t, j.address(), func(*raft.Who) {})
	assert.Equal(t, raft.WhoReply{
		From: j.self, ClusterName: "loopback", Address: j.address(), Founders: []raft.NodeID{"n1", "n2", "n3"}, Meta: "http://n4",
	}, own, "although it has heard of the cluster")
}

// Only a leader that a quorum has confirmed since the question says so.
func TestWho_AConfirmationNeedsAQuorum(t *testing.T) {
	l := newLoopback(t, 2)
	leader := l.leader()
	propose(t, leader, "first")
	j := l.seeking("n4", "127.0.0.1:0", "four")
	confirm := func(q *raft.Who) { q.Confirm = true }
	follower := l.nodes[0]
	if follower == leader {
		follower = l.nodes[1]
	}
	assert.True(t, j.asks(t, addressOf(l, leader), confirm).Confirmed)
	assert.False(t, j.asks(t, addressOf(l, leader), func(*raft.Who) {}).Confirmed, "it was not asked to")
	reply := j.asks(t, addressOf(l, follower), confirm)
	assert.False(t, reply.Confirmed)
	assert.Equal(t, leader.Status().ID, reply.Leader)
	alone := addressOf(l, leader)
	require.NoError(t, follower.Close())
	reply = j.asks(t, alone, confirm)
	assert.False(t, reply.Confirmed, "nobody is there to confirm it")
	assert.NotZero(t, reply.Term)
}

// The configuration of a confirmed answer is the one that the leader has after the round.
func TestWho_AConfirmationIsOfTheLatestConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taps := map[raft.NodeID]*forwardTap{}
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(), Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
			taps[id] = &forwardTap{Transport: wire, bytesMax: 1 << 20}
			return taps[id]
		}})
		leadBy(t, c, "n1")
		c.Isolate("n1")
		answered := make(chan raft.WhoReply)
		go func() {
			q := raft.Who{ClusterName: "test", From: raft.Peer{ID: "n4"}, Address: "n4:1", Confirm: true}
			reply, err := taps["n1"].handler.(raft.WhoHandler).Who(t.Context(), q)
			assert.NoError(t, err)
			answered <- reply
		}()
		synctest.Wait()
		changed := make(chan error)
		go func() {
			_, err := c.Node("n1").RemoveMember(t.Context(), "n3", node.ChangeOptions{})
			changed <- err
		}()
		synctest.Wait()
		c.Heal()
		reply := <-answered
		require.NoError(t, <-changed)
		assert.Equal(t, c.Node("n1").Members().Index, reply.Index)
	})
}

// A member with an empty store asks for its place, gets it, and gets the place of its lost disk. It says nothing but its id.
func TestPetition_AMemberJoinsMovesAndComesBackWithAnEmptyDisk(t *testing.T) {
	l := newLoopback(t, 3, forwards())
	leader := l.leader()
	propose(t, leader, "first")
	at := addressOf(l, leader)
	j := l.seeking("n4", "127.0.0.1:0", "four")

	for i, n := range l.nodes {
		if n != leader {
			reply := j.asks(t, l.members[i].Address, func(q *raft.Who) { q.Petition = &raft.Petition{} })
			assert.False(t, reply.Granted)
			assert.Contains(t, reply.Reason, string(leader.Status().ID), "it says who leads")
		}
	}
	assert.Len(t, leader.Members().Members, 3)
	j.petitions(t, at, raft.Petition{Meta: "m", Learner: true}, never)
	m, _ := leader.Members().Member("n4")
	assert.Equal(t, raft.Member{ID: "n4", Address: j.address(), Meta: "m", Kind: raft.Learner, Incarnation: j.self.Incarnation}, m)
	j.petitions(t, at, raft.Petition{Meta: "its second"}, never)
	m, _ = leader.Members().Member("n4")
	assert.Equal(t, raft.Voter, m.Kind)
	assert.Equal(t, "its second", m.Meta, "granted says that each step is done")

	began := time.Now()
	require.NoError(t, j.Close())
	j = l.seeking("n4", "127.0.0.1:0", "four, emptied")
	first := j.asks(t, at, func(q *raft.Who) { q.Petition = &raft.Petition{} })
	if !first.Granted {
		assert.Contains(t, first.Reason, "is a member already")
	}
	j.petitions(t, at, raft.Petition{}, never)
	t.Logf("it has the place of its lost disk after %v", time.Since(began).Round(10*time.Millisecond))
	m, _ = leader.Members().Member("n4")
	assert.Equal(t, j.self, m.Peer())
	assert.Equal(t, j.address(), m.Address)
	assert.Len(t, leader.Members().Members, 4)
}

// A petition with the id of a member that runs changes nothing.
func TestPetition_AnIDInUseIsRefused(t *testing.T) {
	l := newLoopback(t, 3, forwards())
	leader := l.leader()
	propose(t, leader, "first")
	before, at := leader.Members(), addressOf(l, leader)
	var victim raft.NodeID
	for i, n := range l.nodes {
		if n != leader {
			victim = l.members[i].ID
		}
	}
	for _, id := range []raft.NodeID{victim, leader.Status().ID} {
		j := l.seeking(id, "127.0.0.1:0", "a stranger's "+string(id))
		for range 3 {
			reply := j.petitions(t, at, raft.Petition{}, decided)
			assert.False(t, reply.Granted)
			assert.Contains(t, reply.Reason, "is a member already")
		}
		require.NoError(t, j.Close())
	}
	assert.Equal(t, before, leader.Members())
}

// A member slept through so many later removals that its own is forgotten. It still does not come back by itself.
func TestPetition_AStoreWhoseRemovalIsForgotten(t *testing.T) {
	l := newLoopback(t, 1, forwards())
	leader := l.leader()
	propose(t, leader, "first")
	at := addressOf(l, leader)
	j := l.seeking("n4", "127.0.0.1:0", "four")
	j.petitions(t, at, raft.Petition{Learner: true}, never)
	require.Eventually(t, func() bool { return j.Members().Committed && j.Status().Term > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, j.Close())
	remove := func(p raft.Peer) {
		_, err := leader.ChangeMembers(within(t, time.Minute), raft.Change{Remove: []raft.Peer{p}}, 0)
		require.NoError(t, err)
	}
	remove(j.self)
	for i := range raft.RemovedMax {
		other := raft.Member{ID: "n9", Incarnation: raft.Incarnation(i + 1), Address: "127.0.0.1:1", Kind: raft.Learner}
		_, err := leader.ChangeMembers(within(t, time.Minute), raft.Change{Add: []raft.Member{other}}, 0)
		require.NoError(t, err)
		remove(other.Peer())
	}
	j = l.seeking("n4", "127.0.0.1:0", "four")
	for range 3 {
		reply := j.petitions(t, at, raft.Petition{}, decided)
		assert.False(t, reply.Granted)
		assert.Contains(t, reply.Reason, "its member may have been removed")
	}
	assert.Len(t, leader.Members().Members, 1)
}

// An address that leads elsewhere never gets into the configuration.
func TestPetition_AWrongAddressIsRefused(t *testing.T) {
	l := newLoopback(t, 1, forwards(), func(c *node.Config) { c.ElectionTimeout = 100 * time.Millisecond })
	leader := l.leader()
	propose(t, leader, "first")
	before, at := leader.Members(), addressOf(l, leader)
	j := l.seeking("n4", "127.0.0.1:0", "four")
	for address, says := range map[string]string{
		"127.0.0.1:1": "refused", l.members[0].Address: "127.0.0.1", "no port": "port", "0.0.0.0:7000": "0.0.0.0",
	} {
		require.Eventually(t, func() bool {
			reply := j.asks(t, at, func(q *raft.Who) { q.Address, q.Petition = address, &raft.Petition{} })
			require.False(t, reply.Granted, address)
			return strings.Contains(reply.Reason, says) // a moment later, if the address before could not be reached either
		}, time.Minute, 50*time.Millisecond)
	}
	assert.Equal(t, before, leader.Members())
}

func TestPetition_ALeaderThatTakesNoChangesFromOthersRefuses(t *testing.T) {
	l := newLoopback(t, 1, forwards(func(c *node.Config) { c.NoRemoteChanges = true }))
	leader := l.leader()
	j := l.seeking("n4", "127.0.0.1:0", "four")
	reply := j.asks(t, addressOf(l, leader), func(q *raft.Who) { q.Petition = &raft.Petition{} })
	assert.False(t, reply.Granted)
	assert.Contains(t, reply.Reason, "NoRemoteChanges")
	assert.Len(t, leader.Members().Members, 1)
}

// A stranger asks for the place of a member that is heard, for as long as a silent one would keep it, and longer.
func TestPetition_AMemberThatIsHeardKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wires := map[raft.NodeID]raft.WhoCarrier{}
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(), Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
			wires[id] = wire.(raft.WhoCarrier)
			return wire
		}})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		leader := c.Leader()
		lead := leader.Status().ID
		for _, id := range c.IDs() {
			if id == lead {
				continue
			}
			for range 30 {
				q := raft.Who{ClusterName: "test", From: raft.Peer{ID: id, Incarnation: 1}, Address: "elsewhere:1", Petition: &raft.Petition{}}
				reply, err := wires[id].Who(t.Context(), c.Member(lead).Address, q)
				require.NoError(t, err)
				require.False(t, reply.Granted)
				require.Contains(t, reply.Reason, "is a member already")
				time.Sleep(time.Second)
			}
		}
		assert.EqualValues(t, 1, leader.Members().Index)
	})
}

// A new leader has heard nothing from a member before it led. That silence counts for nothing.
func TestPetition_SilenceCountsSinceTheLeaderLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wires := map[raft.NodeID]raft.WhoCarrier{}
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: forwards(), Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
			wires[id] = wire.(raft.WhoCarrier)
			return refusedBy{wire, "n3"}
		}})
		leadBy(t, c, "n1")
		c.Close("n3")
		time.Sleep(time.Minute)
		leadBy(t, c, "n2")
		q := raft.Who{ClusterName: "test", From: raft.Peer{ID: "n3", Incarnation: 1}, Address: "elsewhere:1", Petition: &raft.Petition{}}
		reply, err := wires["n1"].Who(t.Context(), c.Member("n2").Address, q)
		require.NoError(t, err)
		assert.Contains(t, reply.Reason, "is a member already")
		time.Sleep(joining.RefusedMin)
		reply, err = wires["n1"].Who(t.Context(), c.Member("n2").Address, q)
		require.NoError(t, err)
		assert.NotContains(t, reply.Reason, "is a member already")
	})
}

// refusedBy is a transport whose dials of a member have long been refused.
type refusedBy struct {
	raft.Transport
	id raft.NodeID
}

func (r refusedBy) Peer(p raft.Peer) raft.PeerStatus {
	s := r.Transport.Peer(p)
	if p.ID == r.id {
		s.RefusedFor = time.Hour
	}
	return s
}
