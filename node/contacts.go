package node

import (
	"context"
	"slices"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// contacts is the goroutine that tells the transport whom to dial, and whose connections to close, and ends the senders to
// everybody else: methods of the
// Handler must not call the transport. Whom to dial decides pipeline.Contacts.
type contacts struct {
	node   *Node
	signal signal

	mu   sync.Mutex
	book *pipeline.Contacts
	told uint64 // how many invitations have begun or ended

	carried *watched[uint64] // of how many of those the transport knows
}

func newContacts(n *Node, stored raft.Stored) *contacts {
	c := &contacts{node: n, signal: newSignal(), carried: newWatched(uint64(0))}
	c.book = pipeline.NewContacts(n.identity.self, n.cfg.Advertise, n.cfg.ElectionTimeout)
	c.book.Stored(stored.Log)
	return c
}

// publish is called by the loop when the configuration, or what is known of its commit, may have changed.
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

// called is called when a connection that a peer has dialed was accepted.
func (c *contacts) called(h raft.Hello) {
	cluster := c.node.identity.belongsTo()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	c.book.Called(c.node.now().Mono, h, cluster)
	c.signal.wake()
}

// invite has a member dialed that is to join.
func (c *contacts) invite(m raft.Member) { c.tell(func() { c.book.Invite(m) }) }

// uninvite ends invite.
func (c *contacts) uninvite(id raft.NodeID) { c.tell(func() { c.book.Uninvite(id) }) }

func (c *contacts) tell(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
	c.told++
	c.signal.wake()
}

// settled returns once the transport knows of all invitations that have begun or ended. A member that is invited again is
// dialed anew from then on: an invitation learns who answers only from a connection that is made while it is open.
func (c *contacts) settled(ctx context.Context) error {
	c.mu.Lock()
	told := c.told
	c.mu.Unlock()
	for {
		carried, changed := c.carried.load()
		if carried >= told {
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

// hear tells the book when its callers were heard last. mu is held.
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

// advance tells the transport whom to dial, if that has changed, and returns when it may change by itself.
func (c *contacts) advance() raft.Time {
	memory, _ := c.node.identity.kept.load()
	c.mu.Lock()
	c.hear()
	c.book.Memory(memory)
	told := c.told
	defer func() { c.carried.publish(told) }()
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
	c.node.identity.retain(func(p raft.Peer) bool { return isDialed(p) || slices.Contains(callers, p) })
	return wake
}
