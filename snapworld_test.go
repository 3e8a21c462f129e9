package raft

import (
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// snapWorld is a cluster whose members take, compact, send and install snapshots, driven by a random schedule. Everything
// that a host does beside a core may be late, fail, or be cut off by a crash between any two effects.
type snapWorld struct {
	t       *testing.T
	rng     *rand.Rand
	now     Time
	members []*snapMember
	wire    []Message
	cut     map[[2]NodeID]bool
	states  map[Index]fsmState // State Machine Safety
	leaders map[Term]NodeID    // Election Safety
	cfg     CoreConfig
	away    *snapMember // cut off from all others
	request RequestID
	weights []int // of snapThings, added up
	late    bool  // events may wait, so that a step has several of them
	counts  snapCounts
}

type snapCounts struct{ taken, compacted, installed, restored, synced, held, late, answered int }

// fsmState stands for a state: the last entry applied, and a sum over all of them.
type fsmState struct {
	id  EntryID
	sum uint64
}

// snapDisk is what survives a crash.
type snapDisk struct {
	hard   HardState
	record Snapshot
	base   Base
	log    []Entry // behind base, or from entry 1 on
	commit Index
	files  map[SnapshotID]fsmState
	synced fsmState // of a DurableFSM
	starts uint64
}

type snapMember struct {
	w       *snapWorld
	peer    Peer
	core    *Core // nil while crashed
	wakeAt  Time
	disk    snapDisk
	events  []Event // that the core has not seen yet
	asked   map[RequestID]bool
	queue   []Write
	tail    []Entry // the core's log behind base
	base    EntryID
	gen     uint64
	fsm     fsmState
	told    EntryID // what a DurableFSM knows: the last command, or the snapshot that it became
	ops     []any   // EntryID (apply up to it), Take, *Snapshot (restore): what the applier has to do
	frozen  *frozenState
	want    *Receive
	streams map[NodeID]SnapshotID
	held    map[SnapshotID]fsmState
}

type frozenState struct {
	take  Take
	state fsmState
}

func newSnapWorld(t *testing.T, seed uint64) *snapWorld {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := &snapWorld{t: t, rng: rng, now: 1, late: true, cut: map[[2]NodeID]bool{}, states: map[Index]fsmState{}, leaders: map[Term]NodeID{}}
	w.cfg = CoreConfig{Snapshots: true, DurableFSM: rng.IntN(2) == 0, ElectionTimeout: 150 * time.Millisecond}
	w.cfg.SnapshotEntries = 3 + rng.IntN(12)
	w.cfg.SnapshotTailBytes = 1 + rng.IntN(600)
	w.cfg.SnapshotHoldBytes = 1 + rng.IntN(2000)
	w.cfg.InflightMax = 1 + rng.IntN(4)
	total := 0
	for _, thing := range snapThings {
		total += thing.weight << rng.IntN(3)
		w.weights = append(w.weights, total)
	}
	var list []Member
	for i, id := range []NodeID{"a", "b", "c"} {
		list = append(list, Member{ID: id, Address: "x:1", Incarnation: Incarnation(i + 1)})
	}
	f := Bootstrap{Cluster: ClusterID{1}, Bootstrapper: list[0].Peer(), Configuration: NewConfiguration(list)}
	for _, m := range list {
		disk := snapDisk{hard: HardState{Term: 1}, files: map[SnapshotID]fsmState{}, log: []Entry{{Index: 1, Kind: EntryBootstrap, Data: f.Encode()}}}
		w.members = append(w.members, &snapMember{w: w, peer: m.Peer(), disk: disk})
	}
	if rng.IntN(3) == 0 { // a member that has not begun yet
		d := &w.members[rng.IntN(3)].disk
		d.hard, d.log = HardState{}, nil
	}
	return w
}

// load is what a store does at a start.
func (d *snapDisk) load(t *testing.T) Stored {
	d.starts++
	last := d.base.ID
	if len(d.log) > 0 {
		last = d.log[len(d.log)-1].ID()
	}
	if r := d.record; r.ID.Index > d.base.ID.Index {
		if r.ID.Index > last.Index || d.log[r.ID.Index-d.base.ID.Index-1].ID() != r.ID {
			d.base, d.log = r.Base, nil // an installation was interrupted
		}
	}
	for file := range d.files {
		if file != d.record.File {
			delete(d.files, file)
		}
	}
	if (d.record.File != SnapshotID{}) {
		require.Contains(t, d.files, d.record.File, "the record names a file")
	}
	s := Stored{StartCount: d.starts, Hard: d.hard, Commit: d.commit, Snapshot: d.record}
	if d.base.ID.Index > 0 {
		s.Log.Begin(d.base)
	}
	for _, e := range d.log {
		require.NoError(t, s.Log.Observe(e))
	}
	return s
}

func (m *snapMember) start() {
	w, stored := m.w, m.disk.load(m.w.t)
	cfg := w.cfg
	cfg.ID, cfg.Seed = m.peer.ID, w.rng.Uint64()
	stored.Incarnation = m.peer.Incarnation
	m.fsm, m.told = fsmState{}, EntryID{}
	if cfg.DurableFSM {
		m.fsm = m.disk.synced
		m.told, stored.Applied = m.fsm.id, m.fsm.id
	}
	stored.Commit = min(stored.Commit, stored.Log.Last.Index)
	m.events, m.asked = nil, map[RequestID]bool{}
	m.queue, m.ops, m.frozen, m.want = nil, nil, nil, nil
	m.streams, m.held = map[NodeID]SnapshotID{}, map[SnapshotID]fsmState{}
	m.tail, m.base, m.gen = slices.Clone(m.disk.log), m.disk.base.ID, 1
	core, out, err := NewCore(cfg, stored, Now{Mono: w.now})
	require.NoError(w.t, err)
	m.core = core
	m.process(out)
}

// step steps events, together with those that wait; now and then they go on waiting.
func (m *snapMember) step(events ...Event) {
	if m.core == nil {
		return
	}
	m.events = append(m.events, events...)
	if m.w.late && len(events) > 0 && m.w.rng.IntN(3) == 0 {
		return
	}
	m.flush()
}

func (m *snapMember) flush() {
	events := m.events
	m.events = nil
	out := m.core.Step(Now{Mono: m.w.now}, events...)
	m.core.checkState()
	m.process(out)
}

func (m *snapMember) process(out Output) {
	w := m.w
	if out.Write.Seq != 0 {
		m.queue = append(m.queue, out.Write)
	}
	if l := out.Write.Log; l != nil {
		if l.Reset {
			if m.frozen != nil { // it was written already
				m.finishTake(false)
				w.counts.late++
			}
			m.ops, m.frozen, m.tail, m.base = nil, nil, nil, l.After
			w.counts.installed++
		}
		m.tail = append(slices.Clip(m.tail[:l.After.Index-m.base.Index]), l.Entries...)
		m.gen = l.Generation
	}
	if b := out.Write.Base; b != nil {
		require.Equal(w.t, b.ID, m.tail[b.ID.Index-m.base.Index-1].ID())
		m.tail, m.base = slices.Clone(m.tail[b.ID.Index-m.base.Index:]), b.ID
		w.counts.compacted++
	}
	if out.Restore != nil {
		m.ops = append(m.ops, out.Restore)
	}
	if out.Apply.Index > 0 {
		m.ops = append(m.ops, out.Apply)
	}
	if out.Keep != nil {
		m.keep(*out.Keep)
	}
	for _, a := range out.Answers {
		if a.Kind == AnswerSnapshot || m.asked[a.RequestID] {
			require.True(w.t, m.asked[a.RequestID], "a request is answered once")
			delete(m.asked, a.RequestID)
			w.counts.answered++
		}
	}
	m.wakeAt = out.WakeAt
	if l := m.core.Leadership(); l.Role == Leader {
		was, ok := w.leaders[l.Term]
		require.True(w.t, !ok || was == m.peer.ID, "Election Safety")
		w.leaders[l.Term] = m.peer.ID
	}
	m.post(out.Send)
}

func (m *snapMember) keep(k Keep) {
	if k.Take != nil {
		require.Nil(m.w.t, m.frozen, "one at a time")
		m.ops = append(m.ops, *k.Take)
	}
	if k.Receive != nil {
		m.want = k.Receive
	}
	for _, p := range k.Stop {
		delete(m.streams, p.ID)
	}
	for _, file := range k.Discard {
		require.NotEqual(m.w.t, m.disk.record.File, file, "no file is deleted that the record names")
		delete(m.disk.files, file)
		delete(m.held, file)
	}
}

// post fills appends and puts messages on the wire.
func (m *snapMember) post(messages []Message) {
	for _, msg := range messages {
		switch r := msg.Body.(type) {
		case InstallSnapshot:
			m.streams[msg.To.ID] = r.Snapshot.File
			require.True(m.w.t, r.Snapshot.Held || m.disk.record.File == r.Snapshot.File || m.disk.files[r.Snapshot.File].id.Index > 0,
				"what is offered is there")
		case AppendReply:
			last := m.disk.base.ID.Index + Index(len(m.disk.log))
			require.True(m.w.t, r.Match <= last || m.disk.hard.Term > msg.Term, "what is acknowledged is durable")
		case AppendRequest:
			if r.Generation != m.gen || r.Prev.Index < m.base.Index {
				m.step(SendDropped{To: msg.To, Span: Span{r.Prev.Index, r.Last.Index}})
				continue
			}
			r.Entries = slices.Clone(m.tail[r.Prev.Index-m.base.Index : r.Last.Index-m.base.Index])
			msg.Body = r
		}
		m.w.wire = append(m.w.wire, msg)
	}
}

// write makes the first parts of a write durable: term and record, then the base, then as many entries as are left. All
// of it if parts is negative.
func (d *snapDisk) write(t *testing.T, w Write, parts int) {
	if parts == 0 {
		return
	}
	if w.Hard != nil {
		d.hard = *w.Hard
	}
	if w.Snapshot != nil {
		d.record = *w.Snapshot
	}
	if parts == 1 {
		return
	}
	if w.Base != nil {
		require.GreaterOrEqual(t, w.Base.ID.Index, d.base.ID.Index)
		d.log, d.base = slices.Clone(d.log[w.Base.ID.Index-d.base.ID.Index:]), *w.Base
	}
	if l := w.Log; l != nil && parts != 2 {
		if l.Reset {
			require.Equal(t, d.record.ID, l.After)
			d.base, d.log = d.record.Base, nil
		}
		entries := l.Entries
		if parts > 0 {
			entries = entries[:min(len(entries), parts-3)]
		}
		d.log = append(slices.Clip(d.log[:l.After.Index-d.base.ID.Index]), entries...)
	}
	d.commit = max(d.commit, w.Commit)
}

// persist makes the next writes durable.
func (m *snapMember) persist(n int) {
	var seq Seq
	for rest := m.queue[:n]; len(rest) > 0; {
		wr, merged := MergeWrites(rest)
		rest = rest[merged:]
		m.disk.write(m.w.t, wr, -1)
		seq = wr.Seq
		m.post(wr.Then)
	}
	m.queue = slices.Clone(m.queue[n:])
	m.step(Persisted{seq})
}

func (m *snapMember) crash() {
	for _, wr := range m.queue {
		if m.w.rng.IntN(2) == 0 {
			m.disk.write(m.w.t, wr, m.w.rng.IntN(6))
			break
		}
		m.disk.write(m.w.t, wr, -1)
	}
	m.core, m.events = nil, nil
}

// applyNext does the next thing that the applier has to do, or a part of it.
func (m *snapMember) applyNext() {
	w := m.w
	switch op := m.ops[0].(type) {
	case EntryID:
		if m.fsm.id.Index < op.Index {
			m.apply(m.fsm.id.Index + 1)
		}
		if m.fsm.id.Index >= op.Index {
			m.ops = m.ops[1:]
		}
		m.step(Applied{m.fsm.id})
	case Take:
		require.Equal(w.t, op.ID, m.fsm.id, "a snapshot is taken exactly at its entry")
		m.ops = m.ops[1:]
		m.frozen = &frozenState{op, m.fsm}
	case *Snapshot:
		require.Equal(w.t, m.disk.record.File, op.File, "a restoration begins once its record is durable")
		state, ok := m.disk.files[op.File]
		require.True(w.t, ok && state.id == op.ID)
		require.Greater(w.t, op.ID.Index, m.fsm.id.Index, "the state never goes back")
		m.ops = m.ops[1:]
		m.fsm, m.told = state, op.ID
		m.sync()
		w.counts.restored++
		m.step(Applied{op.ID})
	}
}

func (m *snapMember) apply(i Index) {
	e := m.tail[i-m.base.Index-1]
	m.fsm.id = e.ID()
	if e.Kind == EntryCommand {
		content := fmt.Sprint(m.fsm.sum, e.Index, e.Term, string(e.Data))
		m.fsm.sum, m.told = crc64.Checksum([]byte(content), crc64.MakeTable(crc64.ECMA)), e.ID()
	}
	was, ok := m.w.states[i]
	require.True(m.w.t, !ok || was == m.fsm, "State Machine Safety: %v and %v", was, m.fsm)
	m.w.states[i] = m.fsm
	if m.w.rng.IntN(4) == 0 {
		m.sync()
	}
}

// sync makes the state of a DurableFSM durable. The FSM sees no entries but commands, so it cannot say that it has applied
// the ones behind the last command.
func (m *snapMember) sync() { m.disk.synced = fsmState{m.told, m.fsm.sum} }

// finishTake ends the snapshot that is being taken, now and then with an error.
func (m *snapMember) finishTake(fails bool) {
	f := m.frozen
	m.frozen = nil
	s := Snapshot{Base: f.take.Base, Size: 10, Sum: 1}
	for i := range s.File {
		s.File[i] = byte(m.w.rng.IntN(256))
	}
	switch {
	case fails:
		m.step(SnapshotTaken{Take: f.take.ID, Err: errors.New("no space")})
		return
	case f.take.Sync:
		m.sync()
		s.ID, s.File, s.Size, s.Sum = m.told, SnapshotID{}, 0, 0
		m.w.counts.synced++
	case f.take.Hold:
		s.Held, s.Size, s.Sum = true, -1, 0
		m.held[s.File] = f.state
		m.w.counts.held++
	default:
		m.disk.files[s.File] = f.state
		m.w.counts.taken++
	}
	m.step(SnapshotTaken{Take: f.take.ID, Snapshot: s})
}

// stream brings a stream to its end, if both sides agree on it.
func (m *snapMember) stream(to *snapMember, fails bool) {
	file, ok := m.streams[to.peer.ID]
	if !ok || m.core == nil {
		return
	}
	state, there := m.held[file]
	if !there {
		state, there = m.disk.files[file]
	}
	if fails || !there {
		delete(m.streams, to.peer.ID)
		m.step(SnapshotSent{To: to.peer, File: file, Err: StreamFailed})
		return
	}
	if to.core == nil || m.w.isCut(m.peer.ID, to.peer.ID) || to.want == nil || to.want.From != m.peer || to.want.Snapshot.File != file {
		return
	}
	arrived := to.want.Snapshot
	arrived.Size, arrived.Sum, arrived.Held = 10, 1, false
	to.want = nil
	delete(m.streams, to.peer.ID)
	to.disk.files[file] = state
	to.step(SnapshotArrived{From: m.peer, Snapshot: arrived})
	if m.w.rng.IntN(3) > 0 {
		m.step(SnapshotSent{To: to.peer, File: file})
	}
}

func (w *snapWorld) deliver(i int) {
	msg := w.wire[i]
	w.wire = slices.Delete(w.wire, i, i+1)
	if w.isCut(msg.From.ID, msg.To.ID) {
		return
	}
	for _, m := range w.members {
		if m.peer == msg.To {
			m.step(Received{msg})
		}
	}
}

func (w *snapWorld) isCut(from, to NodeID) bool {
	return w.cut[[2]NodeID{from, to}] || w.away != nil && (w.away.peer.ID == from || w.away.peer.ID == to)
}

func (w *snapWorld) propose(m *snapMember) {
	w.request++
	m.step(Proposed{[]Proposal{{RequestID: w.request, Kind: EntryCommand, Data: make([]byte, w.rng.IntN(60))}}})
}

// passTime goes to the next deadline of a member.
func (w *snapWorld) passTime() {
	next := w.now + Time(10*time.Millisecond)
	for _, m := range w.members {
		if m.core != nil {
			next = min(next, max(m.wakeAt, w.now))
		}
	}
	w.now = next
	for _, m := range w.members {
		if m.core != nil && m.wakeAt <= w.now {
			m.step()
		}
	}
}

// disturb does something that is not needed for progress.
func (w *snapWorld) disturb(m, other *snapMember) {
	if m == other {
		return
	}
	switch w.rng.IntN(6) {
	case 0:
		m.step(PeerLost{Peer: other.peer})
	case 1:
		m.step(w.connected(other, ProtocolSnapshots))
	case 2:
		m.step(w.connected(other, uint16(w.rng.IntN(3))))
	case 3:
		w.request++
		m.step(TransferRequested{RequestID: w.request, To: other.peer.ID})
	case 4:
		if m.core != nil {
			w.request++
			m.asked[w.request] = true
			m.step(SnapshotRequested{w.request})
		}
	case 5:
		if file, ok := m.streams[other.peer.ID]; ok {
			m.step(SnapshotSending{To: other.peer, File: file, Bytes: int64(w.rng.IntN(3000))})
		}
	}
}

func (w *snapWorld) connected(m *snapMember, protocol uint16) PeerUp {
	return PeerUp{ID: m.peer.ID, Incarnation: m.peer.Incarnation, StartCount: m.disk.starts, Protocol: protocol}
}

// snapThings are what can happen, and how often, relative to each other. Each world draws up to four times
// as much.
var snapThings = []struct {
	weight int
	do     func(w *snapWorld, m, other *snapMember)
}{
	{60, func(w *snapWorld, m, other *snapMember) { w.settle() }},
	{1680, func(w *snapWorld, m, other *snapMember) {
		if len(w.wire) > 0 {
			w.deliver(min(w.rng.IntN(len(w.wire)), w.rng.IntN(len(w.wire))))
		}
	}},
	{600, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil && len(m.queue) > 0 {
			m.persist(1 + w.rng.IntN(len(m.queue)))
		}
	}},
	{600, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil && len(m.ops) > 0 {
			m.applyNext()
		}
	}},
	{60, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil && m.frozen != nil {
			m.finishTake(w.rng.IntN(8) == 0)
		}
	}},
	{160, func(w *snapWorld, m, other *snapMember) { m.stream(other, w.rng.IntN(10) == 0) }},
	{280, func(w *snapWorld, m, other *snapMember) { w.passTime(); w.passTime() }},
	{240, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil {
			w.propose(m)
		}
	}},
	{32, func(w *snapWorld, m, other *snapMember) {
		if len(w.wire) > 0 {
			w.wire = append(w.wire, w.wire[w.rng.IntN(len(w.wire))])
		}
	}},
	{16, func(w *snapWorld, m, other *snapMember) {
		if len(w.wire) > 0 {
			w.wire = slices.Delete(w.wire, 0, 1+w.rng.IntN(len(w.wire)))
		}
	}},
	{32, func(w *snapWorld, m, other *snapMember) {
		w.away = nil
		if w.rng.IntN(2) == 0 {
			w.away = m
		}
	}},
	{12, func(w *snapWorld, m, other *snapMember) {
		w.cut[[2]NodeID{m.peer.ID, other.peer.ID}] = w.rng.IntN(4) == 0
	}},
	{16, func(w *snapWorld, m, other *snapMember) { w.disturb(m, other) }},
	{8, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil {
			m.flush()
		}
	}},
	{40, func(w *snapWorld, m, other *snapMember) {
		if m.core == nil {
			m.start()
		}
	}},
	{4, func(w *snapWorld, m, other *snapMember) {
		if m.core != nil {
			m.crash()
		}
	}},
}

// chance does one random thing.
func (w *snapWorld) chance() {
	m := w.members[w.rng.IntN(len(w.members))]
	other := w.members[w.rng.IntN(len(w.members))]
	at := w.rng.IntN(w.weights[len(w.weights)-1])
	snapThings[sort.SearchInts(w.weights, at+1)].do(w, m, other)
}
