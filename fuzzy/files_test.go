package fuzzy

import (
	"hash/crc32"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/snapfile"
)

// keepFile writes a file as the production code does, and completes it if it is to be whole.
func (n *node) keepFile(f *snapFile, whole bool) {
	n.disk.files.dir = snapfile.OpenSized(n.disk.files.tree.FS(), snapshotsPath, n.c.profile.fileSizes())
	f.snapshot.Sum = crc32.Checksum(f.payload, castagnoli)
	w, err := n.files().Create(f.snapshot.File)
	if err != nil {
		panic(err)
	}
	if _, err = w.Write(f.payload); err == nil && whole {
		err = w.Finish(f.snapshot)
	}
	if err != nil {
		panic(err)
	}
}

// loseFile is what a fault does that removes a file.
func (n *node) loseFile(file raft.SnapshotID) {
	n.disk.files.spoiled, n.disk.files.removed = true, pathOf(file)
}

// missing is the error of whoever opens a file that does not exist.
func missing(file raft.SnapshotID) error {
	return &fs.PathError{Op: "open", Path: pathOf(file), Err: fs.ErrNotExist}
}

// A leader sends a snapshot to the end although it has recorded a newer one. A fault may remove that file meanwhile, and
// then the stream fails: the follower is offered the newer one.
func TestFiles_ARemovedOneMayBeMissed(t *testing.T) {
	c, lead, _ := running(t)
	lead.loseFile(raft.SnapshotID{1})
	c.check.unreadable(lead, raft.EntryID{}, missing(raft.SnapshotID{1}))
	assert.Nil(t, c.failure)
}
