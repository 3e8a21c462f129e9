package segments_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/files"
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

func (f *countedFile) Sync() error {
	f.c.unsynced = 0
	return f.File.Sync()
}
