package raft

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// As in the node, internal/pipeline connects a member's core with its disk and network. That package imports this one. So
// pipeline_test.go, which is in another package, sets these variables.
var (
	MergeWrites func([]Write) (Write, int)
	NewTestLog  func(last Index, bytesMax int, storage func(Span, int) ([]Entry, error)) TestLog
)

// TestLog is a log cache in front of a storage. It fills in the entries of appends.
type TestLog interface {
	Write(*LogWrite)
	MarkPersisted(generation uint64, last Index)
	Deliver(waiting []Message, bytesMax, takes int, send func(Message), drop func(Message, error))
}

// world is a cluster of cores with simulated disks and a simulated network. A test drives it. Time is virtual. A write
// becomes durable when the test calls persist. A message arrives when the test calls deliver.
type world struct {
	t       testing.TB
	now     Time
	rng     *rand.Rand
	members map[NodeID]*member
	order   []NodeID
	wire    []Message
	cut     map[[2]NodeID]bool
	initial []Member
	leaders map[Term]NodeID   // Election Safety
	decided map[Index]EntryID // State Machine Safety
	payload map[Index]string  // data of decided entries
	request RequestID         // last request id
	sent    map[string]int    // number of sent messages, by the type of their body
	tweak   func(*CoreConfig)
	trace   func(NodeID, Output) // nil, or sees every output
}

type member struct {
	w       *world
	id      NodeID
	core    *Core // nil while crashed
	wakeAt  Time
	disk    simDisk
	queue   []Write // issued, not durable
	tail    []Entry // the core's log, with payloads
	log     TestLog
	most    int // largest append, in bytes
	applied Index
	answers map[RequestID]Answer
	events  []TraceEvent
	lives   int
	joins   bool // not one of the first members, and without a list of them
}

// simDisk is the state that survives a crash.
type simDisk struct {
	hard        HardState
	log         []Entry
	commit      Index
	startCount  uint64
	incarnation Incarnation
}

func newWorld(t testing.TB, seed uint64, ids ...NodeID) *world {
	w := &world{
		t: t, now: 1, rng: rand.New(rand.NewPCG(seed, 1)), members: map[NodeID]*member{}, cut: map[[2]NodeID]bool{},
		leaders: map[Term]NodeID{}, decided: map[Index]EntryID{}, payload: map[Index]string{},
		sent: map[string]int{}, order: ids,
	}
	for _, id := range ids {
		w.initial = append(w.initial, Member{ID: id, Address: string(id) + ":1"})
	}
	for i, id := range ids {
		w.members[id] = &member{w: w, id: id, disk: simDisk{incarnation: Incarnation(100 + i)}}
	}
	return w
}

// spare adds a member with an empty disk that no configuration names yet.
func (w *world) spare(id NodeID) *member {
	m := &member{w: w, id: id, joins: true, disk: simDisk{incarnation: Incarnation(100 + len(w.order))}}
	w.members[id], w.order = m, append(w.order, id)
	return m
}

func (w *world) startAll() {
	for _, id := range w.order {
		w.members[id].start()
	}
}

func (m *member) start() {
	w := m.w
	m.disk.startCount++
	m.lives++
	stored := Stored{Incarnation: m.disk.incarnation, StartCount: m.disk.startCount, Hard: m.disk.hard, Commit: m.disk.commit}
	for _, e := range m.disk.log {
		require.NoError(w.t, stored.Log.Observe(e))
	}
	stored.Commit = min(stored.Commit, stored.Log.Last.Index)
	cfg := CoreConfig{
		ID: m.id, Initial: NewConfiguration(w.initial), NewCluster: ClusterID{1: byte(m.lives), 2: m.id[0]},
		ElectionTimeout: 150 * time.Millisecond, HeartbeatInterval: 50 * time.Millisecond, Seed: w.rng.Uint64(),
		DiskStallMax: time.Second,
		Limits: Limits{
			CommandBytesMax: 1 << 20, ProposalsMax: 1000, ProposalBytesMax: 1 << 20, UnappliedMax: 10000,
			AppendBytesMax: 1 << 16, InflightMax: 16, InflightBytesMax: 1 << 18,
		},
	}
	if m.joins {
		cfg.Initial = Configuration{}
	}
	if w.tweak != nil {
		w.tweak(&cfg)
	}
	m.queue, m.tail, m.applied = nil, slices.Clone(m.disk.log), 0
	m.log = NewTestLog(stored.Log.Last.Index, 1+int(m.disk.startCount%3)*1000, m.disk.entries)
	m.most = cfg.AppendBytesMax
	m.answers = map[RequestID]Answer{}
	core, out, err := NewCore(cfg, stored, Now{Mono: w.now, Wall: int64(w.now)})
	require.NoError(w.t, err)
	m.core = core
	m.process(out)
}

func (m *member) step(events ...Event) {
	if m.core == nil {
		return
	}
	out := m.core.Step(Now{Mono: m.w.now, Wall: int64(m.w.now)}, events...)
	m.core.checkState()
	m.process(out)
}

func (m *member) process(out Output) {
	w := m.w
	if w.trace != nil {
		w.trace(m.id, out)
	}
	if out.Write.Seq != 0 {
		if l := out.Write.Log; l != nil {
			m.tail = append(cutAbove(m.tail, l.After), l.Entries...)
			m.log.Write(l)
		}
		m.queue = append(m.queue, out.Write)
	}
	w.post(m, out.Send)
	if out.Apply.Index > 0 {
		m.apply(out.Apply)
	}
	for _, a := range out.Answers {
		m.answers[a.RequestID] = a
	}
	m.events = append(m.events, out.Trace...)
	m.wakeAt = out.WakeAt
	if l := m.core.Leadership(); l.Role == Leader {
		was, ok := w.leaders[l.Term]
		require.True(w.t, !ok || was == m.id, "Election Safety: %s and %s lead term %d", was, m.id, l.Term)
		if !ok && !w.ledSince(l.Term) {
			for i, id := range w.decided {
				require.True(w.t, int(i) <= len(m.tail) && m.tail[i-1].ID() == id,
					"Leader Completeness: %s leads term %d without %v", m.id, l.Term, id)
			}
		}
		w.leaders[l.Term] = m.id
	}
}

// ledSince reports whether a member has led a later term than the given one. If so, Leader Completeness says nothing about a
// member that wins the given term so late.
func (w *world) ledSince(term Term) bool {
	for led := range w.leaders {
		if led > term {
			return true
		}
	}
	return false
}

func cutAbove(log []Entry, after EntryID) []Entry {
	n := int(after.Index)
	if n > len(log) || n > 0 && log[n-1].ID() != after {
		panic("a write begins after an entry that does not exist")
	}
	return slices.Clip(log[:n])
}

func (m *member) apply(to EntryID) {
	for i := m.applied + 1; i <= to.Index; i++ {
		e := m.tail[i-1]
		was, ok := m.w.decided[i]
		require.True(m.w.t, !ok || was == e.ID(), "State Machine Safety: index %d is %v and %v", i, was, e.ID())
		m.w.decided[i] = e.ID()
		content, ok := m.w.payload[i]
		require.True(m.w.t, !ok || content == string(e.Data), "State Machine Safety: index %d has two contents", i)
		m.w.payload[i] = string(e.Data)
		require.True(m.w.t, i <= Index(len(m.disk.log)) && m.disk.log[i-1].ID() == e.ID(), "applied before durable")
	}
	require.Equal(m.w.t, to, m.tail[to.Index-1].ID())
	m.applied = max(m.applied, to.Index)
}

// post fills in the entries of appends, as a sender does, and sends the messages.
func (w *world) post(m *member, messages []Message) {
	for _, msg := range messages {
		m.justified(msg)
		w.sent[fmt.Sprintf("%T", msg.Body)]++
	}
	m.log.Deliver(messages, m.most, 0, func(msg Message) { w.wire = append(w.wire, msg) }, func(msg Message, _ error) {
		r := msg.Body.(AppendRequest)
		m.step(SendDropped{To: msg.To, Span: Span{r.Prev.Index, r.Last.Index}})
	})
}

// justified checks the promises of a message against the disk at the moment when the message leaves.
func (m *member) justified(msg Message) {
	t, hard := m.w.t, m.disk.hard
	require.LessOrEqual(t, msg.Term, hard.Term, "%s: no message leaves with a term above the durable one", m.id)
	switch b := msg.Body.(type) {
	case VoteRequest:
		require.True(t, hard.Term > msg.Term || hard.Vote == msg.From, "%s asks for votes before its own is durable", m.id)
	case VoteReply:
		require.True(t, !b.Granted || hard.Term > msg.Term || hard.Vote == msg.To, "%s votes before the vote is durable", m.id)
	case AppendReply:
		held := int(b.Match) <= len(m.disk.log)
		require.True(t, held || hard.Term > msg.Term, "%s acknowledges entries that are not durable", m.id)
	case BootstrapReply:
		require.NotEmpty(t, m.disk.log, "%s acknowledges a bootstrap that is not durable", m.id)
	}
}

// persist makes the next n queued writes durable.
func (m *member) persist(n int) {
	if n = min(n, len(m.queue)); n == 0 || m.core == nil {
		return
	}
	var seq Seq
	for rest := m.queue[:n]; len(rest) > 0; {
		wr, merged := MergeWrites(rest)
		rest = rest[merged:]
		m.disk.write(wr, -1)
		if l := wr.Log; l != nil {
			m.log.MarkPersisted(l.Generation, l.After.Index+Index(len(l.Entries)))
		}
		seq = wr.Seq
		m.w.post(m, wr.Then)
	}
	m.queue = slices.Clone(m.queue[n:])
	m.step(Persisted{seq})
}

// entries returns durable entries: at most bytesMax bytes of records, but at least one entry.
func (d *simDisk) entries(span Span, bytesMax int) (part []Entry, err error) {
	for _, e := range d.log[span.After:min(span.Last, Index(len(d.log)))] {
		if bytesMax -= len(e.Data) + RecordOverheadBytes; bytesMax < 0 && len(part) > 0 {
			break
		}
		part = append(part, e)
	}
	return part, nil
}

// write makes a prefix of a write durable. The prefix is the whole write, or the term and vote with the first part of the
// log's entries.
func (d *simDisk) write(wr Write, part int) {
	if wr.Hard != nil {
		d.hard = *wr.Hard
	}
	if part == 0 {
		return
	}
	if l := wr.Log; l != nil {
		entries := l.Entries
		if part > 0 {
			entries = entries[:min(part-1, len(entries))]
		}
		d.log = append(cutAbove(d.log, l.After), entries...)
	}
	d.commit = max(d.commit, wr.Commit)
}

// crash loses all queued writes, except for a random prefix of them.
func (m *member) crash() {
	for _, wr := range m.queue {
		if m.w.rng.IntN(2) == 0 {
			m.disk.write(wr, m.w.rng.IntN(4))
			break
		}
		m.disk.write(wr, -1)
	}
	m.queue, m.core = nil, nil
}

// deliver delivers the i-th message in transit.
func (w *world) deliver(i int) {
	msg := w.wire[i]
	w.wire = slices.Delete(w.wire, i, i+1)
	if to := w.members[msg.To.ID]; to != nil && !w.cut[[2]NodeID{msg.From.ID, msg.To.ID}] {
		to.step(Received{msg})
	}
}

// settle delivers and persists until nothing is left to do at this time.
func (w *world) settle() {
	for n := 0; n < 100000; n++ {
		if len(w.wire) > 0 {
			w.deliver(0)
			continue
		}
		busy := false
		for _, id := range w.order {
			if m := w.members[id]; len(m.queue) > 0 && m.core != nil {
				m.persist(len(m.queue))
				busy = true
			}
		}
		if !busy {
			return
		}
	}
	w.t.Fatal("the cluster does not settle")
}

// run lets time pass, and delivers every message at once.
func (w *world) run(d time.Duration) {
	for end := w.now + Time(d); ; {
		w.settle()
		next := end
		for _, m := range w.members {
			if m.core != nil {
				next = min(next, max(m.wakeAt, w.now))
			}
		}
		w.now = next
		if next == end {
			return
		}
		for _, id := range w.order {
			if m := w.members[id]; m.core != nil && m.wakeAt <= w.now {
				m.step()
			}
		}
	}
}

func (w *world) leader() *member {
	var found *member
	for _, id := range w.order {
		m := w.members[id]
		if m.core != nil && m.core.Leadership().Role == Leader &&
			(found == nil || m.core.Leadership().Term > found.core.Leadership().Term) {
			found = m
		}
	}
	return found
}

func (m *member) propose(data string) RequestID {
	m.w.request++
	m.step(Proposed{[]Proposal{{RequestID: m.w.request, Kind: EntryCommand, Data: []byte(data)}}})
	return m.w.request
}

func (m *member) change(change Change) RequestID {
	m.w.request++
	m.step(ChangeRequested{RequestID: m.w.request, Change: change})
	return m.w.request
}

func (m *member) read() {
	m.w.request++
	m.step(ReadRequested{m.w.request})
}

func (m *member) transfer(to NodeID) {
	m.w.request++
	m.step(TransferRequested{RequestID: m.w.request, To: to})
}

func (w *world) String() string {
	s := ""
	for _, id := range slices.Sorted(maps.Keys(w.members)) {
		if m := w.members[id]; m.core == nil {
			s += fmt.Sprintf("%s crashed %+v\n", id, m.disk.hard)
		} else {
			s += fmt.Sprintf("%s %s\n", id, m.core.State())
		}
	}
	return s
}
