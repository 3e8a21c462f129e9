// Package node runs one member of a Raft cluster inside your process.
//
// There are only a few types:
//
//   - [Node] is one running member. [Start] makes it from a [Config], your [raft.FSM], a [raft.Storage] and a
//     [raft.Transport]; [Node.Propose] orders a command, [Node.ReadIndex] and [Node.Read] make a read
//     linearizable, [Node.Close] transfers leadership and stops.
//   - [Result] is the answer to a command.
//   - [Status] holds everything that a member knows; [Metrics] holds its counters.
//
// Package raft has the algorithm, the interfaces and the errors.
//
// # The map of files
//
//	node.go          the loop that owns a core and processes its outputs; close.go: Close
//	client.go        the blocking calls; requests.go, async.go: the table of pending calls; leadership.go: who leads
//	mailbox.go       where events wait for the loop
//	writer.go        the disk
//	sender.go        the network, one for each peer and lane
//	applier.go       the FSM; applied.go: callers that wait for an index; fsmcall.go: the running call of the FSM; read.go:
//	                 functions that run between its calls
//	room.go          a full disk: proposals are refused, and leadership is handed over
//	snapshot.go      taking snapshots, space.go: the room and the rate for it; restore.go: becoming one; streams.go,
//	                 receive.go: sending and receiving them; held.go: the frozen state of a DurableFSM;
//	                 snapshotstatus.go: how far they are; trouble.go: why one did not arrive
//	handler.go       what the transport calls: handshakes and messages
//	internal/pipeline: merging of writes, the log cache, joining and filling of appends
//	queue.go         what waits for a goroutine; signal.go: how it is woken; watched.go: a value for which several wait
//	identity.go      who this member is, and whom it has met
//	guard.go         panics of logger, transport and storage; late.go: a loop that woke late; marks.go: marks, which end a node
//	status.go        Status; verdict.go: what may be wrong with a member, and who counts; majority.go: so many disks are lost that
//	                 no command helps; statusjson.go: its JSON; metrics.go: counters; history.go, dump.go: the latest trace events
//	config.go        the settings; slog.go: an adapter for log/slog
package node
