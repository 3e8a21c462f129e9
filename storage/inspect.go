package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/segments"
)

// Inspection is what a directory holds. After damage, fields that could not be read are zero.
type Inspection struct {
	Kind        Kind
	ClusterName string      // node.Config.Cluster; "": the store has no owner yet
	ID          raft.NodeID // of the member
	// Stored is the state as the next Load would return it, except that StartCount is that of the latest start. Log.Last is the last entry,
	// and Log.Runs names the terms. LeftOver is what Load would remove.
	Stored raft.Stored
	// Cluster is the id of the cluster; zero: the member belongs to none yet. Config is the configuration of the newest entry
	// that holds one, and ConfigIndex is that entry. It is known to be committed if Stored.Commit has reached it. Config.Level is
	// the feature level.
	Cluster     raft.ClusterID
	ConfigIndex raft.Index
	Config      raft.Configuration
	Records     []RecordVersion // of the bbolt file
	Segments    []SegmentFile   // of a store in segments, in order
	Spares      []string        // files in log/ that are to be used next, or that a crash has left
	Snapshots   []SnapshotFile  // sorted by name
	Others      []string        // what else is in the directory
}

// RecordVersion is the version of a record, or of the whole format of a store, and the newest that this release reads.
type RecordVersion struct {
	Record        string
	Found, Newest uint64
}

// SegmentFile is one file of the log.
type SegmentFile struct {
	File        string
	Bytes, Used int64      // size of the file; how many of its bytes are written
	First, Last raft.Index // entries of the log that are in it; 0: none
}

// SnapshotFile is one file in the directory of the snapshots.
type SnapshotFile struct {
	File     string
	Bytes    int64
	Recorded bool          // the store's record names it; the next start deletes every other one
	Whole    bool          // it is complete
	Snapshot raft.Snapshot // its description; zero if it is not complete, or damaged
	Err      error         // why the description could not be read; nil if it could be
}

// Inspect reads what the directory of a stopped member holds. It changes nothing, and needs memory for what Load returns. It
// reads the whole log, and ctx can end it early. Until it returns, no member can start there. Any goroutine may call it.
//
// An error matches fs.ErrNotExist if there is no store in dir (*NoStoreError) or raft.ErrLocked if a process has it open
// (*InUseError); or it is an *UnfinishedAsideError, a *ForeignFileError, a *raft.CorruptError, a *raft.LaterVersionError or a
// *raft.EarlierVersionError. With the last three, the Inspection holds what could be read nevertheless. Use Verify to find all
// damage.
func Inspect(ctx context.Context, dir string) (Inspection, error) {
	s, err := openReading(ctx, dir)
	if err != nil {
		return Inspection{}, err
	}
	defer s.close() // nothing was written
	found := Inspection{Kind: s.kind}
	stored, meta, err := s.scanOwn(ctx)
	if ctx.Err() != nil {
		return Inspection{}, explain("reading", s.path, ctx.Err())
	}
	stored.StartCount, stored.Incarnation = meta.StartCount, raft.Incarnation(meta.Incarnation)
	s.lineage.fill(&stored)
	found.ClusterName, found.ID, found.Stored = meta.Cluster, raft.NodeID(meta.ID), stored
	found.Cluster = clusterOf(stored)
	found.ConfigIndex, found.Config = stored.Log.Base.ConfigIndex, stored.Log.Base.Config
	if n := len(stored.Log.Configs); n > 0 {
		found.ConfigIndex, found.Config = stored.Log.Configs[n-1].Index, stored.Log.Configs[n-1].Config
	}
	found.Records = s.versions(meta)
	return found, errors.Join(err, found.listFiles(s, dir))
}

// clusterOf returns the id of the cluster that the record of term and vote, the log's base, entry 1 or the recorded snapshot names.
func clusterOf(s raft.Stored) raft.ClusterID {
	switch {
	case s.Hard.Cluster != raft.ClusterID{}:
		return s.Hard.Cluster
	case s.Log.Base.Cluster != raft.ClusterID{}:
		return s.Log.Base.Cluster
	case s.Log.Bootstrap != nil:
		return s.Log.Bootstrap.Cluster
	}
	return s.Snapshot.Cluster
}

// versions returns the versions of the records that are there. A damaged record is left out.
func (s *anyStore) versions(meta metaRecord) (all []RecordVersion) {
	if meta.Format > 0 {
		all = append(all, RecordVersion{"the format record", meta.Format, formatNewest})
	}
	_ = s.guard("reading", func() error { // scan has reported the damage
		return s.db.View(func(tx *bbolt.Tx) error {
			for _, r := range storedRecords {
				in := tx.Bucket(r.bucket)
				if in == nil || in.Get(r.key) == nil {
					continue
				}
				if body, err := unsealed(in.Get(r.key)); err == nil && len(body) > 0 {
					all = append(all, RecordVersion{r.name, uint64(body[0]), uint64(r.newest)})
				}
			}
			return nil
		})
	})
	return all
}

// storedRecords are the records that begin with a version.
var storedRecords = []struct {
	bucket, key []byte
	name        string
	newest      byte
}{
	{hardBucket, recordKey, hardName, hardVersion},
	{lineageBucket, recordKey, lineageName, lineageVersion},
	{snapshotBucket, baseKey, baseName, snapshotVersion},
	{snapshotBucket, recordKey, snapshotName, snapshotVersion},
	{segmentsBucket, recordKey, segmentsName, segmentsVersion},
}

// listFiles fills the fields about files, and completes LeftOver.
func (i *Inspection) listFiles(s anyStore, dir string) error {
	if s.log != nil {
		for _, h := range s.log.log.Held() {
			i.Segments = append(i.Segments, segmentFile(h))
		}
		i.Spares = s.log.log.Unlisted()
	}
	i.Stored.LeftOver = s.home.leftOver()
	if installInterrupted(&i.Stored.Log, i.Stored.Snapshot) {
		i.Stored.LeftOver = append(i.Stored.LeftOver, fmt.Sprintf("the log up to entry %v, which the recorded snapshot replaces", i.Stored.Log.Last))
	}
	list, err := s.dir.Files()
	if err != nil {
		return explain("reading", filepath.Join(dir, snapshotDir), err)
	}
	for _, f := range list {
		file := SnapshotFile{File: filepath.Join(dir, snapshotDir, f.Name), Bytes: f.Bytes, Whole: f.Whole}
		file.Recorded = f.Whole && f.ID == i.Stored.Snapshot.File
		if f.Whole {
			r, err := s.dir.OpenRead(f.ID)
			if file.Err = err; err == nil {
				file.Snapshot = r.Snapshot()
				_ = r.Close() // nothing was written
			}
		}
		if !file.Recorded {
			i.Stored.LeftOver = append(i.Stored.LeftOver, f.Name)
		}
		i.Snapshots = append(i.Snapshots, file)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return explain("reading", dir, err)
	}
	for _, entry := range there {
		if name := entry.Name(); !slices.Contains([]string{BoltFile, LogDir, snapshotDir, lockName}, name) {
			i.Others = append(i.Others, name)
		}
	}
	return nil
}

func segmentFile(h segments.Held) SegmentFile {
	return SegmentFile{File: h.Path, Bytes: h.Bytes, Used: max(h.End, h.Limit), First: h.First, Last: h.Last}
}

// entriesBytes is how many bytes of entries Entries reads at once.
const entriesBytes = 1 << 20

// Entries returns the entries from..to of the log of a stopped member, in order. 0 means the first or the last entry of the log. It changes
// nothing. It reads and checks the whole log first, and holds no more than 1 MiB of entries, or one larger entry, in memory.
// Entries above Stored.Commit of Inspect need not be committed. As long as the loop runs, no member can start there.
//
// An error ends the sequence. It is one of those of Inspect; or it matches raft.ErrNotStored if the log does not hold all of the
// range, or is a *raft.ConfigError if from is above to. If the log is damaged, the entries that were read before the damage come first. What follows the damage may have dropped
// some of them.
func Entries(ctx context.Context, dir string, from, to raft.Index) iter.Seq2[raft.Entry, error] {
	return func(yield func(raft.Entry, error) bool) {
		stopped := false
		err := readEntries(ctx, dir, from, to, func(e raft.Entry) bool {
			stopped = !yield(e, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(raft.Entry{}, err)
		}
	}
}

func readEntries(ctx context.Context, dir string, from, to raft.Index, each func(raft.Entry) bool) error {
	if to != 0 && from > to {
		return &raft.ConfigError{Field: "from", Err: fmt.Errorf("%d is above to, which is %d: exchange them", from, to)}
	}
	s, err := openReading(ctx, dir)
	if err != nil {
		return err
	}
	defer s.close() // nothing was written
	stored, _, damage := s.scanOwn(ctx)
	if ctx.Err() != nil {
		return explain("reading", s.path, ctx.Err())
	}
	base, last := stored.Log.Base.ID, stored.Log.Last
	if from == 0 && to == 0 && base == last {
		return damage
	}
	if from = cmp.Or(from, base.Index+1); to == 0 || damage != nil {
		to = min(cmp.Or(to, last.Index), last.Index)
	}
	if from <= base.Index || to > last.Index || from > to {
		refused := fmt.Errorf("%w: from %d to %d; the log in %s is the entries above %v up to %v", raft.ErrNotStored, from, to, dir, base, last)
		return cmp.Or(damage, refused)
	}
	for from <= to {
		if ctx.Err() != nil {
			return explain("reading", s.path, ctx.Err())
		}
		entries, err := s.read(raft.Span{After: from - 1, Last: to}, entriesBytes)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !each(e) {
				return nil
			}
		}
		from += raft.Index(len(entries))
	}
	return damage
}
