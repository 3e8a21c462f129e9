package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

const (
	// callersMax bounds the callers that are dialed back.
	callersMax = 16
	// contactsMax bounds the members of all uncommitted configurations together, and the members that have left.
	contactsMax = 2 * raft.MembersMax
	// keptTimeouts is the number of election timeouts for which this member still dials a member that has left, or a caller
	// that has become silent.
	keptTimeouts = 10
)

// Contacts decides which peers a member dials, and at which addresses. A member sends only on connections that it has dialed,
// so it dials
//
//   - the members of the last committed configuration and of every later one, because the latest may be rolled back;
//   - members that have left, for ten election timeouts after the configuration without them was committed, so that they
//     hear of it;
//   - joining members, until a configuration names them;
//   - callers: peers of its cluster that have dialed it and that no configuration here names. A voter whose log is behind
//     must be able to answer a candidate, and a new member its leader, before a configuration in its log names them.
//
// If a removed member is no longer dialed, it learns of its removal from its next handshake. So this member closes the
// connection, and the removed member dials again.
//
// This member first dials a contact at the address that the contact advertised at its newest start. Then it dials the address
// in the configuration.
type Contacts struct {
	self     raft.Peer
	address  string // advertised address of this member; "": the one in its configuration
	patience raft.Time

	begun     bool // the cluster has a term, so incarnations count
	named     map[raft.Peer]raft.Member
	leavers   map[raft.Peer]leaver
	invited   map[raft.NodeID]raft.Member
	callers   []caller // at most callersMax
	removed   []raft.Peer
	expelled  map[raft.Peer]bool     // removed peers that Expel has returned
	addresses map[raft.Peer]string   // advertised address of each peer
	latest    map[raft.NodeID]string // address of the incarnation that was met last
	last      []raft.Contact         // last result of Dial
}

// leaver is a member that no configuration names any longer.
type leaver struct {
	member raft.Member
	until  raft.Time
}

// caller is a peer that no configuration names, and that has dialed this member.
type caller struct {
	peer    raft.Peer
	address string
	heard   raft.Time
}

// NewContacts returns the contacts of a member that knows no peer yet. address is the address that this member advertises. If
// it is "", the address in the configuration counts.
func NewContacts(self raft.Peer, address string, electionTimeout time.Duration) *Contacts {
	return &Contacts{
		self: self, address: address, patience: raft.Time(keptTimeouts * electionTimeout),
		named: map[raft.Peer]raft.Member{}, leavers: map[raft.Peer]leaver{},
		invited: map[raft.NodeID]raft.Member{}, expelled: map[raft.Peer]bool{},
	}
}

// Stored sets the configurations that the log held when the member started. The latest may not be committed yet.
func (c *Contacts) Stored(l raft.StoredLog) {
	if configs := l.Configs; len(configs) > 1 {
		c.Config(0, configs[len(configs)-2].Config, false)
	} else if len(configs) == 1 {
		c.Config(0, l.Base.Config, false)
	}
}

// Begin reports that the cluster has a term. Before Begin, a contact accepts any incarnation of a member's id, because the
// bootstrap may be repeated with another incarnation.
func (c *Contacts) Begin() { c.begun = true }

// Config sets the configuration in force, and whether it is committed. Before the bootstrap, it is the list of initial
// members.
func (c *Contacts) Config(now raft.Time, inForce raft.Configuration, committed bool) {
	for p, m := range c.named {
		_, stays := inForce.Peer(p)
		switch {
		case stays:
		case p.Incarnation == 0 || !c.begun: // the bootstrap has replaced it
			delete(c.named, p)
		case committed:
			delete(c.named, p)
			c.leave(leaver{m, now + c.patience})
		}
	}
	if len(c.named) > contactsMax { // many configurations in a row that were never known to be committed
		clear(c.named)
	}
	for _, m := range inForce.Members {
		if _, before := c.named[m.Peer()]; !before {
			delete(c.invited, m.ID) // the named member keeps the connection
		}
		c.named[m.Peer()] = m
		delete(c.leavers, m.Peer())
	}
}

// leave keeps a member that has left. If there are too many, it drops the one that left first.
func (c *Contacts) leave(l leaver) {
	if len(c.leavers) >= contactsMax {
		var first raft.Peer
		for p, other := range c.leavers {
			if at := c.leavers[first].until; at == 0 || other.until < at {
				first = p
			}
		}
		delete(c.leavers, first)
	}
	c.leavers[l.member.Peer()] = l
}

// Removed sets the removals that are known to be committed. From then on handshakes reject the removed incarnations, so this
// member does not dial them back.
func (c *Contacts) Removed(removals []raft.Removal) {
	c.removed = c.removed[:0]
	for _, r := range removals {
		c.removed = append(c.removed, r.Peer)
	}
	c.callers = slices.DeleteFunc(c.callers, func(who caller) bool { return slices.Contains(c.removed, who.peer) })
	maps.DeleteFunc(c.expelled, func(p raft.Peer, _ bool) bool { return !slices.Contains(c.removed, p) })
}

// Expel returns the peers whose connections to this member must be closed. Their removal is committed, and this member no
// longer dials them as members that have left. Expel returns each peer once. If a handshake accepts the peer later, Expel
// returns it again.
func (c *Contacts) Expel() (peers []raft.Peer) {
	for _, p := range c.removed {
		_, leaves := c.leavers[p]
		if !leaves && !c.names(p) && !c.expelled[p] && p != c.self {
			c.expelled[p] = true
			peers = append(peers, p)
		}
	}
	return peers
}

// Memory sets what this member durably remembers about its peers: the address that each peer advertised at its newest start.
func (c *Contacts) Memory(m raft.Sightings) {
	c.addresses, c.latest = make(map[raft.Peer]string, len(m.Seen)), make(map[raft.NodeID]string, len(m.Seen))
	for _, s := range m.Seen { // ordered by when they were last met
		if s.Address != "" {
			c.addresses[s.Peer], c.latest[s.Peer.ID] = s.Address, s.Address
		}
	}
}

// Invite makes this member dial a joining member. Incarnation 0 accepts any incarnation. If m has an incarnation that no peer
// uses, the peer rejects the dial, and the rejection names the incarnation of the peer.
func (c *Contacts) Invite(m raft.Member) { c.invited[m.ID] = m }

// Uninvite ends Invite.
func (c *Contacts) Uninvite(id raft.NodeID) { delete(c.invited, id) }

// Called reports that this member accepted a connection from the sender of this Hello. cluster is this member's cluster. If
// no configuration names the sender, and the sender belongs to this cluster, it is dialed back. While this member belongs to
// no cluster, it dials back a sender of any cluster. A sender that is dialed as one of the initial members, whose incarnations
// are not known, is kept, too: the configuration that replaces their list may name a former incarnation of it.
func (c *Contacts) Called(now raft.Time, h raft.Hello, cluster raft.ClusterID) {
	delete(c.expelled, h.From)
	ours := h.Cluster != raft.ClusterID{} && (cluster == raft.ClusterID{} || cluster == h.Cluster)
	if _, named := c.named[h.From]; ours && h.From != c.self && !named {
		c.call(caller{h.From, h.Address, now})
	}
}

// call keeps a caller. The caller replaces an earlier caller with the same peer. If there are too many callers, it replaces
// the one that has been silent longest.
func (c *Contacts) call(who caller) {
	if who.address == "" || slices.Contains(c.removed, who.peer) {
		return
	}
	c.callers = slices.DeleteFunc(c.callers, func(other caller) bool { return other.peer == who.peer })
	if len(c.callers) >= callersMax {
		silent := slices.MinFunc(c.callers, func(a, b caller) int { return cmp.Compare(a.heard, b.heard) })
		c.callers = slices.DeleteFunc(c.callers, func(other caller) bool { return other.peer == silent.peer })
	}
	c.callers = append(c.callers, who)
}

// Callers returns all callers, so that the host can call Heard for them. silent holds the callers that this member does not
// dial now, because they have been silent for too long.
func (c *Contacts) Callers(now raft.Time) (all, silent []raft.Peer) {
	for _, who := range c.callers {
		all = append(all, who.peer)
		if !c.names(who.peer) && who.heard+c.patience <= now {
			silent = append(silent, who.peer)
		}
	}
	return all, silent
}

// Heard reports the time at which the last message of a caller arrived.
func (c *Contacts) Heard(p raft.Peer, at raft.Time) {
	for i := range c.callers {
		if who := &c.callers[i]; who.peer == p {
			who.heard = max(who.heard, at)
		}
	}
}

// names reports whether a configuration names the peer. While incarnations do not count, it reports whether a configuration
// names the peer's id.
func (c *Contacts) names(p raft.Peer) bool {
	if _, ok := c.named[p]; ok {
		return true
	}
	for other := range c.named {
		if other.ID == p.ID && (other.Incarnation == 0 || !c.begun) {
			return true
		}
	}
	return false
}

// Dial returns the peers to dial from now on, sorted. changed reports whether they differ from the last result. wake is the
// time at which to call Dial again; if it is 0, call Dial only after a call of another method.
func (c *Contacts) Dial(now raft.Time) (contacts []raft.Contact, changed bool, wake raft.Time) {
	add := func(m raft.Member, open bool, advertised string) {
		if k, ok := c.contact(m, open, advertised); ok {
			contacts = append(contacts, k)
		}
	}
	until := func(t raft.Time) {
		if wake == 0 || t < wake {
			wake = t
		}
	}
	c.forget(now)
	for _, m := range c.named {
		add(m, !c.begun, c.advertised(m.Peer(), !c.begun))
	}
	for _, l := range c.leavers {
		add(l.member, false, c.advertised(l.member.Peer(), false))
		until(l.until)
	}
	for _, m := range c.invited {
		add(m, m.Incarnation == 0, "") // not at a remembered address: another incarnation may still be there
	}
	for _, who := range c.callers {
		_, leaves := c.leavers[who.peer]
		_, joins := c.invited[who.peer.ID]
		if !leaves && !joins && !c.names(who.peer) && who.heard+c.patience > now {
			add(raft.Member{ID: who.peer.ID, Incarnation: who.peer.Incarnation, Address: who.address}, false, c.advertised(who.peer, false))
			until(who.heard + c.patience)
		}
	}
	slices.SortFunc(contacts, func(a, b raft.Contact) int { return comparePeers(a.Peer(), b.Peer()) })
	changed = !slices.EqualFunc(contacts, c.last, func(a, b raft.Contact) bool {
		return a.Member == b.Member && slices.Equal(a.Addresses, b.Addresses)
	})
	c.last = contacts
	return contacts, changed, wake
}

// forget turns former members into callers when their time as leavers is over. From then on, this member dials them only if
// it hears them.
func (c *Contacts) forget(now raft.Time) {
	for _, p := range slices.SortedFunc(maps.Keys(c.leavers), comparePeers) {
		if l := c.leavers[p]; l.until <= now {
			delete(c.leavers, p)
			if !slices.ContainsFunc(c.callers, func(who caller) bool { return who.peer == p }) {
				c.call(caller{peer: p, address: l.member.Address})
			}
		}
	}
}

// advertised returns the address that a peer advertised at its newest start, or "" if there is none. An open contact accepts
// any incarnation, so it uses the address of the incarnation that this member met last. Contacts are open while the list of
// initial members names no incarnations. They are also open until there is a term, because the disk of a member may have been
// emptied after entry 1 named the member. The contact of a caller is never open: it uses only the caller's own address.
func (c *Contacts) advertised(p raft.Peer, open bool) string {
	if p.Incarnation == 0 || open {
		return c.latest[p.ID]
	}
	at := c.addresses[p]
	for _, who := range c.callers { // the memory is bounded; a configuration that names the caller may have an older address
		if at == "" && who.peer == p {
			at = who.address
		}
	}
	return at
}

// contact returns the contact of a member. If open is set, the contact accepts any incarnation. contact returns false if the
// member is this member itself, or if there is no address to dial.
func (c *Contacts) contact(m raft.Member, open bool, advertised string) (raft.Contact, bool) {
	named := m.Peer()
	if open {
		m.Incarnation = 0
	}
	if named == c.self || m.ID == c.self.ID && m.Incarnation == 0 {
		return raft.Contact{}, false
	}
	former := c.named[c.self].Address
	place := cmp.Or(c.address, former)
	all := []string{advertised, m.Address}
	if m.ID == c.self.ID {
		all = append(all, former) // the two may have changed places
	}
	k := raft.Contact{Member: m}
	for _, address := range all {
		ownPlace := m.ID == c.self.ID && address == place // another incarnation was there before
		if address != "" && !ownPlace && !slices.Contains(k.Addresses, address) {
			k.Addresses = append(k.Addresses, address)
		}
	}
	return k, len(k.Addresses) > 0
}

func comparePeers(a, b raft.Peer) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
}
