package processes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// disk holds a member's data. It is a mounted file system that forgets unsynced writes in a power cut, or a plain directory.
type disk struct {
	dir string
	fs  *powercut.FS // nil for a plain directory
}

// openDisks makes a disk for each directory. If the disks are plain directories, reason says why.
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

// closeDisks unmounts all disks at the same time.
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

// copyTo copies the disk's contents to a directory that does not exist yet.
func (d *disk) copyTo(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(d.dir)); err != nil {
		return fmt.Errorf("copying %s: %w", d.dir, err)
	}
	return nil
}

// become durably replaces the contents of the disk with the contents of the directory.
func (d *disk) become(dir string) error {
	if err := errors.Join(d.wipe(), os.CopyFS(d.dir, os.DirFS(dir))); err != nil {
		return fmt.Errorf("putting %s in place: %w", dir, err)
	}
	return syncAll(d.dir)
}

// syncAll syncs every file and directory below dir, and dir itself.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// damage destroys the store on the disk.
func (d *disk) damage(random uint64) error {
	path := filepath.Join(d.dir, storage.BoltFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if random&1 == 0 {
		data = data[:len(data)/2]
	} else {
		data = bytes.Repeat([]byte("garbage!"), len(data)/8)
	}
	return errors.Join(os.WriteFile(path, data, 0o600), syncAll(d.dir))
}

// tidy removes the stores that the member has set aside.
func (d *disk) tidy() error {
	aside, err := filepath.Glob(filepath.Join(d.dir, "aside-*"))
	for _, path := range aside {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// heal ends all faults of the disk.
func (d *disk) heal() error {
	if d.fs == nil {
		return nil
	}
	return errors.Join(d.fs.Fill(false), d.fs.FailSyncs(-1), d.fs.ResumeSyncs())
}

// cut cuts the disk's power. If random is odd, a random part of the unsynced writes survives.
func (d *disk) cut(random uint64) error {
	if random&1 == 0 {
		return d.fs.PowerCut()
	}
	return d.fs.PowerCutKeeping(random >> 2) // the commands accept numbers of 63 bits
}

// salvage copies the disk's contents to a plain directory, because the contents vanish when the file system is unmounted.
func (d *disk) salvage() error {
	if d.fs == nil {
		return nil
	}
	return d.copyTo(d.dir + ".kept")
}
