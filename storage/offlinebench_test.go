package storage

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// What is done with the directory of a stopped member that has 1 GiB of entries of 4 KiB, in segments.
func BenchmarkOffline(b *testing.B) {
	const bytes, entry, batch = 1 << 30, 4 << 10, 512
	dir := survivorIn(b, KindSegments, 1)
	store, err := Open(dir, Options{})
	require.NoError(b, err)
	_, err = store.Load(b.Context(), survivorN2)
	require.NoError(b, err)
	last := raft.EntryID{Index: 1}
	for range bytes / entry / batch {
		w := &raft.LogWrite{After: last}
		for range batch {
			last = raft.EntryID{Term: 1, Index: last.Index + 1}
			w.Entries = append(w.Entries, raft.Entry{Index: last.Index, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, entry-raft.RecordOverheadBytes)})
		}
		require.NoError(b, store.Write(raft.StorageWrite{Log: w}))
	}
	require.NoError(b, store.Close())
	file := filepath.Join(b.TempDir(), "backup")
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				require.NoError(b, f())
			}
		})
	}
	withFile := func(open func(string) (*os.File, error), f func(*os.File) error) error {
		to, err := open(file)
		require.NoError(b, err)
		defer to.Close()
		return f(to)
	}
	measure("verify", func() error { _, err := Verify(b.Context(), dir); return err })
	measure("backup", func() error {
		return withFile(os.Create, func(to *os.File) error { _, err := Backup(b.Context(), dir, to); return err })
	})
	measure("verify a backup", func() error {
		return withFile(os.Open, func(from *os.File) error { _, err := VerifyBackup(b.Context(), from); return err })
	})
	measure("restore", func() error {
		return withFile(os.Open, func(from *os.File) error {
			to := filepath.Join(b.TempDir(), "data")
			_, _, err := Restore(b.Context(), to, io.Reader(from), RestoreOptions{})
			return err
		})
	})
	measure("recover", func() error { _, err := Recover(b.Context(), dir, "orders", RecoverOptions{}); return err })
}
