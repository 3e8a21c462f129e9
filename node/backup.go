package node

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
)

// Backup writes a backup to w: the state of the FSM with everything that any member acknowledged before the call, and what
// restoring it needs. It returns the last entry that the backup covers. Every error means that what was written is no backup: it
// lacks its end, and cannot be restored.
//
// Any member can take a backup, one at a time: on a follower it costs the leader a read. It is written no faster than
// Config.SnapshotBytesPerSecond. A member whose FSM is not a DurableFSM first takes a snapshot, as Snapshot does, and copies its
// file. The state of a DurableFSM is frozen until w has taken it. Until then no state can be frozen for a member that lags too
// far, and that member waits: bound ctx, and do not back up to a slow w from the leader.
//
// Backup calls w on the caller's goroutine. ctx does not interrupt w.Write: give w a deadline if it may block. Nor does Close of
// the node wait for w.Write; Backup then fails with ErrClosed.
//
// The errors are those of w, of ctx, of ReadIndex and of Snapshot; ErrBackupRuns; a *SnapshotError if the FSM failed, or wrote
// nothing for Config.SnapshotStallMax; and a *StorageError if the snapshot cannot be read: take the backup from another member.
func (n *Node) Backup(ctx context.Context, w io.Writer) (raft.EntryID, error) {
	if n.withinFSM() {
		return raft.EntryID{}, ErrWithinFSM
	}
	if !n.backingUp.CompareAndSwap(false, true) {
		return raft.EntryID{}, ErrBackupRuns
	}
	began := time.Now()
	id, bytes, err := n.backup(ctx, w)
	if err != nil {
		n.counters.snapshots.backupsFailed.Add(1)
		return raft.EntryID{}, err
	}
	n.counters.snapshots.backedUp.Add(1)
	n.logger.log(hclog.Info, "a backup was taken", "entry", id.String(), "bytes", bytes, "took", time.Since(began))
	return id, nil
}

// backup passes what a backupRun writes on to w.
func (n *Node) backup(ctx context.Context, w io.Writer) (raft.EntryID, int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the run if w has failed
	from, to := io.Pipe()
	b := &backupRun{node: n, to: to}
	b.users.Store(2)
	defer b.release()
	defer func() { _ = from.Close() }() // also if w panics; never fails
	if n.spawn(func() { b.run(ctx) }) != nil {
		b.release()
		return raft.EntryID{}, 0, n.ended()
	}
	bytes, err := passOn(w, from)
	if err != nil {
		return raft.EntryID{}, 0, err
	}
	return b.id, bytes, nil
}

// passOn copies what it reads, but always keeps back the last piece. So w gets the end of a backup only after its io.EOF.
func passOn(w io.Writer, from io.Reader) (bytes int64, err error) {
	kept, next, length := make([]byte, pacedWriterBytes), make([]byte, pacedWriterBytes), 0
	for ended := false; !ended; {
		n, err := from.Read(next)
		if ended = err == io.EOF; err != nil && !ended {
			return bytes, err
		}
		if length > 0 {
			if _, err := w.Write(kept[:length]); err != nil {
				return bytes, err
			}
		}
		bytes += int64(length)
		kept, next, length = next, kept, n
	}
	return bytes, nil
}

// backupRun writes one backup into a pipe, on a goroutine that the end of the node waits for. So neither the FSM nor the storage
// is used once the node has ended, even if the caller's writer blocks.
type backupRun struct {
	node *Node
	to   *io.PipeWriter
	ctx  context.Context // of the caller, and of the node
	id   raft.EntryID    // last entry that the backup covers; set before the pipe ends

	users atomic.Int32 // of the pipe that have not left
}

// release is called by each user of the pipe when it leaves it. The next backup may begin after the last one.
func (b *backupRun) release() {
	if b.users.Add(-1) == 0 {
		b.node.backingUp.Store(false)
	}
}

func (b *backupRun) run(ctx context.Context) {
	var cancel context.CancelCauseFunc
	b.ctx, cancel = b.node.context()
	defer cancel(nil) // after the pipe has its error
	err := errGoexit
	defer func() { _ = b.to.CloseWithError(err) }() // never fails
	defer b.release()                               // before the caller can return
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	// The caller is not kept waiting while the FSM or the storage hangs.
	defer context.AfterFunc(b.ctx, func() { _ = b.to.CloseWithError(context.Cause(b.ctx)) })()
	failed := b.copyState()
	err = firstError(context.Cause(b.ctx), failed)
}

func (b *backupRun) copyState() error {
	if _, err := b.node.ReadIndex(b.ctx); err != nil {
		return err
	}
	if b.node.applier.durable() {
		return b.writeFrozen()
	}
	return b.writeFile()
}

// writeFile writes a backup of the newest snapshot file.
func (b *backupRun) writeFile() error {
	if _, err := b.node.Snapshot(b.ctx); err != nil {
		return err
	}
	s, from, err := b.open()
	if err != nil {
		return err
	}
	defer func() { _ = guarded(from.Close) }()
	return b.write(&taking{Take: raft.Take{Base: s.Base}, ctx: b.ctx}, s.Base, func(w *pacedWriter) error {
		if _, err := io.Copy(w, io.NewSectionReader(guardedReader{from}, 0, s.Size)); err != nil {
			return err
		}
		return w.flush()
	})
}

// open opens the file of the newest snapshot. If a newer one replaces that file before it is open, open takes the newer one. An
// open file can be read to its end.
func (b *backupRun) open() (s raft.Snapshot, from raft.SnapshotReader, err error) {
	for {
		var now raft.Snapshot
		if !b.node.inspect(func(c *raft.Core) { now = c.RecordedSnapshot() }) {
			return s, nil, raft.ErrClosed
		}
		if err != nil && now.File == s.File {
			return s, nil, &StorageError{Op: "open the snapshot", Err: err}
		}
		s = now
		err = b.node.waitForDescriptor(func() error {
			return guarded(func() (err error) { from, err = b.node.files.OpenSnapshot(s.File); return err })
		})
		if err == nil {
			return s, from, nil
		}
	}
}

// guardedReader reads a snapshot for a backup. Its errors are those of the storage.
type guardedReader struct{ from raft.SnapshotReader }

func (r guardedReader) ReadAt(p []byte, offset int64) (n int, err error) {
	err = guarded(func() (err error) { n, err = r.from.ReadAt(p, offset); return err })
	if err != nil && err != io.EOF {
		err = &StorageError{Op: "read the snapshot", Err: err}
	}
	return n, err
}

// backupState is a state of a DurableFSM that is frozen for a backup.
type backupState struct {
	*taking
	state raft.FSMSnapshot
	err   error         // why there is no state
	done  chan struct{} // closed once state or err is set
}

var errBackupRuns = errors.New("a backup of this member is being taken, which needs the frozen state")

// writeFrozen writes a backup of the state of a DurableFSM. If the log no longer describes the frozen state, because it was
// compacted or replaced meanwhile, writeFrozen begins again.
func (b *backupRun) writeFrozen() error {
	for {
		f, err := b.freeze()
		if err != nil {
			return err
		}
		if described, err := b.writeState(f); described || err != nil {
			return err
		}
	}
}

// freeze makes the applier freeze the state. It waits until no other state is frozen.
func (b *backupRun) freeze() (*backupState, error) {
	t := &taking{Take: raft.Take{Hold: true}, began: time.Now(), failed: errBackupRuns}
	t.ctx, t.cancel = context.WithCancelCause(b.ctx)
	f := &backupState{taking: t, err: errGoexit, done: make(chan struct{})}
	a := b.node.applier
	a.task(func(tasks *applierTasks) { tasks.freeze = f })
	select {
	case <-f.done:
		return f, f.err
	case <-b.ctx.Done():
	}
	withdrawn := false
	a.task(func(tasks *applierTasks) { withdrawn, tasks.freeze = tasks.freeze == f, nil })
	if !withdrawn {
		if <-f.done; f.err == nil {
			return f, nil // it must be closed
		}
	}
	return nil, context.Cause(b.ctx)
}

// freezeFor freezes the state for a backup. The taker is reserved.
func (a *applier) freezeFor(f *backupState) (err error) {
	wanted := false
	a.task(func(tasks *applierTasks) {
		if wanted = tasks.freeze == f; wanted {
			tasks.freeze = nil
		}
	})
	if !wanted { // it was withdrawn at this moment
		a.node.taker.free(f.taking)
		return nil
	}
	defer close(f.done)
	f.state, f.err, err = a.frozen(f.ID)
	if f.err != nil {
		a.node.taker.free(f.taking)
	}
	return err
}

// writeState writes a backup of a frozen state, and closes the state. It returns false if the log does not describe the state.
func (b *backupRun) writeState(f *backupState) (described bool, err error) {
	k := b.node.taker
	f.goroutine.Store(goroutineID())
	defer k.free(f.taking)
	defer k.closeFrozen(f.taking, f.state)
	var base raft.Base
	if !b.node.inspect(func(c *raft.Core) { base, described = c.BaseAt(f.ID) }) {
		return false, raft.ErrClosed
	}
	if !described {
		return false, nil
	}
	defer context.AfterFunc(f.ctx, func() { _ = b.to.CloseWithError(b.failed(f, nil)) })()
	f.size.Store(sizeOf(f.state))
	return true, b.write(f.taking, base, func(w *pacedWriter) error {
		limit := b.node.cfg.SnapshotStallMax
		stall := time.AfterFunc(limit, func() { f.cancel(&SnapshotStalledError{Limit: limit, Bytes: f.written.Load()}) })
		defer stall.Stop()
		w.moved, w.to = func() { stall.Reset(limit) }, untimed{w.to, stall}
		err := guarded(func() error { return f.state.WriteTo(f.ctx, w) })
		if err == nil {
			err = w.flush()
		}
		if err == nil && f.ctx.Err() == nil {
			return nil
		}
		return b.failed(f, err)
	})
}

// failed returns the error of a backup whose state could not be written.
func (b *backupRun) failed(f *backupState, err error) error {
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	return &SnapshotError{Op: "write", ID: f.ID, Err: firstError(context.Cause(f.ctx), err)}
}

// untimed stops the timer of the FSM while the caller's writer takes bytes. After that, the pacedWriter restarts it.
type untimed struct {
	io.Writer
	stall *time.Timer
}

func (u untimed) Write(p []byte) (int, error) {
	u.stall.Stop()
	return u.Writer.Write(p)
}

// write writes a backup. The given function writes the state into the pacedWriter, and flushes that.
func (b *backupRun) write(t *taking, base raft.Base, state func(*pacedWriter) error) error {
	n := b.node
	status := n.coreStatus()
	m, named := status.Config.Peer(n.identity.self)
	if !named {
		m = raft.Member{ID: n.identity.self.ID, Incarnation: n.identity.self.Incarnation}
	}
	to := bufio.NewWriterSize(b.to, pacedWriterBytes)
	w, err := backup.NewWriter(to, backup.Head{
		Name: n.cfg.Cluster, Cluster: base.Cluster, Member: m, Term: max(status.Term, base.ID.Term), AppVersion: n.cfg.AppVersion,
		At: time.Now(), Base: base,
	})
	if err != nil {
		return err
	}
	if err := state(newPacedWriter(t, n, w, nil)); err != nil {
		return err // without the end, so that nobody takes it for a backup
	}
	if err := w.Finish(); err != nil {
		return err
	}
	b.id = base.ID
	return to.Flush()
}
