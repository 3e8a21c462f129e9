package pipeline

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

var (
	alice = raft.Peer{ID: "a", Incarnation: 1}
	bob   = raft.Peer{ID: "b", Incarnation: 1}
	carol = raft.Peer{ID: "c", Incarnation: 1}
)

// letters returns bytes in which no two chunks are equal.
func letters(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/256)
	}
	return b
}

// offerOf returns the offer of a snapshot of these bytes.
func offerOf(from, to raft.Peer, file byte, data []byte, held bool) raft.Message {
	s := raft.Snapshot{
		Base: raft.Base{ID: raft.EntryID{Term: 2, Index: 9}, Cluster: raft.ClusterID{1}}, File: raft.SnapshotID{file},
		Size: int64(len(data)), Sum: crc32.Checksum(data, castagnoli),
	}
	if held {
		s.Size, s.Sum, s.Held = -1, 0, true
	}
	return raft.Message{From: from, To: to, Cluster: raft.ClusterID{1}, Term: 2, Body: raft.InstallSnapshot{Snapshot: s}}
}

// sendingRun drives an Outgoing as its host does: it reads and sends every chunk that Outgoing asks for.
type sendingRun struct {
	t    *testing.T
	now  raft.Time
	o    *Outgoing
	data []byte
	fed  int // bytes that WriteTo has written
}

// sent returns what the stream sends until it must wait: "0-4" is a chunk, "16-20!" is the last chunk.
func (r *sendingRun) sent() string {
	var out []string
	for range 100 {
		ask := r.o.Next(r.now)
		switch {
		case ask.End && ask.Err != nil:
			return strings.Join(append(out, "failed"), " ")
		case ask.End:
			return strings.Join(append(out, "ended"), " ")
		case !ask.Chunk:
			return strings.Join(out, " ")
		}
		var data []byte
		if r.o.kept == nil {
			data = r.data[ask.At : ask.At+int64(ask.Bytes)]
		}
		m, ok := r.o.Chunk(r.now, ask.At, data)
		require.True(r.t, ok)
		c := m.Body.(raft.SnapshotChunk)
		expect.Equal(r.t, raft.Message{From: alice, To: bob, Cluster: raft.ClusterID{1}, Body: c}, m)
		end := c.At + int64(len(c.Data))
		expect.Equal(r.t, string(r.data[c.At:end]), string(c.Data))
		mark := ""
		if c.Last {
			mark = "!"
			expect.Equal(r.t, int64(len(r.data)), c.Size)
			expect.Equal(r.t, crc32.Checksum(r.data, castagnoli), c.Sum)
		}
		out = append(out, fmt.Sprintf("%d-%d%s", c.At, end, mark))
	}
	r.t.Fatal("it sends for ever")
	return ""
}

// do performs one line of a script.
func (r *sendingRun) do(line string) {
	word, rest, _ := strings.Cut(line, " ")
	n := 0
	_, _ = fmt.Sscan(rest, &n) // not every word has a number
	p := raft.SnapshotProgress{File: raft.SnapshotID{1}, At: int64(n)}
	switch word {
	case "begin":
		p.Begin = true
	case "done":
		p.Done = true
	case "refuse":
		p.At, p.Refusal = 0, raft.StreamRefusal(n)
	case "other-file":
		p.File, p.Done = raft.SnapshotID{2}, true
	case "wait":
		r.now += raft.Time(n) * raft.Time(time.Millisecond)
		return
	case "lost":
		r.o.Lost(r.now)
		return
	case "write":
		took := min(n, r.o.Room())
		expect.Equal(r.t, took, r.o.Fill(r.data[r.fed:r.fed+n]))
		r.fed += took
		return
	case "written":
		r.o.Filled()
		return
	case "fail":
		r.o.Fail(errors.New("unreadable"))
		return
	}
	r.o.Progress(r.now, raft.Message{From: bob, To: alice, Body: p})
}

// Each line of a script is an event. After the bar follows what the sender sends. Chunks have 4 bytes, the window has 12, and
// the election timeout is 100 ms.
var sendingScripts = []struct {
	rule   string
	size   int
	held   bool
	rate   int64
	script string
}{
	{rule: "nothing leaves before the receiver says where to begin; then the window opens with each acknowledgement", size: 20, script: `
		wait 100 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		at 8     | 12-16 16-20!
		at 20    |
		done     | ended`},
	{rule: "at most one window is on its way", size: 40, script: `
		begin 0 | 0-4
		at 4    | 4-8 8-12
		at 12   | 12-16 16-20 20-24
		at 16   | 24-28`},
	{rule: "the last chunk is shorter", size: 6, script: `
		begin 0 | 0-4
		at 4    | 4-6!
		done    | ended`},
	{rule: "an empty snapshot is one empty chunk", size: 0, script: `
		begin 0 | 0-0!
		done    | ended`},
	{rule: "a receiver that has a part already gets the rest", size: 20, script: `
		begin 12 | 12-16
		at 16    | 16-20!`},
	{rule: "a receiver that has everything but the end gets the end", size: 8, script: `
		begin 8 | 8-8!
		done    | ended`},
	{rule: "a receiver that has finished already gets nothing", size: 8, script: `
		done | ended`},
	{rule: "what is not acknowledged for an election timeout is sent again, then after twice that time", size: 20, script: `
		begin 0  | 0-4
		at 4     | 4-8 8-12
		wait 99  |
		wait 1   | 4-8
		wait 199 |
		wait 1   | 4-8
		at 8     | 8-12 12-16`},
	{rule: "the last chunk is sent again until the receiver says that it is done", size: 4, script: `
		begin 0  | 0-4!
		wait 100 | 0-4!
		at 4     |
		wait 399 |
		wait 1   | 4-4!
		done     | ended`},
	{rule: "an acknowledgement of what was sent before a repetition counts", size: 40, script: `
		begin 0  | 0-4
		at 4     | 4-8 8-12
		wait 100 | 4-8
		at 12    | 12-16 16-20 20-24`},
	{rule: "an acknowledgement that says nothing new is no reason to send again", size: 40, script: `
		begin 0 | 0-4
		at 4    | 4-8 8-12
		at 4    |
		at 0    |`},
	{rule: "on a slow link a chunk gets four times as long as the last one took", size: 40, script: `
		begin 0  | 0-4
		wait 90  |
		at 4     | 4-8 8-12
		wait 359 |
		wait 1   | 4-8`},
	{rule: "after 64 election timeouts without progress it gives up, however often it sends again", size: 4, script: `
		begin 0   | 0-4!
		wait 100  | 0-4!
		wait 200  | 0-4!
		wait 400  | 0-4!
		wait 800  | 0-4!
		wait 1600 | 0-4!
		wait 3200 | 0-4!
		wait 99   |
		wait 1    | failed`},
	{rule: "after ten election timeouts without an answer to the offer it gives up", size: 4, script: `
		wait 999 |
		wait 1   | failed`},
	{rule: "a break stops it until the receiver answers the next offer", size: 40, script: `
		begin 0 | 0-4
		at 4    | 4-8 8-12
		lost    |
		at 8    |
		begin 8 | 8-12`},
	{rule: "after a break, too, it gives up without an answer", size: 40, script: `
		begin 0  | 0-4
		lost     |
		wait 999 |
		lost     |
		wait 1   | failed`},
	{rule: "a receiver that was restarted gets everything again", size: 40, script: `
		begin 0 | 0-4
		at 4    | 4-8 8-12
		begin 0 | 0-4`},
	{rule: "the answer to a repeated offer changes nothing", size: 40, script: `
		begin 0 | 0-4
		at 4    | 4-8 8-12
		begin 4 |
		begin 8 | 12-16 16-20`},
	{rule: "a refusal ends it", size: 40, script: `
		begin 0  | 0-4
		refuse 3 | failed`},
	{rule: "a refusal ends it before it has begun", size: 40, script: `
		refuse 4 | failed`},
	{rule: "an answer about other bytes is none", size: 40, script: `
		other-file |
		begin 0    | 0-4
		other-file |`},
	{rule: "an acknowledgement of more than there is counts for nothing", size: 8, script: `
		begin 9 |
		begin -1 |
		begin 0 | 0-4
		at 9    |`},
	{rule: "an error of the sender ends it", size: 8, script: `
		begin 0 | 0-4
		fail    | failed`},
	{rule: "the pace holds chunks back", size: 4096, rate: 10_240, script: `
		begin 0   | 0-4
		at 4      | 4-8
		wait 1    | 8-12`},
	{rule: "a held freeze is sent chunk by chunk as it is written; its end shows the size", size: 10, held: true, script: `
		begin 0 |
		write 3 |
		write 2 | 0-4
		at 4    |
		write 5 | 4-8
		written | 8-10!
		done    | ended`},
	{rule: "a held freeze that ends with a whole chunk has an empty last one", size: 8, held: true, script: `
		begin 0 |
		write 8 | 0-4
		at 4    | 4-8
		written | 8-8!`},
	{rule: "a held freeze is written up to one window ahead, before the stream begins, too", size: 40, held: true, script: `
		write 40 |
		begin 0  | 0-4
		at 4     | 4-8 8-12`},
	{rule: "a held freeze is resumed from what is kept", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		lost     |
		begin 8  | 8-12`},
	{rule: "a held freeze cannot be resumed before what is kept", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		lost     |
		begin 0  |
		wait 100 |
		begin 0  | failed`},
	{rule: "a doubled answer to the offer does not end a held freeze", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		begin 0  |
		begin 0  |
		at 12    |
		write 8  | 12-16 16-20`},
	{rule: "nor do several, as long as the receiver acknowledges more or repeats where it is", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		begin 0  |
		wait 60  |
		begin 4  |
		wait 60  | 4-8
		begin 0  |
		at 8     | 8-12
		wait 60  |
		begin 0  |
		at 12    |
		write 8  | 12-16 16-20`},
	{rule: "a receiver of a held freeze that says again and again that it has lost bytes has lost them", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		begin 0  |
		wait 99  |
		begin 0  |
		wait 1   | 4-8
		begin 0  | failed`},
	{rule: "a doubled answer after a break does not end a held freeze either", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		lost     |
		begin 0  |
		wait 60  |
		begin 8  | 8-12`},
	{rule: "a held freeze is given up after ten election timeouts without an acknowledgement", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		wait 999 | 0-4
		wait 1   | failed`},
	{rule: "a break gives a held freeze no more time", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		at 4     | 4-8 8-12
		wait 500 | 4-8
		lost     |
		begin 4  | 4-8
		wait 499 | 4-8
		wait 1   | failed`},
	{rule: "what is acknowledged gives a held freeze more time", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		wait 900 | 0-4
		at 4     | 4-8 8-12
		wait 999 |
		wait 1   | failed`},
	{rule: "so does what an answer to the next offer acknowledges", size: 40, held: true, script: `
		write 12 |
		begin 0  | 0-4
		wait 900 | 0-4
		lost     |
		begin 4  | 4-8
		wait 999 | 4-8
		wait 1   | failed`},
	{rule: "a receiver that has all bytes of a held freeze may take long to install it", size: 8, held: true, script: `
		write 8  |
		written  |
		begin 0  | 0-4
		at 4     | 4-8!
		at 8     |
		wait 6399 | 8-8!
		done     | ended`},
	{rule: "a held freeze whose state writes slowly does not stall", size: 40, held: true, script: `
		write 4    |
		begin 0    | 0-4
		at 4       |
		wait 60000 |
		write 8    | 4-8 8-12`},
}

func TestOutgoing_SendsWhatTheReceiverLacks(t *testing.T) {
	for _, row := range sendingScripts {
		t.Run(row.rule, func(t *testing.T) {
			limits := StreamLimits{ElectionTimeout: 100 * time.Millisecond, ChunkBytes: 4, WindowBytes: 12, BytesPerSecond: row.rate}
			r := &sendingRun{t: t, now: 1, data: letters(row.size)}
			r.o = NewOutgoing(r.now, offerOf(alice, bob, 1, r.data, row.held), limits)
			for _, line := range strings.Split(strings.TrimSpace(row.script), "\n") {
				input, want, _ := strings.Cut(line, "|")
				r.do(strings.TrimSpace(input))
				require.Equal(t, strings.TrimSpace(want), r.sent(), line)
			}
		})
	}
}

func TestOutgoing_EndsForTheReasonItWasGiven(t *testing.T) {
	data := letters(20)
	limits := StreamLimits{ElectionTimeout: time.Second, ChunkBytes: 4, WindowBytes: 8}
	answer := func(p raft.SnapshotProgress) raft.Message {
		p.File = raft.SnapshotID{1}
		return raft.Message{From: bob, To: alice, Body: p}
	}
	for _, row := range []struct {
		reason string
		held   bool
		do     func(o *Outgoing)
		want   error
	}{
		{"the receiver refuses", false, func(o *Outgoing) { o.Progress(1, answer(raft.SnapshotProgress{Refusal: raft.StreamNoSpace})) }, raft.StreamNoSpace},
		{"nobody answers", false, func(o *Outgoing) { o.Next(raft.Time(time.Hour)) }, ErrStalled},
		{"a freeze cannot go back", true, func(o *Outgoing) {
			o.Fill(data[:8])
			o.Progress(1, answer(raft.SnapshotProgress{Begin: true, At: 4}))
			o.Progress(1, answer(raft.SnapshotProgress{Begin: true, At: 0}))
			o.Progress(raft.Time(time.Second)+1, answer(raft.SnapshotProgress{Begin: true, At: 0}))
		}, ErrRewound},
		{"the file cannot be read", false, func(o *Outgoing) { o.Fail(errors.ErrUnsupported) }, errors.ErrUnsupported},
	} {
		t.Run(row.reason, func(t *testing.T) {
			o := NewOutgoing(1, offerOf(alice, bob, 1, data, row.held), limits)
			row.do(o)
			o.Progress(2, answer(raft.SnapshotProgress{Done: true}))
			o.Fail(errors.New("too late"))
			expect.Equal(t, Ask{End: true, Err: row.want}, o.Next(2), "the first reason counts")
			_, ok := o.Chunk(2, 0, data[:4])
			expect.False(t, ok)
			expect.Zero(t, o.Fill(data))
		})
	}
}

// Between Next and Chunk, the host reads the bytes of the chunk. Meanwhile, the stream may move to another chunk.
func TestOutgoing_AChunkThatWasAskedForBeforeIsNotSent(t *testing.T) {
	data := letters(20)
	o := NewOutgoing(1, offerOf(alice, bob, 1, data, false), StreamLimits{ElectionTimeout: time.Second, ChunkBytes: 4, WindowBytes: 8})
	begin := func(at int64) {
		o.Progress(1, raft.Message{From: bob, To: alice, Body: raft.SnapshotProgress{File: raft.SnapshotID{1}, Begin: true, At: at}})
	}
	begin(4)
	ask := o.Next(1)
	require.Equal(t, int64(4), ask.At)
	begin(0)
	_, ok := o.Chunk(1, ask.At, data[4:8])
	expect.False(t, ok)
	_, ok = o.Chunk(1, 0, data[:3])
	expect.False(t, ok, "too few bytes")
	_, ok = o.Chunk(1, 0, data[:4])
	expect.True(t, ok)
}

func TestOutgoing_CarriesOneNameAlone(t *testing.T) {
	o := NewOutgoing(1, offerOf(alice, bob, 1, nil, false), StreamLimits{ElectionTimeout: time.Second, ChunkBytes: 4, WindowBytes: 8})
	for _, row := range []struct {
		rule  string
		offer raft.Message
		want  bool
	}{
		{"the same offer again", offerOf(alice, bob, 1, nil, false), true},
		{"other bytes of the same entry", offerOf(alice, bob, 2, nil, false), false},
		{"another peer", offerOf(alice, carol, 1, nil, false), false},
		{"another incarnation of the peer", offerOf(alice, raft.Peer{ID: "b", Incarnation: 2}, 1, nil, false), false},
	} {
		expect.Equal(t, row.want, o.Carries(row.offer), row.rule)
	}
}

// The wait for the pace must be shorter than the time for which the sides wait for each other. So a slow pace makes chunks
// small.
func TestOutgoing_ASlowPaceMakesSmallChunks(t *testing.T) {
	data := letters(64 << 10)
	for _, row := range []struct{ bytesPerSecond, chunk int }{{0, 16 << 10}, {1 << 20, 16 << 10}, {64 << 10, 6553}, {1 << 10, 1 << 10}} {
		o := NewOutgoing(1, offerOf(alice, bob, 1, data, false), StreamLimits{
			ElectionTimeout: 100 * time.Millisecond, ChunkBytes: 16 << 10, WindowBytes: 64 << 10, BytesPerSecond: int64(row.bytesPerSecond),
		})
		o.Progress(1, raft.Message{From: bob, To: alice, Body: raft.SnapshotProgress{File: raft.SnapshotID{1}, Begin: true}})
		expect.Equal(t, row.chunk, o.Next(1).Bytes, "%d bytes per second", row.bytesPerSecond)
	}
}
