package raft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// strangersMax bounds what is remembered of peers that no configuration names.
const strangersMax = 4 * MembersMax

// identity is who this member is, what it knows of the others, and what they say of it. The loop
// publishes it, the transport's goroutines read it.
type identity struct {
	node     *Node
	self     Peer
	boot     uint64
	initial  Configuration
	term     atomic.Uint64 // the durable one
	isolated atomic.Bool   // wiped: the cluster knows this id with another incarnation

	mu       sync.Mutex
	cluster  ClusterID
	founder  Peer
	config   Configuration              // zero while blank
	boots    map[Peer]uint64            // the highest seen
	contact  map[NodeID]time.Time       // when it was last heard
	refusals map[NodeID]Refusal         // by which peer this member is refused at present, and why
	warned   map[NodeID][]RefusalReason // what was logged about a peer since it was last connected
}

func newIdentity(n *Node, stored Stored) *identity {
	i := &identity{
		node: n, self: Peer{n.cfg.ID, stored.Incarnation}, boot: stored.Boot,
		initial: NewConfiguration(n.cfg.Initial), boots: make(map[Peer]uint64),
		contact: make(map[NodeID]time.Time), refusals: make(map[NodeID]Refusal), warned: make(map[NodeID][]RefusalReason),
	}
	i.term.Store(uint64(stored.Hard.Term))
	return i
}

// setTerm is called by the writer once the term is durable.
func (i *identity) setTerm(t Term) { i.term.Store(uint64(t)) }

func (i *identity) isWiped() bool { return i.isolated.Load() }

// publish is called by the loop when the configuration or the founding may have changed.
func (i *identity) publish(s CoreStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cluster, i.founder, i.config = s.Cluster, s.Founder, Configuration{}
	if s.Cluster != (ClusterID{}) {
		i.config = s.Config
	}
	i.judge()
}

// judge decides whether this member is wiped: a peer has shown a configuration that names its id with
// another incarnation, and its own configuration does not name it.
func (i *identity) judge() {
	me, _ := i.config.Member(i.self.ID)
	wiped := false
	for _, r := range i.refusals {
		wiped = wiped || r.Reason == RefusedNamedOther && me.Incarnation != i.self.Incarnation
	}
	if i.isolated.Swap(wiped) != wiped {
		i.node.watched.poke()
	}
}

// known is the configuration in force, or Config.Initial while there is none.
func (i *identity) known() Configuration {
	if len(i.config.Members) > 0 {
		return i.config
	}
	return i.initial
}

// member returns what is known of a member, which may be no more than its id.
func (i *identity) member(id NodeID) Member {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m, ok := i.known().Member(id); ok {
		return m
	}
	return Member{ID: id}
}

// view returns what a handshake needs, in one value.
func (i *identity) view(about NodeID) handshakeView {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := handshakeView{
		self: i.self, name: i.node.cfg.Cluster, cluster: i.cluster, term: Term(i.term.Load()), boot: i.boot,
		founder: i.founder, config: i.config, initial: i.initial, boots: make(map[Peer]uint64),
	}
	for p, boot := range i.boots {
		if p.ID == about {
			v.boots[p] = boot
		}
	}
	return v
}

// handshakeView is everything that the rules of the handshake look at, besides the peer's Hello.
type handshakeView struct {
	self    Peer
	name    string // Config.Cluster
	cluster ClusterID
	term    Term // durable
	boot    uint64
	founder Peer
	config  Configuration // zero while blank
	initial Configuration
	boots   map[Peer]uint64 // the highest boot seen of each
}

// hello is what this member says of itself to that peer. The peer's incarnation stays open until the
// cluster has a term: until then a founding may be redone with another one.
func (v handshakeView) hello(to NodeID, timeout time.Duration) Hello {
	h := Hello{
		ClusterName: v.name, Cluster: v.cluster, From: v.self, Expected: Peer{ID: to}, Boot: v.boot,
		Term: v.term, Founder: v.founder, ElectionTimeout: timeout,
	}
	if m, ok := v.config.Member(to); ok && v.term > 0 {
		h.Expected.Incarnation = m.Incarnation
	}
	known := v.config
	if h.Blank() {
		h.List, known = v.initial, v.initial
	}
	if m, ok := known.Member(v.self.ID); ok {
		h.Address = m.Address
	}
	return h
}

// check decides about a peer by its Hello: nil, or the reason why this member will not talk to it.
// It does not ask whether the peer is a member: one that this member does not know yet may already be
// a voter.
func (v handshakeView) check(h Hello) *Refusal {
	r := &Refusal{From: v.self, Cluster: v.cluster, Term: v.term, Founder: v.founder}
	named, _ := v.config.Member(h.From.ID)
	switch {
	case h.ClusterName != v.name:
		r.Reason = RefusedClusterName
		r.Detail = fmt.Sprintf("this member is of %q, the caller of %q", v.name, h.ClusterName)
	case h.Expected.ID != v.self.ID:
		r.Reason, r.Detail = RefusedWrongID, fmt.Sprintf("this is %q, the connection is for %q", v.self.ID, h.Expected.ID)
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != v.self.Incarnation:
		r.Reason, r.Detail = RefusedWrongIncarnation,
			fmt.Sprintf("this is %v, the connection is for %v", v.self.Incarnation, h.Expected.Incarnation)
	case named.Incarnation != 0 && named.Incarnation != h.From.Incarnation && !v.mayBeFoundedAnew(h):
		r.Reason, r.Named = RefusedNamedOther, named.Incarnation
	case h.Boot < v.boots[h.From]:
		r.Reason = RefusedStaleBoot
		r.Detail = fmt.Sprintf("start %d of %q was seen, this is start %d", v.boots[h.From], h.From.ID, h.Boot)
	case v.cluster != (ClusterID{}) && h.Cluster != (ClusterID{}) && v.cluster != h.Cluster && !v.refounding(h):
		r.Reason = RefusedOtherCluster
		r.Detail = fmt.Sprintf("this member belongs to %v, the caller to %v", v.cluster, h.Cluster)
	case v.blank() && h.Blank() && len(v.initial.Members) > 0 && len(h.List.Members) > 0 && !v.initial.SameList(h.List):
		r.Reason, r.List = RefusedListDiffers, v.initial
		r.Detail = fmt.Sprintf("this member has %s, the caller has %s", listed(v.initial), listed(h.List))
	default:
		return nil
	}
	return r
}

func (v handshakeView) blank() bool { return v.cluster == ClusterID{} && v.term == 0 }

// mayBeFoundedAnew reports whether the caller lost its disk before the cluster had a term: the founder
// may found it again with the new incarnation, unless it is the founder itself that was emptied.
func (v handshakeView) mayBeFoundedAnew(h Hello) bool {
	return v.term == 0 && h.Blank() && h.From.ID != v.founder.ID
}

// refounding reports whether two cluster ids may meet: both sides are at term 0, and one is the
// founder of the other's founding, which it does over.
func (v handshakeView) refounding(h Hello) bool {
	return v.term == 0 && h.Term == 0 && (h.From == v.founder || v.self == h.Founder)
}

// listed prints the members of a list, for people.
func listed(c Configuration) string {
	parts := make([]string, len(c.Members))
	for i, m := range c.Members {
		parts[i] = string(m.ID) + "=" + m.Address
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// endpoint is the side of the node that a transport sees.
type endpoint struct{ node *Node }

func (e endpoint) Hello(to NodeID) Hello {
	return e.node.identity.view(to).hello(to, e.node.cfg.ElectionTimeout)
}

func (e endpoint) Check(h Hello) *Refusal {
	r := e.node.identity.view(h.From.ID).check(h)
	if r != nil {
		e.node.counters.refused(r.Reason)
		e.node.identity.warn(h.From.ID, r.Reason, "refused a member", r)
	}
	return r
}

func (e endpoint) Up(h Hello) {
	i := e.node.identity
	i.mu.Lock()
	if len(i.boots) < strangersMax || i.boots[h.From] != 0 {
		i.boots[h.From] = max(i.boots[h.From], h.Boot)
	}
	i.hear(h.From.ID)
	delete(i.refusals, h.From.ID)
	delete(i.warned, h.From.ID)
	i.judge()
	i.mu.Unlock()
	e.node.counters.connected.Add(1)
	e.node.happen(PeerUp{ID: h.From.ID, Incarnation: h.From.Incarnation, Boot: h.Boot, Blank: h.Blank(), Protocol: h.Protocol})
}

func (e endpoint) Lost(id NodeID, refused bool) {
	e.node.counters.lost.Add(1)
	e.node.happen(PeerLost{ID: id, Refused: refused})
}

func (e endpoint) Refused(by NodeID, r Refusal) {
	i := e.node.identity
	e.node.counters.refused(r.Reason)
	i.warn(by, r.Reason, "was refused by a member", &r)
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.refusals[by]; known || len(i.refusals) < strangersMax {
		i.refusals[by] = r
	}
	i.judge()
}

func (e endpoint) Receive(from NodeID, batch []Message) {
	n := e.node
	n.identity.mu.Lock()
	n.identity.hear(from)
	n.identity.mu.Unlock()
	for _, m := range batch {
		switch {
		case m.From.ID != from:
			n.counters.droppedForged.Add(1)
		case entryBytes(m) > 0 && n.writer.depth() >= n.cfg.ReceivedMax,
			!n.mailbox.receive(m, n.tail.waitingBytes(), &n.cfg):
			n.counters.droppedReceived.Add(1)
		default:
			n.counters.received.Add(1)
		}
	}
}

// hear notes a sign of life; the caller holds the lock.
func (i *identity) hear(id NodeID) {
	if _, known := i.contact[id]; known || len(i.contact) < strangersMax {
		i.contact[id] = time.Now()
	}
}

// warn logs a refusal, once for each peer and reason until a connection with it stands: two members
// that refuse each other may do so for two reasons in turns, at every dial.
func (i *identity) warn(peer NodeID, reason RefusalReason, what string, r *Refusal) {
	i.mu.Lock()
	logged, known := i.warned[peer]
	again := slices.Contains(logged, reason) || !known && len(i.warned) >= strangersMax
	if !again {
		i.warned[peer] = append(logged, reason)
	}
	i.mu.Unlock()
	if !again {
		i.node.cfg.Logger.Warn(what, "member", peer, "reason", r.Reason.String(), "error", r)
	}
}

// seen returns when a member was last heard, and by whom this one is refused.
func (i *identity) seen() (contact map[NodeID]time.Time, refusals map[NodeID]Refusal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.contact), maps.Clone(i.refusals)
}

// others returns the members of the configuration without this one.
func (i *identity) others(c Configuration) []Member {
	return slices.DeleteFunc(slices.Clone(c.Members), func(m Member) bool { return m.ID == i.self.ID })
}
