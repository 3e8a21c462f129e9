// Package crashdisk is a disk in memory. A power cut loses everything that is not synced, and the disk fails on request. The
// simulator and tests use the disk through files.FS. Real processes use it through a mount of package powercut.
//
// A sync of a directory makes durable which names were created or removed in it. A sync of a file makes its bytes and its
// size durable. The disk writes blocks of 512 bytes as a whole. The same calls, cuts and failures always lead to the same
// content, because nothing depends on time or chance.
package crashdisk

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Tree is the content of the disk. For each file and directory it holds the state that processes see, and the state that is
// on the disk. Any goroutine may call its methods.
type Tree struct {
	mu   sync.Mutex // guards all fields below, and files and directories
	root *Dir
	// life counts power cuts. Calls by an earlier Life return errors.
	life uint64
	last uint64 // the last inode number that was assigned
	// syncsLeft is how many further syncs succeed. If it is negative, all syncs succeed.
	syncsLeft int
	open      int   // number of open files, as package files opens them, since the last cut or kill
	opensLeft int   // how many more times a file can be opened; if it is negative, always
	forgets   bool  // no later sync writes what a failed sync did not write
	full      bool  // writes fail
	lies      bool  // syncs do nothing
	quota     int64 // bytes of all files; 0: no limit
	used      int64 // bytes of all files that have a name, in whole blocks
	// syncDelay is how long a sync waits before it begins, unless resumed is closed.
	syncDelay time.Duration
	resumed   chan struct{}

	calls    int   // number of calls made
	stopAt   int   // number of calls that are carried out; negative: all
	failAt   int   // number of the call that fails; 0: none
	failWith error // its error
}

const (
	// blockBytes is the unit of the disk. If a block is not synced, a power cut leaves either all its old bytes or all its
	// new bytes.
	blockBytes = 512
	// sizeBytes is the size of a disk without a quota.
	sizeBytes = 1 << 40
)

// Object is a *File or a *Dir.
type Object interface{ Inode() uint64 }

// File is a file, independent of its names.
type File struct {
	ino     uint64
	data    []byte             // content as processes see it
	disk    []byte             // content on the disk
	dirty   map[int64]struct{} // blocks that are not on the disk
	resized bool               // the size is not on the disk
	links   int                // number of names
}

// Dir is a directory.
type Dir struct {
	ino   uint64
	names map[string]Object // names as processes see them
	disk  map[string]Object // names on the disk
	// changed holds every name that may differ between the state that processes see and the state on the disk. So the cost of
	// a sync depends only on the changes.
	changed map[string]struct{}
}

// Inode returns the number of the file.
func (f *File) Inode() uint64 { return f.ino }

// Inode returns the number of the directory.
func (d *Dir) Inode() uint64 { return d.ino }

// New returns an empty disk.
func New() *Tree {
	t := &Tree{syncsLeft: -1, opensLeft: -1, stopAt: -1, resumed: make(chan struct{})}
	t.root = t.newDir()
	return t
}

// Root returns the root directory.
func (t *Tree) Root() *Dir { return t.root }

func (t *Tree) newDir() *Dir {
	t.last++
	return emptyDir(t.last)
}

func emptyDir(ino uint64) *Dir {
	return &Dir{ino: ino, names: map[string]Object{}, disk: map[string]Object{}, changed: map[string]struct{}{}}
}

func (t *Tree) newFile() *File {
	t.last++
	return &File{ino: t.last, dirty: map[int64]struct{}{}}
}

// setName gives the object the name. If another object has that name, the other object loses it.
func (t *Tree) setName(d *Dir, name string, o Object) {
	t.dropName(d, name)
	d.names[name] = o
	d.changed[name] = struct{}{}
	if f, ok := o.(*File); ok {
		if f.links++; f.links == 1 {
			t.used += roundedUp(int64(len(f.data)))
		}
	}
}

func (t *Tree) dropName(d *Dir, name string) {
	f, ok := d.names[name].(*File)
	delete(d.names, name)
	d.changed[name] = struct{}{}
	if !ok {
		return
	}
	if f.links--; f.links == 0 {
		t.used -= roundedUp(int64(len(f.data)))
	}
}

func (t *Tree) write(f *File, data []byte, offset int64) {
	if end := offset + int64(len(data)); end > int64(len(f.data)) {
		t.resize(f, end)
	}
	copy(f.data[offset:], data)
	for b := offset / blockBytes; b*blockBytes < offset+int64(len(data)); b++ {
		f.dirty[b] = struct{}{}
	}
}

func (t *Tree) resize(f *File, size int64) {
	if size == int64(len(f.data)) {
		return
	}
	if f.links > 0 {
		t.used += roundedUp(size) - roundedUp(int64(len(f.data)))
	}
	f.data = resized(f.data, size)
	f.resized = true
}

// resized returns b with the given length. If b grows, the added bytes are zeros.
func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		clear(b[size:])
		return b[:size]
	}
	return slices.Grow(b, int(size)-len(b))[:size]
}

// sync writes the whole content of the file to the disk, and reports whether the sync succeeds. If the disk lies, sync writes
// nothing and still returns true.
func (t *Tree) sync(f *File) bool {
	if !t.mayDoSync() {
		if t.forgets {
			f.settle(KeepNothing)
		}
		return false
	}
	if !t.lies {
		f.settle(keepAll)
	}
	return true
}

func (t *Tree) syncDir(d *Dir) bool {
	if !t.mayDoSync() {
		return false
	}
	if !t.lies {
		d.settle(keepAll)
	}
	return true
}

func (t *Tree) mayDoSync() bool {
	if t.syncsLeft > 0 {
		t.syncsLeft--
		return true
	}
	return t.syncsLeft < 0
}

// room reports whether the file may be that large.
func (t *Tree) room(f *File, size int64) bool {
	if t.full {
		return false
	}
	grows := roundedUp(size) - roundedUp(int64(len(f.data)))
	return t.quota == 0 || grows <= 0 || t.used <= t.quota-grows
}

func roundedUp(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

func (t *Tree) free() int64 {
	switch {
	case t.full:
		return 0
	case t.quota == 0:
		return max(sizeBytes-t.used, 0)
	}
	return max(t.quota-t.used, 0)
}

// stall makes a sync wait while other calls continue. The caller does not hold the lock.
func (t *Tree) stall() {
	t.mu.Lock()
	delay, resumed := t.syncDelay, t.resumed
	t.mu.Unlock()
	if delay == 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-resumed:
	}
}

// Cut simulates a power cut. Everything that is synced stays. Each unsynced block, size or name stays if keep returns true.
// The order of the calls of keep depends only on the content and the earlier answers. Cut ends every Life. It also ends
// stalls and the failures of syncs, opens and calls. The quota stays.
func (t *Tree) Cut(keep func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life++
	t.syncsLeft, t.opensLeft, t.stopAt, t.failAt, t.open = -1, -1, -1, 0, 0
	t.resumeSyncs()
	t.used = 0
	done := map[Object]bool{}
	for waiting := []Object{t.root}; len(waiting) > 0; {
		next := waiting[0]
		waiting = waiting[1:]
		if done[next] {
			if f, ok := next.(*File); ok {
				f.links++
			}
			continue
		}
		done[next] = true
		switch o := next.(type) {
		case *File:
			o.settle(keep)
			o.data, o.links = slices.Clone(o.disk), 1
			t.used += roundedUp(int64(len(o.data)))
		case *Dir:
			o.settle(keep)
			o.names = maps.Clone(o.disk)
			for _, name := range sortedNames(o.disk) {
				waiting = append(waiting, o.disk[name])
			}
		}
	}
}

// settle moves to the disk the changes for which keep returns true, and drops the others.
func (f *File) settle(keep func() bool) {
	if f.resized && keep() {
		f.disk = resized(f.disk, int64(len(f.data)))
	}
	f.resized = false
	blocks := make([]int64, 0, len(f.dirty))
	for b := range f.dirty {
		blocks = append(blocks, b)
	}
	slices.Sort(blocks)
	for _, b := range blocks {
		from, to := b*blockBytes, min((b+1)*blockBytes, int64(len(f.data)))
		if from >= to || !keep() {
			continue
		}
		if to > int64(len(f.disk)) {
			f.disk = resized(f.disk, to)
		}
		copy(f.disk[from:to], f.data[from:to])
	}
	clear(f.dirty)
}

// settle does for the names what File.settle does for the bytes.
func (d *Dir) settle(keep func() bool) {
	for _, name := range sortedNames(d.changed) {
		now, ok := d.names[name]
		if now == d.disk[name] || !keep() {
			continue
		}
		if ok {
			d.disk[name] = now
		} else {
			delete(d.disk, name)
		}
	}
	clear(d.changed)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Clone returns an independent disk with the same content, synced and unsynced. The clone keeps the settings of Fill, Quota,
// Lie and ForgetFailed. No call fails or stalls on the clone yet.
func (t *Tree) Clone() *Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := New()
	c.last, c.full, c.lies, c.forgets, c.quota, c.used = t.last, t.full, t.lies, t.forgets, t.quota, t.used
	made := map[Object]Object{}
	c.root = cloned(t.root, made).(*Dir)
	return c
}

// cloned copies an object and everything below it. An object with several names is copied once.
func cloned(o Object, made map[Object]Object) Object {
	if c, ok := made[o]; ok {
		return c
	}
	switch o := o.(type) {
	case *File:
		c := *o
		c.data, c.disk, c.dirty = slices.Clone(o.data), slices.Clone(o.disk), maps.Clone(o.dirty)
		made[o] = &c
		return &c
	case *Dir:
		c := emptyDir(o.ino)
		c.changed = maps.Clone(o.changed)
		made[o] = c
		for name, o := range o.names {
			c.names[name] = cloned(o, made)
		}
		for name, o := range o.disk {
			c.disk[name] = cloned(o, made)
		}
		return c
	}
	return nil
}
