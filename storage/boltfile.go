package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// create creates an uninitialized store, unless the file exists. The file gets its name only when it is complete and synced.
// So if a file of that name is empty, cut short or without records, the file is damaged and not new.
func (b *boltStore) create() error {
	err := files.CheckRegular(b.path)
	if errors.Is(err, files.ErrNotRegular) {
		return explain("opening", b.path, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // if the file cannot be examined, opening it reports why
	}
	dir := filepath.Dir(b.path)
	file, err := os.CreateTemp(dir, BoltFile+leftoverPrefix+"*")
	if err != nil {
		return explain("creating", b.path, err)
	}
	name := file.Name()
	defer os.Remove(name)
	if err := file.Close(); err != nil {
		return explain("creating", b.path, err)
	}
	if err := b.guard("creating", func() error { return b.writeUninitialized(name) }); err != nil {
		return err
	}
	// Another process may be creating the store at the same time. Unlike a rename, a link never replaces a file.
	if err := os.Link(name, b.path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// A faster process may already have removed our file as a leftover. Then that process has already put its own file in
	// place.
	if _, err := os.Stat(b.path); err == nil {
		return nil
	}
	if err := os.Rename(name, b.path); err != nil { // a file system without links
		return explain("creating", b.path, err)
	}
	return nil
}

const filePermissions os.FileMode = 0o600

// leftoverPrefix and a number follow BoltFile in the name of a file that is not complete yet.
const leftoverPrefix = ".new-"

// removeLeftovers removes the files that interrupted creations left. It ignores failures, because they are harmless.
func removeLeftovers(path string) {
	leftovers, _ := filepath.Glob(path + leftoverPrefix + "*")
	for _, name := range leftovers {
		if strings.Trim(strings.TrimPrefix(name, path+leftoverPrefix), "0123456789") == "" { // or else another program named it
			_ = os.Remove(name)
		}
	}
}

// writeUninitialized turns the empty file into a store that has no owner yet.
func (b *boltStore) writeUninitialized(name string) (err error) {
	db, err := bbolt.Open(name, filePermissions, boltOptions(lockWaitDefault))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	meta, err := metaRecord{Format: b.home.format()}.encode()
	if err != nil {
		return err
	}
	lineage, err := lineageRecord{}.encode()
	if err != nil {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		if err := b.home.create(tx); err != nil {
			return err
		}
		if err := createWith(tx, metaBucket, meta); err != nil {
			return err
		}
		if err := createWith(tx, lineageBucket, lineage); err != nil {
			return err
		}
		return createWith(tx, hardBucket, hardRecord{}.encode())
	})
}

func createWith(tx *bbolt.Tx, name, record []byte) error {
	bucket, err := tx.CreateBucket(name)
	if err != nil {
		return err
	}
	return bucket.Put(recordKey, record)
}

// checkFile checks the structure of the file.
func (b *boltStore) checkFile(lockWait time.Duration) error {
	db, err := b.openChecked(lockWait)
	if err != nil {
		return err
	}
	return db.Close()
}

// openChecked opens the file for reading, and checks its structure. It has a shared lock until the file is closed, which keeps
// writers out.
func (b *boltStore) openChecked(lockWait time.Duration) (db *bbolt.DB, err error) {
	err = b.guard("opening", func() error {
		var file *os.File
		lock := &bbolt.Options{
			ReadOnly: true, Timeout: lockWait,
			OpenFile: func(name string, flags int, mode os.FileMode) (_ *os.File, err error) {
				if file, err = os.OpenFile(name, flags, mode); err != nil {
					return nil, err
				}
				return file, refuseStub(file)
			},
		}
		if db, err = bbolt.Open(b.path, filePermissions, lock); err != nil {
			return b.explainOpen(err)
		}
		info, err := file.Stat()
		if err != nil {
			return err
		}
		where, damage := checkPages(file, info.Size())
		if damage == nil || errors.Is(damage, errFreelist) {
			err = db.View(b.checkOrigin)
		}
		if err == nil && damage != nil {
			err = damaged(b.path, where, damage)
		}
		return err
	})
	if err != nil && db != nil {
		_ = db.Close()
	}
	return db, err
}

// checkOrigin returns an error if the file has none of the buckets of a store. A store already has all of them when its file
// gets its name.
func (b *boltStore) checkOrigin(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, hardBucket, lineageBucket} {
		if tx.Bucket(name) != nil {
			return nil
		}
	}
	var names []string
	cursor := tx.Cursor()
	for name, _ := cursor.First(); name != nil && len(names) < bucketsShown; name, _ = cursor.Next() {
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	return &ForeignFileError{File: b.path, Reason: fmt.Errorf("its buckets are %v, and none of them is that of a store", names)}
}

// bucketsShown is the maximum number of buckets that an error about another program's file names.
const bucketsShown = 4

// openFile opens the file that create made. If another process has set the file aside since then, there are two dangers.
// bbolt might create an empty file without our records, or use the file that was set aside. openFile prevents both.
func (b *boltStore) openFile(lockWait time.Duration) error {
	var file *os.File
	existing := boltOptions(lockWait)
	existing.OpenFile = func(name string, flags int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flags&^os.O_CREATE, mode)
		return file, err
	}
	db, err := bbolt.Open(b.path, filePermissions, existing)
	if err != nil {
		return err
	}
	if err := checkName(file, b.path); err != nil {
		return errors.Join(err, db.Close())
	}
	b.db = db
	return nil
}

// checkHome returns an error if the store keeps its entries in the other kind of place. It does not report damage, because
// Load does that.
func (b *boltStore) checkHome() (err error) {
	return b.guard("opening", func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			meta, err := b.readMeta(tx)
			if err == nil && meta.Format != b.home.format() {
				return fmt.Errorf("%w: %s", ErrOtherLog, b.path)
			}
			return nil
		})
	})
}

// explainOpen explains an error of opening the file. It keeps an error of the lock, the file system or refuseStub. It treats
// any other error as damage.
func (b *boltStore) explainOpen(err error) error {
	var errno syscall.Errno
	var found *raft.CorruptError // from refuseStub
	if errors.Is(err, bolterrors.ErrTimeout) || errors.Is(err, errTooLarge) || errors.As(err, &errno) || errors.As(err, &found) {
		return err
	}
	return damaged(b.path, "its head", err)
}

// errTooLarge does not mean damage, because a 64-bit program can open the same file.
var errTooLarge = errors.New("the file is too large for a 32-bit program; use a 64-bit one")

// refuseStub returns an error if bbolt would treat the file as a new one, or could not map it.
func refuseStub(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if int64(int(info.Size())) != info.Size() {
		return errors.Join(errTooLarge, file.Close())
	}
	if info.Size() >= 2*int64(os.Getpagesize()) {
		return nil
	}
	return errors.Join(damaged(file.Name(), "its head", errors.New("cut short")), file.Close())
}
