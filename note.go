package raft

import (
	"fmt"
	"time"
)

// Note is a decision of the core, as data; String renders it. Nothing depends on notes. Which of the
// fields count depends on the kind.
type Note struct {
	Kind   NoteKind
	Term   Term // the member's own, when it was noted
	Peer   NodeID
	Newer  Term // the term of a message
	ID     EntryID
	Hint   EntryID
	Index  Index
	Reason DenyReason
	Text   string
	Took   Time
}

// NoteKind says what was decided.
type NoteKind uint8

// The kinds of notes.
const (
	NoteTimeout        NoteKind = iota + 1 // the election timeout ran out
	NotePreCampaign                        // asks for pre-votes
	NoteCampaign                           // asks for votes
	NoteTimeoutNow                         // was told to campaign
	NoteLeader                             // won the election
	NoteFollower                           // follows Peer, or nobody
	NoteNewerTerm                          // Peer is in a newer term
	NoteQuorumLost                         // a leader that no quorum hears steps down
	NoteVoteGranted                        // to Peer, whose log ends at ID
	NoteVoteDenied                         // to Peer, for Reason
	NotePreVoteGranted                     // to Peer, whose log ends at ID
	NotePreVoteDenied                      // to Peer, for Reason
	NoteConflict                           // the consistency check at ID failed
	NoteTruncated                          // the log was cut from Index back to ID
	NoteProbeBack                          // Peer's log differs: the next probe is at Index
	NoteTransfer                           // leadership is to go to Peer
	NotePeerLost                           // the connection to Peer broke
	NoteRollCall                           // asks all initial members who they are
	NoteRollAnswer                         // answers Peer's roll call
	NoteFounded                            // took entry 1, written by Peer
	NoteRefused                            // a message of Peer was refused, for Text
	NoteStaleMember                        // Peer has acknowledged up to Index and holds less: the logs agree at most up to Hint
	NoteMarked                             // this store must not go on, as Peer has shown: Text
	NoteDiskStalled                        // a leader's disk has stood still, its log durable up to Index
	NoteLaterVersion                       // Peer sent entry ID, which only a later release can read
	NoteSteppedDown                        // Peer, the leader, says that it has stepped down
	NoteSlowElection                       // more than two attempts: Text took Took, longer than the election timeout
)

// DenyReason says why a vote was denied.
type DenyReason uint8

// The reasons.
const (
	Granted           DenyReason = iota
	DeniedOldTerm                // it is of an earlier term
	DeniedVoted                  // the vote of this term is given to another
	DeniedOldLog                 // its log is not up to date
	DeniedHearsLeader            // a leader is being heard
	DeniedBound                  // the vote of this term is on its way, or may still elect
)

func (c *Core) note(n Note) {
	n.Term = c.hard.Term
	c.step.out.Notes = append(c.step.out.Notes, n)
}

func (r DenyReason) String() string {
	switch r {
	case Granted:
		return "granted"
	case DeniedOldTerm:
		return "its term has passed"
	case DeniedVoted:
		return "the vote of this term is given"
	case DeniedOldLog:
		return "its log is older than ours"
	case DeniedHearsLeader:
		return "a leader is heard"
	case DeniedBound:
		return "the vote of this term may still elect another"
	}
	return "unknown"
}

// String renders the note as part of a sentence.
func (n Note) String() string {
	switch n.Kind {
	case NoteTimeout:
		return "election timeout"
	case NotePreCampaign:
		return fmt.Sprintf("ask for pre-votes for term %d", n.Term+1)
	case NoteCampaign:
		return fmt.Sprintf("start election for term %d", n.Term)
	case NoteTimeoutNow:
		return fmt.Sprintf("%s hands over: campaign at once", n.Peer)
	case NoteLeader:
		return fmt.Sprintf("lead term %d", n.Term)
	case NoteFollower:
		if n.Peer == "" {
			return fmt.Sprintf("follow in term %d", n.Term)
		}
		return fmt.Sprintf("follow %s in term %d", n.Peer, n.Term)
	case NoteNewerTerm:
		return fmt.Sprintf("term %d of %s is newer than %d", n.Newer, n.Peer, n.Term)
	case NoteQuorumLost:
		return "no quorum heard for an election timeout: step down"
	case NoteVoteGranted:
		return fmt.Sprintf("its log %v is up to date: vote for %s", n.ID, n.Peer)
	case NoteVoteDenied:
		return fmt.Sprintf("%s: deny vote to %s", n.Reason, n.Peer)
	case NotePreVoteGranted:
		return fmt.Sprintf("its log %v is up to date: pre-vote for %s", n.ID, n.Peer)
	case NotePreVoteDenied:
		return fmt.Sprintf("%s: deny pre-vote to %s", n.Reason, n.Peer)
	}
	return n.logString()
}

func (n Note) logString() string {
	switch n.Kind {
	case NoteConflict:
		return fmt.Sprintf("no entry %v here: the logs agree at most up to %v", n.ID, n.Hint)
	case NoteTruncated:
		return fmt.Sprintf("drop entries %d to %d", n.ID.Index+1, n.Index)
	case NoteProbeBack:
		return fmt.Sprintf("the log of %s agrees at most up to %v: go back to %d", n.Peer, n.Hint, n.Index)
	case NoteStaleMember:
		return fmt.Sprintf("%s has acknowledged up to %d, and agrees at most up to %v: it has lost that, and counts no more",
			n.Peer, n.Index, n.Hint)
	case NoteMarked:
		return fmt.Sprintf("%s shows that this store must not go on: %s", n.Peer, n.Text)
	case NoteTransfer:
		return fmt.Sprintf("hand over to %s", n.Peer)
	case NoteDiskStalled:
		return fmt.Sprintf("the disk stands still, with the log durable up to %d: take no proposals", n.Index)
	case NoteSteppedDown:
		return fmt.Sprintf("%s says that it leads no more", n.Peer)
	case NoteSlowElection:
		return fmt.Sprintf("elections need more than two attempts: %s took %v", n.Text, time.Duration(n.Took))
	case NotePeerLost:
		return fmt.Sprintf("connection to %s lost", n.Peer)
	case NoteRollCall:
		return "call the roll"
	case NoteRollAnswer:
		return fmt.Sprintf("answer the roll of %s: %s", n.Peer, n.Text)
	case NoteFounded:
		return fmt.Sprintf("hold entry %v, the founding by %s", n.ID, n.Peer)
	case NoteLaterVersion:
		return fmt.Sprintf("refuse entry %v of %s: a later release wrote it: start that release here", n.ID, n.Peer)
	case NoteRefused:
		return fmt.Sprintf("refuse a message of %s: %s", n.Peer, n.Text)
	}
	return "unknown note"
}
