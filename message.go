package raft

import "fmt"

// This file holds the RPCs, in the names of the paper. It also holds the rules that say which members may send each RPC and
// raise the term.

// RPCID pairs a reply with its request: the asker's start count, durably raised before its first message, and a counter. No id
// is used twice.
type RPCID struct{ StartCount, Counter uint64 }

// Less reports whether the asker made r before other.
func (r RPCID) Less(other RPCID) bool {
	return r.StartCount < other.StartCount || r.StartCount == other.StartCount && r.Counter < other.Counter
}

func (r RPCID) String() string { return fmt.Sprintf("%d.%d", r.StartCount, r.Counter) }

// Message is one RPC, or the reply to one, from one member to another.
type Message struct {
	From    Peer
	To      Peer      // incarnation 0 only in a BootstrapProbe, when it is not known yet
	Cluster ClusterID // zero while the sender is uninitialized
	Term    Term      // the sender's, durable before the message leaves
	Body    Body
}

// Body is one of the message types of this file; transport/wire.go encodes it.
type Body interface{ class() bodyClass }

// bodyClass is what the rules for senders and terms need to know about a body.
type bodyClass uint8

const (
	ofBootstrap bodyClass = iota // comes before the cluster's first term
	ofCandidate                  // asks for votes
	ofLeader                     // only sent by the leader of its term
	ofMember                     // sent by any member: answers, and a follower's requests
	ofStream                     // part of a snapshot's stream: the host handles it, no core sees it
	ofForward                    // a caller's request on its way to the leader, or its answer: likewise
)

// BootstrapProbe asks whether a member is uninitialized, with the same list.
type BootstrapProbe struct {
	ID   RPCID
	List Configuration // the caller's node.Config.Initial
}

// ProbeResult is a member's answer to the probe.
type ProbeResult uint8

const (
	ProbeUninitialized ProbeResult = 1 // uninitialized, with the caller's list: ready to be bootstrapped
	ProbeListDiffers   ProbeResult = 2 // uninitialized, but with another list
	ProbeNoInitial     ProbeResult = 3 // uninitialized, without a list: waits to be added to a cluster
	ProbeInitialized   ProbeResult = 4 // belongs to a cluster already, or has heard of one (HeardFrom)
)

func (v ProbeResult) String() string {
	switch v {
	case ProbeUninitialized:
		return "uninitialized"
	case ProbeListDiffers:
		return "uninitialized, with another list"
	case ProbeNoInitial:
		return "uninitialized, without a list"
	case ProbeInitialized:
		return "initialized"
	}
	return "no answer"
}

// BootstrapProbeReply answers a BootstrapProbe and promises nothing.
type BootstrapProbeReply struct {
	ID           RPCID
	Result       ProbeResult
	List         Configuration // the sender's own
	Bootstrapper Peer          // ProbeInitialized: of the sender's cluster, if known
	Wall         int64         // the sender's wall clock, for the stamp of entry 1; 0: not given
	HeardOf      ClusterID     // ProbeInitialized: the cluster of Heard, if the sender is uninitialized and has heard of one
	HeardFrom    NodeID        // the member that told it; "": it has heard of none
}

// BootstrapRequest carries entry 1 once it is durable at the bootstrapper.
type BootstrapRequest struct{ Entry Entry }

// BootstrapReply says that entry 1 of this probe is durable at the sender.
type BootstrapReply struct{ ID RPCID }

// PreVoteRequest asks for a pre-vote for Message.Term + 1 (dissertation §9.6).
type PreVoteRequest struct {
	ID       RPCID
	Last     EntryID // of the candidate's log
	FSMHangs bool    // the candidate's FSM hangs: another voter would be a better leader
}

// PreVoteReply answers a PreVoteRequest and promises nothing. A refusal names the leader that the sender hears.
type PreVoteReply struct {
	ID                RPCID
	Granted           bool
	Leader            NodeID
	LeaderIncarnation Incarnation // 0 in the reply of an earlier release: the leader is the member with that id
}

// VoteRequest is RequestVote of Figure 2 for term Message.Term.
type VoteRequest struct {
	Last     EntryID // lastLogIndex, lastLogTerm
	Transfer bool    // the leader asked for it with TimeoutNow: stickiness does not apply (dissertation §4.2.3)
}

// VoteReply is the answer of Figure 2. A grant leaves once it is durable.
type VoteReply struct {
	Granted bool
	Wall    int64 // with a grant: the voter's wall clock, for the stamps of entries; 0: not given
}

// AppendRequest is AppendEntries of Figure 2. Its span is (Prev, Last].
type AppendRequest struct {
	Prev         EntryID // prevLogIndex, prevLogTerm
	Last         EntryID // the last entry carried; Prev if there is none
	Commit       Index   // leaderCommit
	Acknowledged Index   // matchIndex of the receiver, at most Prev: a receiver that lacks it has lost entries
	Entries      []Entry // empty when the message leaves the core: the sender fills it in from the span
	Promise      Promise // asked of the receiver
	Generation   uint64  // of the log; only for the sender, which drops a request of an earlier one: see SendDropped
}

// AppendReply says that the sender durably holds the leader's log up to Match.
type AppendReply struct {
	Match   Index
	Moment  Moment  // as in HeartbeatReply
	Promise Promise // granted when the request came
}

// AppendConflict says that the consistency check at Prev failed (Figure 2, AppendEntries rule 2): the logs agree at most up to
// Hint (dissertation §3.5).
type AppendConflict struct {
	Prev         Index
	Hint         EntryID // the follower's last entry up to Prev with a term of at most Prev's
	Acknowledged Index   // of the request: shows that the answer was given after that acknowledgement
}

// Heartbeat prevents election timeouts between appends, on the urgent lane.
type Heartbeat struct {
	Round  RPCID // a quorum of replies proves leadership at its beginning; zero: no reply wanted
	Commit Index // leaderCommit, but at most what the follower has acknowledged
	// Successors are the members that shall campaign first, second and so on once the leader is lost, at most 8. Span is how
	// long an election takes at most; 0: an earlier release, or a leader that names no successors.
	Successors []Peer
	Span       Time
	Fresh      Freshness // what a confirmed round has proved about the receiver's state; zero: nothing new
	Promise    Promise   // asked of the receiver
}

// HeartbeatReply echoes the round.
type HeartbeatReply struct {
	Round      RPCID
	Match      Index     // the last index that is durable and that this term's leader has proved to match; 0: none
	Wall       int64     // the sender's wall clock, for the stamps of entries; 0: not given
	Applied    Index     // by the sender's FSM; 0 in the reply of an earlier release
	Hindered   Hindrance // at present; the core leaves HinderedNoRoom to the host
	Backoff    Time      // for how long the sender still counts as one without priority, because it has lost its leadership; 0: it does not
	AppVersion uint64    // CoreConfig.AppVersion of the sender; 0: none, or an earlier release
	Moment     Moment    // when it was sent, on the sender's clock, to be returned in Heartbeat.Fresh; zero: an earlier release
	Promise    Promise   // granted when the heartbeat came
}

// Hindrance is a set of reasons why a member that answers heartbeats does not count. The leader only reports them. The
// numbers are part of the wire format; unknown bits are of a later release.
type Hindrance uint8

const (
	HinderedNoRoom    Hindrance = 1 << iota // its disk has no room for more entries of the log: the host fills this in
	HinderedStalled                         // its disk has stalled, see CoreStatus.DiskStalled
	HinderedRestoring                       // its FSM is restored from a snapshot
	HinderedSuspected                       // it may not vote, see CoreStatus.Suspected
	HinderedFSM                             // its FSM hangs, see CoreStatus.FSMHangs
)

// ReadRequest asks the leader for a follower's read index (dissertation §6.4).
type ReadRequest struct{ ID RPCID }

// ReadReply says that all writes acknowledged before the request are up to Index.
type ReadReply struct {
	ID      RPCID
	OK      bool // false: see Refusal
	Index   Index
	Refusal RefusalKind // RefusedNotLeader or RefusedOverloaded; a receiver takes others for the latter
}

// TimeoutNow orders a voter of its term to campaign at once (dissertation §3.10).
type TimeoutNow struct {
	Named bool // the caller has chosen this member: it does not transfer its leadership for a priority
}

// SteppedDown: the leader gave up for lack of a quorum. Others may still hear it.
type SteppedDown struct{}

// InstallSnapshot of Figure 13, without data, offers a snapshot. Its bytes follow in SnapshotChunks when the receiver asks for
// them. An AppendReply up to its entry acknowledges it.
type InstallSnapshot struct {
	Snapshot     Snapshot
	Acknowledged Index // as in AppendRequest
}

// SnapshotChunk carries bytes of a stream, named by sender, receiver and File.
type SnapshotChunk struct {
	File SnapshotID
	At   int64 // the offset of Data
	Data []byte
	Last bool   // the snapshot ends with this chunk
	Size int64  // with Last: of the whole snapshot
	Sum  uint32 // with Last: CRC-32C of the whole snapshot
}

// SnapshotProgress says how much of a stream the receiver has.
type SnapshotProgress struct {
	File    SnapshotID
	At      int64         // it has all bytes before this offset
	Begin   bool          // it answers the offer: send from At on
	Done    bool          // it has the whole snapshot, checked and synced
	Refusal StreamRefusal // why it takes no more; 0: it does
}

// StreamRefusal is the error of a member that takes no more of a snapshot's stream. The numbers are part of the wire format.
type StreamRefusal uint8

const (
	StreamUnknown     StreamRefusal = 1 // the receiver knows no such stream
	StreamSuperseded  StreamRefusal = 2 // another stream has taken its place
	StreamNoSpace     StreamRefusal = 3 // the receiver's disk has no room for it
	StreamTooLarge    StreamRefusal = 4 // it exceeds the receiver's limit
	StreamLaterFormat StreamRefusal = 5 // only a later release can read it
	StreamDamaged     StreamRefusal = 6 // its size or its checksum is not the one that was announced
	StreamUnsupported StreamRefusal = 7 // the receiver's store keeps no snapshots
	StreamFailed      StreamRefusal = 8 // the receiver could not write it
)

func (r StreamRefusal) Error() string {
	why := fmt.Sprintf("reason %d", uint8(r))
	switch r {
	case StreamUnknown:
		why = "it knows no such stream"
	case StreamSuperseded:
		why = "another stream has taken its place"
	case StreamNoSpace:
		why = "its disk has no room"
	case StreamTooLarge:
		why = "it exceeds its limit"
	case StreamLaterFormat:
		why = "only a later release can read it"
	case StreamDamaged:
		why = "its size or its checksum is wrong"
	case StreamUnsupported:
		why = "its store keeps no snapshots"
	case StreamFailed:
		why = "it could not write it"
	}
	return "raft: the receiver refuses the snapshot: " + why
}

func (BootstrapProbe) class() bodyClass      { return ofBootstrap }
func (BootstrapProbeReply) class() bodyClass { return ofBootstrap }
func (BootstrapRequest) class() bodyClass    { return ofBootstrap }
func (BootstrapReply) class() bodyClass      { return ofBootstrap }
func (PreVoteRequest) class() bodyClass      { return ofCandidate }
func (PreVoteReply) class() bodyClass        { return ofMember }
func (VoteRequest) class() bodyClass         { return ofCandidate }
func (VoteReply) class() bodyClass           { return ofMember }
func (AppendRequest) class() bodyClass       { return ofLeader }
func (AppendReply) class() bodyClass         { return ofMember }
func (AppendConflict) class() bodyClass      { return ofMember }
func (Heartbeat) class() bodyClass           { return ofLeader }
func (HeartbeatReply) class() bodyClass      { return ofMember }
func (ReadRequest) class() bodyClass         { return ofMember }
func (ReadReply) class() bodyClass           { return ofMember }
func (TimeoutNow) class() bodyClass          { return ofLeader }
func (SteppedDown) class() bodyClass         { return ofLeader }
func (InstallSnapshot) class() bodyClass     { return ofLeader }
func (SnapshotChunk) class() bodyClass       { return ofStream }
func (SnapshotProgress) class() bodyClass    { return ofStream }
func (Forward) class() bodyClass             { return ofForward }
func (ForwardReply) class() bodyClass        { return ofForward }

// Lane returns LaneSnapshot for a snapshot's bytes, and LaneForward for callers' requests and their answers. Other messages
// that may be large and would delay heartbeats and votes, and their answers, use LaneBulk.
func (m Message) Lane() Lane {
	switch m.Body.(type) {
	case AppendRequest, AppendReply, AppendConflict, InstallSnapshot, SnapshotProgress:
		return LaneBulk
	case SnapshotChunk:
		return LaneSnapshot
	case Forward, ForwardReply:
		return LaneForward
	}
	return LaneUrgent
}

// termJumpMax bounds how far one message may raise the term. No correct peer is further ahead. Without this bound, a forged
// term near 2^64 would prevent all later elections.
const termJumpMax = 1 << 32

// misaddressed returns what is wrong with the envelope of a message. It returns "" if nothing is wrong.
//
// Votes and acknowledgements count by (id, incarnation), so a member does not answer messages for another incarnation. The
// sender need not be in our configuration, because it may be in a newer one.
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
	case ours != ClusterID{} && m.Term > c.hard.Term+termJumpMax || m.Term >= 1<<63:
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

// untimely returns why a message makes no sense for a member in this state, or in the message's own term. It returns "" if
// the message makes sense.
func (c *Core) untimely(m Message) string {
	switch m.Body.class() {
	case ofBootstrap:
		return ""
	case ofStream:
		return "the host handles the streams of snapshots"
	case ofForward:
		return "the host handles callers' requests and their answers"
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

// mayRaiseTerm reports whether a message of a newer term may raise this member's term. If our configuration names the sender,
// every message may do so, as Figure 2 says.
//
// Another sender may belong to a newer configuration that this member does not know yet. So it may raise our term as a
// leader, or with a request for a vote that we would grant. It may not raise our term with an answer, because nobody asked
// it. Otherwise it could invent terms, and each of them would depose a leader.
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
