// Package storage keeps what a member of a cluster must not forget: term and vote, and the log.
//
// Two stores implement raft.Storage: Bolt keeps everything in one bbolt file, and
// Memory keeps it in memory, for tests. Package storagetest tests that a store keeps the contract;
// run it on your own store.
package storage
