package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/coxswain/raft"
)

// Durable is a raft.DurableFSM that stores the table of sessions with its own state. A table that is durable at another index
// than the state loses or doubles effects, so each method makes both durable in one step, or neither.
//
// The keys and values are opaque. They need a place of their own, such as a bucket.
type Durable interface {
	raft.DurableFSM
	// ApplyWith is called instead of Apply, also with an empty batch. After it has put the answers to the batch into results, it
	// calls changes once, and stores what that returns in the transaction of the batch. Applied returns last from then on.
	ApplyWith(batch []raft.Entry, results [][]byte, last raft.EntryID, changes func() []Change) error
	// RestoreWith is called instead of Restore. It also replaces all keys of the table by those of sessions.
	RestoreWith(ctx context.Context, id raft.EntryID, r io.Reader, sessions []Change) error
	// Sessions calls load for each stored key of the table, in any order, until load returns an error, which it returns. It is
	// called once, first. load copies key and value.
	Sessions(load func(key, value []byte) error) error
}

// UnsupportedError refuses to wrap a DurableFSM without the methods of Durable. Add them: the table of sessions must be stored in
// the transaction of the state.
type UnsupportedError struct {
	FSM string // its type
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("raft: %s is a DurableFSM that does not store sessions: implement session.Durable (ApplyWith, RestoreWith, Sessions), "+
		"so that the table of sessions is in the same transaction as the state", e.FSM)
}

// Wrap returns an FSM that keeps sessions beside inner. inner sees the commands of sessions as ordinary commands, each once. The
// result is a raft.DurableFSM if inner is one.
func Wrap(inner raft.FSM) (raft.SessionFSM, error) {
	if inner == nil {
		return nil, errors.New("raft: there is no FSM to wrap: it is nil")
	}
	if raft.AppliesSessions(inner) {
		return nil, errors.New("raft: the FSM keeps sessions already: wrap it once")
	}
	if _, ok := inner.(raft.DurableFSM); !ok {
		return &FSM{inner: inner, table: NewTable()}, nil
	}
	durable, ok := inner.(Durable)
	if !ok {
		return nil, &UnsupportedError{fmt.Sprintf("%T", inner)}
	}
	table, err := fromStore(durable.Sessions)
	if err != nil {
		return nil, err
	}
	table.changes = &changes{}
	return &durableFSM{FSM{inner: inner, durable: durable, table: table}}, nil
}

// FSM keeps the table beside an FSM that is in memory.
type FSM struct {
	inner   raft.FSM
	durable Durable // inner, or nil
	table   *Table
}

// AppliesSessions implements raft.SessionFSM.
func (f *FSM) AppliesSessions() bool { return true }

// Table returns the table. It may be read while no method of the FSM runs.
func (f *FSM) Table() *Table { return f.table }

// run is a part of a batch whose commands inner applies together.
type run struct {
	last     raft.EntryID // last entry of the part, for inner or not
	commands []raft.Entry // for inner
	places   []place      // where their results go
	repeats  []place      // commands of sessions that repeat one of the part
	pending  int          // commands of sessions
}

func (r *run) reset() {
	*r = run{commands: r.commands[:0], places: r.places[:0], repeats: r.repeats[:0]}
}

// place is where a result goes, and whose command it answers; effect is zero for a command without a session.
type place struct {
	result int
	effect Effect
}

// Apply implements raft.FSM.
func (f *FSM) Apply(batch []raft.Entry, results [][]byte) error {
	if f.durable == nil && !slices.ContainsFunc(batch, func(e raft.Entry) bool { return e.Kind == raft.EntrySession }) {
		return f.inner.Apply(batch, results)
	}
	r := run{commands: make([]raft.Entry, 0, len(batch)), places: make([]place, 0, len(batch))}
	for i, e := range batch {
		if e.Kind != raft.EntrySession {
			r.commands, r.places = append(r.commands, e), append(r.places, place{result: i})
			r.last = e.ID()
			continue
		}
		if f.table.Unsure(e, r.pending) {
			if err := f.applyRun(&r, results); err != nil {
				return err
			}
			r.reset()
		}
		request, answer, of := f.table.Take(e)
		switch {
		case of.New:
			command := raft.Entry{Index: e.Index, Term: e.Term, Kind: raft.EntryCommand, Time: e.Time, Data: request.Data}
			r.commands, r.places = append(r.commands, command), append(r.places, place{i, of})
			r.pending++
		case of != Effect{}:
			r.repeats = append(r.repeats, place{i, of})
		default:
			results[i] = answer.Encode()
		}
		r.last = e.ID()
	}
	return f.applyRun(&r, results)
}

// applyRun has inner apply the commands, and stores their answers in the table.
func (f *FSM) applyRun(r *run, results [][]byte) error {
	inner := make([][]byte, len(r.commands))
	if f.durable == nil {
		if len(r.commands) > 0 {
			if err := f.inner.Apply(r.commands, inner); err != nil {
				return err
			}
		}
		f.finish(r, inner, results)
		return nil
	}
	var list []Change
	called := false
	changes := func() []Change {
		if !called {
			called = true
			f.finish(r, inner, results)
			list = f.table.take()
		}
		return list
	}
	if err := f.durable.ApplyWith(r.commands, inner, r.last, changes); err != nil {
		return err
	}
	if !called {
		return fmt.Errorf("raft: %T.ApplyWith has not called changes: it must store what that returns", f.inner)
	}
	return nil
}

// finish stores the answers to the commands in the table, and passes them on.
func (f *FSM) finish(r *run, inner, results [][]byte) {
	for i, p := range r.places {
		if (p.effect == Effect{}) {
			results[p.result] = inner[i]
		} else {
			results[p.result] = f.table.Finish(p.effect, inner[i]).Encode()
		}
	}
	for _, p := range r.repeats {
		results[p.result] = f.answerOf(r, p.effect, results)
	}
}

// answerOf returns a copy of the answer to the command that was repeated.
func (f *FSM) answerOf(r *run, repeated Effect, results [][]byte) []byte {
	for _, p := range r.places {
		if p.effect.session == repeated.session && p.effect.number == repeated.number {
			return bytes.Clone(results[p.result])
		}
	}
	return Answer{Outcome: Malformed}.Encode() // unreachable: answers that are not known are those of this part
}

// snapshotMagic begins a snapshot with a table: 16 random bytes, then the length of the table as a uint64, little endian, the
// table, and inner's snapshot. A snapshot from before the first session has none of that, so that the program may go back.
const snapshotMagic = "\x9c\x1f\xe2\x07\x5a\xb3\x4d\x88\xf6\x30\x6e\xc9\x12\xd5\x8b\x71"

// Snapshot implements raft.FSM. It encodes the table at once, which takes about 0.2 µs for each session.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	inner, err := f.inner.Snapshot()
	if err != nil || f.table.unused() {
		return inner, err
	}
	table := f.table.encode()
	prefix := append(make([]byte, 0, len(snapshotMagic)+8), snapshotMagic...)
	frozen := frozen{inner, [2][]byte{binary.LittleEndian.AppendUint64(prefix, uint64(len(table))), table}}
	if sized, ok := inner.(interface{ Size() int64 }); ok {
		return sizedFrozen{frozen, sized.Size}, nil
	}
	return frozen, nil
}

// frozen is the frozen state of inner behind the table.
type frozen struct {
	raft.FSMSnapshot
	table [2][]byte
}

// WriteTo implements raft.FSMSnapshot.
func (s frozen) WriteTo(ctx context.Context, w io.Writer) error {
	for _, part := range s.table {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return s.FSMSnapshot.WriteTo(ctx, w)
}

// sizedFrozen is a frozen state whose size is known.
type sizedFrozen struct {
	frozen
	inner func() int64
}

// Size returns how many bytes WriteTo will write.
func (s sizedFrozen) Size() int64 {
	return int64(len(s.table[0])+len(s.table[1])) + s.inner()
}

// Restore implements raft.FSM.
func (f *FSM) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	table, rest, err := readTable(r)
	if err != nil {
		return err
	}
	if f.durable != nil {
		if err := f.durable.RestoreWith(ctx, id, rest, table.all()); err != nil {
			return err
		}
		table.changes = &changes{}
	} else if err := f.inner.Restore(ctx, id, rest); err != nil {
		return err
	}
	f.table = table
	return nil
}

// readTable reads the table at the beginning of a snapshot, if there is one. rest is inner's snapshot.
func readTable(r io.Reader) (t *Table, rest io.Reader, err error) {
	head := make([]byte, len(snapshotMagic)+8)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, err
	}
	if n < len(head) || string(head[:len(snapshotMagic)]) != snapshotMagic {
		return NewTable(), io.MultiReader(bytes.NewReader(head[:n]), r), nil
	}
	var table bytes.Buffer // it grows with what is there, whatever the length says
	size := min(binary.LittleEndian.Uint64(head[len(snapshotMagic):]), numberMax)
	if _, err := io.CopyN(&table, r, int64(size)); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errStored, err)
	}
	t, err = decodeTable(table.Bytes())
	return t, r, err
}

// durableFSM keeps the table in the store of a DurableFSM.
type durableFSM struct{ FSM }

// Applied implements raft.DurableFSM.
func (f *durableFSM) Applied() (raft.EntryID, error) { return f.durable.Applied() }

// Sync implements raft.DurableFSM.
func (f *durableFSM) Sync() error { return f.durable.Sync() }
