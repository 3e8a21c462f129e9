package segments_test

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// A sync of the log waits for what is written beside it: a segment of zeros that is synced at once would stop every caller.
func TestPrepare_NeverLeavesMuchToOneSync(t *testing.T) {
	disk := &counted{FS: newTree().FS()}
	s := newScript(disk)
	s.sizes.FirstBytes, s.sizes.SegmentBytes, s.sizes.BufferBytes = 3<<20, 3<<20, 192<<10
	require.NoError(t, starts()(s))
	require.NoError(t, prepares()(s))
	assert.Equal(t, int64(3<<20), disk.written)
	assert.LessOrEqual(t, disk.most, int64(5<<18))
}

// counted counts the bytes that are written to the files it creates, and the most of them between two syncs.
type counted struct {
	files.FS
	written, unsynced, most int64
	allocates               bool
}

func (c *counted) Create(name string) (files.File, error) {
	f, err := c.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &countedFile{f, c}, nil
}

type countedFile struct {
	files.File
	c *counted
}

func (f *countedFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.c.written = max(f.c.written, at+int64(n))
	f.c.unsynced += int64(n)
	f.c.most = max(f.c.most, f.c.unsynced)
	return n, err
}

func (f *countedFile) Allocate(size int64) error {
	if !f.c.allocates {
		return errors.ErrUnsupported
	}
	return f.File.Allocate(size)
}

func (f *countedFile) Sync() error {
	f.c.unsynced = 0
	return f.File.Sync()
}

// The log comes first while a segment is filled beside it, unless it would soon have to wait for that segment.
func TestPrepare_PausesWhileThereIsTime(t *testing.T) {
	const parts, segment = 16, 64 << 10
	for name, row := range map[string]struct {
		written int64 // of the present segment
		rests   int
	}{
		"an idle log":                {written: 1 << 10, rests: parts - 1},
		"half of the time is over":   {written: segment / 2, rests: parts / 2},
		"the segment is nearly full": {written: segment * 15 / 16},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(&counted{FS: newTree().FS()}) // which allocates nothing
			h.sizes.FirstBytes, h.sizes.SegmentBytes = segment, segment
			h.sizes.BufferBytes, h.sizes.FillBytes = segment/parts/2, segment/parts
			l := opened(t, h)
			for last := l.Last(); l.Bytes() < row.written; last = l.Last() {
				require.NoError(t, l.Append(last, entries(last, 1, 4), 0))
			}
			h.pauses = 0
			require.NoError(t, l.Prepare(0))
			assert.InDelta(t, row.rests, h.pauses, 1)
			require.NoError(t, l.Close())
		})
	}
}

// Zeros for a log that waits would take the disk from its entries, if these are many bytes.
func TestPrepare_WritesFewZerosInAHurry(t *testing.T) {
	const segment, fill = 512 << 10, 8 << 10
	for name, row := range map[string]struct {
		allocates bool
		entry     int   // bytes, and there is a sync for each
		zeros     int64 // bytes
	}{
		"large writes":                       {allocates: true, entry: 100 << 10, zeros: fill},
		"small writes":                       {allocates: true, entry: 10 << 10, zeros: segment},
		"a file system that cannot allocate": {entry: 100 << 10, zeros: segment},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &counted{FS: newTree().FS(), allocates: row.allocates}
			h := newHome(disk)
			h.sizes = segments.Sizes{FirstBytes: segment, SegmentBytes: segment, BufferBytes: 1 << 10, FillBytes: fill}
			l := opened(t, h)
			disk.written = 0
			for last := l.Last(); disk.written == 0; last = l.Last() {
				require.NoError(t, l.Append(last, []raft.Entry{entry(last.Index+1, 1, row.entry)}, 0))
			}
			assert.Equal(t, row.zeros, disk.written)
			list, err := disk.List(h.dir)
			require.NoError(t, err)
			assert.Equal(t, []files.Info{{Name: "0000000000000001.seg", Bytes: segment}, {Name: "0000000000000002.seg", Bytes: segment}}, list)
		})
	}
}

// The segment after the next would be made in a hurry, and if there were no room for it, a log with an empty segment would be full.
func TestWanted_NotWhileAppendTakesTheSegment(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	moved := 0
	h.kept = func() {
		moved++
		assert.False(t, l.Wanted())
	}
	for last := l.Last(); moved < 3; last = l.Last() {
		require.NoError(t, l.Append(last, entries(last, 1, 4), 0))
	}
}

// A leader whose log is full proposes nothing, so that nothing else comes to pass which would have it tried again.
func TestWanted_UntilThereIsASegment(t *testing.T) {
	tree := newTree()
	h := newHome(tree.FS())
	h.sizes.FirstBytes, h.sizes.SegmentBytes = 16<<10, 16<<10
	l := opened(t, h)
	require.False(t, l.Wanted())
	tree.Fill(true)
	require.ErrorIs(t, l.Prepare(0), syscall.ENOSPC)
	assert.True(t, l.Wanted())
	tree.Fill(false)
	require.NoError(t, l.Prepare(0))
	assert.False(t, l.Wanted())
}

// Whoever closes the log does not wait until a segment of zeros is written that nobody needs.
func TestClose_EndsAFill(t *testing.T) {
	h := newHome(newTree().FS())
	h.sizes = segments.Sizes{FirstBytes: 256 << 10, SegmentBytes: 256 << 10, BufferBytes: 256, FillBytes: 256}
	l := opened(t, h)
	closed := make(chan error, 1)
	h.pauses, h.pause = 0, func() {
		if h.pauses == 1 {
			go func() { closed <- l.Close() }()
		}
		runtime.Gosched()
	}
	require.ErrorIs(t, l.Prepare(0), segments.ErrClosed)
	require.NoError(t, <-closed)
	list, err := h.disk.List(h.dir)
	require.NoError(t, err)
	assert.Len(t, list, 1, "nothing is left of it")
}

// A leader refuses proposals until there is a segment.
func TestPrepare_DoesNotPauseAfterAFullDisk(t *testing.T) {
	tree := newTree()
	h := newHome(tree.FS())
	h.sizes.FirstBytes, h.sizes.SegmentBytes, h.sizes.BufferBytes, h.sizes.FillBytes = 16<<10, 16<<10, 1<<10, 1<<10
	l := opened(t, h)
	tree.Fill(true)
	require.ErrorIs(t, l.Prepare(0), syscall.ENOSPC)
	tree.Fill(false)
	h.pauses = 0
	require.NoError(t, l.Prepare(0))
	assert.Zero(t, h.pauses)
}

// A segment that is made in advance leaves room for a snapshot. One that the log waits for takes that, too.
func TestPrepare_LeavesTheReserve(t *testing.T) {
	tree := newTree()
	h := newHome(tree.FS())
	h.sizes.FirstBytes, h.sizes.SegmentBytes = 16<<10, 16<<10
	l := opened(t, h)
	used := tree.Used()
	h.reserve = 5000
	tree.Quota(used + 16<<10 + 4999)
	err := l.Prepare(0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorContains(t, err, "the next segment takes 16384 bytes, and 21383 are free, of which 5000 are left for the next snapshot")
	require.Error(t, l.Room())
	for tree.Used() == used { // until the log needs the next segment
		require.NoError(t, l.Append(l.Last(), entries(l.Last(), 1, 20), 0))
	}
	require.NoError(t, l.Room())

	tree.Quota(tree.Used() + 16<<10 + 5000)
	require.NoError(t, l.Prepare(0))
	require.NoError(t, l.Room())
}

func TestPrepare_DoesNotPauseWhileTheLogWaits(t *testing.T) {
	h := newHome(&counted{FS: newTree().FS()}) // which allocates nothing
	h.sizes = segments.Sizes{FirstBytes: 16 << 10, SegmentBytes: 128 << 10, BufferBytes: 1 << 10, FillBytes: 1 << 10}
	l := opened(t, h)
	h.pauses = 0
	founding := entry(1, 1, 0)
	require.NoError(t, l.Append(l.Last(), []raft.Entry{founding, entry(2, 1, 20<<10)}, 0))
	assert.Zero(t, h.pauses)
	require.NoError(t, l.Prepare(0))
	assert.NotZero(t, h.pauses)
}
