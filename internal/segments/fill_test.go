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

// A sync of the log waits for other writes to the disk. If Prepare synced a whole segment of zeros at once, every caller
// would have to wait.
func TestPrepare_NeverLeavesMuchToOneSync(t *testing.T) {
	disk := &counted{FS: newTree().FS()}
	s := newScript(disk)
	s.sizes.FirstBytes, s.sizes.SegmentBytes, s.sizes.BufferBytes = 3<<20, 3<<20, 192<<10
	require.NoError(t, starts()(s))
	require.NoError(t, prepares()(s))
	assert.Equal(t, int64(3<<20), disk.written)
	assert.LessOrEqual(t, disk.most, int64(5<<18))
}

// counted counts the bytes that are written to the files it creates. It also records the maximum number of bytes between two
// syncs.
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

// Prepare pauses while it fills a segment, so that the log's own writes get the disk. If the log would soon have to wait for
// the segment, Prepare does not pause.
func TestPrepare_PausesWhileThereIsTime(t *testing.T) {
	const parts, segment = 16, 64 << 10
	for name, row := range map[string]struct {
		written int64 // bytes of the present segment
		pauses  int
	}{
		"an idle log":                {written: 1 << 10, pauses: parts - 1},
		"half of the time is over":   {written: segment / 2, pauses: parts / 2},
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
			assert.InDelta(t, row.pauses, h.pauses, 1)
			require.NoError(t, l.Close())
		})
	}
}

// If the log waits and its syncs are large, Prepare writes few zeros. Otherwise the zeros would keep the disk busy, and the
// entries need the disk.
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

// While Append takes the prepared segment, the log does not want the segment after it yet. Otherwise Prepare would prepare
// that segment in a hurry. If the disk had no room for it, the log would count as full, although it has an empty segment.
func TestWanted_NotWhileAppendTakesTheSegment(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	taken := 0
	h.kept = func() {
		taken++
		assert.False(t, l.Wanted())
	}
	for last := l.Last(); taken < 3; last = l.Last() {
		require.NoError(t, l.Append(last, entries(last, 1, 4), 0))
	}
}

// The disk is full, so the log wants a segment until Prepare succeeds. A leader with a full log proposes nothing, so no write
// would cause another attempt.
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

// Close does not wait until a segment is filled with zeros.
func TestClose_EndsAFill(t *testing.T) {
	h := newHome(newTree().FS())
	h.sizes = segments.Sizes{FirstBytes: 256 << 10, SegmentBytes: 256 << 10, BufferBytes: 256, FillBytes: 256}
	l := opened(t, h)
	closed := make(chan error, 1)
	h.pauses, h.pause = 0, func() {
		if h.pauses == 1 {
			go func() { closed <- l.Close() }()
			for !l.Closing() {
				runtime.Gosched()
			}
		}
	}
	require.ErrorIs(t, l.Prepare(0), segments.ErrClosed)
	require.NoError(t, <-closed)
	list, err := h.disk.List(h.dir)
	require.NoError(t, err)
	assert.Len(t, list, 1, "the unfinished file is removed")
}

// After a full disk a leader refuses proposals until a segment is prepared. So Prepare does not pause.
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

// If Prepare prepares a segment in advance, it leaves room for a snapshot. If the log waits for the segment, Prepare also
// uses that room.
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
	assert.ErrorContains(t, err, "the next segment takes 16384 bytes, and 21383 are free, of which 5000 are reserved for the next snapshot")
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
	bootstrap := entry(1, 1, 0)
	require.NoError(t, l.Append(l.Last(), []raft.Entry{bootstrap, entry(2, 1, 20<<10)}, 0))
	assert.Zero(t, h.pauses)
	require.NoError(t, l.Prepare(0))
	assert.NotZero(t, h.pauses)
}
