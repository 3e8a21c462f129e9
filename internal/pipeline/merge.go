package pipeline

import "github.com/coxswain/raft"

// mergedBytesMax bounds the entries of one merged write, unless a single write is larger.
const mergedBytesMax = 8 << 20

// MergeWrites merges the first writes of the queue into one write, and returns how many it merged. The merged write has the
// effect of all of them in turn. MergeWrites stops before a later write with Mark, Hard, Snapshot or Base. So after a crash,
// the disk still holds a prefix of the writes in the order in which they were issued.
func MergeWrites(queue []raft.Write) (merged raft.Write, n int) {
	merged, n = queue[0], 1
	m := logMerger{log: merged.Log}
	then := len(merged.Then)
	for ; n < len(queue) && queue[n].Mark == nil && queue[n].Hard == nil && queue[n].Snapshot == nil &&
		queue[n].Base == nil && m.add(queue[n].Log); n++ {
		merged.Seq = queue[n].Seq
		merged.Commit = max(merged.Commit, queue[n].Commit)
		then += len(queue[n].Then)
	}
	merged.Log = m.log
	if n > 1 && then > 0 {
		merged.Then = make([]raft.Message, 0, then)
		for _, w := range queue[:n] {
			merged.Then = append(merged.Then, w.Then...)
		}
	}
	return merged, n
}

// logMerger merges log writes. It copies the entries once, at the second write.
type logMerger struct {
	log   *raft.LogWrite
	owned bool // the entries are the merger's own slice
	bytes int
}

// add merges the next write into the log. It returns false if the result would be too large. It also returns false if the
// write is neither an append at the end of the merged log nor a truncation within it.
func (m *logMerger) add(next *raft.LogWrite) bool {
	if next == nil {
		return true
	}
	if m.log == nil {
		m.log = next
		return true
	}
	keep, ok := m.position(next.After)
	if !ok || next.Reset {
		return false
	}
	if !m.owned {
		m.bytes = RecordBytes(m.log.Entries)
	}
	if m.bytes += RecordBytes(next.Entries); m.bytes > mergedBytesMax {
		return false
	}
	entries := m.log.Entries[:keep]
	if !m.owned {
		entries = m.log.Entries[:keep:keep]
	}
	m.log = &raft.LogWrite{After: m.log.After, Entries: append(entries, next.Entries...), Reset: m.log.Reset, Generation: next.Generation}
	m.owned = len(next.Entries) > 0 || m.owned
	return true
}

// position returns how many of the entries stay if the log is truncated after the entry after. It returns false if that entry
// is not in the log write.
func (m *logMerger) position(after raft.EntryID) (keep int, ok bool) {
	if after == m.log.After {
		return 0, true
	}
	if after.Index <= m.log.After.Index || after.Index > m.log.After.Index+raft.Index(len(m.log.Entries)) {
		return 0, false
	}
	keep = int(after.Index - m.log.After.Index)
	return keep, m.log.Entries[keep-1].ID() == after
}
