package raft

import (
	"fmt"
	"math/rand/v2"
)

// Role is a member's present role (paper §5.1).
type Role uint8

const (
	Follower Role = iota
	PreCandidate
	Candidate
	Leader
)

func (r Role) String() string {
	switch r {
	case Follower:
		return "follower"
	case PreCandidate:
		return "pre-candidate"
	case Candidate:
		return "candidate"
	case Leader:
		return "leader"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Core is Raft: a deterministic state machine in memory, without clock, I/O, goroutine or lock. The same events give the same
// outputs. It keeps no payloads of entries. One goroutine at a time may call its methods.
type Core struct {
	cfg  CoreConfig
	self Peer
	ids  RPCID // the last one issued: (start count, counter)
	rng  *rand.Rand
	now  Now

	hard HardState // currentTerm, votedFor
	log  log
	disk disk
	// termLeader is the leader of the present term, as far as this member knows.
	termLeader   termLeader
	follower     follower
	candidate    *candidate    // non-nil exactly while pre-candidate or candidate
	leader       *leader       // non-nil exactly while leader
	bootstrapper *bootstrapper // non-nil exactly while this member bootstraps a cluster
	snaps        snapshots     // of this member's own state
	clocks       clocks        // of the other voters, for the stamps of entries
	step         step          // the state of the running Step
}

// NewCore returns a core that continues from the stored state, and its first Output. The error joins all problems of cfg,
// each a *ConfigError. Or it refuses the store with a *StaleImageError or *ContradictedError (marked), *RemovedError,
// *AppVersionError, *LaterVersionError (feature level), *AppliedBeyondLogError, *AppliedBelowBaseError, or *CorruptError (a term above Hard.Term).
func NewCore(cfg CoreConfig, stored Stored, now Now) (*Core, Output, error) {
	if err := cfg.Validate(); err != nil {
		return nil, Output{}, err
	}
	cfg = cfg.WithDefaults()
	cfg.Initial = NewConfiguration(cfg.Initial.Members)
	if stored.Mark != nil {
		return nil, Output{}, stored.Mark.Err()
	}
	if err := stored.Check(); err != nil {
		return nil, Output{}, err
	}
	c := &Core{
		cfg:  cfg,
		self: Peer{cfg.ID, stored.Incarnation},
		ids:  RPCID{StartCount: stored.StartCount},
		rng:  rand.New(rand.NewPCG(cfg.Seed, uint64(stored.Incarnation)^stored.StartCount)),
		hard: stored.Hard,
		log:  newLog(stored.Log),
		disk: disk{hard: stored.Hard, persisted: stored.Log.Last.Index, snapshot: stored.Snapshot},
	}
	c.log.applying, c.log.applied = stored.Applied.Index, stored.Applied.Index
	c.begin(now)
	c.step.hard = stored.Hard
	c.follower.promisedUntil = now.Mono + stored.Hard.Lease
	c.startOffice()
	covered := c.startSnapshots(stored.Snapshot)
	c.commitTo(min(max(stored.Commit, stored.Applied.Index, covered), c.log.Last.Index))
	c.log.provenCommit = max(min(stored.Commit, c.log.Last.Index), covered)
	c.compact() // the earlier life may have held entries for followers
	if by := c.Removed(); by > 0 {
		return nil, Output{}, &RemovedError{by}
	}
	if err := c.Outdated(); err != nil {
		return nil, Output{}, err
	}
	if config := c.config(); len(config.Members) > 0 {
		c.step.out.Config = &config
	}
	c.resetElectionDeadline()
	c.startBootstrap()
	return c, c.finish(), nil
}

// Step handles the events in order, then checks the deadlines, and returns what the caller must do. In an impossible state it
// panics with an *InvariantError, and the core cannot be used any more.
func (c *Core) Step(now Now, events ...Event) Output {
	c.begin(now)
	for _, e := range events {
		c.handle(e)
	}
	c.onDeadlines()
	return c.finish()
}

func (c *Core) begin(now Now) {
	assert(!c.step.running, "a core whose Step panicked is dead")
	c.step.running = true
	assert(now.Mono >= c.now.Mono, "monotonic time does not fall")
	c.now = now
	c.step.out = Output{}
	if c.step.wakeAt > 0 && now.Mono > c.step.wakeAt {
		c.wokeLate(now.Mono - c.step.wakeAt)
	}
}

func (c *Core) handle(e Event) {
	if c.marked() {
		c.onEventOfMarked(e)
		return
	}
	switch e := e.(type) {
	case Received:
		c.receive(e.Message)
	case Persisted:
		c.onPersisted(e.Seq)
	case Applied:
		c.onApplied(e.ID)
	case Applying:
		c.onApplying(e)
	case Proposed:
		c.propose(e.Proposals)
	case ReadRequested:
		c.requestRead(e.RequestID)
	case TransferRequested:
		c.requestTransfer(e)
	case Working:
		c.onWorking(e)
	case ChangeRequested:
		c.requestChange(e)
	case PeerUp:
		c.onPeerUp(e)
	case PeerLost:
		c.onPeerLost(e)
	case SendDropped:
		c.onSendDropped(e)
	case SnapshotRequested:
		c.requestSnapshot(e.RequestID)
	case SnapshotTaken:
		c.onSnapshotTaken(e)
	case SnapshotArrived:
		c.onSnapshotArrived(e)
	case SnapshotSending:
		c.onSnapshotSending(e)
	case SnapshotSent:
		c.onSnapshotSent(e)
	case LimitsChanged:
		c.onLimitsChanged(e.Limits)
	case InitialGiven:
		c.onInitialGiven(e.Initial)
	case Heard:
		c.onHeard(e)
	case Closing:
		c.close()
	default:
		assert(false, "every event is one of the types of event.go")
	}
}

// onDeadlines does what is due at this time. Step has handled the events before.
func (c *Core) onDeadlines() {
	now := c.now.Mono
	switch {
	case c.leader != nil:
		c.onLeaderDeadlines()
	case c.bootstrapper != nil:
		c.onBootstrapperDeadline()
	case c.mayCampaignNow() && now >= c.campaignsAt():
		c.onElectionTimeout()
	}
	c.onReadDeadlines()
	c.onTransferOutcomeDeadline()
	c.forgiveLosses()
}

// idleMax is how long a core lets its caller sleep if the core has nothing to wait for.
const idleMax = Time(3600e9)

// wakeAt returns the next deadline.
func (c *Core) wakeAt() Time {
	at := c.now.Mono + idleMax
	switch {
	case c.leader != nil:
		at = min(at, c.leader.wakeAt(c))
	case c.bootstrapper != nil:
		at = min(at, c.bootstrapper.wakeAt())
	case c.mayCampaignNow():
		at = min(at, c.campaignsAt())
	}
	if o := c.follower.transferOutcome; o != nil {
		at = min(at, o.deadline)
	}
	return min(at, c.follower.reads.wakeAt(), c.snapshotWakeAt())
}

// finish completes the Output.
func (c *Core) finish() Output {
	if c.leader != nil {
		c.lead()
	}
	c.settleSuspicion()
	c.issueRestore()
	c.issueApply()
	c.keepSnapshots()
	c.settle()
	c.stampLease()
	c.release()
	c.issueWrite()
	out := c.step.out
	out.Lease, out.WakeAt = c.lease(), c.wakeAt()
	c.step.wakeAt = out.WakeAt
	c.step.out = Output{}
	c.step.running = false
	c.checkStep(&out)
	return out
}

// receive handles a message of a peer. It refuses a message that no correct peer sends, and writes a trace event.
//
// Some messages never change our term, whatever term they carry. The messages of a bootstrap come before the first term. A
// request for a pre-vote is about a term that has not begun. The sender of a granted pre-vote may already be in the term that
// it was asked about.
func (c *Core) receive(m Message) {
	if why := c.misaddressed(m); why != "" {
		c.refuse(m, why)
		return
	}
	if why := c.untimely(m); why != "" {
		c.refuse(m, why)
		return
	}
	if c.wasRemoved(m) {
		c.trace(TraceEvent{Kind: TraceVoteDenied, Peer: m.From.ID, Reason: DeniedRemoved})
		return
	}
	switch body := m.Body.(type) {
	case BootstrapProbe:
		c.onBootstrapProbe(m.From, body)
	case BootstrapProbeReply:
		c.onBootstrapProbeReply(m, body)
	case BootstrapRequest:
		c.onBootstrapRequest(m, body)
	case BootstrapReply:
		c.onBootstrapReply(m.From, body)
	case PreVoteRequest:
		c.onPreVoteRequest(m, body)
	case PreVoteReply:
		c.onPreVoteReply(m, body)
	default:
		if offer, ok := body.(InstallSnapshot); ok && c.uninitialized() {
			c.onFirstOffer(m, offer)
			return
		}
		c.receiveRPC(m)
	}
}

// receiveRPC enforces the rule for all servers:
//
//	"If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to
//	follower (§5.1)." (Figure 2)
func (c *Core) receiveRPC(m Message) {
	if why := c.disturbs(m); m.Term > c.hard.Term && why != Granted {
		c.trace(TraceEvent{Kind: TraceVoteDenied, Peer: m.From.ID, Reason: why})
		return
	}
	if m.Term > c.hard.Term && !c.mayRaiseTerm(m) {
		c.refuse(m, "our configuration does not name its sender, and it is neither a leader's nor a vote request that we would grant")
		return
	}
	if m.Term > c.hard.Term {
		c.trace(TraceEvent{Kind: TraceNewerTerm, Peer: m.From.ID, Newer: m.Term})
		c.becomeFollower(m.Term, c.leaderNamedIn(m))
	}
	if m.Term < c.hard.Term {
		c.onStaleRPC(m)
		return
	}
	c.onRPC(m)
}

// onRPC handles a message of the present term.
func (c *Core) onRPC(m Message) {
	c.doubtSuspicion(m)
	switch body := m.Body.(type) {
	case PreVoteReply:
		// This is a refusal. Only its term matters, and receiveRPC has handled the term.
	case VoteRequest:
		c.onVoteRequest(m.From, body)
	case VoteReply:
		c.onVoteReply(m.From, body)
	case AppendRequest:
		c.onAppendRequest(m, body)
	case AppendReply:
		c.onAppendReply(m, body)
	case AppendConflict:
		c.onAppendConflict(m, body)
	case InstallSnapshot:
		c.onInstallSnapshot(m, body)
	case Heartbeat:
		c.onHeartbeat(m, body)
	case HeartbeatReply:
		c.onHeartbeatReply(m, body)
	case ReadRequest:
		c.onReadRequest(m.From, body)
	case ReadReply:
		c.onReadReply(m.From, body)
	case TimeoutNow:
		c.onTimeoutNow(m.From, body)
	case SteppedDown:
		c.onSteppedDown(m.From)
	default:
		c.refuse(m, "it has no known body")
	}
}

// onStaleRPC answers a request of an earlier term:
//
//	"Reply false if term < currentTerm (§5.1)." (Figure 2)
//
// The reply carries our term, so that the sender learns that its own term has passed.
func (c *Core) onStaleRPC(m Message) {
	switch body := m.Body.(type) {
	case VoteReply:
		c.onAnswer(m.From, c.follower.attempts.sinceTerm(m.Term))
	case VoteRequest:
		c.trace(TraceEvent{Kind: TraceVoteDenied, Peer: m.From.ID, Reason: DeniedOldTerm})
		c.send(m.From, VoteReply{})
	case AppendRequest:
		c.send(m.From, AppendConflict{Prev: body.Prev.Index})
	case InstallSnapshot: // "1. Reply immediately if term < currentTerm" (Figure 13)
		c.send(m.From, AppendConflict{Prev: body.Snapshot.ID.Index})
	case Heartbeat:
		c.send(m.From, HeartbeatReply{Round: body.Round})
	case ReadRequest:
		c.send(m.From, ReadReply{ID: body.ID, Refusal: RefusedNotLeader})
	}
}

// refuse drops a message that no correct peer sends to us.
func (c *Core) refuse(m Message, why string) {
	c.trace(TraceEvent{Kind: TraceRefused, Peer: m.From.ID, Newer: m.Term, Text: why})
}

// raiseTerm is the only place where the term changes.
func (c *Core) raiseTerm(term Term) {
	assert(term > c.hard.Term, "the term never decreases")
	c.endBallot(false)
	c.hard = HardState{Term: term, Cluster: c.hard.Cluster, Losses: c.hard.Losses, Lease: c.hard.Lease}
	c.termLeader = termLeader{}
}

// voteFor is the only place where the vote changes.
func (c *Core) voteFor(p Peer) {
	assert(c.hard.Vote == Peer{} || c.hard.Vote == p, "one vote a term")
	c.hard.Vote = p
}

// setRole is the only place where the role changes.
func (c *Core) setRole(followed Peer, cand *candidate, lead *leader) {
	assert(cand == nil || lead == nil, "a member has one role")
	if c.leader != nil {
		c.endOffice(c.leader)
		c.follower.vacancy = vacancy{CauseSteppedDown, c.self.ID, c.now.Mono}
		c.endLeadership(c.leader)
	}
	c.termLeader.peer, c.candidate, c.leader = followed, cand, lead
	c.refuseForwarded()
	c.advanceTransferOutcome()
}

// becomeFollower follows leader (zero if none is known) in term, which must not be below the present one.
func (c *Core) becomeFollower(term Term, leader Peer) {
	assert(term >= c.hard.Term, "the term never decreases")
	assert(leader != c.self, "nobody follows itself")
	wasLeader := c.leader != nil
	if term > c.hard.Term {
		c.raiseTerm(term)
	}
	c.bootstrapper = nil
	c.setRole(leader, nil, nil)
	c.trace(TraceEvent{Kind: TraceFollower, Peer: leader.ID})
	if wasLeader {
		c.resetElectionDeadline()
	}
}

// becomePreCandidate begins an attempt with a pre-vote, which does not raise the term (dissertation §9.6).
func (c *Core) becomePreCandidate() {
	assert(c.leader == nil, "a leader does not campaign")
	c.setRole(Peer{}, &candidate{pre: true, round: c.nextID()}, nil)
	c.trace(TraceEvent{Kind: TracePreCampaign})
}

// becomeCandidate begins an election:
//
//	"On conversion to candidate, start election: increment currentTerm, vote for self, reset
//	election timer, send RequestVote RPCs to all other servers." (Figure 2)
func (c *Core) becomeCandidate() {
	assert(c.leader == nil, "a leader does not campaign")
	c.raiseTerm(c.hard.Term + 1)
	c.voteFor(c.self)
	c.bootstrapper = nil
	c.setRole(Peer{}, &candidate{}, nil)
	c.trace(TraceEvent{Kind: TraceCampaign})
}

// becomeLeader begins this member's leadership of the term. It appends a no-op of that term, so that it can commit the
// entries of earlier terms (§5.4.2, §8).
//
// If only a DurableFSM reports an entry as committed, the entry was committed in an earlier term. The reason is that a voter
// which acknowledged it in a later term would not have voted for this term. So from now on the entry may be compacted, and
// sent as part of a snapshot.
func (c *Core) becomeLeader() {
	assert(c.follower.attempts.ballot != nil && c.leader == nil, "only a candidate of the present term becomes its leader")
	assert(c.termLeader.elected == Peer{}, "at most one leader is elected in a term")
	assert(c.voteDurable(), "a leader's term and own vote are durable")
	roundTrip, named := c.now.Mono-c.follower.attempts.ballot.asked, c.follower.attempts.ballot.named
	c.endBallot(true)
	c.termLeader.elected = c.self
	c.log.provenCommit = c.log.commit
	c.setRole(c.self, nil, c.newLeader(roundTrip))
	c.leader.stays = named
	c.trace(TraceEvent{Kind: TraceLeader, Text: c.follower.vacancy.reason(c.now.Mono)})
	c.appendOwn(Entry{Kind: EntryNoop})
	c.beginRound()
	c.leader.heartbeatAt = c.now.Mono + Time(c.cfg.HeartbeatInterval)
}

func (c *Core) role() Role {
	switch {
	case c.leader != nil:
		return Leader
	case c.candidate == nil:
		return Follower
	case c.candidate.pre:
		return PreCandidate
	}
	return Candidate
}

// nextID returns a request id that was never used before.
func (c *Core) nextID() RPCID {
	c.ids.Counter++
	return c.ids
}

// uninitialized reports whether the member belongs to no cluster yet. An uninitialized member neither votes nor campaigns.
func (c *Core) uninitialized() bool { return c.hard == HardState{} && c.log.Last.Index == 0 }

// names reports whether the configuration names the peer with this incarnation.
func (c *Core) names(p Peer) bool { return c.config().includes(p) }

func (c *Core) cluster() ClusterID {
	if c.hard.Cluster != (ClusterID{}) {
		return c.hard.Cluster
	}
	cluster, _ := c.origin()
	return cluster
}

// origin returns what entry 1, or the base, says about the cluster; zero while uninitialized.
func (c *Core) origin() (cluster ClusterID, bootstrapper Peer) {
	if f := c.log.Bootstrap; f != nil {
		return f.Cluster, f.Bootstrapper
	}
	return c.log.Base.Cluster, c.log.Base.Bootstrapper
}

func (c *Core) electionTimeout() Time { return Time(c.cfg.ElectionTimeout) }
