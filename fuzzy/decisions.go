package fuzzy

import "github.com/coxswain/raft"

// Decision is a kind of decision that cores trace. The counts of all kinds show which code a campaign has reached.
type Decision struct {
	Name     string
	kind     raft.TraceEventKind
	deny     raft.DenyReason
	byReason bool // whether deny must match, too
}

var decisions = [...]Decision{
	{Name: "election timeout", kind: raft.TraceTimeout},
	{Name: "ask for pre-votes", kind: raft.TracePreCampaign},
	{Name: "ask for votes", kind: raft.TraceCampaign},
	{Name: "campaign at once after TimeoutNow", kind: raft.TraceTimeoutNow},
	{Name: "lead", kind: raft.TraceLeader},
	{Name: "follow", kind: raft.TraceFollower},
	{Name: "go to a newer term", kind: raft.TraceNewerTerm},
	{Name: "step down without a quorum", kind: raft.TraceQuorumLost},
	{Name: "grant a vote", kind: raft.TraceVoteGranted},
	{"deny a vote of an earlier term", raft.TraceVoteDenied, raft.DeniedOldTerm, true},
	{"deny a second vote in a term", raft.TraceVoteDenied, raft.DeniedVoted, true},
	{"deny a vote to an older log", raft.TraceVoteDenied, raft.DeniedOldLog, true},
	{"deny a vote while a leader is heard", raft.TraceVoteDenied, raft.DeniedHearsLeader, true},
	{"deny a vote in a term that another has won", raft.TraceVoteDenied, raft.DeniedTermWon, true},
	{"deny a vote to a member that was removed", raft.TraceVoteDenied, raft.DeniedRemoved, true},
	{"deny a vote while a lease is promised", raft.TraceVoteDenied, raft.DeniedPromised, true},
	{"deny a vote on a disk that may be an older image", raft.TraceVoteDenied, raft.DeniedSuspected, true},
	{Name: "grant a pre-vote", kind: raft.TracePreVoteGranted},
	{"deny a pre-vote of an earlier term", raft.TracePreVoteDenied, raft.DeniedOldTerm, true},
	{"deny a pre-vote to an older log", raft.TracePreVoteDenied, raft.DeniedOldLog, true},
	{"deny a pre-vote while a leader is heard", raft.TracePreVoteDenied, raft.DeniedHearsLeader, true},
	{"deny a pre-vote while the own vote may elect", raft.TracePreVoteDenied, raft.DeniedBound, true},
	{"deny a second pre-vote in a term", raft.TracePreVoteDenied, raft.DeniedVoted, true},
	{"deny a pre-vote while a lease is promised", raft.TracePreVoteDenied, raft.DeniedPromised, true},
	{"deny a pre-vote on a disk that may be an older image", raft.TracePreVoteDenied, raft.DeniedSuspected, true},
	{Name: "hear that the leader has stepped down", kind: raft.TraceSteppedDown},
	{Name: "say why elections are slow", kind: raft.TraceSlowElection},
	{Name: "fail the consistency check", kind: raft.TraceConflict},
	{Name: "truncate the log", kind: raft.TraceTruncated},
	{Name: "probe further back", kind: raft.TraceProbeBack},
	{Name: "find an entry too large for a member", kind: raft.TraceOversized},
	{Name: "transfer leadership", kind: raft.TraceTransfer},
	{Name: "take a member for stale", kind: raft.TraceStaleMember},
	{Name: "mark the store", kind: raft.TraceMarked},
	{Name: "stop voting, as a stranger has shown a loss", kind: raft.TraceSuspected},
	{Name: "vote again after that", kind: raft.TraceTrusted},
	{Name: "notice that the disk has stalled", kind: raft.TraceDiskStalled},
	{Name: "notice that the FSM hangs", kind: raft.TraceFSMHangs},
	{Name: "notice a broken connection", kind: raft.TracePeerLost},
	{Name: "learn that the leader's process has ended", kind: raft.TraceNews},
	{Name: "transfer leadership to a member with a higher priority", kind: raft.TraceTakeover},
	{Name: "count a lost leadership", kind: raft.TraceBackoff},
	{Name: "probe the members again", kind: raft.TraceBootstrapProbe}, // the first probe happens at the start, which is not a step, so it is not counted
	{Name: "answer the probe", kind: raft.TraceBootstrapProbeReply},
	{Name: "take entry 1", kind: raft.TraceBootstrapped},
	{Name: "hear of a cluster, and bootstrap none", kind: raft.TraceHeard},
	{Name: "refuse a message", kind: raft.TraceRefused},
	{Name: "meet an entry of a later release", kind: raft.TraceLaterVersion},
	{Name: "take a snapshot", kind: raft.TraceTake},
	{Name: "fail to take a snapshot", kind: raft.TraceTakeFailed},
	{Name: "complete a snapshot", kind: raft.TraceTaken},
	{Name: "compact the log", kind: raft.TraceCompacted},
	{Name: "offer a snapshot", kind: raft.TraceOffer},
	{Name: "ask for an offered snapshot", kind: raft.TraceOfferAccepted},
	{Name: "install a snapshot", kind: raft.TraceInstalled},
	{Name: "drop a snapshot that is not needed", kind: raft.TraceSnapshotStale},
	{Name: "give up the stream of a snapshot", kind: raft.TraceStreamEnded},
	{Name: "complete a restoration", kind: raft.TraceRestored},
	{Name: "use an appended configuration", kind: raft.TraceConfigAppended},
	{Name: "go back to an earlier configuration", kind: raft.TraceConfigRolledBack},
	{Name: "commit a configuration", kind: raft.TraceConfigCommitted},
	{Name: "give up a change of the members", kind: raft.TraceChangeGivenUp},
	{Name: "transfer leadership without a vote", kind: raft.TraceVotelessTransfer},
	{Name: "have been removed", kind: raft.TraceRemoved},
}

// Decisions lists the kinds of decisions, in the order of Stats.Decisions.
func Decisions() []Decision { return decisions[:] }

// decisionOf returns the position of a trace event in the list of decisions. The position depends on the event's kind and,
// for some kinds, on its reason.
var decisionOf = func() (table [256][256]int16) {
	for i := range table {
		for j := range table[i] {
			table[i][j] = -1
		}
	}
	for place, d := range decisions {
		for reason := range table[d.kind] {
			if !d.byReason || raft.DenyReason(reason) == d.deny {
				table[d.kind][reason] = int16(place)
			}
		}
	}
	return table
}()

// decided counts a decision of a core.
func (s *Stats) decided(n *raft.TraceEvent) {
	if place := decisionOf[n.Kind][n.Reason]; place >= 0 {
		s.Decisions[place]++
	}
}
