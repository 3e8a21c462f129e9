// Package pipeline is what stands between a core and its disk and network, without goroutines: which writes
// a disk makes as one. The node and the simulator run the same code, so that seeds test it.
package pipeline

import "github.com/coxswain/raft"

// RecordBytes is the size of the records of some entries.
func RecordBytes(entries []raft.Entry) int {
	n := raft.RecordOverheadBytes * len(entries)
	for i := range entries {
		n += len(entries[i].Data)
	}
	return n
}
