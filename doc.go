// Package raft is the Raft algorithm as a deterministic value, and the interfaces between it, a disk, a
// network and an application. Package raft/node runs it: most programs need that one, and of this one
// only the types that both speak of.
//
// There are only a few types:
//
//   - [Core] is the algorithm: a value without clock, I/O or goroutines. [NewCore] makes it from a
//     [CoreConfig] and what was [Stored]; [Core.Step] takes each [Event] and returns an [Output]: messages to
//     send, a [Write] to make durable, how far to apply, when to step again.
//   - [FSM] is your application: it applies the same commands in the same order on every member.
//   - [Storage] keeps what a member must not forget, [Transport] moves messages. Packages storage and
//     transport have some of each.
//   - [Member] is one member as the cluster's [Configuration] names it, [Entry] one entry of the log.
//
// A whole program is in the README and in examples/embed; clusters for your own tests are in package
// rafttest.
//
// # Errors
//
// They sort by what to do. *[NotLeaderError], [ErrOverloaded] and [ErrClosed]: not applied; ask the
// leader, wait, or go elsewhere. [ErrOutcomeUnknown]: it may be applied, now or later; do not retry
// blindly. A context cancels the wait, never the entry. A node that ended by itself says why:
// *[StorageError], *[FSMError], *[TransportError] or *[InvariantError], or that its store must not go on:
// *[StaleImageError], *[ContradictedError].
//
// # The core, for a loop of your own
//
// Package node is one loop around a Core and uses nothing that is not exported; a simulator, or many groups on
// one loop, can do the same. The example of [Core.Step] is a whole loop with the rules that it has to keep;
// [Stored.Initialize] begins a group whose members are known beforehand. Until version 1.0 this part changes more
// often than package node.
//
// # The map of rooms
//
// One chapter of the paper a file:
//
//	raft.go          Core, Step from beginning to end, deadlines, the rule for all servers, who becomes what
//	event.go         what can happen
//	output.go        what must be done, in order, and how a Step gathers it
//	message.go       the RPCs, in the paper's names
//	election.go      timeouts, pre-vote, votes, stickiness; attempts.go: elections where all is slow
//	follower.go      whom a member follows
//	append.go        a follower receives entries
//	leader.go        a leader's state and deadlines; propose.go: it takes commands
//	replicate.go     it sends entries and counts answers; heartbeat.go: heartbeats, rounds, check-quorum
//	progress.go      probe and stream, for each follower
//	commit.go        the commit rule; quorum.go: majorities
//	log.go           which term wrote which index, as storedlog.go keeps it; apply.go: what the FSM may apply
//	disk.go          what is durable; marked.go: a store that must not go on
//	bootstrap.go      how a cluster comes to be
//	answer.go        every request gets its answer; read.go: linearizable reads
//	transfer.go      leadership transfer; stall.go: a leader whose disk stands still; clock.go: stamps
//	envelope.go      who a message is from, and whether it may raise the term
//	handshake.go     the rules of whom a member talks to; refusal.go: why not
//	lineage.go       a store's starts; descent.go: how an older image of a disk is found out
//	invariants.go    what must always hold; trace.go: decisions as data
//
// Beside them, entry.go, configuration.go, coreconfig.go, limits.go, corestatus.go and errors.go; storage.go,
// transport.go and fsm.go are the interfaces.
//
// docs/architecture.md has the contract of Step, docs/reading-order.md the way from the paper to
// the code, docs/divergence.md where they differ.
package raft
