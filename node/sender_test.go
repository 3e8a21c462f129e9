package node

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// wire is a transport that records the messages that it gets.
type wire struct {
	raft.Transport // nil: nothing else is called
	mu             sync.Mutex
	batches        [][]raft.Message
	err            error
}

func (w *wire) Send(_ raft.Peer, _ raft.Lane, batch []raft.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = append(w.batches, batch)
	return w.err
}

// shelf is a storage that holds some entries.
type shelf struct {
	raft.Storage // nil: nothing else is called
	entries      []raft.Entry
	err          error
	reading      func()
}

func (s *shelf) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	if s.reading != nil {
		s.reading()
	}
	if s.err != nil {
		return nil, s.err
	}
	part := s.entries[span.After:span.Last]
	n := 1
	for n < len(part) && pipeline.RecordBytes(part[:n+1]) <= bytesMax {
		n++
	}
	return part[:n], nil
}

// senderWith returns a sender. Its node has entries 1 to 6 on the disk and 7 to 10 in the cache. All entries are of term 1,
// of 100 bytes, and in generation 4.
func senderWith(t *testing.T, appendBytesMax int) (*sender, *wire, *shelf) {
	t.Helper()
	w, s := &wire{}, &shelf{entries: entriesOf(1, 0, 6, 100)}
	cfg := Config{ID: "n1", Cluster: "test", Limits: raft.Limits{AppendBytesMax: appendBytesMax}, SendQueueMax: 8}.withDefaults()
	n := newNode(cfg, s, w, raft.Stored{Log: raft.StoredLog{Last: raft.EntryID{Term: 1, Index: 6}}})
	n.cache.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 6}, Entries: entriesOf(1, 6, 10, 100), Generation: 4})
	return newSender(n, toN2, raft.LaneBulk), w, s
}

// entriesOf returns the entries (after, last] of one term, with data of that size.
func entriesOf(term raft.Term, after, last raft.Index, size int) []raft.Entry {
	var out []raft.Entry
	for i := after + 1; i <= last; i++ {
		out = append(out, raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Data: make([]byte, size)})
	}
	return out
}

var toN2 = raft.Peer{ID: "n2", Incarnation: 2}

func appendOf(after, last raft.Index) raft.Message {
	at := func(i raft.Index) raft.EntryID {
		if i == 0 {
			return raft.EntryID{}
		}
		return raft.EntryID{Term: 1, Index: i}
	}
	return raft.Message{To: toN2, Term: 1, Body: raft.AppendRequest{Prev: at(after), Last: at(last), Commit: after, Generation: 4}}
}

// reported returns the dropped appends that the sender has reported to the loop.
func reported(s *sender) []raft.Event {
	batch, _, _ := s.node.mailbox.take(nil)
	return batch
}

// spans returns the span of each message that was sent. It checks that the entries of each message fill its span.
func spans(t *testing.T, batches [][]raft.Message) (out []raft.Span) {
	t.Helper()
	for _, b := range batches {
		for _, m := range b {
			a := m.Body.(raft.AppendRequest)
			require.Len(t, a.Entries, int(a.Last.Index-a.Prev.Index))
			for i, e := range a.Entries {
				require.Equal(t, a.Prev.Index+raft.Index(i)+1, e.Index)
			}
			out = append(out, raft.Span{After: a.Prev.Index, Last: a.Last.Index})
		}
	}
	return out
}

func TestSender_FillsAppendsFromStorageAndLogCache(t *testing.T) {
	const size = 100 + raft.RecordOverheadBytes
	for _, row := range []struct {
		rule  string
		bytes int
		sent  []raft.Message
		want  []raft.Span
	}{
		{"from the cache", 1 << 20, []raft.Message{appendOf(7, 9)}, []raft.Span{{After: 7, Last: 9}}},
		{"from the storage", 1 << 20, []raft.Message{appendOf(0, 6)}, []raft.Span{{After: 0, Last: 6}}},
		{"from both: cut where the cache begins", 1 << 20, []raft.Message{appendOf(4, 10)}, []raft.Span{{After: 4, Last: 6}, {After: 6, Last: 10}}},
		{"without entries", 1 << 20, []raft.Message{appendOf(5, 5)}, []raft.Span{{After: 5, Last: 5}}},
		{"joined if one follows the other", 1 << 20, []raft.Message{appendOf(6, 8), appendOf(8, 10)}, []raft.Span{{After: 6, Last: 10}}},
		{"not joined over a gap", 1 << 20, []raft.Message{appendOf(6, 7), appendOf(8, 10)}, []raft.Span{{After: 6, Last: 7}, {After: 8, Last: 10}}},
		{"cut to the bytes of one message", 2 * size, []raft.Message{appendOf(6, 9), appendOf(9, 10)}, []raft.Span{{After: 6, Last: 8}, {After: 8, Last: 10}}},
		{"at least one entry, whatever its size", 1, []raft.Message{appendOf(8, 10)}, []raft.Span{{After: 8, Last: 9}, {After: 9, Last: 10}}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s, w, _ := senderWith(t, row.bytes)
			s.deliver(row.sent)
			expect.Equal(t, row.want, spans(t, w.batches))
			expect.Empty(t, reported(s))
		})
	}
}

func TestSender_JoinsTheRestOfTheMessagesToo(t *testing.T) {
	m, n := pipeline.JoinAppends([]raft.Message{appendOf(6, 8), appendOf(8, 10), {Body: raft.AppendReply{}}})
	require.Equal(t, 2, n)
	expect.Equal(t, raft.Index(8), m.Body.(raft.AppendRequest).Commit)

	more := appendOf(8, 10)
	body := more.Body.(raft.AppendRequest)
	body.Acknowledged = 8
	more.Body = body
	m, n = pipeline.JoinAppends([]raft.Message{appendOf(6, 8), more})
	require.Equal(t, 2, n)
	expect.Zero(t, m.Body.(raft.AppendRequest).Acknowledged, "nothing of what it carries itself was acknowledged")

	later := appendOf(8, 10)
	later.Term = 2
	_, n = pipeline.JoinAppends([]raft.Message{appendOf(6, 8), later})
	expect.Equal(t, 1, n, "each keeps its own term")
}

func TestSender_EveryAppendThatDidNotLeaveIsReported(t *testing.T) {
	for _, row := range []struct {
		rule string
		act  func(s *sender, w *wire, d *shelf)
		want []raft.Event
	}{
		{"the log was truncated before", func(s *sender, _ *wire, _ *shelf) {
			s.node.cache.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 8}, Entries: entriesOf(2, 8, 10, 1), Generation: 5})
			s.deliver([]raft.Message{appendOf(7, 10)})
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 7, Last: 10}}}},
		{"the log was truncated while it was read", func(s *sender, _ *wire, d *shelf) {
			d.reading = func() { s.node.cache.Write(&raft.LogWrite{After: raft.EntryID{Term: 1, Index: 2}, Generation: 5}) }
			s.deliver([]raft.Message{appendOf(0, 5)})
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 0, Last: 5}}}},
		{"the entries are not stored any more", func(s *sender, _ *wire, d *shelf) {
			d.err = raft.ErrNotStored
			s.deliver([]raft.Message{appendOf(0, 5)})
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 0, Last: 5}}}},
		{"the last entry is another one", func(s *sender, _ *wire, _ *shelf) {
			m := appendOf(7, 10)
			a := m.Body.(raft.AppendRequest)
			a.Last.Term = 9
			m.Body = a
			s.deliver([]raft.Message{m})
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 7, Last: 10}}}},
		{"the connection broke", func(s *sender, w *wire, _ *shelf) {
			w.err = errors.New("broken pipe")
			s.deliver([]raft.Message{appendOf(7, 8), {Body: raft.AppendReply{}}, appendOf(9, 10)})
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 7, Last: 8}}, raft.SendDropped{To: toN2, Span: raft.Span{After: 9, Last: 10}}}},
		{"the queue is full", func(s *sender, _ *wire, _ *shelf) {
			all := &senders{node: s.node, peers: map[raft.Peer]*[2]*sender{toN2: {raft.LaneUrgent: s, raft.LaneBulk: s}}}
			for range s.node.cfg.SendQueueMax + 1 {
				all.send([]raft.Message{appendOf(7, 8)})
			}
		}, []raft.Event{raft.SendDropped{To: toN2, Span: raft.Span{After: 7, Last: 8}}}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s, w, d := senderWith(t, 1<<20)
			row.act(s, w, d)
			expect.Equal(t, row.want, reported(s))
			m := s.node.Metrics().Dropped
			expect.Positive(t, m.QueueFull+m.Send+m.Stale)
		})
	}
}

// clogged is a transport whose bulk connection takes nothing until it is released.
type clogged struct {
	wire
	release chan struct{}
}

func (c *clogged) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	if lane == raft.LaneBulk {
		<-c.release
	}
	return c.wire.Send(to, lane, batch)
}

func TestSenders_HeartbeatsDoNotWaitBehindEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := senderWith(t, 1<<20)
		c := &clogged{release: make(chan struct{})}
		n := s.node
		n.transport = c
		n.senders.send([]raft.Message{appendOf(6, 8)})
		synctest.Wait()
		for _, body := range []raft.Body{raft.Heartbeat{}, raft.HeartbeatReply{}, raft.VoteRequest{}, raft.VoteReply{}, raft.PreVoteRequest{}, raft.TimeoutNow{}} {
			n.senders.send([]raft.Message{{To: raft.Peer{ID: "n2"}, Term: 1, Body: body}})
			synctest.Wait()
			c.mu.Lock()
			require.NotEmpty(t, c.batches, "%T waits behind entries", body)
			expect.Equal(t, body, c.batches[0][0].Body)
			c.batches = nil
			c.mu.Unlock()
		}
		close(c.release)
		synctest.Wait()
		expect.Equal(t, []raft.Span{{After: 6, Last: 8}}, spans(t, c.batches))
		n.senders.close()
		n.wg.Wait()
	})
}

func TestSender_DamageInTheLogEndsTheNode(t *testing.T) {
	s, _, d := senderWith(t, 1<<20)
	d.err = &raft.CorruptError{File: "raft.db", Where: "entry 3", Reason: raft.ErrBadRecord}
	s.deliver([]raft.Message{appendOf(0, 5)})
	expect.ErrorIs(t, s.node.Err(), raft.ErrBadRecord)
}
