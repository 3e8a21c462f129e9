// Package pipeline connects a core to its disk and its network. It merges writes, caches recent entries, joins and fills
// appends, and streams snapshots. It also decides which peers to dial, and what to do while the disk is full. It has no
// goroutine and no clock. The node and the simulator run the same code, so the simulator's seeds test this code.
//
// docs/architecture.md has the map of its files.
package pipeline

import "github.com/coxswain/raft"

// RecordBytes returns the size of the entries' records.
func RecordBytes(entries []raft.Entry) int {
	n := raft.RecordOverheadBytes * len(entries)
	for i := range entries {
		n += len(entries[i].Data)
	}
	return n
}
