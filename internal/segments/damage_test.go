package segments_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// closedLog returns a log of several segments whose owner has closed it.
func closedLog(t *testing.T) (*crashdisk.Tree, *script) {
	tree := newTree()
	s := newScript(tree.FS())
	require.NoError(t, s.run([]act{
		starts(), appends(0, 1, 20), appends(0, 1, 20), prepares(), appends(3, 2, 12), compacts(24), appends(0, 2, 6), appends(0, 3, 2), closes(),
	}))
	require.Len(t, s.catalog.Listed, 4)
	return tree, s
}

// closes returns an act that closes the log as its owner does. It first records in both places how far the log is durable.
func closes() act {
	return func(s *script) error {
		return errors.Join(s.log.Mark(), s.keep(s.log.Catalog()), s.log.Close())
	}
}

func (s *script) path(k int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x.seg", s.catalog.Listed[k].Number))
}

// change rewrites a file.
func change(t *testing.T, disk files.FS, path string, edit func(b []byte) []byte) {
	t.Helper()
	f, err := disk.OpenWrite(path)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, disk.Remove(path))
	f, err = disk.Create(path)
	require.NoError(t, err)
	_, err = f.WriteAt(edit(b), 0)
	require.NoError(t, err)
}

// content returns the bytes of a file.
func content(t *testing.T, disk files.FS, path string) (b []byte) {
	change(t, disk, path, func(was []byte) []byte { b = was; return was })
	return b
}

// sealHead gives an edited head the correct checksum.
func sealHead(b []byte) []byte {
	const used = 48
	binary.LittleEndian.PutUint32(b[used:], crc32.Checksum(b[:used], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// If a bit of a closed log is flipped, Recover finds the damage, or the log is the same as before. No damaged byte leads to a
// different log.
func TestDamage_EachByte(t *testing.T) {
	tree, s := closedLog(t)
	found := 0
	for k, listed := range s.catalog.Listed {
		for offset := range listed.Bytes {
			image := tree.Clone()
			change(t, image.FS(), s.path(k), func(b []byte) []byte { b[offset] ^= 1 << (offset % 8); return b })
			after := s.on(image.FS())
			err := starts()(after)
			if err == nil {
				require.NoError(t, s.acked.differs(after.log), "byte %d of segment %d", offset, k+1)
				continue
			}
			found++
			var corrupt *raft.CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d of segment %d", offset, k+1)
			require.Equal(t, s.path(k), corrupt.File, "byte %d of segment %d: %v", offset, k+1, err)
			require.Contains(t, corrupt.Where, "offset ")
		}
	}
	require.Greater(t, found, 3000)
}

// The log is damaged while it is open. A reader finds the damage when it reads the bytes.
func TestDamage_WhenItIsRead(t *testing.T) {
	_, s := closedLog(t)
	require.NoError(t, s.resume())
	f, err := s.disk.OpenWrite(s.path(1))
	require.NoError(t, err)
	found := 0
	for offset := int64(512); offset < s.catalog.Listed[1].End; offset++ {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, offset)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 0x10}, offset)
		require.NoError(t, err)
		if err := s.acked.differs(s.log); err != nil {
			var corrupt *raft.CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d", offset)
			require.Equal(t, s.path(1), corrupt.File)
			found++
		}
		_, err = f.WriteAt(b, offset)
		require.NoError(t, err)
	}
	require.Greater(t, found, 500)
	require.NoError(t, s.acked.differs(s.log))
}

func TestDamage_IsRefusedWithItsPlace(t *testing.T) {
	rename := func(from, to int) func(*testing.T, *script) {
		return func(t *testing.T, s *script) {
			b := content(t, s.disk, s.path(from))
			require.NoError(t, s.disk.Remove(s.path(from)))
			change(t, s.disk, s.path(to), func([]byte) []byte { return b })
		}
	}
	edit := func(k int, edit func(b []byte) []byte) func(*testing.T, *script) {
		return func(t *testing.T, s *script) { change(t, s.disk, s.path(k), edit) }
	}
	zero := func(from int) func([]byte) []byte { return func(b []byte) []byte { clear(b[from:]); return b } }
	for name, row := range map[string]struct {
		damage func(t *testing.T, s *script)
		want   string
	}{
		"missing":      {func(t *testing.T, s *script) { require.NoError(t, s.disk.Remove(s.path(1))) }, "#1 is missing"},
		"the last one": {func(t *testing.T, s *script) { require.NoError(t, s.disk.Remove(s.path(3))) }, "#3 is missing"},
		"another's":    {edit(1, func(b []byte) []byte { b[32]++; return sealHead(b) }), "#1 is damaged at offset 0: it is a segment of incarnation"},
		"doubled": {func(t *testing.T, s *script) {
			b := content(t, s.disk, s.path(0))
			edit(1, func([]byte) []byte { return b })(t, s)
		}, "#1 is damaged at offset 0: it is segment"},
		"renamed":                            {rename(1, 2), "#1 is missing"},
		"swapped":                            {swap(1, 2), "#1 is damaged at offset 0: it is segment"},
		"a later format":                     {edit(2, func(b []byte) []byte { b[8]++; return sealHead(b) }), "the head of the segment in #2 was written by a later release"},
		"another use":                        {edit(2, func(b []byte) []byte { b[24]++; return sealHead(b) }), "#2 is damaged at offset 0: it is another use of the file"},
		"zeros":                              {edit(1, zero(0)), "#1 is damaged at offset 0"},
		"zeros after its head":               {edit(1, zero(512)), "#1 is damaged at offset 512"},
		"the last one, zeros after its head": {edit(3, zero(512)), "#3 is damaged at offset 512"},
		"cut short":                          {edit(0, func(b []byte) []byte { return b[:700] }), "#0 is damaged at offset 700: the file is cut short"},
		"empty":                              {edit(2, func([]byte) []byte { return nil }), "#2 is damaged at offset 0: cut short: it has 0 bytes, and its head takes"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, s := closedLog(t)
			row.damage(t, s)
			before := tree.Clone()
			err := starts()(s)
			for k := range s.catalog.Listed {
				row.want = strings.ReplaceAll(row.want, fmt.Sprintf("#%d", k), s.path(k))
			}
			require.ErrorContains(t, err, row.want)
			var corrupt *raft.CorruptError
			var later *raft.LaterVersionError
			assert.True(t, errors.As(err, &corrupt) || errors.As(err, &later), "%v", err)
			assert.Equal(t, listing(t, before.FS()), listing(t, tree.FS()), "nothing was changed")
		})
	}
}

func swap(i, k int) func(*testing.T, *script) {
	return func(t *testing.T, s *script) {
		first, second := content(t, s.disk, s.path(i)), content(t, s.disk, s.path(k))
		change(t, s.disk, s.path(i), func([]byte) []byte { return second })
		change(t, s.disk, s.path(k), func([]byte) []byte { return first })
	}
}

func listing(t *testing.T, disk files.FS) string {
	list, err := disk.List(dir)
	require.NoError(t, err)
	var b strings.Builder
	for _, info := range list {
		fmt.Fprintf(&b, "%s %x\n", info.Name, content(t, disk, filepath.Join(dir, info.Name)))
	}
	return b.String()
}

// An unlisted file is either left over from a crash, or an operator has put it there.
func TestDamage_UnlistedFiles(t *testing.T) {
	for name, row := range map[string]struct {
		number int
		edit   func(b []byte) []byte
		want   string
	}{
		"a copy":              {9, func(b []byte) []byte { return b }, ", which this store does not list under that name (if it was copied there, moving it away is enough)"},
		"one in use":          {9, func(b []byte) []byte { b[16] = 9; return sealHead(b) }, "the list of segments lacks it: that list is an older copy"},
		"another's":           {9, func(b []byte) []byte { b[16], b[32] = 9, 0; return sealHead(b) }, ", which this store does not list"},
		"of no store":         {9, func([]byte) []byte { return []byte("hi") }, "and this store does not list it (if it was copied there, moving it away is enough)"},
		"one that was pruned": {1, func(b []byte) []byte { b[16] = 1; return sealHead(b) }, ""},
		"one that is ready":   {9, func(b []byte) []byte { b[16] = 9; clear(b[512:]); return sealHead(b) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := closedLog(t)
			b := row.edit(content(t, s.disk, s.path(3)))
			path := filepath.Join(dir, fmt.Sprintf("%016x.seg", row.number))
			f, err := s.disk.Create(path)
			require.NoError(t, err)
			_, err = f.WriteAt(b, 0)
			require.NoError(t, err)
			if err := starts()(s); row.want != "" {
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, s.acked.differs(s.log))
			_, err = s.disk.Open(path)
			require.Error(t, err, "the file was removed")
		})
	}
}

// The last segment may lose all bytes after an offset, and the segment itself then shows no trace of the loss. The owner's
// record shows it.
func TestDamage_ALogThatIsCutShort(t *testing.T) {
	tree, s := closedLog(t)
	for offset := int64(512); offset < s.catalog.Synced; offset += 8 {
		image := tree.Clone()
		change(t, image.FS(), s.path(3), func(b []byte) []byte { clear(b[offset:]); return b })
		var corrupt *raft.CorruptError
		require.ErrorAs(t, starts()(s.on(image.FS())), &corrupt, "offset %d", offset)
		require.Equal(t, s.path(3), corrupt.File)
	}
	s.catalog.Synced = 512
	change(t, s.disk, s.path(3), func(b []byte) []byte { clear(b[512:]); return b })
	require.ErrorContains(t, starts()(s), "was durable and committed up to entry")
}

// A torn write may lose only the last batch, and Recover reports the loss.
func TestRecover_NamesATornBatch(t *testing.T) {
	s := newScript(newTree().FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 3), appends(0, 1, 2)}))
	kept := model{entries: s.acked.entries[:3]}
	end := s.log.Catalog().Synced
	last := len(s.catalog.Listed) - 1
	change(t, s.disk, s.path(last), func(b []byte) []byte { b[end-20] ^= 1; return b })
	l, found, err := s.open()
	require.NoError(t, err)
	require.NoError(t, kept.differs(l))
	require.NotNil(t, found.Torn)
	assert.Equal(t, s.path(last), found.Torn.File)
	assert.ErrorContains(t, found.Torn.Reason, "record: checksum does not match")
	require.NoError(t, l.Close())
	_, found, err = s.open()
	require.NoError(t, err)
	assert.Nil(t, found.Torn, "the torn batch is gone")
}

// If the segment has no room for a mark, the catalog holds the mark. Then Recover also finds damage to the last batch.
func TestDamage_WhereNoMarkFits(t *testing.T) {
	tree := newTree()
	s := newScript(tree.FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 20)}))
	for range 1000 { // until only the catalog has room for the mark
		if require.NoError(t, s.log.Mark()); s.catalog.Synced > 512 {
			break
		}
		require.NoError(t, s.run([]act{appends(0, 1, 1)}))
	}
	require.Greater(t, s.catalog.Synced, int64(512))
	at := int(s.catalog.Synced) - 1
	require.NoError(t, s.log.Close())
	change(t, tree.FS(), s.path(len(s.catalog.Listed)-1), func(b []byte) []byte { b[at-8] ^= 1; return b })
	_, _, err := s.open()
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
}

// The list of segments is lost, but the segments are still there. A new store beside them must not begin an empty log.
func TestDamage_TheListIsLost(t *testing.T) {
	_, s := closedLog(t)
	before := listing(t, s.disk)
	lost := newHome(s.disk)
	l := segments.New(lost.disk, lost.dir, lost.sizes, segments.Owner{Keep: lost.keep})
	_, err := l.Recover(t.Context(), member+1, lost.catalog, lost.base)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.ErrorContains(t, err, "has no log yet (if the file with the list of segments was removed, putting it back is enough)")
	assert.Equal(t, before, listing(t, s.disk), "nothing was changed")
}
