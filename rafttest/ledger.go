package rafttest

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coxswain/raft"
)

// power is a member's storage with a power switch. After the power is cut, no change reaches the disk.
type power struct {
	raft.SnapshotStorage
	off  atomic.Bool
	mu   sync.Mutex // held during every change
	held heldCount
}

var errNoPower = errors.New("rafttest: the member was crashed")

func (p *power) cut() {
	p.off.Store(true)
	p.mu.Lock() // waits for a change that has begun
	defer p.mu.Unlock()
}

// powered makes a change, unless the power is off.
func (p *power) powered(change func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off.Load() {
		return errNoPower
	}
	return change()
}

func (p *power) Write(w raft.StorageWrite) error {
	return p.powered(func() error { return p.SnapshotStorage.Write(w) })
}

func (p *power) CreateSnapshot(file raft.SnapshotID) (w raft.SnapshotWriter, err error) {
	err = p.powered(func() (err error) {
		w, err = p.SnapshotStorage.CreateSnapshot(file)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.held.add("an unfinished snapshot", 1)
	return &poweredWriter{SnapshotWriter: w, power: p}, nil
}

func (p *power) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	r, err := p.SnapshotStorage.OpenSnapshot(file)
	if err != nil {
		return nil, err
	}
	p.held.add("a reader of a snapshot", 1)
	return &countedReader{SnapshotReader: r, held: &p.held}, nil
}

func (p *power) DiscardSnapshot(file raft.SnapshotID) error {
	return p.powered(func() error { return p.SnapshotStorage.DiscardSnapshot(file) })
}

func (p *power) Prune() (more bool, err error) {
	err = p.powered(func() (err error) {
		more, err = p.SnapshotStorage.Prune()
		return err
	})
	return more, err
}

// poweredWriter writes a snapshot while the power is on.
type poweredWriter struct {
	raft.SnapshotWriter
	power *power
	ended bool // one goroutine uses a writer
}

func (w *poweredWriter) Write(b []byte) (n int, err error) {
	err = w.power.powered(func() (err error) {
		n, err = w.SnapshotWriter.Write(b)
		return err
	})
	return n, err
}

func (w *poweredWriter) Finish(s raft.Snapshot) error {
	err := w.power.powered(func() error { return w.SnapshotWriter.Finish(s) })
	if err == nil {
		w.end()
	}
	return err
}

func (w *poweredWriter) Abort() error {
	w.end()
	return w.power.powered(w.SnapshotWriter.Abort)
}

func (w *poweredWriter) end() {
	if !w.ended {
		w.ended = true
		w.power.held.add("an unfinished snapshot", -1)
	}
}

type countedReader struct {
	raft.SnapshotReader
	held *heldCount
}

func (r *countedReader) Close() error {
	r.held.add("a reader of a snapshot", -1)
	return r.SnapshotReader.Close()
}

// heldCount counts, by name, what a node has opened and not closed.
type heldCount struct {
	mu   sync.Mutex
	open map[string]int
}

func (h *heldCount) add(what string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[string]int{}
	}
	if h.open[what] += n; h.open[what] == 0 {
		delete(h.open, what)
	}
}

// check fails the test unless the node, which has ended, has closed once what it had opened.
func (h *heldCount) check(t testing.TB, id raft.NodeID) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, n := range h.open {
		t.Errorf("rafttest: %s has ended, and %s was closed %d times too few", id, what, n)
	}
}

// ledger records which command each member applies at which index, in all of its starts:
//
//	"State Machine Safety: if a server has applied a log entry at a given index to its state machine,
//	no other server will ever apply a different log entry for the same index." (Figure 3)
type ledger struct {
	t  testing.TB
	mu *sync.Mutex
	at map[raft.Index]applied
}

// applied records the first application of the entry at an index, by any member.
type applied struct {
	term raft.Term
	hash uint64
	by   raft.NodeID
}

func newLedger(t testing.TB) ledger {
	return ledger{t: t, mu: &sync.Mutex{}, at: make(map[raft.Index]applied)}
}

func (l ledger) record(by raft.NodeID, last raft.Index, batch []raft.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range batch {
		if e.Index <= last {
			l.t.Errorf("rafttest: %s applied entry %d after entry %d", by, e.Index, last)
		}
		last = e.Index
		h := fnv.New64a()
		h.Write(e.Data)
		now := applied{e.Term, h.Sum64(), by}
		before, known := l.at[e.Index]
		if !known {
			l.at[e.Index] = now
		} else if before.term != now.term || before.hash != now.hash {
			l.t.Errorf("rafttest: %s applied at index %d an entry of term %d, but %s applied a different one of term %d",
				by, e.Index, now.term, before.by, before.term)
		}
	}
}

// watch wraps a state machine so that the ledger records the entries that it applies, and held counts its frozen states.
func (l ledger) watch(id raft.NodeID, fsm raft.FSM, held *heldCount) raft.FSM {
	w := &watchedFSM{FSM: fsm, ledger: l, id: id, held: held}
	if durable, ok := fsm.(raft.DurableFSM); ok {
		return &watchedDurable{w, durable}
	}
	return w
}

type watchedFSM struct {
	raft.FSM
	ledger ledger
	id     raft.NodeID
	last   raft.Index
	held   *heldCount
}

// sized is what a frozen state may have besides the methods of raft.FSMSnapshot.
type sized interface{ Size() int64 }

type countedSnapshot struct {
	raft.FSMSnapshot
	held *heldCount
}

type countedSizedSnapshot struct {
	countedSnapshot
	sized
}

func (c countedSnapshot) Close() error {
	c.held.add("a frozen state", -1)
	return c.FSMSnapshot.Close()
}

func (w *watchedFSM) Snapshot() (raft.FSMSnapshot, error) {
	frozen, err := w.FSM.Snapshot()
	if err != nil || frozen == nil {
		return frozen, err
	}
	w.held.add("a frozen state", 1)
	counted := countedSnapshot{frozen, w.held}
	if s, ok := frozen.(sized); ok {
		return countedSizedSnapshot{counted, s}, nil
	}
	return counted, nil
}

func (w *watchedFSM) Apply(batch []raft.Entry, results [][]byte) error {
	w.ledger.record(w.id, w.last, batch)
	w.last = batch[len(batch)-1].Index
	return w.FSM.Apply(batch, results)
}

// AppliesSessions implements raft.SessionFSM.
func (w *watchedFSM) AppliesSessions() bool { return raft.AppliesSessions(w.FSM) }

func (w *watchedFSM) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	w.last = id.Index
	return w.FSM.Restore(ctx, id, r)
}

type watchedDurable struct {
	*watchedFSM
	durable raft.DurableFSM
}

func (w *watchedDurable) Applied() (raft.EntryID, error) {
	id, err := w.durable.Applied()
	w.last = id.Index
	return id, err
}

func (w *watchedDurable) Sync() error { return w.durable.Sync() }
