package raft_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// "If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine
// (§5.3)." (Figure 2, All Servers) Here: up to what is durable in this log, in order, once.
func TestApply_WhatIsCommittedAndDurable(t *testing.T) {
	c := follower(t, 2, 1)
	out := c.append("b", 2, id(2, 1), 4, 2, 2)
	assert.Equal(t, id(2, 1), out.Apply, "3 and 4 are committed, but not durable here")
	out = c.persist()
	assert.Equal(t, id(4, 2), out.Apply)
	out = c.append("b", 2, id(4, 2), 4)
	assert.Zero(t, out.Apply, "once")
}
