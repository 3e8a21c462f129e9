package pipeline

import "github.com/coxswain/raft"

// What a snapshot leaves free at least and at most, in bytes, unless the configuration says otherwise. A longer log only
// needs the snapshot more, which makes it shorter; and the free space is measured again while the snapshot is written.
const (
	reserveBytesMin = 1 << 20
	reserveBytesMax = 64 << 20
)

// Space is the room on the disk of a member, in bytes. A snapshot never takes the reserve, so that the log can go on.
type Space struct {
	Free    int64
	Reserve int64
}

// Reserve returns what a snapshot must leave free: as much as is configured or, without that, as much as the log takes,
// within bounds. A log that takes its room in advance, as that of a raft.RoomStorage, needs no more than the least: if it gets
// no more, it is the snapshot that helps.
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

// Begin returns a *raft.SpaceError if a snapshot of that size should not be begun. Of an unknown size (-1) it expects a
// quarter more than the last one had.
func (s Space) Begin(size, last int64) error {
	if size < 0 {
		size = last + last/4
	}
	return s.Left(size)
}

// Left returns a *raft.SpaceError if more bytes would take the reserve.
func (s Space) Left(more int64) error {
	if s.Room() < more {
		return &raft.SpaceError{Need: more, Free: s.Free, Reserve: s.Reserve}
	}
	return nil
}
