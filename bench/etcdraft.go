//go:build !nopeers

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// etcdReplica drives etcd's raft as etcd does. It has a loop that owns the raft.RawNode, etcd's write-ahead log, and an
// applier that runs beside the loop. etcdnet.go has the transport. The loop steps all queued messages at once, so that
// batches form while the disk is busy. With async, the disk also has its own goroutine (raft.Config.AsyncStorageWrites). With
// yields, the loop and the senders yield before they take queued work. Our node does the same, but etcd does not.
type etcdReplica struct {
	counter
	id      uint64
	async   bool
	yields  bool
	keeps   bool
	raw     *raft.RawNode
	log     *wal.WAL
	memory  *raft.MemoryStorage
	network *etcdNetwork

	mailbox etcdMailbox
	appends chan *raftpb.Message // async: for the disk
	applies chan etcdApply
	leads   atomic.Bool
	applied atomic.Uint64 // index

	mu        sync.Mutex
	requests  uint64
	waiting   map[uint64]chan error // by the number in the command's first eight bytes
	proposing []*raftpb.Entry
	reads     etcdReads
}

// etcdApply is a batch of committed entries, with the responses that async expects.
type etcdApply struct {
	entries   []*raftpb.Entry
	responses []*raftpb.Message
}

// The limits are those of etcd's server.
const (
	etcdMessageBytesMax = 1 << 20
	etcdInflightMax     = 512
	etcdTick            = 100 * time.Millisecond // as in etcd
	etcdQuickTick       = 15 * time.Millisecond
	etcdTailEntries     = 5000    // entries that stay in memory when the log is compacted
	etcdTailBytes       = 8 << 20 // limit of their bytes, so that large commands do not fill the memory: as for our cache
)

// etcdStart is the position from which the log of every member begins. Its configuration has all members.
func etcdStart(members int) *walpb.Snapshot {
	voters := make([]uint64, members)
	for i := range voters {
		voters[i] = uint64(i + 1)
	}
	return &walpb.Snapshot{Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &raftpb.ConfState{Voters: voters}}
}

func startEtcdRaft(async, yields bool) func(Member) (replica, error) {
	return func(m Member) (replica, error) {
		e := &etcdReplica{
			id: uint64(m.ID), async: async, yields: yields, keeps: m.Keeps, memory: raft.NewMemoryStorage(), waiting: map[uint64]chan error{},
			mailbox: etcdMailbox{some: make(chan struct{}, 1)},
			appends: make(chan *raftpb.Message, 1024), applies: make(chan etcdApply, 1024),
		}
		dir := filepath.Join(m.Dir, "wal")
		first := !wal.Exist(dir)
		if err := e.load(dir, etcdStart(len(m.Addresses))); err != nil {
			return nil, err
		}
		tick := etcdTick
		if m.Tuned {
			tick = etcdQuickTick
		}
		readOnly := raft.ReadOnlySafe
		if m.Leases {
			readOnly = raft.ReadOnlyLeaseBased
		}
		raw, err := raft.NewRawNode(&raft.Config{
			ID: e.id, ElectionTick: 10, HeartbeatTick: 1, Storage: e.memory, MaxSizePerMsg: etcdMessageBytesMax,
			MaxInflightMsgs: etcdInflightMax, CheckQuorum: true, PreVote: true, AsyncStorageWrites: async,
			ReadOnlyOption: readOnly, DisableProposalForwarding: true, Logger: &raft.DefaultLogger{Logger: discard},
		})
		if err != nil {
			return nil, err
		}
		e.raw = raw
		if e.network, err = listenEtcd(m, &e.mailbox, yields); err != nil {
			return nil, err
		}
		go e.apply()
		if async {
			go e.append()
		}
		go e.run(first, tick)
		return e, nil
	}
}

// load opens the log, or creates it, and reads it into memory.
func (e *etcdReplica) load(dir string, start *walpb.Snapshot) error {
	if !wal.Exist(dir) {
		if err := createEtcdLog(dir, start); err != nil {
			return err
		}
	}
	log, state, entries, err := readEtcdLog(dir, start)
	if err != nil && wal.Repair(nil, dir) { // the process was killed within a write
		log, state, entries, err = readEtcdLog(dir, start)
	}
	if err != nil {
		return err
	}
	e.log = log
	snapshot := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: start.Index, Term: start.Term, ConfState: start.ConfState,
	}}
	return errors.Join(e.memory.ApplySnapshot(snapshot), e.memory.SetHardState(state), e.memory.Append(entries))
}

func createEtcdLog(dir string, start *walpb.Snapshot) error {
	log, err := wal.Create(nil, dir, nil)
	if err != nil {
		return err
	}
	state := &raftpb.HardState{Term: start.Term, Commit: start.Index}
	return errors.Join(log.SaveSnapshot(start), log.Save(state, nil), log.Close())
}

func readEtcdLog(dir string, start *walpb.Snapshot) (*wal.WAL, *raftpb.HardState, []*raftpb.Entry, error) {
	log, err := wal.Open(nil, dir, start)
	if err != nil {
		return nil, nil, nil, err
	}
	_, state, entries, err := log.ReadAll()
	if err != nil {
		return nil, nil, nil, errors.Join(err, log.Close())
	}
	return log, state, entries, nil
}

func (e *etcdReplica) Leads() bool { return e.leads.Load() }

func (e *etcdReplica) Propose(ctx context.Context, command []byte) error {
	answer := make(chan error, 1)
	data := append([]byte(nil), command...)
	e.mu.Lock()
	if !e.leads.Load() {
		e.mu.Unlock()
		return errNotLeader
	}
	e.requests++
	number := e.id<<56 | e.requests
	binary.BigEndian.PutUint64(data, number)
	e.waiting[number] = answer
	e.proposing = append(e.proposing, &raftpb.Entry{Data: data})
	e.mu.Unlock()
	e.mailbox.wake()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		e.answer(number, nil)
		return ctx.Err()
	}
}

var errNotLeader = errors.New("not the leader")

// answer ends a request, if it still waits.
func (e *etcdReplica) answer(number uint64, err error) {
	e.mu.Lock()
	answer := e.waiting[number]
	delete(e.waiting, number)
	e.mu.Unlock()
	if answer != nil {
		answer <- err
	}
}

// setLeads sets whether this member leads. If the member stops leading, setLeads ends its waiting requests with an error,
// because their outcome is unknown.
func (e *etcdReplica) setLeads(leads bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !leads && e.leads.Load() {
		for number, answer := range e.waiting {
			delete(e.waiting, number)
			answer <- errNotLeader
		}
		e.proposing = nil
		e.reads.fail(errNotLeader)
	}
	e.leads.Store(leads)
}

func (e *etcdReplica) proposals() []*raftpb.Entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	entries := e.proposing
	e.proposing = nil
	return entries
}

// run is the loop. Its clock ticks faster until the cluster has its first leader, because no figure measures that election.
func (e *etcdReplica) run(first bool, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	if first {
		ticks.Reset(etcdQuickTick)
	}
	for {
		select {
		case <-ticks.C:
			e.raw.Tick()
			e.compact()
			if first && e.raw.BasicStatus().Lead != raft.None {
				first = false
				ticks.Reset(every)
			}
		case <-e.mailbox.some:
		}
		if e.yields {
			runtime.Gosched() // callers that are about to propose join this batch
		}
		messages, unreachable := e.mailbox.take()
		for _, m := range messages {
			_ = e.raw.Step(m) // it refuses what it does not need
		}
		for _, id := range unreachable {
			e.raw.ReportUnreachable(id)
		}
		if entries := e.proposals(); len(entries) > 0 {
			e.propose(entries)
		}
		for e.askForReads(); e.raw.HasReady(); e.askForReads() {
			e.process(e.raw.Ready())
		}
	}
}

func (e *etcdReplica) propose(entries []*raftpb.Entry) {
	m := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &e.id, Entries: entries}
	if err := e.raw.Step(m); err != nil {
		for _, entry := range entries {
			e.answer(binary.BigEndian.Uint64(entry.GetData()), err)
		}
	}
}

func (e *etcdReplica) process(ready raft.Ready) {
	if ready.SoftState != nil {
		e.setLeads(ready.RaftState == raft.StateLeader)
	}
	for _, confirmed := range ready.ReadStates {
		e.reads.confirm(confirmed.Index, e.applied.Load())
	}
	switch {
	case e.async:
		e.dispatch(ready.Messages)
		return
	case e.leads.Load(): // a leader's messages need not wait for its disk
		e.network.send(ready.Messages)
		e.save(ready.HardState, ready.Entries)
	default:
		e.save(ready.HardState, ready.Entries)
		e.network.send(ready.Messages)
	}
	if len(ready.CommittedEntries) > 0 {
		e.applies <- etcdApply{entries: ready.CommittedEntries}
	}
	e.raw.Advance(ready)
}

// save ends the process if the disk fails, as etcd does.
func (e *etcdReplica) save(state *raftpb.HardState, entries []*raftpb.Entry) {
	err := errors.Join(e.log.Save(state, entries), e.memory.Append(entries))
	if !raft.IsEmptyHardState(state) {
		err = errors.Join(err, e.memory.SetHardState(state))
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "etcd's log:", err)
		os.Exit(1)
	}
}

// dispatch sends messages to other members, to the disk and to the applier. Responses are stepped into the raft.RawNode, or
// sent to other members.
func (e *etcdReplica) dispatch(messages []*raftpb.Message) {
	var others []*raftpb.Message
	for _, m := range messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			e.appends <- m
		case raft.LocalApplyThread:
			e.applies <- etcdApply{m.GetEntries(), m.GetResponses()}
		case e.id:
			e.mailbox.put(m)
		default:
			others = append(others, m)
		}
	}
	e.network.send(others)
}

// append writes everything that is queued with one sync.
func (e *etcdReplica) append() {
	for m := range e.appends {
		var state *raftpb.HardState
		entries, responses := joined(nil, m.GetEntries()), m.GetResponses()
		for {
			if m.Term != nil || m.Vote != nil || m.Commit != nil {
				state = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
			}
			if len(e.appends) == 0 {
				break
			}
			m = <-e.appends
			entries, responses = joined(entries, m.GetEntries()), append(responses, m.GetResponses()...)
		}
		e.save(state, entries)
		e.dispatch(responses)
	}
}

// joined returns entries followed by later. If the first index of later is already in entries, later replaces entries from
// that index on.
func joined(entries, later []*raftpb.Entry) []*raftpb.Entry {
	if len(entries) > 0 && len(later) > 0 {
		before := int(later[0].GetIndex()) - int(entries[0].GetIndex())
		entries = entries[:min(max(before, 0), len(entries))]
	}
	return append(entries, later...)
}

func (e *etcdReplica) apply() {
	for batch := range e.applies {
		for _, entry := range batch.entries {
			if command := entry.GetData(); len(command) > 0 { // a new leader's first entry is empty
				e.counter.apply(command)
				e.answer(binary.BigEndian.Uint64(command), nil)
			}
		}
		e.dispatch(batch.responses)
		e.applied.Store(batch.entries[len(batch.entries)-1].GetIndex())
		if e.reads.answer(e.applied.Load()) {
			e.mailbox.wake()
		}
	}
}

// compact frees the memory of entries that no member needs. A leader also keeps the entries that a follower still lacks,
// because the leader has no snapshot to send.
func (e *etcdReplica) compact() {
	first, _ := e.memory.FirstIndex() // it never fails
	to := e.applied.Load()
	e.raw.WithProgress(func(_ uint64, _ raft.ProgressType, p tracker.Progress) {
		if e.leads.Load() {
			to = min(to, p.Match)
		}
	})
	if tail := e.tail(); !e.keeps && to > first+2*tail {
		_ = e.memory.Compact(to - tail) // cannot fail: the entry exists
	}
}

// tail returns the number of entries that stay in memory.
func (e *etcdReplica) tail() uint64 {
	bytes := e.bytes.Load() / max(1, e.commands.Load()) // of the mean command
	return min(etcdTailEntries, etcdTailBytes/max(1, bytes))
}
