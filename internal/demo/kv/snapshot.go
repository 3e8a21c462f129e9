package kv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strconv"

	"github.com/coxswain/raft"
)

// A snapshot consists of a line with its version, the number of items, the items in the order of their keys, and a CRC-32C of
// all these bytes. The CRC-32C has 4 bytes, little endian. An item is the length of the key, the key, the length of the
// value, the value, and the revision. Numbers are unsigned varints.
const (
	snapshotMagic       = "raftkv snapshot "
	snapshotVersion     = 1
	snapshotBufferBytes = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wholeSum is the CRC-32C of any bytes followed by their own CRC-32C. The CRC-32C of no bytes is 0.
var wholeSum = crc32.Checksum([]byte{0, 0, 0, 0}, castagnoli)

var (
	// ErrBadSnapshot is matched by the errors of Restore for bytes that WriteTo did not write, and for bytes that Restore
	// cannot read.
	ErrBadSnapshot = errors.New("raftkv: bad snapshot")
	// ErrRestoring is returned by the other methods while Restore runs, and after it has failed.
	ErrRestoring = errors.New("raftkv: a snapshot is being restored, or could not be")
)

type snapshot struct{ tree tree }

// Snapshot freezes the present state. It copies nothing: the state is a tree that never changes.
func (s *Store) Snapshot() (raft.FSMSnapshot, error) {
	now, err := s.View()
	if err != nil {
		return nil, err
	}
	return &snapshot{now.tree}, nil
}

// snapshotBytes returns the size of the item in a snapshot.
func (i Item) snapshotBytes() int64 {
	key, value := len(i.Key), len(i.Value)
	return int64(varintBytes(uint64(key)) + key + varintBytes(uint64(value)) + value + varintBytes(uint64(i.Revision)))
}

func varintBytes(n uint64) int { return max(1, (bits.Len64(n)+6)/7) }

// Size returns the number of bytes that WriteTo writes.
func (s *snapshot) Size() int64 {
	head := fmt.Sprintf("%s%d\n", snapshotMagic, snapshotVersion)
	return int64(len(head)+varintBytes(uint64(s.tree.size))+crc32.Size) + s.tree.bytes
}

func (s *snapshot) WriteTo(ctx context.Context, w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), snapshotBufferBytes)
	var number [binary.MaxVarintLen64]byte
	writeNumber := func(n uint64) error {
		_, err := out.Write(number[:binary.PutUvarint(number[:], n)])
		return err
	}
	// The writer returns its first error from every later call. Therefore the last call of an item returns this error, too.
	_, _ = fmt.Fprintf(out, "%s%d\n", snapshotMagic, snapshotVersion)
	_ = writeNumber(uint64(s.tree.size))
	for item := range s.tree.from("") {
		if err := ctx.Err(); err != nil {
			return err
		}
		_ = writeNumber(uint64(len(item.Key)))
		_, _ = out.WriteString(item.Key)
		_ = writeNumber(uint64(len(item.Value)))
		_, _ = out.Write(item.Value)
		if err := writeNumber(uint64(item.Revision)); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

func (s *snapshot) Close() error {
	s.tree = tree{}
	return nil
}

// Restore replaces the state. It drops the old state first, so that memory never has to hold both. Until it succeeds,
// the other methods fail with ErrRestoring. The error matches ErrBadSnapshot, is a *raft.LaterVersionError, or comes from
// the context.
func (s *Store) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	s.state.Store(&state{restoring: true})
	restored, err := readSnapshot(ctx, r)
	if err != nil {
		return err
	}
	s.state.Store(&state{tree: restored, applied: id.Index})
	return nil
}

// readSnapshot reads a whole snapshot, as written by WriteTo.
func readSnapshot(ctx context.Context, r io.Reader) (tree, error) {
	sum := crc32.New(castagnoli)
	in := bufio.NewReaderSize(io.TeeReader(r, sum), snapshotBufferBytes)
	if err := readVersion(in); err != nil {
		return tree{}, err
	}
	items, err := readItems(ctx, in)
	if err != nil {
		return tree{}, err
	}
	if _, err := io.ReadFull(in, make([]byte, crc32.Size)); err != nil {
		return tree{}, fmt.Errorf("%w: checksum: %w", ErrBadSnapshot, err)
	}
	switch _, err := in.ReadByte(); {
	case err == nil:
		return tree{}, fmt.Errorf("%w: more bytes follow its %d items", ErrBadSnapshot, items.size)
	case !errors.Is(err, io.EOF):
		return tree{}, fmt.Errorf("%w: end: %w", ErrBadSnapshot, err)
	case sum.Sum32() != wholeSum:
		return tree{}, fmt.Errorf("%w: its checksum does not match", ErrBadSnapshot)
	}
	return items, nil
}

func readVersion(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	text, found := bytes.CutPrefix(line, []byte(snapshotMagic))
	version, err := strconv.ParseUint(string(bytes.TrimSuffix(text, []byte("\n"))), 10, 64)
	switch {
	case !found || err != nil || version == 0:
		return fmt.Errorf("%w: it does not begin with %q and a version", ErrBadSnapshot, snapshotMagic)
	case version > snapshotVersion:
		return &raft.LaterVersionError{Record: "the store's snapshot", Found: version, Known: snapshotVersion}
	}
	return nil
}

// readItems reads the number of items and the items.
func readItems(ctx context.Context, in *bufio.Reader) (tree, error) {
	count, err := binary.ReadUvarint(in)
	if err != nil {
		return tree{}, fmt.Errorf("%w: number of items: %w", ErrBadSnapshot, err)
	}
	var items builder
	var key [KeyBytesMax]byte
	last := "" // less than every key
	for i := range count {
		if err := ctx.Err(); err != nil {
			return tree{}, err
		}
		item, err := readItem(in, &key)
		if err == nil && item.Key <= last {
			err = fmt.Errorf("key %q is not above the one before, %q", item.Key, last)
		}
		if err != nil {
			return tree{}, fmt.Errorf("%w: item %d of %d: %w", ErrBadSnapshot, i+1, count, err)
		}
		items.add(item)
		last = item.Key
	}
	return items.tree(), nil
}

// readItem reads one item. The array is scratch space.
func readItem(in *bufio.Reader, array *[KeyBytesMax]byte) (Item, error) {
	n, err := readLength(in, KeyBytesMax)
	if err != nil {
		return Item{}, fmt.Errorf("key: %w", err)
	}
	if _, err := io.ReadFull(in, array[:n]); err != nil {
		return Item{}, fmt.Errorf("key: %w", err)
	}
	item := Item{Key: string(array[:n])}
	if err := CheckKey(item.Key); err != nil {
		return Item{}, err
	}
	if n, err = readLength(in, ValueBytesMax); err != nil {
		return Item{}, fmt.Errorf("value: %w", err)
	}
	item.Value = make([]byte, n)
	if _, err := io.ReadFull(in, item.Value); err != nil {
		return Item{}, fmt.Errorf("value: %w", err)
	}
	revision, err := binary.ReadUvarint(in)
	if err != nil {
		return Item{}, fmt.Errorf("revision: %w", err)
	}
	item.Revision = raft.Index(revision)
	return item, nil
}

func readLength(in *bufio.Reader, limit uint64) (int, error) {
	n, err := binary.ReadUvarint(in)
	if err == nil && n > limit {
		err = fmt.Errorf("%d bytes, over the limit of %d", n, limit)
	}
	return int(n), err
}
