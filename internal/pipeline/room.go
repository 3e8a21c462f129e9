package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

// shortenAgain is how long a log without room waits for another snapshot if little was written since the last request.
// There may be room for the snapshot by then.
const shortenAgain = raft.Time(5 * time.Second)

// Shorten decides when a member whose log has no room requests a snapshot, which shortens the log.
type Shorten struct {
	askedAt raft.Time // last request; 0: none yet
	written uint64    // bytes written before it
}

// Due reports whether to request a snapshot now: the disk is full, and since the last request either some bytes were
// written, or shortenAgain has passed. The last snapshot may have covered too little. written counts all bytes of entries
// ever written. Due is not called while a request is pending.
func (s *Shorten) Due(now raft.Time, full bool, written, some uint64) bool {
	if !full || s.askedAt > 0 && written-s.written < some && now < s.askedAt+shortenAgain {
		return false
	}
	s.askedAt, s.written = now, written
	return true
}
