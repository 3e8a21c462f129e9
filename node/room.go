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

// roomEvery is how often a member looks whether its disk has room for more entries, while nothing comes.
const roomEvery = time.Second

// shortenBytes is after how many bytes of entries a log without room gets another snapshot: half of what is taken from a leader.
const shortenBytes = allowanceBytes / 2

// roomWatch says when the disk is full, has the log made shorter, and hands over leadership. Its own goroutine uses all but
// lacking and asks.
type roomWatch struct {
	node     *Node
	lacking  signal      // there is no room, and proposals or messages have come
	asks     atomic.Bool // a snapshot was asked for and not answered yet
	shorten  pipeline.Shorten
	handOver pipeline.HandOver
	trouble  trouble
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

// lacksRoom returns why the log cannot grow; nil: it can, or the storage does not know.
func (n *Node) lacksRoom() (full error) {
	if n.room != nil {
		_ = guarded(func() error { full = n.room.Room(); return nil })
	}
	return full
}

// leads reports whether this member is the leader, as far as is published.
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
		w.look()
	}
}

// noRoom returns Status.NoRoom for the error of the last look.
func noRoom(full error) string {
	if full == nil {
		return ""
	}
	if !isFull(full) {
		return fmt.Sprintf("it cannot make room for more entries of its log (%v)", full)
	}
	return fmt.Sprintf("its disk has no room for more entries of the log: make room, and it goes on by itself (%v)", full)
}

// isFull reports whether the disk is full, or may be: another error of the operating system says that something else is wrong.
func isFull(err error) bool {
	var errno syscall.Errno
	return !errors.As(err, &errno) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows"
}

// snapshot asks for a snapshot, which makes the log shorter, even if none is due: an operator need not do it. Its record finds
// room in the log, because mailbox.receive holds entries back meanwhile.
func (w *roomWatch) snapshot() {
	n := w.node
	w.asks.Store(true)
	n.wg.Go(func() {
		defer w.asks.Store(false)
		ctx, cancel := n.context()
		defer cancel(nil)
		_, _ = n.Snapshot(ctx) // Status says why none was taken
	})
}

func (w *roomWatch) look() {
	n := w.node
	full, was := n.lacksRoom(), w.trouble.get()
	if full == nil {
		n.mailbox.releaseHeld()
	}
	if n.files != nil && !w.asks.Load() && w.shorten.Due(n.now().Mono, full != nil && isFull(full), n.counters.bytesWritten.Load(), shortenBytes) {
		w.snapshot()
	}
	if w.trouble.set(full) {
		message := "the disk has no room for more entries of the log: make room, and this member goes on by itself"
		if !isFull(full) {
			message = "this member cannot make room for more entries of the log"
		}
		n.logger.log(hclog.Warn, message, "error", full)
	}
	if was != nil && full == nil {
		n.logger.log(hclog.Info, "there is room for more entries of the log again")
	}
	if full == nil || !n.leads() {
		return
	}
	members, _ := n.members.load()
	to := w.handOver.Target(n.now().Mono, n.cfg.ID, &members.now.Configuration, n.cfg.ElectionTimeout)
	if to == "" {
		return
	}
	if _, err := n.requests.transfer(to); err == nil { // nobody waits for its outcome: the next look sees it
		n.logger.log(hclog.Info, "without room on its disk, this member asks another one to lead", "to", string(to))
	}
}
