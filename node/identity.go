package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// strangersMax bounds what is remembered of peers that no configuration names.
const strangersMax = 4 * raft.MembersMax

// identity holds this member's identity, what it knows of its peers, and what they have told it about itself.
// The loop publishes it; the transport's goroutines read it.
type identity struct {
	node    *Node
	self    raft.Peer
	lineage raft.Lineage
	initial raft.Configuration
	term    atomic.Uint64         // the durable one, stored by the writer
	wiped   atomic.Bool           // the cluster knows this id with another incarnation
	kept    *watched[raft.Memory] // the durable part of memory

	mu           sync.Mutex
	cluster      raft.ClusterID
	bootstrapper raft.Peer
	config       raft.Configuration                  // zero while uninitialized
	memory       raft.Memory                         // decides handshakes; the writer makes it durable
	dirty        bool                                // memory has changed since the writer took it
	mark         *raft.Mark                          // nil, or why this store must not be used any longer
	live         map[raft.NodeID]raft.StartID        // the start of each connected peer
	contact      map[raft.NodeID]time.Time           // when each peer was last heard from
	refusals     map[raft.NodeID]raft.Rejection      // the peers that reject this member at present, and why
	misnamed     map[raft.NodeID]bool                // the peers, in a term above 0, that expected another incarnation of this member
	warned       map[raft.NodeID][]raft.RejectReason // the rejections logged for each peer since its last connection
}

func newIdentity(n *Node, stored raft.Stored) *identity {
	i := &identity{
		node: n, self: raft.Peer{ID: n.cfg.ID, Incarnation: stored.Incarnation}, lineage: stored.Lineage,
		memory: stored.Memory, kept: newWatched(stored.Memory), live: make(map[raft.NodeID]raft.StartID),
		initial:  raft.NewConfiguration(n.cfg.Initial),
		misnamed: make(map[raft.NodeID]bool),
		contact:  make(map[raft.NodeID]time.Time), refusals: make(map[raft.NodeID]raft.Rejection), warned: make(map[raft.NodeID][]raft.RejectReason),
	}
	i.term.Store(uint64(stored.Hard.Term))
	return i
}

// publish is called by the loop when the configuration or the bootstrap may have changed.
func (i *identity) publish(s raft.CoreStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cluster, i.bootstrapper, i.config = s.Cluster, s.Bootstrapper, raft.Configuration{}
	if s.Cluster != (raft.ClusterID{}) {
		i.config = s.Config
	}
	i.updateWiped()
}

// updateWiped decides whether this member is wiped: a peer has shown a configuration that names its id with another
// incarnation, and its own configuration does not name it. A member without a list of initial members dials
// nobody, so nobody can show it a configuration; it is wiped if a peer in a term above 0 expects another
// incarnation of it. i.mu is held.
func (i *identity) updateWiped() {
	me, _ := i.config.Member(i.self.ID)
	wiped := len(i.misnamed) > 0 && i.cluster == raft.ClusterID{} && i.term.Load() == 0
	for _, r := range i.refusals {
		wiped = wiped || r.Reason == raft.RejectNamedOther && me.Incarnation != i.self.Incarnation
	}
	if i.wiped.Swap(wiped) != wiped {
		i.node.watched.wakeAll()
	}
}

// known returns the configuration in force, or Config.Initial while there is none.
func (i *identity) known() raft.Configuration {
	if len(i.config.Members) > 0 {
		return i.config
	}
	return i.initial
}

// member returns what is known of a member, which may be just its id.
func (i *identity) member(id raft.NodeID) raft.Member {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m, ok := i.known().Member(id); ok {
		return m
	}
	return raft.Member{ID: id}
}

// handshake returns the state that decides a handshake with that peer. i.mu is held.
func (i *identity) handshake(with raft.NodeID) *raft.Handshake {
	return &raft.Handshake{
		Self: i.self, ClusterName: i.node.cfg.Cluster, Cluster: i.cluster, Term: raft.Term(i.term.Load()),
		Bootstrapper: i.bootstrapper, Config: i.config, Initial: i.initial, Lineage: i.lineage, Memory: i.memory,
		Live: i.live[with],
	}
}

// hello returns this member's hello, which contains only what is durable.
func (i *identity) hello(to raft.NodeID) raft.Hello {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.handshake(to)
	v.Memory, _ = i.kept.load()
	return v.Hello(to, i.node.cfg.ElectionTimeout)
}

// admit decides whether this member talks to a peer, and waits until what it must remember of the peer is durable.
func (i *identity) admit(h raft.Hello) *raft.Rejection {
	i.mu.Lock()
	verdict := i.handshake(h.From.ID).Judge(h)
	if verdict.Memory != nil {
		i.memory, i.dirty = *verdict.Memory, true
	}
	i.setMark(verdict.Mark)
	i.mu.Unlock()
	if verdict.Memory != nil || verdict.Mark != nil {
		i.node.writer.queue.wake()
	}
	if verdict.Rejection != nil {
		return verdict.Rejection
	}
	return i.awaitKept(h)
}

// rememberWaitMax is how long a handshake waits for the disk. It is below the time that transports give a
// handshake. The memory is written even if the handshake gives up, so that a later handshake succeeds at once.
const rememberWaitMax = 1500 * time.Millisecond

func (i *identity) awaitKept(h raft.Hello) *raft.Rejection {
	var deadline <-chan time.Time
	for {
		kept, changed := i.kept.load()
		if kept.SeenOf(h.From).Start == h.Lineage.Last() {
			return nil
		}
		if deadline == nil {
			timer := time.NewTimer(rememberWaitMax)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-changed:
			continue
		case <-i.node.stop:
		case <-deadline:
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.handshake(h.From.ID).Reject(h, raft.RejectSlowDisk, "after %v", rememberWaitMax)
	}
}

// setMark keeps the first mark for the writer, which ends the node once the mark is durable. From now on the
// node refuses new calls. i.mu is held.
func (i *identity) setMark(m *raft.Mark) {
	if i.mark == nil && m != nil {
		i.mark = m
		i.node.mark.CompareAndSwap(nil, m)
	}
}

// unwritten returns what the writer has to make durable, nil for nothing.
func (i *identity) unwritten() (memory *raft.Memory, mark *raft.Mark) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dirty {
		i.dirty = false
		m := i.memory
		memory = &m
	}
	return memory, i.mark
}

// hear records that a peer was heard from. i.mu is held.
func (i *identity) hear(id raft.NodeID) {
	if _, known := i.contact[id]; known || len(i.contact) < strangersMax {
		i.contact[id] = time.Now()
	}
}

// warn logs a rejection, once for each peer and reason until the peer connects: two members that reject each
// other may alternate between two reasons at every dial.
func (i *identity) warn(peer raft.NodeID, reason raft.RejectReason, what string, r *raft.Rejection) {
	i.mu.Lock()
	logged, known := i.warned[peer]
	again := slices.Contains(logged, reason) || !known && len(i.warned) >= strangersMax
	if !again {
		i.warned[peer] = append(logged, reason)
	}
	i.mu.Unlock()
	if !again {
		i.node.logger.log(hclog.Warn, what, "member", peer, "reason", r.Reason.String(), "error", r)
	}
}

// seen returns when each member was last heard from, and which peers reject this member.
func (i *identity) seen() (contact map[raft.NodeID]time.Time, refusals map[raft.NodeID]raft.Rejection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.contact), maps.Clone(i.refusals)
}

// addMisnamed records that a peer expected another incarnation of this member. That proves nothing before the first
// term of the peer's cluster: a bootstrap may be repeated with members whose disks were emptied. Nor does it if
// this member has a list of initial members that does not name the peer: a member left over from an earlier
// cluster must not stop the new one.
func (i *identity) addMisnamed(h raft.Hello) {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, listed := i.initial.Member(h.From.ID)
	if h.Term > 0 && (listed || len(i.initial.Members) == 0) && len(i.misnamed) < strangersMax {
		i.misnamed[h.From.ID] = true
		i.updateWiped()
	}
}

// others returns the members of the configuration except this one.
func (i *identity) others(c raft.Configuration) []raft.Member {
	return slices.DeleteFunc(slices.Clone(c.Members), func(m raft.Member) bool { return m.ID == i.self.ID })
}
