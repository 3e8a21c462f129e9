package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// disk is what a member's data lies on: a mounted file system that forgets what was not synced, or a plain
// directory where there is none.
type disk struct {
	dir string
	fs  *powercut.FS // nil: a plain directory
}

// openDisks makes a disk for each directory. Without file systems of ours it says why there are none.
func openDisks(dirs []string, plain bool) (disks []*disk, reason string, err error) {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return disks, "", err
		}
		disks = append(disks, &disk{dir: dir})
	}
	if plain {
		return disks, "--plain-disks leaves them out", nil
	}
	for i, d := range disks {
		d.fs, err = powercut.Mount(d.dir)
		switch {
		case err != nil && i == 0:
			return disks, strings.ReplaceAll(err.Error(), "\n", "; "), nil
		case err != nil:
			return disks, "", err
		}
	}
	return disks, "", nil
}

// closeDisks unmounts, all at the same time.
func closeDisks(disks []*disk) error {
	errs := make([]error, len(disks))
	var all sync.WaitGroup
	for i, d := range disks {
		if d.fs != nil {
			all.Go(func() { errs[i] = d.fs.Close() })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// wipe removes everything on the disk.
func (d *disk) wipe() error {
	entries, err := os.ReadDir(d.dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, e.Name())))
	}
	return err
}

// heal takes back whatever ails the disk.
func (d *disk) heal() error {
	if d.fs == nil {
		return nil
	}
	return errors.Join(d.fs.Fill(false), d.fs.FailSyncs(-1), d.fs.ResumeSyncs())
}

// cut takes the power away. An odd number leaves half of what was not synced.
func (d *disk) cut(random uint64) error {
	if random&1 == 0 {
		return d.fs.PowerCut()
	}
	return d.fs.PowerCutKeeping(random >> 2) // the commands take numbers of 63 bits
}

// salvage copies what is on the disk to a plain directory: a file system of ours is gone with its mount.
func (d *disk) salvage() error {
	if d.fs == nil {
		return nil
	}
	to := d.dir + ".kept"
	if err := os.CopyFS(to, os.DirFS(d.dir)); err != nil {
		return fmt.Errorf("keeping %s: %w", d.dir, err)
	}
	return nil
}
