package raft

import "math"

// Limits bound what a member keeps and sends. node.Config and CoreConfig share them. A zero value means the default
// that the field documents.
type Limits struct {
	// CommandBytesMax bounds one command. Default 1 MiB, at most EntryDataBytesMax.
	CommandBytesMax int
	// ProposalsMax bounds the proposals and reads, each, that wait for an answer. Default 16,384.
	ProposalsMax int
	// ProposalBytesMax bounds the bytes of the proposals that wait for an answer: once they have reached it, new
	// proposals are refused. The last one may exceed it, so that a large command has the same chance as small
	// ones. Default 64 MiB.
	ProposalBytesMax int
	// UnappliedMax bounds the entries in the log that are not applied yet. Default 65,536.
	UnappliedMax int
	// AppendBytesMax bounds the entries of one append message, which carries at least one entry
	// whatever its size. Default 1 MiB.
	AppendBytesMax int
	// InflightMax bounds the append messages to one follower that are not answered yet. Default 256.
	InflightMax int
	// InflightBytesMax bounds the bytes of those appends; the last one may exceed it. Default 8 MiB.
	InflightBytesMax int
	// SnapshotEntries is after how many applied entries a snapshot is taken. Default 65,536.
	//
	// This limit and the next one say how often snapshots are taken; the two after them, how much of the log stays when one
	// is taken. In between the log grows. A snapshot that a member takes by itself shortens the log if that drops an eighth of
	// SnapshotEntries or of SnapshotLogBytes at least, since it costs a write. One that was asked for (Node.Snapshot, SnapshotRequested)
	// drops all but the tail and what followers need, however little that is.
	SnapshotEntries int
	// SnapshotLogBytes is after how many bytes of applied entries a snapshot is taken, if that is sooner; if the
	// last snapshot was larger, after as many bytes as it has. Default 64 MiB.
	SnapshotLogBytes int
	// SnapshotTailBytes is how many bytes of entries stay in the log when it is compacted, for followers that lag a
	// little. It is an estimate. A log that has fewer is not compacted, even on request. Default 16 MiB.
	SnapshotTailBytes int
	// SnapshotHoldBytes bounds the bytes of entries that a leader keeps beyond that for a follower that it hears,
	// because the follower needs them next. If the snapshot that is sent to the follower is larger, its size is the
	// bound until the follower has caught up; of a DurableFSM's frozen state, as much as the follower has of it. Default
	// 256 MiB.
	SnapshotHoldBytes int
}

// LimitBytesMax bounds every limit of bytes in memory. On 32-bit machines it is half of the largest int, so that no
// sum of two overflows.
const LimitBytesMax = min(1<<40, math.MaxInt/2)

func (l Limits) withDefaults() Limits {
	setDefault(&l.CommandBytesMax, 1<<20)
	setDefault(&l.ProposalsMax, 16<<10)
	setDefault(&l.ProposalBytesMax, 64<<20)
	setDefault(&l.UnappliedMax, 64<<10)
	setDefault(&l.AppendBytesMax, 1<<20)
	setDefault(&l.InflightMax, 256)
	setDefault(&l.InflightBytesMax, 8<<20)
	setDefault(&l.SnapshotEntries, 64<<10)
	setDefault(&l.SnapshotLogBytes, 64<<20)
	setDefault(&l.SnapshotTailBytes, 16<<20)
	setDefault(&l.SnapshotHoldBytes, 256<<20)
	return l
}
