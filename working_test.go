package raft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

const workStopMax = 5 * electionTimeout

// working returns a leader of abc in term 2 whose host works for it. All members hold its log, and it has applied all of it.
func working(t *testing.T) *core {
	c := heardLeader(t)
	c.step(raft.Applied{ID: id(3, 2)})
	require.True(t, c.MayWork())
	c.step(raft.Working{Term: 2, StopMax: time.Duration(workStopMax)})
	return c
}

// hearing passes time in heartbeat intervals in which both other members answer, until the target is told to campaign, but at
// most until the given time.
func (c *core) hearing(until raft.Time) (told []raft.NodeID) {
	for told == nil && c.now < until {
		c.after(min(heartbeatPace, until-c.now))
		if told = c.toldToCampaign(); told == nil && c.now < until {
			c.echo("b", 3)
			c.echo("c", 3)
		}
	}
	return told
}

// What was committed before this term is applied once an entry of this term is.
func TestMayWork_OnceAnEntryOfThisTermIsApplied(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	assert.False(t, c.MayWork(), "its no-op is not committed")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	require.Equal(t, raft.Index(3), c.Status().Commit)
	c.step(raft.Applied{ID: id(2, 1)})
	assert.False(t, c.MayWork(), "an entry of an earlier term is applied")
	c.step(raft.Applied{ID: id(3, 2)})
	assert.True(t, c.MayWork())

	c.transferTo("b")
	assert.False(t, c.MayWork(), "it transfers its leadership")
	c.step(raft.Closing{})
	assert.False(t, c.MayWork())
	assert.False(t, follower(t, 2, 1).MayWork())
}

func TestTransfer_WaitsForTheEndOfTheWork(t *testing.T) {
	c := working(t)
	c.transferTo("b")
	assert.Empty(t, c.hearing(c.now+2*electionTimeout), "longer than a transfer without work lasts")
	require.NotZero(t, c.Status().TransferringUntil)
	c.step(raft.Working{})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
}

// The target has the same time to catch up as without work.
func TestTransfer_CatchesUpAfterTheEndOfTheWork(t *testing.T) {
	c := working(t)
	c.transferTo("b")
	c.hearing(c.now + electionTimeout)
	end := c.Status().TransferringUntil
	c.propose("x") // refused
	c.step(raft.Working{Term: 1, StopMax: time.Second})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign(), "work of another term is not for this leadership")
	assert.Less(t, c.Status().TransferringUntil, end)
}

func TestTransfer_WaitsForTheWorkNoLongerThanItsBound(t *testing.T) {
	c := working(t)
	begun := c.now
	c.transferTo("b")
	assert.Equal(t, []raft.NodeID{"b"}, c.hearing(begun+2*workStopMax))
	assert.Equal(t, begun+workStopMax, c.now, "it is woken for that")
}

// A transfer without work does not wait, nor does one after the work has ended.
func TestTransfer_WithoutWorkWaitsForNothing(t *testing.T) {
	c := working(t)
	c.step(raft.Working{})
	c.transferTo("b")
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
}

// A disk that stalls is no reason to let the next leader begin while the work of this one runs.
func TestTransfer_OfAStalledDiskWaitsForTheEndOfTheWork(t *testing.T) {
	c := working(t)
	c.propose("x")
	acked := map[raft.NodeID]raft.Index{"b": 4, "c": 4}
	require.Contains(t, c.waitHearing(diskStallMax+heartbeatPace, acked), raft.TraceTransfer)
	require.Empty(t, c.toldToCampaign())
	assert.False(t, c.MayWork())
	c.step(raft.Working{})
	assert.NotEmpty(t, c.toldToCampaign())
}

// The time for the work counts beside that of a slow disk, and the transfer ends.
func TestTransfer_EndsIfTheTargetDoesNotCatchUpAfterTheWork(t *testing.T) {
	c := working(t)
	c.propose("x")
	c.persist()
	c.receive("c", 2, raft.AppendReply{Match: 4})
	c.step(raft.Applied{ID: id(4, 2)})
	begun := c.now
	c.transferTo("b")
	assert.Empty(t, c.hearing(begun+workStopMax+electionTimeout))
	assert.Equal(t, refused(raft.RefusedTimedOut, "a"), c.out.Answers)
	assert.True(t, c.MayWork(), "it may begin again")
}
