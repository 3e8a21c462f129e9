package fuzzy

import (
	"hash/crc32"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/snapfile"
)

// keepFile writes a file as the production code does, and completes it if whole is set.
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

// loseFile removes a file, as a fault does.
func (n *node) loseFile(file raft.SnapshotID) {
	n.disk.files.spoiled, n.disk.files.removed = true, pathOf(file)
}

// missing returns the error for opening a file that does not exist.
func missing(file raft.SnapshotID) error {
	return &fs.PathError{Op: "open", Path: pathOf(file), Err: fs.ErrNotExist}
}

// A leader sends a snapshot to the end even if the leader has already recorded a newer one. If a fault removes the file
// meanwhile, the stream fails. Then the leader offers the newer snapshot.
func TestFiles_ARemovedOneMayBeMissed(t *testing.T) {
	c, lead, _ := running(t)
	lead.loseFile(raft.SnapshotID{1})
	c.check.checkUnreadable(lead, raft.EntryID{}, missing(raft.SnapshotID{1}))
	assert.Nil(t, c.failure)
}

// The last two of five members may be started by mistake with a list that names only these two. They may then bootstrap a
// cluster of their own. If both disks were emptied, the two members could join a second cluster. No rule tells the entries of
// the two clusters apart. So one of the two disks stays damaged.
func TestFiles_DisksOfAShorterListAreNotAllEmptied(t *testing.T) {
	emptied := func(otherLists int, alreadyEmpty, damaged int, lose func(*node)) (times int) {
		for number := range uint64(20) {
			p := calmOfThree(t)
			p.Voters, p.Node.OtherLists = 5, otherLists
			c := newCluster(Seed{"calm", number}, p)
			c.others = 3
			c.nodes[alreadyEmpty].disk.wipe()
			n := c.nodes[damaged]
			n.disk.files.spoiled = true
			lose(n)
			assert.Nil(t, c.failure)
			if !n.disk.damaged {
				times++
			}
		}
		return times
	}
	for what, lose := range map[string]func(*node){
		"log":      (*node).lostLog,
		"snapshot": func(n *node) { n.cannotRead(raft.EntryID{}, &raft.CorruptError{File: "a"}) },
	} {
		assert.Zero(t, emptied(400_000, 4, 3, lose), "%s: no member of the short list would keep its disk", what)
		assert.NotZero(t, emptied(400_000, 0, 3, lose), "%s: the other one of the short list keeps its disk", what)
		assert.NotZero(t, emptied(400_000, 4, 0, lose), "%s: not in the short list", what)
		assert.NotZero(t, emptied(0, 4, 3, lose), "%s: nobody has a short list", what)
	}
}
