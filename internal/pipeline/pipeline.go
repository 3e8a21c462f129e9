// Package pipeline connects a core to its disk and network: it merges writes, caches recent entries, joins and
// fills appends, streams snapshots, and decides whom to dial. It has no goroutine and no clock: the node and the simulator run the same code, so that seeds
// test it.
//
//	merge.go    merging of writes
//	cache.go    the recent entries
//	log.go      reading the log from cache and storage; joining and filling of appends
//	stream.go   how a snapshot is streamed; outgoing.go: its sender, incoming.go: its receiver
//	pace.go     how many bytes may leave per second
//	contacts.go whom a member dials, and where
//	handover.go a leader whose disk is full
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
