package rafttest

import (
	"cmp"
	"context"
	"io"
	"iter"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// Fake stands in for a node.Node in tests of code that uses a node. It behaves like a cluster of one member without a log: it
// applies each proposal at once, and fails if the test requests it. Any goroutine may call its methods.
type Fake[F raft.FSM] struct {
	FSM F
	// Leader is the channel from which Watch takes the values that it yields after the first.
	Leader chan raft.Leadership

	mu      sync.Mutex
	index   raft.Index
	err     error
	ended   error
	status  node.Status
	members node.Members
}

// NewFake returns a fake node with this id and state machine.
func NewFake[F raft.FSM](id raft.NodeID, fsm F) *Fake[F] {
	leads := raft.Leadership{Term: 1, Leader: id, Role: raft.Leader}
	return &Fake[F]{FSM: fsm, Leader: make(chan raft.Leadership), status: node.Status{ID: id, Leadership: leads}}
}

// End sets the result of Err.
func (n *Fake[F]) End(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = err
}

// SetStatus sets the result of Status.
func (n *Fake[F]) SetStatus(s node.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = s
}

// SetMembers sets the result of Members and ChangeMembers.
func (n *Fake[F]) SetMembers(m node.Members) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members = m
}

// Fail makes Propose, ProposeSession, ReadIndex, ReadIndexWith, TransferLeadership, Snapshot, Backup, ChangeMembers and Ready fail with err from now
// on. Nil lets them succeed again.
func (n *Fake[F]) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Propose applies the command.
func (n *Fake[F]) Propose(_ context.Context, cmd []byte) (node.Result, error) {
	return n.apply(raft.EntryCommand, cmd)
}

// ProposeSession applies the entry of a session. FSM must be a raft.SessionFSM.
func (n *Fake[F]) ProposeSession(_ context.Context, entry []byte) (node.Result, error) {
	if !raft.AppliesSessions(n.FSM) {
		return node.Result{}, &node.NoSessionsError{}
	}
	return n.apply(raft.EntrySession, entry)
}

// ClusterID returns that of the value that SetStatus set.
func (n *Fake[F]) ClusterID() raft.ClusterID { return n.Status().Cluster }

func (n *Fake[F]) apply(kind raft.EntryKind, data []byte) (node.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return node.Result{}, n.err
	}
	n.index++
	results := make([][]byte, 1)
	err := n.FSM.Apply([]raft.Entry{{Index: n.index, Term: 1, Kind: kind, Data: data}}, results)
	return node.Result{Index: n.index, Term: 1, Data: results[0]}, err
}

// ReadIndex returns the index of the last command.
func (n *Fake[F]) ReadIndex(context.Context) (raft.Index, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.index, n.err
}

// ReadIndexWith is as ReadIndex, for every consistency that is valid.
func (n *Fake[F]) ReadIndexWith(ctx context.Context, c raft.Consistency) (raft.Index, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	return n.ReadIndex(ctx)
}

// TransferLeadership makes Status name the other member as the leader. Without a name, that member has a new
// name.
func (n *Fake[F]) TransferLeadership(_ context.Context, to raft.NodeID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status.Leader = cmp.Or(to, n.status.Leader+"'")
	return n.err
}

// Snapshot returns the id of the last command at once. It takes no snapshot.
func (n *Fake[F]) Snapshot(context.Context) (raft.EntryID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return raft.EntryID{Term: 1, Index: n.index}, n.err
}

// Backup returns the id of the last command at once. It writes nothing.
func (n *Fake[F]) Backup(ctx context.Context, _ io.Writer) (raft.EntryID, error) {
	return n.Snapshot(ctx)
}

// ChangeMembers changes nothing, and returns the value that SetMembers set.
func (n *Fake[F]) ChangeMembers(context.Context, raft.Change, raft.Index) (node.Members, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members, n.err
}

// Members returns the value of SetMembers.
func (n *Fake[F]) Members() node.Members {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members
}

// Ready returns at once, with the error that Fail set.
func (n *Fake[F]) Ready(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Status returns the value that SetStatus set. A later TransferLeadership changes the leader in it.
func (n *Fake[F]) Status() node.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}

// AppVersionMin returns that of the value that SetStatus set.
func (n *Fake[F]) AppVersionMin() uint64 { return n.Status().AppVersionMin }

// WriteTrace writes nothing.
func (n *Fake[F]) WriteTrace(io.Writer) error { return nil }

// Decisions returns nothing.
func (n *Fake[F]) Decisions(uint64) []node.Decision { return nil }

// Metrics returns zeros.
func (n *Fake[F]) Metrics() node.Metrics { return node.Metrics{} }

// Err returns the error of End.
func (n *Fake[F]) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// Watch yields the leadership in the status, and then the values that the test sends to the channel Leader.
func (n *Fake[F]) Watch(ctx context.Context) iter.Seq[raft.Leadership] {
	return func(yield func(raft.Leadership) bool) {
		for more := yield(n.Status().Leadership); more; {
			select {
			case l := <-n.Leader:
				more = yield(l)
			case <-ctx.Done():
				return
			}
		}
	}
}
