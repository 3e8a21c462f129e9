// Package raft is the Raft algorithm as a deterministic value, and the interfaces between it and a disk, a network and an
// application. Package raft/member runs it, with package raft/node.
//
// # For programs
//
// Most programs start a member.Member, and of this package need only these types:
//
//   - [FSM] is your application: it applies the same commands in the same order on every member. A [DurableFSM] keeps its
//     own state on disk. Commands come as [Entry], and an [FSMSnapshot] is the frozen state.
//   - [Storage] keeps what a member must not forget, and [Transport] moves messages. Packages storage and transport have
//     implementations of both.
//   - [Configuration] lists each [Member] of the cluster; [NodeID], [Incarnation], [Peer], [ClusterID] and [MemberKind] name
//     them, and [Removal] those that have left. [Change] changes it, with [Update], [Replacement] and [NextRole].
//   - [Limits] bound what a member keeps and sends. [Index], [Term] and [EntryID] name places in the log, and [Leadership]
//     says who leads.
//
// Errors sort by what the caller should do. The request was not applied: ask the leader (*node.NotLeaderError), try later
// ([ErrOverloaded]), ask another member ([ErrClosed]), or propose less at once (*[TooLargeError]). It may be applied, now or
// later, so do not retry blindly: node.ErrOutcomeUnknown. A context cancels the wait, not the entry.
//
// The members were not changed: *[ConfigChangedError], *[ChangePendingError], *[UnknownMemberError], *[MemberExistsError],
// *[AddressInUseError], *[LastVoterError], *[NotElectableError], *[QuorumLossError], *[NotEmptyError], *[WasRemovedError] and
// *[EarlierReleaseError]. They were changed in part: [ErrChangeGivenUp], with a *[CatchUpError].
//
// A member cannot start or has ended: *[ConfigError], *[IdentityError], *[CorruptError], *[LaterVersionError],
// *[EarlierVersionError], [ErrLocked], [ErrRemoved]; *[AppliedBeyondLogError] and *[AppliedBelowBaseError] of a DurableFSM;
// *[StaleImageError] and *[ContradictedError] if its store must not be used any longer; *[InvariantError]. A peer was
// refused: [Rejection], with a [RejectReason]. Package node has the errors that only a node returns.
//
// A whole program is in examples/embed. Package rafttest tests your state machine under simulated faults, and makes clusters
// in memory for your own tests.
//
// # For a loop of your own
//
// Package node is one loop around a [Core]. Of this package it uses only what is exported, so you can write another loop:
// for a simulator, or for many groups. [NewCore] makes a core from a [CoreConfig] and the [Stored] state. [Core.Step] takes
// events ([Event]) and returns an [Output]: messages to send, a [Write] to make durable, how far to apply, when to step
// again. The example of [Core.Step] is a complete loop. Package handshake decides which peers a member talks to;
// internal/pipeline merges writes and caches entries, which a loop can do without. Until version 1.0 this part changes more
// often than package node.
//
// docs/architecture.md has the contract of Step and the map of files, docs/reading-order.md leads from the paper to the
// code, and docs/divergence.md says where they differ.
package raft
