package node

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// become makes the applier restore the FSM from a snapshot before the applier does anything else. The loop calls become.
func (a *applier) become(s raft.Snapshot) {
	a.task(func(t *applierTasks) { t.restore = &s })
}

// abandon stops the applier until the FSM is restored. It also ends a snapshot of the old state. The loop calls abandon
// before a snapshot replaces the log, because from then on the log no longer holds the entries that are not applied yet.
func (a *applier) abandon() {
	a.task(func(t *applierTasks) { t.replaced, t.take = true, nil })
	a.node.taker.abandon()
}

// restoring is the running restoration, for Status.
type restoring struct {
	raft.Snapshot
	began time.Time
	read  atomic.Int64
}

// restore restores the FSM from a snapshot. The FSM must read the snapshot to its end. If restore fails, the node ends.
func (a *applier) restore(s raft.Snapshot) error {
	n := a.node
	if no := n.requests.noSessions; no != nil && s.Config.Sessions {
		return no
	}
	run := &restoring{Snapshot: s, began: time.Now()}
	n.restoring.Store(run)
	defer n.restoring.Store(nil)
	n.logger.log(hclog.Info, "the FSM is restored from a snapshot", "entry", s.ID.String(), "bytes", s.Size)
	ctx, cancel := n.context()
	defer cancel(nil)
	if err := a.restoreFrom(ctx, s, run); err != nil {
		return err
	}
	a.given = s.ID
	if err := a.syncTo(s.ID); err != nil {
		return err
	}
	a.atStart = false
	n.taker.restored(s.Size, a.durable())
	took := time.Since(run.began)
	n.counters.snapshots.restored.Add(1)
	n.counters.restoreSeconds.observe(int64(took))
	n.logger.log(hclog.Info, "the FSM was restored", "entry", s.ID.String(), "took", took)
	a.at = s.ID
	a.ahead = nil
	a.task(func(t *applierTasks) { t.restore, t.replaced = nil, false })
	n.applied.advance(a.at.Index)
	n.requests.unknown(a.at.Index)
	n.mailbox.appliedUpTo(a.at)
	return nil
}

func (a *applier) restoreFrom(ctx context.Context, s raft.Snapshot, run *restoring) (err error) {
	var from raft.SnapshotReader
	var size int64
	err = a.node.waitForDescriptor(func() error {
		return guarded(func() (err error) {
			if from, err = a.node.files.OpenSnapshot(s.File); err == nil {
				size = from.Size()
			}
			return err
		})
	})
	if err != nil {
		return &StorageError{Op: "open the snapshot", Err: err}
	}
	defer func() { _ = guarded(from.Close) }()
	r := &restoreReader{from: from, size: size, read: &run.read}
	err = a.call("Restore", s.ID, func() error {
		err := a.fsm.Restore(ctx, s.ID, r)
		return a.explain(firstError(r.err, err, r.unread()))
	})
	if err != nil && r.err != nil { // the FSM is not to blame
		return &StorageError{Op: "read the snapshot", Err: r.err}
	}
	return err
}

// descriptorEvery is the pause between two attempts to open a file while the process has no free file descriptor.
const descriptorEvery = 200 * time.Millisecond

// waitForDescriptor opens a snapshot. If the process has no free file descriptor, waitForDescriptor logs that once, and tries
// again until the node ends. Trying again helps because clients hold most descriptors, and close them sooner or later.
func (n *Node) waitForDescriptor(open func() error) error {
	for logged := false; ; logged = true {
		err := open()
		if !files.NoDescriptor(err) {
			return err
		}
		if !logged {
			n.logger.log(hclog.Warn, "a snapshot cannot be restored yet: "+files.DescriptorRemedy, "error", err)
		}
		select {
		case <-time.After(descriptorEvery):
		case <-n.stop:
			return err
		}
	}
}

// explain adds the remedy to err if Restore failed at a start. Without the remedy, Restore would most likely fail again at
// the next start.
func (a *applier) explain(err error) error {
	if err == nil || !a.atStart {
		return err
	}
	return fmt.Errorf("%w; the next start will most likely fail like this one: correct the state machine and start again, "+
		"or replace this member like one whose disk was lost", err)
}

// restoreReader reads a snapshot from its beginning to its end, and keeps the storage's error.
type restoreReader struct {
	from raft.SnapshotReader
	size int64
	at   int64
	read *atomic.Int64 // for Status
	err  error         // of the storage
}

func (r *restoreReader) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.at == r.size:
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.size-r.at)]
	err = guarded(func() (err error) { n, err = r.from.ReadAt(p, r.at); return err })
	r.at += int64(n)
	r.read.Store(r.at)
	if err == io.EOF && r.at == r.size {
		err = nil
	}
	r.err = err
	return n, err
}

// unread returns an error if the FSM has not read the whole snapshot.
func (r *restoreReader) unread() error {
	if r.at == r.size {
		return nil
	}
	return fmt.Errorf("it did not read the snapshot to its end: %d of %d bytes", r.at, r.size)
}
