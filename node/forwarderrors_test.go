package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// Every error of a call comes back with its text, its values and what it matches.
func TestForwardErrors_ComeBackWhole(t *testing.T) {
	for _, err := range []error{
		raft.ErrOverloaded, ErrOutcomeUnknown, ErrNoTarget, ErrTransferTimedOut,
		&raft.TooLargeError{Bytes: 7, Limit: 5, Member: "n3"}, &DiskStalledError{Limit: time.Second}, &FSMHangsError{Limit: time.Second},
		&NotMemberError{Leader: "n1", ID: "n2", Incarnation: 22}, &RemoteChangesError{Leader: "n1"},
		&ForwardLimitError{Member: "n2", Setting: "ForwardsMax", Limit: 3}, &AnswerTooLargeError{Bytes: 9, Limit: 8},
		&raft.ChangePendingError{Index: 4, Waits: []raft.NodeID{"n2"}, Since: time.Second}, &raft.ConfigChangedError{IfIndex: 3, Index: 4},
		&raft.UnknownMemberError{ID: "n4", Known: []raft.NodeID{"n1", "n2"}, Removed: 9},
		&raft.MemberExistsError{Member: raft.Member{ID: "n1", Address: "a:1", Incarnation: 1<<64 - 1, Meta: "m"}, Answers: true},
		&raft.LastVoterError{ID: "n1"}, &raft.NotElectableError{Voters: []raft.NodeID{"n1"}, Raise: "n1"},
		&raft.PriorityError{ID: "n1", Number: 300}, &raft.AddressInUseError{ID: "n1", Address: "a:1", By: "n2"},
		&raft.QuorumLossError{Silent: []raft.NodeID{"n1"}, Voters: []raft.NodeID{"n1", "n2"}},
		&raft.EarlierReleaseError{IDs: []raft.NodeID{"n1"}, Speaks: 3, Needs: 4},
		&raft.LeaseTooLongError{Duration: time.Second, Limit: 99 * time.Millisecond, ElectionTimeout: 100 * time.Millisecond}, &raft.WasRemovedError{ID: "n1", Index: 7},
		&raft.NotEmptyError{ID: "n1", Address: "a:1", Cluster: raft.ClusterID{1}, Before: 7},
		&raft.NoRoomError{Err: errors.New("full")}, &UnreachableError{ID: "n1", Address: "a:1", Err: errors.New("refused")},
		&raft.ConfigError{Field: "Change", Err: errors.New("it is empty")},
	} {
		back := decodeError(encodeError(err), "n1")
		expect.Equal(t, err.Error(), back.Error())
		var remote *RemoteError
		if !errors.As(back, &remote) { // else it matches further errors
			expect.Equal(t, err, back)
		}
		for _, known := range knownErrors {
			expect.Equal(t, errors.Is(err, known.err), errors.Is(back, known.err), "%T: %v", err, known.err)
		}
		for _, known := range knownTypes {
			was, matched := known.encode(err)
			is, matches := known.encode(back)
			expect.Equal(t, matched, matches, "%T: %s", err, known.name)
			expect.Equal(t, string(was), string(is), "%T", err)
		}
	}
}

func TestForwardErrors_WhatWrapsSeveral(t *testing.T) {
	change := &raft.ConfigError{Field: "Change.Update", Err: &raft.PriorityError{ID: "n1", Number: 300}}
	back := decodeError(encodeError(change), "n1")
	var priority *raft.PriorityError
	var config *raft.ConfigError
	require.ErrorAs(t, back, &priority)
	require.ErrorAs(t, back, &config)
	expect.Equal(t, 300, priority.Number)
	expect.Equal(t, change.Error(), back.Error())

	givenUp := &raft.CatchUpError{ID: "n4", Match: 1, Last: 9, Patience: time.Minute}
	back = decodeError(encodeError(givenUp), "n1")
	require.ErrorIs(t, back, raft.ErrChangeGivenUp)
	expect.Equal(t, givenUp, back)

	unknown := errors.Join(changeUnknownError{}, context.DeadlineExceeded)
	back = decodeError(encodeError(unknown), "n1")
	require.ErrorIs(t, back, ErrOutcomeUnknown)
	require.ErrorIs(t, back, context.DeadlineExceeded)
	expect.Equal(t, unknown.Error(), back.Error())
}

// What only the other side knows says what the caller should do.
func TestForwardErrors_OfALaterRelease(t *testing.T) {
	data, err := json.Marshal(errorOnWire{Text: "raft: the moon is full", As: []causeOnWire{{"FullMoon", json.RawMessage(`{}`)}}, Is: []string{"eclipse"}})
	require.NoError(t, err)
	back := decodeError(data, "n1")
	expect.EqualError(t, back, "raft: the leader, n1, has refused the request, and has carried out nothing of it: the moon is full")
	var remote *RemoteError
	require.ErrorAs(t, back, &remote)
	expect.Equal(t, raft.NodeID("n1"), remote.Leader)
	for _, garbage := range []string{"", "{", "7", `{"text":7}`, `{"as":[{"type":"TooLarge","value":"x"}]}`, `{"as":[{}],"is":["",""]}`} {
		expect.Error(t, decodeError([]byte(garbage), "n1"), garbage)
	}
}

// An error fits into a reply, whatever its values are.
func TestForwardErrors_AreBounded(t *testing.T) {
	many := &raft.UnknownMemberError{ID: "n1"}
	for i := range 1000 {
		many.Known = append(many.Known, raft.NodeID(fmt.Sprintf("%04d%s", i, strings.Repeat("\x00", 60))))
	}
	for _, err := range []error{many, errors.New(strings.Repeat("\x01", 1<<20)), fmt.Errorf("%w%s", raft.ErrOverloaded, strings.Repeat("ü", 1<<20))} {
		data := encodeError(err)
		expect.LessOrEqual(t, len(data), raft.ForwardErrorBytesMax)
		back := decodeError(data, "n1")
		expect.Equal(t, errors.Is(err, raft.ErrOverloaded), errors.Is(back, raft.ErrOverloaded))
	}
}

// What a leader answers follows from its error.
func TestForwardErrors_SayWhatBecameOfTheRequest(t *testing.T) {
	for _, row := range []struct {
		err  error
		want raft.ForwardOutcome
	}{
		{nil, raft.ForwardApplied},
		{&NotLeaderError{}, raft.ForwardNotApplied},
		{context.DeadlineExceeded, raft.ForwardNotApplied},
		{raft.ErrClosed, raft.ForwardNotApplied},
		{ErrWiped, raft.ForwardNotApplied},
		{&raft.RemovedError{Index: 3}, raft.ForwardNotApplied},
		{&raft.StaleImageError{}, raft.ForwardNotApplied},
		{&raft.ContradictedError{}, raft.ForwardNotApplied},
		{ErrOutcomeUnknown, raft.ForwardUnknown},
		{errors.Join(ErrOutcomeUnknown, context.DeadlineExceeded), raft.ForwardUnknown},
		{changeUnknownError{}, raft.ForwardUnknown},
		{&raft.CatchUpError{}, raft.ForwardApplied},
		{ErrTransferTimedOut, raft.ForwardApplied},
		{&AnswerTooLargeError{}, raft.ForwardApplied},
		{raft.ErrOverloaded, raft.ForwardRefused},
		{&raft.TooLargeError{}, raft.ForwardRefused},
		{&UnreachableError{Err: context.DeadlineExceeded}, raft.ForwardRefused}, // the dial's own
		{errors.New("any other"), raft.ForwardRefused},
	} {
		outcome, text := outcomeOf(row.err)
		expect.Equal(t, row.want, outcome, "%v", row.err)
		expect.Equal(t, row.err != nil && outcome != raft.ForwardNotApplied, len(text) > 0, "%v", row.err)
	}
}
