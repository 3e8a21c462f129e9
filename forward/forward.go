// Package forward has the rule by which a caller's request reaches the leader through another member, and takes effect at
// most once. Package node and the simulator use it; the core in package raft does not.
//
// A [Sender] is the side of the member that was asked. It numbers the requests, and says what follows from an answer. A
// [Receiver] is the side of the leader. It says which request may be carried out, and which gets no answer. Both are values
// without I/O: time is an argument.
//
// # Why nothing takes effect twice
//
// A sender repeats a request only after the answer that nothing was carried out, and then with another counter. So the danger
// is a copy of the first message that arrives later. The receiver has raised the highest counter that it has seen before it
// gave that answer. So the copy has no effect there, in any term. It has none elsewhere, because a message names one start of
// one receiver. A receiver that restarts has another start, and forgets its counters without harm.
//
// A request that is accepted, but not appended yet, may wait while the leader loses its term and wins another one. The core
// appends it only in the term that the message names (raft.Proposal.Term), and refuses it otherwise.
package forward

import "github.com/coxswain/raft"

// Target is the leader that a request is meant for.
type Target struct {
	Peer       raft.Peer
	StartCount uint64
	Term       raft.Term // in which it leads
}

// Next says what a sender does with a request after an answer.
type Next uint8

const (
	Ignore  Next = iota // the answer is for no open request
	Done                // the request was carried out: the caller gets the result
	Again               // nothing was carried out: it may be sent again, with another counter
	Failed              // nothing was carried out, and to send it again would not help: the caller gets the error
	Unknown             // it may be carried out: the caller must not be told otherwise
)

// next says what follows from an outcome. An outcome that only a later release knows says nothing.
func next(o raft.ForwardOutcome) Next {
	switch o {
	case raft.ForwardApplied:
		return Done
	case raft.ForwardNotApplied:
		return Again
	case raft.ForwardRefused:
		return Failed
	}
	return Unknown
}
