package node

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// guarded calls f, which is not ours, and turns a panic into an error: it ends the node at most, and not
// the process.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// connect tells the transport whom to dial.
func (n *Node) connect(peers []raft.Member) {
	err := guarded(func() error { n.transport.Connect(peers); return nil })
	if err != nil {
		n.fail(&raft.TransportError{Op: "connect", Err: err})
	}
}

// connection asks the transport about a peer.
func (n *Node) connection(id raft.NodeID) (s raft.PeerStatus) {
	err := guarded(func() error { s = n.transport.Peer(id); return nil })
	if err != nil {
		return raft.PeerStatus{Err: err}
	}
	return s
}

// guardedLogger is Config.Logger. A line is worth less than a node, so that a panic of the logger does not
// end it; but the logger may have left a lock behind, and is not called again.
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

// guardedEntries is the storage of those who read the log: a panic of its is an error.
type guardedEntries struct{ storage raft.Storage }

func (g guardedEntries) Entries(span raft.Span, bytesMax int) (entries []raft.Entry, err error) {
	err = guarded(func() (err error) { entries, err = g.storage.Entries(span, bytesMax); return err })
	return entries, err
}
