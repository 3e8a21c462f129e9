package fuzzy

import (
	"errors"
	"io"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/snapfile"
)

// drawFiles draws what may happen to snapshots. Its stream is its own, as that of drawRare.
func drawFiles(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<16)
	p.Snapshots.BlockBytes = s.LogUniform(100, 4096)
	old := s.IntN(p.Voters + p.Learners + 1)
	if s.IntN(8) == 0 && p.Snapshots.On && !p.Node.Durable {
		p.Snapshots.Old = old
	}
}

// protocol returns the version that the member speaks. The last members may be of a release that knows no snapshots.
func (n *node) protocol() uint16 {
	if n.upgraded || n.index < n.c.profile.Voters+n.c.profile.Learners-n.c.profile.Snapshots.Old {
		return 2
	}
	return 1
}

// ofSnapshot reports whether only protocol 2 has the message.
func ofSnapshot(b raft.Body) bool {
	_, offer := b.(raft.InstallSnapshot)
	return offer || isStream(b)
}

// snapshotsPath is the directory of the snapshots on a simulated disk.
const snapshotsPath = "snapshots"

// fileSystem is the part of a disk that holds the files of snapshots. The production code writes and reads them.
type fileSystem struct {
	random *sim.Stream
	tree   *crashdisk.Tree
	dir    *snapfile.Dir // as the running process has opened it
}

func newFileSystem(c *cluster, i int) fileSystem {
	return fileSystem{random: sim.NewStream(c.seed.Number, sim.DiskConcern<<24+sim.Concern(i)), tree: crashdisk.New()}
}

// fileSizes returns those of the files. Small blocks give small snapshots many of them.
func (p *Profile) fileSizes() snapfile.Sizes {
	return snapfile.Sizes{BlockBytes: max(p.Snapshots.BlockBytes, 1), SyncBytes: 2 * snapshotSyncBytes}
}

// cut ends a life of the disk: an arbitrary part of what was not synced survives.
func (f *fileSystem) cut() {
	keep := crashdisk.KeepNothing
	switch f.random.IntN(3) {
	case 0:
		keep = func() bool { return true }
	case 1:
		keep = f.random.Coin
	}
	f.tree.Cut(keep)
	f.dir = nil
}

// fileCallsMax is more than the calls that a file takes to be created, or to be completed.
const fileCallsMax = 12

// cutFiles ends what a process does with its files between any two calls.
func (n *node) cutFiles() {
	f, v := &n.disk.files, &n.vault
	if f.dir == nil {
		return
	}
	if v.writing {
		f.tree.StopAfter(f.random.IntN(fileCallsMax))
		_, _ = n.writeTaken()
	}
	if v.busy() {
		f.tree.StopAfter(f.random.IntN(fileCallsMax))
		_ = n.writeSpool()
	}
	f.cut()
}

// files returns the files of the running process.
func (n *node) files() *snapfile.Dir { return n.disk.files.dir }

// space returns the room for snapshots on the disk.
func (n *node) space() pipeline.Space {
	free, err := n.files().Free()
	if err != nil {
		free = 0
	}
	return pipeline.Space{Free: free, Reserve: pipeline.Reserve(0, 0)}
}

// announced returns the size that a frozen state knows of itself; -1: none.
func (n *node) announced(f *snapFile) int64 {
	if n.disk.files.random.Coin() {
		return -1
	}
	return int64(len(f.payload))
}

// openFiles checks the file that the durable record names, as the load of a store does. It returns false if the process
// ends.
func (n *node) openFiles() bool {
	if !n.c.profile.Snapshots.On {
		return true
	}
	f := &n.disk.files
	f.dir = snapfile.OpenSized(f.tree.FS(), snapshotsPath, n.c.profile.fileSizes())
	if n.disk.snapshot.File == (raft.SnapshotID{}) {
		return true
	}
	r, err := f.dir.OpenRecorded(n.disk.snapshot)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		n.c.check.unreadable(n, n.disk.snapshot.ID, err)
	}
	return err == nil
}

// cleanFiles removes every file but the recorded one. It returns false if the process ends.
func (n *node) cleanFiles() bool {
	if n.files() == nil {
		return true
	}
	_, err := n.files().Clean(n.disk.snapshot.File)
	if err != nil {
		n.c.check.unreadable(n, n.disk.snapshot.ID, err)
		return false
	}
	n.c.check.cleaned(n)
	return true
}

// openSnapshot opens a complete file. That of the recorded snapshot must hold what the record says.
func (n *node) openSnapshot(file raft.SnapshotID) (*snapfile.Reader, error) {
	if recorded := n.disk.snapshot; recorded.File == file {
		return n.files().OpenRecorded(recorded)
	}
	return n.files().OpenRead(file)
}

// readSnapshot reads a whole snapshot.
func (n *node) readSnapshot(s *raft.Snapshot) ([]byte, error) { return read(n.openSnapshot(s.File)) }

func read(r *snapfile.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	payload := make([]byte, r.Size())
	if _, err = r.ReadAt(payload, 0); errors.Is(err, io.EOF) {
		err = nil
	}
	return payload, errors.Join(err, r.Close())
}
