package raft

// Leadership is who leads, as far as this member knows.
type Leadership struct {
	Term   Term
	Leader NodeID // "" if none is known
	Role   Role   // this member's own
}

// Leadership returns who leads. It allocates nothing.
func (c *Core) Leadership() Leadership { return Leadership{c.hard.Term, c.termLeader.id, c.role()} }

// CoreStatus is all that a core can say of itself.
type CoreStatus struct {
	ID          NodeID
	Incarnation Incarnation
	StartCount  uint64
	Cluster     ClusterID // zero while uninitialized
	Leadership
	Bootstrapper  Peer // zero while uninitialized
	Uninitialized bool
	Config        Configuration
	Last          EntryID // of the log
	Persisted     Index   // durable here
	// Durable is the term and the vote that are known to be on the disk. The member neither stands nor asks
	// for anything while they are behind the present ones.
	Durable HardState
	Commit  Index
	Applied Index
	// DiskStalled says that a write has been pending for DiskStallMax. A leader takes no proposals then.
	DiskStalled bool
	// Election says what this member's attempts to be elected have been like since a term last committed.
	Election ElectionStatus
	// TransferringUntil is, on a leader that transfers its leadership, when it gives up at the latest; 0: it does not.
	TransferringUntil Time
	// Missing says, while a cluster is being bootstrapped, what it waits for, one sentence a member.
	Missing []string
	Peers   []PeerProgress // on a leader: every other member, sorted by id
	// Pending proposals and their bytes, on a leader.
	Pending      int
	PendingBytes int
	Reads        int // that wait here: on a leader for a quorum, else for the leader's answer
}

// ElectionStatus is what a member has seen of its own attempts to be elected since a term last committed.
type ElectionStatus struct {
	Attempts int  // requests for pre-votes
	Wait     Time // for an answer, at least: the election timeout, or more if answers and writes were slower
	Write    Time // the longest that writing its own vote took
	Answer   Time // the longest that an answer took
	Pause    Time // the longest time that its process slept beyond a deadline
}

// Slowest names the figure that took longest, as part of a sentence.
func (e ElectionStatus) Slowest() (what string, took Time) {
	switch longest := max(e.Write, e.Answer, e.Pause); longest {
	case e.Write:
		return "writing its own vote", longest
	case e.Pause:
		return "a pause of its own process", longest
	default:
		return "the answer to a request for votes", longest
	}
}

// PeerProgress is a leader's view of another member.
type PeerProgress struct {
	ID         NodeID
	State      string // "probe", "replicate" or "stale", see MemberStatus
	Match      Index  // its log is known to hold the leader's up to here; 0 if it is stale
	Next       Index  // the next entry to send
	Inflight   int    // appends that are not answered
	LastHeard  Time   // in this term; the beginning of the term if never
	RoundTrip  Time   // the longest recent one, of a heartbeat or of the election
	SlowestAck Time   // how long the slowest recent acknowledgement of an append took
	// InflightBytes is about how large the appends in flight are.
	InflightBytes int
}

// Status returns a value that says it all.
func (c *Core) Status() CoreStatus {
	s := CoreStatus{
		ID: c.self.ID, Incarnation: c.self.Incarnation, StartCount: c.ids.StartCount, Cluster: c.cluster(),
		Leadership: c.Leadership(), Uninitialized: c.uninitialized(), Config: c.config(), Last: c.log.Last,
		Persisted: c.disk.persisted, Durable: c.disk.hard, Commit: c.log.commit, Applied: c.log.applied, Missing: c.bootstrapper.missing(),
		DiskStalled: c.diskStalled(), Reads: c.readsWaiting(), Election: c.follower.attempts.status(c.wait()),
	}
	if c.log.Bootstrap != nil {
		s.Bootstrapper = c.log.Bootstrap.Bootstrapper
	}
	if c.leader == nil {
		return s
	}
	if t := c.leader.transfer; t != nil {
		s.TransferringUntil = t.deadline
	}
	s.Pending, s.PendingBytes = len(c.leader.pending), c.leader.bytes
	s.Peers = make([]PeerProgress, 0, len(c.leader.peers))
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		s.Peers = append(s.Peers, PeerProgress{
			p.peer.ID, p.state.String(), p.match, p.next, len(p.flow.inflight), p.heard, p.beats.roundTrip.max(), p.acks.max(), p.flow.bytes,
		})
	}
	return s
}
