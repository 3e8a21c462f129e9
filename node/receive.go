package node

import (
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// receiver is the goroutine that takes in and deletes the files of snapshots, so that neither the loop nor the writer
// waits for that.
type receiver struct {
	node *Node

	mu       sync.Mutex
	discards queue[raft.SnapshotID]
}

func newReceiver(n *Node) *receiver {
	return &receiver{node: n, discards: queue[raft.SnapshotID]{signal: newSignal()}}
}

// discard is called by the loop.
func (r *receiver) discard(files []raft.SnapshotID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range files {
		r.discards.add(file)
	}
}

func (r *receiver) take() []raft.SnapshotID {
	r.mu.Lock()
	defer r.mu.Unlock()
	files := slices.Clone(r.discards.waiting())
	r.discards.drop(len(files))
	return files
}

func (r *receiver) run() {
	for {
		select {
		case <-r.node.stop:
			return
		case <-r.discards.signal:
			r.delete(r.take())
		}
	}
}

// delete deletes files. One that cannot be deleted is left over until the next start deletes it.
func (r *receiver) delete(files []raft.SnapshotID) {
	for _, file := range files {
		if err := guarded(func() error { return r.node.files.DiscardSnapshot(file) }); err != nil {
			r.node.logger.log(hclog.Warn, "a snapshot that is no longer needed was not deleted", "error", err)
		}
	}
}
