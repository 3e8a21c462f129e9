// Package raft keeps a small cluster of processes in agreement about the order of commands, by the
// Raft algorithm.
//
// There are only a few types. Of the node, which is all that most programs need:
//
//   - [Node] is one running member. [Start] makes it from a [Config], your [FSM], a [Storage] and a
//     [Transport]; [Node.Propose] orders a command, [Node.ReadIndex] makes a read linearizable,
//     [Node.Close] hands leadership over and stops.
//   - [FSM] is your application: it applies the same commands in the same order on every member.
//   - [Member] is one member as the cluster's [Configuration] names it.
//   - [Entry] is one entry of the log, [Result] the answer to a command.
//   - [Status] says all that a member knows in one value; [Metrics] counts.
//
// A whole program is in the README and in examples/embed. Stores are in package storage, transports in
// package transport, clusters for your own tests in package rafttest.
//
// # Errors
//
// They sort by what to do. *[NotLeaderError], [ErrOverloaded] and [ErrClosed]: not applied; ask the
// leader, wait, or go elsewhere. [ErrOutcomeUnknown]: it may be applied, now or later; do not retry
// blindly. A context cancels the wait, never the entry. A node that ended by itself says why in
// [Node.Err]: *[StorageError], *[FSMError], *[TransportError] or *[InvariantError], or that its store must not
// go on: *[StaleImageError], *[ContradictedError].
//
// # The core, for a loop of your own
//
// [Core] is the algorithm alone: a deterministic value without clock, I/O or goroutines. [NewCore] makes
// it from a [CoreConfig] and what was [Stored]; [Core.Step] takes each [Event] and returns an [Output]:
// messages to send, a [Write] to make durable, how far to apply, when to step again. The node is one
// loop around it and uses nothing that is not exported; a simulator, or many groups on one loop, can do
// the same. This part is advanced, and until version 1.0 it changes more often than the rest.
//
// # The map of rooms
//
// Of the core, one chapter of the paper a file:
//
//	raft.go          Core, Step, the rule for all servers, who becomes what
//	event.go         what can happen
//	output.go        what must be done, in order
//	message.go       the RPCs, in the paper's names
//	election.go      timeouts, pre-vote, votes, stickiness; attempts.go: elections where all is slow
//	append.go        a follower receives entries
//	replicate.go     a leader sends and counts
//	progress.go      probe and stream, for each follower
//	commit.go        the commit rule; quorum.go: majorities
//	log.go           which term wrote which index
//	disk.go          what is durable, and which message waits for it; marked.go: a store that must not go on
//	founding.go      how a cluster comes to be
//	read.go          linearizable reads
//	transfer.go      leadership transfer; stall.go: a leader whose disk stands still; clock.go: stamps
//	envelope.go      who a message is from, and whether it may raise the term
//	invariants.go    what must always hold; note.go: decisions as data
//
// Of the node:
//
//	node.go          the loop that owns a core and honours its outputs
//	client.go        the callers' side; requests.go: who waits for an answer
//	mailbox.go       where events wait for the loop
//	writer.go        the disk
//	sender.go        the network, one for each peer and lane
//	applier.go       the FSM; fsmcall.go: which call of it is running
//	tail.go          the recent entries, for senders and applier
//	handshake.go     the rules of whom a member talks to; refusal.go: why not; identity.go: who this member is
//	lineage.go       a store's starts; descent.go: how an older image of a disk is found out
//	guard.go         panics of logger and transport; late.go: a loop that woke late; verdict.go: what ends a node
//	status.go        one value that says it all; metrics.go: counters; history.go, dump.go: the latest notes
//
// Between both, entry.go, configuration.go, config.go, limits.go and errors.go; storage.go, transport.go and
// fsm.go are the interfaces that the node needs.
//
// docs/architecture.md has the contract between the two, docs/reading-order.md the way from the paper to
// the code, docs/divergence.md where they differ.
package raft
