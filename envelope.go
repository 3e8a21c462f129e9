package raft

// termJumpMax bounds how far one message may raise the term. No correct peer is further ahead, and one forged
// term near 2^64 would prevent all later elections.
const termJumpMax = 1 << 32

// misaddressed says what is wrong with the envelope of a message; "" if nothing is.
//
// Votes and acknowledgements count by (id, incarnation), and a member does not answer messages for another
// incarnation. The sender need not be in our configuration: it may be in a newer one.
func (c *Core) misaddressed(m Message) string {
	if m.Body == nil {
		return "it has no known body"
	}
	_, probe := m.Body.(BootstrapProbe)
	class, ours := m.Body.class(), c.cluster()
	switch {
	case m.To.ID != c.self.ID || m.From == c.self:
		return "it is for another member"
	case m.To.Incarnation != c.self.Incarnation && !(probe && m.To.Incarnation == 0):
		return "it is for another incarnation of this member"
	case m.Term > c.hard.Term+termJumpMax || m.Term >= 1<<63:
		return "its term is impossibly far ahead"
	case m.Cluster == ClusterID{} && (class == ofLeader || class == ofCandidate):
		return "only members of a cluster lead or campaign"
	case m.Cluster == ours || m.Cluster == ClusterID{} || ours == ClusterID{}:
		return ""
	case class == ofBootstrap:
		return "" // a redone bootstrap has another cluster id; bootstrap.go decides
	}
	return "it is of another cluster"
}

// untimely says why a message makes no sense for a member in this state, or in the message's own term; "" if it
// does make sense.
func (c *Core) untimely(m Message) string {
	switch m.Body.class() {
	case ofBootstrap:
		return ""
	case ofStream:
		return "the host handles the streams of snapshots"
	}
	_, isAppend := m.Body.(AppendRequest)
	_, isOffer := m.Body.(InstallSnapshot)
	if c.uninitialized() && !isAppend && !isOffer {
		return "an uninitialized member only answers a probe, or takes a bootstrap, an append or a snapshot"
	}
	if _, ok := m.Body.(PreVoteReply); m.Term == 0 && !ok {
		return "nobody campaigns or leads in term 0"
	}
	return ""
}

// mayRaiseTerm reports whether a message of a newer term may raise this member's term. Every message of a member
// of our configuration may, as Figure 2 says.
//
// A sender that our configuration does not name may belong to a newer configuration, of which this member has
// not heard yet. So it may raise our term as a leader, or with a request for a vote that we would grant. No
// other message of it may, such as an answer: nobody asked it, and each term that it invents would depose a
// leader.
func (c *Core) mayRaiseTerm(m Message) bool {
	if c.names(m.From) {
		return true
	}
	switch body := m.Body.(type) {
	case AppendRequest, Heartbeat, InstallSnapshot:
		return true
	case VoteRequest:
		return c.grants(m.Term, Peer{}, m.From, body.Last) == Granted
	}
	return false
}
