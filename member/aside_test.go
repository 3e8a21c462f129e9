package member

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

func TestFounding_ADamagedStoreIsSetAside(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.holds(2)
	f.end(2)
	damage(t, f.cfg[2].Dir)
	_, err := Start(t.Context(), f.cfg[2], &counter{})
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt, "without SetAside it stays out")
	require.NotZero(t, corrupt.Cluster, "it still says of which cluster it is")

	f.cfg[2].SetAside = true
	f.start(2)
	f.await("votes again", []int{2}, votes)
	aside, err := filepath.Glob(filepath.Join(f.cfg[2].Dir, "aside-*"))
	require.NoError(t, err)
	assert.Len(t, aside, 1)
	f.write(2)
}

// The content of a snapshot is read only after the start, when the member restores its state.
func TestFounding_ADamagedSnapshotIsSetAside(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.holds(2)
	_, err := f.members[2].Snapshot(t.Context())
	require.NoError(t, err)
	f.end(2)
	snapshots, err := filepath.Glob(filepath.Join(f.cfg[2].Dir, "snapshots", "*.snap"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	text, err := os.ReadFile(snapshots[0])
	require.NoError(t, err)
	content := strings.Index(string(text), string(binary.BigEndian.AppendUint64(nil, 1)))
	require.Positive(t, content)
	text[content] ^= 1
	require.NoError(t, os.WriteFile(snapshots[0], text, 0o600))

	f.cfg[2].SetAside = true
	m, err := Start(t.Context(), f.cfg[2], &counter{})
	require.NoError(t, err, "the start reads no content")
	<-m.Done()
	require.ErrorAs(t, m.Close(), new(*raft.CorruptError))
	f.start(2)
	f.await("votes again", []int{2}, votes)
	f.write(2)
}

// A failure that damages the stores of a majority moves none of them.
func TestFounding_ADamagedStoreIsKeptWithoutALeader(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.holds(all...)
	for _, i := range all {
		f.end(i)
	}
	damage(t, f.cfg[1].Dir)
	f.cfg[1].SetAside = true
	f.start(0)
	ctx, cancel := context.WithCancel(t.Context())
	f.cfg[1].Logger = hclog.New(&hclog.LoggerOptions{Output: onWrite(func(line []byte) {
		if bytes.Contains(line, []byte("is set aside once a leader confirms this member")) {
			cancel()
		}
	})})
	_, err := Start(ctx, f.cfg[1], &counter{})
	require.ErrorAs(t, err, new(*raft.CorruptError))
	aside, err := filepath.Glob(filepath.Join(f.cfg[1].Dir, "aside-*"))
	require.NoError(t, err)
	assert.Empty(t, aside)
}

// onWrite is called with what is written.
type onWrite func([]byte)

func (f onWrite) Write(b []byte) (int, error) { f(b); return len(b), nil }

// damage overwrites the end of the log of a store.
func damage(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	hit := false
	for _, name := range segments {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if at := strings.LastIndex(string(text), increment); at > 0 {
			text[at] = '-'
			require.NoError(t, os.WriteFile(name, text, 0o600))
			hit = true
			break
		}
	}
	require.True(t, hit, "no segment holds the command")
}
