package node

import (
	"fmt"
	"time"

	"github.com/coxswain/raft"
)

// diskBeside is the room, in bytes, that the disk should have in addition to two snapshots and the log between them. The
// segments that are being filled, prepared and given up need this room. See docs/storage.md.
const diskBeside = 128 << 20

// diskEvery is the interval at which the size of the disk is looked at, so that one that was enlarged is noticed without a restart.
const diskEvery = time.Minute

// watchDisk ends with the node. It has its own goroutine, because a stalled disk may not answer.
func (n *Node) watchDisk() {
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-ticker.C:
			n.disk.set(n.smallDisk())
		}
	}
}

// smallDisk returns an error if the disk is too small. It returns nil if the disk is large enough, or if its size is not
// known.
func (n *Node) smallDisk() error {
	store, ok := n.storage.(raft.DiskStorage)
	if !ok || n.files == nil {
		return nil
	}
	var used, free int64
	err := guarded(func() (err error) {
		used, free, err = store.DiskBytes()
		return err
	})
	snapshot := n.taker.bytes()
	needed := 2*snapshot + int64(n.limits().SnapshotLogBytes) + diskBeside
	if err != nil || free >= needed || used+free >= needed {
		return nil
	}
	const mib = 1 << 20
	return fmt.Errorf("its disk has room for %d MiB of its data, and should have %d MiB for two snapshots (of %d MiB), the log between them and "+
		"128 MiB more: with less, it may refuse writes until a snapshot has shortened its log, although the disk still has room",
		(used+free)/mib, (needed+mib-1)/mib, (snapshot+mib-1)/mib)
}
