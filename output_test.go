package raft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A message that depends on a durable term, vote or log waits for exactly that.
func TestOutput_ReleasesWhatIsDurable(t *testing.T) {
	b := Peer{"b", 2}
	for _, row := range []struct {
		rule string
		disk disk
		say  func(c *Core)
		send bool
	}{
		{"a plain message in a durable term", disk{hard: HardState{Term: 2}}, func(c *Core) { c.send(b, HeartbeatReply{}) }, true},
		{"a plain message in a newer term", disk{hard: HardState{Term: 1}}, func(c *Core) { c.send(b, HeartbeatReply{}) }, false},
		{"a vote that is not durable", disk{hard: HardState{Term: 2}}, func(c *Core) { c.promiseVote(b, VoteReply{Granted: true}) }, false},
		{"a vote that is", disk{hard: HardState{Term: 2, Vote: b}}, func(c *Core) { c.promiseVote(b, VoteReply{Granted: true}) }, true},
		{"entries that are not durable", disk{hard: HardState{Term: 2}, persisted: 4}, func(c *Core) { c.promiseLog(b, AppendReply{Match: 5}, 5) }, false},
		{"entries that are", disk{hard: HardState{Term: 2}, persisted: 5}, func(c *Core) { c.promiseLog(b, AppendReply{Match: 5}, 5) }, true},
	} {
		c := &Core{hard: HardState{Term: 2, Vote: b}, disk: row.disk}
		row.say(c)
		c.release()
		require.Equal(t, row.send, len(c.step.out.Send) == 1, row.rule)
		require.Equal(t, !row.send, len(c.step.out.Write.Then) == 1, row.rule)
	}
	c := &Core{hard: HardState{Term: 2}, disk: disk{hard: HardState{Term: 2}}}
	c.send(b, HeartbeatReply{})
	c.hard.Term = 3
	c.release()
	require.Empty(t, append(c.step.out.Send, c.step.out.Write.Then...), "a step that passed several terms says nothing in the earlier ones")
}
