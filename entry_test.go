package raft

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// entriesOfEveryShape returns entries with the extreme values of every field.
func entriesOfEveryShape() []Entry {
	return []Entry{
		{Index: 1, Kind: EntryBootstrap, Data: []byte("bootstrap")},
		{Index: 2, Term: 1, Kind: EntryConfiguration, Data: []byte("configuration")},
		{Index: 2, Term: 1, Kind: EntryNoop},
		{Index: 3, Term: 1, Kind: EntryCommand, Time: 1_700_000_000_000_000_000, Data: []byte("x")},
		{Index: math.MaxUint64, Term: math.MaxUint64, Kind: EntryCommand, Time: math.MinInt64, Data: make([]byte, 5000)},
	}
}

func TestRecord_RoundTrip(t *testing.T) {
	for _, e := range entriesOfEveryShape() {
		record := e.Record()
		require.Len(t, record, len(e.Data)+RecordOverheadBytes)
		size, err := RecordSize(record[:4])
		require.NoError(t, err)
		require.Equal(t, len(record), size)

		got, err := DecodeEntry(record)
		require.NoError(t, err)
		require.Equal(t, e.ID(), got.ID())
		require.Equal(t, e.Kind, got.Kind)
		require.Equal(t, e.Time, got.Time)
		require.Equal(t, string(e.Data), string(got.Data))
		require.Same(t, &record[0], &got.Record()[0], "a decoded entry is not encoded again")
	}
}

func TestRecord_EveryFlippedBitIsFound(t *testing.T) {
	for _, e := range entriesOfEveryShape() {
		record := e.Record()
		for bit := range len(record) * 8 {
			flipped := slices.Clone(record)
			flipped[bit/8] ^= 1 << (bit % 8)
			_, err := DecodeEntry(flipped)
			require.ErrorIs(t, err, ErrBadRecord, "bit %d of entry %v", bit, e.ID())
		}
	}
}

func TestRecord_CutShortOrWithMoreBehindIt(t *testing.T) {
	record := entriesOfEveryShape()[2].Record()
	for size := range record {
		_, err := DecodeEntry(record[:size])
		require.ErrorIs(t, err, ErrBadRecord, "cut to %d bytes", size)
	}
	_, err := DecodeEntry(append(slices.Clone(record), 0))
	require.ErrorIs(t, err, ErrBadRecord)
}

func TestRecord_WhatNoVersionWrote(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(record []byte)
	}{
		{"index 0", func(r []byte) { clear(r[8:16]) }},
		{"no kind", func(r []byte) { r[32] = 0 }},
	} {
		record := slices.Clone(entriesOfEveryShape()[2].Record())
		row.change(record)
		end := len(record) - recordTrailerBytes
		binary.LittleEndian.PutUint32(record[end:], crc32.Checksum(record[:end], castagnoli))
		_, err := DecodeEntry(record)
		require.ErrorIs(t, err, ErrBadRecord, row.rule)
	}
}

func TestRecord_OfALaterReleaseIsNotDamage(t *testing.T) {
	original := entriesOfEveryShape()[2]
	for _, row := range []struct {
		rule         string
		change       func(record []byte)
		kind         EntryKind
		found, known uint64
	}{
		{"another group", func(r []byte) { r[4] = 1 }, 0, 1, 0},
		{"a later version, whatever else it holds", func(r []byte) { r[7], r[32] = 3, 0 }, 0, 3, 0},
		{"an unknown kind", func(r []byte) { r[32] = byte(EntryRecovery) + 1 }, EntryRecovery + 1, 7, 6},
	} {
		record := slices.Clone(original.Record())
		row.change(record)
		end := len(record) - recordTrailerBytes
		binary.LittleEndian.PutUint32(record[end:], crc32.Checksum(record[:end], castagnoli))
		e, err := DecodeEntry(record)
		require.NotErrorIs(t, err, ErrBadRecord, row.rule)
		var later *LaterVersionError
		require.ErrorAs(t, err, &later, row.rule)
		require.Equal(t, [2]uint64{row.found, row.known}, [2]uint64{later.Found, later.Known}, row.rule)
		require.Equal(t, original.ID(), e.ID(), row.rule)
		require.Equal(t, row.kind, e.Kind, row.rule)
	}
}

func TestRecordSize_IsBoundedBeforeAnythingIsAllocated(t *testing.T) {
	prefix := binary.LittleEndian.AppendUint32(nil, EntryDataBytesMax)
	size, err := RecordSize(prefix)
	require.NoError(t, err)
	require.Equal(t, EntryDataBytesMax+RecordOverheadBytes, size)
	for _, n := range []uint32{EntryDataBytesMax + 1, math.MaxInt32, math.MaxUint32} {
		_, err := RecordSize(binary.LittleEndian.AppendUint32(nil, n))
		require.ErrorIs(t, err, ErrBadRecord)
	}
	_, err = RecordSize(prefix[:3])
	require.ErrorIs(t, err, ErrBadRecord)
}

func TestSeal_InPlaceCopiesACommandOnce(t *testing.T) {
	command := []byte("command")
	record, within := recordBuffer(command)
	require.NotSame(t, &command[0], &within[0], "the caller may use its bytes again")
	e := Entry{Index: 7, Term: 3, Kind: EntryCommand, Time: 9, Data: within, record: record}
	e.Seal()
	require.Same(t, &record[0], &e.Record()[0])
	require.Same(t, &within[0], &e.Data[0])
	got, err := DecodeEntry(record)
	require.NoError(t, err)
	require.Equal(t, EntryID{Term: 3, Index: 7}, got.ID())
	require.Equal(t, "command", string(got.Data))
}

func TestSeal_DataCannotGrowIntoTheChecksum(t *testing.T) {
	record, within := recordBuffer([]byte("command"))
	e := Entry{Index: 1, Kind: EntryCommand, Data: within, record: record}
	e.Seal()
	_ = append(e.Data, "more"...)
	decoded, err := DecodeEntry(e.Record())
	require.NoError(t, err)
	_ = append(decoded.Data, "more"...)
	_, err = DecodeEntry(e.Record())
	require.NoError(t, err)
}

func TestSeal_RefusesWhatCouldNotBeReadAgain(t *testing.T) {
	e := Entry{Index: 1, Kind: EntryCommand, Data: make([]byte, EntryDataBytesMax+1)}
	require.Panics(t, func() { e.Seal() })
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range entriesOfEveryShape() {
		f.Add(e.Record())
	}
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, record []byte) {
		e, err := DecodeEntry(record)
		var later *LaterVersionError
		if errors.As(err, &later) {
			require.NotZero(t, e.Index)
			require.Greater(t, later.Found, later.Known)
			return
		}
		if err != nil {
			require.ErrorIs(t, err, ErrBadRecord)
			return
		}
		e.record = nil
		require.Equal(t, record, e.Record(), "bytes that are reused as a record are the record of that entry")
	})
}
