package fuzzy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// probes is the number of commands that an audit applies to compare two states.
const probes = 32

// auditsEvery returns the mean number of snapshots per audit. Snapshots that were written during an Apply (beside) are
// audited more often.
func auditsEvery(beside bool) int {
	if beside {
		return 4
	}
	return 16
}

// audit checks that a snapshot holds the state that the committed commands produce. One state machine restores the snapshot
// over its former state. Another state machine applies all commands. Then both apply some more commands, and must give the
// same answers. The audit is needed because members seldom restore a snapshot soon enough to show that something is missing.
func (m *hosted) audit(id raft.EntryID, data []byte) {
	h := m.host
	if h.c.failure != nil {
		return
	}
	m.tell("snapshot", "wrote what another state machine restores: the state at %v", id)
	if h.spare == nil || !h.inflicts(restoresOver) {
		h.spare = h.newFSM("an audit")
	}
	twin := h.newFSM("an audit")
	for _, committed := range h.c.check.canonical[:id.Index] {
		h.applyOne(twin, committed.slot.entry)
	}
	if !h.inflicts(restoresAtAll) {
		return
	}
	name := fmt.Sprintf("a state machine that is restored from %s's state at %v", m.name(), id)
	h.restoreFrom(name, h.spare, id, data)
	for i := range probes {
		e := raft.Entry{Index: id.Index + 1 + raft.Index(i), Term: id.Term, Kind: raft.EntryCommand}
		e.Data = append(make([]byte, commandBytesMin), h.command(-1-int64(id.Index), i)...)
		want := bytes.Clone(h.applyOne(twin, &e))
		if got := h.applyOne(h.spare, &e); h.c.failure == nil && !bytes.Equal(got, want) {
			h.c.fail(Safety, "A1", "%s answers %v to a later command, %v; the answer is %v if all commands are applied from the first one on, one at a time",
				name, shown(got), shown(e.Data[commandBytesMin:]), shown(want))
		}
	}
}

// applyOne applies an entry alone, and returns its answer.
func (h *host) applyOne(fsm raft.FSM, e *raft.Entry) []byte {
	command, is := commandBytes(e)
	if !is {
		return nil
	}
	batch := []raft.Entry{{Index: e.Index, Term: e.Term, Kind: e.Kind, Time: e.Time, Data: bytes.Clone(command)}}
	results := make([][]byte, 1)
	h.call("a state machine", func() error { return fsm.Apply(batch, results) }, "Apply of %v, %v", e.ID(), shown(command))
	return results[0]
}

// restoreFrom restores a state machine.
func (h *host) restoreFrom(who string, fsm raft.FSM, id raft.EntryID, data []byte) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &pieces{data: data, random: sim.NewStream(h.c.seed.Number, sim.WorkloadConcern<<16+sim.Concern(id.Index)), whole: !h.inflicts(readsPieces)}
	restored := h.call(who, func() error { return fsm.Restore(ctx, id, r) }, "Restore of the state at %v", id)
	cancel()
	if left := len(r.data); restored && left > 0 {
		h.contract(who, "Restore of the state at %v left %d of %d bytes unread: it must read to the end", id, left, len(data))
	}
	r.over = true
}

// auditNow takes a snapshot and audits it.
func (m *hosted) auditNow() {
	var id raft.EntryID
	if m.at > 0 {
		id = m.c.check.canonical[m.at-1].id
	}
	m.freeze(id)
	if w := m.frozen; w != nil {
		w.complete()
		m.frozen = nil
		m.audit(id, w.data)
	}
}

// pieces is a reader that returns few bytes at a time, and sometimes returns io.EOF together with the last bytes.
type pieces struct {
	data   []byte
	random *sim.Stream
	whole  bool // each Read returns all that it is asked for
	over   bool // Restore has returned
}

func (r *pieces) Read(p []byte) (n int, err error) {
	switch {
	case r.over:
		return 0, errors.New("fuzzy: Restore has returned, so its reader can no longer be read")
	case len(r.data) == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	n = min(len(p), len(r.data))
	if !r.whole {
		n = 1 + r.random.IntN(n)
	}
	copy(p, r.data[:n])
	if r.data = r.data[n:]; len(r.data) == 0 && !r.whole && r.random.Coin() {
		err = io.EOF
	}
	return n, err
}
