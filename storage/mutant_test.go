package storage

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
	"github.com/coxswain/raft/storage/storagetest"
)

// mutant is a store that forgets. It keeps its starts elsewhere and never loses them. So only a lost vote or a lost entry can
// reveal the mutant.
type mutant struct {
	*Bolt
	startCount        *uint64
	loadSyncs         bool
	writesSync        bool
	startCountIsSaved bool
	// filesForget names the part of the file system for which syncs do nothing: "files" or "names".
	filesForget string
	twoSteps    bool // a snapshot is recorded before term and vote
	oneConfig   bool // Load returns only the first configuration
}

// forgetful is a file system that does not sync everything.
type forgetful struct {
	files.FS
	what string
}

func (f forgetful) SyncDir(dir string) error {
	if f.what == "names" {
		return nil
	}
	return f.FS.SyncDir(dir)
}

func (f forgetful) Create(name string) (files.File, error) {
	file, err := f.FS.Create(name)
	if f.what == "files" && err == nil {
		file = forgetfulFile{file}
	}
	return file, err
}

type forgetfulFile struct{ files.File }

func (forgetfulFile) Sync() error { return nil }

func (m mutant) Write(w raft.StorageWrite) error {
	if m.twoSteps && w.Snapshot != nil {
		if err := m.Bolt.Write(raft.StorageWrite{Snapshot: w.Snapshot}); err != nil {
			return err
		}
	}
	return m.Bolt.Write(w)
}

func (m mutant) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	if m.startCountIsSaved {
		defer func() { *m.startCount++ }()
	}
	stored, err := m.load(ctx, identity)
	if m.startCountIsSaved {
		stored.StartCount, stored.Lineage = *m.startCount+1, nil
		for len(stored.Lineage) < int(stored.StartCount) {
			stored.Lineage = stored.Lineage.Begin(identity.Nonce)
		}
	}
	if n := len(stored.Log.Configs); m.oneConfig && n > 1 {
		stored.Log.Configs = stored.Log.Configs[:1]
	}
	m.db.NoSync = !m.writesSync
	return stored, err
}

// load is Bolt.Load, with or without its syncs.
func (m mutant) load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	if m.loadSyncs {
		return m.Bolt.Load(ctx, identity)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, meta, err := m.scan(ctx, identity)
	if err != nil {
		return stored, err
	}
	m.db.NoSync = true
	meta.StartCount++
	m.loaded = true
	stored.StartCount, stored.Incarnation = meta.StartCount, raft.Incarnation(meta.Incarnation)
	return stored, m.format(meta, identity.Nonce)
}

// A suite that cannot fail proves nothing. Each of these stores breaks a rule, and the suite must fail for that rule.
func TestSuite_FindsStoresThatForget(t *testing.T) {
	for _, row := range []struct {
		what   string
		mutant mutant
		rule   string
		reason string
	}{
		{
			what:   "sync switched off for writes",
			mutant: mutant{loadSyncs: true, startCountIsSaved: true},
			rule:   storagetest.RuleWriteDurable, reason: "the log ends at",
		},
		{
			what:   "what was read back is acknowledged without a sync",
			mutant: mutant{writesSync: true, startCountIsSaved: true},
			rule:   storagetest.RuleLoadDurable, reason: "term and vote are",
		},
		{
			what:   "the start count is not synced",
			mutant: mutant{writesSync: true},
			rule:   storagetest.RuleFormatDurable, reason: "start 1",
		},
		{
			what:   "the bytes of a snapshot are not synced",
			mutant: mutant{loadSyncs: true, writesSync: true, filesForget: "files"},
			rule:   storagetest.RuleFinishDurable, reason: "is damaged at its head: cut short",
		},
		{
			what:   "the name of a snapshot is not synced",
			mutant: mutant{loadSyncs: true, writesSync: true, filesForget: "names"},
			rule:   storagetest.RuleFinishDurable, reason: "is missing: the store has recorded",
		},
		{
			what:   "a snapshot and a vote are two steps",
			mutant: mutant{loadSyncs: true, writesSync: true, twoSteps: true},
			rule:   storagetest.RuleRecordOneStep, reason: "the recorded snapshot is",
		},
		{
			what:   "only the configuration of entry 1 comes back",
			mutant: mutant{loadSyncs: true, writesSync: true, oneConfig: true},
			rule:   storagetest.RuleConfigurations, reason: "the configurations of the log are",
		},
	} {
		t.Run(row.what, func(t *testing.T) {
			row.mutant.startCount = new(uint64)
			place := storagetest.OnDisk(t, func(dir string) (_ raft.Storage, err error) {
				opened := row.mutant
				if opened.Bolt, err = OpenBolt(dir, BoltOptions{}); err == nil && opened.filesForget != "" {
					opened.dir = snapfile.Open(forgetful{files.OS, opened.filesForget}, filepath.Join(dir, snapshotDir))
				}
				return opened, err
			})
			if place.PowerCut == nil {
				t.Skipf("no power cuts here: %s", place.NoPowerCut)
			}
			checks := storagetest.Checks()
			at := slices.IndexFunc(checks, func(c storagetest.Check) bool { return c.Rule == row.rule })
			require.GreaterOrEqual(t, at, 0)
			assert.ErrorContains(t, checks[at].Run(place), row.reason)
		})
	}
}

func TestMetaRecord_KeepsWhatALaterVersionAdded(t *testing.T) {
	later := metaRecord{Format: formatVersion, Cluster: "orders", ID: "n1", Incarnation: 7, StartCount: 3}
	encoded, err := later.encode()
	require.NoError(t, err)
	plain, err := decodeMeta(encoded)
	require.NoError(t, err)
	assert.Empty(t, plain.unknown)

	// {"lease": {"max": 12}, "tags": ["a"]} as a later version might add.
	later.unknown = map[string]codec.Raw{"lease": {0x81, 0xa3, 'm', 'a', 'x', 0x0c}, "tags": {0x91, 0xa1, 'a'}}
	encoded, err = later.encode()
	require.NoError(t, err)
	read, err := decodeMeta(encoded)
	require.NoError(t, err)
	assert.Equal(t, later, read)
	read.StartCount++
	again, err := read.encode()
	require.NoError(t, err)
	read, err = decodeMeta(again)
	require.NoError(t, err)
	assert.Equal(t, later.unknown, read.unknown)
	assert.EqualValues(t, 4, read.StartCount)
}

func TestRecords_RefuseEveryDamage(t *testing.T) {
	meta, err := metaRecord{Format: formatVersion, Cluster: "orders", ID: "n1", Incarnation: 7, StartCount: 3}.encode()
	require.NoError(t, err)
	hard := hardRecord{hard: raft.HardState{Term: 5, Vote: raft.Peer{ID: "n2", Incarnation: 9}}}.encode()
	compacted := hardRecord{start: raft.EntryID{Term: 5, Index: 9}, last: raft.EntryID{Term: 5, Index: 9}, snapshotIndex: 9}.encode()
	lineage, err := aLineage().encode()
	require.NoError(t, err)
	snapshot := aSnapshot()
	for _, record := range []struct {
		name   string
		bytes  []byte
		decode func([]byte) error
	}{
		{"meta", meta, func(b []byte) error { _, err := decodeMeta(b); return err }},
		{"hard", hard, func(b []byte) error { _, err := decodeHard(b); return err }},
		{"hard, of a compacted log", compacted, func(b []byte) error { _, err := decodeHard(b); return err }},
		{"lineage", lineage, func(b []byte) error { _, err := decodeLineage(b); return err }},
		{"snapshot", encodeSnapshot(snapshot), func(b []byte) error { _, err := decodeSnapshot(b); return err }},
		{"base", encodeBase(snapshot.Base), func(b []byte) error { _, err := decodeBase(b, snapshot.ID); return err }},
	} {
		require.NoError(t, record.decode(record.bytes))
		for bit := range len(record.bytes) * 8 {
			var later *raft.LaterVersionError
			damaged := slices.Clone(record.bytes)
			damaged[bit/8] ^= 1 << (bit % 8)
			err := record.decode(damaged)
			assert.Error(t, err, "%s, bit %d", record.name, bit)
			assert.False(t, errors.As(err, &later), "%s, bit %d: damage is not a later version", record.name, bit)
		}
		for size := range record.bytes {
			assert.Error(t, record.decode(record.bytes[:size]), "%s, cut to %d bytes", record.name, size)
		}
	}
}
