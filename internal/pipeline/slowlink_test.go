package pipeline

import (
	"container/heap"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// pipeLink is a connection with a rate and a delay. It loses nothing and buffers everything. If bytes are sent too early,
// they only delay the bytes after them.
type pipeLink struct {
	bytesPerSecond int64
	delay          raft.Time
	free           raft.Time // when it can take the next message
	flying         []arrival
}

type arrival struct {
	at raft.Time
	m  raft.Message
}

func (l *pipeLink) Len() int           { return len(l.flying) }
func (l *pipeLink) Less(i, j int) bool { return l.flying[i].at < l.flying[j].at }
func (l *pipeLink) Swap(i, j int)      { l.flying[i], l.flying[j] = l.flying[j], l.flying[i] }
func (l *pipeLink) Push(x any)         { l.flying = append(l.flying, x.(arrival)) }
func (l *pipeLink) Pop() any {
	last := l.flying[len(l.flying)-1]
	l.flying = l.flying[:len(l.flying)-1]
	return last
}

func (l *pipeLink) send(now raft.Time, m raft.Message) {
	at := now
	if c, ok := m.Body.(raft.SnapshotChunk); ok {
		l.free = max(l.free, now) + raft.Time(int64(len(c.Data))*int64(time.Second)/l.bytesPerSecond)
		at = l.free
	}
	heap.Push(l, arrival{at + l.delay, m})
}

// A link may take many election timeouts for one chunk, or for a round trip. Such a link is slow, but not dead. The sender
// must neither give up nor fill the link with repetitions.
func TestStream_ASlowLinkCarriesItWithFewRepetitions(t *testing.T) {
	for _, row := range []struct {
		link           string
		bytesPerSecond int64
		delay          time.Duration
		size           int
	}{
		{"fast and near", 100 << 20, 100 * time.Microsecond, 64 << 20},
		{"fast and far", 100 << 20, 200 * time.Millisecond, 256 << 20},
		{"slow: 1 MB/s", 1 << 20, 10 * time.Millisecond, 16 << 20},
		{"very slow: 100 KB/s, 17 election timeouts for a chunk", 100 << 10, 50 * time.Millisecond, 8 << 20},
	} {
		t.Run(row.link, func(t *testing.T) {
			data := make([]byte, row.size)
			limits := StreamLimits{ElectionTimeout: 150 * time.Millisecond, ChunkBytes: 256 << 10, WindowBytes: 4 << 20, BytesMax: 1 << 30}
			took, sent := transfer(t, data, limits, &pipeLink{bytesPerSecond: row.bytesPerSecond, delay: raft.Time(row.delay)})
			ideal := time.Duration(int64(row.size) * int64(time.Second) / row.bytesPerSecond)
			if window := time.Duration(row.size/limits.WindowBytes) * 2 * row.delay; window > ideal {
				ideal = window // one window for each round trip
			}
			t.Logf("%v, and %v at best; sent %.2f times", took, ideal, float64(sent)/float64(row.size))
			expect.Less(t, took, ideal*3/2+20*row.delay)
			expect.Less(t, float64(sent), 1.3*float64(row.size))
		})
	}
}

// transfer sends the bytes over the link. It returns how long this took, and how many bytes the sender sent.
func transfer(t *testing.T, data []byte, limits StreamLimits, l *pipeLink) (took time.Duration, sent int) {
	now := raft.Time(1)
	offer := offerOf(alice, bob, 1, data, false)
	o, in := NewOutgoing(now, offer, limits), NewIncoming(bob, limits)
	l.send(now, offer)
	answer := func(w Work) {
		for done := false; !done; {
			for _, m := range w.Send {
				l.send(now, m)
			}
			switch {
			case w.Open != nil:
				w = in.Opened(0)
			case w.Write != nil:
				w = in.Written(1<<40, 0)
			case w.Finish != nil:
				w = in.Finished(0)
			default:
				done = true
			}
		}
	}
	for {
		ask := o.Next(now)
		if ask.End {
			require.NoError(t, ask.Err, "after %v and %d bytes", time.Duration(now), sent)
			return time.Duration(now), sent
		}
		if ask.Chunk {
			m, ok := o.Chunk(now, ask.At, data[ask.At:ask.At+int64(ask.Bytes)])
			require.True(t, ok)
			sent += ask.Bytes
			l.send(now, m)
			continue
		}
		next := ask.Wake
		if len(l.flying) > 0 && (next == 0 || l.flying[0].at <= next) {
			a := heap.Pop(l).(arrival)
			now = a.at
			switch body := a.m.Body.(type) {
			case raft.InstallSnapshot:
				answer(in.Receive(now, raft.Receive{From: alice, Snapshot: body.Snapshot}, 1<<40))
			case raft.SnapshotChunk:
				answer(in.Chunk(now, a.m))
			case raft.SnapshotProgress:
				o.Progress(now, a.m)
			}
			continue
		}
		require.NotZero(t, next, "nothing happens any more")
		now = next
	}
}
