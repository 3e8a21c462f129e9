package crashdisk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
)

// put writes a whole file, and syncs neither the file nor its name.
func put(t *testing.T, disk files.FS, name, text string) files.File {
	t.Helper()
	f, err := disk.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	require.NoError(t, err)
	return f
}

func text(t *testing.T, disk files.FS, name string) string {
	t.Helper()
	f, err := disk.Open(name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	read := make([]byte, size)
	_, err = f.ReadAt(read, 0)
	require.NoError(t, err)
	return string(read)
}

func TestTree_ForgetsWhatWasNotSynced(t *testing.T) {
	tree := crashdisk.New()
	before := tree.FS()
	require.NoError(t, before.MakeDir("/data"))
	f := put(t, before, "/data/kept", "synced")
	require.NoError(t, f.Sync())
	put(t, before, "/data/lost", "its name was never synced")
	require.NoError(t, before.Remove("/data/lost"))
	require.NoError(t, before.SyncDir("/data"))
	put(t, before, "/data/lost", "again")
	require.NoError(t, before.Rename("/data/kept", "/data/renamed"))
	_, err := f.WriteAt([]byte("SYNCED and more"), 0)
	require.NoError(t, err)
	assert.Equal(t, "SYNCED and more", text(t, before, "data/renamed"), "a killed process loses nothing")

	tree.Cut(crashdisk.KeepNothing)
	after := tree.FS()
	list, err := after.List("data")
	require.NoError(t, err)
	assert.Equal(t, []files.Info{{Name: "kept", Bytes: 6}}, list)
	assert.Equal(t, "synced", text(t, after, "data/kept"))
	_, err = f.WriteAt([]byte("x"), 0)
	assert.ErrorIs(t, err, crashdisk.ErrPowerOff)
	_, err = before.List("data")
	assert.ErrorIs(t, err, crashdisk.ErrPowerOff)
}

// images cuts the power once for each sequence of answers that Cut may get. It counts the images by the size that the file
// has in them.
func images(t *testing.T, tree *crashdisk.Tree, name string) map[string]int {
	found := map[string]int{}
	crashdisk.EveryImage(tree, 1000, func(image *crashdisk.Tree) {
		f, err := image.FS().Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			found["none"]++
			return
		}
		require.NoError(t, err)
		size, _ := f.Size()
		found[fmt.Sprint(size)]++
	})
	return found
}

func TestEveryImage_TriesEveryAnswer(t *testing.T) {
	tree := crashdisk.New()
	disk := tree.FS()
	f := put(t, disk, "f", string(make([]byte, 1000)))
	assert.Equal(t, map[string]int{"none": 1, "0": 1, "512": 1, "1000": 6}, images(t, tree, "f"),
		"the name; then the size and two blocks, of which the last one ends the file")
	require.NoError(t, disk.SyncDir("/"))
	assert.Equal(t, map[string]int{"0": 1, "512": 1, "1000": 6}, images(t, tree, "f"))
	require.NoError(t, f.Sync())
	assert.Equal(t, map[string]int{"1000": 1}, images(t, tree, "f"))
	assert.Equal(t, 4, crashdisk.EveryImage(withUnsynced(t, 20), 4, func(*crashdisk.Tree) {}), "bounded")
}

// withUnsynced returns a disk with one file, which consists of the given number of unsynced blocks.
func withUnsynced(t *testing.T, blocks int) *crashdisk.Tree {
	tree := crashdisk.New()
	put(t, tree.FS(), "f", string(make([]byte, 512*blocks)))
	return tree
}

func TestTree_AQuotaBoundsAllFiles(t *testing.T) {
	tree := crashdisk.New()
	tree.Quota(4 * 512)
	disk := tree.FS()
	f := put(t, disk, "f", string(make([]byte, 3*512-1)))
	free, err := disk.Free("/")
	require.NoError(t, err)
	assert.EqualValues(t, 512, free)
	assert.EqualValues(t, 3*512, tree.Used())
	_, err = f.WriteAt([]byte("more than one block"), 4*512-10)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorContains(t, err, "write f")
	size, err := f.Size()
	require.NoError(t, err)
	assert.EqualValues(t, 3*512-1, size, "nothing was written")
	_, err = f.WriteAt([]byte("over what is there"), 0)
	require.NoError(t, err)
	require.NoError(t, disk.Remove("f"))
	put(t, disk, "g", string(make([]byte, 4*512)))
	tree.Quota(512)
	free, err = disk.Free("/")
	require.NoError(t, err)
	assert.Zero(t, free)
}

func TestTree_FailsOnRequest(t *testing.T) {
	tree := crashdisk.New()
	disk := tree.FS()
	f := put(t, disk, "f", "text")
	broken := errors.New("broken")
	tree.FailAt(2, broken)
	require.NoError(t, f.Sync())
	_, err := f.WriteAt([]byte("TEXT"), 0)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "text", text(t, disk, "f"), "once")

	before := tree.Calls()
	tree.StopAfter(1)
	require.NoError(t, f.Sync())
	for range 2 {
		assert.ErrorIs(t, f.Sync(), crashdisk.ErrPowerOff)
	}
	assert.Equal(t, before+1, tree.Calls())
	tree.Cut(crashdisk.KeepNothing)
	_, err = tree.FS().List("/")
	assert.NoError(t, err)

	tree.FailSyncs(1)
	require.NoError(t, tree.FS().SyncDir("/"))
	assert.ErrorIs(t, tree.FS().SyncDir("/"), syscall.EIO)
	tree.FailSyncs(-1)
	require.NoError(t, tree.FS().SyncDir("/"))
	tree.Fill(true)
	_, err = tree.FS().Create("g")
	assert.ErrorIs(t, err, syscall.ENOSPC)
	tree.Fill(false)

	disk = tree.FS()
	put(t, disk, "f", "text")
	tree.FailOpens(1)
	_, err = disk.Open("f")
	require.NoError(t, err)
	for _, call := range []func() error{
		func() error { _, err := disk.Create("h"); return err },
		func() error { _, err := disk.Open("f"); return err },
		func() error { _, err := disk.OpenWrite("f"); return err },
		func() error { _, err := disk.List("/"); return err },
		func() error { return disk.SyncDir("/") },
	} {
		assert.ErrorIs(t, call(), syscall.EMFILE)
	}
	require.NoError(t, disk.Rename("f", "i"))
	tree.Kill()
	assert.Equal(t, "text", text(t, tree.FS(), "i"))
}

func TestTree_ACloneIsIndependent(t *testing.T) {
	tree := crashdisk.New()
	disk := tree.FS()
	require.NoError(t, disk.MakeDir("a/b"))
	f := put(t, disk, "a/b/f", "synced")
	require.NoError(t, errors.Join(f.Sync(), disk.SyncDir("a/b")))
	_, err := f.WriteAt([]byte("SYNCED"), 0)
	require.NoError(t, err)

	clone := tree.Clone()
	require.NoError(t, disk.Remove("a/b/f"))
	assert.Equal(t, "SYNCED", text(t, clone.FS(), "a/b/f"))
	clone.Cut(crashdisk.KeepNothing)
	assert.Equal(t, "synced", text(t, clone.FS(), "a/b/f"), "unsynced content was copied as unsynced")
	_, err = disk.Open("a/b/f")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTree_RefusesAsAFileSystemDoes(t *testing.T) {
	disk := crashdisk.New().FS()
	put(t, disk, "f", "text")
	require.NoError(t, disk.MakeDir("d/e"))
	for _, row := range []struct {
		what string
		call func() error
		want error
	}{
		{"a name that exists", func() error { _, err := disk.Create("f"); return err }, fs.ErrExist},
		{"a directory that does not exist", func() error { _, err := disk.Create("x/f"); return err }, fs.ErrNotExist},
		{"a file as a directory", func() error { _, err := disk.Create("f/f"); return err }, syscall.ENOTDIR},
		{"a directory as a file", func() error { _, err := disk.Open("d"); return err }, syscall.EISDIR},
		{"the root as a file", func() error { _, err := disk.Open("/"); return err }, syscall.EISDIR},
		{"a file that does not exist", func() error { _, err := disk.Open("g"); return err }, fs.ErrNotExist},
		{"a rename of nothing", func() error { return disk.Rename("g", "h") }, fs.ErrNotExist},
		{"a rename over a full directory", func() error { return disk.Rename("f", "d") }, syscall.ENOTEMPTY},
		{"removing nothing", func() error { return disk.Remove("g") }, fs.ErrNotExist},
		{"removing a full directory", func() error { return disk.Remove("d") }, syscall.ENOTEMPTY},
		{"a directory in the place of a file", func() error { return disk.MakeDir("f") }, syscall.ENOTDIR},
		{"syncing a directory that does not exist", func() error { return disk.SyncDir("x") }, fs.ErrNotExist},
		{"space of a directory that does not exist", func() error { _, err := disk.Free("x"); return err }, fs.ErrNotExist},
	} {
		assert.ErrorIs(t, row.call(), row.want, row.what)
	}
	f, err := disk.Open("f")
	require.NoError(t, err)
	n, err := f.ReadAt(make([]byte, 9), 1)
	assert.Equal(t, 3, n)
	assert.Equal(t, io.EOF, err)
}

// TestTree_CountsAFileOnceWhateverItsNames compares the number of bytes that count against the quota with the content of the
// disk. It does so after renames, second names, removals and cuts. Each cut keeps a random half of the unsynced changes.
func TestTree_CountsAFileOnceWhateverItsNames(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		tree := crashdisk.New()
		for range 60 {
			life := tree.Life()
			name, other := string(rune('a'+random.IntN(4))), string(rune('a'+random.IntN(4)))
			switch random.IntN(8) {
			case 0, 1:
				_, _ = life.Create(tree.Root(), name)
			case 2, 3:
				if o, err := life.Lookup(tree.Root(), name); err == nil {
					require.NoError(t, life.Resize(o.(*crashdisk.File), int64(random.IntN(4*512))))
					_ = life.Link(tree.Root(), other, o.(*crashdisk.File))
				}
			case 4:
				_ = life.Rename(tree.Root(), name, tree.Root(), other)
			case 5:
				_ = life.Remove(tree.Root(), name)
			case 6:
				require.NoError(t, life.SyncDir(tree.Root()))
			case 7:
				if random.IntN(3) == 0 {
					tree.Cut(crashdisk.KeepHalf(random.Uint64()))
				}
			}
			require.Equal(t, bytesOfFiles(t, tree), tree.Used(), "seed %d", seed)
		}
	}
}

func bytesOfFiles(t *testing.T, tree *crashdisk.Tree) (used int64) {
	life := tree.Life()
	list, err := life.List(tree.Root())
	require.NoError(t, err)
	seen := map[crashdisk.Object]bool{}
	for _, n := range list {
		if !seen[n.Object] {
			used += (life.Size(n.Object) + 511) / 512 * 512
		}
		seen[n.Object] = true
	}
	return used
}
