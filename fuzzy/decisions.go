package fuzzy

import "github.com/coxswain/raft"

// Decision is one of the kinds of decisions that cores note. How often each was made says what a
// campaign has reached, and what it has not.
type Decision struct {
	Name  string
	kind  raft.NoteKind
	deny  raft.DenyReason
	judge bool // deny matters
}

const denyReasons = int(raft.DeniedBound) + 1

var decisions = [...]Decision{
	{Name: "election timeout", kind: raft.NoteTimeout},
	{Name: "ask for pre-votes", kind: raft.NotePreCampaign},
	{Name: "ask for votes", kind: raft.NoteCampaign},
	{Name: "campaign at once after TimeoutNow", kind: raft.NoteTimeoutNow},
	{Name: "lead", kind: raft.NoteLeader},
	{Name: "follow", kind: raft.NoteFollower},
	{Name: "go to a newer term", kind: raft.NoteNewerTerm},
	{Name: "step down without a quorum", kind: raft.NoteQuorumLost},
	{Name: "grant a vote", kind: raft.NoteVoteGranted},
	{"deny a vote of an earlier term", raft.NoteVoteDenied, raft.DeniedOldTerm, true},
	{"deny a second vote in a term", raft.NoteVoteDenied, raft.DeniedVoted, true},
	{"deny a vote to an older log", raft.NoteVoteDenied, raft.DeniedOldLog, true},
	{"deny a vote while a leader is heard", raft.NoteVoteDenied, raft.DeniedHearsLeader, true},
	{Name: "grant a pre-vote", kind: raft.NotePreVoteGranted},
	{"deny a pre-vote of an earlier term", raft.NotePreVoteDenied, raft.DeniedOldTerm, true},
	{"deny a pre-vote to an older log", raft.NotePreVoteDenied, raft.DeniedOldLog, true},
	{"deny a pre-vote while a leader is heard", raft.NotePreVoteDenied, raft.DeniedHearsLeader, true},
	{"deny a pre-vote while the own vote may elect", raft.NotePreVoteDenied, raft.DeniedBound, true},
	{Name: "hear that the leader has stepped down", kind: raft.NoteSteppedDown},
	{Name: "say why elections are slow", kind: raft.NoteSlowElection},
	{Name: "fail the consistency check", kind: raft.NoteConflict},
	{Name: "truncate the log", kind: raft.NoteTruncated},
	{Name: "probe further back", kind: raft.NoteProbeBack},
	{Name: "hand leadership over", kind: raft.NoteTransfer},
	{Name: "take a member for stale", kind: raft.NoteStaleMember},
	{Name: "mark the store", kind: raft.NoteMarked},
	{Name: "refuse an entry of a later release", kind: raft.NoteLaterVersion},
	{Name: "notice that the disk stands still", kind: raft.NoteDiskStalled},
	{Name: "notice a broken connection", kind: raft.NotePeerLost},
	{Name: "call the roll again", kind: raft.NoteRollCall}, // a start is no step: its first call is not counted
	{Name: "answer the roll", kind: raft.NoteRollAnswer},
	{Name: "take entry 1", kind: raft.NoteFounded},
	{Name: "refuse an entry of a later release", kind: raft.NoteLaterVersion},
	{Name: "refuse a message", kind: raft.NoteRefused},
	{Name: "meet an entry of a later release", kind: raft.NoteLaterVersion},
}

// Decisions lists the kinds of decisions, in the order of Stats.Decisions.
func Decisions() []Decision { return decisions[:] }

// decisionOf finds a note's place in the list: by kind, and by reason where that matters.
var decisionOf = func() (table [256][denyReasons]int16) {
	for i := range table {
		for j := range table[i] {
			table[i][j] = -1
		}
	}
	for place, d := range decisions {
		for reason := range denyReasons {
			if !d.judge || raft.DenyReason(reason) == d.deny {
				table[d.kind][reason] = int16(place)
			}
		}
	}
	return table
}()

// decided counts what a core has decided.
func (s *Stats) decided(n *raft.Note) {
	if place := decisionOf[n.Kind][int(n.Reason)%denyReasons]; place >= 0 {
		s.Decisions[place]++
	}
}
