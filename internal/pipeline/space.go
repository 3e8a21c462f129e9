package pipeline

import "github.com/coxswain/raft"

// Bounds of the number of bytes that a snapshot leaves free, unless the configuration sets that number. There is a maximum
// for two reasons. The longer the log is, the more it needs the snapshot. And the free space is measured again during the
// write of the snapshot.
const (
	reserveBytesMin = 1 << 20
	reserveBytesMax = 64 << 20
)

// Space is the room on the disk of a member, in bytes. A snapshot never takes the reserve, so that the log can grow.
type Space struct {
	Free    int64
	Reserve int64
}

// Reserve returns how many bytes a snapshot must leave free. This is the configured number or, if that is 0, the size of the
// log within bounds. ahead says that the log reserves its room in advance, like the log of a raft.RoomStorage. Such a log
// needs only the minimum: if it has no room, the snapshot makes room.
func Reserve(configured, log int64, ahead bool) int64 {
	if configured != 0 {
		return configured
	}
	if ahead {
		log = 0
	}
	return min(max(reserveBytesMin, log), reserveBytesMax)
}

// Room returns how many bytes a snapshot may take.
func (s Space) Room() int64 { return s.Free - s.Reserve }

// Begin returns a *raft.SpaceError if there is no room for a snapshot of that size. If the size is -1, it is not known. Then
// Begin assumes the size of the last snapshot plus a quarter.
func (s Space) Begin(size, last int64) error {
	if size < 0 {
		size = last + last/4
	}
	return s.Left(size)
}

// Left returns a *raft.SpaceError if so many more bytes would use a part of the reserve.
func (s Space) Left(more int64) error {
	if s.Room() < more {
		return &raft.SpaceError{Need: more, Free: s.Free, Reserve: s.Reserve}
	}
	return nil
}
