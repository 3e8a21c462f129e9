package snapfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

const dirPath = "data/snapshots"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// described returns the description of a snapshot that consists of the data.
func described(number byte, data []byte) raft.Snapshot {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: 7}
	return raft.Snapshot{
		Base: raft.Base{
			ID: raft.EntryID{Term: 3, Index: 100 * raft.Index(number)}, Time: 12, Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(),
			ConfigIndex: 1, Config: raft.NewConfiguration([]raft.Member{n1}),
		},
		File: raft.SnapshotID{number, 0xab}, Size: int64(len(data)), Sum: crc32.Checksum(data, castagnoli),
	}
}

// payload returns random bytes, so that no two blocks are equal.
func payload(size int) []byte {
	data := make([]byte, size)
	random := rand.New(rand.NewPCG(uint64(size), 1))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

func openDir(t testing.TB, disk files.FS) *snapfile.Dir {
	t.Helper()
	require.NoError(t, disk.MakeDir(dirPath))
	return snapfile.Open(disk, dirPath)
}

// written writes a whole file, in pieces of that size.
func written(t testing.TB, d *snapfile.Dir, s raft.Snapshot, data []byte, piece int) {
	t.Helper()
	w, err := d.Create(s.File)
	require.NoError(t, err)
	for p := range slices.Chunk(data, piece) {
		n, err := w.Write(p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
	}
	require.NoError(t, w.Finish(s))
	require.NoError(t, w.Abort(), "Abort does nothing after Finish")
}

// content reads the snapshot that the record names.
func content(d *snapfile.Dir, record raft.Snapshot) ([]byte, error) {
	r, err := d.OpenRecorded(record)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return data, errors.Join(err, r.Close())
}

func names(t *testing.T, disk files.FS) []string {
	t.Helper()
	list, err := disk.List(dirPath)
	require.NoError(t, err)
	var all []string
	for _, info := range list {
		all = append(all, info.Name)
	}
	return all
}

func TestDir_KeepsWhatWasWritten(t *testing.T) {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	for number, size := range []int{0, 1, 1000, 64 << 10, 64<<10 + 1, 200_000, 3 << 20} {
		data := payload(size)
		s := described(byte(number+1), data)
		written(t, d, s, data, 7001)
		got, err := content(d, s)
		require.NoError(t, err, "%d bytes", size)
		require.True(t, bytes.Equal(data, got), "%d bytes", size)
		r, err := d.OpenRead(s.File)
		require.NoError(t, err)
		assert.Equal(t, s, r.Snapshot())
		assert.EqualValues(t, size, r.Size())
		require.NoError(t, r.Close())
	}
}

func TestDir_CountsTheBytesUnderWay(t *testing.T) {
	d := openDir(t, crashdisk.New().FS())
	begin := func(number byte) *snapfile.Writer {
		w, err := d.Create(described(number, nil).File)
		require.NoError(t, err)
		_, err = w.Write(payload(200_000))
		require.NoError(t, err)
		return w
	}
	one, other := begin(1), begin(2)
	assert.InDelta(t, 400_000, d.UnderWay(), 128<<10, "except for an incomplete block")
	require.NoError(t, one.Abort())
	assert.InDelta(t, 200_000, d.UnderWay(), 64<<10)
	require.NoError(t, other.Finish(described(2, payload(200_000))))
	assert.Zero(t, d.UnderWay())
}

func TestReader_ReadsAnywhere(t *testing.T) {
	d := openDir(t, crashdisk.New().FS())
	data := payload(200_000)
	s := described(1, data)
	written(t, d, s, data, len(data))
	r, err := d.OpenRead(s.File)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		at, size := random.IntN(len(data)+10), random.IntN(100_000)
		p := make([]byte, size)
		n, err := r.ReadAt(p, int64(at))
		want := data[min(at, len(data)):min(at+size, len(data))]
		require.True(t, bytes.Equal(want, p[:n]))
		if n < size {
			require.Equal(t, io.EOF, err)
		} else {
			require.NoError(t, err)
		}
	}
	_, err = r.ReadAt(make([]byte, 1), -1)
	assert.Error(t, err)
	require.NoError(t, errors.Join(r.Close(), r.Close()))
	_, err = r.ReadAt(make([]byte, 1), 0)
	assert.ErrorIs(t, err, fs.ErrClosed)
}

func TestWriter_RefusesAnotherDescription(t *testing.T) {
	data := payload(1000)
	good := described(1, data)
	for what, change := range map[string]func(*raft.Snapshot){
		"another size":     func(s *raft.Snapshot) { s.Size++ },
		"another checksum": func(s *raft.Snapshot) { s.Sum++ },
		"another file":     func(s *raft.Snapshot) { s.File[0]++ },
		"bytes in memory":  func(s *raft.Snapshot) { s.Held = true },
		"no cluster":       func(s *raft.Snapshot) { s.Cluster = raft.ClusterID{} },
	} {
		disk := crashdisk.New().FS()
		d := openDir(t, disk)
		w, err := d.Create(good.File)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		bad := good
		change(&bad)
		require.Error(t, w.Finish(bad), what)
		assert.Error(t, w.Finish(good), "%s: after an error there is only Abort", what)
		_, err = w.Write(data)
		assert.Error(t, err)
		require.NoError(t, errors.Join(w.Abort(), w.Abort()))
		assert.Empty(t, names(t, disk), what)
	}
}

func TestCreate_OneFileIsWrittenOnce(t *testing.T) {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	data := payload(10)
	s := described(1, data)
	_, err := d.Create(raft.SnapshotID{})
	assert.ErrorContains(t, err, "not zero")
	w, err := d.Create(s.File)
	require.NoError(t, err)
	_, err = d.Create(s.File)
	assert.ErrorContains(t, err, "being written already")
	require.NoError(t, w.Abort())
	_, err = w.Write(data)
	assert.ErrorContains(t, err, "finished or aborted")
	written(t, d, s, data, 3)
	_, err = d.Create(s.File)
	assert.ErrorIs(t, err, fs.ErrExist)

	left, err := disk.Create(dirPath + "/" + described(2, nil).File.String() + ".part")
	require.NoError(t, err)
	require.NoError(t, left.Close())
	written(t, d, described(2, data), data, 3)
}

// Each call of the file system fails in turn. The Writer reports the error, and Abort leaves no file behind.
func TestWriter_EveryErrorIsReported(t *testing.T) {
	broken := errors.New("broken")
	data := payload(3 << 19) // more than syncBytes
	s := described(1, data)
	write := func(d *snapfile.Dir) (err error) {
		w, err := d.Create(s.File)
		if err != nil {
			return err
		}
		if _, err = w.Write(data); err == nil {
			err = w.Finish(s)
		}
		if err != nil {
			return errors.Join(err, w.Abort(), w.Abort())
		}
		return nil
	}
	failures := 0
	for {
		tree := crashdisk.New()
		d := openDir(t, tree.FS())
		tree.FailAt(failures+1, broken)
		err := write(d)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, broken)
		assert.Empty(t, names(t, tree.FS()), "call %d", failures+1)
		assert.Zero(t, d.UnderWay())
		require.NoError(t, write(d), "call %d: another attempt succeeds", failures+1)
		failures++
	}
	assert.Greater(t, failures, 28, "create, 24 blocks, head, end, syncs and names")

	tree := crashdisk.New()
	d := openDir(t, tree.FS())
	tree.Quota(1 << 20)
	require.ErrorIs(t, write(d), syscall.ENOSPC)
	assert.Zero(t, tree.Used())
	free, err := d.Free()
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, free)
}

func TestDiscard_WaitsForTheLastReader(t *testing.T) {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	data := payload(1000)
	s := described(1, data)
	written(t, d, s, data, 100)
	first, err := d.OpenRead(s.File)
	require.NoError(t, err)
	second, err := d.OpenRead(s.File)
	require.NoError(t, err)
	require.NoError(t, d.Discard(s.File))
	_, err = d.OpenRead(s.File)
	assert.ErrorIs(t, err, fs.ErrNotExist, "it can no longer be opened")
	require.NoError(t, first.Close())
	got := make([]byte, len(data))
	_, err = second.ReadAt(got, 0)
	require.NoError(t, err)
	assert.Equal(t, data, got)
	assert.Len(t, names(t, disk), 1)
	require.NoError(t, second.Close())
	assert.Empty(t, names(t, disk))
	require.NoError(t, d.Discard(s.File), "there is none")
	written(t, d, s, data, 100)
	require.NoError(t, d.Discard(s.File))
	assert.Empty(t, names(t, disk))
}

// Discard fails to delete a file. Afterwards no reader can open the file. A Writer can write it again, because a leader may
// send its snapshot once more.
func TestDiscard_ThatFailsDoesNotKeepTheFileFromBeingWrittenAgain(t *testing.T) {
	broken := errors.New("broken")
	data := payload(1000)
	s := described(1, data)
	for _, row := range []struct {
		name    string
		discard func(t *testing.T, d *snapfile.Dir, tree *crashdisk.Tree)
	}{
		{"at once", func(t *testing.T, d *snapfile.Dir, tree *crashdisk.Tree) {
			written(t, d, s, data, 100)
			tree.FailAt(1, broken)
			require.ErrorIs(t, d.Discard(s.File), broken)
		}},
		{"after the last reader", func(t *testing.T, d *snapfile.Dir, tree *crashdisk.Tree) {
			written(t, d, s, data, 100)
			r, err := d.OpenRead(s.File)
			require.NoError(t, err)
			require.NoError(t, d.Discard(s.File))
			_, err = d.Create(s.File)
			require.ErrorIs(t, err, fs.ErrExist, "the file has a reader")
			tree.FailAt(1, broken)
			require.ErrorIs(t, r.Close(), broken)
		}},
		{"after a Finish that failed", func(t *testing.T, d *snapfile.Dir, tree *crashdisk.Tree) {
			w, err := d.Create(s.File)
			require.NoError(t, err)
			_, err = w.Write(data)
			require.NoError(t, err)
			tree.FailSyncs(1) // the sync of the file succeeds, that of the directory fails
			require.Error(t, w.Finish(s))
			tree.FailSyncs(-1)
			tree.FailAt(1, broken)
			require.ErrorIs(t, w.Abort(), broken)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := crashdisk.New()
			d := openDir(t, tree.FS())
			row.discard(t, d, tree)
			require.Len(t, names(t, tree.FS()), 1)
			_, err := d.OpenRead(s.File)
			require.ErrorIs(t, err, fs.ErrNotExist)
			tree.FailAt(1, broken)
			_, err = d.Create(s.File)
			require.ErrorIs(t, err, broken, "the file cannot be deleted yet")
			written(t, d, s, data, 100)
			got, err := content(d, s)
			require.NoError(t, err)
			assert.Equal(t, data, got)
			require.NoError(t, d.Discard(s.File))
			assert.Empty(t, names(t, tree.FS()))
		})
	}
}

func TestClean_RemovesOnlyUnrecordedSnapshots(t *testing.T) {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	data := payload(100)
	kept, old, part := described(1, data), described(2, data), described(3, data)
	written(t, d, kept, data, 100)
	written(t, d, old, data, 100)
	_, err := d.Create(part.File)
	require.NoError(t, err)
	others := []string{"ab.snap", "notes.txt", part.File.String() + ".snap.old", "ABABABABABABABABABABABABABABABAB.snap"}
	for _, name := range others {
		_, err := disk.Create(dirPath + "/" + name)
		require.NoError(t, err)
	}
	removed, err := d.Clean(kept.File)
	require.NoError(t, err)
	assert.Equal(t, []string{old.File.String() + ".snap", part.File.String() + ".part"}, removed)
	assert.ElementsMatch(t, append(others, kept.File.String()+".snap"), names(t, disk))
	removed, err = d.Clean(raft.SnapshotID{})
	require.NoError(t, err)
	assert.Len(t, removed, 1, "without a record, the file is removed, too")
}

// The first file durably creates the directory.
func TestOpen_ADirectoryThatIsNotThereIsEmpty(t *testing.T) {
	tree := crashdisk.New()
	require.NoError(t, tree.FS().MakeDir("data"))
	tree.Quota(1 << 20)
	d := snapfile.Open(tree.FS(), dirPath)
	removed, err := d.Clean(raft.SnapshotID{})
	require.NoError(t, err)
	assert.Empty(t, removed)
	free, err := d.Free()
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, free)
	data := payload(10)
	s := described(1, data)
	_, err = d.OpenRead(s.File)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.Discard(s.File))
	written(t, d, s, data, 10)
	tree.Cut(crashdisk.KeepNothing)
	got, err := content(snapfile.Open(tree.FS(), dirPath), s)
	require.NoError(t, err)
	assert.Equal(t, data, got)
}

// damaged returns a directory with one file. The content of the file was changed.
func damaged(t testing.TB, file raft.SnapshotID, whole []byte) *snapfile.Dir {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	f, err := disk.Create(d.Path(file))
	require.NoError(t, err)
	_, err = f.WriteAt(whole, 0)
	require.NoError(t, err)
	return d
}

// image returns the bytes of a file.
func image(t testing.TB, s raft.Snapshot, data []byte) []byte {
	disk := crashdisk.New().FS()
	d := openDir(t, disk)
	written(t, d, s, data, len(data)+1)
	f, err := disk.Open(d.Path(s.File))
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	whole := make([]byte, size)
	_, err = f.ReadAt(whole, 0)
	require.NoError(t, err)
	return whole
}

// Each bit of a file matters, and so does the length of the file. For any change the error is a *CorruptError that names the
// file and a place in it.
func TestReader_EachDamage(t *testing.T) {
	data := payload(300)
	s := described(1, data)
	whole := image(t, s, data)
	check := func(what string, changed []byte) {
		d := damaged(t, s.File, changed)
		_, err := content(d, s)
		var corrupt *raft.CorruptError
		require.ErrorAs(t, err, &corrupt, what)
		assert.Equal(t, d.Path(s.File), corrupt.File)
		assert.NotEmpty(t, corrupt.Where)
		assert.ErrorContains(t, err, "keep the file for inspection")
		var later *raft.LaterVersionError
		assert.NotErrorAs(t, err, &later, what)
	}
	for bit := range len(whole) * 8 {
		changed := slices.Clone(whole)
		changed[bit/8] ^= 1 << (bit % 8)
		check(fmt.Sprintf("bit %d", bit), changed)
	}
	for size := range whole {
		check(fmt.Sprintf("cut to %d bytes", size), whole[:size])
	}
	check("a byte more", append(slices.Clone(whole), 0))
	check("a byte more before the end", slices.Insert(slices.Clone(whole), 40, 0))
}

// Sound blocks in the wrong place, or from another file, are damage, too.
func TestReader_ABlockBelongsToItsFileAndPlace(t *testing.T) {
	const headBytes, blockBytes = 30, 64<<10 + 4
	data, others := payload(3*64<<10), payload(3*64<<10+0)
	others[70_000]++
	s := described(1, data)
	whole, other := image(t, s, data), image(t, described(2, others), others)
	block := func(of []byte, k int) []byte { return of[headBytes+k*blockBytes : headBytes+(k+1)*blockBytes] }
	for what, change := range map[string]func([]byte){
		"two blocks are swapped": func(b []byte) {
			first := slices.Clone(block(b, 0))
			copy(block(b, 0), block(b, 1))
			copy(block(b, 1), first)
		},
		"a block of another file": func(b []byte) { copy(block(b, 1), block(other, 1)) },
	} {
		changed := slices.Clone(whole)
		change(changed)
		_, err := content(damaged(t, s.File, changed), s)
		var corrupt *raft.CorruptError
		require.ErrorAs(t, err, &corrupt, what)
		assert.Contains(t, corrupt.Where, "offset ")
	}
}

func TestOpenRecorded_SaysWhatIsInThePlaceOfTheSnapshot(t *testing.T) {
	data := payload(100)
	s := described(1, data)
	for _, row := range []struct {
		what  string
		dir   func() *snapfile.Dir
		wants []string
	}{
		{"missing", func() *snapfile.Dir { return openDir(t, crashdisk.New().FS()) },
			[]string{" is missing: the store has recorded this snapshot of entry 100@3"}},
		{"another file under its name", func() *snapfile.Dir { return damaged(t, s.File, image(t, described(2, data), data)) },
			[]string{"at its head", described(2, data).File.String() + " under the name of another"}},
		{"another entry", func() *snapfile.Dir {
			older := s
			older.ID.Index--
			return damaged(t, s.File, image(t, older, data))
		}, []string{"at its end", "a snapshot of entry 99@3", "recorded one of entry 100@3"}},
		{"other bytes", func() *snapfile.Dir {
			other := described(1, data[1:])
			return damaged(t, s.File, image(t, other, data[1:]))
		}, []string{"99 bytes", "100 bytes"}},
	} {
		d := row.dir()
		_, err := d.OpenRecorded(s)
		var corrupt *raft.CorruptError
		require.ErrorAs(t, err, &corrupt, row.what)
		assert.Equal(t, d.Path(s.File), corrupt.File)
		for _, want := range row.wants {
			assert.ErrorContains(t, err, want, row.what)
		}
	}
}

// resealed changes a part of the file and gives it the correct checksum, as a release that knows the change would write it.
func resealed(whole []byte, from, to int, sum func([]byte) uint32, change func([]byte)) []byte {
	b := slices.Clone(whole)
	change(b)
	binary.LittleEndian.PutUint32(b[to:], sum(b[from:to]))
	return b
}

func TestReader_TellsALaterReleaseFromDamage(t *testing.T) {
	data := payload(100)
	s := described(1, data)
	whole := image(t, s, data)
	from := 30 + len(data) + 4 // the description
	plain := func(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
	own := func(b []byte) uint32 { return crc32.Update(crc32.Checksum(s.File[:], castagnoli), castagnoli, b) }
	for _, row := range []struct {
		names string
		found uint64
		known uint64
		whole []byte
	}{
		{"the snapshot", 2, 1, resealed(whole, 0, 26, plain, func(b []byte) { b[8] = 2 })},
		{"the description of a snapshot", 9, 2, resealed(whole, from, len(whole)-4, own, func(b []byte) {
			at := bytes.Index(b, []byte(`"version":1`))
			b[at+len(`"version":`)] = '9'
		})},
	} {
		d := damaged(t, s.File, row.whole)
		_, err := d.OpenRecorded(s)
		var later *raft.LaterVersionError
		require.ErrorAs(t, err, &later, row.names)
		assert.Equal(t, raft.LaterVersionError{File: d.Path(s.File), Record: row.names, Found: row.found, Known: row.known}, *later)
		var corrupt *raft.CorruptError
		assert.NotErrorAs(t, err, &corrupt)
	}
}

// If a read fails, nobody knows whether the bytes on the disk are damaged. So the error does not report damage.
func TestReader_AReadThatFailsIsNotDamage(t *testing.T) {
	broken := errors.New("broken")
	data := payload(100)
	s := described(1, data)
	tree := crashdisk.New()
	d := openDir(t, tree.FS())
	written(t, d, s, data, 100)
	for k := 1; ; k++ {
		tree.FailAt(k, broken)
		_, err := content(d, s)
		if err == nil {
			assert.Equal(t, 6, k, "open, head, twice the end, one block")
			break
		}
		require.ErrorIs(t, err, broken)
		var corrupt *raft.CorruptError
		require.NotErrorAs(t, err, &corrupt)
	}
}

// A file that could not be opened has no reader, so it is removed when it is discarded. No file stays open.
func TestDir_AFileThatCouldNotBeOpenedIsDiscarded(t *testing.T) {
	tree := crashdisk.New()
	d := openDir(t, tree.FS())
	data := payload(1000)
	s := described(1, data)
	written(t, d, s, data, 100)
	tree.FailOpens(0)
	_, err := d.OpenRead(s.File)
	require.Error(t, err)
	tree.FailOpens(-1)
	require.NoError(t, d.Discard(s.File))
	_, err = tree.FS().Open(d.Path(s.File))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Zero(t, tree.OpenFiles())
}
