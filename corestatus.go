package raft

// Leadership says who leads, as far as this member knows.
type Leadership struct {
	Term   Term
	Leader NodeID // "" if none is known
	// LeaderIncarnation tells the leader from another member with its id, while one takes the place of the other. 0 if
	// none is known.
	LeaderIncarnation Incarnation
	Role              Role // this member's own
}

// Leadership returns who leads. It allocates nothing.
func (c *Core) Leadership() Leadership {
	return Leadership{c.hard.Term, c.termLeader.peer.ID, c.termLeader.peer.Incarnation, c.role()}
}

// FSMHangs reports whether the FSM has been applying one batch for too long, see CoreStatus. The callers of proposals that
// were accepted can be told then that nobody knows their outcome. It allocates nothing.
func (c *Core) FSMHangs() bool { return c.fsmHangs() }

// CoreStatus is a core's state for operators.
type CoreStatus struct {
	ID          NodeID
	Incarnation Incarnation
	StartCount  uint64
	Cluster     ClusterID // zero while uninitialized
	Leadership
	Bootstrapper  Peer // zero while uninitialized
	Uninitialized bool
	Config        Configuration // in force
	ConfigIndex   Index         // of the entry that holds Config; 0 while uninitialized
	// ConfigCommitted is the index of the newest configuration that is known to be committed. While it is below
	// ConfigIndex, Config may still be rolled back.
	ConfigCommitted Index
	// Removals are the latest ones that are known to be committed, oldest first, at most RemovedMax.
	Removals []Removal
	// Removed is the entry that has removed this member, once it is known to be committed; 0: none. See Core.Removed.
	Removed   Index
	Change    *ChangeProgress // on a leader: what a change of the members waits for; nil: there is none
	Base      EntryID         // the log begins behind it; zero: at entry 1
	Last      EntryID         // of the log
	Persisted Index           // durable here
	// Durable is the term and the vote that are durable here. While they are behind the present ones, the member does
	// not campaign, and messages that depend on the present ones wait.
	Durable HardState
	Commit  Index
	Applied Index
	// Suspected is a leader that Config does not name, and that has shown that this member lacks what it acknowledged. Until
	// Config names it, or a leader of a later term has appended an entry here, this member neither votes nor campaigns, unless
	// another leader of that term proves the first one false. Zero: there is none.
	Suspected Peer
	// DiskStalled says that the oldest pending write has taken too long (see DiskStallMax). A leader then refuses
	// proposals.
	DiskStalled bool
	// FSMHangs says that the FSM has been applying one batch for too long (see ApplyStallMax). A leader then refuses
	// proposals.
	FSMHangs bool
	// Snapshot is the last entry that the newest snapshot covers, or that a DurableFSM is known to have synced; zero: none.
	Snapshot      EntryID
	SnapshotBytes int64   // of the recorded snapshot; 0: there is none
	Taking        EntryID // the last entry of the snapshot that is being taken; zero: none
	Restoring     EntryID // the last entry of the snapshot that the FSM has yet to become; zero: none
	Receiving     EntryID // the last entry of the snapshot that this member has asked for; zero: none
	ReceivingFrom NodeID
	// Election says how this member's attempts to be elected went since a term last committed.
	Election ElectionStatus
	// TransferringUntil is when a leader that transfers its leadership gives up; 0: there is no transfer.
	TransferringUntil Time
	// Missing says, on a bootstrapper, what the bootstrap is waiting for, one sentence per member.
	Missing []string
	Peers   []PeerProgress // on a leader: every other member, and those that depart, sorted by id, then by incarnation
	// Pending is the number of pending proposals on a leader, and PendingBytes their size.
	Pending      int
	PendingBytes int
	Reads        int // reads that wait here: on a leader for a quorum, else for the leader's answer
}

// ChangeStage says how far a change of the members is.
type ChangeStage string

// The stages of a change.
const (
	ChangeCommits   ChangeStage = "commits"    // its entry is not committed yet
	ChangeCatchesUp ChangeStage = "catches up" // members that are to vote have to catch up first
	ChangeJoint     ChangeStage = "joint"      // the former and the new voters must agree
	ChangeTransfers ChangeStage = "transfers"  // it is done, and the leader, which has no vote any more, transfers its leadership
)

// ChangeProgress says what a change of the members waits for.
type ChangeProgress struct {
	Stage   ChangeStage
	Since   Time     // when the configuration in force came into force here
	Waiting []NodeID // ChangeCatchesUp: the members that have not caught up; if there are none, for a majority to be heard
}

// CatchUpRound says how a member without a vote catches up, in rounds: one ends when the member holds what the log held when
// the round began.
type CatchUpRound struct {
	Round  int // the present or the last one, from 1
	Target Index
	Since  Time // when it began
	Ready  bool // the member could become a voter now
	// From and FromAt are PeerProgress.Match and the time when the member was last sent entries anew: when the round began,
	// or since then when a snapshot had arrived, or it was found how far the logs agree.
	From    Index
	FromAt  Time
	MovedAt Time // when it last made progress; at first when the leader began with it
}

// ElectionStatus says how a member's attempts to be elected went since a term last committed.
type ElectionStatus struct {
	Attempts int  // election timeouts, each of which began a pre-vote
	Wait     Time // the present wait: the election timeout, or more if answers and writes were slower
	Write    Time // the longest that writing its own vote took
	Answer   Time // the longest that an answer took
	Pause    Time // the longest time that its process slept beyond a deadline
}

// Slowest returns the longest of Write, Answer and Pause, and its name as part of a sentence.
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
	ID          NodeID
	Incarnation Incarnation
	State       string // "probe", "replicate", "snapshot" or "stale", see MemberStatus
	Match       Index  // it durably holds the leader's log up to here, as far as is known; 0 if it is stale
	Next        Index  // the next entry to send
	Inflight    int    // appends that are not answered
	LastHeard   Time   // in this term; the election if never
	RoundTrip   Time   // the longest recent one, of a heartbeat or of the election
	SlowestAck  Time   // how long the slowest recent acknowledgement of an append took
	// InflightBytes is the approximate size of the appends in flight.
	InflightBytes int
	Offered       EntryID // in state "snapshot": the last entry of the snapshot that it is offered; zero: none yet
	SnapshotSince Time    // when that snapshot was first offered
	// EarlierRelease says that its connection speaks a protocol without snapshots: in state "snapshot" it is offered none
	// before it is upgraded.
	EarlierRelease bool
	Hindered       Hindrance    // what keeps it from counting, as it says itself; 0: nothing, or its release does not say
	LagsSince      Time         // since when, at the latest, the log has held an entry that it lacks; 0: it lacks no earlier one
	Votes          Halves       // in which halves of the configuration it votes
	CatchUp        CatchUpRound // zero if it votes
	// Departing says that it is no member any more, and is served until it knows.
	Departing bool
	Removal   Index // the entry that has removed it; 0 unless it departs
	// Applied is the last index that its FSM has applied, as it has reported in this term; 0 if it has not. A busy member
	// reports it seldom.
	Applied Index
	// ServedUntil is when it is served no longer, even if it does not know; 0 while the removal is not committed.
	ServedUntil Time
	// Oversized is, in state "snapshot", the entry that an append to it does not carry, so that it needs a snapshot which
	// covers it; zero: it needs one for another reason. OversizedBytes is the size of the entry's record.
	Oversized      EntryID
	OversizedBytes int
}

// Served returns the last entry that nobody is expected to read again soon: the FSM here has applied it and, if this member
// leads, every other member has acknowledged it that check-quorum still counts as heard. What is behind it is worth keeping
// in memory.
func (c *Core) Served() Index {
	served := c.log.applied
	if c.leader == nil {
		return served
	}
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if !c.silent(p) {
			served = min(served, p.match)
		}
	}
	return served
}

// Status returns the core's state.
func (c *Core) Status() CoreStatus {
	s := CoreStatus{
		ID: c.self.ID, Incarnation: c.self.Incarnation, StartCount: c.ids.StartCount, Cluster: c.cluster(),
		Leadership: c.Leadership(), Uninitialized: c.uninitialized(), Base: c.log.Base.ID, Last: c.log.Last,
		Config: c.config(), ConfigIndex: c.log.config().Index, ConfigCommitted: c.log.configAt(c.log.commit).Index,
		Persisted: c.disk.persisted, Durable: c.disk.hard, Commit: c.log.commit, Applied: c.log.applied, Missing: c.bootstrapper.missing(),
		Removals: c.log.configAt(c.log.commit).Config.Removed, Removed: c.Removed(),
		Suspected: c.suspectedPeer(), DiskStalled: c.diskStalled(), FSMHangs: c.fsmHangs(), Reads: c.readsWaiting(), Election: c.follower.attempts.status(c.wait()),
	}
	_, s.Bootstrapper = c.origin()
	c.statusOfSnapshots(&s)
	if c.leader == nil {
		return s
	}
	if t := c.leader.transfer; t != nil {
		s.TransferringUntil = t.deadline
	}
	s.Change = c.changeStatus()
	s.Pending, s.PendingBytes = len(c.leader.pending), c.leader.bytes
	s.Peers = make([]PeerProgress, 0, len(c.leader.peers))
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		s.Peers = append(s.Peers, PeerProgress{
			p.peer.ID, p.peer.Incarnation, p.state.String(), p.match, p.next, len(p.flow.inflight), p.heard, p.beats.roundTrip.max(), p.acks.max(), p.flow.bytes,
			p.snap.snapshot.ID, p.snap.began, !c.takesSnapshots(p.peer), p.hindered, p.lags(), p.votes, c.catchUpStatus(p),
			p.departs > 0, p.departs, p.applied, p.departsUntil, p.oversized.id, p.oversized.bytes,
		})
	}
	return s
}
