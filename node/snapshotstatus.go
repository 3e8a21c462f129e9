package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// SnapshotStatus describes the snapshots of a node.
type SnapshotStatus struct {
	Last  raft.EntryID  // last entry that the newest snapshot covers, or that a DurableFSM has synced; zero: none
	Bytes int64         // size of the newest snapshot; 0: there is none
	At    time.Time     // when it was completed; zero: it was received, or taken before this start
	Took  time.Duration // time to take it
	// The next four fields show the progress of a snapshot: one that this member takes, one that a leader sends to this
	// member, one from which this member's FSM is restored, and one that this member sends. Each is nil if there is no such
	// snapshot.
	Taking    *Transfer
	Receiving *Transfer
	Restoring *Transfer
	Sending   *Transfer
	// Err says why the last attempt to take a snapshot failed. It is nil if the attempt did not fail, or if the newest
	// snapshot covers as much. The node tries again by itself.
	Err error
	// SendErr says why the last snapshot that this member sent did not arrive. ReceiveErr says why the last snapshot that a
	// leader sent to this member did not arrive. Each is a *SnapshotStreamError, or nil if the snapshot arrived. Leaders try
	// again by themselves.
	SendErr, ReceiveErr error
	// Unsupported says in one sentence why this member takes no snapshots, so that its log only grows. It is "" if this
	// member takes snapshots.
	Unsupported string
}

// Transfer is the progress of a snapshot that is written, sent, received or restored.
type Transfer struct {
	ID    raft.EntryID // last entry that the snapshot covers
	Peer  raft.NodeID  // member that sends or receives it; "": it stays on this member
	Done  int64        // bytes done
	Total int64        // bytes in all; -1: not known
	Since time.Duration
	// Left is the predicted time left at the present rate, at most 24 h. It is 0 if it is not known.
	Left time.Duration

	from   int64     // bytes done when this attempt began to count
	fromAt raft.Time // when it began to count; 0: not yet
}

// String returns the progress: "412 of 1024 KiB, 12s left".
func (t *Transfer) String() string {
	if t.Total < 0 {
		return fmt.Sprintf("%d KiB", t.Done>>10)
	}
	return fmt.Sprintf("%d of %d KiB", t.Done>>10, t.Total>>10) + leftText(t.Left)
}

// predict fills in Left if the transfer has been measured for at least rateAfter.
func (t *Transfer) predict(counted time.Duration) *Transfer {
	if moved := t.Done - t.from; moved > 0 && t.Total >= t.Done && counted >= rateAfter {
		left := float64(t.Total-t.Done) / float64(moved) * counted.Seconds()
		t.Left = time.Duration(min(left, leftMax.Seconds()) * float64(time.Second))
	}
	return t
}

// follow returns the transfer with the point at which its measurement began. If before belongs to the same attempt, follow
// keeps the point from before.
func (t *Transfer) follow(before *Transfer, now raft.Time) *Transfer {
	switch {
	case before != nil && before.fromAt > 0 && before.ID == t.ID && before.Peer == t.Peer && before.from <= t.Done:
		t.from, t.fromAt = before.from, before.fromAt
	case t.Done > 0:
		t.from, t.fromAt = t.Done, now
	}
	return t
}

func (n *Node) snapshotStatus(core raft.CoreStatus) SnapshotStatus {
	s := SnapshotStatus{Last: core.Snapshot, Bytes: core.SnapshotBytes}
	if n.files == nil {
		s.Unsupported = n.unsupported()
		return s
	}
	if r := n.restoring.Load(); r != nil {
		s.Restoring = &Transfer{ID: r.ID, Done: r.read.Load(), Total: r.Size, Since: time.Since(r.began)}
		s.Restoring.predict(s.Restoring.Since)
	}
	s.Receiving = n.transfer(&n.receiver.progress, &n.receiver.began)
	s.Sending = n.transfer(&n.streamer.progress, &n.streamer.began)
	s.Err, s.SendErr, s.ReceiveErr = n.taker.trouble.get(), n.streamer.trouble.get(), n.receiver.trouble.get()
	var failed *SnapshotError
	if errors.As(s.Err, &failed) && failed.ID.Index <= s.Last.Index && !n.applier.durable() {
		s.Err = nil // a leader's snapshot has replaced it. The snapshots of a DurableFSM are only sent, so its error stays
	}
	k := n.taker
	k.mu.Lock()
	defer k.mu.Unlock()
	s.At, s.Took = k.last.at, k.last.took
	if t := k.taking; t != nil && !t.Hold {
		s.Taking = &Transfer{ID: t.ID, Done: t.written.Load(), Total: t.size.Load(), Since: time.Since(t.began)}
		s.Taking.predict(s.Taking.Since)
	}
	return s
}

// unsupported returns SnapshotStatus.Unsupported.
func (n *Node) unsupported() string {
	if n.files != nil {
		return ""
	}
	return "the log is never compacted, and a restart replays all of it: the storage keeps no snapshots, because it does not implement SnapshotStorage"
}

// warnUnsupported logs a warning if the log of this member only grows. The warning gives the reason.
func (n *Node) warnUnsupported() {
	if why := n.unsupported(); why != "" {
		n.logger.log(hclog.Warn, why)
	}
}

func (n *Node) transfer(progress *atomic.Pointer[Transfer], began *atomic.Int64) *Transfer {
	p := progress.Load()
	if p == nil {
		return nil
	}
	t, now := *p, n.now().Mono
	t.Since = time.Duration(int64(now) - began.Load())
	if t.fromAt == 0 {
		return &t
	}
	return t.predict(time.Duration(now - t.fromAt))
}

// snapshotJSON is SnapshotStatus in the form of Status.MarshalJSON.
type snapshotJSON struct {
	Last        string    `json:"last"`
	Bytes       int64     `json:"bytes"`
	At          string    `json:"at"` // empty: it was received, or taken before this start
	Took        string    `json:"took"`
	Taking      *Transfer `json:"taking"`
	Receiving   *Transfer `json:"receiving"`
	Restoring   *Transfer `json:"restoring"`
	Sending     *Transfer `json:"sending"`
	Err         string    `json:"error"`
	SendErr     string    `json:"send_error"`
	ReceiveErr  string    `json:"receive_error"`
	Unsupported string    `json:"unsupported"`
}

type transferJSON struct {
	ID    string `json:"entry"`
	Peer  string `json:"peer"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Since string `json:"since"`
	Left  string `json:"left"` // "0s": not known
}

// MarshalJSON writes the status in the form of Status.MarshalJSON.
func (s SnapshotStatus) MarshalJSON() ([]byte, error) {
	out := snapshotJSON{
		Last: s.Last.String(), Bytes: s.Bytes, Took: s.Took.String(), Taking: s.Taking, Receiving: s.Receiving,
		Restoring: s.Restoring, Sending: s.Sending,
		Err: textOf(s.Err), SendErr: textOf(s.SendErr), ReceiveErr: textOf(s.ReceiveErr), Unsupported: s.Unsupported,
	}
	if !s.At.IsZero() {
		out.At = s.At.UTC().Format(time.RFC3339Nano)
	}
	return json.Marshal(out)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// MarshalJSON writes the transfer in the form of Status.MarshalJSON.
func (t Transfer) MarshalJSON() ([]byte, error) {
	return json.Marshal(transferJSON{t.ID.String(), string(t.Peer), t.Done, t.Total, t.Since.String(), t.Left.String()})
}
