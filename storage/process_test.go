package storage_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

var member = raft.Identity{Cluster: "orders", ID: "n1", Fresh: 0xfeed}

// entry returns an entry for the logs of the tests. The first entry bootstraps the cluster.
func entry(i raft.Index, term raft.Term) raft.Entry {
	e := raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Data: fmt.Appendf(nil, "command %d of term %d", i, term)}
	if i == 1 {
		n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: member.Fresh}
		f := raft.Bootstrap{Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(), Configuration: raft.NewConfiguration([]raft.Member{n1})}
		e.Kind, e.Data = raft.EntryBootstrap, f.Encode()
	}
	return e
}

// logWrite returns a write that appends count entries after the entry after.
func logWrite(after raft.EntryID, term raft.Term, count int) raft.StorageWrite {
	w := &raft.LogWrite{After: after}
	for k := range count {
		w.Entries = append(w.Entries, entry(after.Index+raft.Index(k)+1, term))
	}
	return raft.StorageWrite{Log: w}
}

func mustLoad(t *testing.T, dir string) (*storage.Bolt, raft.Stored) {
	t.Helper()
	leaks.Check(t)
	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	stored, err := b.Load(context.Background(), member)
	require.NoError(t, err)
	return b, stored
}

// writerVariable is an environment variable that holds the directory of a store. If it is set, this test binary writes to the
// store, and prints each index once the store has acknowledged it.
const writerVariable = "COXSWAIN_STORAGE_WRITER"

func writerMain() {
	dir := os.Getenv(writerVariable)
	if dir == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "writer:", writeForever(dir))
	os.Exit(1)
}

func writeForever(dir string) error {
	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	if err != nil {
		return err
	}
	stored, err := b.Load(context.Background(), member)
	if err != nil {
		return err
	}
	for last := stored.Log.Last; ; {
		w := logWrite(last, last.Term, 1)
		w.Hard = &raft.HardState{Term: raft.Term(last.Index + 1), Vote: raft.Peer{ID: "n2", Incarnation: 7}}
		if err := b.Write(w); err != nil {
			return err
		}
		last = w.Log.Entries[0].ID()
		if _, err := fmt.Println(last.Index); err != nil {
			return err
		}
	}
}

// killedWriter starts a process that writes at least the given number of entries. It calls during while the process writes,
// and then kills the process with SIGKILL. It returns the last index that the process printed as acknowledged.
func killedWriter(t *testing.T, dir string, entries int, during func()) raft.Index {
	t.Helper()
	leaks.Check(t)
	writer := exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), writerVariable+"="+dir)
	writer.Stderr = os.Stderr
	said, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	var acknowledged raft.Index
	lines := bufio.NewScanner(said)
	read := func() bool {
		if !lines.Scan() {
			return false
		}
		i, err := strconv.Atoi(lines.Text())
		acknowledged = max(acknowledged, raft.Index(i))
		return err == nil
	}
	for range entries {
		require.True(t, read(), "the writer ended before it was killed")
	}
	during()
	require.NoError(t, writer.Process.Kill())
	for read() { // what it printed before it died
	}
	_ = writer.Wait()
	return acknowledged
}

func TestBolt_SecondProcessIsLockedOutUntilTheFirstIsKilled(t *testing.T) {
	dir := t.TempDir()
	acknowledged := killedWriter(t, dir, 3, func() {
		_, err := storage.OpenBolt(dir, storage.BoltOptions{LockWait: 100 * time.Millisecond})
		assert.ErrorIs(t, err, raft.ErrLocked)
		assert.ErrorContains(t, err, filepath.Join(dir, storage.BoltFile))
	})
	_, stored := mustLoad(t, dir)
	assert.GreaterOrEqual(t, stored.Log.Last.Index, acknowledged)
}

// Several processes open a new directory at the same time. Only one of them gets the store, and the others get ErrLocked,
// even if the first process is still creating the store.
func TestBolt_OneOfSeveralCreatesTheStoreTheOthersAreLockedOut(t *testing.T) {
	for range 30 {
		dir := t.TempDir()
		opened := make(chan *storage.Bolt, 4)
		var all sync.WaitGroup
		for range cap(opened) {
			all.Go(func() {
				b, err := storage.OpenBolt(dir, storage.BoltOptions{LockWait: 10 * time.Millisecond})
				if err != nil {
					assert.ErrorIs(t, err, raft.ErrLocked)
					return
				}
				opened <- b
			})
		}
		all.Wait()
		close(opened)
		for b := range opened {
			require.NoError(t, b.Close())
		}
	}
}

// powerCuts mounts a file system that loses everything unsynced at a power cut. If that is not possible, it skips the test.
func powerCuts(t *testing.T) (fs *powercut.FS, mountPoint string) {
	leaks.Check(t)
	mountPoint = t.TempDir()
	fs, err := powercut.Mount(mountPoint)
	if err != nil {
		t.Skipf("no power cuts here: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	return fs, mountPoint
}

func TestBolt_AcknowledgedWritesSurviveKillAndPowerCut(t *testing.T) {
	fs, mountPoint := powerCuts(t)
	dir := filepath.Join(mountPoint, "data")
	for round := range uint64(10) {
		acknowledged := killedWriter(t, dir, 5, func() {})
		require.NoError(t, fs.PowerCutKeeping(round))
		b, stored := mustLoad(t, dir)
		last := stored.Log.Last.Index
		assert.GreaterOrEqual(t, last, acknowledged, "round %d", round)
		assert.GreaterOrEqual(t, stored.Hard.Term, raft.Term(acknowledged), "round %d", round)
		entries, err := b.Entries(raft.Span{After: 0, Last: last}, math.MaxInt)
		require.NoError(t, err)
		assert.Len(t, entries, int(last))
		require.NoError(t, b.Close())
	}
}

// The name of a new store is durable before the first write is acknowledged.
func TestBolt_ANewStoreSurvivesAPowerCut(t *testing.T) {
	fs, mountPoint := powerCuts(t)
	dir := filepath.Join(mountPoint, "data")
	b, _ := mustLoad(t, dir)
	require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 3)))
	require.NoError(t, b.Close())
	require.NoError(t, fs.PowerCut())
	b, stored := mustLoad(t, dir)
	assert.Equal(t, raft.Index(3), stored.Log.Last.Index)
	require.NoError(t, b.Close())
}

func TestBolt_AnEmptiedDiskIsAnotherIncarnation(t *testing.T) {
	dir := t.TempDir()
	b, first := mustLoad(t, dir)
	require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 3)))
	require.NoError(t, b.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, storage.BoltFile)))

	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	again := member
	again.Fresh = 0xcafe
	stored, err := b.Load(context.Background(), again)
	require.NoError(t, err)
	assert.NotEqual(t, first.Incarnation, stored.Incarnation)
	assert.Equal(t, raft.Stored{File: filepath.Join(dir, storage.BoltFile), Incarnation: 0xcafe, StartCount: 1, Lineage: raft.Lineage{{Count: 1}}}, stored)
}

func TestBolt_FileAndDirectoryAreForTheOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	mustLoad(t, dir)
	lock := filepath.Join(dir, "raft.lock") // is empty: others may open it to lock it
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, storage.BoltFile): 0o600, lock: 0o644} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), name)
	}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 2, "no temporary file is left")
}

// The test kills the process within syncs of writes and of starts. It also cuts the power, and each cut keeps half of the
// unsynced data. These events happen in any order. The store keeps acknowledged writes and is always sound.
func TestBolt_SurvivesAnyOrderOfKillsAndPowerCuts(t *testing.T) {
	fs, mountPoint := powerCuts(t)
	l := lives{t: t, dir: filepath.Join(mountPoint, "data"), issued: []raft.EntryID{{}}}
	rounds := uint64(600)
	if testing.Short() {
		rounds = 150
	}
	for round := range rounds {
		random := rand.New(rand.NewPCG(round, 1))
		require.NoError(t, fs.FailSyncs(random.IntN(2+random.IntN(14))))
		l.live(random)
		if random.IntN(3) > 0 {
			require.NoError(t, fs.PowerCutKeeping(round))
		}
	}
	require.NoError(t, fs.FailSyncs(-1))
	l.load(t.Context())
	t.Logf("%d lives, %d writes acknowledged", rounds, l.acknowledged)
	assert.Greater(t, l.acknowledged, raft.Term(rounds/4))
}

// lives is a series of stores that use the same data, one after the other. Each write has its own term.
type lives struct {
	t            *testing.T
	dir          string
	issued       []raft.EntryID // by term: end of the log if the write of that term is the last one
	acknowledged raft.Term
}

// live loads the store and writes until the disk fails.
func (l *lives) live(random *rand.Rand) {
	b, last, err := l.load(l.t.Context())
	for err == nil {
		w := logWrite(last, raft.Term(len(l.issued)), 1+random.IntN(40))
		if last.Index > 100 {
			w = logWrite(raft.EntryID{}, 0, 1)
		}
		w.Hard = &raft.HardState{Term: raft.Term(len(l.issued))}
		last = w.Log.Entries[len(w.Log.Entries)-1].ID()
		l.issued = append(l.issued, last)
		if err = b.Write(w); err == nil {
			l.acknowledged = w.Hard.Term
		}
	}
	if b != nil {
		_ = b.Close()
	}
}

// load checks that the log in the store is the log after one whole write. That write is the last acknowledged write or a
// later one.
func (l *lives) load(ctx context.Context) (*storage.Bolt, raft.EntryID, error) {
	b, err := storage.OpenBolt(l.dir, storage.BoltOptions{})
	var stored raft.Stored
	if err == nil {
		stored, err = b.Load(ctx, member)
	}
	var corrupt *raft.CorruptError
	require.False(l.t, errors.As(err, &corrupt), "%v", err)
	if err == nil {
		require.GreaterOrEqual(l.t, stored.Hard.Term, l.acknowledged)
		require.Equal(l.t, l.issued[stored.Hard.Term], stored.Log.Last)
		l.acknowledged = stored.Hard.Term
	}
	return b, stored.Log.Last, err
}
