package pipeline

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// receivingRun drives the Incoming of bob as its host does.
type receivingRun struct {
	t      *testing.T
	now    raft.Time
	in     *Incoming
	data   []byte
	held   bool
	room   int64
	faults map[string]raft.StreamRefusal // of the next open, write or finish
	spool  []byte
}

// do performs one line of a script. "offer a1" means that a offers the file 1. "chunk a1 0-4" is a chunk of this file, and
// "chunk a1 16-20!" is its last chunk.
func (r *receivingRun) do(line string) string {
	words := strings.Fields(line)
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	n := int64(0)
	_, _ = fmt.Sscan(arg(len(words)-1), &n) // not every line ends with a number
	switch words[0] {
	case "offer":
		from, file := named(arg(1))
		s := offerOf(from, bob, file, r.data, r.held).Body.(raft.InstallSnapshot).Snapshot
		return r.perform(r.in.Receive(r.now, raft.Receive{From: from, Snapshot: s}, r.room))
	case "chunk", "corrupt", "misdelivered":
		return r.perform(r.in.Chunk(r.now, r.chunk(words)))
	case "fault":
		r.faults[words[1]] = raft.StreamRefusal(n)
	case "room":
		r.room = n
	case "discarded":
		r.in.Discarded(raft.SnapshotID{byte(n)})
	case "wait":
		r.now += raft.Time(n) * raft.Time(time.Millisecond)
		return r.perform(r.in.Expire(r.now))
	default:
		r.t.Fatal(line)
	}
	return ""
}

func named(name string) (raft.Peer, byte) {
	return map[byte]raft.Peer{'a': alice, 'c': carol}[name[0]], name[1] - '0'
}

func (r *receivingRun) chunk(words []string) raft.Message {
	from, file := named(words[1])
	var at, end int64
	_, err := fmt.Sscanf(words[2], "%d-%d", &at, &end)
	require.NoError(r.t, err)
	c := raft.SnapshotChunk{File: raft.SnapshotID{file}, At: at, Data: append([]byte(nil), letters(1000)[at:end]...)}
	if strings.HasSuffix(words[2], "!") {
		c.Last, c.Size, c.Sum = true, int64(len(r.data)), crc32.Checksum(r.data, castagnoli)
	}
	m := raft.Message{From: from, To: bob, Cluster: raft.ClusterID{1}, Body: c}
	switch words[0] {
	case "corrupt":
		c.Data[0]++
	case "misdelivered":
		m.To.Incarnation++
	}
	return m
}

// perform does the work, and returns a description of it in words.
func (r *receivingRun) perform(w Work) string {
	var out []string
	if w.Abort {
		out, r.spool = append(out, "abort"), nil
	}
	for _, m := range w.Send {
		out = append(out, r.said(m))
	}
	switch {
	case w.Open != nil:
		out = append(out, "open", r.perform(r.in.Opened(r.faults["open"])))
	case w.Write != nil:
		r.spool = append(r.spool, w.Write...)
		out = append(out, fmt.Sprintf("write %d", len(w.Write)), r.perform(r.in.Written(r.room, r.faults["write"])))
	case w.Finish != nil:
		expect.Equal(r.t, int64(len(r.data)), w.Finish.Size)
		expect.Equal(r.t, crc32.Checksum(r.data, castagnoli), w.Finish.Sum)
		out = append(out, "finish", r.perform(r.in.Finished(r.faults["finish"])))
	case w.Arrived != nil:
		expect.Equal(r.t, string(r.data), string(r.spool))
		expect.False(r.t, w.Arrived.Snapshot.Held)
		out = append(out, "arrived")
	}
	return strings.Join(out, " ")
}

func (r *receivingRun) said(m raft.Message) string {
	p := m.Body.(raft.SnapshotProgress)
	expect.Equal(r.t, raft.Message{From: bob, To: m.To, Cluster: raft.ClusterID{1}, Body: p}, m)
	name := fmt.Sprintf("%s%d", m.To.ID, p.File[0])
	switch {
	case p.Refusal != 0:
		return fmt.Sprintf("%s:refuse-%d", name, p.Refusal)
	case p.Done:
		return name + ":done"
	case p.Begin:
		return fmt.Sprintf("%s:begin-%d", name, p.At)
	}
	return fmt.Sprintf("%s:at-%d", name, p.At)
}

// Each line of a script is an event. After the bar follows what the receiver does: its answers, with the receiver of the
// answer and the file, and its work. The window has 12 bytes, and the election timeout is 100 ms. The largest snapshot has
// 100 bytes, and the disk has room for 50.
var receivingScripts = []struct {
	rule   string
	size   int
	held   bool
	script string
}{
	{rule: "a stream arrives when its last byte is written, its size and checksum are right, and it is synced", size: 10, script: `
		offer a1       | open a1:begin-0
		chunk a1 0-4   | write 4 a1:at-4
		chunk a1 4-8   | write 4 a1:at-8
		chunk a1 8-10! | write 2 a1:at-10 finish a1:done arrived`},
	{rule: "an empty one, too", size: 0, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-0! | a1:at-0 finish a1:done arrived`},
	{rule: "a held freeze says at its end how large it was", size: 10, held: true, script: `
		offer a1        | open a1:begin-0
		chunk a1 0-4    | write 4 a1:at-4
		chunk a1 4-10   | write 6 a1:at-10
		chunk a1 10-10! | a1:at-10 finish a1:done arrived`},
	{rule: "a chunk that came already is answered, and not written", size: 10, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-4 | write 4 a1:at-4
		chunk a1 0-4 | a1:at-4
		chunk a1 2-6 | a1:at-4`},
	{rule: "a chunk behind a gap is not written, and answered once per window", size: 40, script: `
		offer a1       | open a1:begin-0
		chunk a1 4-8   | a1:at-0
		chunk a1 8-12  |
		chunk a1 12-16 |
		chunk a1 16-20 | a1:at-0
		chunk a1 0-4   | write 4 a1:at-4
		chunk a1 8-12  | a1:at-4`},
	{rule: "an empty chunk before the end says nothing", size: 10, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-0 | a1:at-0`},
	{rule: "a stream of the same name is resumed", size: 10, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-4 | write 4 a1:at-4
		offer a1     | a1:begin-4
		chunk a1 4-8 | write 4 a1:at-8`},
	{rule: "another file of the same entry and sender is another stream", size: 10, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-4 | write 4 a1:at-4
		offer a2     | abort a1:refuse-2 open a2:begin-0
		chunk a1 4-8 | a1:refuse-1
		chunk a2 4-8 | a2:at-0`},
	{rule: "the same file from another sender is another stream", size: 10, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-4 | write 4 a1:at-4
		chunk c1 4-8 | c1:refuse-1
		offer c1     | abort a1:refuse-2 open c1:begin-0
		chunk a1 4-8 | a1:refuse-1
		chunk c1 0-4 | write 4 c1:at-4`},
	{rule: "chunks of a stream that nobody offered are refused", size: 10, script: `
		chunk a1 0-4 | a1:refuse-1`},
	{rule: "a chunk for another incarnation of this member is dropped", size: 10, script: `
		offer a1            | open a1:begin-0
		misdelivered a1 0-4 |`},
	{rule: "what has arrived is said again", size: 4, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-4! | write 4 a1:at-4 finish a1:done arrived
		chunk a1 0-4! | a1:done
		chunk a1 4-4! | a1:done
		offer a1      | a1:done`},
	{rule: "what has arrived and was discarded is taken in again", size: 4, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-4! | write 4 a1:at-4 finish a1:done arrived
		discarded 2   |
		offer a1      | a1:done
		discarded 1   |
		offer a1      | open a1:begin-0`},
	{rule: "what was discarded is taken in again although another stream has begun since", size: 4, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-4! | write 4 a1:at-4 finish a1:done arrived
		offer c2      | open c2:begin-0
		discarded 1   |
		chunk a1 0-4! | a1:refuse-1
		offer a1      | abort c2:refuse-2 open a1:begin-0`},
	{rule: "a checksum that is not the announced one is damage", size: 8, script: `
		offer a1         | open a1:begin-0
		corrupt a1 0-4   | write 4 a1:at-4
		chunk a1 4-8!    | write 4 abort a1:refuse-6
		chunk a1 4-8!    | a1:refuse-1`},
	{rule: "of a held freeze, too", size: 8, held: true, script: `
		offer a1         | open a1:begin-0
		corrupt a1 0-4   | write 4 a1:at-4
		chunk a1 4-8!    | write 4 abort a1:refuse-6`},
	{rule: "bytes beyond the announced size are damage", size: 8, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-9 | abort a1:refuse-6`},
	{rule: "an end before the announced size is damage", size: 8, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-7! | abort a1:refuse-6`},
	{rule: "an end that is not where it says is damage", size: 8, held: true, script: `
		offer a1      | open a1:begin-0
		chunk a1 0-7! | abort a1:refuse-6`},
	{rule: "an announced size above the limit is refused", size: 101, script: `
		offer a1 | a1:refuse-4`},
	{rule: "an unknown size is refused when it passes the limit", size: 101, held: true, script: `
		room 1000       | 
		offer a1        | open a1:begin-0
		chunk a1 0-100  | write 100 a1:at-100
		chunk a1 100-101! | abort a1:refuse-4`},
	{rule: "a disk without room is refused before the first byte", size: 51, script: `
		offer a1 | a1:refuse-3
		room 51  |
		offer a1 | open a1:begin-0`},
	{rule: "an unknown size needs room for the reserve", size: 51, held: true, script: `
		room -1  |
		offer a1 | a1:refuse-3
		room 0   |
		offer a1 | open a1:begin-0`},
	{rule: "a stream that would take the reserve ends", size: 51, held: true, script: `
		offer a1     | open a1:begin-0
		chunk a1 0-4 | write 4 a1:at-4
		room -1      |
		chunk a1 4-8 | write 4 abort a1:refuse-3`},
	{rule: "a spool that cannot be created is refused", size: 8, script: `
		fault open 8 |
		offer a1     | open a1:refuse-8
		chunk a1 0-4 | a1:refuse-1`},
	{rule: "a failed write ends the stream", size: 8, script: `
		offer a1      | open a1:begin-0
		fault write 3 |
		chunk a1 0-4  | write 4 abort a1:refuse-3`},
	{rule: "a failed sync ends the stream, and nothing has arrived", size: 4, script: `
		offer a1       | open a1:begin-0
		fault finish 8 |
		chunk a1 0-4!  | write 4 a1:at-4 finish abort a1:refuse-8
		chunk a1 0-4!  | a1:refuse-1`},
	{rule: "a refused offer ends the stream before it, because the core wants this one", size: 8, script: `
		offer a1 | open a1:begin-0
		room 1   |
		offer a2 | abort a1:refuse-2 a2:refuse-3`},
	{rule: "after 64 election timeouts without a chunk or an offer, what is here is dropped", size: 10, script: `
		offer a1     | open a1:begin-0
		wait 6399    |
		chunk a1 0-4 | write 4 a1:at-4
		wait 6399    |
		offer a1     | a1:begin-4
		wait 6399    |
		wait 1       | abort
		wait 6400    |
		chunk a1 4-8 | a1:refuse-1`},
}

func TestIncoming_TakesOneStreamInOrder(t *testing.T) {
	for _, row := range receivingScripts {
		t.Run(row.rule, func(t *testing.T) {
			limits := StreamLimits{ElectionTimeout: 100 * time.Millisecond, WindowBytes: 12, BytesMax: 100}
			r := &receivingRun{
				t: t, now: 1, in: NewIncoming(bob, limits), data: letters(row.size), held: row.held, room: 50,
				faults: map[string]raft.StreamRefusal{},
			}
			for _, line := range strings.Split(strings.TrimSpace(row.script), "\n") {
				input, want, _ := strings.Cut(line, "|")
				require.Equal(t, strings.TrimSpace(want), r.do(strings.TrimSpace(input)), line)
			}
		})
	}
}

// While the host works, Incoming drops messages. This does no harm, because the sender sends them again.
func TestIncoming_IgnoresEverythingWhileItsHostWorks(t *testing.T) {
	data := letters(8)
	offer := raft.Receive{From: alice, Snapshot: offerOf(alice, bob, 1, data, false).Body.(raft.InstallSnapshot).Snapshot}
	other := raft.Receive{From: carol, Snapshot: offerOf(carol, bob, 2, data, false).Body.(raft.InstallSnapshot).Snapshot}
	chunk := func(at, end int64) raft.Message {
		c := raft.SnapshotChunk{File: raft.SnapshotID{1}, At: at, Data: data[at:end]}
		if end == 8 {
			c.Last, c.Size = true, 8
		}
		return raft.Message{From: alice, To: bob, Body: c}
	}
	limits := StreamLimits{ElectionTimeout: time.Second, WindowBytes: 8, BytesMax: 8}
	in := NewIncoming(bob, limits)
	idle := func() {
		t.Helper()
		expect.Equal(t, Work{}, in.Receive(1, offer, 8))
		expect.Equal(t, Work{}, in.Receive(1, other, 8))
		expect.Equal(t, Work{}, in.Chunk(1, chunk(0, 4)))
		expect.Equal(t, Work{}, in.Expire(raft.Time(time.Hour)))
	}
	require.NotNil(t, in.Receive(1, offer, 8).Open)
	idle()
	in.Opened(0)
	require.NotNil(t, in.Chunk(1, chunk(0, 4)).Write)
	idle()
	in.Written(8, 0)
	require.NotNil(t, in.Chunk(1, chunk(4, 8)).Write)
	require.NotNil(t, in.Written(8, 0).Finish)
	idle()
	r, bytes, ok := in.Receiving()
	expect.True(t, ok)
	expect.Equal(t, alice, r.From)
	expect.Equal(t, int64(8), bytes)
	require.NotNil(t, in.Finished(0).Arrived)
	_, _, ok = in.Receiving()
	expect.False(t, ok)
}

func TestRefuseSnapshot_AnswersTheOffer(t *testing.T) {
	offer := offerOf(alice, bob, 1, nil, false)
	answer := RefuseSnapshot(offer, raft.StreamUnsupported)
	o := NewOutgoing(1, offer, StreamLimits{ElectionTimeout: time.Second, ChunkBytes: 4, WindowBytes: 8})
	o.Progress(1, answer)
	expect.Equal(t, Ask{End: true, Err: raft.StreamUnsupported}, o.Next(1))
}
