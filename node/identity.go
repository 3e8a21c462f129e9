package node

import (
	"cmp"
	crand "crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/handshake"
)

// strangersMax bounds the peers that this member remembers although no configuration names them.
const strangersMax = 4 * raft.MembersMax

// identity holds this member's identity, its knowledge about its peers, and what the peers have said about this member. The
// loop publishes it; the transport's goroutines read it.
type identity struct {
	node    *Node
	self    raft.Peer
	lineage raft.Lineage
	term    atomic.Uint64            // durable term, stored by the writer
	wiped   atomic.Bool              // the cluster knows this id with another incarnation
	kept    *watched[raft.Sightings] // durable part of memory

	mu           sync.Mutex
	initial      raft.Configuration // the list of initial members, of Config.Initial or Bootstrap; empty: none
	begins       bool               // this start has held the first entry of a cluster of that list before its first term
	cluster      raft.ClusterID
	bootstrapper raft.Peer
	config       raft.Configuration              // zero while uninitialized
	configIndex  raft.Index                      // index of the entry that holds config
	removed      []raft.Removal                  // removals that are known to be committed
	memory       raft.Sightings                  // decides handshakes; the writer makes it durable
	dirty        bool                            // memory has changed since the writer took it
	mark         *raft.Mark                      // why this store must no longer be used; nil: it may be used
	live         map[raft.Peer]raft.StartID      // start of each connected peer
	contact      map[raft.Peer]time.Time         // when each peer was last heard
	refusals     map[raft.Peer]raft.Rejection    // present rejections of this member by its contacts
	refused      map[raft.Peer]raft.Rejection    // rejections by this member since the last connection to each peer
	announced    map[raft.Peer]announcement      // what the last connection to each peer has shown of its release
	changed      bool                            // a peer that misnames this member has said that the members are no longer those of entry 1
	misnamed     map[raft.Peer]bool              // what each peer has said last of this id: that other incarnations are its members, or this one
	silent       map[raft.Peer]bool              // callers that are dialed again as soon as they speak
	warned       map[warning][]raft.RejectReason // the rejections logged since the last connection in that direction
}

func newIdentity(n *Node, stored raft.Stored) *identity {
	i := &identity{
		node: n, self: raft.Peer{ID: n.cfg.ID, Incarnation: stored.Incarnation}, lineage: stored.Lineage,
		memory: stored.Memory, kept: newWatched(stored.Memory), live: make(map[raft.Peer]raft.StartID),
		initial:   raft.NewConfiguration(n.cfg.Initial),
		refused:   make(map[raft.Peer]raft.Rejection),
		announced: make(map[raft.Peer]announcement), misnamed: make(map[raft.Peer]bool), silent: make(map[raft.Peer]bool),
		contact: make(map[raft.Peer]time.Time), refusals: make(map[raft.Peer]raft.Rejection), warned: make(map[warning][]raft.RejectReason),
	}
	i.term.Store(uint64(stored.Hard.Term))
	return i
}

// publish copies the parts of the core's status that handshakes need. The loop calls publish when the configuration or the
// bootstrap may have changed.
func (i *identity) publish(s raft.CoreStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cluster, i.bootstrapper, i.config = s.Cluster, s.Bootstrapper, raft.Configuration{}
	if s.Cluster != (raft.ClusterID{}) {
		i.config, i.configIndex = s.Config, s.ConfigIndex
	}
	if s.Term == 0 && len(s.Config.Members) > 0 {
		i.initial, i.begins = s.Config, s.Cluster != raft.ClusterID{} // Bootstrap may have given it
	}
	i.removed = s.Removals
	i.updateWiped()
}

// updateWiped decides whether this member is wiped. The member is wiped if three conditions hold: it belongs to no cluster,
// some peer's configuration names its id with another incarnation, and no peer's configuration names its own incarnation.
// Members of earlier releases, and members of a cluster without a term, reject a wiped member instead. i.mu is held.
func (i *identity) updateWiped() {
	wiped := i.cluster == (raft.ClusterID{}) && i.term.Load() == 0 && len(i.misnamed) > 0
	for _, misnamed := range i.misnamed {
		wiped = wiped && misnamed
	}
	_, named := i.config.Peer(i.self)
	for _, r := range i.refusals {
		wiped = wiped || r.Reason == raft.RejectNamedOther && !named
	}
	if i.wiped.Swap(wiped) != wiped {
		i.node.watched.wakeAll()
	}
}

// noteNaming remembers how a peer's configuration names this member. i.mu is held.
func (i *identity) noteNaming(v *handshake.View, h raft.Hello) {
	switch {
	case v.Misnames(h):
		i.changed = i.changed || h.NamedIndex > 1
		if _, known := i.misnamed[h.From]; known || len(i.misnamed) < strangersMax {
			i.misnamed[h.From] = true
		}
	case slices.Contains(h.Named, i.self.Incarnation) && len(i.misnamed) < strangersMax:
		i.misnamed[h.From] = false
	default:
		delete(i.misnamed, h.From)
	}
	i.updateWiped()
}

// known returns the configuration in force, or Config.Initial while there is none.
func (i *identity) known() raft.Configuration {
	if len(i.config.Members) > 0 {
		return i.config
	}
	return i.initial
}

// leader returns what is known of the leader, which may be just its id.
func (i *identity) leader(l raft.Leadership) raft.Member {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m, ok := i.known().Peer(raft.Peer{ID: l.Leader, Incarnation: l.LeaderIncarnation}); ok {
		return m
	}
	if m, ok := i.known().Member(l.Leader); ok {
		return m
	}
	return raft.Member{ID: l.Leader}
}

// handshake returns the state that decides a handshake with a peer. i.mu is held.
func (i *identity) handshake(with raft.Peer) *handshake.View {
	// The loop publishes the removals of an entry before it counts the entry as committed.
	commit := raft.Index(i.node.counters.committed.Load())
	return &handshake.View{
		Self: i.self, Commit: commit, ClusterName: i.node.cfg.Cluster, Cluster: i.cluster, Term: raft.Term(i.term.Load()),
		Bootstrapper: i.bootstrapper, Config: i.config, ConfigIndex: i.configIndex, Removed: i.removed, Initial: i.initial,
		Lineage: i.lineage, Memory: i.memory, Live: i.live[with],
	}
}

// hello returns this member's hello. It contains only durable state.
func (i *identity) hello(to raft.Peer) raft.Hello {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.handshake(to)
	v.Memory, _ = i.kept.load()
	h := v.Hello(to, i.node.cfg.ElectionTimeout)
	h.Address, h.Release = cmp.Or(i.node.cfg.Advertise, h.Address), release()
	own := i.node.settings()
	h.AppendBytesMax, h.CommandBytesMax, h.NoSnapshots, h.AppVersion = own.appendBytesMax, own.commandBytesMax, own.noSnapshots, own.appVersion
	return h
}

// admit decides whether this member talks to a peer. Before it accepts the peer, it waits until the facts that this member
// must remember about the peer are durable.
func (i *identity) admit(h raft.Hello) *raft.Rejection {
	i.mu.Lock()
	v := i.handshake(h.From)
	verdict := v.Judge(h)
	if r := verdict.Rejection; r == nil || r.Reason == raft.RejectWrongIncarnation {
		i.noteNaming(v, h)
	}
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

// rememberWaitMax is how long a handshake waits for the disk. It is less than the limit of transports for a handshake.
// The write continues even if the handshake gives up, so that a later handshake succeeds at once.
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
		return i.handshake(h.From).Reject(h, raft.RejectSlowDisk, "after %v", rememberWaitMax)
	}
}

// setMark keeps the first mark for the writer. The writer makes the mark durable and then ends the node. From the call of
// setMark on, the node refuses new calls. A nil mark changes nothing. i.mu is held.
func (i *identity) setMark(m *raft.Mark) {
	if i.mark == nil && m != nil {
		i.mark = m
		i.node.mark.CompareAndSwap(nil, m)
	}
}

// unwritten returns the memory and the mark that the writer has to make durable. Each is nil if there is nothing to write.
func (i *identity) unwritten() (memory *raft.Sightings, mark *raft.Mark) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dirty {
		i.dirty = false
		m := i.memory
		memory = &m
	}
	return memory, i.mark
}

// mayJoin returns an error if the sender's store cannot become the store of a new member. It returns nil if the store can.
func (i *identity) mayJoin(h raft.Hello) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handshake(h.From).MayJoin(h)
}

// hear records that a peer was heard from. i.mu is held.
func (i *identity) hear(p raft.Peer) {
	if _, known := i.contact[p]; known || len(i.contact) < strangersMax {
		i.contact[p] = time.Now()
	}
	if len(i.silent) > 0 && i.silent[p] {
		delete(i.silent, p)
		i.node.contacts.signal.wake()
	}
}

// warning is the key under which rejections are logged: a peer and a direction.
type warning struct {
	peer raft.Peer
	what string // wasRefused or hasRefused
}

const (
	wasRefused = "was refused by a member" // this member dialed
	hasRefused = "refused a member"        // the peer dialed
)

// warn logs a rejection once for each peer, direction and reason, until a connection in that direction is made. It remembers
// all reasons, because two members that reject each other may alternate between two reasons. If a member was replaced and its
// successor answers a dial, warn logs nothing: the replacement is done, and the dial began before it.
func (i *identity) warn(of warning, r *raft.Rejection) {
	i.mu.Lock()
	_, replaced := i.config.Peer(r.From)
	logged, known := i.warned[of]
	again := r.Reason == raft.RejectWrongIncarnation && replaced ||
		slices.Contains(logged, r.Reason) || !known && len(i.warned) >= strangersMax
	if !again {
		i.warned[of] = append(logged, r.Reason)
	}
	i.mu.Unlock()
	if !again {
		i.node.logger.log(hclog.Warn, of.what, "member", of.peer.ID, "reason", r.Reason.String(), "error", r)
	}
}

// noteRejection remembers how a peer rejects this member.
func (i *identity) noteRejection(by raft.Peer, r raft.Rejection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.refusals[by]; known || len(i.refusals) < strangersMax {
		i.refusals[by] = r
	}
	i.updateWiped()
}

// noteOwnRejection remembers how this member has rejected a peer. If the peer asked for the member that this one has replaced,
// that says nothing about the two.
func (i *identity) noteOwnRejection(p raft.Peer, r *raft.Rejection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.Reason == raft.RejectWrongIncarnation && !r.OfEmptiedDisk() {
		return
	}
	if _, known := i.refused[p]; known || len(i.refused) < strangersMax {
		i.refused[p] = *r
	}
}

// seen returns three facts about a member: when this member last heard it, how it rejects this member at present, and how
// this member has rejected it since their last connection. A nil rejection means none. An incarnation of 0 in p means any
// incarnation.
func (i *identity) seen(p raft.Peer) (heard time.Time, refusal, refused *raft.Rejection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	heard = i.contact[p]
	for other, at := range i.contact {
		if p.Incarnation == 0 && other.ID == p.ID && at.After(heard) {
			heard = at
		}
	}
	for _, of := range []raft.Peer{{ID: p.ID}, p} { // the contact may be open
		if r, refused := i.refusals[of]; refused {
			refusal = &r
		}
	}
	if r, found := i.refused[p]; found {
		refused = &r
	}
	return heard, refusal, refused
}

// accepted forgets how this member has rejected a peer.
func (i *identity) accepted(p raft.Peer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.refused, p)
	delete(i.warned, warning{p, hasRefused})
}

// awaitCallers sets the silent callers. As soon as this member hears one of them, it dials that caller again.
func (i *identity) awaitCallers(silent []raft.Peer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.silent)
	for _, p := range silent {
		i.silent[p] = true
	}
}

// retain forgets the contact with all peers for which keep returns false.
func (i *identity) retain(keep func(raft.Peer) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.contact, func(p raft.Peer, _ time.Time) bool { return !keep(p) })
	maps.DeleteFunc(i.announced, func(p raft.Peer, _ announcement) bool { return !keep(p) })
	maps.DeleteFunc(i.refusals, func(p raft.Peer, _ raft.Rejection) bool { return !keep(p) })
	maps.DeleteFunc(i.refused, func(p raft.Peer, _ raft.Rejection) bool { return !keep(p) })
	maps.DeleteFunc(i.warned, func(of warning, _ []raft.RejectReason) bool { return !keep(of.peer) })
	i.updateWiped()
}

// belongsTo returns the cluster of this member; zero while it is uninitialized.
func (i *identity) belongsTo() raft.ClusterID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cluster
}

// randomNumber is never 0.
func randomNumber() uint64 {
	var b [8]byte
	for {
		crand.Read(b[:]) // never fails
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}
