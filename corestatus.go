package raft

// Leadership says who leads, as far as this member knows.
type Leadership struct {
	Term              Term
	Leader            NodeID      // "": none is known
	LeaderIncarnation Incarnation // of Leader, which may replace another one with its id; 0: none is known
	Role              Role        // this member's own
	ByTransfer        bool        // an earlier leader has transferred its leadership to Leader: it runs, and answers its callers
}

// Leadership returns who leads. It allocates nothing.
func (c *Core) Leadership() Leadership {
	t := &c.termLeader
	byTransfer := t.peer != Peer{} && t.peer == t.told
	return Leadership{c.hard.Term, t.peer.ID, t.peer.Incarnation, c.role(), byTransfer}
}

// FSMHangs reports whether the FSM applies one batch for too long (see ApplyStallMax). A loop may then report outcomes as
// unknown. It allocates nothing.
func (c *Core) FSMHangs() bool { return c.fsmHangs() }

// CoreStatus is a core's state for operators.
type CoreStatus struct {
	ID          NodeID
	Incarnation Incarnation
	StartCount  uint64
	Cluster     ClusterID // zero while uninitialized
	Leadership
	Bootstrapper      Peer // zero while uninitialized
	Uninitialized     bool
	Config            Configuration   // in force
	ConfigIndex       Index           // of the entry that holds Config; 0 while uninitialized
	ConfigCommitted   Index           // of the newest committed configuration; below ConfigIndex, Config may be rolled back
	Removals          []Removal       // the latest committed ones, oldest first, at most RemovedMax
	AppVersionMin     uint64          // of the newest committed configuration: all members run at least that version
	Removed           Index           // see Core.Removed
	Change            *ChangeProgress // of a leader: what a change of the members waits for; nil: none
	Base              EntryID         // the log begins behind it; zero: at entry 1
	Last              EntryID         // of the log
	Persisted         Index           // the end of the durable log
	Durable           HardState       // while it is behind, the member does not campaign, and promises wait
	Commit            Index
	Applied           Index
	Suspected         Peer           // a leader outside Config that has shown a loss here, so no votes or campaigns yet; zero: none
	DiskStalled       bool           // the oldest write takes too long (see DiskStallMax): a leader refuses proposals
	FSMHangs          bool           // a batch takes too long (see ApplyStallMax): a leader refuses proposals
	Snapshot          EntryID        // the last entry that the newest snapshot or DurableFSM.Sync covers; zero: none
	SnapshotBytes     int64          // of the recorded snapshot; 0: none
	Taking            EntryID        // the last entry of the snapshot that is being taken; zero: none
	Restoring         EntryID        // the last entry of the snapshot that the FSM has yet to restore; zero: none
	Receiving         EntryID        // the last entry of the snapshot that this member asked for; zero: none
	ReceivingFrom     NodeID         // the member that sends it
	Election          ElectionStatus // this member's attempts since a term last committed
	Successors        []Peer         // who shall campaign first, second and so on once this term's leader is lost, as it says
	Span              Time           // how long an election takes at most, as the last leader has said; 0: not known
	Backoff           Time           // for how long it still counts as one without priority, since it has lost its leadership; 0: it does not
	Caretaker         bool           // it leads although it is a standby
	LeaderGone        bool           // the news is that the process of this term's leader has ended
	Cause             Cause          // of a leader: why it was elected
	TookOver          string         // of a leader: Cause in words, which complete "n2 took over"; "" if it bootstrapped the cluster
	TransferringUntil Time           // when a leader gives up its transfer; 0: none
	Missing           []string       // of a bootstrapper: what it waits for, one sentence per member; also what Heard means
	Heard             Heard          // the cluster of which this member has heard, so that it bootstraps none; zero: none
	HeardAt           int64          // Now.Wall when it was last told of that cluster
	Peers             []PeerProgress // of a leader: all other members and departing ones, by id, then incarnation
	Pending           int            // of a leader: pending proposals
	PendingBytes      int            // of those proposals
	Reads             int            // waiting here: on a leader for a quorum, else for the leader's answer
}

// ChangeStage says how far a change of the members is.
type ChangeStage string

const (
	ChangeCommits   ChangeStage = "commits"    // its entry is not committed yet
	ChangeCatchesUp ChangeStage = "catches up" // future voters must catch up first
	ChangeJoint     ChangeStage = "joint"      // the former and the new voters must agree
	ChangeTransfers ChangeStage = "transfers"  // it is done, and the leader, which lost its vote, transfers its leadership
)

// ChangeProgress says what a change of the members waits for.
type ChangeProgress struct {
	Stage   ChangeStage
	Since   Time     // when the configuration in force came into force here
	Waiting []NodeID // ChangeCatchesUp: the members that must catch up; empty: it waits to hear a majority
}

// CatchUpRound says how a non-voter catches up. A round ends when the member holds what the log held when it began.
type CatchUpRound struct {
	Round   int // the present or the last one, from 1
	Target  Index
	Since   Time  // when the round began
	Ready   bool  // the member could become a voter now
	From    Index // PeerProgress.Match when its entries were last sent anew: in this round, or after a snapshot or probe
	FromAt  Time  // the time of From
	MovedAt Time  // when it last made progress; initially, when the leader began with it
}

// ElectionStatus describes a member's elections since a term last committed.
type ElectionStatus struct {
	Attempts int  // election timeouts, each of which began a pre-vote
	Wait     Time // the present wait: the election timeout, or more after slow answers or writes
	Write    Time // the longest write of its own vote
	Answer   Time // the longest wait for an answer
	Pause    Time // the longest time that its process slept beyond a deadline
}

// Slowest returns the longest of Write, Answer and Pause, with words for it.
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
	ID             NodeID
	Incarnation    Incarnation
	State          string       // "probe", "replicate", "snapshot" or "stale", see MemberStatus
	Match          Index        // as far as is known, its log durably agrees up to here; 0 if it is stale
	Next           Index        // the next entry to send
	Inflight       int          // unanswered appends
	LastHeard      Time         // in this term; the election if never
	RoundTrip      Time         // the longest recent one, of a heartbeat or of the election
	SlowestAck     Time         // the slowest recent acknowledgement of an append, or the election
	InflightBytes  int          // of the unanswered appends, approximately
	Offered        EntryID      // in state "snapshot": the last entry of the offered snapshot; zero: none yet
	SnapshotSince  Time         // when that snapshot was first offered
	EarlierRelease bool         // its protocol has no snapshots: it must be upgraded before it is offered one
	Hindered       Hindrance    // what keeps it from counting, by its own report; 0: nothing, or an earlier release
	Backoff        Time         // for how long it still counts as one without priority, by its own report; 0: it does not
	LagsSince      Time         // the latest possible time since when it has lacked an entry; 0: it lacks none
	Votes          Halves       // the halves of the configuration in which it votes
	CatchUp        CatchUpRound // zero if it votes
	Departing      bool         // it was removed, and is served until it knows
	Removal        Index        // the entry that removed it; 0 unless it departs
	Applied        Index        // the last index that its FSM reported in this term, seldom while busy; 0: none
	ServedUntil    Time         // when a departing member is served no longer; 0 while its removal is not committed
	Oversized      EntryID      // in state "snapshot": the entry too large for an append to it; zero: another reason
	OversizedBytes int          // the size of that entry's record
	AppVersion     uint64       // of its program, by its last report in this term; 0: none, or not known
}

// Served returns the last entry that is unlikely to be read again soon. It is applied here and, on a leader, acknowledged by
// every member that check-quorum counts as heard. Keep the later entries in memory.
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
		Persisted: c.disk.persisted, Durable: c.disk.hard, Commit: c.log.commit, Applied: c.log.applied, Missing: c.missing(),
		Removals: c.log.configAt(c.log.commit).Config.Removed, AppVersionMin: c.log.configAt(c.log.commit).Config.AppVersionMin, Removed: c.Removed(),
		Suspected: c.suspectedPeer(), DiskStalled: c.diskStalled(), FSMHangs: c.fsmHangs(), Reads: c.readsWaiting(), Election: c.follower.attempts.status(c.wait()),
		Successors: c.termLeader.successors, Span: c.follower.span, LeaderGone: c.termLeader.gone, Backoff: c.backoff(),
	}
	if _, s.Bootstrapper = c.origin(); c.hasHeard() {
		s.Heard, s.HeardAt = c.follower.hearing.Heard, c.follower.hearing.wall
	}
	c.statusOfSnapshots(&s)
	if c.leader == nil {
		return s
	}
	s.Caretaker = c.standby(c.self)
	s.Cause, s.TookOver = c.follower.vacancy.cause, c.follower.vacancy.reason(c.leader.since)
	s.Successors, s.Span = c.leader.succession.list, c.leader.succession.span
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
			p.snap.snapshot.ID, p.snap.began, !c.takesSnapshots(p.peer), p.hindered, p.backoff, p.lags(), p.votes, c.catchUpStatus(p),
			p.departs > 0, p.departs, p.applied, p.departsUntil, p.oversized.id, p.oversized.bytes,
			p.appVersion,
		})
	}
	return s
}
