package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// RemoteError is the error of a request that was forwarded to the leader (Config.Forward), if it is not simply one of the
// errors of Propose, ChangeMembers or TransferLeadership. It matches, with errors.Is and errors.As, those that the leader's
// error matched. If it matches none, only the leader's release knows the error: nothing was carried out, and Text says why.
type RemoteError struct {
	Leader raft.NodeID
	Text   string

	causes []error
}

func (e *RemoteError) Error() string {
	if len(e.causes) > 0 {
		return e.Text
	}
	return fmt.Sprintf("raft: the leader, %s, has refused the request, and has carried out nothing of it: %s", e.Leader, strings.TrimPrefix(e.Text, "raft: "))
}

// Unwrap returns the errors that this one matches.
func (e *RemoteError) Unwrap() []error { return e.causes }

// NotMemberError refuses a forwarded request: no configuration of the leader names the member that sent it, so nothing was
// carried out. Add that member, or replace it if its disk was emptied.
type NotMemberError struct {
	Leader      raft.NodeID
	ID          raft.NodeID
	Incarnation raft.Incarnation
}

func (e *NotMemberError) Error() string {
	return fmt.Sprintf("raft: not applied: the configuration of the leader, %s, does not name %s with the incarnation %v: add that member, "+
		"or replace it if its disk was emptied", e.Leader, e.ID, e.Incarnation)
}

// RemoteChangesError refuses a forwarded change of the members, or transfer of leadership, because the leader has
// Config.NoRemoteChanges. Nothing was carried out: ask the leader itself.
type RemoteChangesError struct {
	Leader raft.NodeID
}

func (e *RemoteChangesError) Error() string {
	return fmt.Sprintf("raft: the leader, %s, takes no changes from other members (Config.NoRemoteChanges); nothing was changed: ask it itself", e.Leader)
}

// ForwardLimitError refuses a request before it is carried out: as many requests of Member as Setting allows are being
// forwarded. It matches raft.ErrOverloaded: try again later.
type ForwardLimitError struct {
	Member  raft.NodeID // whose requests they are
	Setting string      // "ForwardsMax" or "ForwardBytesMax"
	Limit   int
}

func (e *ForwardLimitError) Error() string {
	return fmt.Sprintf("raft: too many requests of %s are being forwarded: the limit is %d (Config.%s); not applied, try again later",
		e.Member, e.Limit, e.Setting)
}

// Unwrap returns raft.ErrOverloaded.
func (e *ForwardLimitError) Unwrap() error { return raft.ErrOverloaded }

// AnswerTooLargeError says that a forwarded command was applied, but the FSM's answer is too large to be sent back. The
// Result has the entry. Read the state, or let the FSM give shorter answers.
type AnswerTooLargeError struct {
	Bytes, Limit int
}

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("raft: the command was applied, but the FSM's answer takes %d bytes, and a forwarded answer %d: read the state instead", e.Bytes, e.Limit)
}

// errorOnWire is the form in which an error is sent.
type errorOnWire struct {
	Text string        `json:"text"`
	As   []causeOnWire `json:"as,omitempty"` // the typed errors that it matches
	Is   []string      `json:"is,omitempty"` // the other errors that it matches
}

type causeOnWire struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// knownErrors names the errors without fields that may come back.
var knownErrors = []struct {
	name string
	err  error
}{
	{"overloaded", raft.ErrOverloaded},
	{"unknown", ErrOutcomeUnknown},
	{"given up", raft.ErrChangeGivenUp},
	{"no target", ErrNoTarget},
	{"transfer timed out", ErrTransferTimedOut},
	{"deadline", context.DeadlineExceeded},
}

// knownTypes names the typed errors that may come back.
var knownTypes = []errorType{
	plain[raft.TooLargeError]("TooLarge"), plain[DiskStalledError]("DiskStalled"), plain[FSMHangsError]("FSMHangs"),
	plain[NotMemberError]("NotMember"), plain[RemoteChangesError]("RemoteChanges"), plain[ForwardLimitError]("ForwardLimit"),
	plain[AnswerTooLargeError]("AnswerTooLarge"), plain[NoSessionsError]("NoSessions"),
	plain[raft.ChangePendingError]("ChangePending"), plain[raft.ConfigChangedError]("ConfigChanged"),
	plain[raft.UnknownMemberError]("UnknownMember"), plain[raft.MemberExistsError]("MemberExists"),
	plain[raft.LastVoterError]("LastVoter"), plain[raft.NotElectableError]("NotElectable"), plain[raft.PriorityError]("Priority"),
	plain[raft.AddressInUseError]("AddressInUse"), plain[raft.QuorumLossError]("QuorumLoss"),
	plain[raft.EarlierReleaseError]("EarlierRelease"), plain[raft.WasRemovedError]("WasRemoved"), plain[raft.AppVersionError]("AppVersion"),
	plain[raft.LeaseTooLongError]("LeaseTooLong"),
	plain[raft.CatchUpError]("CatchUp"), plain[raft.NotEmptyError]("NotEmpty"), plain[joining.InUseError]("InUse"),
	wrapping("NoRoom", func(e *raft.NoRoomError) wrapped { return wrapped{Err: e.Err.Error()} },
		func(w wrapped) *raft.NoRoomError { return &raft.NoRoomError{Err: errors.New(w.Err)} }),
	wrapping("Config", func(e *raft.ConfigError) wrapped { return wrapped{Field: e.Field, Err: e.Err.Error()} },
		func(w wrapped) *raft.ConfigError { return &raft.ConfigError{Field: w.Field, Err: errors.New(w.Err)} }),
	wrapping("Unreachable", func(e *UnreachableError) wrapped { return wrapped{ID: e.ID, Address: e.Address, Err: e.Err.Error()} },
		func(w wrapped) *UnreachableError {
			return &UnreachableError{ID: w.ID, Address: w.Address, Err: errors.New(w.Err)}
		}),
}

// errorType encodes and decodes one type of error.
type errorType struct {
	name   string
	encode func(error) (json.RawMessage, bool) // false: the error does not match the type
	decode func(json.RawMessage) (error, bool)
}

// wrapped has the fields of the types that wrap another error, which is sent as text.
type wrapped struct {
	ID      raft.NodeID `json:",omitempty"`
	Address string      `json:",omitempty"`
	Field   string      `json:",omitempty"`
	Err     string
}

// plain is a type whose fields are data.
func plain[T any, P interface {
	*T
	error
}](name string) errorType {
	return wrapping(name, func(e P) T { return *e }, func(value T) P { return &value })
}

func wrapping[E error, W any](name string, to func(E) W, from func(W) E) errorType {
	return errorType{
		name: name,
		encode: func(err error) (json.RawMessage, bool) {
			var typed E
			if !errors.As(err, &typed) {
				return nil, false
			}
			value, failed := json.Marshal(to(typed))
			return value, failed == nil
		},
		decode: func(value json.RawMessage) (error, bool) {
			var w W
			if json.Unmarshal(value, &w) != nil {
				return nil, false
			}
			return from(w), true
		},
	}
}

// errorTextMax bounds the text of an error, so that it fits into a reply in any encoding.
const errorTextMax = raft.ForwardErrorBytesMax / 8

// encodeError returns the form of an error for a ForwardReply. If the values of its types do not fit, it leaves them out.
func encodeError(err error) []byte {
	if err == nil {
		return nil
	}
	text := err.Error()
	w := errorOnWire{Text: text[:min(len(text), errorTextMax)]}
	for _, known := range knownErrors {
		if errors.Is(err, known.err) {
			w.Is = append(w.Is, known.name)
		}
	}
	short, _ := json.Marshal(w) // it has no value that could fail
	for _, known := range knownTypes {
		if value, ok := known.encode(err); ok {
			w.As = append(w.As, causeOnWire{known.name, value})
		}
	}
	if whole, failed := json.Marshal(w); failed == nil && len(whole) <= raft.ForwardErrorBytesMax {
		return whole
	}
	return short
}

// decodeError returns the error that the leader has sent. It leaves out what this release does not know.
func decodeError(data []byte, leader raft.NodeID) error {
	var w errorOnWire
	if err := json.Unmarshal(data, &w); err != nil {
		return &RemoteError{Leader: leader, Text: fmt.Sprintf("its reason cannot be read: %v", err)}
	}
	e := &RemoteError{Leader: leader, Text: w.Text}
	for _, as := range w.As {
		for _, known := range knownTypes {
			if known.name != as.Type {
				continue
			}
			if typed, ok := known.decode(as.Value); ok {
				e.causes = append(e.causes, typed)
			}
		}
	}
	for _, is := range w.Is {
		for _, known := range knownErrors {
			if known.name == is && !errors.Is(e, known.err) {
				e.causes = append(e.causes, known.err)
			}
		}
	}
	if len(e.causes) == 1 && e.causes[0].Error() == e.Text {
		return e.causes[0]
	}
	return e
}
