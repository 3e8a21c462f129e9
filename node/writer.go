package node

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// writer makes writes durable, in the order issued. A write's Then leaves only once the write is durable. Only after that
// does the core learn of the write with Persisted. To ensure this, makeDurable calls announce after Storage.Write has
// returned, and nothing else sends Then. raft.Output and raft.Write document this contract.
//
// Only the writer's goroutine writes to the storage. The limits of the node's input bound the queue: on a leader the limits
// of proposals, on a follower the limits of received messages and bytes. Once Config.ReceivedMax writes wait, the writer
// drops promises that need no write, because any message may be lost. While a disk has stalled, a leader repeats its
// questions.
type writer struct {
	node *Node

	mu    sync.Mutex
	queue queue[raft.Write] // its signal also announces what identity.unwritten returns

	commit   raft.Index // highest commit index to store; the next write includes it
	unpruned bool       // entries below the base may be left in the store
	prunedAt time.Time  // when entries were last deleted
	left     int64      // bytes of all entries in the store then, or when the base moved
}

func newWriter(n *Node) *writer {
	return &writer{node: n, queue: queue[raft.Write]{signal: newSignal()}}
}

// enqueue is called by the loop.
func (w *writer) enqueue(write raft.Write) {
	for _, m := range w.put(write) {
		w.node.dropped(m, &w.node.counters.droppedQueueFull, nil)
	}
}

// put queues a write, and returns the promises for which there was no room.
func (w *writer) put(write raft.Write) (lost []raft.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if write.ChangesStore() {
		w.queue.add(write)
		return nil
	}
	if w.queue.offer(write, w.node.cfg.ReceivedMax) {
		return nil
	}
	waiting := w.queue.waiting()
	last := &waiting[len(waiting)-1]
	last.Seq, last.Commit = write.Seq, max(last.Commit, write.Commit)
	return write.Then
}

func (w *writer) depth() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.len()
}

// run is the writer's goroutine. It ends with the node, or with the first write that fails: the kernel may have dropped
// the pages, so nothing is acknowledged after a failed write.
func (w *writer) run() {
	if w.mayPrune(); w.unpruned {
		w.queue.wake()
	}
	for {
		select {
		case <-w.node.stop:
			w.finish()
			return
		case <-w.queue.signal:
		}
		runtime.Gosched() // lets the appends of the same output leave before the write occupies a processor: docs/decisions/0033
		write, queued := w.take()
		memory, mark := w.node.identity.unwritten()
		var err error
		if queued || memory != nil || mark != nil {
			err = w.makeDurable(write, memory, mark)
		}
		if err == nil && w.unpruned {
			err = w.prune()
		}
		if err != nil {
			w.node.fail(err)
			return
		}
	}
}

// finish writes the last term and vote that wait when the node closes, so that the store does not say that the member still
// leads. They may be written before the entries that wait, too. A failure is no error of Close, because nothing was
// acknowledged.
func (w *writer) finish() {
	w.node.mu.Lock()
	closed := errors.Is(w.node.err, raft.ErrClosed)
	w.node.mu.Unlock()
	w.mu.Lock()
	var hard *raft.HardState
	for _, write := range w.queue.waiting() {
		hard = cmp.Or(write.Hard, hard)
		closed = closed && write.Mark == nil
	}
	w.mu.Unlock()
	if closed && hard != nil {
		_ = guarded(func() error { return w.node.storage.Write(raft.StorageWrite{Hard: hard, Commit: w.commit}) })
	}
}

// pruneEvery is the minimum interval between two rounds of pruning while writes wait.
const pruneEvery = 50 * time.Millisecond

// prune deletes a part of the entries up to the base. It deletes only a part so that the next writes do not wait for long. It
// deletes at least as many bytes as writes have added since the last round. Otherwise the store would grow while writes keep
// the disk busy.
func (w *writer) prune() error {
	if w.depth() > 0 && time.Since(w.prunedAt) < pruneEvery {
		return nil // the signal is set, so run comes back
	}
	bytes := w.node.logBytes()
	for deleted := true; deleted && w.unpruned; {
		before := bytes
		if err := guarded(func() (err error) { w.unpruned, err = w.node.files.Prune(); return err }); err != nil {
			return &StorageError{Op: "prune", Err: err}
		}
		bytes = w.node.logBytes()
		deleted = bytes < before && bytes > w.left
	}
	w.prunedAt, w.left = time.Now(), bytes
	if w.unpruned {
		w.queue.wake()
	}
	return nil
}

// mayPrune records that the store may still hold entries up to the base.
func (w *writer) mayPrune() {
	if w.node.files != nil && !w.unpruned {
		w.unpruned, w.left = true, w.node.logBytes()
	}
}

// take takes the next write. It merges with it as many of the following writes as possible.
func (w *writer) take() (raft.Write, bool) {
	select {
	case <-w.node.stop:
		return raft.Write{}, false
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.queue.waiting()
	if len(waiting) == 0 {
		return raft.Write{}, false
	}
	merged, n := pipeline.MergeWrites(waiting)
	w.queue.drop(n)
	return merged, true
}

// makeDurable first writes, then sends the promises, then reports to the core. It also writes the memory of peers. mark is
// the mark of a handshake; the handshake has already logged it. Once mark is durable, makeDurable returns the error of mark,
// and that error ends the node.
func (w *writer) makeDurable(write raft.Write, memory *raft.Sightings, mark *raft.Mark) error {
	n := w.node
	w.commit = max(w.commit, write.Commit)
	first := cmp.Or(mark, write.Mark)
	if write.ChangesStore() || memory != nil || first != nil {
		began := time.Now()
		err := guarded(func() error {
			return n.storage.Write(raft.StorageWrite{
				Hard: write.Hard, Snapshot: write.Snapshot, Base: write.Base, Log: write.Log,
				Commit: w.commit, Memory: memory, Mark: first,
			})
		})
		took := time.Since(began)
		if err != nil {
			return &StorageError{Op: "write", Err: err}
		}
		n.counters.wrote(write, took)
		n.slowDisk.note(began.Add(took), took)
		if write.Base != nil || write.Snapshot != nil {
			w.mayPrune()
		}
	}
	if mark != nil {
		return mark.Err()
	}
	if memory != nil {
		n.identity.kept.publish(*memory)
		n.contacts.signal.wake()
	}
	w.announce(write)
	return nil
}

// announce reports to identity, log cache, peers and loop what is durable now. Only makeDurable calls announce, after the
// write. Then leaves before the loop receives Persisted (see raft.Write).
func (w *writer) announce(write raft.Write) {
	n := w.node
	if write.Hard != nil {
		n.identity.term.Store(uint64(write.Hard.Term))
	}
	if l := write.Log; l != nil {
		n.cache.MarkPersisted(l.Generation, l.After.Index+raft.Index(len(l.Entries)))
	}
	n.senders.send(write.Then)
	if len(write.Then) > 0 {
		runtime.Gosched() // lets them leave before the loop is woken and takes the processor: docs/decisions/0033
	}
	if write.Seq != 0 {
		n.mailbox.persistedUpTo(write.Seq)
	}
	if write.Mark != nil {
		n.endMarked(write.Mark)
	}
}
