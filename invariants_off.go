//go:build !race && !invariants

package raft

// checkAll is false, so this build checks only the cheap invariants.
const checkAll = false
