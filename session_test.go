package raft_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// proposeSession proposes a command and an entry of a session. The latter has the request id of the tests.
func (c *core) proposeSession(term raft.Term) raft.Output {
	return c.step(raft.Proposed{Proposals: []raft.Proposal{
		{RequestID: requestIDOfTheTests - 1, Kind: raft.EntryCommand, Data: []byte("x")},
		{RequestID: requestIDOfTheTests, Term: term, Kind: raft.EntrySession, Data: []byte("opening")},
	}})
}

// The configuration comes before the first entry of a session, so that no log has the entry alone.
func TestSessions_TheFirstEntryPutsThemInForce(t *testing.T) {
	c := replicating(t, 5, 1)
	before := c.Status()
	out := c.proposeSession(0)
	config := c.Status().Config
	assert.True(t, config.Sessions)
	assert.EqualValues(t, 4, config.Level)
	assert.Equal(t, raft.ProtocolSessions, config.Protocol())
	kinds := []raft.EntryKind{}
	for _, e := range out.Write.Log.Entries {
		kinds = append(kinds, e.Kind)
	}
	assert.Equal(t, []raft.EntryKind{raft.EntryConfiguration, raft.EntryCommand, raft.EntrySession}, kinds)
	assert.Equal(t, []raft.Answer{
		{RequestID: requestIDOfTheTests - 1, Kind: raft.AnswerAccepted, ID: id(before.Last.Index+2, 5)},
		{RequestID: requestIDOfTheTests, Kind: raft.AnswerAccepted, ID: id(before.Last.Index+3, 5)},
	}, out.Answers)

	out = c.proposeSession(0)
	require.Len(t, out.Write.Log.Entries, 2, "they are in force already, although not committed")
	c.hold("bc")
	c.change(addLearner("d"))
	assert.Equal(t, raft.AnswerAccepted, c.out.Answers[0].Kind)
	assert.True(t, c.Status().Config.Sessions, "a change keeps them")
}

// refusedSession proposes and checks that only the entry of the session is refused.
func refusedSession(t *testing.T, c *core, why raft.RefusalKind) error {
	last := c.Status().Last.Index
	out := c.proposeSession(0)
	require.Len(t, out.Answers, 2)
	assert.Equal(t, raft.AnswerAccepted, out.Answers[0].Kind)
	assert.Equal(t, raft.AnswerRefused, out.Answers[1].Kind)
	assert.Equal(t, why, out.Answers[1].Refusal)
	assert.Equal(t, last+1, c.Status().Last.Index)
	assert.False(t, c.Status().Config.Sessions)
	return out.Answers[1].Err
}

func TestSessions_AnEarlierReleaseIsInTheWay(t *testing.T) {
	c := replicating(t, 5, 1)
	c.speaks("c", raft.ProtocolSessions-1)
	var earlier *raft.EarlierReleaseError
	require.ErrorAs(t, refusedSession(t, c, raft.RefusedEarlierRelease), &earlier)
	assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"c"}, Speaks: 7, Needs: 8}, *earlier)
	c.speaks("c", raft.ProtocolSessions)
	assert.Equal(t, raft.AnswerAccepted, c.proposeSession(0).Answers[1].Kind, "it was upgraded")
	c.hold("bc")

	c.speaks("d", raft.ProtocolSessions-1)
	c.change(addLearner("d"))
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
}

func TestSessions_WaitForAChange(t *testing.T) {
	c := replicating(t, 5, 1)
	c.change(addLearner("d"))
	assert.NoError(t, refusedSession(t, c, raft.RefusedOverloaded), "its configuration is not committed yet")
	c.hold("bc")
	c.change(raft.Change{Promote: []raft.Peer{{ID: "d"}}})
	c.hold("bc")
	var pending *raft.ChangePendingError
	require.ErrorAs(t, refusedSession(t, c, raft.RefusedChanging), &pending)
}

// A configuration of an earlier term may be uncommitted, so a new leader first commits an entry of its own.
func TestSessions_WaitForTheFirstCommit(t *testing.T) {
	c := leaderOf(t, "abc", 5, 1)
	assert.NoError(t, refusedSession(t, c, raft.RefusedOverloaded))
	c.hold("bc")
	assert.Equal(t, raft.AnswerAccepted, c.proposeSession(0).Answers[1].Kind)
}

func TestSessions_AProposalForAnotherTermPutsNothingInForce(t *testing.T) {
	c := replicating(t, 5, 1)
	out := c.proposeSession(4)
	assert.Equal(t, raft.RefusedNotLeader, out.Answers[1].Refusal)
	assert.False(t, c.Status().Config.Sessions)
}

func TestSessions_InTheConfiguration(t *testing.T) {
	config := raft.NewConfiguration(membersNamed("abc"))
	config.Sessions, config.Level = true, 4
	decoded, err := raft.DecodeConfiguration(config.Encode())
	require.NoError(t, err)
	assert.True(t, decoded.Equal(config))
	config.Level = 3
	assert.ErrorContains(t, config.Validate(), "sessions begin with level 4")
}
