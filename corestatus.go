package raft

// Leadership is who leads, as far as this member knows.
type Leadership struct {
	Term   Term
	Leader NodeID // "" if none is known
	Role   Role   // this member's own
}

// Leadership returns who leads. It allocates nothing.
func (c *Core) Leadership() Leadership { return Leadership{c.hard.Term, c.leaderID, c.role()} }

// CoreStatus is all that a core can say of itself.
type CoreStatus struct {
	ID          NodeID
	Incarnation Incarnation
	Boot        uint64
	Cluster     ClusterID // zero while blank
	Leadership
	Founder   Peer // zero while blank
	Blank     bool
	Config    Configuration
	Last      EntryID // of the log
	Persisted Index   // durable here
	Commit    Index
	Applied   Index
	// DiskStalled says that a write has been pending for DiskStallMax. A leader takes no proposals then.
	DiskStalled bool
	// Missing says, while a cluster is being founded, what it waits for, one sentence a member.
	Missing []string
	Peers   []PeerProgress // on a leader: every other member, sorted by id
	// Outstanding proposals and their bytes, on a leader.
	Outstanding      int
	OutstandingBytes int
	Reads            int // that wait here: on a leader for a quorum, else for the leader's answer
}

// PeerProgress is a leader's view of another member.
type PeerProgress struct {
	ID        NodeID
	State     string // "probe" or "stream"
	Match     Index  // its log is known to hold the leader's up to here
	Next      Index  // the next entry to send
	Inflight  int    // appends that are not answered
	LastHeard Time   // in this term; the beginning of the term if never
	// InflightBytes is about how large the appends in flight are.
	InflightBytes int
}

// Status returns a value that says it all.
func (c *Core) Status() CoreStatus {
	s := CoreStatus{
		ID: c.self.ID, Incarnation: c.self.Incarnation, Boot: c.ids.Boot, Cluster: c.cluster(),
		Leadership: c.Leadership(), Blank: c.blank(), Config: c.config(), Last: c.log.Last,
		Persisted: c.disk.persisted, Commit: c.log.commit, Applied: c.log.applied, Missing: c.founder.missing(),
		DiskStalled: c.diskStalled(), Reads: c.readsWaiting(),
	}
	if c.log.Founding != nil {
		s.Founder = c.log.Founding.Founder
	}
	if c.leader == nil {
		return s
	}
	s.Outstanding, s.OutstandingBytes = len(c.leader.outstanding), c.leader.bytes
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		s.Peers = append(s.Peers, PeerProgress{p.peer.ID, p.state.String(), p.match, p.next, len(p.flights), p.heard, p.flightBytes})
	}
	return s
}
