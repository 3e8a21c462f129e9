package raft

import (
	"fmt"
	"time"
)

// TraceEvent is a decision of the core, as data; String renders it. Nothing depends on trace events. Which fields
// are set depends on the kind.
type TraceEvent struct {
	Kind   TraceEventKind
	Term   Term // the member's term at the time
	Peer   NodeID
	Newer  Term // the term of a message
	ID     EntryID
	Hint   EntryID
	Index  Index
	Reason DenyReason
	Text   string
	Took   Time
}

// TraceEventKind says what was decided.
type TraceEventKind uint8

// The kinds of trace events.
const (
	TraceTimeout             TraceEventKind = iota + 1 // the election timeout ran out
	TracePreCampaign                                   // asks for pre-votes
	TraceCampaign                                      // asks for votes
	TraceTimeoutNow                                    // was told to campaign
	TraceLeader                                        // won the election
	TraceFollower                                      // follows Peer, or nobody
	TraceNewerTerm                                     // Peer is in a newer term
	TraceQuorumLost                                    // a leader that no quorum hears steps down
	TraceVoteGranted                                   // to Peer, whose log ends at ID
	TraceVoteDenied                                    // to Peer, for Reason
	TracePreVoteGranted                                // to Peer, whose log ends at ID
	TracePreVoteDenied                                 // to Peer, for Reason
	TraceConflict                                      // the consistency check at ID failed
	TraceTruncated                                     // the log was cut from Index back to ID
	TraceProbeBack                                     // Peer's log differs: the next probe is at Index
	TraceTransfer                                      // leadership is to go to Peer
	TracePeerLost                                      // the connection to Peer broke
	TraceBootstrapProbe                                // asks all initial members who they are
	TraceBootstrapProbeReply                           // answers Peer's probe
	TraceBootstrapped                                  // took entry 1, written by Peer
	TraceRefused                                       // a message of Peer was refused, for Text
	TraceStaleMember                                   // Peer has acknowledged up to Index and holds less: the logs agree at most up to Hint
	TraceMarked                                        // this store must not go on, as Peer has shown: Text
	TraceDiskStalled                                   // a leader's disk has stood still, its log durable up to Index
	TraceLaterVersion                                  // Peer sent entry ID, which only a later release can read
	TraceSteppedDown                                   // Peer, the leader, says that it has stepped down
	TraceSlowElection                                  // more than two attempts: Text took Took, longer than the election timeout
	TraceTake                                          // asks for a snapshot of ID
	TraceTakeFailed                                    // it was not taken, because of Text
	TraceTaken                                         // the snapshot of ID is durable, or the FSM has synced up to ID
	TraceCompacted                                     // the log begins behind ID from now on
	TraceOffer                                         // offers Peer the snapshot of ID
	TraceOfferAccepted                                 // asks Peer for the snapshot of ID, which it offers
	TraceInstalled                                     // the snapshot of ID, from Peer, replaces the log
	TraceSnapshotStale                                 // the snapshot of ID, from Peer, is not needed: Text
	TraceStreamEnded                                   // the stream of the snapshot of ID to Peer was given up: Text
	TraceRestored                                      // the FSM has become the snapshot of ID
	TraceConfigAppended                                // the configuration of entry ID is in force, and not known to be committed
	TraceConfigRolledBack                              // the entry that held it is dropped: the configuration of entry Index is in force again
	TraceConfigCommitted                               // the configuration of entry Index is committed
	TraceChangeGivenUp                                 // a leader gives up a change of the members, because of Text
	TraceHandOver                                      // a leader without a vote transfers its leadership to Peer
	TraceRemoved                                       // this member was removed, by the committed entry Index
	TraceSuspected                                     // Peer, which is no member here, has shown a loss: no votes until that is settled: Text
	TraceFSMHangs                                      // a leader's FSM hangs in the batch that ends at Index
	TraceTrusted                                       // it votes again, since another leader shows that what Peer has shown does no harm
	TraceOversized                                     // the entry ID is too large for an append to Peer
)

// DenyReason says why a vote was denied.
type DenyReason uint8

// The reasons.
const (
	Granted           DenyReason = iota
	DeniedOldTerm                // it is of an earlier term
	DeniedVoted                  // the vote of this term is given to another
	DeniedOldLog                 // its log is not up to date
	DeniedHearsLeader            // this member hears a leader
	DeniedBound                  // the vote of this term is being written, or may still elect its candidate
	DeniedTermWon                // another member has won the election of this term
	DeniedRemoved                // it was removed from the cluster
	DeniedSuspected              // a leader has shown that this member's disk may be an older image
)

func (c *Core) trace(n TraceEvent) {
	n.Term = c.hard.Term
	c.step.out.Trace = append(c.step.out.Trace, n)
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
	case DeniedTermWon:
		return "another has won this term"
	case DeniedRemoved:
		return "it was removed from the cluster"
	case DeniedSuspected:
		return "our disk may be an older image"
	}
	return "unknown"
}

// String renders the trace event as part of a sentence.
func (n TraceEvent) String() string {
	switch n.Kind {
	case TraceTimeout:
		return "election timeout"
	case TracePreCampaign:
		return fmt.Sprintf("ask for pre-votes for term %d", n.Term+1)
	case TraceCampaign:
		return fmt.Sprintf("start election for term %d", n.Term)
	case TraceTimeoutNow:
		return fmt.Sprintf("%s transfers its leadership: campaign at once", n.Peer)
	case TraceLeader:
		return fmt.Sprintf("lead term %d", n.Term)
	case TraceFollower:
		if n.Peer == "" {
			return fmt.Sprintf("follow in term %d", n.Term)
		}
		return fmt.Sprintf("follow %s in term %d", n.Peer, n.Term)
	case TraceNewerTerm:
		return fmt.Sprintf("term %d of %s is newer than %d", n.Newer, n.Peer, n.Term)
	case TraceQuorumLost:
		return "no quorum heard for an election timeout: step down"
	case TraceVoteGranted:
		return fmt.Sprintf("its log %v is up to date: vote for %s", n.ID, n.Peer)
	case TraceVoteDenied:
		return fmt.Sprintf("%s: deny vote to %s", n.Reason, n.Peer)
	case TracePreVoteGranted:
		return fmt.Sprintf("its log %v is up to date: pre-vote for %s", n.ID, n.Peer)
	case TracePreVoteDenied:
		return fmt.Sprintf("%s: deny pre-vote to %s", n.Reason, n.Peer)
	}
	return n.logString()
}

func (n TraceEvent) logString() string {
	switch n.Kind {
	case TraceConflict:
		return fmt.Sprintf("no entry %v here: the logs agree at most up to %v", n.ID, n.Hint)
	case TraceTruncated:
		return fmt.Sprintf("drop entries %d to %d", n.ID.Index+1, n.Index)
	case TraceProbeBack:
		return fmt.Sprintf("the log of %s agrees at most up to %v: go back to %d", n.Peer, n.Hint, n.Index)
	case TraceOversized:
		return fmt.Sprintf("entry %v is too large for an append to %s: it needs a snapshot", n.ID, n.Peer)
	case TraceStaleMember:
		return fmt.Sprintf("%s has acknowledged up to %d, and agrees at most up to %v: it has lost that, and counts no more",
			n.Peer, n.Index, n.Hint)
	case TraceMarked:
		return fmt.Sprintf("%s shows that this store must not go on: %s", n.Peer, n.Text)
	case TraceSuspected:
		return fmt.Sprintf("%s, which is no member here, shows that our disk may be an older image, so vote no more: %s", n.Peer, n.Text)
	case TraceTrusted:
		return fmt.Sprintf("another leader shows that what %s has shown does no harm: vote again", n.Peer)
	case TraceTransfer:
		return fmt.Sprintf("transfer leadership to %s", n.Peer)
	case TraceDiskStalled:
		return fmt.Sprintf("the disk stands still, with the log durable up to %d: take no proposals", n.Index)
	case TraceFSMHangs:
		return fmt.Sprintf("the FSM hangs in the batch that ends at entry %d: take no proposals", n.Index)
	case TraceSteppedDown:
		return fmt.Sprintf("%s says that it leads no more", n.Peer)
	case TraceSlowElection:
		return fmt.Sprintf("elections need more than two attempts: %s took %v", n.Text, time.Duration(n.Took))
	case TracePeerLost:
		return fmt.Sprintf("connection to %s lost", n.Peer)
	case TraceBootstrapProbe:
		return "probe the members"
	case TraceBootstrapProbeReply:
		return fmt.Sprintf("answer the probe of %s: %s", n.Peer, n.Text)
	case TraceBootstrapped:
		return fmt.Sprintf("hold entry %v, the bootstrap by %s", n.ID, n.Peer)
	case TraceLaterVersion:
		return fmt.Sprintf("refuse entry %v of %s: a later release wrote it: start that release here", n.ID, n.Peer)
	case TraceRefused:
		return fmt.Sprintf("refuse a message of %s: %s", n.Peer, n.Text)
	}
	return n.snapshotString()
}

func (n TraceEvent) snapshotString() string {
	switch n.Kind {
	case TraceTake:
		return fmt.Sprintf("take a snapshot of entry %v", n.ID)
	case TraceTakeFailed:
		return fmt.Sprintf("no snapshot of entry %v was taken: %s", n.ID, n.Text)
	case TraceTaken:
		return fmt.Sprintf("the snapshot of entry %v is taken", n.ID)
	case TraceCompacted:
		return fmt.Sprintf("compact the log up to entry %v", n.ID)
	case TraceOffer:
		return fmt.Sprintf("offer %s the snapshot of entry %v", n.Peer, n.ID)
	case TraceOfferAccepted:
		return fmt.Sprintf("ask %s for the snapshot of entry %v", n.Peer, n.ID)
	case TraceInstalled:
		return fmt.Sprintf("install the snapshot of entry %v from %s: it replaces the log", n.ID, n.Peer)
	case TraceSnapshotStale:
		return fmt.Sprintf("leave the snapshot of entry %v from %s: %s", n.ID, n.Peer, n.Text)
	case TraceStreamEnded:
		return fmt.Sprintf("the stream of the snapshot of entry %v to %s has ended: %s", n.ID, n.Peer, n.Text)
	case TraceRestored:
		return fmt.Sprintf("the state is that of the snapshot of entry %v", n.ID)
	}
	return n.configString()
}

func (n TraceEvent) configString() string {
	switch n.Kind {
	case TraceConfigAppended:
		return fmt.Sprintf("use the configuration of entry %v", n.ID)
	case TraceConfigRolledBack:
		return fmt.Sprintf("go back to the configuration of entry %d", n.Index)
	case TraceConfigCommitted:
		return fmt.Sprintf("the configuration of entry %d is committed", n.Index)
	case TraceChangeGivenUp:
		return "give up the change: " + n.Text
	case TraceHandOver:
		return fmt.Sprintf("no vote any more: transfer leadership to %s", n.Peer)
	case TraceRemoved:
		return fmt.Sprintf("was removed by entry %d", n.Index)
	}
	return "unknown trace event"
}
