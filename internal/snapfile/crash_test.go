package snapfile_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/snapfile"
)

// imagesMax is the maximum number of states that the test tries after one power cut. For up to twelve unsynced changes, the
// test tries all states.
const imagesMax = 1 << 12

// script does what a member does with its snapshots. It takes a new snapshot beside an old one, records the new one in a
// store that never fails, and discards the old one. recorded is the snapshot that the store names.
type script struct {
	data     map[raft.SnapshotID][]byte
	old, new raft.Snapshot
	recorded raft.Snapshot
}

func newScript(size int) *script {
	s := &script{data: map[raft.SnapshotID][]byte{}}
	oldData, newData := payload(300), payload(size)
	s.old, s.new = described(1, oldData), described(2, newData)
	s.data[s.old.File], s.data[s.new.File] = oldData, newData
	s.recorded = s.old
	return s
}

// run runs the script until the power fails, or to the end.
func (s *script) run(tree *crashdisk.Tree) error {
	d := snapfile.Open(tree.FS(), dirPath)
	if _, err := d.Clean(s.recorded.File); err != nil {
		return err
	}
	w, err := d.Create(s.new.File)
	if err != nil {
		return err
	}
	data := s.data[s.new.File]
	third := len(data) / 3
	for _, p := range [][]byte{data[:third], data[third : 2*third], data[2*third:]} {
		if _, err := w.Write(p); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	if err := w.Finish(s.new); err != nil {
		return errors.Join(err, w.Abort())
	}
	s.recorded = s.new
	if err := d.Discard(s.old.File); err != nil {
		return err
	}
	_, err = d.Clean(s.new.File)
	return err
}

// check starts again after a power cut, as the member does. It checks the files that the cut left.
func (s *script) check(t *testing.T, tree *crashdisk.Tree, recorded raft.Snapshot) {
	disk := tree.FS()
	d := openDir(t, disk)
	got, err := content(d, recorded)
	require.NoError(t, err, "the recorded snapshot")
	require.True(t, bytes.Equal(s.data[recorded.File], got), "the recorded snapshot")
	for _, name := range names(t, disk) {
		if !strings.HasSuffix(name, ".snap") {
			continue
		}
		for _, other := range []raft.Snapshot{s.old, s.new} {
			if name == other.File.String()+".snap" {
				got, err := content(d, other)
				require.NoError(t, err, "a file under its final name is whole")
				require.True(t, bytes.Equal(s.data[other.File], got))
			}
		}
	}
	_, err = d.Clean(recorded.File)
	require.NoError(t, err)
	require.Equal(t, []string{recorded.File.String() + ".snap"}, names(t, disk))
}

// checkInterruptedClean cuts the power at each call of the start itself, too.
func (s *script) checkInterruptedClean(t *testing.T, tree *crashdisk.Tree, recorded raft.Snapshot) {
	for calls := 0; ; calls++ {
		again := tree.Clone()
		again.StopAfter(calls)
		_, err := snapfile.Open(again.FS(), dirPath).Clean(recorded.File)
		again.Cut(crashdisk.KeepHalf(uint64(calls)))
		s.check(t, again, recorded)
		if err == nil {
			return
		}
	}
}

// prepared returns a disk that durably holds the old snapshot.
func (s *script) prepared(t *testing.T) *crashdisk.Tree {
	tree := crashdisk.New()
	written(t, openDir(t, tree.FS()), s.old, s.data[s.old.File], 100)
	return tree
}

// The test cuts the power at each call. The disk may keep any part of the unsynced data. A reader can always read the
// snapshot that the member's record names. The next start removes all other snapshots.
func TestCrash_EveryImage(t *testing.T) {
	images, stops := 0, 0
	for ended := false; !ended; stops++ {
		s := newScript(1000)
		tree := s.prepared(t)
		tree.StopAfter(stops)
		ended = s.run(tree) == nil
		images += crashdisk.EveryImage(tree, imagesMax, func(image *crashdisk.Tree) {
			s.checkInterruptedClean(t, image.Clone(), s.recorded)
			s.check(t, image, s.recorded)
		})
	}
	t.Logf("%d stops, %d images", stops, images)
	require.Greater(t, images, 50)
}

// This test does the same as TestCrash_EveryImage with a large file. The writer syncs the file several times while it writes.
// There are too many images to try all, so the test draws some of them.
func TestCrash_OfALargeFile(t *testing.T) {
	for stops, ended := 0, false; !ended; stops++ {
		s := newScript(1<<20 + 200_000)
		tree := s.prepared(t)
		tree.StopAfter(stops)
		ended = s.run(tree) == nil
		for seed := range uint64(3) {
			image := tree.Clone()
			image.Cut(crashdisk.KeepHalf(seed))
			s.check(t, image, s.recorded)
		}
	}
}
