// Package storage keeps what a member of a cluster must not forget: term and vote, the log, and snapshots.
//
// Three stores implement raft.SnapshotStorage: Bolt keeps the log in one bbolt file and snapshots in files beside it, Log keeps
// the log in segments beside both, and Memory keeps everything in memory, for tests. Package storagetest tests that a store
// keeps the contract; run it on your own store.
package storage
