// Package pipeline is what stands between a core and its disk and network: which writes a disk makes as one, the
// recent entries, and how appends are joined and filled with entries. It has no goroutine and knows no clock: the
// node and the simulator run the same code around it, so that seeds test it.
//
//	merge.go    which writes are made as one
//	cache.go    the recent entries
//	log.go      the log, of cache and storage; the appends that leave
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
