package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
)

// A test of the demo store has the status of each.
func TestExplain_EachErrorHasItsCodeAndItsRemedy(t *testing.T) {
	n := newFake()
	for _, row := range []struct {
		err    error
		code   admin.Code
		remedy string
	}{
		{&raft.UnknownMemberError{ID: "n9"}, admin.UnknownMember, "GET /members shows the members"},
		{&raft.MemberExistsError{Member: raft.Member{ID: "n2"}}, admin.MemberExists, "an update of n2 with its new address; if its disk was lost: a replacement of n2"},
		{&raft.MemberExistsError{Answers: true}, admin.MemberRuns, "GET /members"},
		{&joining.InUseError{Member: raft.Member{ID: "n3", Address: "h:3"}}, admin.MemberRuns, "end the process of n3 at h:3 first"},
		{fmt.Errorf("%w (%w)", &joining.InUseError{}, context.DeadlineExceeded), admin.NoLeader, "try again"},
		{&raft.ChangePendingError{Waits: []raft.NodeID{"n4"}}, admin.ChangePending, `a change with "cancel" ends it`},
		{&raft.ChangePendingError{Joint: true}, admin.ChangePending, "try again when it is done"},
		{&raft.ConfigChangedError{}, admin.ConfigChanged, "decide again"},
		{&raft.LastVoterError{ID: "n1"}, admin.LastVoter, `a change with "add"`},
		{&raft.NotElectableError{Raise: "n2"}, admin.NotElectable, "the priority of n2 to 1"},
		{&raft.PriorityError{ID: "n4", Number: 5, Learner: true}, admin.BadRequest, "a promotion of n4"},
		{&raft.QuorumLossError{Silent: []raft.NodeID{"n2", "n3"}}, admin.QuorumLoss, `"despite" n2,n3`},
		{&node.UnreachableError{ID: "n4", Address: "h:4", Err: context.DeadlineExceeded}, admin.MemberUnreachable, "check that n4 runs"},
		{&node.UnreachableError{ID: "n4", Err: &transport.InsecureError{}}, admin.MemberUnreachable, "give all members certificates"},
		{&raft.NotEmptyError{ID: "n4"}, admin.NotEmpty, "start n4 with an empty directory"},
		{&raft.WasRemovedError{ID: "n4"}, admin.WasRemoved, "start n4 with an empty directory"},
		{&raft.AddressInUseError{ID: "n4"}, admin.AddressInUse, "its own address"},
		{&raft.EarlierReleaseError{IDs: []raft.NodeID{"n2"}}, admin.EarlierRelease, "upgrade n2 first"},
		{&raft.AppVersionError{ID: "n4", Own: 1, Min: 2}, admin.AppVersion, "start a newer program on n4 first"},
		{&raft.CatchUpError{ID: "n4"}, admin.GivenUp, "send the same change again"},
		{&raft.LeaseTooLongError{Duration: time.Second, Limit: 900 * time.Millisecond, ElectionTimeout: time.Second}, admin.LeaseTooLong, "ask for 900ms at most"},
		{raft.ErrChangeGivenUp, admin.GivenUp, "GET /members"},
		{&raft.RemovedError{Index: 7}, admin.RemovedMember, "ask another member"},
		{&raft.ConfigError{Field: "Change", Err: errors.New("because")}, admin.BadRequest, "the documentation of raft.Change"},
		{raft.ErrOverloaded, admin.Overloaded, "try again in a second"},
		{&raft.NoRoomError{Err: errors.New("full")}, admin.Overloaded, "which disk needs room"},
		{node.ErrWiped, admin.Closed, "a replacement puts this one"},
		{raft.ErrClosed, admin.Closed, "ask another member"},
		{context.DeadlineExceeded, admin.NoLeader, "try again"},
		{node.ErrReadTimedOut, admin.ReadTimedOut, "the state of this member"},
		{&node.TooStaleError{MaxAge: time.Second}, admin.TooStale, "read with Linearizable"},
		{&node.TooStaleError{Age: time.Minute, MaxAge: time.Second}, admin.TooStale, "ask another member"},
		{&raft.TooLargeError{Bytes: 2, Limit: 1}, admin.ValueTooLarge, "propose less"},
		{&node.ForwardLimitError{Member: "n2", Setting: "ForwardsMax", Limit: 9}, admin.Overloaded, "try again in a second"},
		{&node.DiskStalledError{}, admin.Overloaded, "try again in a second"},
		{&node.NotMemberError{Leader: "n1", ID: "n2"}, admin.Closed, `a change with "add" adds this one`},
		{&node.RemoteChangesError{Leader: "n1"}, admin.NotLeader, "ask the leader"},
		{&node.AnswerTooLargeError{Bytes: 2, Limit: 1}, admin.AnswerTooLarge, "read the state"},
		{&node.RemoteError{Leader: "n1", Text: "raft: of tomorrow"}, admin.Refused, "the same release"},
		{fmt.Errorf("%w; not applied: %w", context.DeadlineExceeded, &node.NotLeaderError{Leader: &raft.Member{ID: "n1"}}), admin.NotLeader, "ask the leader"},
		{errors.Join(node.ErrOutcomeUnknown, context.DeadlineExceeded), admin.OutcomeUnknown, "read before you try again"},
		{&admin.Error{Code: "mine", Remedy: "as it was"}, "mine", "as it was"},
		{errors.New("disk on fire"), admin.Internal, "log"},
	} {
		e := admin.Explain(n, fmt.Errorf("node: %w", row.err))
		assert.Equal(t, row.code, e.Code, row.err)
		assert.Contains(t, e.Remedy, row.remedy, row.err)
		assert.NotContains(t, e.Remedy, "raftkv")
		assert.NotContains(t, e.Remedy, "--")
	}
	n.SetStatus(node.Status{LeaderMember: &raft.Member{ID: "n1", Meta: "http://n1"}})
	e := admin.Explain(n, &node.RemoteChangesError{Leader: "n1"})
	assert.Equal(t, []string{"n1", "http://n1"}, []string{e.Leader, e.LeaderURL})
	n.SetStatus(node.Status{MajorityLost: "the disks of 2 of 3 voters are lost"})
	assert.Equal(t, "the disks of 2 of 3 voters are lost", admin.Explain(n, &node.NotLeaderError{}).Message)
}
