package kv

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/require"
)

const (
	benchKeys  = 1 << 17
	benchBatch = 64
)

// plain is a store without snapshots: Go's map. The benchmarks compare it with Store.
type plain map[string]Item

func (p plain) Apply(batch []raft.Entry, results [][]byte) error {
	for i, e := range batch {
		c, err := DecodeCommand(e.Data)
		if err != nil {
			return err
		}
		_, existed := p[c.Key]
		p[c.Key] = Item{c.Key, c.Value, e.Index}
		if results[i], err = (Answer{Revision: e.Index, Existed: existed}).encode(); err != nil {
			return err
		}
	}
	return nil
}

// benchBatches returns puts of all keys in a random order.
func benchBatches(b *testing.B) [][]raft.Entry {
	b.Helper()
	var batches [][]raft.Entry
	for i, key := range rand.New(rand.NewPCG(1, 1)).Perm(benchKeys) {
		if i%benchBatch == 0 {
			batches = append(batches, nil)
		}
		data, err := Command{Op: Put, Key: benchKey(key), Value: make([]byte, 100)}.Encode()
		require.NoError(b, err)
		last := &batches[len(batches)-1]
		*last = append(*last, raft.Entry{Index: raft.Index(i + 1), Kind: raft.EntryCommand, Data: data})
	}
	return batches
}

func benchKey(i int) string { return fmt.Sprintf("key/%08d", i) }

type applier interface {
	Apply(batch []raft.Entry, results [][]byte) error
}

func fill(b *testing.B, s applier, batches [][]raft.Entry) {
	b.Helper()
	for _, batch := range batches {
		require.NoError(b, s.Apply(batch, make([][]byte, benchBatch)))
	}
}

// BenchmarkApply applies one batch of 64 puts per operation.
func BenchmarkApply(b *testing.B) {
	batches := benchBatches(b)
	for name, s := range map[string]applier{"tree": &Store{}, "map": plain{}} {
		b.Run(name, func(b *testing.B) {
			fill(b, s, batches)
			results := make([][]byte, benchBatch)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Apply(batches[i%len(batches)], results); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	var s Store
	model := plain{}
	batches := benchBatches(b)
	fill(b, &s, batches)
	fill(b, model, batches)
	var keys []string
	for _, i := range rand.New(rand.NewPCG(2, 2)).Perm(benchKeys) {
		keys = append(keys, benchKey(i))
	}
	for name, get := range map[string]func(string) (Item, bool){
		"tree": func(key string) (Item, bool) { v, _ := s.View(); return v.Get(key) },
		"map":  func(key string) (Item, bool) { item, found := model[key]; return item, found },
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, found := get(keys[i%benchKeys]); !found {
					b.Fatal("not found")
				}
			}
		})
	}
}

// BenchmarkSnapshot writes and restores a state of 2^17 items of 100 bytes.
func BenchmarkSnapshot(b *testing.B) {
	var s Store
	fill(b, &s, benchBatches(b))
	frozen, err := s.Snapshot()
	require.NoError(b, err)
	var file bytes.Buffer
	require.NoError(b, frozen.WriteTo(b.Context(), &file))
	b.Run("WriteTo", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, frozen.WriteTo(b.Context(), io.Discard))
		}
	})
	b.Run("Restore", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, s.Restore(b.Context(), raft.EntryID{Index: 1}, bytes.NewReader(file.Bytes())))
		}
	})
}
