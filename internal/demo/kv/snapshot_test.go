package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var somewhere = raft.EntryID{Term: 1, Index: 9}

func freeze(t *testing.T, s *kv.Store) raft.FSMSnapshot {
	t.Helper()
	frozen, err := s.Snapshot()
	require.NoError(t, err)
	return frozen
}

// written returns the bytes that WriteTo writes, checks that their number equals the announced size, and closes the snapshot.
func written(t *testing.T, frozen raft.FSMSnapshot) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, frozen.WriteTo(t.Context(), &file))
	require.EqualValues(t, file.Len(), frozen.(interface{ Size() int64 }).Size())
	require.NoError(t, frozen.Close())
	return file.Bytes()
}

// contents returns all keys with their values, and checks that the store lists them in order.
func contents(t *testing.T, s *kv.Store) map[string]string {
	t.Helper()
	v := view(t, s)
	items, more := v.List("", "", v.Len())
	require.False(t, more)
	require.True(t, slices.IsSortedFunc(items, func(a, b kv.Item) int { return strings.Compare(a.Key, b.Key) }))
	got := map[string]string{}
	for _, item := range items {
		got[item.Key] = string(item.Value)
	}
	require.Len(t, got, v.Len())
	return got
}

// change returns a random put or delete of one of the keys 0 ... keys-1. It also applies this command to the model.
func change(random *rand.Rand, keys int, model map[string]string) kv.Command {
	c := put(fmt.Sprint(random.IntN(keys)), fmt.Sprint(random.Uint32()))
	if random.IntN(3) == 0 {
		c.Op, c.Value = kv.Delete, nil
		delete(model, c.Key)
		return c
	}
	model[c.Key] = string(c.Value)
	return c
}

// The test compares the store with Go's map over random commands. Each frozen version stays unchanged, and a restored store
// behaves like the original.
func TestStore_AgreesWithAMap(t *testing.T) {
	type version struct {
		frozen raft.FSMSnapshot
		model  map[string]string
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		keys := 1 + random.IntN(300)
		var s kv.Store
		model := map[string]string{}
		var versions []version
		for i := range 1000 {
			if i%200 == 0 {
				versions = append(versions, version{freeze(t, &s), maps.Clone(model)})
			}
			apply(t, &s, raft.Index(i+1), change(random, keys, model))
			if random.IntN(400) == 0 { // by its own snapshot
				require.NoError(t, s.Restore(t.Context(), somewhere, bytes.NewReader(written(t, freeze(t, &s)))))
			}
		}
		for _, v := range append(versions, version{freeze(t, &s), model}) {
			var restored kv.Store
			apply(t, &restored, 1, put("of before", ""))
			file := written(t, v.frozen)
			require.NoError(t, restored.Restore(t.Context(), somewhere, iotest.OneByteReader(bytes.NewReader(file))))
			require.Equal(t, v.model, contents(t, &restored))
			require.Equal(t, somewhere.Index, view(t, &restored).Applied())
			require.Equal(t, file, written(t, freeze(t, &restored)), "equal states have equal snapshots")
			for i := range 100 {
				apply(t, &restored, raft.Index(10+i), change(random, keys, v.model))
			}
			require.Equal(t, v.model, contents(t, &restored))
		}
	}
}

// The writer of the snapshot is held up after each buffer. Meanwhile the store applies more commands.
func TestSnapshot_IsNotChangedByLaterCommands(t *testing.T) {
	const keys = 1000
	random := rand.New(rand.NewPCG(3, 4))
	var s kv.Store
	model := map[string]string{}
	for i := range keys {
		c := put(fmt.Sprint(i), strings.Repeat("v", 500))
		apply(t, &s, raft.Index(i+1), c)
		model[c.Key] = string(c.Value)
	}
	frozen, before := freeze(t, &s), maps.Clone(model)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- errors.Join(frozen.WriteTo(t.Context(), w), w.Close()) }()
	var file bytes.Buffer
	for buffers := 0; ; buffers++ {
		n, err := io.CopyN(&file, r, 64<<10)
		for range 100 {
			apply(t, &s, view(t, &s).Applied()+1, change(random, keys, model))
		}
		if n < 64<<10 {
			require.ErrorIs(t, err, io.EOF)
			require.Greater(t, buffers, 5)
			break
		}
	}
	require.NoError(t, <-done)
	require.NoError(t, frozen.Close())
	var restored kv.Store
	require.NoError(t, restored.Restore(t.Context(), somewhere, &file))
	assert.Equal(t, before, contents(t, &restored))
	assert.Equal(t, model, contents(t, &s))
}

// filled returns a store with this many keys. Each value has this many bytes.
func filled(t *testing.T, keys, bytes int) *kv.Store {
	t.Helper()
	s := &kv.Store{}
	for i := range keys {
		apply(t, s, raft.Index(i+1), put(fmt.Sprintf("%08d", i*7919%keys), strings.Repeat("v", bytes)))
	}
	return s
}

func TestSnapshot_CostsTheSameWhateverTheSize(t *testing.T) {
	cost := func(s *kv.Store) float64 {
		return testing.AllocsPerRun(100, func() { _, _ = s.Snapshot() })
	}
	assert.Equal(t, cost(filled(t, 1, 1)), cost(filled(t, 1000, 1)))
}

// allocated returns the number of bytes that the function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestSnapshot_IsWrittenWithinABuffer(t *testing.T) {
	for _, size := range []int{100, kv.ValueBytesMax} {
		frozen := freeze(t, filled(t, 2<<20/size, size))
		bytes := allocated(func() { require.NoError(t, frozen.WriteTo(t.Context(), io.Discard)) })
		assert.Less(t, bytes, uint64(256<<10), "values of %d bytes", size)
	}
}

// Restore allocates only the state: a node, its key and its value for each item.
func TestRestore_AllocatesTheStateAndNothingElse(t *testing.T) {
	const keys = 2000
	file := written(t, freeze(t, filled(t, keys, 100)))
	var s kv.Store
	allocations := testing.AllocsPerRun(3, func() {
		require.NoError(t, s.Restore(t.Context(), somewhere, bytes.NewReader(file)))
	})
	assert.Less(t, allocations, 3.1*keys)
}

// summed appends the checksum of a snapshot. A test then depends only on the bytes before the checksum.
func summed(data string) []byte {
	return binary.LittleEndian.AppendUint32([]byte(data), crc32.Checksum([]byte(data), crc32.MakeTable(crc32.Castagnoli)))
}

func TestRestore_RefusesWhatNobodyWrote(t *testing.T) {
	const head = "raftkv snapshot 1\n"
	var full kv.Store
	apply(t, &full, 1, put("a", "1"), put("b", "2"))
	whole := written(t, freeze(t, &full))
	require.Equal(t, summed(head+"\x02\x01a\x011\x01\x01b\x012\x02"), whole, "the format")
	bad := map[string][]byte{
		"another format":           []byte("something else entirely"),
		"no version":               summed("raftkv snapshot \n\x00"),
		"version 0":                summed("raftkv snapshot 0\n\x00"),
		"a line that never ends":   []byte(strings.Repeat("raftkv snapshot ", 10_000)),
		"a huge key":               summed(head + "\x01\xff\xff\xff\xff\x0f"),
		"a huge value":             summed(head + "\x01\x01a\xff\xff\xff\xff\x0f"),
		"a huge count":             summed(head + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"an empty key":             summed(head + "\x01\x00\x00\x01"),
		"a key of bad UTF-8":       summed(head + "\x01\x01\xff\x00\x01"),
		"the same key twice":       summed(head + "\x02\x01a\x00\x01\x01a\x00\x02"),
		"keys out of order":        summed(head + "\x02\x01b\x00\x01\x01a\x00\x02"),
		"fewer items than counted": summed(head + "\x02\x01a\x00\x01"),
		"more items than counted":  summed(head + "\x01\x01a\x00\x01\x01b\x00\x02"),
		"an endless number":        summed(head + strings.Repeat("\xff", 20)),
		"a value that is short":    summed(head + "\x01\x01a\x05xx"),
		"more behind its end":      append(bytes.Clone(whole), 0),
		"two of them":              append(bytes.Clone(whole), whole...),
	}
	var behind kv.Store
	err := behind.Restore(t.Context(), somewhere, bytes.NewReader(append(bytes.Clone(whole), 0)))
	assert.ErrorContains(t, err, "more bytes follow its 2 items")
	for i := range whole {
		bad[fmt.Sprintf("cut at %d", i)] = whole[:i]
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << bit
			bad[fmt.Sprintf("bit %d of byte %d", bit, i)] = flipped
		}
	}
	for name, data := range bad {
		var s kv.Store
		apply(t, &s, 1, put("old", ""))
		err := s.Restore(t.Context(), somewhere, bytes.NewReader(data))
		var later *raft.LaterVersionError
		if !errors.As(err, &later) || later.Found < 2 { // a flipped bit may name a later version
			assert.ErrorIs(t, err, kv.ErrBadSnapshot, name)
		}
		requireRestoring(t, &s)
	}
}

// requireRestoring checks that every method of the store fails.
func requireRestoring(t *testing.T, s *kv.Store) {
	t.Helper()
	_, err := s.View()
	require.ErrorIs(t, err, kv.ErrRestoring)
	_, err = s.Snapshot()
	require.ErrorIs(t, err, kv.ErrRestoring)
	require.ErrorIs(t, s.Apply([]raft.Entry{{Index: 10}}, make([][]byte, 1)), kv.ErrRestoring)
}

func TestRestore_RefusesALaterFormat(t *testing.T) {
	var s kv.Store
	err := s.Restore(t.Context(), somewhere, strings.NewReader("raftkv snapshot 2\nwhatever that is"))
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
	assert.Equal(t, raft.LaterVersionError{Record: "the store's snapshot", Found: 2, Known: 1}, *later)
	requireRestoring(t, &s)
}

func TestRestore_CanBeRepeatedAfterAnError(t *testing.T) {
	var s kv.Store
	apply(t, &s, 1, put("a", "1"))
	file := written(t, freeze(t, &s))
	broken := errors.New("broken")
	err := s.Restore(t.Context(), somewhere, io.MultiReader(bytes.NewReader(file), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	requireRestoring(t, &s)
	require.NoError(t, s.Restore(t.Context(), somewhere, bytes.NewReader(file)))
	assert.Equal(t, map[string]string{"a": "1"}, contents(t, &s))
}

func TestStore_RefusesReadsWhileItIsRestored(t *testing.T) {
	var s kv.Store
	apply(t, &s, 1, put("a", "1"))
	earlier := view(t, &s)
	file := written(t, freeze(t, &s))
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Restore(t.Context(), somewhere, r) }()
	_, err := w.Write(file[:10])
	require.NoError(t, err)
	requireRestoring(t, &s)
	_, found := earlier.Get("a")
	assert.True(t, found, "a read that has begun ends")
	_, err = w.Write(file[10:])
	require.NoError(t, errors.Join(err, w.Close(), <-done))
	assert.Equal(t, map[string]string{"a": "1"}, contents(t, &s))
}

func TestSnapshot_StopsWithItsContext(t *testing.T) {
	var s kv.Store
	apply(t, &s, 1, put("a", "1"))
	frozen := freeze(t, &s)
	file := written(t, freeze(t, &s))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, frozen.WriteTo(ctx, io.Discard), context.Canceled)
	assert.ErrorIs(t, s.Restore(ctx, somewhere, bytes.NewReader(file)), context.Canceled)
}

// failing fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("the disk is full")

func (f *failing) Write(b []byte) (int, error) {
	n := min(len(b), f.left)
	f.left -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestSnapshot_StopsWithItsWriter(t *testing.T) {
	s := filled(t, 3000, 50) // more than one buffer
	size := len(written(t, freeze(t, s)))
	for _, left := range []int{0, size / 2, size - 4, size - 1} {
		assert.ErrorIs(t, freeze(t, s).WriteTo(t.Context(), &failing{left}), errFull)
	}
}
