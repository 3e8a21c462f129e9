package node

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// roomEvery is the interval at which an idle member checks that its disk has room for more entries.
const roomEvery = time.Second

// shortenBytes applies while the log has no room. It is the number of bytes of entries that may be written before another
// snapshot is due: half of the allowance of a leader.
const shortenBytes = allowanceBytes / 2

// roomWatch reports a full disk, requests a snapshot that shortens the log, and transfers leadership. Only its own goroutine
// uses it, except lacking and asks.
type roomWatch struct {
	node     *Node
	lacking  signal      // there is no room, and a proposal or a message has come
	asks     atomic.Bool // a snapshot was requested and not answered yet
	shorten  pipeline.Shorten
	transfer pipeline.FullDiskTransfer
	trouble  trouble // why the log has no room
}

// hasRoom returns an error if this member leads and its log has no room for more entries.
func (n *Node) hasRoom() error {
	full := n.lacksRoom()
	if full == nil {
		return nil
	}
	err := pipeline.RefuseWithoutRoom(full, n.leads())
	if err != nil {
		n.roomWatch.lacking.wake()
	}
	return err
}

// lacksRoom returns an error if the log cannot grow. It returns nil if the log can grow, or if the storage is not a
// RoomStorage.
func (n *Node) lacksRoom() (full error) {
	if n.room != nil {
		_ = guarded(func() error { full = n.room.Room(); return nil })
	}
	return full
}

// leads reports whether this member leads, according to the last published leadership.
func (n *Node) leads() bool {
	now, _ := n.watched.load()
	return now.Role == raft.Leader
}

// run ends with the node.
func (w *roomWatch) run() {
	if w.node.room == nil {
		return
	}
	ticker := time.NewTicker(roomEvery)
	defer ticker.Stop()
	for {
		select {
		case <-w.node.stop:
			return
		case <-ticker.C:
		case <-w.lacking:
		}
		w.check()
	}
}

// noRoom returns Status.NoRoom for the error of the last check.
func noRoom(full error) string {
	if full == nil {
		return ""
	}
	if !isFull(full) {
		return fmt.Sprintf("it cannot make room for more entries of its log (%v)", full)
	}
	return fmt.Sprintf("its disk has no room for more entries of the log: make room, and it continues by itself (%v)", full)
}

// isFull reports whether the disk is full, or may be full. It reports false only for another error of the operating system,
// because only such an error shows that the disk is not full.
func isFull(err error) bool {
	var errno syscall.Errno
	return !errors.As(err, &errno) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows"
}

// snapshot requests a snapshot, even if none is due. So the log becomes shorter without an operator. The log has room for the
// snapshot's record, because mailbox.receive holds entries back meanwhile.
func (w *roomWatch) snapshot() {
	n := w.node
	w.asks.Store(true)
	n.wg.Go(func() {
		defer w.asks.Store(false)
		ctx, cancel := n.context()
		defer cancel(nil)
		_, _ = n.Snapshot(ctx) // Status shows the error
	})
}

// check checks whether the log has room. If the disk is full, check does what is needed: it requests a snapshot, and
// transfers leadership.
func (w *roomWatch) check() {
	n := w.node
	full := n.lacksRoom()
	if full == nil {
		n.mailbox.releaseHeld()
	}
	if n.files != nil && !w.asks.Load() && w.shorten.Due(n.now().Mono, full != nil && isFull(full), n.counters.bytesWritten.Load(), shortenBytes) {
		w.snapshot()
	}
	w.trouble.set(full)
	if full == nil || !n.leads() {
		return
	}
	members, _ := n.members.load()
	to := w.transfer.Target(n.now().Mono, n.cfg.ID, &members.now.Configuration, n.cfg.ElectionTimeout)
	if to == "" {
		return
	}
	if _, err := n.requests.transfer(raft.TransferRequested{To: to, Urgent: true}); err == nil { // nobody waits for its outcome: the next check sees it
		n.logger.log(hclog.Info, "this member has no room on its disk, and transfers leadership", "to", string(to))
	}
}
