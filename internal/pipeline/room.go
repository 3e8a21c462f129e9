package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

const (
	// shortenBytes is by how much a log without room has grown, at most, before it gets another snapshot: much less than is left
	// of a segment when the next one turns out not to be possible.
	shortenBytes = 4 << 20
	// shortenAgain is after how long it gets another one, if it has not grown: there may be room for a snapshot by then.
	shortenAgain = raft.Time(30 * time.Second)
)

// Shorten decides when a member whose log has no room to grow asks for a snapshot, which makes the log shorter.
type Shorten struct {
	askedAt raft.Time // 0: never
	least   int64     // bytes that the log has taken since then, at the least
}

// Due reports whether to ask now: if the disk is full, and the log has grown since a snapshot was asked for last, or that was
// long ago. log is the size of the log. It is not called while an answer is waited for.
func (s *Shorten) Due(now raft.Time, full bool, log int64) bool {
	s.least = min(s.least, log)
	grown := log-s.least > min(shortenBytes, log/8)
	if !full || s.askedAt > 0 && !grown && now < s.askedAt+shortenAgain {
		return false
	}
	s.askedAt, s.least = now, log
	return true
}
