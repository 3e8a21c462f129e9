package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/cli"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storeOf returns the directory of a closed store with three entries.
func storeOf(t *testing.T, kind storage.Kind) string {
	t.Helper()
	dir := t.TempDir()
	s, err := storage.Open(dir, storage.Options{New: kind})
	require.NoError(t, err)
	_, err = s.Load(t.Context(), raft.Identity{Cluster: "raftkv", ID: "n1", Fresh: 7})
	require.NoError(t, err)
	w := raft.LogWrite{After: raft.EntryID{Term: 1, Index: 1}, Reset: true}
	for i := range raft.Index(3) {
		w.Entries = append(w.Entries, raft.Entry{Index: i + 2, Term: 1, Kind: raft.EntryCommand, Data: []byte("needle")})
	}
	require.NoError(t, s.Write(raft.StorageWrite{Log: &w}))
	require.NoError(t, s.Close())
	return dir
}

func TestMigrate_SaysWhatItHasDone(t *testing.T) {
	dir := storeOf(t, storage.KindBolt)
	for _, row := range []struct{ to, out, errs string }{
		{"bbolt", "the log is in bbolt already: 3 entries\n", ""},
		{"segments", "moved the log from bbolt to segments: 3 entries\n", "copied 0 of 3 entries\ncopied 3 of 3 entries, checking the copy\n"},
		{"segments", "the log is in segments already: 3 entries\n", ""},
		{"bbolt", "moved the log from segments to bbolt: 3 entries\n", "copied 0 of 3 entries\ncopied 3 of 3 entries, checking the copy\n"},
	} {
		code, out, errs := run(t, "", "migrate", "--data", dir, "--to", row.to)
		assert.Equal(t, 0, code)
		assert.Equal(t, row.out, out)
		assert.Equal(t, row.errs, errs)
	}
}

// unwritable is an output whose disk is full.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Exit code 1 means that nothing was changed.
func TestMigrate_IsDoneEvenIfItCannotSaySo(t *testing.T) {
	dir := storeOf(t, storage.KindBolt)
	for _, row := range []struct {
		code int
		says string
	}{
		{5, "the command succeeded, but its output could not be written: no space left on device"},
		{1, "no space left on device"}, // it was done already
	} {
		var errs strings.Builder
		code := cli.Run(t.Context(), []string{"migrate", "--data", dir, "--to", "segments"}, cli.Streams{Out: unwritable{}, Err: &errs})
		assert.Equal(t, row.code, code)
		assert.Contains(t, errs.String(), row.says)
	}
}

func TestMigrate_SaysWhatHelps(t *testing.T) {
	dir := storeOf(t, storage.KindSegments)
	open, err := storage.Open(dir, storage.Options{})
	require.NoError(t, err)
	code, _, errs := run(t, "", "migrate", "--data", dir, "--to", "bbolt")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "a process has the store open: stop the member first")
	require.NoError(t, open.Close())

	code, _, errs = run(t, "", "migrate", "--data", filepath.Join(dir, storage.BoltFile), "--to", "bbolt")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "that is a file: name the directory that raft.db is in")

	segment := filepath.Join(dir, storage.LogDir, "0000000000000001.seg")
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	b[600] ^= 1
	require.NoError(t, os.WriteFile(segment, b, 0o600))
	code, _, errs = run(t, "", "migrate", "--data", dir, "--to", "bbolt")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, segment+" is damaged at offset 512")
	assert.Contains(t, errs, "raftkv serve --join URL, in place of --peers, sets this store aside")
}

func TestMigrate_SaysWhatIsWrongWithTheCommandLine(t *testing.T) {
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"--to bbolt", 2, "--data is missing"},
		{"--data d", 2, `--to "": use segments or bbolt`},
		{"--data d --to paper", 2, `--to "paper": use segments or bbolt`},
		{"d --to bbolt", 2, `unknown command "d"`},
		{"--data /nonexistent --to bbolt", 1, `--data "/nonexistent": there is no store (no file raft.db)`},
	} {
		code, out, errs := run(t, "", strings.Fields("migrate "+row.args)...)
		assert.Equal(t, row.code, code, row.args)
		assert.Empty(t, out, row.args)
		assert.Contains(t, errs, row.want, row.args)
	}
}
