package node

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// guarded calls f, which calls code of the user. It returns a panic as an error, so that a panic ends at most the node
// and not the process.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// connect gives the transport the peers to dial.
func (n *Node) connect(contacts []raft.Contact) {
	err := guarded(func() error { n.transport.Connect(contacts); return nil })
	if err != nil {
		n.fail(&TransportError{Op: "connect", Err: err})
	}
}

// disconnect has the transport close the connections of a peer.
func (n *Node) disconnect(p raft.Peer) {
	err := guarded(func() error { n.transport.Disconnect(p); return nil })
	if err != nil {
		n.fail(&TransportError{Op: "disconnect", Err: err})
	}
}

// connection asks the transport about a peer.
func (n *Node) connection(p raft.Peer) (s raft.PeerStatus) {
	err := guarded(func() error { s = n.transport.Peer(p); return nil })
	if err != nil {
		return raft.PeerStatus{Err: err}
	}
	return s
}

// guardedLogger wraps Config.Logger. If the logger panics, the node does not end. The node does not call the logger again,
// because the logger may still hold a lock.
type guardedLogger struct {
	logger hclog.Logger
	broken atomic.Bool
}

func (g *guardedLogger) log(level hclog.Level, message string, args ...any) {
	if g.broken.Load() {
		return
	}
	err := guarded(func() error { g.logger.Log(level, message, args...); return nil })
	if err != nil {
		g.broken.Store(true)
	}
}

// guardedEntries wraps the storage for readers of the log: a panic of the storage becomes an error.
type guardedEntries struct{ storage raft.Storage }

func (g guardedEntries) Entries(span raft.Span, bytesMax int) (entries []raft.Entry, err error) {
	err = guarded(func() (err error) { entries, err = g.storage.Entries(span, bytesMax); return err })
	return entries, err
}
