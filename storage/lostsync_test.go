package storage

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// forgetfulDisk mounts a disk and returns its directory. If a sync fails, the disk loses the bytes that the sync should have
// written.
func forgetfulDisk(t *testing.T) (root string, disk *powercut.FS) {
	t.Helper()
	root = t.TempDir()
	disk, err := powercut.Mount(root)
	if err != nil {
		t.Skipf("no power cuts here: %v", err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	require.NoError(t, disk.ForgetFailed())
	return root, disk
}

// A process ends after a failed sync. The next start reads the data that the process wrote, although the data is not on the
// disk. Everything that this start returns must survive a power cut, with or without further writes.
func TestLoad_DoesNotRelyOnWhatAFailedSyncHasLeft(t *testing.T) {
	root, disk := forgetfulDisk(t)
	for _, kind := range bothKinds {
		p := place{files.OS, filepath.Join(root, string(kind))}
		p.fill(t, kind, []act{writes(aBootstrap())})
		for syncs, failed := 0, true; failed; syncs++ {
			s, _, err := p.open(kind)
			require.NoError(t, err)
			_, err = s.Load(t.Context(), orders)
			require.NoError(t, err)
			require.NoError(t, disk.FailSyncs(syncs))
			failed = s.Write(raft.StorageWrite{Hard: &raft.HardState{Term: raft.Term(10 + syncs)}}) != nil
			_ = s.Close()
			require.NoError(t, disk.FailSyncs(-1))

			s, _, err = p.open(kind)
			require.NoError(t, err)
			found, err := s.Load(t.Context(), orders)
			require.NoError(t, err)
			require.NoError(t, disk.PowerCut())
			_ = s.Close()
			s, _, err = p.open(kind)
			require.NoError(t, err, "%s, sync %d", kind, syncs)
			after, err := s.Load(t.Context(), orders)
			require.NoError(t, err)
			require.Equal(t, found.Hard, after.Hard)
			require.NoError(t, s.Close())
		}
	}
}
