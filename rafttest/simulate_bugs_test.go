package rafttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coxswain/raft"
)

// variant is a shelf with some methods replaced.
type variant struct {
	shelf
	apply    func(v *variant, batch []raft.Entry, results [][]byte) error
	snapshot func(v *variant) (raft.FSMSnapshot, error)
	restore  func(v *variant, r io.Reader) error
	buffer   []byte
	batch    []raft.Entry
	list     []byte
	journal  []string
	last     raft.Index
	ctx      context.Context

	keepsContext bool
}

func (v *variant) Apply(batch []raft.Entry, results [][]byte) error {
	if v.apply == nil {
		return v.shelf.Apply(batch, results)
	}
	return v.apply(v, batch, results)
}

func (v *variant) Snapshot() (raft.FSMSnapshot, error) {
	if v.snapshot == nil {
		return v.shelf.Snapshot()
	}
	return v.snapshot(v)
}

func (v *variant) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	if v.keepsContext {
		v.ctx = ctx
	}
	if v.restore == nil {
		return v.shelf.Restore(ctx, id, r)
	}
	return v.restore(v, r)
}

// writes is a frozen state whose WriteTo is this function.
type writes func(w io.Writer) error

func (f writes) WriteTo(ctx context.Context, w io.Writer) error { return errors.Join(ctx.Err(), f(w)) }
func (f writes) Close() error                                   { return nil }

// decorate returns an Apply that applies the batch as a shelf does, and then changes the answers.
func decorate(change func(v *variant, e raft.Entry, answer []byte) []byte) func(*variant, []raft.Entry, [][]byte) error {
	return func(v *variant, batch []raft.Entry, results [][]byte) error {
		for i := range batch {
			if err := v.shelf.Apply(batch[i:i+1], results[i:i+1]); err != nil {
				return err
			}
			results[i] = change(v, batch[i], results[i])
		}
		return nil
	}
}

var sharedCount atomic.Int64

// userBugs are mistakes that users make. If an answer shares bytes, it depends on the seed which rule finds the mistake.
var userBugs = []struct {
	bug, rule, cause string
	variant          variant
}{
	{"an answer is a slice of the state", "", "bytes with the state", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			if key, is := bytes.CutPrefix(e.Data, []byte("get ")); is {
				return v.items[string(key)]
			}
			return answer
		}),
	}},
	{"all answers share one buffer", "", "", variant{
		apply: decorate(func(v *variant, _ raft.Entry, answer []byte) []byte {
			v.buffer = append(v.buffer[:0], answer...)
			return v.buffer
		}),
	}},
	{"Apply keeps the batch", "A5", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			for i := range v.batch {
				if len(v.batch[i].Data) == 0 {
					return errors.New("an earlier entry is gone")
				}
			}
			v.batch = batch
			return v.shelf.Apply(batch, results)
		},
	}},
	{"Apply changes the bytes of a command", "A6", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			err := v.shelf.Apply(batch, results)
			batch[0].Data[0] = 'S'
			return err
		},
	}},
	{"Apply appends to the bytes of a command", "A6", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			for _, e := range batch {
				v.buffer = append(e.Data, '\n')
			}
			return v.shelf.Apply(batch, results)
		},
	}},
	{"a package variable", "A1", "in the same way every time", variant{
		apply: decorate(func(_ *variant, _ raft.Entry, answer []byte) []byte {
			return fmt.Appendf(answer, " %d", sharedCount.Add(1))
		}),
	}},
	{"the gap between two indexes, which is not in the snapshot", "A1", "does not hold the whole state", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			gap := e.Index - v.last
			v.last = e.Index
			return fmt.Appendf(answer, " %d", gap)
		}),
	}},
	{"a cache that Restore does not reset", "A1", "does not replace the whole state", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			switch {
			case !bytes.Equal(e.Data, []byte("list")):
				if e.Data[0] == 's' || e.Data[0] == 'd' {
					v.list = nil
				}
				return answer
			case v.list == nil:
				v.list = append([]byte{' '}, answer...)
			}
			return bytes.Clone(v.list)
		}),
	}},
	{"values that change in place while they are written", "A1", "not frozen", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			for _, value := range v.items {
				for i := range value {
					value[i] = byte('0' + (int(value[i])+int(e.Index))%10)
				}
			}
			return answer
		}),
	}},
	{"WriteTo writes a part of the live state", "A1", "not frozen", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			state := shelfState{cloneItems(v.items), 0}
			return writes(func(w io.Writer) error {
				state.Count = v.count
				return json.NewEncoder(w).Encode(state)
			}), nil
		},
	}},
	{"Snapshot changes the state", "A1", "changes the state", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen, err := v.shelf.Snapshot()
			v.count = 0
			return frozen, err
		},
	}},
	{"WriteTo changes the state", "A1", "changes the state", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen, err := v.shelf.Snapshot()
			return writes(func(w io.Writer) error {
				delete(v.items, "2")
				return frozen.WriteTo(context.Background(), w)
			}), err
		},
	}},
	{"WriteTo forgets the errors of its writer", "A6", "", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen, err := v.shelf.Snapshot()
			return writes(func(w io.Writer) error {
				_ = frozen.WriteTo(context.Background(), w)
				return nil
			}), err
		},
	}},
	{"Restore does not read to the end", "A6", "", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			state := shelfState{cloneItems(v.items), v.count}
			return writes(func(w io.Writer) error { return json.NewEncoder(w).Encode(state) }), nil
		},
		restore: func(v *variant, r io.Reader) error {
			var state shelfState
			err := json.NewDecoder(r).Decode(&state) // leaves the end of the line unread
			v.items, v.count = state.Items, state.Count
			return err
		},
	}},
	{"Restore calls Read once", "A5", "fewer", variant{
		restore: func(v *variant, r io.Reader) error {
			buffer := make([]byte, 1<<16)
			n, err := r.Read(buffer)
			if err != nil && err != io.EOF {
				return err
			}
			return v.shelf.Restore(context.Background(), raft.EntryID{}, bytes.NewReader(buffer[:n]))
		},
	}},
	{"Restore appends to a list", "A1", "does not replace the whole state", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			v.journal = append(v.journal, string(e.Data))
			return fmt.Append(nil, len(v.journal))
		}),
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen := fmt.Append(nil, len(v.journal))
			return writes(func(w io.Writer) error { _, err := w.Write(frozen); return err }), nil
		},
		restore: func(v *variant, r io.Reader) error {
			data, err := io.ReadAll(r)
			n, _ := strconv.Atoi(string(data))
			v.journal = append(v.journal, make([]string, n)...)
			return err
		},
	}},
	{"an empty state that cannot be restored", "A5", "", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			if v.count == 0 {
				return writes(func(io.Writer) error { return nil }), nil
			}
			return v.shelf.Snapshot()
		},
	}},
	{"Apply sorts the batch", "A6", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			slices.SortFunc(batch, func(a, b raft.Entry) int { return bytes.Compare(a.Data, b.Data) })
			return v.shelf.Apply(batch, results)
		},
	}},
	{"Restore keeps the context", "A5", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			if v.ctx != nil && v.ctx.Err() != nil {
				return v.ctx.Err()
			}
			return v.shelf.Apply(batch, results)
		},
		keepsContext: true,
	}},
	{"Close changes bytes that the state still uses", "A1", "changes the state", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			shared := maps.Clone(v.items)
			frozen, err := v.shelf.Snapshot()
			return &closes{frozen, func() error {
				for _, value := range shared {
					clear(value)
				}
				return nil
			}}, err
		},
	}},
	{"Close writes the rest", "A6", "", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen, err := v.shelf.Snapshot()
			var out *bufio.Writer
			return &closes{
				writes(func(w io.Writer) error {
					out = bufio.NewWriter(w)
					return frozen.WriteTo(context.Background(), out)
				}),
				func() error {
					if out != nil {
						_ = out.Flush()
					}
					return nil
				},
			}, err
		},
	}},
	{"WriteTo returns before it has written", "A6", "", variant{
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen, err := v.shelf.Snapshot()
			var done sync.WaitGroup
			return &closes{
				writes(func(w io.Writer) error {
					done.Go(func() { _ = frozen.WriteTo(context.Background(), w) })
					return nil
				}),
				func() error {
					done.Wait()
					return nil
				},
			}, err
		},
	}},
	{"a frozen list whose memory is used again", "A1", "not frozen", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			if len(v.journal) == 5 {
				v.journal = v.journal[:0]
			}
			v.journal = append(v.journal, string(e.Data))
			return fmt.Append(nil, v.journal)
		}),
		snapshot: func(v *variant) (raft.FSMSnapshot, error) {
			frozen := v.journal
			return writes(func(w io.Writer) error { return json.NewEncoder(w).Encode(frozen) }), nil
		},
		restore: func(v *variant, r io.Reader) error {
			data, err := io.ReadAll(r)
			v.journal = nil
			return errors.Join(err, json.Unmarshal(data, &v.journal))
		},
	}},
	{"an effect that waits for the next Apply", "A1", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			if v.list != nil {
				delete(v.items, string(v.list))
				v.list = nil
			}
			err := v.shelf.Apply(batch, results)
			if key, is := bytes.CutPrefix(batch[len(batch)-1].Data, []byte("get ")); is {
				v.list = bytes.Clone(key)
			}
			return err
		},
	}},
	{"an error where an answer should be", "A5", "", variant{
		apply: func(v *variant, batch []raft.Entry, results [][]byte) error {
			err := v.shelf.Apply(batch, results)
			for i := range results {
				if bytes.HasPrefix(batch[i].Data, []byte("get ")) && results[i] == nil {
					err = errors.New("not found")
				}
			}
			return err
		},
	}},
	{"a sum in the order of a map", "A1", "", variant{
		apply: decorate(func(v *variant, _ raft.Entry, answer []byte) []byte {
			sum := 0.0
			for _, value := range v.items {
				n, _ := strconv.Atoi(string(value))
				sum += float64(n) / 7
			}
			return fmt.Append(answer, " ", sum)
		}),
	}},
	{"a panic at a command that was retried", "A5", "", variant{
		apply: decorate(func(v *variant, e raft.Entry, answer []byte) []byte {
			if e.Data[0] == 's' && string(e.Data) == string(v.list) {
				panic("set twice")
			}
			v.list = bytes.Clone(e.Data)
			return answer
		}),
	}},
}

// closes is a frozen state with another Close.
type closes struct {
	raft.FSMSnapshot
	end func() error
}

func (c *closes) Close() error { return c.end() }

func cloneItems(items map[string][]byte) map[string][]byte {
	clone := map[string][]byte{}
	for key, value := range items {
		clone[key] = bytes.Clone(value)
	}
	return clone
}

func TestSimulate_FindsWhatUsersGetWrong(t *testing.T) {
	for _, row := range userBugs {
		t.Run(row.bug, func(t *testing.T) {
			s := simulating(func() raft.FSM {
				v := row.variant
				v.shelf = shelf{items: map[string][]byte{}}
				return &v
			}, shelfCommand)
			s.finds(t, row.rule, row.cause)
		})
	}
}
