package node

import (
	"context"
	"slices"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// contacts is the goroutine that makes the transport dial peers and close connections. It also ends the senders to peers that
// are no longer dialed. It exists because methods of the Handler must not call the transport. pipeline.Contacts decides which
// peers to dial.
type contacts struct {
	node   *Node
	signal signal

	mu      sync.Mutex
	book    *pipeline.Contacts
	changes uint64 // invitations that have begun, plus those that have ended

	dialed *watched[uint64] // the number of changes that the transport knows of
}

func newContacts(n *Node, stored raft.Stored) *contacts {
	c := &contacts{node: n, signal: newSignal(), dialed: newWatched(uint64(0))}
	c.book = pipeline.NewContacts(n.identity.self, n.cfg.Advertise, n.cfg.ElectionTimeout)
	c.book.Stored(stored.Log)
	return c
}

// publish passes on the configuration. The loop calls it when the configuration, or its known commit, may have changed.
func (c *contacts) publish(s raft.CoreStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Term > 0 {
		c.book.Begin()
	}
	c.book.Config(c.node.now().Mono, s.Config, s.ConfigCommitted == s.ConfigIndex)
	c.book.Removed(s.Removals)
	c.signal.wake()
}

// called notes a connection that a peer has dialed and this member has accepted.
func (c *contacts) called(h raft.Hello) {
	cluster := c.node.identity.belongsTo()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	c.book.Called(c.node.now().Mono, h, cluster)
	c.signal.wake()
}

// invite has a joining member dialed.
func (c *contacts) invite(m raft.Member) { c.change(func() { c.book.Invite(m) }) }

// uninvite ends invite.
func (c *contacts) uninvite(id raft.NodeID) { c.change(func() { c.book.Uninvite(id) }) }

func (c *contacts) change(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
	c.changes++
	c.signal.wake()
}

// settled returns once the transport knows of all invitations that have begun or ended. Only then does the transport dial the
// member of a new invitation anew. The invitation needs a new connection, because only a new connection shows which process
// answers.
func (c *contacts) settled(ctx context.Context) error {
	c.mu.Lock()
	changes := c.changes
	c.mu.Unlock()
	for {
		dialed, changed := c.dialed.load()
		if dialed >= changes {
			return nil
		}
		select {
		case <-changed:
		case <-c.node.stop:
			return c.node.ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hear records in the book when each caller was last heard. mu is held.
func (c *contacts) hear() {
	all, _ := c.book.Callers(0)
	for _, p := range all {
		if at, _, _ := c.node.identity.seen(p); !at.IsZero() {
			c.book.Heard(p, raft.Time(at.Sub(c.node.base)+1))
		}
	}
}

func (c *contacts) run() {
	defer func() { c.node.fail(&TransportError{Op: "connect", Err: errGoexit}) }()
	c.node.serve(c.signal, c.advance)
}

// advance gives the transport the list of peers to dial, if the list has changed. It returns the time at which the list may
// change next without a call of change.
func (c *contacts) advance() raft.Time {
	memory, _ := c.node.identity.kept.load()
	c.mu.Lock()
	c.hear()
	c.book.Memory(memory)
	changes := c.changes
	defer func() { c.dialed.publish(changes) }()
	now := c.node.now().Mono
	dialed, changed, wake := c.book.Dial(now)
	callers, silent := c.book.Callers(now)
	expelled := c.book.Expel()
	c.mu.Unlock()
	for _, p := range expelled {
		c.node.disconnect(p)
	}
	c.node.identity.awaitCallers(silent)
	if !changed {
		return wake
	}
	c.node.connect(dialed)
	isDialed := func(p raft.Peer) bool {
		return slices.ContainsFunc(dialed, func(k raft.Contact) bool { return k.Peer() == p || k.Peer() == raft.Peer{ID: p.ID} })
	}
	c.node.senders.retain(isDialed)
	c.node.forwards.retain(isDialed)
	c.node.identity.retain(func(p raft.Peer) bool { return isDialed(p) || slices.Contains(callers, p) })
	return wake
}
