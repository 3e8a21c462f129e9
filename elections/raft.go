package elections

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/transport"
)

// Raft: the real core, raft.Core, with PreVote, leader stickiness and CheckQuorum on, as they always are. Its preferences, which
// may be switched off, are off here; raft_preferred.go has the same core with them.
//
// Source: D. Ongaro, J. Ousterhout, "In Search of an Understandable Consensus Algorithm", 2014, §5.2, §5.4.1;
// D. Ongaro, "Consensus: Bridging Theory and Practice", 2014, ch. 3, 4, 6, 9.
// Assumes: a known membership and a disk that keeps term, vote and log. Safety needs no assumption about time;
// progress needs a timeout well above a round trip.
// Guarantees: "at most one leader can be elected in a given term" (Figure 3), whatever is lost, late or
// restarted. Two leaders at one instant, in different terms, are possible.
//
// This file does only what every host of the core does: it processes what Step returns. The cluster is
// bootstrapped before a scenario begins; a durable write takes Times.Durable.

var raftCore = &Algorithm{
	Name:   "raft",
	Title:  "Raft",
	Source: "Ongaro, Ousterhout, 2014, §5.2, §5.4.1; Ongaro's dissertation, ch. 3, 4, 6, 9",
	Assumes: "A known membership and a disk. Safety needs no assumption about time; progress needs " +
		"a timeout well above a round trip.",
	Guarantees: "At most one leader a term, whatever is lost, late or restarted; a majority of the configured " +
		"members elects it. Two leaders at one instant, in different terms, are possible until the older one learns of the newer.",
	InCore:    []*CorePart{coreMajority, coreVote, corePreVote, coreStickiness, coreCheckQuorum, coreResigns, coreRedraw},
	Epochs:    true,
	New:       newPlainRaft,
	Bootstrap: bootstrapOnce,
}

const (
	raftWake Timer = AlgorithmTimer + iota // the core's next deadline
	raftDisk                               // the write in progress is durable
)

// raftMessage is one of the core's messages.
type raftMessage struct{ raft.Message }

// Kind returns the type of its body: "VoteRequest".
func (m raftMessage) Kind() string { return fmt.Sprintf("%T", m.Body)[len("raft."):] }

// Bytes returns the size of its frame on the wire.
func (m raftMessage) Bytes() int {
	frame, err := transport.EncodeMessage(m.Message)
	if err != nil {
		panic(err) // the core sends only what can be encoded
	}
	return len(frame)
}

// raftStore is the contents of a member's disk. It is replaced, never changed.
type raftStore struct {
	startCount uint64
	hard       raft.HardState
	commit     raft.Index
	log        []raft.Entry
}

// Entries reads the log. It ignores the size limit, because it reads only the span of an append, which is never too large.
func (s *raftStore) Entries(span raft.Span, _ int) ([]raft.Entry, error) {
	return s.log[span.After:span.Last:span.Last], nil
}

type raftMachine struct {
	o           Options
	preferences raft.Preferences
	core        *raft.Core
	store       raftStore
	log         pipeline.Log
	queue       []raft.Write // issued, not durable
	writing     int          // how many of them the disk is writing
	merged      raft.Write   // these writes, merged
	told        []raft.Event // events for the next step
}

// Limits as in node.Config and raft.Limits. A log of no-ops does not come near them.
const (
	raftCacheBytesMax  = 64 << 20
	raftAppendBytesMax = 1 << 20
)

func newPlainRaft(o Options) Machine {
	return &raftMachine{o: o, preferences: raft.Preferences{NoNews: true, NoSuccessors: true, NoPriorities: true}}
}

func raftID(r Rank) raft.NodeID { return raftIDs[r] }

// raftIDs are ordered like the ranks.
var raftIDs = func() (ids [MembersMax + 1]raft.NodeID) {
	for r := range ids {
		ids[r] = raft.NodeID(fmt.Sprintf("m%03d", r))
	}
	return ids
}()

func rankOf(id raft.NodeID) Rank {
	if id == "" {
		return 0
	}
	r, err := strconv.Atoi(string(id[1:]))
	if err != nil {
		panic(err) // raftID creates every id
	}
	return Rank(r)
}

func (m *raftMachine) Leader() (Rank, uint64) {
	l := m.core.Leadership()
	if l.Leader == "" {
		return 0, 0
	}
	return rankOf(l.Leader), uint64(l.Term)
}

func (m *raftMachine) Start(e *Env) {
	m.store, _ = e.Stored().(raftStore)
	m.store.startCount++
	e.Keep(m.store)
	stored := raft.Stored{
		Incarnation: raft.Incarnation(m.o.Self), StartCount: m.store.startCount, Hard: m.store.hard, Commit: m.store.commit,
	}
	for _, entry := range m.store.log {
		if err := stored.Log.Observe(entry); err != nil {
			panic(err) // the disk holds what the core wrote
		}
	}
	m.log = pipeline.Log{Cache: pipeline.NewCache(stored.Log.Last.Index, raftCacheBytesMax), Storage: &m.store}
	core, out, err := raft.NewCore(m.config(e), stored, m.now(e))
	if err != nil {
		panic(err)
	}
	m.core = core
	e.Rule("I start from my durable term, vote and log.")
	m.process(e, &out)
	m.steps(e)
}

// config returns the CoreConfig of a node with the defaults of node.Config.
func (m *raftMachine) config(e *Env) raft.CoreConfig {
	members := make([]raft.Member, m.o.N)
	for i := range members {
		members[i].ID, members[i].Address = raftID(Rank(i+1)), "simulated:1"
	}
	return raft.CoreConfig{
		ID: raftID(m.o.Self), Initial: raft.NewConfiguration(members), NewCluster: raft.ClusterID{1},
		ElectionTimeout:   time.Duration(e.Times().TimeoutMin),
		HeartbeatInterval: time.Duration(e.Times().Heartbeat), Seed: e.Random().Uint64(),
		Preferences: m.preferences,
	}
}

func (m *raftMachine) now(e *Env) raft.Now {
	return raft.Now{Mono: raft.Time(e.Now()) + 1, Wall: e.Wall()}
}

func (m *raftMachine) Receive(e *Env, _ Rank, message Message) {
	received := message.(raftMessage).Message
	now := m.core.Leadership()
	e.Rule(raftHeard(&received, now.Term, now.Leader == raftID(m.o.Self)))
	m.told = append(m.told, raft.Received{Message: received})
	m.steps(e)
}

func (m *raftMachine) Fire(e *Env, t Timer) {
	if t == raftDisk {
		e.Rule("My write is durable: I send what it promises.")
		m.persist(e)
		m.work(e)
		m.steps(e)
		return
	}
	sent := m.step(e)
	if leader, _ := m.Leader(); leader == m.o.Self && sent > 0 {
		e.Rule("I lead: I send my heartbeats.")
	} else {
		e.Rule("A deadline of mine has passed.")
	}
	m.steps(e)
}

// steps steps the core until it has processed all its events.
func (m *raftMachine) steps(e *Env) {
	for len(m.told) > 0 {
		m.step(e)
	}
}

// step steps the core once, and returns the number of messages that it sent at once.
func (m *raftMachine) step(e *Env) (sent int) {
	told := m.told
	m.told = nil
	out := m.core.Step(m.now(e), told...)
	clear(told)
	if m.told == nil {
		m.told = told[:0]
	}
	m.process(e, &out)
	return len(out.Send)
}

// process carries out an Output.
func (m *raftMachine) process(e *Env, out *raft.Output) {
	for i := range out.Trace {
		m.explain(e, &out.Trace[i])
	}
	m.write(e, &out.Write)
	m.send(e, out.Send)
	if out.Apply.Index > 0 { // the log has nothing but no-ops
		m.told = append(m.told, raft.Applied{ID: out.Apply})
	}
	e.Set(raftWake, sim.Time(out.WakeAt-1)-e.Now())
}

// explain records the core's decisions as rules, and counts its elections.
func (m *raftMachine) explain(e *Env, n *raft.TraceEvent) {
	if n.Kind == raft.TracePreCampaign {
		e.Elect()
	}
	sentence, ok := raftRules[n.Kind]
	if n.Kind == raft.TraceFollower && n.Peer == "" {
		sentence = "I am a follower, and know no leader."
	}
	if ok {
		e.Rule(sentence)
	}
}

var raftRules = map[raft.TraceEventKind]string{
	raft.TraceTimeout:        "My election timeout has expired.",
	raft.TracePreCampaign:    "I hear no leader, and ask who would vote for me.",
	raft.TraceCampaign:       "I raise the term, and ask all once my own vote is durable.",
	raft.TraceVoteGranted:    "My one vote of this term: it is durable before it leaves.",
	raft.TraceVoteDenied:     "I refuse my vote.",
	raft.TracePreVoteGranted: "I would vote for it: I hear no leader, its log is new enough.",
	raft.TracePreVoteDenied:  "I would not vote for it.",
	raft.TraceLeader:         "A majority of all voted for me in this term: I lead.",
	raft.TraceNewerTerm:      "I take over a newer term.",
	raft.TraceQuorumLost:     "No majority answered me for a timeout: I step down.",
	raft.TraceFollower:       "I follow.",
	raft.TraceSteppedDown:    "The leader has stepped down: I need not wait for a timeout.",
	raft.TraceNews:           "It was my leader: I wait only for the successors before me.",
}

// raftHeard returns the rule for a message whose receiver is in this term. If the message comes too late, the rule says so.
func raftHeard(m *raft.Message, term raft.Term, leads bool) string {
	switch m.Body.(type) {
	case raft.PreVoteRequest, raft.PreVoteReply: // their terms are their senders', and decide nothing
		return raftReceived(m.Body)
	case raft.VoteRequest, raft.AppendRequest, raft.Heartbeat:
		if m.Term < term {
			return "A request from an older term: I answer with my term."
		}
	case raft.HeartbeatReply, raft.AppendReply, raft.AppendConflict:
		if m.Term > term {
			return "An answer from a newer term than mine."
		}
		if m.Term < term || !leads {
			return "An answer to a leadership of mine that has ended."
		}
	}
	if m.Term < term {
		return "A message from an older term than mine: it is too late."
	}
	return raftReceived(m.Body)
}

// raftReceived returns the rule for a message; the core's decision about it follows, if there is one.
func raftReceived(body raft.Body) string {
	switch body.(type) {
	case raft.PreVoteRequest:
		return "A member asks whether I would vote for it."
	case raft.PreVoteReply:
		return "An answer to my pre-vote."
	case raft.VoteRequest:
		return "A candidate asks for my vote in its term."
	case raft.VoteReply:
		return "An answer to my candidacy: a vote, or none."
	case raft.Heartbeat:
		return "The leader's heartbeat: I restart my election timeout."
	case raft.HeartbeatReply:
		return "A follower answers: I lead on while a majority does."
	case raft.AppendRequest:
		return "The leader makes my log like its own."
	case raft.AppendReply, raft.AppendConflict:
		return "A follower says how far its log agrees with mine."
	case raft.SteppedDown:
		return "A leader tells me that it has stepped down."
	case raft.TimeoutNow:
		return "The leader tells me to campaign at once."
	}
	return "A message that my elections do not need."
}

// write accepts a write of the core. It updates the cache first, so that the cache has each entry before anybody asks for it.
func (m *raftMachine) write(e *Env, w *raft.Write) {
	if w.Seq == 0 {
		return
	}
	if w.Log != nil {
		for i := range w.Log.Entries {
			sealed, err := raft.DecodeEntry(w.Log.Entries[i].Record())
			if err != nil {
				panic(err) // the core's entries are valid
			}
			w.Log.Entries[i] = sealed
		}
		m.log.Cache.Write(w.Log)
	}
	m.queue = append(m.queue, *w)
	m.work(e)
}

func extend(log []raft.Entry, w *raft.LogWrite) []raft.Entry {
	if n := int(w.After.Index); w.Reset || n > len(log) || n > 0 && log[n-1].ID() != w.After {
		panic(fmt.Sprintf("elections: a write behind entry %v, which the log does not hold", w.After))
	}
	return append(slices.Clip(log[:w.After.Index]), w.Entries...)
}

// work starts the next write of the disk. If a write changes nothing on the disk, it ends at once: it only keeps its place in
// the order.
func (m *raftMachine) work(e *Env) {
	for m.writing == 0 && len(m.queue) > 0 {
		m.merged, m.writing = pipeline.MergeWrites(m.queue)
		if m.merged.ChangesStore() {
			e.Set(raftDisk, e.Times().Durable)
			return
		}
		m.persist(e)
	}
}

// persist ends the write in progress. It sends the messages that waited for the write, and reports the write to the core.
func (m *raftMachine) persist(e *Env) {
	done := m.merged
	if done.Hard != nil {
		m.store.hard = *done.Hard
	}
	if l := done.Log; l != nil {
		m.store.log = extend(m.store.log, l)
		m.log.Cache.MarkPersisted(l.Generation, raft.Index(len(m.store.log)))
	}
	m.store.commit = max(m.store.commit, done.Commit)
	e.Keep(m.store)
	m.queue, m.writing = append(m.queue[:0:0], m.queue[m.writing:]...), 0
	m.send(e, done.Then)
	m.told = append(m.told, raft.Persisted{Seq: done.Seq})
}

// send sends messages. It fills each append with its entries. If the log has changed since the core named the entries of an
// append, send drops that append.
func (m *raftMachine) send(e *Env, messages []raft.Message) {
	m.log.Deliver(messages, raftAppendBytesMax, 0, func(one raft.Message) {
		e.Send(rankOf(one.To.ID), raftMessage{one})
	}, func(one raft.Message, err error) {
		e, ok := pipeline.Dropped(one, err)
		if !ok || !errors.Is(err, pipeline.ErrStale) && !errors.Is(err, raft.ErrNotStored) {
			panic(err) // only appends are filled, and the disk can be read
		}
		m.told = append(m.told, e)
	})
}

// bootstraps caches the disks of bootstrapped clusters. The key holds everything on which the disks depend.
var bootstraps = struct {
	sync.Mutex
	disks map[bootstrap][]any
}{disks: map[bootstrap][]any{}}

type bootstrap struct {
	n     int
	times Times
}

// bootstrapTime is the time limit of a bootstrap, as a multiple of TimeoutMax. It is ample on a network that loses nothing.
const bootstrapTime = 20

// bootstrapOnce bootstraps a cluster through the core, once for each size and time profile: uninitialized
// members on a network without faults elect their first leader, whose no-op reaches all.
func bootstrapOnce(s *Setup) ([]any, error) {
	key := bootstrap{s.N, s.Times}
	bootstraps.Lock()
	defer bootstraps.Unlock()
	if disks, ok := bootstraps.disks[key]; ok {
		return disks, nil
	}
	w := newWorld(&Algorithm{New: newPlainRaft}, s, 0, nil)
	for r := 1; r <= s.N; r++ {
		w.startAt(0, Rank(r))
	}
	w.run(bootstrapTime * s.Times.TimeoutMax)
	disks := make([]any, s.N)
	for i := range w.members {
		store, _ := w.members[i].disk.(raftStore)
		if len(store.log) < 2 || store.hard.Term == 0 {
			return nil, fmt.Errorf("elections: the cluster of %d was not bootstrapped within %v", s.N, bootstrapTime*s.Times.TimeoutMax)
		}
		disks[i] = store
	}
	bootstraps.disks[key] = disks
	return disks, nil
}
