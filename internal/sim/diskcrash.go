package sim

import (
	"maps"
	"slices"
)

// Crash takes away what was not synced, but for any part of it: each write that was not synced is kept,
// lost or torn, whatever became of the ones before it, and so is each change of a name. With torn,
// sectors that were lost may hold garbage or zeros instead of what was there.
func (d *Disk) Crash(torn bool) {
	for _, m := range d.moves {
		if d.random.Coin() {
			d.keep(m)
		}
	}
	d.moves = nil
	d.life++
	done := map[*inode]bool{}
	for _, name := range sorted(d.kept) {
		if n := d.kept[name]; !done[n] {
			done[n] = true
			n.crash(d.random, torn)
			n.current = slices.Clone(n.durable)
		}
	}
	d.names = maps.Clone(d.kept)
	d.count()
}

func (d *Disk) count() {
	d.used = 0
	for _, n := range d.names {
		d.used += len(n.current)
	}
}

// crash moves any part of the writes that were not synced into the durable image.
func (n *inode) crash(s *Stream, torn bool) {
	for _, w := range n.writes {
		switch s.IntN(4) {
		case 0: // lost
		case 1:
			n.durable = w.apply(slices.Clone(n.durable))
		default:
			n.durable = w.tear(s, n.durable, torn)
		}
	}
	n.writes = nil
}

// tear keeps any sectors of a write. The length of the file may have become durable without the data.
func (w write) tear(s *Stream, content []byte, torn bool) []byte {
	content = slices.Clone(content)
	if w.cut {
		if s.Coin() {
			content = w.apply(content)
		}
		return content
	}
	end := len(w.data)
	if s.Coin() { // the length did not get far
		end = s.IntN(end + 1)
	}
	for from := 0; from < end; {
		to := min(from+SectorBytes-(w.at+from)%SectorBytes, end)
		part := write{at: w.at + from, data: slices.Clone(w.data[from:to])}
		switch fate := s.IntN(8); {
		case fate < 4:
			content = part.apply(content)
		case fate == 4 && torn:
			for i := range part.data {
				part.data[i] = byte(s.Uint64())
			}
			content = part.apply(content)
		case fate == 5 && torn || part.at+len(part.data) > len(content):
			clear(part.data)
			content = part.apply(content)
		}
		from = to
	}
	return content
}

// Rot changes bits of a file, in the durable image and as it is read, and reports whether there was
// anything to change.
func (d *Disk) Rot(name string) bool {
	n := d.names[name]
	if n == nil || len(n.current) == 0 {
		return false
	}
	at := d.random.IntN(len(n.current))
	bit := byte(1) << d.random.IntN(8)
	n.current = slices.Clone(n.current)
	n.current[at] ^= bit
	if at < len(n.durable) {
		n.durable = slices.Clone(n.durable)
		n.durable[at] ^= bit
	}
	return true
}

// Image is a copy of what is durable on a disk: a backup of it.
type Image struct{ files map[string][]byte }

// Image copies what is durable.
func (d *Disk) Image() Image {
	i := Image{map[string][]byte{}}
	for _, name := range sorted(d.kept) {
		i.files[name] = slices.Clone(d.kept[name].durable)
	}
	return i
}

// Restore replaces the disk by an older image of it. Open files are dead.
func (d *Disk) Restore(i Image) {
	d.kept, d.moves = map[string]*inode{}, nil
	d.life++
	for name, content := range i.files {
		d.kept[name] = &inode{durable: slices.Clone(content), current: slices.Clone(content), bad: map[int]bool{}}
	}
	d.names = maps.Clone(d.kept)
	d.count()
}
