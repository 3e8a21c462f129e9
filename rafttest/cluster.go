// Package rafttest helps to test programs that use this library:
//
//   - CheckFSM tests a state machine against the contract of raft.FSM. Simulate runs it in simulated clusters under
//     faults. Most programs need these two.
//   - New starts a cluster in memory with one call, also inside a testing/synctest bubble. The methods of the cluster
//     crash, cut off, add and remove members.
//   - Fake stands in for a node.Node in tests of code that uses a node.
package rafttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// patience bounds every wait of a Cluster. Inside a synctest bubble, the wait takes no real time. Outside a bubble, only a
// failing test waits so long.
const patience = time.Minute

// Options describes a cluster. Only NewFSM is required.
type Options struct {
	// Members is the number of members, which are named n1, n2 and so on. 0 means 3.
	Members int
	// NewFSM returns a new state machine for each start of each member. Required.
	NewFSM func() raft.FSM
	// Configure may change the configuration of a member before each of its starts. Nil: no changes.
	Configure func(*node.Config)
	// Storage and Transport may wrap the storage and the transport of a member at each of its starts. Storage receives a
	// raft.SnapshotStorage. If its result is not a raft.SnapshotStorage, the member takes no snapshots. Nil: no wrapper.
	Storage   func(raft.NodeID, raft.Storage) raft.Storage
	Transport func(raft.NodeID, raft.Transport) raft.Transport
}

// Cluster is a cluster in memory. Only the test's goroutine may call its methods. If a method cannot do its work, the test
// fails.
type Cluster struct {
	t       testing.TB
	options Options
	network *transport.Network
	initial []raft.Member
	members []*member
	ledger  ledger
}

// member is one member, running or not.
type member struct {
	id    raft.NodeID
	disk  *storage.Memory
	power *power     // of the present start
	node  *node.Node // nil while the member does not run
	fsm   raft.FSM   // of the present or last start
	wire  *transport.Memory
	joins bool // it is not an initial member
	moves int  // number of moves so far
}

// New starts a cluster of n members and returns when one of them leads. The members stop at the end of the test. The test
// fails if two members ever apply different entries at one index.
func New(t testing.TB, n int, newFSM func() raft.FSM) *Cluster {
	t.Helper()
	c := Prepare(t, Options{Members: n, NewFSM: newFSM})
	for _, id := range c.IDs() {
		c.Start(id)
	}
	c.Leader()
	return c
}

// Prepare returns a cluster whose members are not started yet.
func Prepare(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Members == 0 {
		o.Members = 3
	}
	c := &Cluster{t: t, options: o, network: transport.NewNetwork(), ledger: newLedger(t)}
	for i := range o.Members {
		id := raft.NodeID(fmt.Sprintf("n%d", i+1))
		c.initial = append(c.initial, memberOf(id))
		c.members = append(c.members, &member{id: id, disk: storage.NewMemory()})
	}
	t.Cleanup(c.stopAll)
	return c
}

// Join starts a new member on an empty store, without a list of initial members. The new member waits until Add adds it to
// the cluster.
func (c *Cluster) Join(id raft.NodeID) *node.Node {
	c.t.Helper()
	if slices.Contains(c.IDs(), id) {
		c.t.Fatalf("rafttest: there is a member %q already", id)
	}
	c.members = append(c.members, &member{id: id, disk: storage.NewMemory(), joins: true})
	slices.SortFunc(c.members, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return c.Start(id)
}

// Member returns the description by which the leader adds a member: its id, its address and its Meta.
func (c *Cluster) Member(id raft.NodeID) raft.Member {
	m := memberOf(id)
	for _, known := range c.members { // a test may also name a member that does not exist
		if known.id == id {
			m.Address = known.address()
		}
	}
	return m
}

func memberOf(id raft.NodeID) raft.Member {
	return raft.Member{ID: id, Address: string(id) + ":1", Meta: "http://" + string(id)}
}

// address returns the member's address: its id and a port. Each Move changes the port.
func (m *member) address() string { return fmt.Sprintf("%s:%d", m.id, m.moves+1) }

// Add makes the leader add a member that Join has started. It returns when the member votes.
func (c *Cluster) Add(id raft.NodeID) node.Members {
	c.t.Helper()
	return c.change("add "+id, func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.AddMember(ctx, c.Member(id), node.ChangeOptions{})
	})
}

// Remove makes the leader remove a member, and returns when the member is removed. The member then ends by itself.
func (c *Cluster) Remove(id raft.NodeID) node.Members {
	c.t.Helper()
	return c.change("remove "+id, func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.RemoveMember(ctx, id, node.ChangeOptions{})
	})
}

// Replace empties the disk of a member that is not running, and starts the member. Then it makes the leader replace the
// member's former incarnation by the new one. It returns when the leader has done so.
func (c *Cluster) Replace(id raft.NodeID) node.Members {
	c.t.Helper()
	c.Wipe(id)
	c.Start(id)
	return c.change("replace "+id, func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.ReplaceMember(ctx, id, raft.Member{}, node.ChangeOptions{})
	})
}

// Move starts a member at a new address. From then on, other members find it only there. If the member is running, Move first
// crashes it. After the start, it makes the leader correct the configuration, and returns when the leader has done so.
func (c *Cluster) Move(id raft.NodeID) node.Members {
	c.t.Helper()
	m := c.member(id)
	if m.node != nil {
		c.Crash(id)
	}
	m.moves++
	c.Start(id)
	address := m.address()
	return c.change("move "+id, func(ctx context.Context, n *node.Node) (node.Members, error) {
		return n.UpdateMember(ctx, raft.Update{Peer: raft.Peer{ID: id}, Address: &address}, node.ChangeOptions{})
	})
}

func (c *Cluster) change(what raft.NodeID, by func(context.Context, *node.Node) (node.Members, error)) node.Members {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := by(ctx, c.Leader())
	if err != nil {
		c.t.Fatalf("rafttest: %s: %v\n%s", what, err, c.describe())
	}
	return m
}

func (c *Cluster) stopAll() {
	for _, m := range c.members {
		if m.node != nil {
			c.Crash(m.id)
		}
	}
}

// IDs returns the ids of all members, sorted.
func (c *Cluster) IDs() []raft.NodeID {
	ids := make([]raft.NodeID, len(c.members))
	for i, m := range c.members {
		ids[i] = m.id
	}
	return ids
}

func (c *Cluster) member(id raft.NodeID) *member {
	c.t.Helper()
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		c.t.Fatalf("rafttest: there is no member %q", id)
	}
	return c.members[i]
}

// Node returns a member's node, or nil while the member is not running.
func (c *Cluster) Node(id raft.NodeID) *node.Node { return c.member(id).node }

// FSM returns the state machine that belongs to the last start of a member. A test may read it only while the node does not
// use it, unless the state machine has locks.
func (c *Cluster) FSM(id raft.NodeID) raft.FSM { return c.member(id).fsm }

// Start starts a member that is not running.
func (c *Cluster) Start(id raft.NodeID) *node.Node {
	c.t.Helper()
	n, err := c.TryStart(id)
	if err != nil {
		c.t.Fatalf("rafttest: start %s: %v", id, err)
	}
	return n
}

// TryStart does the same as Start, but returns the error if the start fails.
func (c *Cluster) TryStart(id raft.NodeID) (*node.Node, error) {
	c.t.Helper()
	m := c.member(id)
	if m.node != nil {
		c.t.Fatalf("rafttest: %s is running already", id)
	}
	m.power = &power{SnapshotStorage: m.disk}
	if m.moves == 0 {
		m.wire = c.network.Join(id)
	} else {
		m.wire = c.network.JoinAt(id, m.address())
	}
	m.fsm = c.options.NewFSM()
	var disk raft.Storage = m.power
	var wire raft.Transport = m.wire
	if c.options.Storage != nil {
		disk = c.options.Storage(id, disk)
	}
	if c.options.Transport != nil {
		wire = c.options.Transport(id, wire)
	}
	cfg := node.Config{ID: id, Cluster: "test", Seed: 1}
	if m.moves > 0 {
		cfg.Advertise = m.address()
	}
	if !m.joins {
		cfg.Initial = c.initial
	}
	if c.options.Configure != nil {
		c.options.Configure(&cfg)
	}
	n, err := node.Start(context.Background(), cfg, c.ledger.watch(id, m.fsm, &m.power.held), disk, wire)
	if err != nil {
		_ = wire.Close()
		m.disk = m.disk.Reopen()
		return nil, err
	}
	m.node = n
	return n, nil
}

// Crash stops a member abruptly. The member does not send or write anything more.
func (c *Cluster) Crash(id raft.NodeID) {
	c.t.Helper()
	m := c.running(id)
	m.power.cut()
	_ = m.wire.Close()
	_ = m.node.Close() // fails because the storage lost its power
	m.power.held.check(c.t, id)
	m.node, m.disk = nil, m.disk.Reopen()
}

// Close stops a member in the regular way, as its process does when it ends.
func (c *Cluster) Close(id raft.NodeID) {
	c.t.Helper()
	m := c.running(id)
	if err := m.node.Close(); err != nil {
		c.t.Fatalf("rafttest: close %s: %v", id, err)
	}
	m.power.held.check(c.t, id)
	m.node, m.disk = nil, m.disk.Reopen()
}

func (c *Cluster) running(id raft.NodeID) *member {
	c.t.Helper()
	m := c.member(id)
	if m.node == nil {
		c.t.Fatalf("rafttest: %s is not running", id)
	}
	return m
}

// Restart starts a member on the disk that it had. If the member is running, Restart first crashes it.
func (c *Cluster) Restart(id raft.NodeID) *node.Node {
	c.t.Helper()
	if c.Node(id) != nil {
		c.Crash(id)
	}
	return c.Start(id)
}

// Wipe empties the disk of a member that is not running.
func (c *Cluster) Wipe(id raft.NodeID) {
	c.t.Helper()
	m := c.member(id)
	if m.node != nil {
		c.t.Fatalf("rafttest: %s is running; crash it before you empty its disk", id)
	}
	m.disk = storage.NewMemory()
}

// Image returns a copy of a member's disk for Restore. A test may call it while the member runs. Restored later, the copy is
// an older image of the disk.
func (c *Cluster) Image(id raft.NodeID) *storage.Memory {
	c.t.Helper()
	return c.member(id).disk.Copy()
}

// Restore replaces the disk of a member by a copy of the image. The member must not be running.
func (c *Cluster) Restore(id raft.NodeID, image *storage.Memory) {
	c.t.Helper()
	m := c.member(id)
	if m.node != nil {
		c.t.Fatalf("rafttest: %s is running; crash it before you replace its disk", id)
	}
	m.disk = image.Copy()
}

// Partition splits the members into groups that cannot reach each other. A member that is in no group is alone. The new
// partition replaces an earlier one. If both cut a link, the link stays cut without interruption.
func (c *Cluster) Partition(groups ...[]raft.NodeID) {
	group := func(id raft.NodeID) int {
		return slices.IndexFunc(groups, func(g []raft.NodeID) bool { return slices.Contains(g, id) })
	}
	for i, a := range c.members {
		for _, b := range c.members[i+1:] {
			if ga, gb := group(a.id), group(b.id); ga != gb || ga < 0 {
				c.network.Cut(a.id, b.id)
			} else {
				c.network.Heal(a.id, b.id)
			}
		}
	}
}

// Isolate cuts one member off from all others, which can still reach each other.
func (c *Cluster) Isolate(id raft.NodeID) {
	others := slices.DeleteFunc(c.IDs(), func(other raft.NodeID) bool { return other == id })
	c.Partition(others)
}

// Heal undoes every partition.
func (c *Cluster) Heal() { c.network.HealAll() }

// Leader returns the running node that leads in the highest term. It waits until there is such a node and that node has
// confirmed a read.
func (c *Cluster) Leader() *node.Node {
	c.t.Helper()
	var leader *node.Node
	c.Await("a leader", func() bool {
		leader = c.leader()
		return leader != nil
	})
	return leader
}

func (c *Cluster) leader() (leader *node.Node) {
	var term raft.Term
	for _, m := range c.members {
		if m.node == nil {
			continue
		}
		if s := m.node.Status(); s.Role == raft.Leader && s.Term > term && s.Err == nil {
			leader, term = m.node, s.Term
		}
	}
	if leader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := leader.ReadIndex(ctx); err != nil {
		return nil // it was deposed meanwhile, or is cut off
	}
	return leader
}

// Follower returns a running node that is not the leader.
func (c *Cluster) Follower() *node.Node {
	c.t.Helper()
	leader := c.Leader().Status().ID
	for _, m := range c.members {
		if m.node != nil && m.id != leader {
			return m.node
		}
	}
	c.t.Fatal("rafttest: no follower is running")
	return nil
}

// Converge waits until all running members of the leader's configuration catch up. Each of them then has applied every entry
// that the leader has committed before the call.
func (c *Cluster) Converge() {
	c.t.Helper()
	leader := c.Leader()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	index, err := leader.Barrier(ctx)
	if err != nil {
		c.t.Fatalf("rafttest: converge: %v", err)
	}
	members := leader.Members()
	for _, m := range c.members {
		if _, named := members.Member(m.id); !named || m.node == nil {
			continue
		}
		if err := m.node.WaitApplied(ctx, index); err != nil {
			c.t.Fatalf("rafttest: %s has not applied entry %d: %v", m.id, index, err)
		}
	}
}

// Await checks every few milliseconds whether the condition holds, and returns once it does.
func (c *Cluster) Await(what string, holds func() bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("rafttest: waited %v for %s\n%s", patience, what, c.describe())
		}
	}
}

// describe returns the state of all members, for the message of a failing test.
func (c *Cluster) describe() string {
	out := ""
	for _, m := range c.members {
		if m.node == nil {
			out += fmt.Sprintf("%s is not running\n", m.id)
			continue
		}
		s := m.node.Status()
		out += fmt.Sprintf("%s: %v in term %d, leader %q, last %v, commit %d, applied %d: %s\n",
			m.id, s.Role, s.Term, s.Leader, s.Last, s.Commit, s.Applied, s.LeaderReason)
	}
	return out
}
