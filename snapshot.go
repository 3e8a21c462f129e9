package raft

// requestSnapshot refuses, because this member takes no snapshots.
func (c *Core) requestSnapshot(t RequestID) {
	c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedUnsupported})
}

// onInstallSnapshot refuses an offer, because this member takes no snapshots.
func (c *Core) onInstallSnapshot(m Message, _ InstallSnapshot) {
	c.refuse(m, "this member takes no snapshots")
}

// The following events answer what this member never asks for.
func (c *Core) onSnapshotTaken(SnapshotTaken)     {}
func (c *Core) onSnapshotArrived(SnapshotArrived) {}
func (c *Core) onSnapshotSent(SnapshotSent)       {}
