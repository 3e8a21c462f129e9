package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

// shortenAgain is after how long a log without room gets another snapshot, although little was written since: there may be room
// for the snapshot by then.
const shortenAgain = raft.Time(5 * time.Second)

// Shorten decides when a member whose log has no room to grow asks for a snapshot, which makes the log shorter.
type Shorten struct {
	askedAt raft.Time // 0: never
	written uint64    // bytes that had been written then
}

// Due reports whether to ask now: if the disk is full, and some bytes were written since a snapshot was asked for last, which
// may have covered too little, or that was long ago. written counts all bytes of entries that were ever written. It is not
// called while an answer is waited for.
func (s *Shorten) Due(now raft.Time, full bool, written, some uint64) bool {
	if !full || s.askedAt > 0 && written-s.written < some && now < s.askedAt+shortenAgain {
		return false
	}
	s.askedAt, s.written = now, written
	return true
}
