package node_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
)

// attempt is a call that changes members.
type attempt func(ctx context.Context, n *node.Node) (node.Members, error)

func adds(m raft.Member) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.AddMember(ctx, m, node.ChangeOptions{})
	}
}

func removes(id raft.NodeID, o node.ChangeOptions) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) { return n.RemoveMember(ctx, id, o) }
}

func demotes(id raft.NodeID) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.DemoteMember(ctx, id, node.ChangeOptions{})
	}
}

func replaces(id raft.NodeID, by raft.Member) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.ReplaceMember(ctx, id, by, node.ChangeOptions{})
	}
}

func readdresses(id raft.NodeID, address string) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.UpdateMember(ctx, raft.Update{Peer: raft.Peer{ID: id}, Address: &address}, node.ChangeOptions{})
	}
}

func changes(c raft.Change) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) { return n.ChangeMembers(ctx, c, 0) }
}

// refused checks that the leader refuses a change with an error of type E that contains words. It also checks that nothing
// has changed.
func refused[E error](t *testing.T, n *node.Node, call attempt, words string) (e E) {
	t.Helper()
	members, last := n.Members(), n.Status().Last
	_, err := call(t.Context(), n)
	require.ErrorAs(t, err, &e)
	assert.ErrorContains(t, err, words)
	assert.NotErrorIs(t, err, node.ErrOutcomeUnknown)
	assert.Equal(t, members, n.Members())
	assert.Equal(t, last, n.Status().Last)
	propose(t, n, "it continues")
	return e
}

func TestChange_TheLastVoterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		const words = "raft: the members were not changed: n1 is the last voter: add another one first; to end the cluster, close its nodes"
		for _, call := range []attempt{removes("n1", node.ChangeOptions{}), demotes("n1")} {
			assert.Equal(t, raft.NodeID("n1"), refused[*raft.LastVoterError](t, n, call, words).ID)
		}
	})
}

func TestChange_AMemberIsAddedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Join("n4")
		n := c.Leader()
		_, err := n.AddLearner(t.Context(), c.Member("n4"), node.ChangeOptions{})
		require.NoError(t, err)
		elsewhere := raft.Member{ID: "n4", Address: "elsewhere:1"}
		for _, call := range []attempt{
			adds(c.Member("n2")), adds(raft.Member{ID: "n2", Address: "elsewhere:1"}), adds(elsewhere),
			func(ctx context.Context, n *node.Node) (node.Members, error) {
				return n.AddLearner(ctx, c.Member("n4"), node.ChangeOptions{})
			},
		} {
			refused[*raft.MemberExistsError](t, n, call, "to move it, update its address; to put another store in its place, replace it")
		}
		assert.Equal(t, "n2:1", refused[*raft.MemberExistsError](t, n, adds(c.Member("n2")), "n2 is a voter, at n2:1").Member.Address)
	})
}

func TestChange_AnUnknownMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		calls := []attempt{removes("n9", node.ChangeOptions{}), demotes("n9"), readdresses("n9", "n9:1"), replaces("n9", raft.Member{ID: "n9", Address: "n9:1"})}
		for _, call := range calls {
			e := refused[*raft.UnknownMemberError](t, n, call, "there is no n9; there are n1 n2 n3")
			assert.Equal(t, []raft.NodeID{"n1", "n2", "n3"}, e.Known)
		}
		id := c.Follower().Status().ID
		m := c.Remove(id)
		e := refused[*raft.UnknownMemberError](t, n, removes(id, node.ChangeOptions{}), "it was removed by configuration")
		assert.Equal(t, m.Index, e.Removed)
	})
}

func TestChange_ComparesTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		stale := n.Members().Index
		c.Remove(c.Follower().Status().ID)
		o := node.ChangeOptions{IfIndex: stale}
		for _, call := range []attempt{
			removes("n1", o),
			func(ctx context.Context, n *node.Node) (node.Members, error) {
				return n.AddMember(ctx, raft.Member{ID: "n9", Address: "n9:1"}, o) // nobody is there, and nobody is asked
			},
		} {
			e := refused[*raft.ConfigChangedError](t, n, call, "look at it and decide again")
			assert.Equal(t, raft.ConfigChangedError{IfIndex: stale, Index: n.Members().Index}, *e)
		}
	})
}

func TestChange_AddressesAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		for _, call := range []attempt{
			adds(raft.Member{ID: "n9", Address: "n2:1"}), readdresses("n1", "n2:1"), replaces("n3", raft.Member{ID: "n9", Address: "n2:1"}),
		} {
			assert.Equal(t, raft.NodeID("n2"), refused[*raft.AddressInUseError](t, n, call, "that is the address of n2").By)
		}
		for _, address := range []string{"", "nowhere", strings.Repeat("n", raft.AddressBytesMax) + ":1"} {
			for _, call := range []attempt{adds(raft.Member{ID: "n9", Address: address}), readdresses("n1", address)} {
				refused[*raft.ConfigError](t, n, call, "")
			}
		}
	})
}

// mute is the transport of a member that does not dial, or whose messages do not leave.
type mute struct {
	raft.Transport
	dials  *atomic.Bool
	silent *atomic.Bool
}

func (m mute) Connect(contacts []raft.Contact) {
	if m.dials.Load() {
		m.Transport.Connect(contacts)
	}
}

func (m mute) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	if m.silent.Load() {
		return nil
	}
	return m.Transport.Send(to, lane, batch)
}

// withMute starts a cluster of three, and the member n4, which has a mute transport.
func withMute(t *testing.T) (c *rafttest.Cluster, dials, silent *atomic.Bool) {
	dials, silent = new(atomic.Bool), new(atomic.Bool)
	dials.Store(true)
	c = rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
		if id == "n4" {
			return mute{wire, dials, silent}
		}
		return wire
	}})
	for _, id := range c.IDs() {
		c.Start(id)
	}
	c.Leader()
	return c, dials, silent
}

func TestChange_AnUnreachableMemberIsNotAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		n := c.Leader()
		e := refused[*node.UnreachableError](t, n, adds(raft.Member{ID: "n9", Address: "n9:1"}), "n9 at n9:1: the host answered, but nobody listens there")
		assert.Equal(t, raft.NodeID("n9"), e.ID)
		c.Join("n5")
		c.Partition([]raft.NodeID{"n1", "n2", "n3"})
		refused[*node.UnreachableError](t, n, adds(c.Member("n5")), "n5 at n5:1: the network is cut")
		c.Heal()
		dials.Store(false)
		c.Join("n4")
		refused[*node.UnreachableError](t, n, adds(c.Member("n4")), "it answers, but has not reached this member at "+string(n.Status().ID)+":1")
		c.Crash("n4")
		dials.Store(true)
		c.Start("n4")
		c.Add("n4")
	})
}

func TestChange_AnAnswerUnderAnotherID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n := pairLeader(t, network)
		joiner(t, network, "z", node.Config{})
		refused[*node.UnreachableError](t, n, adds(raft.Member{ID: "n9", Address: "z:1"}), `this is "z", the connection is for "n9"`)
	})
}

// pairLeader starts a cluster of two, and returns its leader.
func pairLeader(t *testing.T, network *transport.Network) *node.Node {
	t.Helper()
	n1, n2 := startPair(t, network)
	t.Cleanup(func() {
		assert.NoError(t, n1.Close())
		assert.NoError(t, n2.Close())
	})
	if m, err := n1.WaitLeader(t.Context()); err != nil || m.ID != "n1" {
		n1, n2 = n2, n1
	}
	propose(t, n1, "first")
	return n1
}

// joiner starts a member on an empty store at the address "id:1".
func joiner(t *testing.T, network *transport.Network, id raft.NodeID, cfg node.Config) *node.Node {
	t.Helper()
	cfg.ID, cfg.Seed = id, 1
	if cfg.Cluster == "" {
		cfg.Cluster = "test"
	}
	n, err := node.Start(t.Context(), cfg, newJournal(), storage.NewMemory(), network.JoinAt(id, string(id)+":1"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func TestChange_AMemberWithDataIsNotAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n := pairLeader(t, network)
		z := raft.Member{ID: "z", Address: "z:1"}
		own := joiner(t, network, "z", node.Config{Initial: []raft.Member{z}})
		_, err := own.WaitLeader(t.Context())
		require.NoError(t, err)
		e := refused[*raft.NotEmptyError](t, n, adds(z), "z at z:1 belongs to cluster "+own.Status().Cluster.String())
		assert.Equal(t, own.Status().Cluster, e.Cluster)

		joiner(t, network, "y", node.Config{Cluster: "another"})
		refused[*node.UnreachableError](t, n, adds(raft.Member{ID: "y", Address: "y:1"}), "give all members the same Config.Cluster")
	})
}

func TestChange_ARemovedStoreIsNotAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n := pairLeader(t, network)
		x := raft.Member{ID: "x", Address: "x:1"}
		gone := joiner(t, network, "x", node.Config{})
		added, err := n.AddMember(t.Context(), x, node.ChangeOptions{})
		require.NoError(t, err)
		removed, err := n.RemoveMember(t.Context(), "x", node.ChangeOptions{})
		require.NoError(t, err)
		<-gone.Done()

		old, _ := added.Member("x")
		wire, r := network.JoinAt("x", "x:1"), transporttest.NewRecorder("x") // does not know it
		r.Self.From, r.Self.Cluster, r.Self.Term = old.Peer(), n.Status().Cluster, 1
		require.NoError(t, wire.Start(r))
		defer func() { assert.NoError(t, wire.Close()) }()
		for _, call := range []attempt{adds(x), changes(raft.Change{Add: []raft.Member{old}})} {
			assert.Equal(t, removed.Index, refused[*raft.WasRemovedError](t, n, call, "empty its store first").Index)
		}
	})
}

func TestChange_ReplacesNobodyByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n, other := c.Leader(), c.Follower().Status().ID
		propose(t, n, "so that all are heard")
		lost := n.Metrics().ConnectionsLost
		e := refused[*raft.MemberExistsError](t, n, replaces(other, raft.Member{}), string(other)+" itself answers, with the incarnation ")
		now, _ := n.Members().Member(other)
		assert.Equal(t, raft.MemberExistsError{Member: now, Answers: true}, *e)
		assert.Equal(t, lost, n.Metrics().ConnectionsLost, "it was asked, and its connection stands")
		refused[*node.UnreachableError](t, n, replaces(n.Status().ID, raft.Member{}), "transfer its leadership first")
	})
}

// early is a member's transport. On it, the member named by the field who appears to speak an earlier protocol.
type early struct {
	raft.Transport
	who *atomic.Value
}

func (e early) Start(h raft.Handler) error { return e.Transport.Start(earlyHandler{h, e.who}) }

type earlyHandler struct {
	raft.Handler
	who *atomic.Value
}

func (e earlyHandler) Up(h raft.Hello) {
	if h.From.ID == e.who.Load() {
		h.Protocol = raft.ProtocolMembership - 1
	}
	e.Handler.Up(h)
}

// withEarly starts a cluster of three in which the named member runs an earlier release.
func withEarly(t *testing.T, id raft.NodeID) (c *rafttest.Cluster, who *atomic.Value) {
	who = new(atomic.Value)
	who.Store(id)
	c = rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
		return early{wire, who}
	}})
	for _, id := range c.IDs() {
		c.Start(id)
	}
	return c, who
}

func TestChange_AnEarlierReleaseAmongTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, who := withEarly(t, "n3")
		c.Leader()
		require.NoError(t, c.Leader().TransferLeadership(t.Context(), "n1"))
		c.Join("n4")
		n := c.Leader()
		for _, call := range []attempt{adds(c.Member("n4")), removes("n2", node.ChangeOptions{}), demotes("n2"), readdresses("n2", "n2:2")} {
			e := refused[*raft.EarlierReleaseError](t, n, call, "n3 speaks protocol 2, and this needs 3: upgrade first")
			assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"n3"}, Speaks: 2, Needs: 3}, *e)
		}
		c.Crash("n3")
		who.Store(raft.NodeID(""))
		c.Start("n3")
		c.Await("the leader to hear n3", func() bool {
			m := n.Status().Members[2]
			return m.Connected && m.Protocol >= raft.ProtocolMembership
		})
		c.Add("n4")
	})
}

func TestChange_AnEarlierReleaseIsNotAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withEarly(t, "n4")
		c.Join("n4")
		e := refused[*raft.EarlierReleaseError](t, c.Leader(), adds(c.Member("n4")), "n4 speaks protocol 2, and this needs 3: upgrade first")
		assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"n4"}, Speaks: 2, Needs: 3}, *e)
	})
}

func TestChange_LiveMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		down, up := followers(c)
		c.Crash(down)
		time.Sleep(time.Second) // longer than a voter may be silent
		e := refused[*raft.QuorumLossError](t, n, removes(up, node.ChangeOptions{}), "bring them back, or name them in Despite")
		assert.Equal(t, []raft.NodeID{down}, e.Silent)
		refused[*raft.QuorumLossError](t, n, removes(up, node.ChangeOptions{Despite: []raft.NodeID{up}}), string(down)+" is not heard")
		refused[*raft.UnknownMemberError](t, n, removes(up, node.ChangeOptions{Despite: []raft.NodeID{"n9"}}), "there is no n9")

		despite := node.ChangeOptions{Despite: []raft.NodeID{down}}
		_, err := n.RemoveMember(t.Context(), up, despite)
		require.ErrorIs(t, err, node.ErrOutcomeUnknown, "it is not refused, but without the one that was named nobody leads")
		c.Start(down)
		c.Await("the next leader to finish it", func() bool {
			_, named := c.Leader().Members().Member(up)
			return !named
		})
		propose(t, c.Leader(), "without it")
	})
}

// followers returns the ids of the two followers of a cluster of three.
func followers(c *rafttest.Cluster) (one, two raft.NodeID) {
	var ids []raft.NodeID
	leader := c.Leader().Status().ID
	for _, id := range c.IDs() {
		if id != leader {
			ids = append(ids, id)
		}
	}
	return ids[0], ids[1]
}

func TestChange_GivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, silent := withMute(t)
		n := c.Leader()
		silent.Store(true)
		c.Join("n4")
		_, err := n.AddMember(t.Context(), c.Member("n4"), node.ChangeOptions{Patience: 2 * time.Second})
		var late *raft.CatchUpError
		require.ErrorAs(t, err, &late)
		require.ErrorIs(t, err, raft.ErrChangeGivenUp)
		assert.Equal(t, raft.NodeID("n4"), late.ID)
		assert.Equal(t, 2*time.Second, late.Patience)
		stays, _ := n.Members().Member("n4")
		assert.Equal(t, raft.Learner, stays.Kind)
		silent.Store(false)
		c.Add("n4")
	})
}

func TestCancel_LeavesLearners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, silent := withMute(t)
		n := c.Leader()
		silent.Store(true)
		c.Join("n4")
		added := make(chan error, 1)
		go func() {
			_, err := n.AddMember(t.Context(), c.Member("n4"), node.ChangeOptions{})
			added <- err
		}()
		c.Await("the change to begin", func() bool { return n.Members().Changing() })
		time.Sleep(time.Second)
		s := n.Status()
		assert.Equal(t, "catches up", s.Change.Stage)
		assert.Equal(t, []raft.NodeID{"n4"}, s.Change.Waiting)
		assert.Equal(t, "joins", s.Members[3].Standing)
		assert.False(t, s.Members[3].CatchUp.Ready)
		assert.Equal(t, "the cluster survives 1 failure more: 3 of 3 voters can be reached", s.Tolerance, "a learner does not count")
		e := refused[*raft.ChangePendingError](t, n, demotes("n1"), ": wait, or cancel the change")
		assert.Equal(t, []raft.NodeID{"n4"}, e.Waits)
		assert.InDelta(t, time.Second, e.Since, float64(100*time.Millisecond))
		refused[*raft.ChangePendingError](t, n, adds(raft.Member{ID: "n9", Address: "n9:1"}), "waits for n4")

		m, err := n.CancelChange(t.Context())
		require.NoError(t, err)
		stays, _ := m.Member("n4")
		assert.Equal(t, raft.Learner, stays.Kind)
		require.ErrorIs(t, <-added, raft.ErrChangeGivenUp)
		again, err := n.CancelChange(t.Context())
		require.NoError(t, err, "there is nothing to cancel")
		assert.Equal(t, m.Index, again.Index)
		assert.Nil(t, n.Status().Change)
		metrics := n.Metrics()
		assert.Equal(t, node.ChangeOutcomes{Done: 2, Refused: 2, GivenUp: 1}, metrics.Changes)
		assert.Equal(t, 3, metrics.Voters)
		assert.Equal(t, 1, metrics.Learners)
		assert.Equal(t, m.Index, metrics.ConfigIndex)
	})
}

func TestChange_OneAtATime(t *testing.T) {
	for _, row := range []struct {
		what  string
		first attempt
		words string
		joint bool
	}{
		{"not committed", readdresses("n1", "elsewhere:1"), "is not committed yet", false},
		{"joint", removes("n3", node.ChangeOptions{}), "the next leader finishes it, too: wait", true},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rafttest.New(t, 3, newJournal)
				n := c.Leader()
				c.Isolate(n.Status().ID)
				first := make(chan error, 1)
				go func() {
					_, err := row.first(t.Context(), n)
					first <- err
				}()
				synctest.Wait()
				_, err := n.DemoteMember(t.Context(), "n2", node.ChangeOptions{})
				var e *raft.ChangePendingError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, row.joint, e.Joint)
				assert.ErrorContains(t, err, row.words)
				err = <-first
				require.ErrorIs(t, err, node.ErrOutcomeUnknown, "its leadership has ended")
				assert.ErrorContains(t, err, "if the change of members has begun, it continues")
			})
		})
	}
}

func TestChange_TheOutcomeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		c.Isolate(n.Status().ID)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := removes("n3", node.ChangeOptions{})(ctx, n)
		require.ErrorIs(t, err, node.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestChange_ACancelledContactAppendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		dials.Store(false)
		c.Join("n4")
		n := c.Leader()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := func(_ context.Context, n *node.Node) (node.Members, error) { return adds(c.Member("n4"))(ctx, n) }
		e := refused[*node.UnreachableError](t, n, call, "it answers, but has not reached this member")
		require.ErrorIs(t, e, context.DeadlineExceeded)
		time.Sleep(10 * time.Second)
		assert.Len(t, n.Members().Members, 3)
	})
}

func TestChange_CallsThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n, f := c.Leader(), c.Follower()
		for _, call := range []attempt{demotes("n1"), adds(raft.Member{ID: "n9", Address: "n9:1"})} {
			_, err := call(t.Context(), f)
			var other *node.NotLeaderError
			require.ErrorAs(t, err, &other)
			assert.Equal(t, n.Status().ID, other.Leader.ID)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := demotes("n1")(ended, n)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, node.ErrOutcomeUnknown)
		require.NoError(t, f.Close())
		_, err = demotes("n1")(t.Context(), f)
		require.ErrorIs(t, err, raft.ErrClosed)
	})
}

// A deposed leader may not know yet that it is deposed, and may have an earlier configuration. It must not report that a
// requested change has no effect. It must also not report that an earlier change with an unknown outcome was made.
func TestChange_ADeposedLeaderSaysNothingOfTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		f := c.Follower().Status().ID
		for _, call := range []attempt{
			changes(raft.Change{Promote: []raft.Peer{{ID: f}}}), adds(c.Member(f)), removes("n9", node.ChangeOptions{}),
			replaces("n9", raft.Member{ID: "n9", Address: "n9:1"}),
		} {
			n := c.Leader()
			c.Isolate(n.Status().ID)
			_, err := call(t.Context(), n)
			var other *node.NotLeaderError
			require.ErrorAs(t, err, &other)
			c.Heal()
			c.Converge()
		}
	})
}

// A member whose disk was emptied does not know the members, so it refuses every change.
func TestChange_AWipedMemberChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		id := c.Follower().Status().ID
		c.Crash(id)
		c.Wipe(id)
		n := c.Start(id)
		c.Await("it to know", func() bool { return n.Status().Wiped })
		before := c.Leader().Members()
		for _, call := range []attempt{
			changes(raft.Change{}), changes(raft.Change{Cancel: true}), adds(c.Member("n9")), removes(id, node.ChangeOptions{}), demotes(id), replaces(id, c.Member(id)),
		} {
			_, err := call(t.Context(), n)
			require.ErrorIs(t, err, node.ErrWiped)
			require.NotErrorIs(t, err, node.ErrOutcomeUnknown)
			assert.ErrorContains(t, err, "emptied")
		}
		assert.Equal(t, before, c.Leader().Members())
	})
}

func TestChange_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		var many []raft.Member
		for i := range 17 {
			id := "m" + string(rune('a'+i))
			many = append(many, raft.Member{ID: raft.NodeID(id), Address: id + ":1", Kind: raft.Learner})
		}
		refused[*raft.ConfigError](t, n, changes(raft.Change{Add: many}), "17 members would join; a change takes up to 16 at once")
		meta := strings.Repeat("m", raft.MetaBytesMax+1)
		refused[*raft.ConfigError](t, n, adds(raft.Member{ID: "n9", Address: "n9:1", Meta: meta}), "the limit is 1024")
		twice := raft.Change{Demote: []raft.Peer{{ID: "n2"}}, Remove: []raft.Peer{{ID: "n2"}}}
		refused[*raft.ConfigError](t, n, changes(twice), `it names member "n2" twice`)
		refused[*raft.ConfigError](t, n, changes(raft.Change{Cancel: true, Patience: time.Second}), "it must come alone")

		before := n.Members()
		m, err := n.ChangeMembers(t.Context(), raft.Change{}, 0)
		require.NoError(t, err, "a change of nothing has no effect")
		assert.Equal(t, before, m)
	})
}
