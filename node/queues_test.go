package node

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// ledgerDisk is a storage that keeps all writes. If it has a channel, it waits for a signal before each write.
type ledgerDisk struct {
	raft.Storage // nil: nothing else is called
	signal       chan struct{}
	mu           sync.Mutex
	written      []raft.StorageWrite
}

func (d *ledgerDisk) Write(w raft.StorageWrite) error {
	if d.signal != nil {
		<-d.signal
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written = append(d.written, w)
	return nil
}

// tally is an FSM that counts commands.
type tally struct {
	raft.FSM // nil: nothing else is called
	n        int
}

func (c *tally) Apply(batch []raft.Entry, _ [][]byte) error { c.n += len(batch); return nil }

// parts returns a node whose goroutines a test starts one by one.
func parts(storage raft.Storage, wires raft.Transport, change func(*Config)) *Node {
	cfg := Config{ID: "n1", Cluster: "test"}
	if change != nil {
		change(&cfg)
	}
	return newNode(cfg.withDefaults(), storage, wires, raft.Stored{})
}

// voteOf returns a write that cannot be merged with another write.
func voteOf(seq raft.Seq) raft.Write {
	return raft.Write{Seq: seq, Hard: &raft.HardState{Term: raft.Term(seq)}}
}

// persistedIn returns the number of the last write that the writer has reported to the loop as durable.
func persistedIn(n *Node) raft.Seq {
	batch, _, _ := n.mailbox.take(nil)
	for _, e := range batch {
		if p, ok := e.(raft.Persisted); ok {
			return p.Seq
		}
	}
	return 0
}

// One signal is enough for all waiting writes. If a signal comes while the writer writes, it is not lost.
func TestWriter_EveryWriteOfTheQueueReachesTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &ledgerDisk{signal: make(chan struct{})}
		n := parts(disk, nil, nil)
		for seq := raft.Seq(1); seq <= 3; seq++ {
			n.writer.enqueue(voteOf(seq))
		}
		n.wg.Go(n.writer.run)
		synctest.Wait()
		n.writer.enqueue(voteOf(4)) // while the first one is being written
		for range 4 {
			disk.signal <- struct{}{}
		}
		synctest.Wait()
		n.writer.enqueue(voteOf(5)) // while it sleeps
		disk.signal <- struct{}{}
		synctest.Wait()
		expect.Equal(t, raft.Seq(5), persistedIn(n))
		expect.Len(t, disk.written, 5)
		n.fail(raft.ErrClosed)
		n.wg.Wait()
	})
}

// Promises that need no write wait for a stalled disk, up to a limit.
func TestWriter_PromisesOverTheLimitAreLost(t *testing.T) {
	n := parts(nil, nil, func(c *Config) { c.ReceivedMax = 3 })
	promise := func(seq raft.Seq) raft.Write {
		return raft.Write{Seq: seq, Then: []raft.Message{{To: raft.Peer{ID: "n2", Incarnation: 2}, Body: raft.Heartbeat{}}}}
	}
	for seq := raft.Seq(1); seq <= 5; seq++ {
		n.writer.enqueue(promise(seq))
	}
	expect.Equal(t, 3, n.writer.depth())
	expect.EqualValues(t, 2, n.Metrics().Dropped.QueueFull)
	n.writer.enqueue(voteOf(6))
	expect.Equal(t, 4, n.writer.depth(), "what must be written always finds room")
	expect.Equal(t, raft.Seq(5), n.writer.queue.waiting()[2].Seq, "what was lost is not waited for")
}

// A follower drops appends while the maximum number of writes waits for its disk.
func TestReceive_AppendsAreDroppedWhileTheDiskHasEnough(t *testing.T) {
	n := parts(nil, nil, func(c *Config) { c.ReceivedMax = 4 })
	appended := raft.Message{From: raft.Peer{ID: "n2", Incarnation: 2}, Body: raft.AppendRequest{Entries: entriesOf(1, 0, 1, 10)}}
	beat := raft.Message{From: raft.Peer{ID: "n2", Incarnation: 2}, Body: raft.Heartbeat{}}
	for seq := raft.Seq(1); seq <= 3; seq++ {
		n.writer.enqueue(voteOf(seq))
	}
	handler{n}.Receive(toN2, []raft.Message{appended})
	expect.Zero(t, n.Metrics().Dropped.Received)
	n.writer.enqueue(voteOf(4))
	handler{n}.Receive(toN2, []raft.Message{appended, beat})
	expect.EqualValues(t, 1, n.Metrics().Dropped.Received, "the append, and not the heartbeat")
	received, _ := n.mailbox.depth()
	expect.Equal(t, 2, received)
}

func TestSender_OneWakeUpIsEnoughForAllThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		n := parts(nil, w, nil)
		s := newSender(n, toN2, raft.LaneUrgent)
		for range 2*sendBatchMax + 10 {
			require.True(t, s.enqueue(raft.Message{To: raft.Peer{ID: "n2", Incarnation: 2}, Body: raft.Heartbeat{}}))
		}
		n.wg.Go(s.run)
		synctest.Wait()
		sent := 0
		for _, b := range w.batches {
			sent += len(b)
			expect.LessOrEqual(t, len(b), sendBatchMax)
		}
		expect.Equal(t, 2*sendBatchMax+10, sent)
		close(s.stop)
		n.wg.Wait()
	})
}

func TestSenders_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := parts(nil, &wire{}, nil)
		for i := range sendersMax + 3 {
			n.senders.send([]raft.Message{{To: raft.Peer{ID: raft.NodeID("n" + string(rune('A'+i%26)) + string(rune('a'+i/26)))}, Body: raft.Heartbeat{}}})
		}
		synctest.Wait()
		expect.Len(t, n.senders.peers, sendersMax)
		expect.EqualValues(t, 3, n.Metrics().Dropped.QueueFull)
		n.senders.close()
		n.wg.Wait()
	})
}

func TestApplier_OneWakeUpIsEnoughForAllThatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := parts(nil, nil, nil)
		const last = 3*applyEntriesMax + 7
		n.cache.Write(&raft.LogWrite{Entries: entriesOf(1, 0, last, 1), Generation: 1})
		state := &tally{}
		n.applier = newApplier(n, state, raft.EntryID{})
		n.applier.applyUpTo(raft.EntryID{Term: 1, Index: last})
		n.wg.Go(n.applier.run)
		synctest.Wait()
		expect.Equal(t, last, state.n)
		expect.Equal(t, raft.Index(last), n.applied.index())
		n.applier.applyUpTo(raft.EntryID{Term: 1, Index: last})
		n.fail(raft.ErrClosed)
		n.wg.Wait()
	})
}

// One read returns the entries of several batches. Nevertheless a replay reads each entry only once.
func TestApplier_ReadsEachEntryOnce(t *testing.T) {
	const last = 3*applyEntriesMax + 7
	stored := &counted{entries: entriesOf(1, 0, last, 1)}
	n := parts(stored, nil, nil)
	n.entries.Cache = pipeline.NewCache(last, 1)
	state := &tally{}
	n.applier = newApplier(n, state, raft.EntryID{})
	n.applier.applyUpTo(raft.EntryID{Term: 1, Index: last})
	require.NoError(t, n.applier.work())
	expect.Equal(t, last, state.n)
	expect.Equal(t, last, stored.read)
}

// counted is a store that counts the entries that are read.
type counted struct {
	raft.Storage
	entries []raft.Entry // from index 1 on
	read    int
}

func (c *counted) Entries(span raft.Span, _ int) ([]raft.Entry, error) {
	c.read += int(span.Last - span.After)
	return c.entries[span.After:span.Last], nil
}

func TestWaitApplied_TheNumberOfWaitersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := parts(nil, nil, func(c *Config) { c.ProposalsMax = 2 })
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- n.WaitApplied(ctx, 7) }()
		}
		synctest.Wait()
		expect.ErrorIs(t, n.WaitApplied(ctx, 7), raft.ErrOverloaded)
		cancel()
		expect.ErrorIs(t, <-results, context.Canceled)
		expect.ErrorIs(t, <-results, context.Canceled)
		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		go func() { results <- n.WaitApplied(ctx, 7) }()
		synctest.Wait()
		n.applied.advance(7)
		expect.NoError(t, <-results, "a caller that gives up makes room")
	})
}

func TestMailbox_PostedAreBounded(t *testing.T) {
	m := newMailbox()
	for range postedMax {
		require.Zero(t, m.post(raft.PeerLost{Peer: raft.Peer{ID: "n2", Incarnation: 2}}))
	}
	expect.Equal(t, 1, m.post(raft.PeerLost{Peer: raft.Peer{ID: "n2", Incarnation: 2}}))
	cfg := Config{}.withDefaults()
	expect.True(t, m.receive(raft.Message{Body: raft.Heartbeat{}}, 0, false, &cfg), "they do not take the room of messages")
	batch, _, _ := m.take(nil)
	expect.Len(t, batch, batchEventsMax, "nor more of a step than its share")
}

// If more proposals are queued than one step takes, the queue wakes the loop again. If a caller has stopped waiting, its
// proposal counts until the loop has skipped it.
func TestRequests_WhatAStepDoesNotTakeWakesTheLoopAgain(t *testing.T) {
	r := newTable(func(c *Config) { c.ProposalsMax = batchEventsMax + 1 })
	loop := r.proposals.signal
	var last *call
	for range batchEventsMax + 1 {
		req, err := r.propose(raft.EntryCommand, nil, nil)
		require.NoError(t, err)
		last = req
	}
	r.wait(cancelled(), last)
	_, err := r.propose(raft.EntryCommand, nil, nil)
	expect.ErrorIs(t, err, raft.ErrOverloaded, "its proposal is still in the queue")
	<-loop
	r.take(nil)
	require.Len(t, loop, 1)
	<-loop
	expect.Empty(t, r.take(nil))
	expect.Empty(t, loop, "nothing is left")
}

// An outcome that arrives at the moment when its caller gives up must not remain for the next user of the call.
func TestRequests_AnOutcomeThatCrossesWithACancellationGoesToNobodyElse(t *testing.T) {
	r := newTable(nil)
	for i := range 300 {
		req, err := r.propose(raft.EntryCommand, nil, nil)
		require.NoError(t, err)
		require.Empty(t, req.outcome, "round %d", i)
		r.take(nil)
		id := raft.EntryID{Term: 1, Index: raft.Index(i + 1)}
		r.answer([]raft.Answer{{RequestID: req.requestID, Kind: raft.AnswerAccepted, ID: id}}, noReason)
		r.applied([]raft.Entry{{Index: id.Index, Term: 1, Kind: raft.EntryCommand}}, [][]byte{{1}})
		o := r.wait(cancelled(), req) // outcome and cancellation are both there
		require.NoError(t, o.err, "it is applied, and its caller learns so")
		require.Equal(t, id.Index, o.result.Index)
	}
	expect.Empty(t, r.table)
	expect.Empty(t, r.accepted)
}

// Callers give up at any moment, and other callers reuse their calls. Each caller gets the result of its own command, or
// none.
func TestRequests_NobodyGetsTheResultOfAnother(t *testing.T) {
	r := newTable(nil)
	var callers, answerer sync.WaitGroup
	stop := make(chan struct{})
	answerer.Go(func() {
		next := raft.Index(1)
		for {
			select {
			case <-stop:
				return
			default:
			}
			next = r.applyAll(next)
		}
	})
	for c := range 8 {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			for i := range 2000 {
				mine := binary.LittleEndian.AppendUint64(nil, uint64(c)<<32|uint64(i))
				req, err := r.propose(raft.EntryCommand, mine, nil)
				if !expect.NoError(t, err) {
					return
				}
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(2) == 0 {
					go cancel()
				}
				o := r.wait(ctx, req)
				cancel()
				if o.err == nil && !expect.Equal(t, mine, o.result.Data) {
					return
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	answerer.Wait()
	r.take(nil)
	proposals, _, bytes := r.depth()
	expect.Zero(t, proposals+bytes)
	expect.Empty(t, r.accepted)
}

// applyAll takes the queue, as the loop does. Then it answers each proposal with the proposal's command, as the core and the
// applier do.
func (r *requests) applyAll(next raft.Index) raft.Index {
	var entries []raft.Entry
	var answers []raft.Answer
	var results [][]byte
	for _, e := range r.take(nil) {
		for _, p := range e.(raft.Proposed).Proposals {
			id := raft.EntryID{Term: 1, Index: next}
			next++
			answers = append(answers, raft.Answer{RequestID: p.RequestID, Kind: raft.AnswerAccepted, ID: id})
			entries = append(entries, raft.Entry{Index: id.Index, Term: 1, Kind: raft.EntryCommand})
			results = append(results, p.Data)
		}
	}
	r.answer(answers, noReason)
	if len(entries) > 0 {
		r.applied(entries, results)
	}
	return next
}

// The applier must apply the entry that the core has committed, and not another entry at the same index.
func TestApplier_AppliesNothingElseThanWhatIsCommitted(t *testing.T) {
	n := parts(nil, nil, nil)
	n.cache.Write(&raft.LogWrite{Entries: entriesOf(1, 0, 3, 1), Generation: 1})
	state := &tally{}
	n.applier = newApplier(n, state, raft.EntryID{})
	n.applier.applyUpTo(raft.EntryID{Term: 2, Index: 3})
	var broken *raft.InvariantError
	require.ErrorAs(t, n.applier.work(), &broken)
	expect.Zero(t, state.n)
}

// A hello contains only the memory that is on the disk, because the peer relies on that memory.
func TestIdentity_AHelloSaysWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := parts(nil, nil, nil)
		h := raft.Hello{
			ClusterName: "test", From: raft.Peer{ID: "n3", Incarnation: 33}, Expected: raft.Peer{ID: "n1"},
			StartCount: 1, Lineage: raft.Lineage{{Count: 1, Nonce: 7}},
		}
		var refusal *raft.Rejection
		n.wg.Go(func() { refusal = n.identity.admit(h) })
		synctest.Wait()
		memory, _ := n.identity.unwritten()
		require.NotNil(t, memory)
		expect.Zero(t, n.identity.hello(h.From).Remembers)
		n.identity.kept.publish(*memory)
		n.wg.Wait()
		require.Nil(t, refusal)
		expect.Equal(t, h.Lineage.Last(), n.identity.hello(h.From).Remembers.Start)
	})
}

// On a full disk, a member takes some entries of a leader, and then holds further appends back. It accepts all other
// messages, and these overtake the held appends. Once there is room, the held appends arrive in their order.
func TestMailbox_HoldsAppendsBack(t *testing.T) {
	m, cfg := newMailbox(), &Config{ReceivedMax: 8, ReceivedBytesMax: 64 << 20}
	appendOf := func(last raft.Index, size int) raft.Message {
		r := raft.AppendRequest{Prev: raft.EntryID{Index: last - 1}, Last: raft.EntryID{Index: last}}
		r.Entries = []raft.Entry{{Index: last, Kind: raft.EntryCommand, Data: make([]byte, size)}}
		return raft.Message{Term: 3, Body: r}
	}
	bare := raft.Message{Term: 3, Body: raft.AppendRequest{}}
	expect.True(t, m.receive(appendOf(1, 1<<20), 0, true, cfg))
	expect.True(t, m.receive(bare, 0, true, cfg))
	events, _, _ := m.take(nil)
	require.Len(t, events, 2)

	expect.True(t, m.receive(appendOf(2, 1<<20), 0, true, cfg))
	expect.True(t, m.receive(appendOf(3, 1), 0, true, cfg))
	expect.True(t, m.receive(bare, 0, true, cfg))
	expect.True(t, m.receive(appendOf(4, 1), 0, true, cfg))
	expect.False(t, m.receive(appendOf(5, 1), 0, true, cfg), "half of the room is for others")
	for range 4 {
		expect.True(t, m.receive(raft.Message{Term: 3, Body: raft.Heartbeat{}}, 0, true, cfg))
	}
	events, _, _ = m.take(nil)
	require.Len(t, events, 4)
	for _, e := range events {
		expect.IsType(t, raft.Heartbeat{}, e.(raft.Received).Message.Body)
	}
	received, bytes := m.depth()
	expect.Equal(t, 4, received)
	expect.Greater(t, bytes, 1<<20)

	expect.True(t, m.receive(appendOf(5, 1), 0, false, cfg), "there is room")
	events, _, _ = m.take(nil)
	require.Len(t, events, 5)
	for i, last := range []raft.Index{2, 3, 0, 4, 5} {
		expect.Equal(t, last, events[i].(raft.Received).Message.Body.(raft.AppendRequest).Last.Index)
	}
	received, bytes = m.depth()
	expect.Equal(t, [2]int{}, [2]int{received, bytes})

	expect.True(t, m.receive(appendOf(6, 3<<20), 0, true, cfg))
	m.releaseHeld()
	events, _, _ = m.take(nil)
	expect.Len(t, events, 1)
}

// After news of a peer's end, the loop gets no message that the peer sent before. So appends of it that are held back are
// dropped; those of other peers stay.
func TestMailbox_NewsFollowsEachMessageOfThePeer(t *testing.T) {
	m, cfg := newMailbox(), &Config{ReceivedMax: 8, ReceivedBytesMax: 64 << 20}
	gone, other := raft.Peer{ID: "n2", Incarnation: 2}, raft.Peer{ID: "n3", Incarnation: 3}
	appendOf := func(from raft.Peer, term raft.Term, size int) raft.Message {
		return raft.Message{From: from, Term: term, Body: raft.AppendRequest{Entries: []raft.Entry{{Kind: raft.EntryCommand, Data: make([]byte, size)}}}}
	}
	require.True(t, m.receive(raft.Message{From: gone, Term: 3, Body: raft.Heartbeat{}}, 0, true, cfg))
	require.True(t, m.receive(appendOf(gone, 3, 3<<20), 0, true, cfg))
	require.True(t, m.receive(appendOf(other, 4, 3<<20), 0, true, cfg))
	require.Zero(t, m.post(raft.PeerLost{Peer: gone}))
	require.Equal(t, 1, m.post(raft.PeerLost{Peer: gone, Refused: true}))
	m.releaseHeld()
	events, _, _ := m.take(nil)
	require.Len(t, events, 4)
	expect.Equal(t, gone, events[0].(raft.Received).Message.From)
	expect.Equal(t, raft.PeerLost{Peer: gone, Refused: true}, events[2])
	expect.Equal(t, other, events[3].(raft.Received).Message.From)
	received, bytes := m.depth()
	expect.Equal(t, [2]int{}, [2]int{received, bytes})
}
