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

// SnapshotStatus is what a node knows of its snapshots.
type SnapshotStatus struct {
	Last  raft.EntryID  // the last entry that the newest one covers, or that a DurableFSM has synced; zero: none
	Bytes int64         // of the newest one; 0: there is none
	At    time.Time     // when it was complete; zero: it was received, or taken before this start
	Took  time.Duration // to take it
	// Taking, Receiving, Restoring and Sending say how far a snapshot is that is being taken, that a leader sends to this
	// member, that the FSM is becoming, or that this member sends; nil: none.
	Taking    *Transfer
	Receiving *Transfer
	Restoring *Transfer
	Sending   *Transfer
	// Err is why the last attempt to take one failed; nil if it did not, or if the newest one covers as much. The node tries
	// again by itself.
	Err error
	// SendErr and ReceiveErr are a *SnapshotStreamError each: why the last one that this member sent did not arrive at the
	// other, and why the last one that a leader sent did not arrive here; nil if it did. Leaders try again by themselves.
	SendErr, ReceiveErr error
	// Unsupported says in one sentence why this member takes no snapshots, so that its log only grows; "" if it takes them.
	Unsupported string
}

// Transfer says how far the bytes of a snapshot are.
type Transfer struct {
	ID    raft.EntryID // the last entry that the snapshot covers
	Peer  raft.NodeID  // that sends or receives it; "" if it does not leave this member
	Done  int64        // bytes
	Total int64        // bytes; -1: not known
	Since time.Duration
	// Left is how long it takes at its present rate, at most CatchUpLeftMax; 0: not known.
	Left time.Duration

	from   int64     // bytes that were there when the first ones of this attempt were counted
	fromAt raft.Time // when that was; 0: none have come yet
}

// String returns how far it is: "412 of 1024 KiB, 12s left".
func (t *Transfer) String() string {
	if t.Total < 0 {
		return fmt.Sprintf("%d KiB", t.Done>>10)
	}
	return fmt.Sprintf("%d of %d KiB", t.Done>>10, t.Total>>10) + leftText(t.Left)
}

// predict fills in Left, if bytes were counted for long enough to know a rate.
func (t *Transfer) predict(counted time.Duration) *Transfer {
	if moved := t.Done - t.from; moved > 0 && t.Total >= t.Done && counted >= rateAfter {
		left := float64(t.Total-t.Done) / float64(moved) * counted.Seconds()
		t.Left = time.Duration(min(left, CatchUpLeftMax.Seconds()) * float64(time.Second))
	}
	return t
}

// follow returns the transfer with the beginning of the count from the one that was published before, or with its own.
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
		s.Err = nil // a leader's snapshot has replaced it. A DurableFSM takes them to be sent, and has none itself
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

// unsupported returns why this member takes no snapshots, as a sentence; "" if it takes them.
func (n *Node) unsupported() string {
	if n.files != nil {
		return ""
	}
	return "the log is never compacted, and a restart replays all of it: the storage keeps no snapshots, because it does not implement SnapshotStorage"
}

// warnUnsupported logs at the start why the log of this member only grows.
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

// MarshalJSON writes it in the form of Status.MarshalJSON.
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

// MarshalJSON writes it in the form of Status.MarshalJSON.
func (t Transfer) MarshalJSON() ([]byte, error) {
	return json.Marshal(transferJSON{t.ID.String(), string(t.Peer), t.Done, t.Total, t.Since.String(), t.Left.String()})
}
