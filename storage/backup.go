package storage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
)

// This file holds backups of stopped members, and the check of any backup. A backup of a running cluster is taken by
// member.Member.Backup, in the same format; restore.go restores both.

// BackupInfo says what a backup holds.
type BackupInfo struct {
	Name       string             // node.Config.Cluster of the member that was backed up
	Cluster    raft.ClusterID     // its cluster
	ID         raft.NodeID        // the member
	Address    string             // its address then; "": not known
	Term       raft.Term          // the highest that it knew
	AppVersion uint64             // node.Config.AppVersion of the member; 0: not known, as in each backup of a stopped one
	At         time.Time          // when the backup was taken
	State      raft.EntryID       // the last entry in the state; zero: there is no state, the entries begin with the first one
	Bytes      int64              // of the state
	Last       raft.EntryID       // the last entry of all
	Entries    uint64             // that follow the state
	Config     raft.Configuration // the newest one in the backup
}

// DamagedBackupError says that a backup cannot be restored, because it was cut short or changed. Nothing of it has been restored. Take
// another copy of it, or another backup.
type DamagedBackupError = backup.DamagedError

// NoStateError refuses a backup of the directory of a DurableFSM alone: it lacks the state, which the FSM keeps in files of its own.
// Nothing was written. Take the backup from a running member (member.Member.Backup, raftkv backup). If none runs, copy the
// directory of a stopped member and the files of its FSM together; that copy is not restored, but recovered: see Recover.
type NoStateError struct {
	Dir string
	ID  raft.EntryID // up to here, only the FSM has the state
}

func (e *NoStateError) Error() string {
	return fmt.Sprintf("storage: %s does not hold the state up to entry %v, which its FSM keeps in files of its own: take the backup from a "+
		"running member, or copy both while the member is stopped, and recover the copy", e.Dir, e.ID)
}

// Backup writes a backup of the stopped member whose store is in dir: its newest snapshot, and every entry behind that, also those that
// the member did not know to be committed. It changes nothing. It does not need the FSM. It reads as fast as the disk and w are, and ctx can end it
// early. Until it returns, no member can start there. After an error, what was written is no backup. Any goroutine may call it.
//
// Prefer member.Member.Backup while the cluster serves: a single stopped member may lack what the others have acknowledged.
//
// The errors are those of Inspect, and that of the mark for a marked store. For the directory of a DurableFSM, which does not have the state, it
// is a *NoStateError, and for a member that has joined no cluster a *raft.NotRecoverableError. Otherwise it is that of w.
func Backup(ctx context.Context, dir string, w io.Writer) (BackupInfo, error) {
	s, err := openReading(ctx, dir)
	if err != nil {
		return BackupInfo{}, err
	}
	defer s.close() // nothing was written
	stored, meta, err := s.scanOwn(ctx)
	if err != nil {
		return BackupInfo{}, err
	}
	if s.lineage.mark != nil {
		return BackupInfo{}, s.lineage.mark.Err()
	}
	if installInterrupted(&stored.Log, stored.Snapshot) {
		stored.Log = emptyLog(stored.Snapshot.Base)
	}
	head := backup.Head{
		Name: meta.Cluster, Cluster: stored.Cluster(), Term: max(stored.Hard.Term, stored.Log.Last.Term), At: time.Now(), Base: stored.Snapshot.Base,
	}
	self := raft.Peer{ID: raft.NodeID(meta.ID), Incarnation: raft.Incarnation(meta.Incarnation)}
	if head.Member, _ = stored.Log.Configuration().Peer(self); head.Member.ID == "" {
		head.Member = raft.Member{ID: self.ID, Incarnation: self.Incarnation}
	}
	switch {
	case head.Cluster == raft.ClusterID{}:
		return BackupInfo{}, &raft.NotRecoverableError{ID: self.ID, Why: "it belongs to no cluster and holds no entry: there is nothing to back up"}
	case stored.Snapshot.File == raft.SnapshotID{} && max(stored.Snapshot.ID.Index, stored.Log.Base.ID.Index) > 0:
		return BackupInfo{}, &NoStateError{dir, cmp.Or(stored.Log.Base.ID, stored.Snapshot.ID)}
	}
	to, err := backup.NewWriter(w, head)
	if err != nil {
		return BackupInfo{}, err
	}
	if err := s.backUpState(ctx, to, stored.Snapshot); err != nil {
		return BackupInfo{}, err
	}
	if err := s.backUpEntries(ctx, to, stored.Snapshot.ID.Index, stored.Log.Last.Index); err != nil {
		return BackupInfo{}, err
	}
	info := infoOf(head)
	info.Bytes, info.Config = stored.Snapshot.Size, stored.Log.Configuration()
	info.Last, info.Entries = stored.Log.Last, uint64(stored.Log.Last.Index-stored.Snapshot.ID.Index)
	return info, to.Finish()
}

// backUpState writes the bytes of the recorded snapshot.
func (s *anyStore) backUpState(ctx context.Context, to *backup.Writer, recorded raft.Snapshot) error {
	if recorded.ID.Index == 0 {
		return nil
	}
	r, err := s.dir.OpenRecorded(recorded)
	if err != nil {
		return explainSnapshot(err)
	}
	defer r.Close()
	return copyState(ctx, to, io.NewSectionReader(r, 0, recorded.Size))
}

// copyState copies until from ends, or ctx does.
func copyState(ctx context.Context, to io.Writer, from io.Reader) error {
	block := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(from, block)
		if _, err := to.Write(block[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case err != nil:
			return explainSnapshot(err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// backUpEntries writes the entries of the log after an index.
func (s *anyStore) backUpEntries(ctx context.Context, to *backup.Writer, after, last raft.Index) error {
	for after < last {
		entries, err := s.read(raft.Span{After: after, Last: last}, batchBytes)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return explain("reading", filepath.Dir(s.path), err)
		}
		for _, e := range entries {
			if err := to.Entry(e); err != nil {
				return err
			}
			after = e.Index
		}
	}
	return nil
}

// batchBytes is how many bytes of entries are read or written at a time, unless a single entry is larger.
const batchBytes = 4 << 20

// VerifyBackup reads a backup to its end, and checks everything that Restore checks, except whether the state machine takes the state. The
// errors are a *DamagedBackupError, a *raft.LaterVersionError or that of r. Any goroutine may call it.
func VerifyBackup(ctx context.Context, r io.Reader) (BackupInfo, error) {
	from, err := backup.NewReader(r)
	if err != nil {
		return BackupInfo{}, err
	}
	if err := copyState(ctx, io.Discard, from); err != nil {
		return BackupInfo{}, err
	}
	return backedUpEntries(ctx, from, func(raft.EntryID, []raft.Entry) error { return nil })
}

// backedUpEntries passes on the entries that follow the state, in batches, each with the entry that it follows.
func backedUpEntries(ctx context.Context, from *backup.Reader, batch func(after raft.EntryID, entries []raft.Entry) error) (info BackupInfo, err error) {
	var entries []raft.Entry
	after, bytes := from.Head().Base.ID, 0
	flush := func() error {
		if len(entries) == 0 {
			return nil
		}
		err := batch(after, entries)
		after, entries, bytes = entries[len(entries)-1].ID(), nil, 0
		return err
	}
	for {
		e, err := from.Entry()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return info, err
		}
		if entries, bytes = append(entries, e), bytes+len(e.Record()); bytes >= batchBytes {
			if err := flush(); err != nil {
				return info, err
			}
		}
	}
	log := from.Log()
	info = infoOf(from.Head())
	info.Bytes, info.Entries, info.Last, info.Config = from.End().Bytes, from.End().Entries, log.Last, log.Configuration()
	return info, flush()
}

func infoOf(h backup.Head) BackupInfo {
	return BackupInfo{
		Name: h.Name, Cluster: h.Cluster, ID: h.Member.ID, Address: h.Member.Address, Term: h.Term, AppVersion: h.AppVersion, At: h.At, State: h.Base.ID,
	}
}
