package crashdisk

import (
	"errors"
	"io"
	"syscall"
)

// Life is the disk between two power cuts, as the processes see it during that time. Its methods return the errors of the
// operating system, or ErrPowerOff. Any goroutine may call its methods.
type Life struct {
	tree   *Tree
	number uint64
}

// Life returns the present life.
func (t *Tree) Life() *Life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Life{t, t.life}
}

// call carries out one call, unless the power is off or FailAt makes the call fail.
func (l *Life) call(do func(t *Tree) error) error {
	t := l.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.over() {
		return ErrPowerOff
	}
	t.calls++
	if t.calls == t.failAt {
		return t.failWith
	}
	return do(t)
}

// over reports whether the power is off. The lock is held.
func (l *Life) over() bool {
	t := l.tree
	return l.number != t.life || t.stopAt >= 0 && t.calls >= t.stopAt
}

// Alive returns ErrPowerOff if the power is off.
func (l *Life) Alive() error {
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if l.over() {
		return ErrPowerOff
	}
	return nil
}

// Size returns the size of a file, and 0 for a directory. It never fails and does not count as a call.
func (l *Life) Size(o Object) int64 {
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	if f, ok := o.(*File); ok {
		return int64(len(f.data))
	}
	return 0
}

// Lookup returns the file or directory that has the name in directory d.
func (l *Life) Lookup(d *Dir, name string) (o Object, err error) {
	err = l.call(func(*Tree) error {
		found, ok := d.names[name]
		if !ok {
			return syscall.ENOENT
		}
		o = found
		return nil
	})
	return o, err
}

// Named is one name in a directory.
type Named struct {
	Name   string
	Object Object
}

// List returns what is in the directory, sorted by name.
func (l *Life) List(d *Dir) (list []Named, err error) {
	err = l.call(func(*Tree) error {
		for _, name := range sortedNames(d.names) {
			list = append(list, Named{name, d.names[name]})
		}
		return nil
	})
	return list, err
}

// Create creates a file. The name must not exist.
func (l *Life) Create(d *Dir, name string) (f *File, err error) {
	err = l.call(func(t *Tree) error {
		if t.full {
			return syscall.ENOSPC
		}
		if _, ok := d.names[name]; ok {
			return syscall.EEXIST
		}
		f = t.newFile()
		t.setName(d, name, f)
		return nil
	})
	return f, err
}

// MakeDir creates a directory. The name must not exist.
func (l *Life) MakeDir(d *Dir, name string) (made *Dir, err error) {
	err = l.call(func(t *Tree) error {
		if _, ok := d.names[name]; ok {
			return syscall.EEXIST
		}
		made = t.newDir()
		t.setName(d, name, made)
		return nil
	})
	return made, err
}

// Link gives the file an additional name.
func (l *Life) Link(d *Dir, name string, f *File) error {
	return l.call(func(t *Tree) error {
		if _, ok := d.names[name]; ok {
			return syscall.EEXIST
		}
		t.setName(d, name, f)
		return nil
	})
}

// Remove removes the name of a file, or of an empty directory.
func (l *Life) Remove(d *Dir, name string) error {
	return l.call(func(t *Tree) error {
		o, ok := d.names[name]
		if !ok {
			return syscall.ENOENT
		}
		if below, ok := o.(*Dir); ok && len(below.names) > 0 {
			return syscall.ENOTEMPTY
		}
		t.dropName(d, name)
		return nil
	})
}

// Rename moves a file or directory to the new name. If another file or an empty directory has the new name, Rename replaces
// it.
func (l *Life) Rename(from *Dir, name string, to *Dir, newName string) error {
	return l.call(func(t *Tree) error {
		o, ok := from.names[name]
		if !ok {
			return syscall.ENOENT
		}
		if there, ok := to.names[newName].(*Dir); ok && len(there.names) > 0 {
			return syscall.ENOTEMPTY
		}
		t.dropName(from, name)
		t.setName(to, newName, o)
		return nil
	})
}

// SyncDir makes the names in the directory durable.
func (l *Life) SyncDir(d *Dir) error {
	l.tree.stall()
	return l.call(func(t *Tree) error { return failedUnless(t.syncDir(d)) })
}

// Sync makes the bytes and the size of the file durable.
func (l *Life) Sync(f *File) error {
	l.tree.stall()
	return l.call(func(t *Tree) error { return failedUnless(t.sync(f)) })
}

func failedUnless(ok bool) error {
	if ok {
		return nil
	}
	return syscall.EIO
}

// ReadAt reads as io.ReaderAt does.
func (l *Life) ReadAt(f *File, p []byte, offset int64) (n int, err error) {
	err = l.call(func(*Tree) error {
		if offset < 0 {
			return syscall.EINVAL
		}
		n = copy(p, f.data[min(offset, int64(len(f.data))):])
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// WriteAt writes all of p, or nothing.
func (l *Life) WriteAt(f *File, p []byte, offset int64) error {
	return l.call(func(t *Tree) error {
		if offset < 0 {
			return syscall.EINVAL
		}
		if !t.room(f, max(offset+int64(len(p)), int64(len(f.data)))) {
			return syscall.ENOSPC
		}
		t.write(f, p, offset)
		return nil
	})
}

// Resize truncates the file, or adds zeros.
func (l *Life) Resize(f *File, size int64) error {
	return l.call(func(t *Tree) error {
		if size > int64(len(f.data)) && !t.room(f, size) {
			return syscall.ENOSPC
		}
		t.resize(f, size)
		return nil
	})
}

// Space returns how many bytes the disk has and how many are free.
func (l *Life) Space() (total, free int64, err error) {
	err = l.call(func(t *Tree) error {
		total, free = t.quota, t.free()
		if total == 0 {
			total = sizeBytes
		}
		return nil
	})
	return total, free, err
}

// Errno returns the error number that a process would get from the operating system for err.
func Errno(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return syscall.EIO
}
