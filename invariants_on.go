//go:build race || invariants

package raft

// checkAll: this build checks every invariant of the core after each Step.
const checkAll = true
