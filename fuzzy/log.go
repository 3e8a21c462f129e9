package fuzzy

import (
	"encoding/binary"
	"slices"

	"github.com/coxswain/raft"
)

// slot is an entry and a hash of the log up to this entry. Equal hashes mean equal logs, so one comparison compares whole
// logs.
type slot struct {
	entry    *raft.Entry // shared by the logs of the node and of its disk, and never changed
	hash     uint64
	command  command       // of the entry; kept here because entries are scattered in memory
	config   *loggedConfig // in force from this entry on
	commands uint64        // number of commands up to it
	payload  uint64        // total bytes of their data
}

func (n *node) takeLog(l *raft.LogWrite) {
	sealed := make([]raft.Entry, len(l.Entries)) // a copy: the core's entries may be those of a message
	for i := range l.Entries {
		var err error
		if sealed[i], err = raft.DecodeEntry(l.Entries[i].Record()); err != nil {
			n.c.check.broken("N5", "%s: entry %v has no sound record: %v", n, l.Entries[i].ID(), err)
		}
	}
	l.Entries = sealed
	n.c.check.checkLogWrite(n, l)
	n.cache.Write(l)
	n.cache.Served(n.core.Served())
	cut := len(n.log) > int(l.After.Index)
	if l.Reset {
		n.log, n.vault.installed, n.vault.needless, n.vault.take = n.c.check.prefix(n, l.After), true, true, nil
	}
	n.log = n.c.check.lengthen(n, n.log, l)
	n.c.check.checkAppended(n, l)
	n.c.check.checkCache(n)
	if cut {
		n.c.check.checkReread(n)
	}
}

// lengthen applies a write to a log of a node. The checker has already found that the log holds the entry before the write.
func (k *checker) lengthen(n *node, log []slot, l *raft.LogWrite) []slot {
	log = log[:min(int(l.After.Index), len(log))]
	last := slot{}
	if len(log) > 0 {
		last = log[len(log)-1]
	}
	log = roomy(log, len(l.Entries))
	for i := range l.Entries {
		last.entry, last.hash = &l.Entries[i], hashEntry(last.hash, &l.Entries[i])
		last.command = commandOf(last.entry)
		if isCommand(last.entry) {
			last.commands++
			last.payload += uint64(len(last.entry.Data))
			k.checkSessionAllowed(n, last.entry, last.config)
		} else {
			last.config = k.logged(n, last.entry, last.hash, last.config)
		}
		log = append(log, last)
	}
	return log
}

// roomy returns a list with room for more elements. It doubles the capacity. append would grow a long list by only a
// quarter, so that copying would take most of the time spent on logs.
func roomy[T any](list []T, more int) []T {
	if len(list)+more > cap(list) {
		return slices.Grow(list, max(len(list), more))
	}
	return list
}

// hashEntry returns the hash of a log with a new last entry; before is the hash of the log without this entry. The checksum
// of the entry's record covers all of its contents.
func hashEntry(before uint64, e *raft.Entry) uint64 {
	r := e.Record()
	sum := binary.LittleEndian.Uint32(r[len(r)-4:])
	return mix(mix(before, uint64(e.Index)<<32|uint64(sum)), uint64(e.Term))
}

// at returns the hash of a log up to an index. It returns false if the log is shorter.
func at(log []slot, i raft.Index) (uint64, bool) {
	if i == 0 || int(i) > len(log) {
		return 0, i == 0
	}
	return log[i-1].hash, true
}
