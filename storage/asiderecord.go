package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coxswain/raft/internal/files"
)

// asideRecord is the name of a file that exists while SetAside moves a store. The file names the directory to which the store
// moves.
const asideRecord = "setting-aside.json"

// asideRecordMax is the maximum number of bytes that readAside reads. A sound record is shorter.
const asideRecordMax = 4 << 10

// aside is the content of the record. A reader ignores unknown fields.
type aside struct {
	Name string `json:"aside"`           // the new directory, within the store's directory
	File uint64 `json:"inode,omitempty"` // inode of raft.db; 0: the system has no such number
}

// UnfinishedAsideError is returned by Open, OpenBolt, OpenLog and Migrate if a SetAside of the store is unfinished. Some
// files of the store may already be in another directory. So no process may use the remaining files or create a new store
// there. Call SetAside again.
type UnfinishedAsideError struct {
	Dir    string // directory of the store
	Record string // file that records the move; SetAside removes it when everything is moved
}

func (e *UnfinishedAsideError) Error() string {
	return fmt.Sprintf("storage: setting aside the store in %s is unfinished (%s says where it moves to): "+
		"call storage.SetAside again, which finishes it", e.Dir, e.Record)
}

// endAside removes the record of a store that is no longer there. An earlier release ignores the record. It may set the store
// aside itself and then create a new store. The caller holds the lock of the directory.
func endAside(disk files.FS, dir string) error {
	a, begun, err := readAside(disk, dir)
	if err != nil || !begun || a.File == 0 { // where files have no numbers, SetAside decides
		return err
	}
	if _, err := disk.Inode(filepath.Join(dir, BoltFile)); err != nil {
		return nil // SetAside finishes it
	}
	if moved, err := a.moved(disk, dir); err != nil || !moved {
		return err
	}
	if err := disk.SyncDir(filepath.Join(dir, a.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return forgetAside(disk, dir)
}

// unfinishedAside returns an *UnfinishedAsideError if the record exists.
func unfinishedAside(dir string) error {
	record := filepath.Join(dir, asideRecord)
	if _, err := os.Lstat(record); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return explain("opening", record, err)
	}
	return &UnfinishedAsideError{Dir: dir, Record: record}
}

// readAside returns the content of the record. If the record is damaged, readAside ignores it. The files that an earlier call
// moved then stay in the directory to which it moved them.
func readAside(disk files.FS, dir string) (a aside, begun bool, err error) {
	f, err := disk.Open(filepath.Join(dir, asideRecord))
	if errors.Is(err, fs.ErrNotExist) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, asideRecordMax))
	if err = errors.Join(err, f.Close()); err != nil {
		return a, false, err
	}
	sound := json.Unmarshal(content, &a) == nil && strings.HasPrefix(a.Name, "aside") && filepath.Base(a.Name) == a.Name
	return a, sound, nil
}

// record makes the record durable. The file gets its name only when it is complete.
func (a aside) record(disk files.FS, dir string) error {
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, asideRecord)
	part := name + ".new"
	if err := disk.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := disk.Create(part)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(part, name)
	}
	if err != nil {
		_ = disk.Remove(part) // if this fails, the next call removes it
		return err
	}
	return disk.SyncDir(dir)
}

// moved reports whether raft.db was moved, and with it the whole store. If there is another raft.db nevertheless, it belongs
// to a new store. An earlier release, which ignores the record, created that store.
func (a aside) moved(disk files.FS, dir string) (bool, error) {
	present, err := disk.Inode(filepath.Join(dir, BoltFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || present != a.File {
		return err == nil, err
	}
	_, err = disk.Inode(filepath.Join(dir, a.Name, BoltFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return a.File == 0, err
}

// forgetAside removes the record durably, if there is one.
func forgetAside(disk files.FS, dir string) error {
	if err := disk.Remove(filepath.Join(dir, asideRecord)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.SyncDir(dir)
}
