package fuzzy

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// hosted is the state machine of an application in a member.
type hosted struct {
	*host
	node   *node
	random *sim.Stream // draws batches, reads, and how far WriteTo gets between them
	fsm    raft.FSM
	at     raft.Index // the last applied entry
	began  string     // where its state came from
	kept   []owned    // the answers of the last Apply
	frozen *writing   // the state that WriteTo is writing; nil: none
}

// fullEvery is the mean number of snapshots per snapshot that finds the disk full.
const fullEvery = 16

// owned is an answer whose bytes belong to the node.
type owned struct {
	index raft.Index
	data  []byte
}

// start gives an empty state machine to the member of a new process.
func (m *hosted) start() {
	if m == nil {
		return
	}
	m.fsm, m.at, m.kept, m.began = m.newFSM(m.name()), 0, nil, "it started"
}

// abandon ends the writing of a snapshot.
func (m *hosted) abandon() {
	if m != nil && m.frozen != nil {
		m.frozen.end(errAbandoned)
		m.frozen = nil
	}
}

var (
	errAbandoned = errors.New("fuzzy: the snapshot is abandoned")
	errFull      = errors.New("fuzzy: the disk is full")
)

func (m *hosted) name() string { return m.node.name() }

func (m *hosted) broken(format string, args ...any) {
	m.contract(m.name(), format, args...)
}

// tell writes a record.
func (m *hosted) tell(kind, format string, args ...any) {
	if m.c.trace != nil {
		m.c.record(Record{Kind: kind, Node: m.name(), Text: fmt.Sprintf(format, args...)})
	}
}

// apply applies the committed entries up to an index, in batches of any size.
func (m *hosted) apply(to raft.Index) {
	if m == nil || m.c.failure != nil || to > m.c.check.committed() {
		return
	}
	var entries []*raft.Entry
	for m.at < to {
		e := m.c.check.canonical[m.at].slot.entry
		if _, is := commandBytes(e); is {
			entries = append(entries, e)
		}
		m.at++
	}
	for len(entries) > 0 {
		size := min(m.drawBatch(), len(entries))
		m.applyBatch(entries[:size])
		entries = entries[size:]
	}
	m.at = to
}

// batchMax is the maximum number of commands in one batch.
const batchMax = 16

func (m *hosted) drawBatch() int {
	if !m.inflicts(appliesBatches) {
		return 1
	}
	return m.random.LogUniform(1, batchMax)
}

// applyBatch applies entries. The bytes of the entries are adjacent, as in a block read from the disk. A running WriteTo may
// continue before the batch is applied.
func (m *hosted) applyBatch(entries []*raft.Entry) {
	m.writeOn()
	var block []byte
	for _, e := range entries {
		block = append(block, e.Data...)
	}
	before := bytes.Clone(block)
	batch, at := make([]raft.Entry, len(entries)), 0
	for i, e := range entries {
		batch[i] = raft.Entry{Index: e.Index, Term: e.Term, Kind: e.Kind, Time: e.Time, Data: block[at+commandBytesMin : at+len(e.Data)]}
		at += len(e.Data)
	}
	results := make([][]byte, len(batch))
	first, last := entries[0].ID(), entries[len(entries)-1].ID()
	if !m.call(m.name(), func() error { return m.fsm.Apply(batch, results) }, "Apply of %v to %v", first, last) {
		return
	}
	for i, e := range entries {
		if b := &batch[i]; b.Index != e.Index || b.Term != e.Term || b.Kind != e.Kind || b.Time != e.Time || len(b.Data) != len(e.Data)-commandBytesMin {
			m.broken("Apply of %v to %v changed the batch: it is read-only", first, last)
		}
	}
	if !bytes.Equal(block, before) {
		m.broken("Apply of %v to %v changed the bytes of a command, or those after it: they are read-only, and belong to the log", first, last)
	}
	for i, e := range entries {
		m.compare(e, results[i], len(entries))
	}
	m.at = last.Index
	m.compareHash()
	m.takeBack()
	for i, e := range entries {
		m.kept = append(m.kept, owned{e.Index, results[i]})
	}
	if m.inflicts(overwritesEntries) {
		for i := range block {
			block[i] ^= 0xff
		}
		clear(batch)
	}
}

// compare checks an answer.
func (m *hosted) compare(e *raft.Entry, result []byte, batch int) {
	want := m.host.at(e.Index)
	command, _ := commandBytes(e)
	m.tell("apply", "applies %v, %v, in a batch of %d: answer %v", e.ID(), shown(command), batch, shown(result))
	if m.c.failure == nil && !bytes.Equal(result, want.data) {
		m.c.fail(Safety, "A1", "%s answers %v to command %v, %v, which it applied in a batch of %d after %s; "+
			"the answer is %v if all commands are applied from the first one on, one at a time",
			m.name(), shown(result), e.ID(), shown(command), batch, m.began, shown(want.data))
	}
}

// compareHash checks the state.
func (m *hosted) compareHash() {
	s, is := m.fsm.(hasher)
	if !is || m.at == 0 {
		return
	}
	var hash uint64
	if !m.call(m.name(), func() error { hash = s.Hash(); return nil }, "Hash at index %d", m.at) {
		return
	}
	if want := m.host.at(m.at).hash; m.c.failure == nil && hash != want {
		m.c.fail(Safety, "A2", "%s has hash %016x at index %d, after %s; the hash is %016x if all commands are applied from the first one on, one at a time",
			m.name(), hash, m.at, m.began, want)
	}
}

// takeBack checks that the answers of the Apply before the last one are unchanged. Then it overwrites these answers, as
// callers of Propose may. It does not overwrite an answer that every state machine shares, such as a variable that holds
// "OK", because no state depends on that answer.
func (m *hosted) takeBack() {
	for _, g := range m.kept {
		want := m.host.at(g.index)
		if m.c.failure == nil && !bytes.Equal(g.data, want.data) {
			m.broken("the answer to command %d was %v, and a later call changed it to %v: it must share no bytes with the state",
				g.index, shown(want.data), shown(g.data))
		}
		if unsafe.SliceData(g.data) == unsafe.SliceData(want.raw) || !m.inflicts(overwritesAnswers) {
			continue
		}
		for i := range g.data {
			g.data[i] ^= 0xff
		}
	}
	m.kept = m.kept[:0]
}

// freeze freezes the state, and sometimes begins to write it. It returns the additional time that writing takes, compared
// with a member without an application.
func (m *hosted) freeze(id raft.EntryID) (longer sim.Time) {
	if m == nil {
		return 0
	}
	m.abandon()
	if !m.inflicts(takesSnapshots) {
		return 0
	}
	m.tell("snapshot", "freezes its state at %v", id)
	var frozen raft.FSMSnapshot
	m.call(m.name(), func() (err error) {
		if frozen, err = m.fsm.Snapshot(); err == nil && frozen == nil {
			err = errors.New("it returned nil")
		}
		return err
	}, "Snapshot at %v", id)
	if m.c.failure != nil {
		return 0
	}
	m.frozen = newWriting(m, id, frozen)
	if m.writeOn(); !m.inflicts(writesLate) {
		m.frozen.complete()
	}
	return m.random.Exponential(writingTime)
}

// writingTime is the mean additional time that writing a snapshot takes. It is long enough for an Apply during the writing.
const writingTime = sim.Time(5_000_000)

// writeOn sometimes lets WriteTo begin or continue. Most often WriteTo does all of its work when the writing ends.
func (m *hosted) writeOn() {
	if m.frozen != nil && m.random.IntN(4) == 0 {
		m.frozen.step()
	}
}

// written lets WriteTo end, and puts the bytes that it wrote into a file. written reports whether WriteTo has written
// everything; sometimes it has not, because the disk is full.
func (m *hosted) written(f *snapFile) bool {
	if m == nil {
		return true
	}
	if !m.inflicts(takesSnapshots) {
		return true
	}
	w := m.frozen
	if m.frozen = nil; w == nil {
		return false // the run has failed
	}
	if m.random.IntN(fullEvery) == 0 {
		w.end(errFull)
		return false
	}
	w.complete()
	state := f.payload[:machineBytes(m.c.profile.Load.Keys)]
	m.c.stats.Snapshots++
	m.done = append(m.done, done{snapshotDone, uint64(len(w.data))})
	f.fill(append(state[:len(state):len(state)], w.data...))
	m.c.check.checkCaptured(m.node, f)
	m.tell("snapshot", "has written its state at %v: %d bytes", f.snapshot.ID, len(w.data))
	if every := auditsEvery(m.at > f.snapshot.ID.Index); m.random.IntN(every) == 0 {
		m.audit(f.snapshot.ID, w.data)
	}
	return m.c.failure == nil
}

// restore replaces the state machine's state with the state in a file.
func (m *hosted) restore(id raft.EntryID, payload []byte) {
	if m == nil || m.c.failure != nil {
		return
	}
	state := payload[machineBytes(m.c.profile.Load.Keys):]
	if m.frozen != nil && m.random.Coin() {
		m.abandon() // the state being written is no longer needed
	}
	m.tell("snapshot", "restores the state at %v over that at %d", id, m.at)
	if !m.inflicts(restoresOver) || !m.inflicts(restoresAtAll) {
		m.start()
	}
	if !m.inflicts(restoresAtAll) {
		m.apply(id.Index)
		return
	}
	m.restoreFrom(m.name(), m.fsm, id, state)
	m.at, m.began = id.Index, fmt.Sprintf("it restored the state at %v", id)
	m.compareHash()
}

// fill gives a file its bytes.
func (f *snapFile) fill(payload []byte) {
	f.payload = payload
	f.snapshot.Size, f.snapshot.Sum = int64(len(payload)), crc32.Checksum(payload, castagnoli)
}
