package session

import (
	"errors"
	"fmt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// What the errors of this package match, by what the caller should do.
var (
	// ErrSessionExpired: open another session. See ExpiredError.
	ErrSessionExpired = errors.New("raft: the session has ended")
	// ErrSessionAnswered: use a higher number. See AnsweredError.
	ErrSessionAnswered = errors.New("raft: the client has said that it has the answer")
	// ErrSessionWindow: wait for answers first. See WindowError.
	ErrSessionWindow = errors.New("raft: too many commands of the session are without an answer")
	// ErrTableFull: try again later. See FullError.
	ErrTableFull = errors.New("raft: the table of sessions is full")
)

// ExpiredError says that the members know no session with this id, any more or at all: it was idle for longer than Limits.Idle,
// it was closed, or the id is of another cluster or was never given. The entry had no effect. It matches ErrSessionExpired and,
// if an earlier attempt of the command may have been applied, node.ErrOutcomeUnknown. Open another session; if the outcome is
// unknown, read the state before you propose the command again.
type ExpiredError struct {
	ID     ID
	Number uint64 // of the command; 0: none was tried

	unknown bool
}

func (e *ExpiredError) Error() string {
	s := fmt.Sprintf("raft: session %v has ended, or is none of this cluster: open another one", e.ID)
	if e.unknown {
		return fmt.Sprintf("%s; whether its command %d was applied before is not known: read the state first", s, e.Number)
	}
	return s + "; not applied"
}

// Unwrap returns the errors that this one matches.
func (e *ExpiredError) Unwrap() []error {
	if e.unknown {
		return []error{ErrSessionExpired, node.ErrOutcomeUnknown}
	}
	return []error{ErrSessionExpired}
}

// AnsweredError refuses a command whose number is below the floor of its session: the client has said that it has the answer. It
// has no effect now, and may have had one before. It matches ErrSessionAnswered. Session.Propose never meets it. Give each command
// a number of its own, and raise the floor only over numbers whose answers are known.
type AnsweredError struct {
	ID            ID
	Number, Floor uint64
}

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("raft: command %d of session %v is below the floor %d, so its answer is no longer kept: give a new command a higher number",
		e.Number, e.ID, e.Floor)
}

// Unwrap returns ErrSessionAnswered.
func (e *AnsweredError) Unwrap() error { return ErrSessionAnswered }

// WindowError refuses a command whose number is not below Floor + Window. It had no effect here, but the floor may have been lower
// in another attempt, so it matches ErrSessionWindow and node.ErrOutcomeUnknown. Session.Propose never meets it. Wait for the
// answers to lower numbers, then repeat the command with the same number; never give that number to another command.
type WindowError struct {
	ID                    ID
	Number, Floor, Window uint64
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("raft: command %d of session %v is beyond its window of %d numbers from %d on: wait for earlier answers, then repeat it with this number",
		e.Number, e.ID, e.Window, e.Floor)
}

// Unwrap returns the errors that this one matches.
func (e *WindowError) Unwrap() []error { return []error{ErrSessionWindow, node.ErrOutcomeUnknown} }

// FullError refuses to open a session: the table has reached Limit, a field of Limits, and no session in it has expired. A command
// is tried again instead. It matches ErrTableFull and raft.ErrOverloaded: close sessions, try later, or open with a higher limit.
type FullError struct {
	Setting string // "Sessions" or "Bytes"
	Limit   uint64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("raft: the table of sessions is full: the limit is %d (Limits.%s): close sessions, try again later, or raise the limit",
		e.Limit, e.Setting)
}

// Unwrap returns the errors that this one matches.
func (e *FullError) Unwrap() []error { return []error{ErrTableFull, raft.ErrOverloaded} }

// AnswerTooLargeError says that the command is applied, once, but that the FSM's answer is too large to be kept for further
// attempts, so that no attempt gets it. Read the state, or let the FSM give shorter answers.
type AnswerTooLargeError struct {
	Bytes, Limit int
}

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("raft: the command was applied, but the FSM's answer takes %d bytes, and an answer in a session at most %d: read the state instead", e.Bytes, e.Limit)
}

// RefusedError says that the members could not carry out an entry of a session, and that it had no effect.
type RefusedError struct {
	Entry, Outcome string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("raft: the %s of a session had no effect: %s", e.Entry, e.Outcome)
}
