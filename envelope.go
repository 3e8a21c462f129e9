package raft

// termJumpMax bounds how far one message may raise the term: no correct peer is further ahead, and
// a forged term near 2^64 would leave no room for elections.
const termJumpMax = 1 << 32

// misaddressed says what is wrong with the envelope of a message, or "".
//
// Votes and acknowledgements count by (id, incarnation), and a member answers nothing meant for
// another. The sender need not be a member as far as we know: it may be one already.
func (c *Core) misaddressed(m Message) string {
	_, roll := m.Body.(RollCall)
	ours := c.cluster()
	switch {
	case m.To.ID != c.self.ID || m.From.ID == c.self.ID:
		return "it is for another member"
	case m.To.Incarnation != c.self.Incarnation && !(roll && m.To.Incarnation == 0):
		return "it is for another incarnation of this member"
	case m.Term > c.hard.Term+termJumpMax || m.Term >= 1<<63:
		return "its term is impossibly far ahead"
	case m.Cluster == ClusterID{} && leadsOrStands(m.Body):
		return "only members of a cluster lead or stand for election"
	case m.Cluster == ours || m.Cluster == ClusterID{} || ours == ClusterID{}:
		return ""
	}
	switch m.Body.(type) {
	case RollCall, RollReply, FoundRequest, FoundReply:
		return "" // a redone founding has another cluster id; founding.go decides
	}
	return "it is of another cluster"
}

// leadsOrStands reports whether only a leader or a candidate sends the body.
func leadsOrStands(body Body) bool {
	switch body.(type) {
	case PreVoteRequest, VoteRequest, AppendRequest, Heartbeat, TimeoutNow, SteppedDown:
		return true
	}
	return false
}

// mayRaiseTerm decides whether a message of a newer term may bring this member to that term. From a member of our
// configuration every message may, as Figure 2 says.
//
// A sender that our configuration does not name may belong to a newer configuration, which this member has
// yet to hear of: so it may lead us, and so may its request for a vote that we would grant. Its answers, and
// all else, may not: nobody asked it, and each term that it made up would depose a leader.
func (c *Core) mayRaiseTerm(m Message) bool {
	if named, ok := c.config().Member(m.From.ID); ok && named.Peer() == m.From {
		return true
	}
	switch body := m.Body.(type) {
	case AppendRequest, Heartbeat:
		return true
	case VoteRequest:
		return c.grants(m.Term, Peer{}, m.From, body.Last) == Granted
	}
	return false
}
