// Package node runs one member of a Raft cluster inside your process, on a store and a transport of your choice. Package
// member does the same with one call.
//
// # What most programs need
//
//   - [Start] makes a [Node], one running member, from a [Config], your [raft.FSM], a [raft.Storage] and a
//     [raft.Transport]. [Node.Ready] waits until the member can serve, and [Node.Close] transfers leadership and ends it.
//   - [Node.Propose] appends a command to the log, and returns its [Result] once it is applied. [Node.ReadIndex] and
//     [Node.Read] make a read linearizable.
//   - [Node.Leader] and [Node.WaitLeader] say who leads. Only the leader appends proposals. With Config.Forward, every other
//     member sends them to the leader; without it, they fail there with a *[NotLeaderError], which names the leader if it is
//     known.
//   - [Node.AddMember], [Node.RemoveMember] and [Node.ReplaceMember] change the [Members]; [ChangeOptions] are the
//     conditions of a change.
//   - [Node.Status] returns a [Status], which explains in sentences what is wrong and what to do. [Node.Metrics] returns
//     the counters; package metrics exports them to Prometheus.
//
// Errors sort by what the caller should do. The request was not applied, so ask the leader: *[NotLeaderError]. It was not
// applied, so try again later: raft.ErrOverloaded, also as *[DiskStalledError],
// *[FSMHangsError] or *raft.NoRoomError. It may be applied, so
// do not retry blindly: [ErrOutcomeUnknown]. Those of a forwarded request may also be *[RemoteError], *[NotMemberError],
// *[RemoteChangesError], *[ForwardLimitError] or *[AnswerTooLargeError]. The disk of this member was emptied, so replace it: [ErrWiped]. The FSM called
// a method that waits for the FSM: [ErrWithinFSM].
//
// These end the node, or refuse its start: *[StorageError], *[FSMError], *[TransportError], and errors of package raft.
// [Node.Done] is closed then, and [Node.Err] says why.
//
// # What some programs need
//
//   - [Node.SetLimits] changes the limits while the node runs. [Node.Bootstrap] gives a member its list of initial members
//     after Start.
//   - [Node.ProposeAsync] proposes without waiting, [Node.Barrier] and [Node.WaitApplied] wait for entries, and
//     [Node.TransferLeadership] transfers leadership. [Node.Watch] yields each change of leader, and [Node.WatchMembers]
//     each change of members.
//   - [Node.ChangeMembers] changes several members at once; [Node.AddLearner], [Node.DemoteMember] and
//     [Node.UpdateMember] change one, and [Node.CancelChange] gives a change up.
//   - [Node.Snapshot] takes a snapshot now. The node takes snapshots by itself, so most programs do not call it.
//   - [Node.WriteTrace] writes the latest decisions of a member for the analysis of a failure.
//   - [Slog] adapts a slog.Logger to Config.Logger, and [Release] returns the release of this library.
//
// Package raft has the algorithm, the interfaces, and the errors that are not only the node's. docs/architecture.md has the
// map of files.
package node
