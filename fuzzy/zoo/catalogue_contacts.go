package zoo

// contacts: mutants in the choice of peers to dial and of their addresses, and in the assignment of a connection to an
// incarnation of an id.
var contacts = []Mutant{
	testedFile("M70", "two incarnations of one id are two peers", "their links have the id as key", "N10", "transport", "Memory_KeepsTheContract",
		before("transport/link.go", `named := map[raft.Peer]bool{}`, `contacts = slices.Clone(contacts)
			for i := range contacts { contacts[i].Incarnation = 0 }`)),
	testedFile("M71", "a message goes to the incarnation that it names", "it goes to the incarnation that answered the open contact of the id", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/link.go", `d != nil && p.Incarnation != 0 && d.hello.From != p`, `false`)),
	testedFile("M72", "a contact takes over a connection to its own incarnation only", "it takes one to any incarnation of the id",
		"N10", "transport", "Memory_KeepsTheContract",
		value("transport/link.go", `d != nil && d.hello.From == c.Peer()`, `d != nil`)),
	testedFile("M73", "a connection replaces an older one of the same peer only", "it replaces one of another incarnation, too",
		"N10", "transport", "Pipes_KeepTheContract|TCP_KeepsTheContract",
		value("transport/accept.go", `inboundKey{in.peer, in.lane}`, `inboundKey{raft.Peer{ID: in.peer.ID}, in.lane}`)),
	testedFile("M85", "every address of a contact is tried", "only the first one is", "N10", "transport", "Memory_KeepsTheContract",
		value("transport/round.go", `all[min(k.round.tried, len(all)-1)]`, `all[0]`)),
	testedFile("M74", "a member dials back a stranger of its cluster that calls", "it does not", "L1", "node", "Callers_AnUnknown",
		instead("node/handler.go", `e.node.contacts.called(h)`, `_ = h`)),
	testedFile("M75", "the number of remembered callers is bounded", "it is not", "N10", "internal/pipeline", "CallersAreBounded",
		value("internal/pipeline/contacts.go", `len(c.callers) >= callersMax`, `false`)),
	testedFile("M79", "a caller that falls silent is dropped", "it is dialed forever", "N10", "internal/pipeline", "CallersAreDialedBack",
		value("internal/pipeline/contacts.go", `!c.names(who.peer) && who.heard+c.patience > now`, `!c.names(who.peer)`)),
	testedFile("M81", "a caller that was dropped is dialed again once it speaks", "it is dialed only once it calls again",
		"L1", "node", "Callers_ASilent",
		instead("node/identity.go", `i.node.contacts.signal.wake()`, `_ = p`)),
	testedFile("M76", "a member that left is dialed for ten election timeouts from the commit of its removal", "from the append of its removal",
		"L5", "internal/pipeline", "Contacts_Union|NoLongerDialed",
		before("internal/pipeline/contacts.go", "for p, m := range c.named {\n\t\t_, stays", `committed = true`)),
	testedFile("M78", "a member that left is eventually dropped", "it is dialed forever", "N10", "internal/pipeline", "Contacts_Union|NoLongerDialed",
		value("internal/pipeline/contacts.go", `l.until <= now`, `false`)),
	testedFile("M80", "while a member has no term, any incarnation that answers under a member's id is that member", "only the incarnation of entry 1 is",
		"L1", "internal/pipeline", "IncarnationsAreOpen",
		instead("internal/pipeline/contacts.go", `add(m, !c.begun, c.advertised(m.Peer(), !c.begun))`, `add(m, false, c.advertised(m.Peer(), false))`)),
	testedFile("M84", "an address belongs to one incarnation", "it belongs to every incarnation of the id",
		"I11", "internal/pipeline", "AddressesAreByPeer",
		before("internal/pipeline/contacts.go", `if at := c.addresses[p]; at != "" {`, `return c.latest[p.ID]`)),
	testedFile("M83", "a member that its cluster has removed ends", "it continues to dial", "L18", "node", "Removed_AMemberThatLearnsIt",
		instead("node/handler.go", `e.node.endRemoved(&raft.RemovedError{Index: index})`, `_ = index`)),
	member("M159", "a removed member that is dropped is disconnected, and the next handshake tells it so", "its connection stays", "L18",
		value("internal/pipeline/contacts.go", `!leaves && !c.names(p) && !c.expelled[p] && p != c.self`, `false`)),
	testedFile("M160", "a member that connected just before its removal was known is disconnected", "it stays connected",
		"L18", "internal/pipeline", "IsNoLongerDialedIsDisconnected",
		instead("internal/pipeline/contacts.go", `delete(c.expelled, h.From)`, `_ = h`)),
	testedFile("M161", "a member closes the connections of those that were removed", "it does not", "L18", "node", "Removed_ALaggingMember",
		instead("node/contacts.go", `c.node.disconnect(p)`, `_ = p`)),
	testedFile("M162", "Disconnect closes the connections of one peer", "it closes those of its other incarnations, too",
		"N10", "transport", "Memory_KeepsTheContract",
		value("transport/memory.go", `s.to == m && s.sender == p`, `s.to == m && s.sender.ID == p.ID`)),
	testedFile("M163", "while a member has no term, it is where its newest start is, on whatever disk", "it is where the disk is that entry 1 names",
		"L1", "internal/pipeline", "BeforeTheBootstrap",
		instead("internal/pipeline/contacts.go", `return c.latest[p.ID]`, `if p.Incarnation == 0 { return c.latest[p.ID] }
		return c.addresses[p]`)),
	testedFile("M107", "a start excludes another start of the same incarnation", "it excludes another start of any incarnation of the id",
		"I13", "node", "Twin_IsByIncarnation",
		value("node/identity.go", `i.live[with]`, `func() (is raft.StartID) {
			for p, start := range i.live {
				if p.ID == with.ID { is = start }
			}
			return is
		}()`)),
	testedFile("M86", "a member remembers where the newest start of a peer is", "it does not", "I11", "handshake", "RemembersBothWays",
		value("handshake/descent.go", `raft.Sighting{Peer: h.From, Start: h.Lineage.Last(), Term: h.Term, Address: h.Address}`, `raft.Sighting{Peer: h.From, Start: h.Lineage.Last(), Term: h.Term}`)),
	testedFile("M87", "the address that a peer advertises comes before the configured one", "it comes after it",
		"I11", "internal/pipeline", "AddressesAreByPeer",
		value("internal/pipeline/contacts.go", `append(k.Addresses, address)`, `append([]string{address}, k.Addresses...)`)),
}
