package fuzzy

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
)

// ledger puts the machine of a member behind the library's own table of sessions. The table of a DurableFSM is in a store,
// together with the machine: each Apply is one transaction.
type ledger struct {
	m       *machine
	fsm     raft.SessionFSM
	durable bool
	store   map[string][]byte // of a DurableFSM
	effects []uint64          // serials of the commands of sessions that the last apply carried out
	salt    uint64            // for the next snapshot, as encode says
	filler  int
	err     error // a method of fsm has failed; nil: none
}

// newLedger returns a ledger for a machine whose state is that of a store, or empty.
func newLedger(m *machine, durable bool, store map[string][]byte) *ledger {
	l := &ledger{m: m, durable: durable, store: store}
	inner := raft.FSM(effects{l})
	if durable {
		inner = storedEffects{effects{l}}
	}
	l.fsm, l.err = sessions.Wrap(inner)
	return l
}

// copied returns the ledger of a process that starts with the state that another ledger has. m has the state already.
func (l *ledger) copied(m *machine) *ledger {
	if l.durable {
		return newLedger(m, true, maps.Clone(l.store))
	}
	c := newLedger(m, false, nil)
	if encoded := l.encode(0, 1); l.err == nil {
		c.decode(encoded)
	}
	return c
}

// apply applies entries in one batch, and returns their answers.
func (l *ledger) apply(entries []*raft.Entry) [][]byte {
	l.effects = l.effects[:0]
	batch := make([]raft.Entry, len(entries))
	for i, e := range entries {
		batch[i] = *e
		if e.Kind == raft.EntrySession {
			batch[i].Data = requestBytes(e)
		}
	}
	results := make([][]byte, len(batch))
	if l.err == nil {
		l.err = l.fsm.Apply(batch, results)
	}
	return results
}

// requestBytes returns the request of an entry of a session. The bytes before it name the client's attempt.
func requestBytes(e *raft.Entry) []byte { return e.Data[min(len(e.Data), commandBytesMin):] }

// digest returns a hash of the table.
func (l *ledger) digest() uint64 {
	if l == nil || l.err != nil {
		return 0
	}
	return uint64(crc32.Checksum(l.fsm.(interface{ Table() *sessions.Table }).Table().Encoded(), castagnoli))
}

func (l *ledger) encode(filler int, salt uint64) []byte {
	l.filler, l.salt = filler, salt
	var b bytes.Buffer
	frozen, err := l.fsm.Snapshot()
	if err == nil {
		err = frozen.WriteTo(context.Background(), &b)
	}
	if l.err == nil {
		l.err = err
	}
	return b.Bytes()
}

func (l *ledger) decode(b []byte) bool {
	return l.err == nil && l.fsm.Restore(context.Background(), raft.EntryID{}, bytes.NewReader(b)) == nil
}

// effects is the machine as the FSM behind the table.
type effects struct{ l *ledger }

// Apply answers each command with the history that it leads to. So no two effects have the same answer.
func (f effects) Apply(batch []raft.Entry, results [][]byte) error {
	for i := range batch {
		c := commandOf(&batch[i])
		f.l.m.apply(c)
		f.l.effects = append(f.l.effects, c.serial)
		results[i] = binary.LittleEndian.AppendUint64(make([]byte, c.serial%50), f.l.m.history)
	}
	return nil
}

func (f effects) Snapshot() (raft.FSMSnapshot, error) {
	return frozenMachine(f.l.m.encodeAlone(f.l.filler, f.l.salt)), nil
}

func (f effects) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err == nil && !f.l.m.decodeAlone(b) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

type frozenMachine []byte

func (b frozenMachine) WriteTo(_ context.Context, w io.Writer) error {
	_, err := w.Write(b)
	return err
}
func (b frozenMachine) Close() error { return nil }

// storedEffects is the machine as a DurableFSM. The simulation itself copies the state to the disk, and knows its index.
type storedEffects struct{ effects }

func (f storedEffects) ApplyWith(batch []raft.Entry, results [][]byte, _ raft.EntryID, changes func() []sessions.Change) error {
	err := f.Apply(batch, results)
	f.put(changes())
	return err
}

func (f storedEffects) put(changes []sessions.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(f.l.store, string(c.Key))
		} else {
			f.l.store[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
}

func (f storedEffects) RestoreWith(ctx context.Context, id raft.EntryID, r io.Reader, table []sessions.Change) error {
	clear(f.l.store)
	f.put(table)
	return f.Restore(ctx, id, r)
}

func (f storedEffects) Sessions(load func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(f.l.store)) {
		if err := load([]byte(key), f.l.store[key]); err != nil {
			return err
		}
	}
	return nil
}

func (f storedEffects) Applied() (raft.EntryID, error) { return raft.EntryID{}, nil }
func (f storedEffects) Sync() error                    { return nil }
