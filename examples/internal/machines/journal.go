package machines

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/coxswain/raft"
)

// journal is the application: it keeps the numbers in its commands.
type journal struct{ numbers []uint64 }

func (j *journal) Apply(batch []raft.Entry, _ [][]byte) error {
	for _, entry := range batch {
		j.numbers = append(j.numbers, binary.BigEndian.Uint64(entry.Data))
	}
	return nil
}

// Snapshot may return the slice of numbers without a copy, because Apply only appends to it.
func (j *journal) Snapshot() (raft.FSMSnapshot, error) { return frozen(slices.Clip(j.numbers)), nil }

func (j *journal) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.numbers = make([]uint64, len(all)/8)
	_, err = binary.Decode(all, binary.BigEndian, j.numbers)
	return err
}

type frozen []uint64

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, []uint64(f)))
}
func (f frozen) Close() error { return nil }
