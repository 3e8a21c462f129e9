package member

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// readyAgain is the time between two looks at a member whose disk was emptied.
const readyAgain = 100 * time.Millisecond

// Propose is as node.Node.Propose: it commits a command and returns the answer of the FSM.
func (m *Member) Propose(ctx context.Context, cmd []byte) (node.Result, error) {
	return m.node.Propose(ctx, cmd)
}

// ProposeSession is as node.Node.ProposeSession: it is for package session.
func (m *Member) ProposeSession(ctx context.Context, entry []byte) (node.Result, error) {
	return m.node.ProposeSession(ctx, entry)
}

// ClusterID is as node.Node.ClusterID: the id of this member's cluster.
func (m *Member) ClusterID() raft.ClusterID { return m.node.ClusterID() }

// ReadIndex is as node.Node.ReadIndex: afterwards, the state of this member has everything that was acknowledged before.
func (m *Member) ReadIndex(ctx context.Context) (raft.Index, error) { return m.node.ReadIndex(ctx) }

// ReadIndexWith is as node.Node.ReadIndexWith: ReadIndex for a state that is as fresh as c says.
func (m *Member) ReadIndexWith(ctx context.Context, c raft.Consistency) (raft.Index, error) {
	return m.node.ReadIndexWith(ctx, c)
}

// Read is as node.Node.Read: it calls f while this member's state has everything that was acknowledged before.
func (m *Member) Read(ctx context.Context, f func()) error { return m.node.Read(ctx, f) }

// ReadWith is as node.Node.ReadWith: it calls f while this member's state is as fresh as c says.
func (m *Member) ReadWith(ctx context.Context, c raft.Consistency, f func()) error {
	return m.node.ReadWith(ctx, c, f)
}

// WaitApplied is as node.Node.WaitApplied: it waits until this member has applied the entry.
func (m *Member) WaitApplied(ctx context.Context, index raft.Index) error {
	return m.node.WaitApplied(ctx, index)
}

// ChangeMembers is as node.Node.ChangeMembers: it changes the members of the cluster. If another member leads, Members of this one
// may show the change later: use the result.
func (m *Member) ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (node.Members, error) {
	return m.node.ChangeMembers(ctx, c, ifIndex)
}

// TransferLeadership is as node.Node.TransferLeadership: it makes another member the leader.
func (m *Member) TransferLeadership(ctx context.Context, to raft.NodeID) error {
	return m.node.TransferLeadership(ctx, to)
}

// RunAsLeader is as node.Node.RunAsLeader: it runs f while this member leads. It cannot promise that f never overlaps with that of
// the next leader: only the term, as a fencing token, protects a resource.
func (m *Member) RunAsLeader(ctx context.Context, f func(ctx context.Context, term raft.Term) error) error {
	return m.node.RunAsLeader(ctx, f)
}

// Snapshot is as node.Node.Snapshot: it takes a snapshot now.
func (m *Member) Snapshot(ctx context.Context) (raft.EntryID, error) { return m.node.Snapshot(ctx) }

// Backup is as node.Node.Backup: it writes a backup of everything that was acknowledged before.
func (m *Member) Backup(ctx context.Context, w io.Writer) (raft.EntryID, error) {
	return m.node.Backup(ctx, w)
}

// SetLeaseDuration is as node.Node.SetLeaseDuration: it sets how long leases last, for all members; 0: there are none.
func (m *Member) SetLeaseDuration(ctx context.Context, d time.Duration) (node.Members, error) {
	return m.node.SetLeaseDuration(ctx, d)
}

// AppVersionMin is as node.Node.AppVersionMin: from which version on new commands may be proposed.
func (m *Member) AppVersionMin() uint64 { return m.node.AppVersionMin() }

// Members is as node.Node.Members: the configuration in force.
func (m *Member) Members() node.Members { return m.node.Members() }

// Watch is as node.Node.Watch: it yields each change of the leader.
func (m *Member) Watch(ctx context.Context) iter.Seq[raft.Leadership] { return m.node.Watch(ctx) }

// Ready is as node.Node.Ready: it waits until this member serves. With Founders or Seeds, it also waits for a member whose disk was
// emptied, which asks to join.
func (m *Member) Ready(ctx context.Context) error {
	for {
		err := m.node.Ready(ctx)
		if unready := (*node.NotReadyError)(nil); m.seeker != nil && errors.As(err, &unready) {
			unready.Reason = m.Status().LeaderReason
		}
		if m.seeker == nil || !errors.Is(err, node.ErrWiped) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(readyAgain):
		}
	}
}

// Metrics is as node.Node.Metrics: the counters of the node.
func (m *Member) Metrics() node.Metrics { return m.node.Metrics() }

// Decisions is as node.Node.Decisions.
func (m *Member) Decisions(after uint64) []node.Decision { return m.node.Decisions(after) }

// WriteTrace is as node.Node.WriteTrace: it writes the latest decisions of this member.
func (m *Member) WriteTrace(w io.Writer) error { return m.node.WriteTrace(w) }
