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
// that a loop must keep. Package handshake says which peers a member may talk to. What node shares with the simulator beyond that, such as merging writes and caching recent
// entries, is in internal/pipeline; a loop can do without. [Stored.Initialize] creates a group whose members are
// known beforehand. Until version 1.0 this part changes more often than package node.
//
// # The map of files
//
// Each file is one chapter of the paper:
//
//	raft.go          Core, Step from beginning to end, deadlines, the rule for all servers, changes of role
//	event.go         what can happen
//	output.go        what must be done, in order, and how a Step gathers it
//	message.go       the RPCs, in the paper's names
//	election.go      timeouts, pre-vote, votes, stickiness; attempts.go: elections with slow disks and links
//	follower.go      whom a member follows
//	append.go        a follower receives entries
//	leader.go        a leader's state and deadlines; propose.go: it takes commands
//	replicate.go     it sends entries and counts answers; heartbeat.go: heartbeats, rounds, check-quorum
//	progress.go      what a leader knows about each follower: probe, replicate, snapshot, stale
//	commit.go        the commit rule; quorum.go: majorities
//	membership.go    which configuration is in force
//	change.go        a change of the members; joint.go: which configuration follows another one
//	log.go           which term wrote which index, as storedlog.go keeps it; apply.go: what the FSM may apply
//	base.go          how a log begins that is no longer whole, and what a snapshot is
//	compact.go       when a snapshot is taken, and what is compacted; snapshot.go: a leader sends one to a follower
//	disk.go          what is durable; marked.go: a store that must not go on
//	bootstrap.go     the bootstrap of a cluster
//	answer.go        every request gets its answer; read.go: linearizable reads
//	transfer.go      leadership transfer; stall.go: a leader with a stalled disk; clock.go: the stamps of entries
//	envelope.go      who a message is from, and whether it may raise the term
//	hello.go         what members say to each other first, and why one rejects another; lineage.go: a store's starts
//	start.go         what a member can start from
//	invariants.go    what must always hold; trace.go: decisions as data
//
// The others are entry.go, configuration.go, configentry.go, coreconfig.go, limits.go, corestatus.go and errors.go;
// storage.go, transport.go and fsm.go declare the interfaces.
//
// docs/architecture.md has the contract of Step, docs/reading-order.md leads from the paper to the code, and
// docs/divergence.md says where they differ.
package raft
