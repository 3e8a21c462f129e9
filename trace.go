package raft

import (
	"fmt"
	"strings"
	"time"
)

// TraceEvent is a decision of the core, rendered by String. Nothing depends on it. Kind says which other fields are set.
type TraceEvent struct {
	Kind     TraceEventKind
	Term     Term // the member's term at the time
	Peer     NodeID
	Newer    Term // the term of a message
	ID, Hint EntryID
	Index    Index
	Reason   DenyReason
	Text     string
	Took     Time
}

// TraceEventKind says what was decided.
type TraceEventKind uint8

const (
	TraceTimeout             TraceEventKind = iota + 1 // the election timeout ran out
	TracePreCampaign                                   // asks for pre-votes
	TraceCampaign                                      // asks for votes
	TraceTimeoutNow                                    // Peer, the leader, wants this member to campaign at once
	TraceLeader                                        // won the election, and takes over as Text says
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
	TraceNews                                          // the process of Peer, which led this term, has ended
	TraceTakeover                                      // transfer leadership to Peer, whose priority is higher
	TraceBackoff                                       // it has lost its leadership, and counts as one without priority for the time Took
	TraceBootstrapProbe                                // asks all initial members who they are
	TraceBootstrapProbeReply                           // answers Peer's probe
	TraceBootstrapped                                  // took entry 1, written by Peer
	TraceRefused                                       // a message of Peer was refused, for Text
	TraceStaleMember                                   // Peer has acknowledged up to Index and holds less: the logs agree at most up to Hint
	TraceMarked                                        // Peer has shown that this store must no longer be used: Text
	TraceDiskStalled                                   // a leader's disk has stalled, its log durable up to Index
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
	TraceVotelessTransfer                              // a leader without a vote transfers its leadership to Peer
	TraceRemoved                                       // this member was removed, by the committed entry Index
	TraceSuspected                                     // Peer, which is no member here, has shown a loss: no votes until that is settled: Text
	TraceFSMHangs                                      // a leader's FSM hangs in the batch that ends at Index
	TraceTrusted                                       // votes again: another leader shows that Peer's report is harmless
	TraceOversized                                     // the entry ID is too large for an append to Peer
	TraceHeard                                         // Peer told it of Text, a cluster: it bootstraps none
)

// DenyReason says why a vote was denied.
type DenyReason uint8

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
	DeniedPromised               // this member has promised a leader not to elect another one yet
)

func (c *Core) trace(n TraceEvent) {
	n.Term = c.hard.Term
	c.step.out.Trace = append(c.step.out.Trace, n)
}

func (r DenyReason) String() string {
	texts := [...]string{
		Granted:           "granted",
		DeniedOldTerm:     "its term has passed",
		DeniedVoted:       "the vote of this term is given",
		DeniedOldLog:      "its log is older than ours",
		DeniedHearsLeader: "a leader is heard",
		DeniedBound:       "the vote of this term may still elect another",
		DeniedTermWon:     "another has won this term",
		DeniedRemoved:     "it was removed from the cluster",
		DeniedSuspected:   "our disk may be an older image",
		DeniedPromised:    "a lease is promised",
	}
	if int(r) < len(texts) {
		return texts[r]
	}
	return "unknown"
}

// text returns the sentence for events of this kind, with the names of TraceEvent.field in braces; "" if there is no such
// kind.
func (k TraceEventKind) text() string {
	texts := [...]string{
		TraceTimeout:             "election timeout",
		TracePreCampaign:         "ask for pre-votes for term {next term}",
		TraceCampaign:            "start election for term {term}",
		TraceTimeoutNow:          "{peer} transfers its leadership: campaign at once",
		TraceLeader:              "lead term {term}: take over {text}",
		TraceFollower:            "follow {peer} in term {term}",
		TraceNewerTerm:           "term {newer} of {peer} is newer than {term}",
		TraceQuorumLost:          "no quorum heard for an election timeout: step down",
		TraceVoteGranted:         "its log {id} is up to date: vote for {peer}",
		TraceVoteDenied:          "{reason}: deny vote to {peer}",
		TracePreVoteGranted:      "its log {id} is up to date: pre-vote for {peer}",
		TracePreVoteDenied:       "{reason}: deny pre-vote to {peer}",
		TraceConflict:            "no entry {id} here: the logs agree at most up to {hint}",
		TraceTruncated:           "drop entries {behind id} to {index}",
		TraceProbeBack:           "the log of {peer} agrees at most up to {hint}: go back to {index}",
		TraceTransfer:            "transfer leadership to {peer}",
		TracePeerLost:            "connection to {peer} lost",
		TraceNews:                "the process of {peer}, the leader, has ended",
		TraceTakeover:            "transfer leadership to {peer}, whose priority is higher",
		TraceBackoff:             "leadership lost: no priority for {took}",
		TraceBootstrapProbe:      "probe the members",
		TraceBootstrapProbeReply: "answer the probe of {peer}: {text}",
		TraceBootstrapped:        "hold entry {id}, the bootstrap by {peer}",
		TraceRefused:             "refuse a message of {peer}: {text}",
		TraceStaleMember: "{peer} has acknowledged up to {index}, and agrees at most up to {hint}: " +
			"it has lost entries, and no longer counts",
		TraceMarked:           "{peer} shows that this store must no longer be used: {text}",
		TraceDiskStalled:      "the disk has stalled, with the log durable up to {index}: take no proposals",
		TraceLaterVersion:     "refuse entry {id} of {peer}: a later release wrote it: start that release here",
		TraceSteppedDown:      "{peer} says that it no longer leads",
		TraceSlowElection:     "elections need more than two attempts: {text} took {took}",
		TraceTake:             "take a snapshot of entry {id}",
		TraceTakeFailed:       "no snapshot of entry {id} was taken: {text}",
		TraceTaken:            "the snapshot of entry {id} is taken",
		TraceCompacted:        "compact the log up to entry {id}",
		TraceOffer:            "offer {peer} the snapshot of entry {id}",
		TraceOfferAccepted:    "ask {peer} for the snapshot of entry {id}",
		TraceInstalled:        "install the snapshot of entry {id} from {peer}: it replaces the log",
		TraceSnapshotStale:    "discard the snapshot of entry {id} from {peer}: {text}",
		TraceStreamEnded:      "the stream of the snapshot of entry {id} to {peer} has ended: {text}",
		TraceRestored:         "the FSM has restored the snapshot of entry {id}",
		TraceConfigAppended:   "use the configuration of entry {id}",
		TraceConfigRolledBack: "go back to the configuration of entry {index}",
		TraceConfigCommitted:  "the configuration of entry {index} is committed",
		TraceChangeGivenUp:    "give up the change: {text}",
		TraceVotelessTransfer: "no vote any more: transfer leadership to {peer}",
		TraceRemoved:          "was removed by entry {index}",
		TraceSuspected:        "{peer}, which is no member here, shows that our disk may be an older image, so vote no more: {text}",
		TraceFSMHangs:         "the FSM hangs in the batch that ends at entry {index}: take no proposals",
		TraceTrusted:          "another leader proves that this member has lost nothing that {peer} claims: vote again",
		TraceOversized:        "entry {id} is too large for an append to {peer}: it needs a snapshot",
		TraceHeard:            "told by {peer} of {text}: bootstrap none",
	}
	if int(k) < len(texts) {
		return texts[k]
	}
	return ""
}

func (n TraceEvent) String() string {
	text := n.Kind.text()
	switch {
	case text == "":
		return "unknown trace event"
	case n.Kind == TraceFollower && n.Peer == "":
		text = "follow in term {term}"
	case n.Kind == TraceLeader && n.Text == "":
		text = "lead term {term}"
	}
	var s strings.Builder
	for {
		before, rest, more := strings.Cut(text, "{")
		s.WriteString(before)
		if !more {
			return s.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		s.WriteString(n.field(name))
		text = after
	}
}

// field renders a field of the event for the sentence.
func (n TraceEvent) field(name string) string {
	switch name {
	case "peer":
		return string(n.Peer)
	case "term":
		return fmt.Sprint(n.Term)
	case "next term":
		return fmt.Sprint(n.Term + 1)
	case "newer":
		return fmt.Sprint(n.Newer)
	case "id":
		return n.ID.String()
	case "behind id":
		return fmt.Sprint(n.ID.Index + 1)
	case "hint":
		return n.Hint.String()
	case "index":
		return fmt.Sprint(n.Index)
	case "reason":
		return n.Reason.String()
	case "took":
		return time.Duration(n.Took).String()
	case "text":
		return n.Text
	}
	return "{" + name + "}"
}
