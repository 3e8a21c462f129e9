//go:build race || invariants

package raft

// checkAll is true, so this build checks every invariant of the core after each Step.
const checkAll = true
