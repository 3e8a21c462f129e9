package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

func ctl(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

// storeIn makes a closed store with seven entries and a snapshot of entry 3.
func storeIn(t *testing.T, kind storage.Kind) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s, err := storage.Open(dir, storage.Options{New: kind})
	require.NoError(t, err)
	_, err = s.Load(t.Context(), raft.Identity{Cluster: "orders", ID: "n1", Fresh: 7, Nonce: 5})
	require.NoError(t, err)
	config := raft.NewConfiguration([]raft.Member{{ID: "n1", Address: "h1:1", Incarnation: 7}})
	founded := raft.Bootstrap{
		Cluster: raft.ClusterID{0xab}, Bootstrapper: raft.Peer{ID: "n1", Incarnation: 7}, Probe: raft.RPCID{StartCount: 1, Counter: 1},
		Configuration: config,
	}
	entries := []raft.Entry{{Index: 1, Kind: raft.EntryBootstrap, Data: founded.Encode(), Time: 1}}
	for i := raft.Index(2); i < 8; i++ {
		entries = append(entries, raft.Entry{Index: i, Term: 2, Kind: raft.EntryCommand, Data: []byte("needle")})
	}
	require.NoError(t, s.Write(raft.StorageWrite{
		Hard: &raft.HardState{Term: 2, Vote: raft.Peer{ID: "n1", Incarnation: 7}}, Log: &raft.LogWrite{Entries: entries}, Commit: 6,
	}))
	base := raft.Base{ID: raft.EntryID{Term: 2, Index: 3}, Cluster: founded.Cluster, Bootstrapper: founded.Bootstrapper, ConfigIndex: 1, Config: config}
	snapshot := raft.Snapshot{Base: base, File: raft.SnapshotID{1}, Size: 5, Sum: crc32.Checksum([]byte("state"), crc32.MakeTable(crc32.Castagnoli))}
	w, err := s.CreateSnapshot(snapshot.File)
	require.NoError(t, err)
	_, err = w.Write([]byte("state"))
	require.NoError(t, err)
	require.NoError(t, w.Finish(snapshot))
	require.NoError(t, s.Write(raft.StorageWrite{Snapshot: &snapshot, Base: &base}))
	require.NoError(t, s.Close())
	return dir
}

// spoiled flips a bit of a file.
func spoiled(t *testing.T, name string, at int) {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o600))
}

func TestInspect_PrintsWhatAMemberHasStored(t *testing.T) {
	for _, kind := range []storage.Kind{storage.KindSegments, storage.KindBolt} {
		dir := storeIn(t, kind)
		code, out, errOut := ctl("inspect", dir)
		require.Equal(t, exitOK, code, errOut)
		for _, line := range []string{
			`member         n1, incarnation 0000000000000007, of cluster "orders"`,
			"cluster        ab000000000000000000000000000000",
			"term           2, voted for n1, incarnation 0000000000000007",
			"starts         1, the latest with nonce 0000000000000005",
			"log            entries 4 to 7, behind entry 3@2, in " + string(kind),
			"terms          2 from entry 4",
			"committed      up to 6, or further",
			"configuration  of entry 1, committed, feature level 0",
			"               n1, voter, incarnation 0000000000000007, at h1:1",
			": of entry 3@2, 5 bytes, with the configuration of entry 1",
		} {
			assert.Contains(t, out, line)
		}
		code, out, _ = ctl("inspect", dir, "--json")
		require.Equal(t, exitOK, code)
		var found inspectionJSON
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		assert.Equal(t, raft.NodeID("n1"), found.ID)
		assert.Equal(t, "7@2", found.Last)
		assert.Equal(t, "3@2", found.Base)
		assert.Equal(t, []termJSON{{2, 4}}, found.Terms)
		assert.Equal(t, &peerJSON{"n1", "0000000000000007"}, found.Vote)
		require.Len(t, found.Members, 1)
		require.Len(t, found.Snapshots, 1)
		assert.True(t, found.Snapshots[0].Recorded)
		assert.Equal(t, 1, strings.Count(out, "null"), "only the mark is null: lists are empty")
	}
}

func TestInspect_PrintsWhatIsNotDamaged(t *testing.T) {
	dir := storeIn(t, storage.KindSegments)
	spoiled(t, filepath.Join(dir, "log", "0000000000000001.seg"), 600)
	code, out, errOut := ctl("inspect", dir)
	assert.Equal(t, exitDamaged, code)
	assert.Contains(t, out, "term           2, voted for n1")
	assert.Contains(t, errOut, "0000000000000001.seg is damaged at offset")
	code, out, _ = ctl("inspect", dir, "--json")
	assert.Equal(t, exitDamaged, code)
	var found inspectionJSON
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	assert.Contains(t, found.Err, "is damaged at offset")
}

func TestEntries_PrintsALineEach(t *testing.T) {
	dir := storeIn(t, storage.KindSegments)
	code, out, errOut := ctl("entries", dir, "--from", "5", "--to", "6")
	require.Equal(t, exitOK, code, errOut)
	assert.Equal(t, "5@2\tcommand\t-\t6 bytes\t\"needle\"\n6@2\tcommand\t-\t6 bytes\t\"needle\"\n", out)
	code, out, _ = ctl("entries", dir, "--json")
	require.Equal(t, exitOK, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	var e entryJSON
	require.NoError(t, json.Unmarshal([]byte(lines[3]), &e))
	assert.Equal(t, entryJSON{7, 2, "command", "-", 6, []byte("needle")}, e)
}

func TestVerify_SaysWhatToDo(t *testing.T) {
	dir := storeIn(t, storage.KindSegments)
	code, out, errOut := ctl("verify", dir)
	require.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, "3 files, ")
	assert.Contains(t, out, "bytes read: sound: a member can start on it\n")
	segment := filepath.Join(dir, "log", "0000000000000001.seg")
	spoiled(t, segment, 600)
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.snap"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	spoiled(t, snapshots[0], 32)
	code, out, errOut = ctl("verify", dir)
	assert.Equal(t, exitDamaged, code)
	assert.Equal(t, "raftctl: "+dir+": no member can run on this store\n", errOut)
	assert.Contains(t, out, segment+", offset 5")
	assert.Contains(t, out, "checksum does not match")
	assert.Contains(t, out, "\n  this was durable: a start refuses the store, and changes nothing\n  what to do: put the right file back")
	assert.Contains(t, out, snapshots[0]+", offset 30: checksum does not match\n  this snapshot cannot be restored or sent")
	assert.Contains(t, out, "bytes read: not sound\n")
	code, out, _ = ctl("verify", dir, "--json")
	assert.Equal(t, exitDamaged, code)
	var v verificationJSON
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	assert.False(t, v.Sound)
	require.Len(t, v.Findings, 2)
	assert.Equal(t, storage.VerdictRefused, v.Findings[0].Verdict)
	assert.Equal(t, storage.VerdictSnapshot, v.Findings[1].Verdict)
}

func TestRaftctl_SaysWhatIsWrong(t *testing.T) {
	dir := storeIn(t, storage.KindSegments)
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"inspct", dir}, exitUsage, `unknown command "inspct" for "raftctl" (did you mean inspect?); see --help`},
		{[]string{"inspect"}, exitUsage, "write raftctl inspect DIR"},
		{[]string{"verify", dir, dir}, exitUsage, "write raftctl verify DIR"},
		{[]string{"entries", dir, "--from", "x"}, exitUsage, `--from "x": it takes a whole number`},
		{[]string{"entries", dir, "--from", "3", "--to", "2"}, exitUsage, "--from 3 is above --to 2: exchange them"},
		{[]string{"entries", dir, "--from", "2"}, exitFailed, "from 2 to 7; the log in " + dir + " is the entries above 3@2 up to 7@2"},
		{[]string{"inspect", ""}, exitFailed, `there is no store in "": that does not exist`},
		{[]string{"verify", filepath.Dir(dir)}, exitFailed, "it has directories of members, data; name one of them"},
		{[]string{"inspect", filepath.Join(dir, "raft.db")}, exitFailed, "that is a file; name the directory"},
	} {
		code, out, errOut := ctl(row.args...)
		assert.Equal(t, row.code, code, "%v: %s", row.args, errOut)
		assert.Contains(t, errOut, row.want)
		assert.Empty(t, out, row.args)
	}
	code, out, _ := ctl("--version")
	assert.Equal(t, exitOK, code)
	assert.True(t, strings.HasPrefix(out, "raftctl "), out)
	code, out, _ = ctl()
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "3 the store is damaged or marked")
}

// full is an output whose writes fail, as on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRaftctl_OutputThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	dir := storeIn(t, storage.KindSegments)
	for _, line := range []string{"inspect", "inspect --json", "entries", "entries --json", "verify", "verify --json"} {
		var errOut bytes.Buffer
		assert.Equal(t, exitFailed, run(t.Context(), append(strings.Fields(line), dir), full{}, &errOut), line)
		assert.Contains(t, errOut.String(), "no space left", line)
	}
}

// A backup of a stopped member begins a new cluster. Damage of the backup ends with exitDamaged, and leaves no member.
func TestBackup_ThenVerifyThenRestore(t *testing.T) {
	dir, file := storeIn(t, storage.KindSegments), filepath.Join(t.TempDir(), "orders.backup")
	code, out, errOut := ctl("backup", dir, file)
	require.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, `orders.backup: a backup of n1 of cluster "orders" (ab000000000000000000000000000000), complete and sound`)
	code, again, _ := ctl("verify", "--backup", file)
	require.Equal(t, exitOK, code)
	assert.Equal(t, out, again)
	code, out, _ = ctl("verify", "--backup", file, "--json")
	require.Equal(t, exitOK, code)
	var info backupJSON
	require.NoError(t, json.Unmarshal([]byte(out), &info))
	assert.Equal(t, "3@2", info.State)
	assert.Equal(t, "7@2", info.Last)
	assert.Equal(t, []string{"n1"}, info.Members)
	code, _, errOut = ctl("backup", dir, file)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "exists")

	to := filepath.Join(t.TempDir(), "data")
	code, out, errOut = ctl("restore", file, to, "--cluster", "staging", "--id", "s1", "--address", "s1:1")
	require.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, `s1 is the only member of a new cluster`)
	assert.Contains(t, out, "every entry up to 7@2 of cluster ab000000000000000000000000000000, which n1 had at 2")
	code, out, _ = ctl("inspect", to)
	require.Equal(t, exitOK, code)
	assert.Contains(t, out, `member         s1, incarnation`)
	code, _, errOut = ctl("restore", file, to)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "is not empty")

	spoiled(t, file, 400)
	for _, args := range [][]string{{"verify", "--backup", file}, {"restore", file, filepath.Join(t.TempDir(), "data")}} {
		code, _, errOut = ctl(args...)
		assert.Equal(t, exitDamaged, code)
		assert.Contains(t, errOut, "the backup is damaged at offset")
	}
	code, _, errOut = ctl("restore", file, file)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "not a directory")
	code, _, errOut = ctl("restore", file, filepath.Join(t.TempDir(), "data"), "--address", "nonsense")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "--address takes HOST:PORT")
	require.NoError(t, os.WriteFile(file+"1.part", nil, 0o600))
	code, _, errOut = ctl("backup", dir, file+"1")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "exists already, and nothing was changed: another command is writing to it")
	assert.FileExists(t, file+"1.part", "it may be another's")
	code, _, _ = ctl("backup", t.TempDir(), file+"2")
	assert.Equal(t, exitFailed, code)
	assert.NoFileExists(t, file+"2")
	assert.NoFileExists(t, file+"2.part")
}
