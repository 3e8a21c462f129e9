package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// crashing is a store that the test moves again and again from the same state. Its segments are on a disk that crashes.
// raft.db is a real file. After a crash, each transaction in raft.db has happened completely or not at all.
type crashing struct {
	place
	t      *testing.T
	from   Kind
	tree   *crashdisk.Tree // holds the segments
	file   []byte          // content of raft.db
	before held
}

// crashes returns a crashing store of the given kind. If the store is in bbolt, there are also segments of a longer log
// beside it, as if an earlier release had failed to remove them.
func crashes(t *testing.T, from Kind, does []act) *crashing {
	c := &crashing{t: t, from: from, tree: crashdisk.New(), place: newPlace(t)}
	c.disk = c.tree.FS()
	require.NoError(t, c.disk.MakeDir(c.dir))
	if from == KindBolt {
		c.fill(t, KindSegments, whole)
		require.NoError(t, os.Remove(filepath.Join(c.dir, BoltFile)))
		c.disk = crashdisk.New().FS()
	}
	c.fill(t, from, does)
	c.disk = c.tree.FS()
	c.before, _ = c.holds(t)
	var err error
	c.file, err = os.ReadFile(filepath.Join(c.dir, BoltFile))
	require.NoError(t, err)
	return c
}

// on returns the store with another disk. If file is not nil, it becomes the content of raft.db.
func (c *crashing) on(tree *crashdisk.Tree, file []byte) place {
	if file != nil {
		require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, BoltFile), file, filePermissions))
	}
	return place{tree.FS(), c.dir}
}

// check requires that the store is of one kind, with its whole content. For some images it also requires that a start
// succeeds. For some images it also requires that further calls of Migrate succeed.
func (c *crashing) check(image *crashdisk.Tree, number int) (kind Kind) {
	p := c.on(image, nil)
	after, kind := p.holds(c.t)
	require.Equal(c.t, c.before, after)
	switch number % 6 {
	case 0:
		p.starts(c.t, kind)
		p.checkTidy(c.t, kind)
		after, _ = p.holds(c.t)
	case 3:
	default:
		return kind
	}
	for _, to := range []Kind{other(c.from), c.from} {
		_, err := p.migrate(to)
		require.NoError(c.t, err)
		p.checkTidy(c.t, to)
		again, found := p.holds(c.t)
		require.Equal(c.t, to, found)
		require.Equal(c.t, after, again)
	}
	return kind
}

// migrateImagesMax is the maximum number of states that the test tries after one power cut.
const migrateImagesMax = 6

// The test cuts the power at each call of the disk with the segments. There is such a call before and after each transaction
// in raft.db. The disk may keep any part of the unsynced data. The store is always whole in one of its two places.
func TestMigrate_EachCrash(t *testing.T) {
	for _, row := range []struct {
		from Kind
		of   string
	}{
		{KindBolt, "a compacted log"}, {KindBolt, "an empty log after a snapshot"}, {KindSegments, "a compacted log"},
	} {
		t.Run(fmt.Sprint(row.of, ", from ", row.from), func(t *testing.T) {
			from := row.from
			c := crashes(t, from, histories[row.of])
			images, found := 0, map[Kind]int{}
			for stop, ended := 0, false; !ended; stop++ {
				tree := c.tree.Clone()
				p := c.on(tree, c.file)
				tree.StopAfter(stop)
				_, err := p.migrate(other(from))
				ended = err == nil
				file, err := os.ReadFile(filepath.Join(c.dir, BoltFile))
				require.NoError(t, err)
				crashdisk.EveryImage(tree, migrateImagesMax, func(image *crashdisk.Tree) {
					c.on(image, file)
					images++
					found[c.check(image, images)]++
				})
			}
			t.Logf("%d images: %v", images, found)
			require.Positive(t, found[KindBolt])
			require.Positive(t, found[KindSegments])
		})
	}
}

// Each call of the disk with the segments fails in turn.
func TestMigrate_EachError(t *testing.T) {
	for _, from := range bothKinds {
		c := crashes(t, from, histories["a compacted log"])
		failed := 0
		for call := 1; ; call++ {
			failure := []error{syscall.EIO, syscall.ENOSPC}[call%2]
			tree := c.tree.Clone()
			p := c.on(tree, c.file)
			began := tree.Calls()
			tree.FailAt(call, failure)
			_, err := p.migrate(other(from))
			if tree.Calls()-began < call {
				break
			}
			if err != nil {
				require.ErrorIs(t, err, failure)
				failed++
			}
			tree.FailAt(1<<30, nil)
			kind := c.check(tree, call)
			require.Equal(t, err == nil || errors.Is(err, ErrUnfinished), kind == other(from))
		}
		t.Logf("from %s: %d calls failed", from, failed)
		require.Greater(t, failed, 10)
	}
}

// Each sync of a real file system fails in turn, including the syncs of bbolt. After the failure the test cuts the power.
func TestMigrate_EachSync(t *testing.T) {
	root, disk := forgetfulDisk(t)
	for _, from := range bothKinds {
		all := 0
		for _, repeated := range []bool{false, true} {
			ended, found := false, map[Kind]int{}
			for syncs := max(all-5, 0); !ended; syncs++ { // if repeated, only the last syncs: earlier ones precede the switch
				all = syncs
				p := place{files.OS, filepath.Join(root, fmt.Sprint(from, syncs, repeated))}
				p.fill(t, from, []act{writes(aBootstrap()), appends(raft.EntryID{Index: 1}, 1, 8)})
				before, _ := p.holds(t)
				require.NoError(t, disk.FailSyncs(syncs))
				_, err := p.migrate(other(from))
				ended = err == nil
				require.NoError(t, disk.FailSyncs(-1))
				p.requireHolds(t, before)
				if repeated { // before the power fails: Migrate must not rely on what it only read
					_, err := p.migrate(other(from))
					require.NoError(t, err)
				}
				cut := disk.PowerCut
				if syncs%2 == 1 {
					cut = func() error { return disk.PowerCutKeeping(uint64(syncs)) }
				}
				require.NoError(t, cut())
				found[p.requireHolds(t, before)]++
				_, err = p.migrate(other(from))
				require.NoError(t, err)
				require.Equal(t, other(from), p.requireHolds(t, before))
				p.checkTidy(t, other(from))
				require.NoError(t, os.RemoveAll(p.dir))
			}
			t.Logf("from %s, repeated %v: %v", from, repeated, found)
			require.Positive(t, found[other(from)])
		}
	}
}

func (p place) requireHolds(t *testing.T, want held) Kind {
	t.Helper()
	found, kind := p.holds(t)
	require.Equal(t, want, found)
	return kind
}

// The next start removes the left-overs of an interrupted call, and names them.
func TestMigrate_AStartNamesWhatItRemoves(t *testing.T) {
	for _, from := range bothKinds {
		c := crashes(t, from, whole)
		p := c.on(c.tree, nil)
		var killed []byte
		_, err := migrateOn(t.Context(), p.disk, p.dir, other(from), MigrateOptions{SegmentBytes: 4 << 10, copyBytes: 2 << 10, Progress: func(copied, _ uint64) {
			if copied > 0 && killed == nil {
				killed, _ = os.ReadFile(filepath.Join(c.dir, BoltFile))
				c.tree.StopAfter(0)
			}
		}})
		require.Error(t, err)
		c.tree.StopAfter(-1)
		p = c.on(c.tree, killed)
		require.NotEmpty(t, p.starts(t, from).LeftOver)
		p.checkTidy(t, from)
		require.Empty(t, p.starts(t, from).LeftOver)
	}
}

// The store records that the moved log is durable. So a start never mistakes damage to the moved log for an interrupted
// write.
func TestMigrate_DamageToWhatWasMovedIsRefused(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindBolt, []act{writes(aBootstrap()), appends(raft.EntryID{Index: 1}, 1, 3)})
	_, err := p.migrate(KindSegments)
	require.NoError(t, err)
	changed(t, p.dir, segmentsBucket, recordKey, func(b []byte) []byte {
		c, err := segments.DecodeCatalog(b[1 : len(b)-checksumBytes])
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Commit)
		require.Greater(t, c.Synced, int64(512))
		return b
	})
	flipped(t, segment(p.dir, 1), 512+3)
	_, err = loadedLog(t, p.dir)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
}
