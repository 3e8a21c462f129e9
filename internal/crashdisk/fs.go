package crashdisk

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/coxswain/raft/internal/files"
)

// FS returns the disk as a file system, until the next power cut. Names are relative to the root, with or without a leading
// slash.
func (t *Tree) FS() files.FS { return &lifeFS{t.Life()} }

type lifeFS struct{ life *Life }

// lifeFile is an open file.
type lifeFile struct {
	life *Life
	file *File
	name string

	closed atomic.Bool
}

func named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// split returns the components of a name.
func split(name string) []string {
	return strings.FieldsFunc(filepath.ToSlash(filepath.Clean(name)), func(r rune) bool { return r == '/' })
}

// walk returns the directory of the components. The lookups do not count as calls.
func (s *lifeFS) walk(components []string) (*Dir, error) {
	t := s.life.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.life.over() {
		return nil, ErrPowerOff
	}
	dir := t.root
	for _, name := range components {
		if name == "." {
			continue
		}
		next, ok := dir.names[name]
		if !ok {
			return nil, syscall.ENOENT
		}
		if dir, ok = next.(*Dir); !ok {
			return nil, syscall.ENOTDIR
		}
	}
	return dir, nil
}

// parent returns the directory that holds the name, and the last component.
func (s *lifeFS) parent(name string) (*Dir, string, error) {
	components := split(name)
	if len(components) == 0 {
		return nil, "", syscall.EISDIR
	}
	last := len(components) - 1
	dir, err := s.walk(components[:last])
	return dir, components[last], err
}

// mayOpen returns the error of the lookup, or EMFILE if no file descriptor is left.
func (s *lifeFS) mayOpen(err error) error {
	t := s.life.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil || t.opensLeft < 0:
		return err
	case t.opensLeft == 0:
		return syscall.EMFILE
	}
	t.opensLeft--
	return nil
}

func (s *lifeFS) Create(name string) (files.File, error) {
	dir, base, err := s.parent(name)
	if err = s.mayOpen(err); err != nil {
		return nil, named("create", name, err)
	}
	f, err := s.life.Create(dir, base)
	if err != nil {
		return nil, named("create", name, err)
	}
	return s.opened(f, name), nil
}

func (s *lifeFS) opened(f *File, name string) *lifeFile {
	t := s.life.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.life.over() {
		t.open++
	}
	return &lifeFile{life: s.life, file: f, name: name}
}

func (s *lifeFS) Open(name string) (files.File, error) {
	dir, base, err := s.parent(name)
	if err = s.mayOpen(err); err != nil {
		return nil, named("open", name, err)
	}
	o, err := s.life.Lookup(dir, base)
	if err != nil {
		return nil, named("open", name, err)
	}
	f, ok := o.(*File)
	if !ok {
		return nil, named("open", name, syscall.EISDIR)
	}
	return s.opened(f, name), nil
}

// OpenWrite opens as Open does: every open file of this disk can be written to.
func (s *lifeFS) OpenWrite(name string) (files.File, error) { return s.Open(name) }

func (s *lifeFS) Rename(from, to string) error {
	fromDir, fromBase, err := s.parent(from)
	if err != nil {
		return named("rename", from, err)
	}
	toDir, toBase, err := s.parent(to)
	if err != nil {
		return named("rename", to, err)
	}
	return named("rename", from, s.life.Rename(fromDir, fromBase, toDir, toBase))
}

func (s *lifeFS) Remove(name string) error {
	dir, base, err := s.parent(name)
	if err != nil {
		return named("remove", name, err)
	}
	return named("remove", name, s.life.Remove(dir, base))
}

func (s *lifeFS) List(name string) ([]files.Info, error) {
	dir, err := s.walk(split(name))
	if err = s.mayOpen(err); err != nil {
		return nil, named("list", name, err)
	}
	all, err := s.life.List(dir)
	if err != nil {
		return nil, named("list", name, err)
	}
	var list []files.Info
	for _, n := range all {
		if f, ok := n.Object.(*File); ok {
			list = append(list, files.Info{Name: n.Name, Bytes: s.life.Size(f)})
		}
	}
	return list, nil
}

// MakeDir creates one directory after another, and syncs each parent.
func (s *lifeFS) MakeDir(name string) error {
	components := split(name)
	for k := range components {
		parent, err := s.walk(components[:k])
		if err != nil {
			return named("mkdir", name, err)
		}
		if _, err := s.life.MakeDir(parent, components[k]); err != nil && !errors.Is(err, fs.ErrExist) {
			return named("mkdir", name, err)
		}
		if err := s.life.SyncDir(parent); err != nil {
			return named("sync", name, err)
		}
	}
	return s.SyncDir(name)
}

func (s *lifeFS) SyncDir(name string) error {
	dir, err := s.walk(split(name))
	if err = s.mayOpen(err); err != nil {
		return named("sync", name, err)
	}
	return named("sync", name, s.life.SyncDir(dir))
}

func (s *lifeFS) Free(name string) (int64, error) {
	if _, err := s.walk(split(name)); err != nil {
		return 0, named("statfs", name, err)
	}
	_, free, err := s.life.Space()
	return free, named("statfs", name, err)
}

// Mount returns 0: all of the disk is one mount.
func (s *lifeFS) Mount(name string) (uint64, error) {
	_, err := s.Inode(name)
	return 0, err
}

func (s *lifeFS) Inode(name string) (uint64, error) {
	dir, base, err := s.parent(name)
	if err != nil {
		return 0, named("stat", name, err)
	}
	o, err := s.life.Lookup(dir, base)
	if err != nil {
		return 0, named("stat", name, err)
	}
	return o.Inode(), nil
}

func (s *lifeFS) Writable(dir string) error {
	_, err := s.walk(split(dir))
	return named("access", dir, err)
}

func (f *lifeFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.life.ReadAt(f.file, p, offset)
	if err == nil || n < len(p) && Errno(err) == 0 {
		return n, err // io.EOF is returned as it is
	}
	return n, named("read", f.name, err)
}

func (f *lifeFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.life.WriteAt(f.file, p, offset); err != nil {
		return 0, named("write", f.name, err)
	}
	return len(p), nil
}

func (f *lifeFile) Sync() error { return named("sync", f.name, f.life.Sync(f.file)) }

// Datasync makes the size durable, too, because without the size a process could not find the bytes.
func (f *lifeFile) Datasync() error { return f.Sync() }

func (f *lifeFile) Allocate(size int64) error {
	return named("fallocate", f.name, f.life.Resize(f.file, max(size, f.life.Size(f.file))))
}

func (f *lifeFile) Size() (int64, error) { return f.life.Size(f.file), nil }

// Close fails if it is called twice, as os.File.Close does.
func (f *lifeFile) Close() error {
	if f.closed.Swap(true) {
		return named("close", f.name, fs.ErrClosed)
	}
	t := f.life.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if !f.life.over() {
		t.open--
	}
	return nil
}
