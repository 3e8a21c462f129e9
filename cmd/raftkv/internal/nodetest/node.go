// Package nodetest has a stand-in for a node, for tests of what is around it.
package nodetest

import (
	"context"
	"iter"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/kv"
	"github.com/coxswain/raft/node"
)

// Node is a cluster of one without a log: it applies what is proposed at once. It is a server.Node.
type Node struct {
	Store  *kv.Store
	Leader chan raft.Leadership // what Watch sees

	mu     sync.Mutex
	index  raft.Index
	err    error
	ended  error
	status node.Status
}

// New returns a node with an empty store.
func New(id raft.NodeID) *Node {
	return &Node{Store: &kv.Store{}, Leader: make(chan raft.Leadership), status: node.Status{ID: id}}
}

// End makes Err return the error.
func (n *Node) End(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = err
}

// SetStatus sets what Status returns.
func (n *Node) SetStatus(s node.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = s
}

// Fail makes Propose, ReadIndex, TransferLeadership and Ready fail from now on, unless err is nil.
func (n *Node) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Propose applies the command.
func (n *Node) Propose(_ context.Context, cmd []byte) (node.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return node.Result{}, n.err
	}
	n.index++
	results := make([][]byte, 1)
	err := n.Store.Apply([]raft.Entry{{Index: n.index, Term: 1, Kind: raft.EntryCommand, Data: cmd}}, results)
	return node.Result{Index: n.index, Term: 1, Data: results[0]}, err
}

// ReadIndex returns the last index.
func (n *Node) ReadIndex(context.Context) (raft.Index, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.index, n.err
}

// TransferLeadership says that the other one leads.
func (n *Node) TransferLeadership(_ context.Context, to raft.NodeID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status.Leader = to
	return n.err
}

// Ready returns at once.
func (n *Node) Ready(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Status returns what SetStatus was given.
func (n *Node) Status() node.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}

// Err returns what End was given.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// Watch yields what is sent to Leader.
func (n *Node) Watch(ctx context.Context) iter.Seq[raft.Leadership] {
	return func(yield func(raft.Leadership) bool) {
		for {
			select {
			case l := <-n.Leader:
				if !yield(l) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
