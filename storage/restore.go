package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
	"github.com/coxswain/raft/internal/files"
)

// RestoreOptions tunes Restore. The zero value restores the member that was backed up.
type RestoreOptions struct {
	Name    string      // node.Config.Cluster of the new cluster; "": that of the backup
	ID      raft.NodeID // its only member; "": the one that was backed up
	Address string      // of that member; "": as the backup says
}

// restoringDir holds what Restore writes until it is complete.
const restoringDir = "restoring"

// NotEmptyError refuses to restore a backup into a directory that holds something. Nothing has changed. Name an empty directory.
type NotEmptyError struct {
	Dir  string
	File string // something in it
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("storage: %s is not empty, it holds %s: a backup is restored only into a new or empty directory", e.Dir, e.File)
}

// UnfinishedRestoreError is returned by Restore, and by everything that opens a store, if a Restore into the directory has not reached its end. Nothing
// of what is there was ever used. Remove everything in the directory, and restore again.
type UnfinishedRestoreError struct{ Dir string }

func (e *UnfinishedRestoreError) Error() string {
	return fmt.Sprintf("storage: a backup was being restored into %s, and that has not reached its end: remove everything there, and restore again", e.Dir)
}

// unfinished returns an error if something has begun to move the store, and was interrupted.
func unfinished(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, restoringDir)); err == nil {
		return &UnfinishedRestoreError{dir}
	}
	return unfinishedAside(dir)
}

// Restore makes the member of a new cluster from a backup, in a new or empty directory: see docs/recovery.md. The new cluster has an
// id of its own, and so has its only member, so neither ever takes the members of the former cluster, which may still run, for its
// own. Its terms are higher than any of the former one: fencing tokens do not fall. Every entry in the backup counts as committed. Start the member as
// usual, and add others with empty disks. ctx can end Restore early. Any goroutine may call it.
//
// The member starts on the directory only if Restore has returned nil: until then, everything that opens it fails with an
// *UnfinishedRestoreError. Restore fails with a *NotEmptyError for a directory that holds anything, and with a
// *DamagedBackupError or a *raft.LaterVersionError for such a backup. Otherwise the errors are those of OpenLog, and that of r.
// After an error, remove everything in the directory before you repeat it.
func Restore(ctx context.Context, dir string, r io.Reader, opts RestoreOptions) (BackupInfo, Recovery, error) {
	from, err := backup.NewReader(r)
	if err != nil {
		return BackupInfo{}, Recovery{}, err
	}
	if err := checkEmpty(dir); err != nil {
		return BackupInfo{}, Recovery{}, err
	}
	m := from.Head().Member
	m.ID, m.Address = cmp.Or(opts.ID, m.ID), cmp.Or(opts.Address, m.Address)
	name, in := cmp.Or(opts.Name, from.Head().Name), filepath.Join(dir, restoringDir)
	if err := files.OS.MakeDir(in); err != nil {
		return BackupInfo{}, Recovery{}, explain("restoring into", dir, err)
	}
	info, err := restoreInto(ctx, in, from, raft.Identity{Cluster: name, ID: m.ID, Nonce: salt(), Fresh: raft.Incarnation(salt())})
	if err != nil {
		return info, Recovery{}, err
	}
	done, err := recoverStore(ctx, in, name, 0, func(s *raft.Stored, _ raft.NodeID, to raft.ClusterID) (raft.Recovered, error) {
		return s.RecoverAs(m, to, raft.Incarnation(salt()), time.Now().UnixNano())
	})
	if err != nil {
		return info, Recovery{}, err
	}
	return info, done, moveUp(dir)
}

// checkEmpty refuses a directory that holds anything. A file system may keep lost+found in it.
func checkEmpty(dir string) error {
	there, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = unfinished(dir)
	}
	if err != nil {
		return explain("restoring into", dir, err)
	}
	for _, file := range there {
		if file.Name() != "lost+found" {
			return &NotEmptyError{dir, file.Name()}
		}
	}
	return nil
}

// restoreInto writes the backup into a new store, as if the member had received the snapshot and then the entries.
func restoreInto(ctx context.Context, dir string, from *backup.Reader, identity raft.Identity) (info BackupInfo, err error) {
	store, err := OpenLog(dir, LogOptions{})
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Load(ctx, identity); err != nil {
		return info, err
	}
	head := from.Head()
	w := raft.StorageWrite{Hard: &raft.HardState{Term: head.Term, Cluster: head.Cluster}}
	if head.Base.ID.Index > 0 {
		s, err := restoreState(ctx, store, from)
		if err != nil {
			return info, err
		}
		w.Snapshot, w.Log = &s, &raft.LogWrite{After: s.ID, Reset: true}
	}
	if err := store.Write(w); err != nil {
		return info, err
	}
	return backedUpEntries(ctx, from, func(after raft.EntryID, entries []raft.Entry) error {
		return store.Write(raft.StorageWrite{Log: &raft.LogWrite{After: after, Entries: entries}})
	})
}

// restoreState writes the state into a snapshot.
func restoreState(ctx context.Context, store *Log, from *backup.Reader) (raft.Snapshot, error) {
	s := raft.Snapshot{Base: from.Head().Base}
	_, _ = rand.Read(s.File[:]) // it never fails
	to, err := store.CreateSnapshot(s.File)
	if err != nil {
		return s, err
	}
	defer func() { _ = to.Abort() }() // does nothing once Finish has succeeded
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if err := copyState(ctx, io.MultiWriter(to, sum), from); err != nil {
		return s, err
	}
	s.Size, s.Sum = from.End().Bytes, sum.Sum32()
	return s, to.Finish(s)
}

// moveUp makes the restored store that of the directory. Until the last step, unfinished refuses what is there.
func moveUp(dir string) error {
	from := filepath.Join(dir, restoringDir)
	there, err := os.ReadDir(from)
	for _, file := range there {
		err = errors.Join(err, files.OS.Rename(filepath.Join(from, file.Name()), filepath.Join(dir, file.Name())))
	}
	if err == nil {
		err = files.OS.SyncDir(dir)
	}
	if err == nil {
		err = files.OS.Remove(from)
	}
	if err == nil {
		err = files.OS.SyncDir(dir)
	}
	if err != nil {
		return explain("restoring into", dir, err)
	}
	return nil
}
