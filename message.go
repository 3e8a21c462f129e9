package raft

import "fmt"

// RPCID pairs a reply with its request: the start count of the asker, which is raised durably before
// the first message of each start, and a counter within it. No id is ever used twice.
type RPCID struct {
	StartCount uint64
	Counter    uint64
}

// Less orders the ids of one asker by when they were made.
func (r RPCID) Less(other RPCID) bool {
	return r.StartCount < other.StartCount || r.StartCount == other.StartCount && r.Counter < other.Counter
}

func (r RPCID) String() string { return fmt.Sprintf("%d.%d", r.StartCount, r.Counter) }

// Message is one RPC, or the reply to one, on its way between two members.
type Message struct {
	From Peer
	To   Peer // the incarnation is 0, "open", in a BootstrapProbe alone
	// Cluster is zero while the sender is uninitialized.
	Cluster ClusterID
	// Term is the sender's current term, always a durable one.
	Term Term
	Body Body
}

// Body is the content of a message: one of the types of this file, and no other.
type Body interface{ class() bodyClass }

// bodyClass is what the rules about envelopes, in envelope.go, look at in a body.
type bodyClass uint8

const (
	ofBootstrap bodyClass = iota // comes before the cluster's first term
	ofCandidate                  // asks for votes
	ofLeader                     // only the leader of its term sends it
	ofMember                     // what any member sends: answers, and what a follower asks for
)

// BootstrapProbe asks a member, before the cluster exists, who it is (bootstrap).
type BootstrapProbe struct {
	ID   RPCID
	List Configuration // the caller's node.Config.Initial
}

// ProbeResult is a member's answer to the probe.
type ProbeResult uint8

// The verdicts of a probe.
const (
	ProbeUninitialized ProbeResult = 1 // uninitialized, with the caller's list: ready to be bootstrapped
	ProbeListDiffers   ProbeResult = 2 // uninitialized, but with another list
	ProbeNoInitial     ProbeResult = 3 // uninitialized, without a list: waits to be added
	ProbeInitialized   ProbeResult = 4 // belongs to a cluster already
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
	List         Configuration // the answerer's own list
	Bootstrapper Peer          // ProbeInitialized: who bootstrapped its cluster; its term is the message's
	Wall         int64         // the answerer's wall clock, for the stamp of entry 1; 0: it does not tell
}

// BootstrapRequest carries entry 1 to every member once it is durable at the bootstrapper.
type BootstrapRequest struct {
	Entry Entry
}

// BootstrapReply says that entry 1 of this probe is durable at the sender.
type BootstrapReply struct {
	ID RPCID
}

// PreVoteRequest asks whether a vote would be granted in term Message.Term + 1 (dissertation §9.6).
type PreVoteRequest struct {
	ID   RPCID
	Last EntryID // of the candidate's log
}

// PreVoteReply answers a PreVoteRequest and promises nothing. A refusal because a leader is heard
// names it, so that a member that rejoins finds it in one hop.
type PreVoteReply struct {
	ID      RPCID
	Granted bool
	Leader  NodeID
}

// VoteRequest is RequestVote of Figure 2 for term Message.Term.
type VoteRequest struct {
	Last     EntryID // lastLogIndex, lastLogTerm
	Transfer bool    // begun by a TimeoutNow of the leader: passes stickiness (dissertation §4.2.3)
}

// VoteReply is the answer of Figure 2. A grant leaves once the vote is durable.
type VoteReply struct {
	Granted bool
	Wall    int64 // with a grant: the voter's wall clock, for the stamps of entries; 0: it does not tell
}

// AppendRequest is AppendEntries of Figure 2 with the entries of the span (Prev, Last].
type AppendRequest struct {
	Prev   EntryID // prevLogIndex, prevLogTerm
	Last   EntryID // of the last entry carried; Prev if there is none
	Commit Index   // leaderCommit
	// Acknowledged is what the receiver had acknowledged in this term before the request was made: the
	// leader's matchIndex for it, never above Prev. Who lacks that has lost what it acknowledged.
	Acknowledged Index
	// Entries is empty when the message leaves the core, which keeps no payloads: the sender fills
	// it in from the span, and the receiver's core finds it filled.
	Entries []Entry
	// Generation is the log's generation when the span was named. It never leaves the node: the
	// sender drops a span whose generation has passed, see SendDropped.
	Generation uint64
}

// AppendReply says that the sender's log holds the leader's up to Match, durably.
type AppendReply struct {
	Match Index
}

// AppendConflict says that the consistency check at Prev failed (Figure 2, AppendEntries rule 2).
type AppendConflict struct {
	Prev Index
	// Hint is the last entry of the follower's log, at or below Prev, whose term is at most that of
	// the leader's Prev: the agreement is at or below it (dissertation §3.5).
	Hint EntryID
	// Acknowledged is the request's: the leader knows by it that this answer was given after that
	// acknowledgement, and is not an earlier one that comes late.
	Acknowledged Index
}

// Heartbeat keeps followers followers between appends. It is sent on a connection of its own.
type Heartbeat struct {
	// Round is echoed by the reply; a quorum of replies proves that the leader still led when the
	// round began. The zero Round asks for no reply: it only tells the commit index.
	Round RPCID
	// Commit is the leader's commitIndex, cut to what the follower has acknowledged.
	Commit Index
}

// HeartbeatReply echoes the round.
type HeartbeatReply struct {
	Round RPCID
	// Match is the smaller of what is persisted here and what this term's leader has proved to
	// match; 0 until it proved something.
	Match Index
	Wall  int64 // the sender's wall clock, for the stamps of entries; 0: it does not tell
}

// ReadRequest asks the leader for a read index on behalf of a follower (dissertation §6.4).
type ReadRequest struct {
	ID RPCID
}

// ReadReply answers a ReadRequest: all that was acknowledged before it was sent is at or below Index.
type ReadReply struct {
	ID    RPCID
	OK    bool // false: see Refusal
	Index Index
	// Refusal says why not: RefusedNotLeader, or RefusedOverloaded, which is what anything else means, too.
	Refusal RefusalKind
}

// TimeoutNow tells a voter to campaign at once (dissertation §3.10). It counts in its own term only.
type TimeoutNow struct{}

// SteppedDown tells the followers of this term's leader that it leads no more, because it has heard no
// quorum: they may be able to hear it although it cannot hear them.
type SteppedDown struct{}

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

// Bulk reports whether the message may be large, and so belongs on the bulk connection, where it
// cannot hold up heartbeats and votes.
func (m Message) Bulk() bool {
	switch m.Body.(type) {
	case AppendRequest, AppendReply, AppendConflict:
		return true
	}
	return false
}
