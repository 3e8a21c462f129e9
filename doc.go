// Package raft is the Raft algorithm as a deterministic value, and the interfaces between it and a disk, a
// network and an application. Package raft/node runs it. Most programs use that package, and of this one only
// the types that appear in its API.
//
// There are only a few types:
//
//   - [Core] is the algorithm: a value without clock, I/O or goroutines. [NewCore] makes it from a
//     [CoreConfig] and the [Stored] state. [Core.Step] takes events ([Event]) and returns an [Output]: messages to
//     send, a [Write] to make durable, how far to apply, when to step again.
//   - [FSM] is your application: it applies the same commands in the same order on every member.
//   - [Storage] keeps what a member must not forget; [Transport] moves messages. Packages storage and
//     transport have implementations of both.
//   - [Member] is one member as the cluster's [Configuration] names it, [Entry] one entry of the log.
//
// A whole program is in the README and in examples/embed; clusters for your own tests are in package
// rafttest.
//
// # Errors
//
// Errors sort by what the caller should do. *[NotLeaderError], [ErrOverloaded] and [ErrClosed]: the request was
// not applied; ask the leader, try later, or ask another member. [ErrOutcomeUnknown]: it may be applied, now or
// later; do not retry blindly. A context cancels the wait, not the entry. A node that has ended because of an
// error returns it: *[StorageError], *[FSMError], *[TransportError], *[InvariantError], or, if its store must not
// be used any longer, *[StaleImageError] or *[ContradictedError].
//
// # The core, for a loop of your own
//
// Package node is one loop around a Core. Of this package it uses only what is exported, so you can write another
// loop: for a simulator, or for many groups. The example of [Core.Step] is a complete loop, and states the rules
// that a loop must keep. What node shares with the simulator beyond that, such as merging writes and caching recent
// entries, is in internal/pipeline; a loop can do without. [Stored.Initialize] creates a group whose members are
// known beforehand. Until version 1.0 this part changes more often than package node.
//
// docs/architecture.md has the contract of Step and the map of files, docs/reading-order.md leads from the paper to the code, and
// docs/divergence.md says where they differ.
package raft
