package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

const snapshotBytes = 150_000 // of the snapshot that takenAt makes: three blocks

// takenAt returns an act that takes a snapshot with bytes, and compacts the log.
func takenAt(id raft.EntryID) act {
	return func(t *testing.T, s raft.SnapshotStorage) {
		bytes := make([]byte, snapshotBytes)
		for i := range bytes {
			bytes[i] = byte(i * 7)
		}
		snapshot := aSnapshot()
		snapshot.ID, snapshot.File, snapshot.Size = id, raft.SnapshotID{1}, snapshotBytes
		snapshot.Sum = crc32.Checksum(bytes, castagnoli)
		w, err := s.CreateSnapshot(snapshot.File)
		require.NoError(t, err)
		_, err = w.Write(bytes)
		require.NoError(t, err)
		require.NoError(t, w.Finish(snapshot))
		require.NoError(t, s.Write(raft.StorageWrite{Snapshot: &snapshot, Base: &snapshot.Base}))
	}
}

// withSnapshot is a log of several terms behind a snapshot.
var withSnapshot = append(whole[:len(whole):len(whole)], takenAt(raft.EntryID{Term: 1, Index: 12}))

// contents returns all files of a store by name.
func contentsOf(t *testing.T, dir string) map[string][]byte {
	all := map[string][]byte{}
	for _, pattern := range []string{BoltFile, LogDir + "/*.seg", snapshotDir + "/*.snap"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, name := range names {
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			all[name] = content
		}
	}
	return all
}

// putBack makes the files of the store as they were.
func putBack(t *testing.T, dir string, all map[string][]byte) {
	for _, part := range asideParts {
		list, err := os.ReadDir(filepath.Join(dir, part))
		if err != nil {
			continue
		}
		for _, f := range list {
			require.NoError(t, os.Remove(filepath.Join(dir, part, f.Name())))
		}
	}
	for name, content := range all {
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
}

// startAndRestore starts a member's store as a node does, and reads its whole snapshot. refused is the error of the start.
func (p place) startAndRestore(t *testing.T, kind Kind) (stored raft.Stored, refused, unrestored error) {
	s, _, err := p.open(kind)
	if err != nil {
		return stored, err, nil
	}
	defer s.Close()
	if stored, err = s.Load(t.Context(), orders); err != nil {
		return stored, err, nil
	}
	stored.Applied = stored.Log.Base.ID
	if err = stored.Check(); err != nil {
		return stored, err, nil
	}
	if stored.Snapshot.File == (raft.SnapshotID{}) {
		return stored, nil, nil
	}
	r, err := s.OpenSnapshot(stored.Snapshot.File)
	require.NoError(t, err, "Load has checked its head and its end")
	defer r.Close()
	sum := crc32.New(castagnoli)
	_, unrestored = io.Copy(sum, io.NewSectionReader(r, 0, r.Size()))
	if unrestored == nil && sum.Sum32() != stored.Snapshot.Sum {
		unrestored = fmt.Errorf("checksum %08x", sum.Sum32())
	}
	return stored, nil, unrestored
}

// For each damage, Verify says what the next start does.
func TestVerify_SaysWhatAStartDoes(t *testing.T) {
	rounds := 800
	if testing.Short() {
		rounds /= 5
	}
	for _, kind := range bothKinds {
		t.Run("in "+string(kind), func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, kind, withSnapshot)
			sound := contentsOf(t, p.dir)
			var names []string
			for name := range sound {
				names = append(names, name)
			}
			slices.Sort(names)
			random := rand.New(rand.NewPCG(1, 1))
			said := map[Verdict]int{}
			for range rounds {
				name := names[random.IntN(len(names))]
				what := spoil(t, random, name, sound[name])
				said[p.agrees(t, kind, name, what)]++
				putBack(t, p.dir, sound)
			}
			t.Logf("%d rounds, the worst verdicts: %v", rounds, said)
			assert.Positive(t, said[VerdictRefused])
			assert.Positive(t, said[VerdictSnapshot])
			assert.Positive(t, said[""])
		})
	}
}

// A process that is killed leaves no mark, so that its last write may be torn. Verify then says what the next start cuts off.
func TestVerify_SaysWhatAStartCutsOff(t *testing.T) {
	p := newPlace(t)
	s, _, err := p.open(KindSegments)
	require.NoError(t, err)
	_, err = s.Load(t.Context(), orders)
	require.NoError(t, err)
	l := s.(*Log)
	l.GiveUp() // prevents a mark
	l.running.Wait()
	writes(aBootstrap())(t, s)
	appends(raft.EntryID{Index: 1}, 1, 1)(t, s)
	for i := range raft.Index(6) {
		appends(raft.EntryID{Term: 1, Index: 2 + i}, 1, 1)(t, s)
	}
	l.failed = errors.New("the process was killed")
	require.NoError(t, s.Close())
	sound := contentsOf(t, p.dir)
	var name string
	for file := range sound {
		if strings.HasSuffix(file, ".seg") {
			name = max(name, file)
		}
	}
	random := rand.New(rand.NewPCG(2, 2))
	said := map[Verdict]int{}
	used := len(strings.TrimRight(string(sound[name]), "\x00"))
	for range 300 {
		b := slices.Clone(sound[name])
		at := 512 + random.IntN(used-512)
		b[at] ^= 1 << random.IntN(8)
		require.NoError(t, os.WriteFile(name, b, 0o600))
		said[p.agrees(t, KindSegments, name, fmt.Sprintf("byte %d", at))]++
		putBack(t, p.dir, sound)
	}
	t.Logf("the worst verdicts: %v", said)
	assert.Positive(t, said[VerdictTorn])
	assert.Positive(t, said[VerdictRefused])
}

// spoil changes a file, and says how.
func spoil(t *testing.T, random *rand.Rand, name string, sound []byte) (what string) {
	b := slices.Clone(sound)
	at := random.IntN(len(b))
	switch random.IntN(8) {
	case 0:
		b, what = b[:at], fmt.Sprintf("cut to %d bytes", at)
	case 1:
		to := min(len(b), at+1+random.IntN(2000))
		clear(b[at:to])
		what = fmt.Sprintf("zeros from %d to %d", at, to)
	case 2:
		require.NoError(t, os.Remove(name))
		return "removed"
	default:
		b[at] ^= 1 << random.IntN(8)
		what = fmt.Sprintf("a bit of byte %d", at)
	}
	require.NoError(t, os.WriteFile(name, b, 0o600))
	return what
}

// agrees compares Verify with a start, and returns the worst verdict.
func (p place) agrees(t *testing.T, kind Kind, name, what string) (worst Verdict) {
	t.Helper()
	what = name + ": " + what
	v, err := Verify(t.Context(), p.dir)
	if what == filepath.Join(p.dir, BoltFile)+": removed" {
		var none *NoStoreError
		require.ErrorAs(t, err, &none)
		return worst
	}
	require.NoError(t, err, what)
	for _, verdict := range []Verdict{VerdictTorn, VerdictUnused, VerdictSnapshot, VerdictRefused} {
		if slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Verdict == verdict }) {
			worst = verdict
		}
	}
	if worst == VerdictRefused || worst == VerdictSnapshot {
		require.Error(t, v.Err(), what)
		named := func(f Finding) bool { return f.File == name }
		require.True(t, slices.ContainsFunc(v.Findings, named), "%s: %+v", what, v.Findings)
	} else {
		require.NoError(t, v.Err(), what)
	}
	stored, refused, unrestored := p.startAndRestore(t, kind)
	require.Equal(t, worst == VerdictRefused, refused != nil, "%s: Verify: %+v; a start: %v", what, v.Findings, refused)
	require.Equal(t, worst == VerdictSnapshot, unrestored != nil, "%s: Verify: %+v; a restore: %v", what, v.Findings, unrestored)
	cutOff := slices.ContainsFunc(stored.LeftOver, func(left string) bool { return strings.HasPrefix(left, "the batch at") })
	require.True(t, refused != nil || (worst == VerdictTorn) == cutOff || unrestored != nil, "%s: Verify: %+v; a start: %v", what, v.Findings, stored.LeftOver)
	return worst
}

// Verify does not stop at the first damage.
func TestVerify_FindsEveryDamagedPlace(t *testing.T) {
	p := newPlace(t)
	does := []act{writes(aBootstrap())}
	for i := range raft.Index(80) {
		does = append(does, appends(raft.EntryID{Term: min(raft.Term(i), 1), Index: i + 1}, 1, 1))
	}
	p.fill(t, KindSegments, append(does, takenAt(raft.EntryID{Term: 1, Index: 12})))
	found, err := Inspect(t.Context(), p.dir)
	require.NoError(t, err)
	first, third := found.Segments[0].File, found.Segments[2].File
	snapshot := found.Snapshots[0].File
	flipped(t, first, int(found.Segments[0].Used/4))
	flipped(t, first, int(found.Segments[0].Used*3/4))
	flipped(t, third, 3)
	flipped(t, snapshot, 100)
	flipped(t, snapshot, 140_000)
	changed(t, p.dir, lineageBucket, recordKey, func(b []byte) []byte { b[3]++; return b })
	changed(t, p.dir, segmentsBucket, recordKey, func(b []byte) []byte { return b }) // sound
	unchanged(t, p.dir, func() {
		v, err := Verify(t.Context(), p.dir)
		require.NoError(t, err)
		places := map[string]int{}
		for _, f := range v.Findings {
			places[f.File]++
			assert.NotEmpty(t, f.Where)
			assert.Error(t, f.Err)
			assert.Equal(t, f.File == snapshot, f.Verdict == VerdictSnapshot)
		}
		assert.Equal(t, map[string]int{filepath.Join(p.dir, BoltFile): 1, first: 2, third: 1, snapshot: 2}, places, "%+v", v.Findings)
		assert.Empty(t, v.Unchecked)
	})
	changed(t, p.dir, segmentsBucket, recordKey, func(b []byte) []byte { b[3]++; return b })
	v, err := Verify(t.Context(), p.dir)
	require.NoError(t, err)
	assert.Len(t, v.Findings, 4, "%+v", v.Findings)
	assert.Contains(t, v.Unchecked, "the log")
	require.NoError(t, os.Truncate(filepath.Join(p.dir, BoltFile), 100))
	v, err = Verify(t.Context(), p.dir)
	require.NoError(t, err)
	assert.Len(t, v.Findings, 3, "%+v", v.Findings)
	assert.Contains(t, v.Unchecked, "the log")
}

func TestVerify_FindsEveryDamagedEntryInBbolt(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindBolt, withSnapshot)
	for _, i := range []raft.Index{14, 20, 31} {
		changed(t, p.dir, logBucket, logKey(i), func(b []byte) []byte { b[len(b)-1]++; return b })
	}
	v, err := Verify(t.Context(), p.dir)
	require.NoError(t, err)
	var places []string
	for _, f := range v.Findings {
		places = append(places, f.Where)
		assert.Equal(t, VerdictRefused, f.Verdict)
	}
	assert.Equal(t, []string{"entry 14", "entry 20", "entry 31"}, places)
	entries, err := collect(t.Context(), p.dir, 0, 0)
	assert.Error(t, err)
	assert.Equal(t, []raft.Index{13}, indexes(entries))
}

// A snapshot that no record names is deleted by the next start, so its damage does no harm.
func TestVerify_OfASnapshotThatNobodyNeeds(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindSegments, withSnapshot)
	s, _, err := p.open(KindSegments)
	require.NoError(t, err)
	found, err := os.ReadFile(filepath.Join(p.dir, snapshotDir, raft.SnapshotID{1}.String()+".snap"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	unused := filepath.Join(p.dir, snapshotDir, raft.SnapshotID{2}.String()+".snap")
	require.NoError(t, os.WriteFile(unused, found, 0o600)) // its name is wrong
	write(t, filepath.Join(p.dir, snapshotDir, raft.SnapshotID{3}.String()+".part"), "half")
	v, err := Verify(t.Context(), p.dir)
	require.NoError(t, err)
	require.Len(t, v.Findings, 1)
	assert.Equal(t, VerdictUnused, v.Findings[0].Verdict)
	assert.Equal(t, unused, v.Findings[0].File)
	assert.NoError(t, v.Err())
	inspected, err := Inspect(t.Context(), p.dir)
	require.NoError(t, err)
	require.Len(t, inspected.Snapshots, 3)
	assert.Error(t, inspected.Snapshots[1].Err)
	assert.False(t, inspected.Snapshots[2].Whole)
	assert.Len(t, inspected.Stored.LeftOver, 2)
	stored := p.starts(t, KindSegments)
	assert.Len(t, stored.LeftOver, 2, "a start deletes what Inspect has named")
}

// A marked store may be sound. No member starts on it, and Inspect says why.
func TestVerify_OfAMarkedStore(t *testing.T) {
	p := newPlace(t)
	mark := raft.Mark{Kind: raft.MarkContradicted, By: raft.Peer{ID: "n2", Incarnation: 9}, Term: 7, Detail: "entry 5@1 is committed here"}
	p.fill(t, KindSegments, append(whole[:len(whole):len(whole)], writes(raft.StorageWrite{Mark: &mark})))
	v, err := Verify(t.Context(), p.dir)
	require.NoError(t, err)
	assert.Empty(t, v.Findings)
	var contradicted *raft.ContradictedError
	require.ErrorAs(t, v.Err(), &contradicted)
	found, err := Inspect(t.Context(), p.dir)
	require.NoError(t, err)
	assert.Equal(t, &mark, found.Stored.Mark)
}

func TestVerdicts_SayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []Verdict{VerdictRefused, VerdictSnapshot, VerdictUnused, VerdictTorn} {
		assert.NotEmpty(t, v.Remedy())
		seen[v.Meaning()] = true
	}
	assert.Len(t, seen, 4)
}
