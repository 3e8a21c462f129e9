// Package storage keeps what a member of a cluster must not forget: term and vote, and the log.
//
// There are two stores, and both implement raft.Storage: Bolt keeps everything in one bbolt file, and
// Memory keeps it in memory, for tests. Package storagetest proves that a store keeps the contract;
// run it on your own.
package storage
