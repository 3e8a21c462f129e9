package fuzzy

import (
	"hash/crc32"

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
