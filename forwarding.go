package raft

import "fmt"

// This file holds the messages that carry a caller's request from the member that was asked to the leader, and its answer
// back. They are no RPCs of Raft: the host handles them, and no core sees them.

// ForwardErrorBytesMax bounds ForwardReply.Error, in bytes.
const ForwardErrorBytesMax = 16 << 10

// Forward carries a caller's request to the leader. Message.Term is the term of the leader that it is meant for.
type Forward struct {
	StartCount uint64      // of the sender
	Counter    uint64      // of the requests of this start of the sender, from 1; no counter is sent twice
	ToStart    uint64      // the start count of the receiver that it is meant for
	Left       Time        // until the caller's deadline when the message leaves; 0: the caller has none
	Kind       ForwardKind // what the caller wants
	Data       []byte      // the command, or the change or the target, as the node encodes it; see ForwardCarrier for its size
}

// ForwardKind says what a Forward asks the leader for. The numbers are part of the wire format.
type ForwardKind uint8

const (
	ForwardPropose  ForwardKind = 1 // to commit and apply a command
	ForwardChange   ForwardKind = 2 // to change the members
	ForwardTransfer ForwardKind = 3 // to transfer its leadership
	ForwardSession  ForwardKind = 4 // to commit and apply an EntrySession
)

func (k ForwardKind) String() string {
	switch k {
	case ForwardPropose:
		return "proposal"
	case ForwardChange:
		return "change of the members"
	case ForwardTransfer:
		return "transfer of leadership"
	case ForwardSession:
		return "entry of a session"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ForwardReply answers a Forward. StartCount and Counter are those of the Forward.
type ForwardReply struct {
	StartCount uint64
	Counter    uint64
	Outcome    ForwardOutcome
	Index      Index  // of the command or of the configuration
	EntryTerm  Term   // of that entry
	Data       []byte // the FSM's answer; see ForwardCarrier for its size
	Error      []byte // the typed error, as the node encodes it, at most ForwardErrorBytesMax
	Leader     Peer   // whom the sender takes for the leader; zero: nobody
}

// ForwardOutcome says what became of a forwarded request. The numbers are part of the wire format. A receiver takes a number
// that it does not know for ForwardUnknown.
type ForwardOutcome uint8

const (
	ForwardApplied    ForwardOutcome = 1 // the request was carried out: a command is applied by the leader, a change is committed
	ForwardNotApplied ForwardOutcome = 2 // nothing was carried out, and nothing will be: the request may be sent again, with another counter
	ForwardRefused    ForwardOutcome = 3 // nothing was carried out, and Error says why: to send it again would not help
	ForwardUnknown    ForwardOutcome = 4 // the request may or may not be carried out
)

func (o ForwardOutcome) String() string {
	switch o {
	case ForwardApplied:
		return "applied"
	case ForwardNotApplied:
		return "not applied"
	case ForwardRefused:
		return "refused"
	case ForwardUnknown:
		return "outcome unknown"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}
