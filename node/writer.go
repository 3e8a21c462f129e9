package node

import (
	"cmp"
	"runtime"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// writer makes writes durable, in the order issued. A write's Then leaves only once the write is durable, and only
// after that the core learns of it with Persisted: makeDurable calls tell after Storage.Write has returned, and
// nothing else sends Then. The contract is at raft.Output and raft.Write.
//
// The writer's goroutine is the only one that writes to the storage. The queue is bounded by what may come into the
// node: the limits of proposals on a leader, of received messages and bytes on a follower. Promises that need no
// write of their own are lost, like any message may be, once Config.ReceivedMax writes wait: a leader repeats its
// questions for as long as a disk stands still.
type writer struct {
	node *Node

	mu    sync.Mutex
	queue queue[raft.Write] // its signal also tells of what identity.unwritten returns

	commit   raft.Index // the highest hint; it rides along with the next write
	unpruned bool       // entries below the base may be left in the store
	prunedAt time.Time  // when some were deleted last
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

// run is the writer's goroutine. It ends with the node, or with the first write that fails: the
// kernel may have dropped the pages, so nothing is acknowledged after it.
func (w *writer) run() {
	if w.mayPrune(); w.unpruned {
		w.queue.wake()
	}
	for {
		select {
		case <-w.node.stop:
			return
		case <-w.queue.signal:
		}
		runtime.Gosched() // the appends of the same output leave before the write keeps a processor: docs/decisions/0033
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

// pruneEvery is how much time passes at least between two times of pruning while writes wait.
const pruneEvery = 50 * time.Millisecond

// prune lets the storage delete some of the entries below the base, so that the writes behind it do not wait for long. It
// deletes at least as many bytes as the writes since the last time have added. Otherwise the store would grow for as long
// as writes keep the disk busy.
func (w *writer) prune() error {
	if w.depth() > 0 && time.Since(w.prunedAt) < pruneEvery {
		return nil // the signal is set
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

// mayPrune is called when entries below the base may be left in the store.
func (w *writer) mayPrune() {
	if w.node.files != nil && !w.unpruned {
		w.unpruned, w.left = true, w.node.logBytes()
	}
}

// take takes the next write, merged with the ones behind it as far as that is allowed.
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

// makeDurable writes, then releases the promises, then tells the core. The memory of peers is written along. mark is
// that of a handshake, which has logged it: once it is durable, makeDurable returns its error, which ends the node.
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
		if err != nil {
			return &StorageError{Op: "write", Err: err}
		}
		n.counters.wrote(write, time.Since(began))
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
	w.tell(write)
	return nil
}

// tell notifies identity, log cache, peers and loop of what is durable now. Only makeDurable calls it, after the write.
// Then leaves before the loop receives Persisted (see raft.Write).
func (w *writer) tell(write raft.Write) {
	n := w.node
	if write.Hard != nil {
		n.identity.term.Store(uint64(write.Hard.Term))
	}
	if l := write.Log; l != nil {
		n.cache.MarkPersisted(l.Generation, l.After.Index+raft.Index(len(l.Entries)))
	}
	n.senders.send(write.Then)
	if len(write.Then) > 0 {
		runtime.Gosched() // they leave before the loop is woken and takes the processor: docs/decisions/0033
	}
	if write.Seq != 0 {
		n.mailbox.persistedUpTo(write.Seq)
	}
	if write.Mark != nil {
		n.endMarked(write.Mark)
	}
}
