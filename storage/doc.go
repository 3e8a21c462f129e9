// Package storage keeps what a member of a cluster must not forget: term and vote, the log, and snapshots.
//
// Open opens a store on the disk. Three stores implement raft.SnapshotStorage:
//   - Log keeps the log in segments, the rest in a bbolt file, and each snapshot in a separate file.
//   - Bolt keeps the log in the bbolt file as well.
//   - Memory keeps everything in memory, for tests.
//
// Package storagetest tests that a store keeps the contract; run it on your own store.
package storage
