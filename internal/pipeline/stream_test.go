package pipeline

import (
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// streamWorld has one receiver, bob, and the members that send to bob. Its network loses, doubles, reorders and damages
// messages. Its hosts restart.
type streamWorld struct {
	t       *testing.T
	choose  func(n int) int // 0 to n-1; 0 is the harmless choice
	now     raft.Time
	limits  StreamLimits
	in      *Incoming
	spool   []byte
	offered map[streamName][]byte
	arrived map[streamName]bool
	streams []*worldStream // one for each sender that leads or led; the last one leads
	flying  []raft.Message
	files   byte
	mild    int // the higher, the less often something goes wrong
	offerAt raft.Time
}

// worldStream is a sender and its snapshot.
type worldStream struct {
	offer raft.Message
	data  []byte
	fed   int
	out   *Outgoing
}

const worldTimeout = raft.Time(100 * time.Millisecond)

func newStreamWorld(t *testing.T, choose func(n int) int) *streamWorld {
	chunk := 1 + choose(9)
	w := &streamWorld{
		t: t, choose: choose, now: 1, offered: map[streamName][]byte{}, arrived: map[streamName]bool{},
		limits: StreamLimits{
			ElectionTimeout: time.Duration(worldTimeout), ChunkBytes: chunk, WindowBytes: chunk + choose(5*chunk), BytesMax: 1000,
		},
	}
	if choose(3) == 1 {
		w.limits.BytesPerSecond = int64(100 + choose(1000))
	}
	w.mild = []int{2, 5, 30, 100}[choose(4)]
	w.in = NewIncoming(bob, w.limits)
	w.lead(alice)
	return w
}

// lead makes a member offer a snapshot of the same entry with new bytes.
func (w *streamWorld) lead(from raft.Peer) {
	w.files++
	data := make([]byte, w.choose(80))
	for i := range data {
		data[i] = byte(int(w.files)*31 + i)
	}
	s := &worldStream{offer: offerOf(from, bob, w.files, data, w.choose(3) == 1), data: data}
	w.begin(s)
	w.streams = append(w.streams, s)
	w.flying = append(w.flying, s.offer)
}

func (w *streamWorld) begin(s *worldStream) {
	s.out = NewOutgoing(w.now, s.offer, w.limits)
	w.offered[s.name()] = s.data
}

func (s *worldStream) name() streamName { return streamName{s.offer.From, s.out.file} }

func (w *streamWorld) leader() *worldStream { return w.streams[len(w.streams)-1] }

// pump lets a sender do its next step: it sends at most one chunk.
func (w *streamWorld) pump(s *worldStream) {
	if s.out.kept != nil {
		s.fed += s.out.Fill(s.data[s.fed:min(len(s.data), s.fed+1+w.choose(10))])
		if s.fed == len(s.data) {
			s.out.Filled()
		}
		require.LessOrEqual(w.t, s.out.kept.bytes, w.limits.WindowBytes)
	}
	ask := s.out.Next(w.now)
	if ask.End && ask.Err == nil {
		require.True(w.t, w.arrived[s.name()], "the sender ended before it arrived")
	}
	if !ask.Chunk {
		return
	}
	var data []byte
	if s.out.kept == nil {
		data = s.data[ask.At : ask.At+int64(ask.Bytes)]
	}
	m, ok := s.out.Chunk(w.now, ask.At, data)
	require.True(w.t, ok)
	require.LessOrEqual(w.t, s.out.sent-s.out.acked, int64(w.limits.WindowBytes))
	w.flying = append(w.flying, m)
}

// deliver delivers a message to its receiver.
func (w *streamWorld) deliver(m raft.Message) {
	switch body := m.Body.(type) {
	case raft.InstallSnapshot:
		w.perform(w.in.Receive(w.now, raft.Receive{From: m.From, Snapshot: body.Snapshot}, 1000))
	case raft.SnapshotChunk:
		w.perform(w.in.Chunk(w.now, m))
	case raft.SnapshotProgress:
		for _, s := range w.streams {
			s.out.Progress(w.now, m)
		}
	}
}

// perform is the receiver's host.
func (w *streamWorld) perform(work Work) {
	fault := raft.StreamRefusal(0)
	if w.choose(60) == 1 {
		fault = raft.StreamNoSpace
	}
	if work.Abort {
		w.spool = nil
	}
	if a := work.Arrived; a != nil {
		w.check(a)
	}
	w.flying = append(w.flying, work.Send...)
	switch {
	case work.Open != nil:
		w.spool = nil
		w.perform(w.in.Opened(fault))
	case work.Write != nil:
		w.spool = append(w.spool, work.Write...)
		w.perform(w.in.Written(1000, fault))
	case work.Finish != nil:
		w.perform(w.in.Finished(fault))
	}
}

// check compares the snapshot that arrived with the snapshot that was offered.
func (w *streamWorld) check(a *raft.SnapshotArrived) {
	name := streamName{a.From, a.Snapshot.File}
	data, sent := w.offered[name]
	require.True(w.t, sent, "nobody offered it")
	require.Equal(w.t, string(data), string(w.spool))
	require.Equal(w.t, int64(len(w.spool)), a.Snapshot.Size)
	require.Equal(w.t, crc32.Checksum(w.spool, castagnoli), a.Snapshot.Sum)
	w.arrived[name] = true
}

// disturb causes one random fault of the network or of a host.
func (w *streamWorld) disturb() {
	if w.choose(w.mild) != 1 {
		w.calm()
		return
	}
	switch w.choose(12) {
	case 0, 1, 2:
		w.pump(w.leader())
	case 3:
		w.pump(w.streams[w.choose(len(w.streams))])
	case 4, 5, 6:
		w.fly()
	case 7:
		w.now += worldTimeout * raft.Time(w.choose(30)) / 10
		w.perform(w.in.Expire(w.now))
	case 8:
		w.flying = append(w.flying, w.streams[w.choose(len(w.streams))].offer)
	case 9: // the connection breaks
		w.streams[w.choose(len(w.streams))].out.Lost(w.now)
		w.flying = nil
	case 10: // the receiver or a sender restarts
		if w.choose(2) == 0 {
			w.in, w.spool = NewIncoming(bob, w.limits), nil
		} else {
			w.offerAgain(w.streams[w.choose(len(w.streams))])
		}
	case 11:
		if len(w.streams) < 4 {
			w.lead([]raft.Peer{alice, carol}[w.choose(2)])
		}
	}
}

// fly delivers a random message in flight, perhaps twice, damaged, or not at all.
func (w *streamWorld) fly() {
	if len(w.flying) == 0 {
		return
	}
	i := w.choose(len(w.flying))
	m := w.flying[i]
	if w.choose(5) != 1 {
		w.flying = slices.Delete(w.flying, i, i+1)
	}
	if c, ok := m.Body.(raft.SnapshotChunk); ok && len(c.Data) > 0 && w.choose(40) == 1 {
		c.Data = append([]byte{c.Data[0] + 1}, c.Data[1:]...)
		m.Body = c
	}
	if w.choose(5) != 1 {
		w.deliver(m)
	}
}

// offerAgain begins the stream anew. It offers the same file or, for a held freeze, another freeze of the same state.
func (w *streamWorld) offerAgain(s *worldStream) {
	if s.offer.Body.(raft.InstallSnapshot).Snapshot.Held {
		w.files++
		s.offer = offerOf(s.offer.From, bob, w.files, s.data, true)
		s.fed = 0
	}
	w.begin(s)
}

// calm lets a little time pass without faults. Like the core, it repeats the offer every election timeout. If a stream has
// failed, it makes a new offer.
func (w *streamWorld) calm() {
	s := w.leader()
	if ask := s.out.Next(w.now); ask.End && ask.Err != nil {
		w.offerAgain(s)
	}
	if w.now >= w.offerAt {
		w.offerAt = w.now + worldTimeout
		w.flying = append(w.flying, s.offer)
	}
	for range 4 {
		w.pump(s)
	}
	for range min(len(w.flying), 8) {
		m := w.flying[0]
		w.flying = w.flying[1:]
		w.deliver(m)
	}
	w.now += worldTimeout / 20
	if len(w.flying) == 0 && (s.out.kept == nil || s.fed == len(s.data)) {
		w.sleep(s)
	}
	w.perform(w.in.Expire(w.now))
}

// sleep advances the time until the sender or the receiver has something to do.
func (w *streamWorld) sleep(s *worldStream) {
	next := w.offerAt
	if ask := s.out.Next(w.now); ask.Chunk || ask.End {
		return
	} else if ask.Wake != 0 {
		next = min(next, ask.Wake)
	}
	if wake := w.in.Wake(); wake != 0 {
		next = min(next, wake)
	}
	w.now = max(w.now, next)
}

// settle ends all faults. After that, the leader's snapshot must arrive, and the leader must learn that it has arrived.
func (w *streamWorld) settle() {
	w.choose = func(int) int { return 0 }
	s := w.leader()
	for range 12_000 {
		if ask := s.out.Next(w.now); ask.End && ask.Err == nil {
			return
		}
		w.calm()
	}
	require.Fail(w.t, "the snapshot did not arrive", "%+v %+v", s.out, w.in.stream)
}

// If a snapshot arrives, it equals byte for byte the snapshot that one sender sent, whatever the faults. After the end of all
// faults, the snapshot arrives.
func TestStream_ArrivesAsItWasSentOrNotAtAll(t *testing.T) {
	arrived := 0
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newStreamWorld(t, random.IntN)
		for range random.IntN(200) {
			w.disturb()
		}
		arrived += len(w.arrived)
		w.settle()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	require.Greater(t, arrived, 500, "enough arrives while there is trouble")
}

func FuzzStream(f *testing.F) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 2))
		choices := make([]byte, 300)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		w := newStreamWorld(t, func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		})
		for len(choices) > 0 {
			w.disturb()
		}
		w.settle()
	})
}
