package pipeline

import (
	"time"

	"github.com/coxswain/raft"
)

// shortenAgain is how long a member whose log has no room waits before it requests another snapshot, if little was written
// since the last request. After that time, there may be room for the snapshot.
const shortenAgain = raft.Time(5 * time.Second)

// Shorten decides when a member whose log has no room requests a snapshot, which shortens the log.
type Shorten struct {
	askedAt raft.Time // last request; 0: none yet
	written uint64    // bytes written before it
}

// Due reports whether to request a snapshot now. It does so if the disk is full and one of two conditions holds: at least
// some bytes were written since the last request, because the last snapshot may have covered too little; or shortenAgain has
// passed. written counts all bytes of entries ever written. The host does not call Due while a request is pending.
func (s *Shorten) Due(now raft.Time, full bool, written, some uint64) bool {
	if !full || s.askedAt > 0 && written-s.written < some && now < s.askedAt+shortenAgain {
		return false
	}
	s.askedAt, s.written = now, written
	return true
}
