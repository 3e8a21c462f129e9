package powercut

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// tree is the content of the file system: for each file and directory what processes see, and what is on the
// disk.
type tree struct {
	mu   sync.Mutex // guards all fields below, and files and directories
	root *dir
	// life counts power cuts. Mounts from an earlier life return errors.
	life uint64
	last uint64 // the last inode number that was assigned
	// syncsLeft is how many more syncs succeed; if it is negative, all do.
	syncsLeft int
	full      bool // writes fail
	lies      bool // syncs do nothing
	// syncDelay is how long a sync waits before it begins, unless resumed is closed.
	syncDelay time.Duration
	resumed   chan struct{}
}

// blockBytes is the unit of the disk: a power cut leaves either the old or the new bytes of a block that was
// not synced.
const blockBytes = 512

type object interface{ inode() uint64 }

type file struct {
	ino  uint64
	data []byte // as processes see it
	disk []byte // as it was synced
	// dirty holds the blocks whose data is not on the disk; resized reports that the size is not.
	dirty   map[int64]struct{}
	resized bool
}

type dir struct {
	ino   uint64
	names map[string]object
	disk  map[string]object
}

func (f *file) inode() uint64 { return f.ino }
func (d *dir) inode() uint64  { return d.ino }

func newTree() *tree {
	t := &tree{syncsLeft: -1, resumed: make(chan struct{})}
	t.root = t.newDir()
	return t
}

func (t *tree) newDir() *dir {
	t.last++
	return &dir{ino: t.last, names: map[string]object{}, disk: map[string]object{}}
}

func (t *tree) newFile() *file {
	t.last++
	return &file{ino: t.last, dirty: map[int64]struct{}{}}
}

func (f *file) write(data []byte, offset int64) {
	if end := offset + int64(len(data)); end > int64(len(f.data)) {
		f.resize(end)
	}
	copy(f.data[offset:], data)
	for b := offset / blockBytes; b*blockBytes < offset+int64(len(data)); b++ {
		f.dirty[b] = struct{}{}
	}
}

func (f *file) resize(size int64) {
	if size == int64(len(f.data)) {
		return
	}
	f.data = resized(f.data, size)
	f.resized = true
}

// resized returns b with that length, zeros at its end where it grew.
func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		clear(b[size:])
		return b[:size]
	}
	return slices.Grow(b, int(size)-len(b))[:size]
}

// sync writes everything of the file to the disk, or fails.
func (t *tree) sync(f *file) bool {
	if !t.mayDoSync() {
		return false
	}
	if !t.lies {
		f.settle(func() bool { return true })
	}
	return true
}

func (t *tree) syncDir(d *dir) bool {
	if !t.mayDoSync() {
		return false
	}
	if !t.lies {
		d.settle(func() bool { return true })
	}
	return true
}

func (t *tree) mayDoSync() bool {
	if t.syncsLeft > 0 {
		t.syncsLeft--
		return true
	}
	return t.syncsLeft < 0
}

// stall makes a sync wait while everything else goes on. The caller does not hold the lock.
func (t *tree) stall() {
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

func (t *tree) resumeSyncs() {
	t.syncDelay = 0
	close(t.resumed)
	t.resumed = make(chan struct{})
}

// cut simulates a power cut: what was synced stays, and so does the part of the rest for which keep returns
// true. keep is called for each block, size and name, in an order that depends on nothing else.
func (t *tree) cut(keep func() bool) {
	t.life++
	t.syncsLeft = -1
	t.resumeSyncs()
	done := map[object]bool{}
	for waiting := []object{t.root}; len(waiting) > 0; {
		next := waiting[0]
		waiting = waiting[1:]
		if done[next] {
			continue
		}
		done[next] = true
		switch o := next.(type) {
		case *file:
			o.settle(keep)
			o.data = slices.Clone(o.disk)
		case *dir:
			o.settle(keep)
			o.names = map[string]object{}
			for _, name := range sortedNames(o.disk) {
				o.names[name] = o.disk[name]
				waiting = append(waiting, o.disk[name])
			}
		}
	}
}

// settle moves to the disk the changes for which keep returns true, and drops the others.
func (f *file) settle(keep func() bool) {
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

func (d *dir) settle(keep func() bool) {
	all := map[string]object{}
	for name, o := range d.names {
		all[name] = o
	}
	for name, o := range d.disk {
		all[name] = o
	}
	for _, name := range sortedNames(all) {
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
}

func sortedNames(m map[string]object) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// keepNothing and keepHalf are what a power cut leaves of what was not synced.
func keepNothing() bool { return false }

func keepHalf(seed uint64) func() bool {
	random := rand.New(rand.NewPCG(seed, seed))
	return func() bool { return random.IntN(2) == 0 }
}
