package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
)

// threeVoters is the configuration of entry 8: n1, n2 and n3 vote.
func threeVoters() node.Members {
	var members []raft.Member
	for i := range 3 {
		members = append(members, raft.Member{
			ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Incarnation: raft.Incarnation(i + 1),
			Address: fmt.Sprintf("127.0.0.1:500%d", i+1), Meta: fmt.Sprintf("http://127.0.0.1:400%d", i+1),
		})
	}
	config := raft.NewConfiguration(members)
	config.Level = 1
	return node.Members{Configuration: config, Index: 8, Committed: true}
}

func TestChange_BadBodies(t *testing.T) {
	m := newMember(t, "n1")
	m.SetMembers(threeVoters())
	for body, says := range map[string]string{
		"":                                     "not a change in JSON",
		"{}{}":                                 "something follows",
		`{"ad":[]}`:                            `unknown field "ad"`,
		`{"add":[{"id":"n4","kind":"x"}]}`:     `its kind is "x"`,
		`{"add":[{"id":"n4","url":"h:4"}]}`:    `"h:4" is not a URL`,
		`{"add":[{"id":"n4","address":"h"}]}`:  `member "n4": "h" is no "host:port" with a port`,
		`{"add":[{"id":"n4","address":":4"}]}`: `":4" names no machine`,
		`{"update":[{"id":"n1","address":"h:0"}]}`:                           `"h:0" is no`,
		`{"update":[{"id":"n1","address":"h:99999"}]}`:                       `"h:99999" is no`,
		`{"update":[{"id":"n1","url":"h"}]}`:                                 `"h" is not a URL`,
		`{"replace":[{"old":{"id":"n2"},"new":{"address":"0.0.0.0:5001"}}]}`: `"0.0.0.0:5001" names no machine`,
		`{"update":[{"id":"n1","priority":101}]}`:                            `member "n1": priority 101: it takes 1 to 100, or 0`,
		`{"update":[{"id":"n1","priority":-1}]}`:                             `member "n1": priority -1: it takes`,
		`{"update":[{"id":"n1","priority":1.5}]}`:                            "not a change in JSON",
		`{"patience":"1"}`:                                                   `patience "1"`,
		`{"remove":[{"id":"n","incarnation":"x"}]}`:                          `"x" is not an incarnation`,
	} {
		r := m.do(t, "POST", "/members", body)
		failure := r.failure(t)
		assert.Equal(t, 400, r.StatusCode, body)
		assert.Equal(t, admin.BadRequest, failure.Code)
		assert.Contains(t, failure.Message, says)
		assert.NotEmpty(t, failure.Remedy)
	}
}

func TestChange_EachRefusalHasItsCodeAndItsRemedy(t *testing.T) {
	m := newMember(t, "n1")
	exists := threeVoters().Configuration.Members[1]
	for _, row := range []struct {
		err    error
		code   admin.Code
		status int
		remedy string
	}{
		{&raft.UnknownMemberError{ID: "n9"}, admin.UnknownMember, 404, "raftkv members"},
		{&raft.MemberExistsError{Member: exists}, admin.MemberExists, 409, "raftkv members replace n2"},
		{&raft.MemberExistsError{Member: exists, Answers: true}, admin.MemberRuns, 409, "members --json"},
		{&raft.ChangePendingError{Waits: []raft.NodeID{"n4"}}, admin.ChangePending, 409, "raftkv members cancel"},
		{&raft.ChangePendingError{Joint: true}, admin.ChangePending, 409, "try again when it is done"},
		{&raft.ConfigChangedError{}, admin.ConfigChanged, 412, "decide again"},
		{&raft.LastVoterError{ID: "n1"}, admin.LastVoter, 409, "raftkv members add"},
		{&raft.NotElectableError{Raise: "n2"}, admin.NotElectable, 409, "raftkv members priority n2 1"},
		{&raft.ConfigError{Field: "Change.Update", Err: &raft.PriorityError{ID: "n4", Number: 5, Learner: true}}, admin.BadRequest, 400, "raftkv members add n4"},
		{&raft.QuorumLossError{Silent: []raft.NodeID{"n2", "n3"}}, admin.QuorumLoss, 409, "--despite n2,n3"},
		{&node.UnreachableError{ID: "n4", Address: "h:4", Err: context.DeadlineExceeded}, admin.MemberUnreachable, 502, "check that n4 runs, that it listens at h:4"},
		{&node.UnreachableError{ID: "n4", Address: "h:4", Err: &transport.InsecureError{Address: "h:4"}}, admin.MemberUnreachable, 502, "--insecure"},
		{&raft.NotEmptyError{ID: "n4"}, admin.NotEmpty, 409, "start n4 with an empty --data"},
		{&raft.LeaseTooLongError{Limit: time.Second}, admin.LeaseTooLong, 409, "ask for 1s at most, or give all members a longer --election-timeout first"},
		{&raft.NotEmptyError{ID: "n4", Removed: 7}, admin.WasRemoved, 409, "start n4 with an empty --data"},
		{&raft.WasRemovedError{ID: "n4"}, admin.WasRemoved, 409, "start n4 with an empty --data"},
		{&raft.AddressInUseError{ID: "n4"}, admin.AddressInUse, 409, "its own address"},
		{&raft.EarlierReleaseError{IDs: []raft.NodeID{"n2"}}, admin.EarlierRelease, 409, "upgrade n2 first"},
		{&raft.CatchUpError{ID: "n4"}, admin.GivenUp, 504, "run the same command again"},
		{raft.ErrChangeGivenUp, admin.GivenUp, 504, "raftkv members shows"},
		{&raft.RemovedError{Index: 7}, admin.RemovedMember, 410, "ask another member"},
		{&raft.ConfigError{Field: "Change", Err: errors.New("because")}, admin.BadRequest, 400, "--help"},
		{errors.Join(&raft.ConfigError{Field: "Change", Err: errors.New("because")}, &raft.ConfigError{Field: "Meta", Err: errors.New("too long")}),
			admin.BadRequest, 400, "--help"},
		{raft.ErrOverloaded, admin.Overloaded, 429, "try again in a second"},
		{&raft.NoRoomError{Err: errors.New("full")}, admin.Overloaded, 429, "which disk needs room"},
		{node.ErrWiped, admin.Closed, 503, "ask another member"},
		{context.DeadlineExceeded, admin.NoLeader, 503, "try again"},
		{node.ErrOutcomeUnknown, admin.OutcomeUnknown, 504, "read before"},
	} {
		m.Fail(fmt.Errorf("node: %w", row.err))
		r := m.do(t, "POST", "/members", `{"remove":[{"id":"n9"}]}`)
		failure := r.failure(t)
		assert.Equal(t, row.code, failure.Code, row.err)
		assert.Equal(t, row.status, r.StatusCode, row.err)
		if insecure := (*transport.InsecureError)(nil); !errors.As(row.err, &insecure) { // that error names fields, not flags
			assert.Contains(t, failure.Message, strings.ReplaceAll(row.err.Error(), "\n", "; "))
		}
		assert.NotContains(t, failure.Message, "\n", "it is printed on one line")
		assert.Contains(t, failure.Remedy, row.remedy, row.err)
		assert.NotRegexp(t, `GET /m|POST /|"despite"|a change `, failure.Remedy, "it names commands")
		retry := failure.Code == admin.ChangePending || r.StatusCode == 429 || failure.Code == admin.NoLeader
		assert.Equal(t, retry, r.Header.Get("Retry-After") != "", row.err)
	}
}

func TestChange_NoTwoMembersHaveOneURL(t *testing.T) {
	m := newMember(t, "n1")
	m.SetMembers(threeVoters())
	const two = "http://127.0.0.1:4002"
	for body, leadsTo := range map[string]int{
		`{"add":[{"id":"n4","address":"h:4","url":"` + two + `"}]}`:                               409,
		`{"update":[{"id":"n1","url":"` + two + `"}]}`:                                            409,
		`{"update":[{"id":"n2","url":"` + two + `"}]}`:                                            200,
		`{"replace":[{"old":{"id":"n2"},"new":{"id":"n4","address":"h:4","url":"` + two + `"}}]}`: 200,
		`{"replace":[{"old":{"id":"n3"},"new":{"id":"n4","address":"h:4","url":"` + two + `"}}]}`: 409,
		`{"remove":[{"id":"n2"}],"add":[{"id":"n4","address":"h:4","url":"` + two + `"}]}`:        200,
	} {
		r := m.do(t, "POST", "/members", body)
		assert.Equal(t, leadsTo, r.StatusCode, body)
		if leadsTo == 409 {
			failure := r.failure(t)
			assert.Equal(t, admin.AddressInUse, failure.Code)
			assert.Contains(t, failure.Message, "cannot have the URL "+two+": it is the URL of n2")
		}
	}
}
