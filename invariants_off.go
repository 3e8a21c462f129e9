//go:build !race && !invariants

package raft

// checkAll: this build checks the cheap invariants alone.
const checkAll = false
