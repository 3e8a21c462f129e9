package pipeline

// Shorten decides when a member whose log has no room to grow asks for a snapshot, which makes the log shorter.
type Shorten struct {
	asked bool  // since the log has had room
	least int64 // bytes that the log has taken since then, at the least
}

// Due reports whether to ask now: once the log has no room, and each time that it has grown by some bytes since. full is the
// error of raft.RoomStorage, log the size of the log. It is not called while an answer is waited for.
func (s *Shorten) Due(full error, log, grown int64) bool {
	if full == nil {
		*s = Shorten{}
		return false
	}
	if s.asked && log-s.least < grown {
		s.least = min(s.least, log)
		return false
	}
	s.asked, s.least = true, log
	return true
}
