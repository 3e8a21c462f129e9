package zoo

// contacts: whom a member dials, where, and for which incarnation of an id a connection stands.
var contacts = []Mutant{
	testedFile("M70", "two incarnations of one id are two peers", "their links have the id as key", "N10", "transport", "Memory_KeepsTheContract",
		before("transport/link.go", `named := map[raft.Peer]bool{}`, `contacts = slices.Clone(contacts)
			for i := range contacts { contacts[i].Incarnation = 0 }`)),
	testedFile("M71", "a message goes to the incarnation that it names", "it goes to the incarnation that answered the open contact of the id", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/link.go", `d != nil && p.Incarnation != 0 && d.hello.From != p`, `false`)),
	testedFile("M72", "a contact takes over a connection to its own incarnation", "to any one of its id", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/link.go", `d != nil && d.hello.From == c.Peer()`, `d != nil`)),
	testedFile("M73", "a connection replaces an older one of the same peer", "one of another incarnation, too", "N10", "transport", "Pipes_KeepTheContract|TCP_KeepsTheContract",
		value("transport/accept.go", `inboundKey{in.peer, in.lane}`, `inboundKey{raft.Peer{ID: in.peer.ID}, in.lane}`)),
	testedFile("M85", "every address of a contact is tried", "only the first one", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/round.go", `all[min(k.round.tried, len(all)-1)]`, `all[0]`)),
	testedFile("M74", "a stranger of the cluster that calls is dialed back", "it is not", "L1", "node", "Callers_AnUnknown",
		instead("node/handler.go", `e.node.contacts.called(h)`, `_ = h`)),
	testedFile("M75", "callers are bounded", "they are not", "N10", "internal/pipeline", "CallersAreBounded",
		value("internal/pipeline/contacts.go", `len(c.callers) >= callersMax`, `false`)),
	testedFile("M79", "a caller that is silent is let go", "it is dialed for ever", "N10", "internal/pipeline", "CallersAreDialedBack",
		value("internal/pipeline/contacts.go", `!c.names(who.peer) && who.heard+c.patience > now`, `!c.names(who.peer)`)),
	testedFile("M81", "a caller that was let go is dialed again once it speaks", "only once it calls again", "L1", "node", "Callers_ASilent",
		instead("node/identity.go", `i.node.contacts.signal.wake()`, `_ = p`)),
	testedFile("M76", "who left is dialed for ten election timeouts from the commit", "from the append", "L5", "internal/pipeline", "Contacts_Union|NoLongerDialed",
		before("internal/pipeline/contacts.go", "for p, m := range c.named {\n\t\t_, stays", `committed = true`)),
	testedFile("M78", "who left is let go", "it is dialed for ever", "N10", "internal/pipeline", "Contacts_Union|NoLongerDialed",
		value("internal/pipeline/contacts.go", `l.until <= now`, `false`)),
	testedFile("M80", "until there is a term, any incarnation that answers under the id of a member is the member", "the incarnation of entry 1 alone", "L1", "internal/pipeline", "IncarnationsAreOpen",
		instead("internal/pipeline/contacts.go", `add(m, !c.begun, c.advertised(m.Peer(), !c.begun))`, `add(m, false, c.advertised(m.Peer(), false))`)),
	testedFile("M84", "an address is that of one incarnation", "of every one of the id", "I11", "internal/pipeline", "AddressesAreByPeer",
		instead("internal/pipeline/contacts.go", `return c.addresses[p]`, `return c.latest[p.ID]`)),
	testedFile("M83", "a member that its cluster has removed ends", "it goes on to dial", "L18", "node", "Removed_AMemberThatLearnsIt",
		instead("node/handler.go", `e.node.endRemoved(&raft.RemovedError{Index: index})`, `_ = index`)),
	member("M159", "who was removed and is let go is disconnected, and told by the next handshake", "its connection stands", "L18",
		value("internal/pipeline/contacts.go", `!leaves && !c.names(p) && !c.expelled[p] && p != c.self`, `false`)),
	testedFile("M160", "who was let in a moment before its removal was known is disconnected", "it was disconnected before", "L18", "internal/pipeline", "IsNoLongerDialedIsDisconnected",
		instead("internal/pipeline/contacts.go", `delete(c.expelled, h.From)`, `_ = h`)),
	testedFile("M161", "a member closes the connections of those that were removed", "it does not", "L18", "node", "Removed_ALaggingMember",
		instead("node/contacts.go", `c.node.disconnect(p)`, `_ = p`)),
	testedFile("M162", "Disconnect closes the connections of a peer", "of its other incarnations, too", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/memory.go", `s.to == m && s.sender == p`, `s.to == m && s.sender.ID == p.ID`)),
	testedFile("M163", "until there is a term, a member is where its newest start is, on whatever disk", "where the disk is that entry 1 names", "L1", "internal/pipeline", "BeforeTheBootstrap",
		instead("internal/pipeline/contacts.go", `return c.latest[p.ID]`, `if p.Incarnation == 0 { return c.latest[p.ID] }
		return c.addresses[p]`)),
	testedFile("M107", "a start excludes another one of the same incarnation", "of any one of the id", "I13", "node", "Twin_IsByIncarnation",
		value("node/identity.go", `i.live[with]`, `func() (is raft.StartID) {
			for p, start := range i.live {
				if p.ID == with.ID { is = start }
			}
			return is
		}()`)),
	testedFile("M86", "a member remembers where the newest start of a peer is", "it does not", "I11", "handshake", "RemembersBothWays",
		value("handshake/descent.go", `raft.Sighting{Peer: h.From, Start: h.Lineage.Last(), Term: h.Term, Address: h.Address}`, `raft.Sighting{Peer: h.From, Start: h.Lineage.Last(), Term: h.Term}`)),
	testedFile("M87", "the address that a peer advertises comes before the configured one", "after it", "I11", "internal/pipeline", "AddressesAreByPeer",
		value("internal/pipeline/contacts.go", `append(k.Addresses, address)`, `append([]string{address}, k.Addresses...)`)),
}
