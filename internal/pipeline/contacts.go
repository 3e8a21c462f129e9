package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

const (
	// callersMax bounds the strangers that are dialed back.
	callersMax = 16
	// contactsMax bounds the members of uncommitted configurations together, and the members that have left.
	contactsMax = 2 * raft.MembersMax
	// keptTimeouts is how long, in election timeouts, a member that has left or a caller that is silent is still dialed.
	keptTimeouts = 10
)

// Contacts decides whom a member dials, and where. A member sends only on connections that it has dialed, so it dials
//
//   - the members of the last committed configuration and of every one since: the latest may be rolled back;
//   - members that have left, for ten election timeouts after the configuration without them was committed, so that they
//     hear of it;
//   - members that are to join, whoever answers at their address, until a configuration names them;
//   - callers: strangers of its cluster that have dialed it. A voter whose log lags behind must be able to answer a
//     candidate, and a new member its leader, before a configuration in its log names them.
//
// Who was removed, and is not dialed any longer, is told by the handshake. It may not have ended its connection to this
// member yet, so that is closed, and it dials again.
//
// Each is dialed first at the address that its newest start has advertised, then at the one in its configuration.
type Contacts struct {
	self     raft.Peer
	address  string // where this member says it is reached; "": where its configuration says
	patience raft.Time

	begun     bool // the cluster has a term, so incarnations count
	named     map[raft.Peer]raft.Member
	leavers   map[raft.Peer]leaver
	invited   map[raft.NodeID]raft.Member
	callers   []caller // at most callersMax
	removed   []raft.Peer
	expelled  map[raft.Peer]bool // those of them that Expel has returned
	addresses map[raft.Peer]string
	latest    map[raft.NodeID]string // of the incarnation that was met last
	last      []raft.Contact         // what Dial has returned
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

// NewContacts returns the contacts of a member that knows of nobody yet. The address is where it says
// that it is reached itself; "": where its configuration says.
func NewContacts(self raft.Peer, address string, electionTimeout time.Duration) *Contacts {
	return &Contacts{
		self: self, address: address, patience: raft.Time(keptTimeouts * electionTimeout),
		named: map[raft.Peer]raft.Member{}, leavers: map[raft.Peer]leaver{},
		invited: map[raft.NodeID]raft.Member{}, expelled: map[raft.Peer]bool{},
	}
}

// Stored says which configurations the log held when the member started: the latest may not be committed yet.
func (c *Contacts) Stored(l raft.StoredLog) {
	if configs := l.Configs; len(configs) > 1 {
		c.Config(0, configs[len(configs)-2].Config, false)
	} else if len(configs) == 1 {
		c.Config(0, l.Base.Config, false)
	}
}

// Begin says that the cluster has a term. Until then, whoever answers under the id of a member is accepted: the bootstrap
// may be redone with another incarnation.
func (c *Contacts) Begin() { c.begun = true }

// Config says which configuration is in force, and whether it is committed; before the bootstrap, it is the list of initial
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
			delete(c.invited, m.ID) // it takes over the connection
		}
		c.named[m.Peer()] = m
		delete(c.leavers, m.Peer())
	}
}

// leave keeps a member that has left. If there are too many, the one that left first is no longer dialed.
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

// Removed says which removals are known to be committed. Handshakes refuse these incarnations from then on, so nobody calls
// them back.
func (c *Contacts) Removed(removals []raft.Removal) {
	c.removed = c.removed[:0]
	for _, r := range removals {
		c.removed = append(c.removed, r.Peer)
	}
	c.callers = slices.DeleteFunc(c.callers, func(who caller) bool { return slices.Contains(c.removed, who.peer) })
	maps.DeleteFunc(c.expelled, func(p raft.Peer, _ bool) bool { return !slices.Contains(c.removed, p) })
}

// Expel returns the peers whose connections to this member are to be closed: those whose removal is committed and whose
// time as leavers is over. Each is returned once, and again if it was let in meanwhile.
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

// Memory says what this member durably remembers of its peers: the addresses of their newest starts.
func (c *Contacts) Memory(m raft.Sightings) {
	c.addresses, c.latest = make(map[raft.Peer]string, len(m.Seen)), make(map[raft.NodeID]string, len(m.Seen))
	for _, s := range m.Seen { // the one that was met last is the last one
		if s.Address != "" {
			c.addresses[s.Peer], c.latest[s.Peer.ID] = s.Address, s.Address
		}
	}
}

// Invite has a member dialed that is to join: with incarnation 0 any member that answers, else to be told who is there.
func (c *Contacts) Invite(m raft.Member) { c.invited[m.ID] = m }

// Uninvite ends Invite.
func (c *Contacts) Uninvite(id raft.NodeID) { delete(c.invited, id) }

// Called says that a connection was accepted which the sender of this Hello has dialed; cluster is this member's own. If
// the sender is a stranger, it is dialed back if it belongs to this member's cluster or, while this member belongs to
// none, to any.
func (c *Contacts) Called(now raft.Time, h raft.Hello, cluster raft.ClusterID) {
	delete(c.expelled, h.From)
	ours := h.Cluster != raft.ClusterID{} && (cluster == raft.ClusterID{} || cluster == h.Cluster)
	if ours && h.From != c.self && !c.names(h.From) {
		c.call(caller{h.From, h.Address, now})
	}
}

// call keeps a caller in the place of its former self or, if there are too many, of the one that has been silent longest.
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

// Callers returns the peers for which Heard counts, and which of them are not dialed at present because they have been
// silent.
func (c *Contacts) Callers(now raft.Time) (all, silent []raft.Peer) {
	for _, who := range c.callers {
		all = append(all, who.peer)
		if !c.names(who.peer) && who.heard+c.patience <= now {
			silent = append(silent, who.peer)
		}
	}
	return all, silent
}

// Heard says when a message of the peer arrived last.
func (c *Contacts) Heard(p raft.Peer, at raft.Time) {
	for i := range c.callers {
		if who := &c.callers[i]; who.peer == p {
			who.heard = max(who.heard, at)
		}
	}
}

// names reports whether a configuration names the peer, or its id while incarnations do not count.
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

// Dial returns whom to dial from now on, sorted by peer, whether that differs from what it has returned before, and when
// to call it again; 0: after a call of another method.
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
		add(m, m.Incarnation == 0, "") // another incarnation may still be where its id was met
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

// forget makes callers of the members whose time as leavers is over: they are dialed again if they speak.
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

// advertised returns the address that the newest start of a peer has said. The list of initial members names no incarnations,
// and until there is a term the disk of a member may have been emptied, and be elsewhere, since entry 1 named it: such a contact
// is open to any incarnation. Who has called is the one that it says it is, wherever another one of its id may be.
func (c *Contacts) advertised(p raft.Peer, open bool) string {
	if p.Incarnation == 0 || open {
		return c.latest[p.ID]
	}
	return c.addresses[p]
}

// contact returns the contact of a member, for any incarnation if it is open; false for this member itself.
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
