package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/coxswain/raft"
)

// withLog returns a check of a store with a log. The entries of the log have terms 1 to 3 and end at the given index.
func withLog(last raft.Index, check func(o *opened) error) func(Place) error {
	return inStore(func(o *opened) error {
		third := int(last) / 3
		if err := o.write(
			appendAfter(raft.EntryID{}, 0, 1), appendAfter(raft.EntryID{Index: 1}, 1, third-1),
			appendAfter(raft.EntryID{Term: 1, Index: raft.Index(third)}, 2, third),
			appendAfter(raft.EntryID{Term: 2, Index: raft.Index(2 * third)}, 3, int(last)-2*third), vote(3, "n2")); err != nil {
			return err
		}
		return check(o)
	})
}

func (o *opened) snapshots() raft.SnapshotStorage { return o.Storage.(raft.SnapshotStorage) }

// id returns the id of the model's entry at the index.
func (o *opened) id(i raft.Index) raft.EntryID { return o.model.entries[i-o.model.start.Index-1].ID() }

func baseAt(id raft.EntryID) raft.Base {
	b := bootstrap()
	return raft.Base{
		ID: id, Time: int64(id.Index) * 1000, Cluster: b.Cluster, Bootstrapper: b.Bootstrapper, ConfigIndex: 1, Config: b.Configuration,
	}
}

// described returns a snapshot of the entry with the id, and the bytes of the snapshot. The bytes differ for each number.
func described(id raft.EntryID, number byte, size int) (raft.Snapshot, []byte) {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i) ^ byte(i>>8) ^ number
	}
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return raft.Snapshot{Base: baseAt(id), File: raft.SnapshotID{number, 1}, Size: int64(size), Sum: sum}, data
}

// take writes the file of a snapshot and finishes it.
func (o *opened) take(id raft.EntryID, number byte, size int) (raft.Snapshot, error) {
	s, data := described(id, number, size)
	return s, o.finish(s, data)
}

func (o *opened) finish(s raft.Snapshot, data []byte) error {
	w, err := o.snapshots().CreateSnapshot(s.File)
	if err != nil {
		return fmt.Errorf("creating a snapshot: %w", err)
	}
	for part := data; len(part) > 0; {
		n, err := w.Write(part[:min(len(part), 5000)])
		if err != nil {
			return errors.Join(fmt.Errorf("writing a snapshot: %w", err), w.Abort())
		}
		part = part[n:]
	}
	if err := w.Finish(s); err != nil {
		return errors.Join(fmt.Errorf("finishing a snapshot: %w", err), w.Abort())
	}
	if err := w.Abort(); err != nil {
		return fmt.Errorf("calling Abort after Finish: %w", err)
	}
	if o.model.files == nil {
		o.model.files = map[raft.SnapshotID][]byte{}
	}
	o.model.files[s.File] = data
	return nil
}

func record(s raft.Snapshot) raft.StorageWrite { return raft.StorageWrite{Snapshot: &s} }

func compact(id raft.EntryID) raft.StorageWrite {
	b := baseAt(id)
	return raft.StorageWrite{Base: &b}
}

// install returns the write that replaces the log with a snapshot.
func install(s raft.Snapshot) raft.StorageWrite {
	return raft.StorageWrite{Snapshot: &s, Log: &raft.LogWrite{After: s.ID, Reset: true}}
}

// checkSnapshot compares the recorded snapshot and its bytes with the model.
func (o *opened) checkSnapshot() error {
	want := o.model.snapshot
	if got := o.stored.Snapshot; !bytes.Equal(got.Encode(), want.Encode()) {
		return fmt.Errorf("the recorded snapshot is %+v, not %+v", got, want)
	}
	if want.File == (raft.SnapshotID{}) {
		return nil
	}
	return o.checkBytes(want.File)
}

func (o *opened) checkBytes(file raft.SnapshotID) error {
	r, err := o.snapshots().OpenSnapshot(file)
	if err != nil {
		return fmt.Errorf("opening a snapshot: %w", err)
	}
	return errors.Join(sameBytes(r, o.model.files[file]), r.Close())
}

func sameBytes(r raft.SnapshotReader, want []byte) error {
	if r.Size() != int64(len(want)) {
		return fmt.Errorf("the snapshot has %d bytes, not %d", r.Size(), len(want))
	}
	got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("the snapshot has other bytes than were written")
	}
	if n, err := r.ReadAt(make([]byte, 2), r.Size()-1); n != min(1, len(want)) || err != io.EOF {
		return fmt.Errorf("a read at the end returned %d bytes and %v", n, err)
	}
	return nil
}
