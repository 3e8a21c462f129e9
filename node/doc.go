// Package node runs one member of a Raft cluster inside your process.
//
// There are only a few types:
//
//   - [Node] is one running member. [Start] makes it from a [Config], your [raft.FSM], a [raft.Storage] and a
//     [raft.Transport]; [Node.Propose] orders a command, [Node.ReadIndex] and [Node.Read] make a read
//     linearizable, [Node.Close] transfers leadership and stops.
//   - [Result] is the answer to a command.
//   - [Status] says all that a member knows in one value; [Metrics] counts.
//
// Package raft has the algorithm, the interfaces and the errors.
//
// # The map of rooms
//
//	node.go          the loop that owns a core and processes its outputs
//	client.go        the callers' side; requests.go, async.go: who waits for an answer; leadership.go: who leads
//	mailbox.go       where events wait for the loop
//	writer.go        the disk
//	sender.go        the network, one for each peer and lane
//	applier.go       the FSM; applied.go: who waits for an index; fsmcall.go: which call of it is running; read.go: functions
//	                 that run between its calls
//	handler.go       what the transport calls: handshakes and messages
//	internal/pipeline: what writer and senders do: merged writes, the log cache, joined and filled appends
//	identity.go      who this member is, and whom it has met
//	guard.go         panics of logger and transport; late.go: a loop that woke late; verdict.go: what ends a node
//	status.go        one value that says it all; statusjson.go: as JSON; metrics.go: counters; history.go, dump.go: the latest trace events
//	config.go        what can be tuned; slog.go: a logger of log/slog
package node
