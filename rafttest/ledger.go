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
	off atomic.Bool
	mu  sync.Mutex // held during every change
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
	return &poweredWriter{w, p}, nil
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
}

func (w *poweredWriter) Write(b []byte) (n int, err error) {
	err = w.power.powered(func() (err error) {
		n, err = w.SnapshotWriter.Write(b)
		return err
	})
	return n, err
}

func (w *poweredWriter) Finish(s raft.Snapshot) error {
	return w.power.powered(func() error { return w.SnapshotWriter.Finish(s) })
}

func (w *poweredWriter) Abort() error { return w.power.powered(w.SnapshotWriter.Abort) }

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

// watch wraps a state machine so that the ledger records the entries that it applies.
func (l ledger) watch(id raft.NodeID, fsm raft.FSM) raft.FSM {
	w := &watchedFSM{FSM: fsm, ledger: l, id: id}
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
}

func (w *watchedFSM) Apply(batch []raft.Entry, results [][]byte) error {
	w.ledger.record(w.id, w.last, batch)
	w.last = batch[len(batch)-1].Index
	return w.FSM.Apply(batch, results)
}

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
