package storage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// TestDamage_NamesTheClusterThatTheRestStillTells checks that an error about damage says of which cluster the store is, exactly
// if the log's base, the recorded snapshot or entry 1 can still be read.
func TestDamage_NamesTheClusterThatTheRestStillTells(t *testing.T) {
	compacted := append(whole[:len(whole):len(whole)], snapshots(raft.EntryID{Term: 3, Index: 30}, false))
	recordOf := func(bucket, key []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			changed(t, dir, bucket, key, func(b []byte) []byte { b[len(b)-1]++; return b })
		}
	}
	all := func(damages ...func(*testing.T, string)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, damage := range damages {
				damage(t, dir)
			}
		}
	}
	ofOther := func(t *testing.T, dir string) {
		changed(t, dir, snapshotBucket, recordKey, func(b []byte) []byte {
			s, err := decodeSnapshot(b)
			require.NoError(t, err)
			s.Cluster = raft.ClusterID{2}
			return encodeSnapshot(s)
		})
	}
	for _, row := range []struct {
		rule   string
		kinds  []Kind
		does   []act
		damage func(*testing.T, string)
		tells  bool
	}{
		{"term and vote", bothKinds, whole, recordOf(hardBucket, recordKey), true},
		{"term and vote of a compacted log", bothKinds, compacted, recordOf(hardBucket, recordKey), true},
		{"the starts", bothKinds, whole, recordOf(lineageBucket, recordKey), true},
		{"the starts of a compacted log", bothKinds, compacted, recordOf(lineageBucket, recordKey), true},
		{"the base", bothKinds, compacted, recordOf(snapshotBucket, baseKey), true},
		{"the snapshot", bothKinds, compacted, recordOf(snapshotBucket, recordKey), true},
		{"the file of the snapshot", bothKinds, compacted, inDir(snapshotDir, -1, func(b []byte) []byte { return b[:len(b)-1] }), true},
		{"the list of segments", []Kind{KindSegments}, compacted, recordOf(segmentsBucket, recordKey), true},
		{"a later segment", []Kind{KindSegments}, whole, inDir(LogDir, 1, spoiled), true},
		{"a later segment, cut short", []Kind{KindSegments}, whole, inDir(LogDir, 1, halved), true},
		{"the first segment, cut short behind entry 1", []Kind{KindSegments}, whole, inDir(LogDir, 0, halved), true},
		{"the first segment of a compacted log", []Kind{KindSegments}, compacted, inDir(LogDir, 0, spoiled), true},

		{"the first segment", []Kind{KindSegments}, whole, inDir(LogDir, 0, spoiled), false},
		{"the list of segments without a snapshot", []Kind{KindSegments}, whole, recordOf(segmentsBucket, recordKey), false},
		{"entry 1", []Kind{KindBolt}, whole, recordOf(logBucket, logKey(1)), false},
		{"the identity", bothKinds, compacted, recordOf(metaBucket, recordKey), false},
		{"term and vote, with a snapshot of another cluster", bothKinds, compacted, all(ofOther, recordOf(hardBucket, recordKey)), false},
	} {
		for _, kind := range row.kinds {
			t.Run(row.rule+"/"+string(kind), func(t *testing.T) {
				p := newPlace(t)
				p.fill(t, kind, row.does)
				row.damage(t, p.dir)
				s, _, err := p.open(kind)
				require.NoError(t, err)
				defer s.Close()
				_, err = s.Load(t.Context(), orders)
				var damage *raft.CorruptError
				require.ErrorAs(t, err, &damage)
				want := raft.ClusterID{}
				if row.tells {
					want = raft.ClusterID{1}
				}
				assert.Equal(t, want, damage.Cluster, "%v", err)
			})
		}
	}
}

// inDir returns a damage of one file in a directory of the store; -1: the last one.
func inDir(sub string, k int, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		files, err := filepath.Glob(filepath.Join(dir, sub, "*"))
		require.NoError(t, err)
		require.Greater(t, len(files), max(k, 0))
		slices.Sort(files)
		name := files[(k+len(files))%len(files)]
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, change(b), 0o600))
	}
}

// spoiled damages the first batch of a segment.
func spoiled(b []byte) []byte {
	b[512+60]++
	return b
}

func halved(b []byte) []byte { return b[:len(b)/2] }
