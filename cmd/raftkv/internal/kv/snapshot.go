package kv

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
)

// A snapshot is the magic, the number of items, and the items in the order of their keys: each the
// length of the key, the key, the length of the value, the value, and the revision. Numbers are
// unsigned varints.
const snapshotMagic = "raftkv snapshot 1\n"

// ErrBadSnapshot is matched by the errors of Restore for bytes that no WriteTo wrote.
var ErrBadSnapshot = errors.New("raftkv: bad snapshot")

type snapshot struct{ tree tree }

// Snapshot freezes the present state; it costs nothing.
func (s *Store) Snapshot() (raft.FSMSnapshot, error) { return &snapshot{s.load().tree}, nil }

func (s *snapshot) WriteTo(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if _, err := out.WriteString(snapshotMagic); err != nil {
		return err
	}
	var number [binary.MaxVarintLen64]byte
	writeNumber := func(n uint64) { // errors stay in the bufio.Writer until Flush
		_, _ = out.Write(number[:binary.PutUvarint(number[:], n)])
	}
	writeNumber(uint64(s.tree.size))
	for item := range s.tree.from("") {
		if err := ctx.Err(); err != nil {
			return err
		}
		writeNumber(uint64(len(item.Key)))
		_, _ = out.WriteString(item.Key)
		writeNumber(uint64(len(item.Value)))
		_, _ = out.Write(item.Value)
		writeNumber(uint64(item.Revision))
	}
	return out.Flush()
}

func (s *snapshot) Close() error {
	s.tree = tree{}
	return nil
}

// Restore replaces the state. The store is as before if it fails.
func (s *Store) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != snapshotMagic {
		return fmt.Errorf("%w: it does not begin with %q", ErrBadSnapshot, snapshotMagic)
	}
	count, err := binary.ReadUvarint(in)
	if err != nil {
		return fmt.Errorf("%w: number of items: %w", ErrBadSnapshot, err)
	}
	restored := state{applied: id.Index}
	for i := range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, err := readItem(in)
		if err != nil {
			return fmt.Errorf("%w: item %d of %d: %w", ErrBadSnapshot, i+1, count, err)
		}
		restored.tree = restored.tree.put(item)
	}
	if uint64(restored.tree.size) != count {
		return fmt.Errorf("%w: a key is in it twice", ErrBadSnapshot)
	}
	s.state.Store(&restored)
	return nil
}

func readItem(in *bufio.Reader) (Item, error) {
	key, err := readBytes(in, KeyBytesMax)
	if err != nil {
		return Item{}, fmt.Errorf("key: %w", err)
	}
	if err := CheckKey(string(key)); err != nil {
		return Item{}, err
	}
	value, err := readBytes(in, ValueBytesMax)
	if err != nil {
		return Item{}, fmt.Errorf("value: %w", err)
	}
	revision, err := binary.ReadUvarint(in)
	if err != nil {
		return Item{}, fmt.Errorf("revision: %w", err)
	}
	return Item{string(key), value, raft.Index(revision)}, nil
}

func readBytes(in *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%d bytes, over the limit of %d", n, limit)
	}
	data := make([]byte, n)
	_, err = io.ReadFull(in, data)
	return data, err
}
