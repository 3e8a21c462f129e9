package storage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// The test takes, installs and discards snapshots, and compacts and prunes the log. It kills the process within syncs, and
// cuts the power. Each cut keeps half of the unsynced data. A start always finds the content after one whole write, with the
// snapshot of that write.
func TestBolt_SnapshotsSurviveAnyOrderOfKillsAndPowerCuts(t *testing.T) {
	fs, mountPoint := powerCuts(t)
	l := snapshotLives{t: t, dir: filepath.Join(mountPoint, "data"), issued: []leftContent{{}}}
	rounds := uint64(600)
	if testing.Short() {
		rounds = 100
	}
	for round := range rounds {
		random := rand.New(rand.NewPCG(round, 2))
		require.NoError(t, fs.FailSyncs(random.IntN(2+random.IntN(40))))
		l.live(random)
		if random.IntN(3) > 0 {
			require.NoError(t, fs.PowerCutKeeping(round))
		}
	}
	require.NoError(t, fs.FailSyncs(-1))
	b, _, err := l.load()
	require.NoError(t, err)
	require.NoError(t, b.Close())
	t.Logf("%d lives, %d writes acknowledged, %d snapshots", rounds, l.acknowledged, l.taken)
	assert.Greater(t, l.acknowledged, raft.Term(rounds/4))
}

// snapshotLives is a series of stores that use the same data, one after the other. Each write has its own term.
type snapshotLives struct {
	t            *testing.T
	dir          string
	issued       []leftContent // by term: what the next start finds if the write of that term is the last one
	acknowledged raft.Term
	taken        uint64
}

type leftContent struct {
	base, last raft.EntryID
	snapshot   raft.Snapshot
}

// drawnWrite is a random write. It may be only the first half of an installation, as if a crash interrupted the installation.
type drawnWrite struct {
	raft.StorageWrite
	interrupted bool
}

// live loads the store and writes until the disk fails.
func (l *snapshotLives) live(random *rand.Rand) {
	b, now, err := l.load()
	for err == nil {
		if random.IntN(5) == 0 {
			_, err = b.Prune()
			continue
		}
		var w drawnWrite
		next := now
		if w, next, err = l.step(random, b, now); err != nil {
			break
		}
		w.Hard = &raft.HardState{Term: raft.Term(len(l.issued))}
		l.issued = append(l.issued, next)
		if err = b.Write(w.StorageWrite); err != nil {
			break
		}
		l.acknowledged = w.Hard.Term
		if old := now.snapshot.File; old != next.snapshot.File && old != (raft.SnapshotID{}) {
			err = b.DiscardSnapshot(old)
		}
		if now = next; w.interrupted {
			break // the next start finishes the installation
		}
	}
	if b != nil {
		_ = b.Close()
	}
}

// step draws a random write. It also returns the content that the store has after the write.
func (l *snapshotLives) step(random *rand.Rand, b *storage.Bolt, now leftContent) (w drawnWrite, next leftContent, err error) {
	next = now
	term := raft.Term(len(l.issued))
	switch kind := random.IntN(8); {
	case kind == 0 && now.last.Term > 0: // the state at the end of the log
		next.snapshot, err = l.take(random, b, now.last)
		w.Snapshot = &next.snapshot
	case kind == 1 && now.last.Term > 0: // with a compaction
		next.snapshot, err = l.take(random, b, now.last)
		w.Snapshot, w.Base, next.base = &next.snapshot, &next.snapshot.Base, now.last
	case kind == 2 && now.snapshot.ID.Index > now.base.Index: // a compaction alone
		w.Base, next.base = &now.snapshot.Base, now.snapshot.ID
	case kind == 3: // an installation
		id := raft.EntryID{Term: term, Index: now.last.Index + 1 + raft.Index(random.IntN(50))}
		next.snapshot, err = l.take(random, b, id)
		w.Snapshot, w.Log = &next.snapshot, &raft.LogWrite{After: id, Reset: true}
		next.base, next.last = id, id
	case kind == 4: // one that is interrupted
		id := raft.EntryID{Term: term, Index: now.last.Index + 1 + raft.Index(random.IntN(50))}
		next.snapshot, err = l.take(random, b, id)
		w.Snapshot, w.interrupted = &next.snapshot, true
		next.base, next.last = id, id
	default:
		w.StorageWrite = logWrite(now.last, term, 1+random.IntN(40))
		next.last = w.Log.Entries[len(w.Log.Entries)-1].ID()
	}
	return w, next, err
}

func (l *snapshotLives) take(random *rand.Rand, b *storage.Bolt, id raft.EntryID) (raft.Snapshot, error) {
	l.taken++
	data := make([]byte, random.IntN(100_000))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	s := described(id, 0, data)
	binary.BigEndian.PutUint64(s.File[:], l.taken)
	w, err := b.CreateSnapshot(s.File)
	if err != nil {
		return s, err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Finish(s)
	}
	if err != nil && random.IntN(2) == 0 { // else it is left over
		err = errors.Join(err, w.Abort())
	}
	return s, err
}

// load checks that the store holds the content after one whole write. That write is the last acknowledged write or a later
// one.
func (l *snapshotLives) load() (*storage.Bolt, leftContent, error) {
	b, err := storage.OpenBolt(l.dir, storage.BoltOptions{})
	var stored raft.Stored
	if err == nil {
		stored, err = b.Load(context.Background(), member)
	}
	var corrupt *raft.CorruptError
	require.False(l.t, errors.As(err, &corrupt), "%v", err)
	if err != nil {
		return b, leftContent{}, err
	}
	require.GreaterOrEqual(l.t, stored.Hard.Term, l.acknowledged)
	found := leftContent{base: stored.Log.Base.ID, last: stored.Log.Last, snapshot: stored.Snapshot}
	require.Equal(l.t, l.issued[stored.Hard.Term], found)
	l.acknowledged = stored.Hard.Term
	names, err := os.ReadDir(filepath.Join(l.dir, "snapshots"))
	require.True(l.t, err == nil || os.IsNotExist(err))
	if found.snapshot.File == (raft.SnapshotID{}) {
		require.Empty(l.t, names)
		return b, found, nil
	}
	require.Len(l.t, names, 1)
	r, err := b.OpenSnapshot(found.snapshot.File)
	require.NoError(l.t, err)
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	require.NoError(l.t, errors.Join(err, r.Close()))
	require.Equal(l.t, found.snapshot.Sum, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	return b, found, nil
}
