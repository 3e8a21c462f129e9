package sim

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
)

// SectorBytes is what a disk writes at once: of a write that a crash tears, each sector is new or not.
const SectorBytes = 512

// The errors of a Disk.
var (
	ErrNoFile  = errors.New("sim: no such file")
	ErrExists  = errors.New("sim: file exists")
	ErrIO      = errors.New("sim: input/output error")
	ErrNoSpace = errors.New("sim: no space left on the disk")
	ErrDead    = errors.New("sim: the process that opened this file has died")
)

// Disk is a file system with a durable image and, beside it, what was done and not synced, in order, for
// each file and each directory. A process sees both; a crash keeps the image and any part of the rest.
type Disk struct {
	random *Stream
	names  map[string]*inode // as the process sees them
	kept   map[string]*inode // durable
	moves  []move            // of names, not synced
	life   int               // raised by each crash: open files of an earlier one are dead
	faults DiskFaults
	used   int
}

// DiskFaults is how a disk misbehaves, from now on.
type DiskFaults struct {
	Capacity  int // bytes of all files; 0: unlimited
	FailWrite int // in millionths of the writes: ErrIO after a part of them
	FailSync  int // of the syncs: ErrIO, and what was not synced may be gone although it can be read
	FailRead  int // of the reads: ErrIO; the sector stays bad
	Latency   Delay
	StallTill Time // every operation takes until then
}

// inode is a file, whatever its names are.
type inode struct {
	durable []byte
	current []byte
	writes  []write
	bad     map[int]bool // sectors that cannot be read
}

// write is a change of a file that was not synced: bytes at an offset, or, if cut, the end of the file.
type write struct {
	at   int
	data []byte
	cut  bool
}

// move is a change of a directory that was not synced: name refers to file from now on, or to nothing.
type move struct {
	directory, name string
	file            *inode
	renamed         string // the old name, which goes at the same instant
}

// NewDisk returns an empty disk.
func NewDisk(random *Stream) *Disk {
	return &Disk{random: random, names: map[string]*inode{}, kept: map[string]*inode{}}
}

// SetFaults replaces the faults.
func (d *Disk) SetFaults(f DiskFaults) { d.faults = f }

// Took draws how long an operation takes that begins now.
func (d *Disk) Took(now Time) Time {
	return max(d.faults.Latency.draw(d.random), d.faults.StallTill-now)
}

// File is an open file.
type File struct {
	disk *Disk
	node *inode
	life int
}

// Create makes an empty file. Its name is not durable until its directory is synced.
func (d *Disk) Create(name string) (*File, error) {
	if d.names[name] != nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, name)
	}
	n := &inode{bad: map[int]bool{}}
	d.names[name] = n
	d.moves = append(d.moves, move{directory: path.Dir(name), name: name, file: n})
	return &File{d, n, d.life}, nil
}

// Open opens a file.
func (d *Disk) Open(name string) (*File, error) {
	n := d.names[name]
	if n == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoFile, name)
	}
	return &File{d, n, d.life}, nil
}

// Rename replaces to by from, at one instant; durable once the directory is synced.
func (d *Disk) Rename(from, to string) error {
	n := d.names[from]
	if n == nil {
		return fmt.Errorf("%w: %s", ErrNoFile, from)
	}
	delete(d.names, from)
	d.names[to] = n
	d.moves = append(d.moves, move{directory: path.Dir(to), name: to, file: n, renamed: from})
	return nil
}

// Remove removes a name; durable once the directory is synced.
func (d *Disk) Remove(name string) error {
	if d.names[name] == nil {
		return fmt.Errorf("%w: %s", ErrNoFile, name)
	}
	delete(d.names, name)
	d.moves = append(d.moves, move{directory: path.Dir(name), name: name})
	return nil
}

// List returns the names in a directory, sorted.
func (d *Disk) List(directory string) []string {
	var list []string
	for name := range d.names {
		if path.Dir(name) == directory {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// SyncDir makes the names of a directory durable.
func (d *Disk) SyncDir(directory string) error {
	if d.random.Chance(d.faults.FailSync) {
		return fmt.Errorf("%w: sync of %s", ErrIO, directory)
	}
	d.moves = slices.DeleteFunc(d.moves, func(m move) bool {
		if m.directory != directory {
			return false
		}
		d.keep(m)
		return true
	})
	return nil
}

func (d *Disk) keep(m move) {
	if m.renamed != "" {
		delete(d.kept, m.renamed)
	}
	if m.file == nil {
		delete(d.kept, m.name)
	} else {
		d.kept[m.name] = m.file
	}
}

func (f *File) alive() error {
	if f.life != f.disk.life {
		return ErrDead
	}
	return nil
}

// Size is the length of the file as the process sees it.
func (f *File) Size() int { return len(f.node.current) }

// ReadAt reads up to len(p) bytes; fewer at the end of the file.
func (f *File) ReadAt(p []byte, at int) (int, error) {
	if err := f.alive(); err != nil {
		return 0, err
	}
	if at >= len(f.node.current) {
		return 0, nil
	}
	n := copy(p, f.node.current[at:])
	if n > 0 && f.disk.random.Chance(f.disk.faults.FailRead) {
		f.node.bad[(at+f.disk.random.IntN(n))/SectorBytes] = true
	}
	for sector := at / SectorBytes; sector <= (at+max(n, 1)-1)/SectorBytes; sector++ {
		if f.node.bad[sector] {
			return 0, fmt.Errorf("%w: sector %d", ErrIO, sector)
		}
	}
	return n, nil
}

// WriteAt writes p at an offset, which may be behind the end. After an error a part of it may be written.
func (f *File) WriteAt(p []byte, at int) (int, error) {
	if err := f.alive(); err != nil {
		return 0, err
	}
	d, n, err := f.disk, len(p), error(nil)
	if d.random.Chance(d.faults.FailWrite) {
		n, err = d.random.IntN(len(p)+1), ErrIO
	}
	grows := func(n int) int { return max(at+n-len(f.node.current), 0) }
	if d.faults.Capacity > 0 && d.used+grows(n) > d.faults.Capacity {
		n, err = max(min(n, d.faults.Capacity-d.used+len(f.node.current)-at), 0), ErrNoSpace
	}
	if n == 0 {
		return 0, err
	}
	d.used += grows(n)
	w := write{at: at, data: slices.Clone(p[:n])}
	f.node.writes = append(f.node.writes, w)
	f.node.current = w.apply(f.node.current)
	for sector := (at + SectorBytes - 1) / SectorBytes; (sector+1)*SectorBytes <= at+n; sector++ {
		delete(f.node.bad, sector) // the disk remaps a sector that is written as a whole
	}
	return n, err
}

// Append writes at the end.
func (f *File) Append(p []byte) (int, error) { return f.WriteAt(p, f.Size()) }

// Truncate cuts the file, or extends it with zeros.
func (f *File) Truncate(size int) error {
	if err := f.alive(); err != nil {
		return err
	}
	f.disk.used += size - f.Size()
	w := write{at: size, cut: true}
	f.node.writes = append(f.node.writes, w)
	f.node.current = w.apply(f.node.current)
	return nil
}

// Sync makes the content durable; not the name. If it fails, the kernel has marked the pages clean: the
// process still reads what it wrote, a second sync succeeds, and the disk may have none of it.
func (f *File) Sync() error {
	if err := f.alive(); err != nil {
		return err
	}
	if f.disk.random.Chance(f.disk.faults.FailSync) {
		f.node.crash(f.disk.random, false)
		return fmt.Errorf("%w: sync", ErrIO)
	}
	f.node.durable = slices.Clone(f.node.current)
	f.node.writes = nil
	return nil
}

func (w write) apply(content []byte) []byte {
	end := w.at + len(w.data)
	if w.cut && w.at <= len(content) {
		return content[:w.at:w.at]
	}
	if end > len(content) {
		content = append(content[:len(content):len(content)], make([]byte, end-len(content))...)
	}
	copy(content[w.at:], w.data)
	return content
}

// sorted returns the names of an image in order: what a crash draws does not depend on a map.
func sorted(names map[string]*inode) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}
