package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

// anyStore is an open store of either kind.
type anyStore struct {
	kind Kind
	*boltStore
	log   *Log // nil for a store in bbolt
	read  func(raft.Span, int) ([]raft.Entry, error)
	close func() error
}

// openAny opens an existing store of either kind. Its segments are on the given disk.
func openAny(disk files.FS, dir string, opts LogOptions) (anyStore, error) {
	b, err := openBoltOn(disk, dir, BoltOptions{LockWait: opts.LockWait, access: opts.access})
	if err == nil {
		return anyStore{KindBolt, &b.boltStore, nil, b.Entries, b.Close}, nil
	}
	if !errors.Is(err, ErrOtherLog) {
		return anyStore{}, err
	}
	l, err := openLogOn(disk, dir, opts)
	if err != nil {
		return anyStore{}, err
	}
	return anyStore{KindSegments, &l.boltStore, l, l.Entries, l.Close}, nil
}

// openReading opens the store in dir for reading. Nothing can be changed through it.
func openReading(ctx context.Context, dir string) (anyStore, error) {
	if err := ctx.Err(); err != nil {
		return anyStore{}, explain("opening", dir, err)
	}
	if err := checkPlace(dir); err != nil {
		return anyStore{}, err
	}
	return openAny(files.ReadOnly(files.OS), dir, LogOptions{access: toRead})
}

// openToRead opens the file with a shared lock, which keeps members and SetAside from the store until it is closed.
func (b *boltStore) openToRead(dir string, lockWait time.Duration) (err error) {
	if err := unfinished(dir); err != nil {
		return err
	}
	if b.db, err = b.openChecked(lockWait); err != nil {
		return err
	}
	if err := b.checkHome(); err != nil {
		return errors.Join(err, b.db.Close())
	}
	b.unlock = func() {}
	b.dir = snapfile.Open(files.ReadOnly(files.OS), filepath.Join(dir, snapshotDir))
	return nil
}

// checkPlace returns a *NoStoreError if there is no store in the directory.
func checkPlace(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &NoStoreError{dir, "that does not exist; name the directory of a member"}
	case err != nil:
		return fmt.Errorf("storage: reading %s: %w", dir, err)
	case !info.IsDir():
		return &NoStoreError{dir, fmt.Sprintf("that is a file; name the directory that has the member's %s in it", BoltFile)}
	}
	if _, err := os.Lstat(filepath.Join(dir, BoltFile)); errors.Is(err, fs.ErrNotExist) {
		if err := unfinished(dir); err != nil {
			return err
		}
		there, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("storage: reading %s: %w", dir, err)
		}
		return &NoStoreError{dir, withoutStore(dir, there)}
	}
	file, err := files.OS.Open(filepath.Join(dir, BoltFile))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("storage: reading %s: %w: run this as the user that runs the member", dir, err)
	case err != nil:
		return explain("opening", filepath.Join(dir, BoltFile), err)
	}
	return file.Close()
}

// withoutStore says what is in a directory that has no raft.db.
func withoutStore(dir string, there []fs.DirEntry) string {
	var members []string
	for _, entry := range there {
		if _, err := os.Stat(filepath.Join(dir, entry.Name(), BoltFile)); err == nil {
			members = append(members, entry.Name())
		}
	}
	named := func(matches func(string) bool) bool {
		return slices.ContainsFunc(there, func(e fs.DirEntry) bool { return matches(e.Name()) })
	}
	switch {
	case len(there) == 0:
		return "it is empty; name the directory of a member"
	case named(func(name string) bool { return name == LogDir || name == snapshotDir }):
		return fmt.Sprintf("%s is missing beside %s/ or %s/; put it back if it was moved, or else replace the member", BoltFile, LogDir, snapshotDir)
	case named(func(name string) bool { return strings.HasPrefix(name, BoltFile+leftoverPrefix) }):
		return fmt.Sprintf("a process was creating it, and has left %s%s…; start the member, which removes that", BoltFile, leftoverPrefix)
	case len(members) > 0:
		return fmt.Sprintf("it has directories of members, %s; name one of them", strings.Join(members[:min(len(members), membersShown)], ", "))
	}
	return fmt.Sprintf("it has no %s, and is not the directory of a member", BoltFile)
}

// membersShown is the maximum number of directories that an error names.
const membersShown = 4
