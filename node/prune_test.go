package node

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// prunedDisk is a storage that counts bytes of entries. It keeps the entries up to the base until Prune deletes them.
type prunedDisk struct {
	raft.SnapshotStorage // nil: nothing else is called
	writeTakes           time.Duration
	bytes                atomic.Int64 // of all entries
	below                int64        // of those at or below the base
	prunes               int
}

func (d *prunedDisk) Write(w raft.StorageWrite) error {
	<-time.After(d.writeTakes)
	if w.Base != nil {
		d.below = d.bytes.Load()
	}
	for _, e := range w.Log.Entries {
		d.bytes.Add(int64(len(e.Data)))
	}
	return nil
}

func (d *prunedDisk) LogBytes() int64 { return d.bytes.Load() }

func (d *prunedDisk) Prune() (more bool, err error) {
	<-time.After(time.Millisecond)
	d.prunes++
	deleted := min(d.below, 4<<20)
	d.below -= deleted
	d.bytes.Add(-deleted)
	return d.below > 0, nil
}

// pruned makes 200 writes to the disk. Every tenth write has a base, and other writes always wait. pruned returns the maximum
// number of bytes of entries that were on the disk.
func pruned(disk *prunedDisk, entry int) (most int64) {
	n := parts(disk, nil, nil)
	n.files = disk
	data := make([]byte, entry)
	enqueue := func(seq raft.Seq) {
		write := raft.Write{Seq: seq, Hard: &raft.HardState{Term: 1}, Log: &raft.LogWrite{Entries: []raft.Entry{{Data: data}}}}
		if seq%10 == 0 {
			write.Base = &raft.Base{}
		}
		n.writer.enqueue(write)
	}
	enqueue(1)
	n.wg.Go(n.writer.run)
	for seq := raft.Seq(2); seq <= 200; seq++ {
		for n.writer.depth() >= 2 {
			<-time.After(100 * time.Microsecond)
		}
		enqueue(seq)
		most = max(most, disk.bytes.Load())
	}
	close(n.stop)
	n.wg.Wait()
	return most
}

func TestWriter_PrunesAsMuchAsIsWritten(t *testing.T) {
	for _, takes := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const entry = 8 << 20
			disk := &prunedDisk{writeTakes: takes}
			expect.LessOrEqual(t, pruned(disk, entry), int64(22*entry), "what ten writes leave is deleted while the next ten are made")
		})
	}
}

func TestWriter_PrunesNowAndThenWhileSmallWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &prunedDisk{writeTakes: time.Millisecond}
		began := time.Now()
		pruned(disk, 64<<10)
		expect.LessOrEqual(t, disk.prunes, int(time.Since(began)/pruneEvery)+4)
	})
}

// Nothing is written after the snapshot, for instance because the disk is full.
func TestWriter_PrunesToTheEndWithoutFurtherWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &prunedDisk{}
		disk.bytes.Store(100 << 20)
		n := parts(disk, nil, nil)
		n.files = disk
		n.writer.enqueue(raft.Write{Seq: 1, Base: &raft.Base{}, Log: &raft.LogWrite{}})
		n.wg.Go(n.writer.run)
		<-time.After(time.Second)
		synctest.Wait()
		expect.Zero(t, disk.below)
		close(n.stop)
		n.wg.Wait()
	})
}
