package node

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// Snapshot takes a snapshot of everything that this member has applied, unless a recorded snapshot already covers it. Once
// the newest snapshot is durable, Snapshot returns the last entry that the snapshot covers. Snapshot also drops the covered
// entries from the log, except the newest Limits.SnapshotTailBytes and, on a leader, the entries that followers need next
// (Limits.SnapshotHoldBytes). No program needs to call Snapshot: the node takes snapshots by itself (see Config.Limits). Any
// member can take a snapshot. ctx ends only the wait.
//
// It fails with ErrSnapshotUnsupported if the storage is not a SnapshotStorage. Other errors are *SnapshotError (the snapshot
// was not taken), ErrOverloaded, ErrWithinFSM, ErrClosed, ErrWiped and ctx.Err().
func (n *Node) Snapshot(ctx context.Context) (raft.EntryID, error) {
	if n.withinFSM() {
		return raft.EntryID{}, ErrWithinFSM
	}
	if err := n.usable(ctx); err != nil {
		return raft.EntryID{}, err
	}
	req, err := n.requests.snapshot()
	if err != nil {
		return raft.EntryID{}, err
	}
	o := n.requests.wait(ctx, req)
	return raft.EntryID{Term: o.result.Term, Index: o.result.Index}, o.err
}

// keepSnapshots carries out the parts of an Output that concern snapshots. The exception is Keep.Stop, because process has
// already carried it out.
func (n *Node) keepSnapshots(out raft.Output) {
	if out.Restore != nil {
		n.counters.committed.Store(uint64(out.Restore.ID.Index))
		n.applier.become(*out.Restore)
	}
	keep := out.Keep
	if keep == nil {
		return
	}
	n.taker.release(keep.Discard)
	n.receiver.discard(keep.Discard)
	if keep.Receive != nil {
		n.receiver.receive(*keep.Receive)
	}
	if keep.Take != nil {
		n.applier.task(func(t *applierTasks) { t.take = keep.Take })
	}
}

// withinFSM reports whether the caller is in a call of the FSM, in a function of Read, or in a method of a frozen state.
func (n *Node) withinFSM() bool { return n.fsmCalls.within() || n.taker.within() }

// take freezes the state at the entry of the take. Then the taker writes the state while the applier continues. If
// FSM.Snapshot returns an error, the node does not end, because the state is intact.
func (a *applier) take(t raft.Take) error {
	if a.at != t.ID {
		return &raft.InvariantError{Rule: "a snapshot is taken at the entry that the core named",
			State: fmt.Sprintf("named %v, applied %v", t.ID, a.at)}
	}
	a.task(func(tasks *applierTasks) {
		if tasks.take != nil && tasks.take.ID == t.ID {
			tasks.take = nil
		}
	})
	if t.Sync {
		return a.takeBySync(t)
	}
	k := a.node.taker
	run, err := k.begin(t)
	if err != nil {
		k.report(raft.SnapshotTaken{Take: t.ID, Err: err})
		return nil
	}
	frozen, refused, err := a.frozen(t.ID)
	if refused != nil {
		k.end(run, raft.SnapshotTaken{Take: t.ID, Err: refused})
		return err
	}
	if t.Hold {
		k.hold(run, frozen)
		return nil
	}
	a.node.wg.Go(func() { k.run(run, frozen) })
	return nil
}

// frozen freezes the state, which is that of the entry id. If it returns no state, refused says why. Then err is nil, unless the
// state may no longer be intact.
func (a *applier) frozen(id raft.EntryID) (frozen raft.FSMSnapshot, refused, err error) {
	began := time.Now()
	err = a.call("Snapshot", id, func() error {
		frozen, refused = a.fsm.Snapshot()
		return nil
	})
	if err == nil && refused == nil && frozen == nil {
		refused = errors.New("Snapshot returned nil")
	}
	if err != nil || refused != nil {
		return nil, &SnapshotError{Op: "freeze", ID: id, Err: firstError(err, refused)}, err
	}
	a.node.counters.freezeSeconds.observe(int64(time.Since(began)))
	return frozen, nil, nil
}

// takeBySync syncs a DurableFSM instead of taking a snapshot. After that, the log is no longer needed up to the entry that
// the FSM reports.
func (a *applier) takeBySync(t raft.Take) error {
	began := time.Now()
	if err := a.syncTo(t.ID); err != nil {
		return err
	}
	a.node.counters.freezeSeconds.observe(int64(time.Since(began)))
	a.node.taker.synced(t, a.given, time.Since(began))
	return nil
}

// synced records that a DurableFSM has synced up to an entry, and reports that to the core.
func (k *taker) synced(t raft.Take, upTo raft.EntryID, took time.Duration) {
	k.mu.Lock()
	k.last = snapshotRecord{at: time.Now(), took: took}
	k.mu.Unlock()
	k.node.counters.snapshots.taken.Add(1)
	s := raft.Snapshot{Base: t.Base}
	s.ID = upTo
	k.report(raft.SnapshotTaken{Take: t.ID, Snapshot: s})
}

// syncTo syncs a DurableFSM. After the sync, the FSM must report the last entry that the applier has passed to it. For any
// other FSM, syncTo does nothing. id is the last entry applied.
func (a *applier) syncTo(id raft.EntryID) error {
	d, ok := a.fsm.(raft.DurableFSM)
	if !ok {
		return nil
	}
	if err := a.call("Sync", id, d.Sync); err != nil {
		return err
	}
	return a.call("Applied", id, func() error {
		applied, err := d.Applied()
		if err == nil && applied != a.given {
			err = fmt.Errorf("after Sync it returns entry %v; the last one that it was given is %v", applied, a.given)
		}
		return err
	})
}

var errStillRuns = errors.New("WriteTo or Close of an earlier frozen state has not returned")

// taker writes frozen states into files, one at a time, each on a new goroutine.
type taker struct {
	node *Node

	mu     sync.Mutex
	taking *taking // the snapshot that is being taken; nil: none
	held   *held   // its frozen state, if it is for a stream
	last   snapshotRecord

	trouble trouble
}

// snapshotRecord describes the last snapshot that this node took or restored.
type snapshotRecord struct {
	bytes int64
	at    time.Time // when it was completed; zero: it was not taken since this start
	took  time.Duration
}

// taking is a snapshot that is being taken.
type taking struct {
	raft.Take
	began     time.Time
	goroutine atomic.Uint64
	written   atomic.Int64
	size      atomic.Int64 // announced size in bytes; -1: not known
	reported  bool         // the result was reported to the core; taker.mu guards this and failed
	failed    error        // the error that was reported; nil: it was taken
	ctx       context.Context
	cancel    context.CancelCauseFunc
}

// begin reserves the taker. It fails while methods of an earlier, given-up snapshot have not returned, and during a backup.
func (k *taker) begin(t raft.Take) (*taking, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if busy := k.taking; busy != nil {
		err := &SnapshotError{Op: "begin", ID: t.ID, Err: firstError(busy.failed, errStillRuns)}
		k.trouble.set(err)
		return nil, err
	}
	ctx, cancel := k.node.context()
	k.taking = &taking{Take: t, began: time.Now(), ctx: ctx, cancel: cancel}
	k.taking.size.Store(-1)
	return k.taking, nil
}

// end frees the taker and reports the result to the core. If the core already has a result, because the snapshot stalled, end
// does not report again. If that snapshot was nevertheless finished, end deletes its file.
func (k *taker) end(t *taking, result raft.SnapshotTaken) {
	k.free(t) // before the report, since the core may then request the next snapshot at once
	if file := result.Snapshot.File; !k.conclude(t, result) && file != (raft.SnapshotID{}) {
		k.node.receiver.discard([]raft.SnapshotID{file})
	}
}

// reserve reserves the taker for a backup of the state at an entry, which reports nothing to the core. It returns false while a
// method of another frozen state runs.
func (k *taker) reserve(t *taking, at raft.EntryID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taking != nil {
		return false
	}
	t.ID, k.taking = at, t
	return true
}

// free frees the taker for the next frozen state, for which a backup may wait.
func (k *taker) free(t *taking) {
	t.cancel(nil)
	k.mu.Lock()
	k.taking, k.held = nil, nil
	k.mu.Unlock()
	k.node.applier.wake()
}

// conclude reports the result to the core, unless a result of the same take was already reported. It returns whether it
// reported the result.
func (k *taker) conclude(t *taking, result raft.SnapshotTaken) bool {
	k.mu.Lock()
	first := !t.reported
	if first {
		t.reported, t.failed = true, result.Err
	}
	k.mu.Unlock()
	if first {
		k.note(t, result)
		k.report(result)
	}
	return first
}

// note counts the result, logs it, and keeps it for Status.
func (k *taker) note(t *taking, result raft.SnapshotTaken) {
	n, took := k.node, time.Since(t.began)
	switch {
	case errors.Is(result.Err, errReplaced) || errors.Is(result.Err, raft.ErrClosed):
	case result.Err != nil:
		k.failed(result.Err)
	case t.Hold:
		k.trouble.set(nil)
		n.logger.log(hclog.Info, "the state was frozen for a member that lags too far", "entry", t.ID.String())
	default:
		k.trouble.set(nil)
		k.mu.Lock()
		k.last = snapshotRecord{bytes: result.Snapshot.Size, at: time.Now(), took: took}
		k.mu.Unlock()
		n.disk.set(n.smallDisk())
		n.counters.snapshots.taken.Add(1)
		n.counters.snapshotWriteSeconds.observe(int64(took))
		n.logger.log(hclog.Info, "a snapshot was taken", "entry", t.ID.String(), "bytes", result.Snapshot.Size, "took", took)
	}
}

// failed counts an error and keeps it for Status.
func (k *taker) failed(err error) {
	k.node.counters.snapshots.failed.Add(1)
	k.trouble.set(err)
}

func (k *taker) report(e raft.SnapshotTaken) { k.node.mailbox.report(e) }

// bytes returns the size of the last snapshot.
func (k *taker) bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last.bytes
}

// restored records that the FSM was restored from a snapshot. The file of the snapshot stays unless the FSM is a DurableFSM.
func (k *taker) restored(bytes int64, durable bool) {
	if durable {
		bytes = 0
	}
	k.mu.Lock()
	k.last = snapshotRecord{bytes: bytes}
	k.mu.Unlock()
	k.node.disk.set(k.node.smallDisk())
}

// errReplaced ends a snapshot of a state if a snapshot from a leader replaces that state.
var errReplaced = errors.New("a snapshot from the leader replaces the state")

// abandon ends the snapshot that is being taken, because a snapshot from a leader replaces the state.
func (k *taker) abandon() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taking != nil {
		k.taking.cancel(errReplaced)
	}
}

// within reports whether the calling goroutine is in WriteTo or Close of a frozen state.
func (k *taker) within() bool {
	k.mu.Lock()
	t := k.taking
	k.mu.Unlock()
	if t == nil {
		return false
	}
	id := goroutineID()
	return id != 0 && t.goroutine.Load() == id
}

// run writes the frozen state and closes it. If the FSM's methods return an error or panic, the node does not end, because
// the state is intact and the log keeps all entries.
func (k *taker) run(t *taking, frozen raft.FSMSnapshot) {
	t.goroutine.Store(goroutineID())
	var s raft.Snapshot
	err := errGoexit
	defer func() {
		result := raft.SnapshotTaken{Take: t.ID, Snapshot: s}
		if err != nil {
			result = raft.SnapshotTaken{Take: t.ID, Err: &SnapshotError{Op: "write", ID: t.ID, Err: err}}
		}
		k.end(t, result)
	}()
	err = guarded(func() (err error) { s, err = k.save(t, frozen); return err })
}

// save writes the frozen state into a file, and returns its description.
func (k *taker) save(t *taking, frozen raft.FSMSnapshot) (s raft.Snapshot, err error) {
	closeOnce := sync.OnceFunc(func() { k.closeFrozen(t, frozen) })
	defer closeOnce()
	t.size.Store(sizeOf(frozen))
	space := k.space()
	if err := space.begin(t.size.Load()); err != nil {
		return s, err
	}
	file := newSnapshotID()
	to, err := k.node.files.CreateSnapshot(file)
	if err != nil {
		return s, err
	}
	defer func() { _ = guarded(to.Abort) }() // does nothing once Finish has succeeded
	w := newPacedWriter(t, k.node, to, space)
	stop := k.watchStall(t, w)
	defer stop()
	if err = frozen.WriteTo(t.ctx, w); err == nil {
		err = w.flush()
	}
	closeOnce()
	stop()
	if err = firstError(context.Cause(t.ctx), w.err, err); err != nil {
		return s, err
	}
	s = raft.Snapshot{Base: t.Base, File: file, Size: w.size, Sum: w.sum}
	return s, to.Finish(s)
}

// closeFrozen closes a frozen state. If Close returns an error, the bytes that were written are still valid.
func (k *taker) closeFrozen(t *taking, frozen raft.FSMSnapshot) {
	if err := guarded(frozen.Close); err != nil {
		k.node.logger.log(hclog.Warn, "a frozen state did not close", "entry", t.ID.String(), "error", err)
	}
}

// watchStall gives the snapshot up once the FSM has written nothing for Config.SnapshotStallMax. The snapshot's goroutine
// may continue; no other snapshot begins before it ends. The returned function ends the watch.
func (k *taker) watchStall(t *taking, w *pacedWriter) (stop func()) {
	limit := k.node.cfg.SnapshotStallMax
	timer := time.AfterFunc(limit, func() {
		err := &SnapshotStalledError{Limit: limit, Bytes: t.written.Load()}
		t.cancel(err)
		k.conclude(t, raft.SnapshotTaken{Take: t.ID, Err: &SnapshotError{Op: "write", ID: t.ID, Err: err}})
	})
	w.moved = func() { timer.Reset(limit) }
	return func() { timer.Stop() }
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// newSnapshotID draws a random name for a new snapshot.
func newSnapshotID() (id raft.SnapshotID) {
	crand.Read(id[:]) // never fails
	return id
}

// context returns a context that ends with the node.
func (n *Node) context() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	n.wg.Go(func() {
		select {
		case <-n.stop:
			cancel(raft.ErrClosed)
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}
