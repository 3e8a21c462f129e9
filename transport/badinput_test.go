package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listen starts member b on loopback.
func listen(t *testing.T, opts Options) (*TCP, *transporttest.Recorder) {
	t.Helper()
	return listenAs(t, "b", opts)
}

func listenAs(t *testing.T, id raft.NodeID, opts Options) (*TCP, *transporttest.Recorder) {
	t.Helper()
	leaks.Check(t)
	tcp, err := Listen("127.0.0.1:0", opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, tcp.Close()) })
	r := transporttest.NewRecorder(id)
	require.NoError(t, tcp.Start(r))
	return tcp, r
}

// rawCaller is a caller that sends arbitrary bytes.
type rawCaller struct {
	t    *testing.T
	conn net.Conn
}

func call(t *testing.T, tcp *TCP) rawCaller {
	t.Helper()
	conn, err := net.Dial("tcp", tcp.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return rawCaller{t, conn}
}

// shake finishes the handshake with a valid hello on the lane.
func (c rawCaller) shake(from raft.Peer, startCount uint64, lane raft.Lane) rawCaller {
	c.t.Helper()
	c.write(helloOf(from, startCount, lane))
	answer, err := readOpening(newFrameReader(c.conn, FrameBytesMax))
	require.NoError(c.t, err)
	require.Nil(c.t, answer.rejection)
	return c
}

func helloOf(from raft.Peer, startCount uint64, lane raft.Lane) []byte {
	h := raft.Hello{ClusterName: "test", From: from, Expected: raft.Peer{ID: "b"}, StartCount: startCount}
	return opening{versions: ours, hello: h, lane: lane}.encode()
}

func (c rawCaller) write(b []byte) {
	c.t.Helper()
	_, err := c.conn.Write(b)
	require.NoError(c.t, err)
}

// untilClosed reads until the other side closes the connection. Before it closes, the other side counts the reason.
func (c rawCaller) untilClosed() []byte {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	b, err := io.ReadAll(c.conn)
	if timeout, ok := err.(net.Error); ok {
		require.False(c.t, timeout.Timeout(), "the connection was not closed")
	}
	return b
}

// withHello returns a valid opening with meta in place of the hello.
func withHello(meta []byte) []byte {
	return appendFrame(helloOf(alice, 1, 0)[:openingBytes:openingBytes], frameHello, meta, 0)
}

func TestHandshake_WhatNoMemberSendsIsRefused(t *testing.T) {
	sound := helloOf(alice, 1, raft.LaneUrgent)
	hello := func(change func(*wireHello)) []byte {
		w := wireHello{ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b", StartCount: 1}
		change(&w)
		return withHello(encodeMeta(w))
	}
	later := bytes.Clone(sound)
	binary.LittleEndian.PutUint16(later[len(magic):], ours.max+1)
	binary.LittleEndian.PutUint16(later[len(magic)+2:], 9)
	oversized := bytes.Clone(sound[:openingBytes+frameHeaderBytes])
	binary.LittleEndian.PutUint32(oversized[openingBytes:], math.MaxUint32)
	malformed := func(s Stats) uint64 { return s.Malformed }
	rows := []struct {
		rule      string
		bytes     []byte
		count     func(Stats) uint64
		rejection raft.RejectReason // 0: closed without a rejection
	}{
		{"bytes of another protocol", []byte("GET / HTTP/1.1\r\nHost: raft\r\n\r\n"), malformed, 0},
		{"an oversized hello", oversized, func(s Stats) uint64 { return s.Oversized }, raft.RejectMalformed},
		{"no version in common", later, func(s Stats) uint64 { return s.Rejected[raft.RejectVersion] }, raft.RejectVersion},
		{"a flipped bit", append(bytes.Clone(sound[:len(sound)-1]), sound[len(sound)-1]^1), malformed, raft.RejectMalformed},
		{"a message instead of a hello", append(bytes.Clone(sound[:openingBytes]), damage(frameHeartbeat, func(*wireMessage) {})...), malformed, raft.RejectMalformed},
		{"a caller that begins with a rejection", opening{versions: ours, rejection: &raft.Rejection{Reason: 1}}.encode(), malformed, raft.RejectMalformed},
		{"a hello that is not msgpack", withHello([]byte{0xc1}), malformed, raft.RejectMalformed},
		{"a hello nested a thousand deep", withHello(bytes.Repeat([]byte{0x91}, 1000)), malformed, raft.RejectMalformed},
		{"a hello without an incarnation", hello(func(w *wireHello) { w.Incarnation = 0 }), malformed, raft.RejectMalformed},
		{"a hello without an id", hello(func(w *wireHello) { w.ID = "" }), malformed, raft.RejectMalformed},
		{"a bootstrapper with a newline", hello(func(w *wireHello) { w.BootstrapperID = "a\n" }), malformed, raft.RejectMalformed},
		{"an unknown lane", hello(func(w *wireHello) { w.Lane = uint8(len(lanes)) }), malformed, raft.RejectMalformed},
		{"a term near 2^64", hello(func(w *wireHello) { w.Term = math.MaxUint64 }), malformed, raft.RejectMalformed},
		{"a start count near 2^64", hello(func(w *wireHello) { w.StartCount = math.MaxUint64 }), malformed, raft.RejectMalformed},
		{"an endless address", hello(func(w *wireHello) { w.Address = string(make([]byte, 300)) }), malformed, raft.RejectMalformed},
		{"a negative timeout", hello(func(w *wireHello) { w.ElectionTimeout = -1 }), malformed, raft.RejectMalformed},
		{"an idle timeout of a century", hello(func(w *wireHello) { w.IdleTimeout = math.MaxInt64 }), malformed, raft.RejectMalformed},
		{"a list of garbage", hello(func(w *wireHello) { w.List = []byte{0x91, 0xc1} }), malformed, raft.RejectMalformed},
	}
	tcp, _ := listen(t, Options{})
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			before := row.count(tcp.Stats())
			c := call(t, tcp)
			c.write(row.bytes)
			answer := c.untilClosed()
			assert.Equal(t, before+1, row.count(tcp.Stats()))
			if row.rejection == 0 {
				assert.Empty(t, answer)
				return
			}
			o, err := readOpening(newFrameReader(bytes.NewReader(answer), FrameBytesMax))
			require.NoError(t, err)
			require.NotNil(t, o.rejection)
			assert.Equal(t, row.rejection, o.rejection.Reason)
			assert.Equal(t, bob, o.rejection.From)
			assert.Equal(t, ours, versions{o.rejection.VersionsMin, o.rejection.VersionsMax})
		})
	}
}

func TestHandshake_HalfOfOneEndsByTheDeadline(t *testing.T) {
	tcp, _ := listen(t, Options{HandshakeTimeout: 50 * time.Millisecond})
	sound := helloOf(alice, 1, raft.LaneUrgent)
	for i, length := range []int{0, 5, openingBytes, openingBytes + 4, len(sound) - 1} {
		c := call(t, tcp)
		c.write(sound[:length])
		assert.Empty(t, c.untilClosed())
		assert.Equal(t, uint64(i+1), tcp.Stats().HandshakeCut)
	}
}

func TestHandshake_HalfOfOneMayEndTheConnection(t *testing.T) {
	tcp, _ := listen(t, Options{})
	c := call(t, tcp)
	c.write(helloOf(alice, 1, raft.LaneUrgent)[:openingBytes+9])
	require.NoError(t, c.conn.(*net.TCPConn).CloseWrite())
	c.untilClosed()
	assert.Equal(t, uint64(1), tcp.Stats().Malformed)
}

// The caller meets an acceptor that misbehaves.
func TestHandshake_AcceptorThatMisbehaves(t *testing.T) {
	answer := func(h raft.Hello) []byte { return opening{versions: ours, hello: h}.encode() }
	later := answer(raft.Hello{ClusterName: "test", From: bob, Expected: alice})
	binary.LittleEndian.PutUint16(later[len(magic):], ours.max+1)
	binary.LittleEndian.PutUint16(later[len(magic)+2:], 9)
	rows := []struct {
		rule   string
		answer []byte // nil: accepts, and sends nothing
		check  func(t *testing.T, err error)
	}{
		{"speaks another protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrMalformed)
		}},
		{"speaks later versions only", later, func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrVersion)
		}},
		{"is another member", answer(raft.Hello{ClusterName: "test", From: raft.Peer{ID: "c", Incarnation: 1}, Expected: alice}), func(t *testing.T, err error) {
			var wrong *WrongMemberError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, &WrongMemberError{Dialed: raft.Peer{ID: "b"}, Answered: raft.Peer{ID: "c", Incarnation: 1}}, wrong)
		}},
		{"says nothing", nil, func(t *testing.T, err error) {
			var timeout net.Error
			require.ErrorAs(t, err, &timeout)
			assert.True(t, timeout.Timeout())
		}},
	}
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			l := acceptor(t, row.answer)
			opts := Options{}
			if row.answer == nil {
				opts.HandshakeTimeout = 50 * time.Millisecond
			}
			tcp, r := listenAs(t, "a", opts)
			tcp.Connect([]raft.Contact{{Member: raft.Member{ID: "b"}, Addresses: []string{l.Addr().String()}}})
			r.AwaitLost(t, "b", false)
			row.check(t, tcp.Peer(bob).Err)
			r.AwaitLost(t, "b", false) // it continues to dial
		})
	}
}

// acceptor answers every connection with these bytes once the caller has begun to send.
func acceptor(t *testing.T, answer []byte) net.Listener {
	t.Helper()
	leaks.Check(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = conn.Write(answer)
			}()
		}
	}()
	return l
}

func TestStream_WhatNoMemberSendsEndsTheConnection(t *testing.T) {
	forged := func(from raft.Peer) []byte {
		frame, err := EncodeMessage(raft.Message{From: from, To: bob, Body: raft.TimeoutNow{}})
		require.NoError(t, err)
		return frame
	}
	oversized := damage(frameHeartbeat, func(*wireMessage) {})
	binary.LittleEndian.PutUint32(oversized, 100<<20)
	bigAppend := damage(frameAppendRequest, func(*wireMessage) {})
	binary.LittleEndian.PutUint32(bigAppend, 2<<20)
	rows := []struct {
		rule  string
		bytes []byte
		count func(Stats) uint64
	}{
		{"garbage", bytes.Repeat([]byte("garbage!"), 10), func(s Stats) uint64 { return s.Malformed }},
		{"an oversized heartbeat", oversized, func(s Stats) uint64 { return s.Oversized }},
		{"an append over Options.FrameBytesMax", bigAppend, func(s Stats) uint64 { return s.Oversized }},
		{"a term near 2^64", damage(frameVoteRequest, func(w *wireMessage) { w.Term = math.MaxUint64 }), func(s Stats) uint64 { return s.Malformed }},
		{"a message of another member", forged(raft.Peer{ID: "c", Incarnation: 1}), func(s Stats) uint64 { return s.WrongSender }},
		{"a message of another incarnation", forged(raft.Peer{ID: "a", Incarnation: 2}), func(s Stats) uint64 { return s.WrongSender }},
	}
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			tcp, r := listen(t, Options{FrameBytesMax: 1 << 20})
			c := call(t, tcp).shake(alice, 1, raft.LaneUrgent)
			c.write(row.bytes)
			c.untilClosed()
			assert.Equal(t, uint64(1), row.count(tcp.Stats()))
			assert.Zero(t, countReceived(r))
		})
	}
}

func TestStream_SilenceEndsTheConnection(t *testing.T) {
	message, err := EncodeMessage(raft.Message{From: alice, To: bob, Body: raft.TimeoutNow{}})
	require.NoError(t, err)
	for rule, begun := range map[string][]byte{
		"between two frames": message,
		"within a heartbeat": message[:20],
		"within a header":    message[:3],
		"within an append":   damage(frameAppendRequest, func(*wireMessage) {}, entry(1, 1))[:60],
		"behind a handshake": nil,
	} {
		t.Run(rule, func(t *testing.T) {
			const idle = 50 * time.Millisecond // the longer one of both sides counts
			tcp, _ := listen(t, Options{IdleTimeout: idle})
			c := call(t, tcp)
			hello := raft.Hello{ClusterName: "test", From: alice, Expected: raft.Peer{ID: "b"}, StartCount: 1, IdleTimeout: idle}
			c.write(opening{versions: ours, hello: hello, lane: raft.LaneUrgent}.encode())
			_, err := readOpening(newFrameReader(c.conn, FrameBytesMax))
			require.NoError(t, err)
			_, _ = c.conn.Write(begun) // fails if the connection is closed already
			c.untilClosed()
			assert.Equal(t, uint64(1), tcp.Stats().Silent)
		})
	}
}

func countReceived(r *transporttest.Recorder) int {
	count := 0
	r.Discard(func(e transporttest.Event) bool {
		if e.Kind == transporttest.EventReceived {
			count++
		}
		return true
	})
	return count
}

// A message is read as one message even if it arrives in pieces.
func TestStream_FrameMayArriveByteByByte(t *testing.T) {
	tcp, r := listen(t, Options{})
	c := call(t, tcp).shake(alice, 1, raft.LaneBulk)
	m := raft.Message{From: alice, To: bob, Term: 7, Body: transporttest.Append(raft.EntryID{Term: 7}, []int{200}, 0)}
	frame, err := EncodeMessage(m)
	require.NoError(t, err)
	for i := range frame {
		c.write(frame[i : i+1])
	}
	assert.Equal(t, m, r.AwaitMessages(t, 1)[0])
}

// A frame may claim to be very long. It costs only the memory for the bytes that arrive.
func TestStream_DeclaredLengthIsNotAllocated(t *testing.T) {
	for kind, declared := range map[frameType]uint32{frameAppendRequest: 64 << 20, frameInstallSnapshot: 600 << 10, frameSnapshotChunk: 1 << 20, frameForward: 64 << 20} {
		head := damage(kind, func(*wireMessage) {})
		binary.LittleEndian.PutUint32(head, declared)
		if kind == frameInstallSnapshot { // it has no tail
			binary.LittleEndian.PutUint32(head[9:], declared-frameSumBytes)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := newFrameReader(bytes.NewReader(head), FrameBytesMax).next()
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
	}
}

func TestAccept_FloodDoesNotKeepMembersOut(t *testing.T) {
	tcp, r := listen(t, Options{HandshakesMax: 4})
	for range 50 {
		call(t, tcp)
	}
	a, recorder := listenAs(t, "a", Options{})
	a.Connect([]raft.Contact{{Member: raft.Member{ID: "b"}, Addresses: []string{tcp.Addr().String()}}})
	recorder.AwaitUp(t, "b")
	m := raft.Message{From: alice, To: bob, Body: raft.TimeoutNow{}}
	require.NoError(t, a.Send(bob, raft.LaneUrgent, []raft.Message{m}))
	assert.Equal(t, m, r.AwaitMessages(t, 1)[0])
	stats := tcp.Stats()
	assert.LessOrEqual(t, stats.Handshakes, 4)
	assert.GreaterOrEqual(t, stats.Crowded, uint64(46))
}

func TestStats_EveryReasonHasItsCount(t *testing.T) {
	var c counters
	for reason := range raft.RejectReason(raft.RejectReasons) {
		c.reject(reason)
		assert.Equal(t, uint64(1), c.stats().Rejected[reason], reason)
	}
	c.reject(raft.RejectReasons)
	assert.Equal(t, uint64(2), c.stats().Rejected[0], "of a later release")
}

func TestAccept_InboundConnectionsHaveALimit(t *testing.T) {
	tcp, _ := listen(t, Options{InboundMax: 2})
	call(t, tcp).shake(alice, 1, raft.LaneUrgent)
	call(t, tcp).shake(alice, 1, raft.LaneBulk)
	c := call(t, tcp)
	c.write(helloOf(raft.Peer{ID: "c", Incarnation: 1}, 1, raft.LaneUrgent))
	assert.Empty(t, c.untilClosed())
	assert.Equal(t, uint64(1), tcp.Stats().Crowded)
	assert.Equal(t, 2, tcp.Stats().Inbound)
}

func TestAccept_NewerConnectionReplacesTheOlder(t *testing.T) {
	tcp, _ := listen(t, Options{})
	first := call(t, tcp).shake(alice, 5, raft.LaneUrgent)
	second := call(t, tcp).shake(alice, 5, raft.LaneUrgent)
	first.untilClosed()
	assert.Equal(t, uint64(1), tcp.Stats().Replaced)

	stale := call(t, tcp)
	stale.write(helloOf(alice, 4, raft.LaneUrgent))
	o, err := readOpening(newFrameReader(stale.conn, FrameBytesMax))
	require.NoError(t, err)
	require.NotNil(t, o.rejection, "an earlier start of the same disk")
	assert.Equal(t, raft.RejectStaleStart, o.rejection.Reason)

	call(t, tcp).shake(raft.Peer{ID: "a", Incarnation: 2}, 1, raft.LaneUrgent)
	assert.Equal(t, 2, tcp.Stats().Inbound, "the two incarnations may both be alive")
	call(t, tcp).shake(alice, 5, raft.LaneUrgent)
	second.untilClosed()
}

// A caller may fail to learn of the end of a dead connection. It then learns of it because its other connection ends.
func TestAccept_TheTwoConnectionsOfACallerEndTogether(t *testing.T) {
	for _, broken := range []int{0, 1} {
		tcp, _ := listen(t, Options{IdleTimeout: time.Hour})
		lanes := [2]rawCaller{
			call(t, tcp).shake(alice, 1, raft.LaneUrgent), call(t, tcp).shake(alice, 1, raft.LaneBulk),
		}
		lanes[broken].write(bytes.Repeat([]byte("garbage!"), 10))
		lanes[1-broken].untilClosed()
	}
}

func TestAccept_TheEndOfAnEarlierConnectionDoesNotEndALaterOne(t *testing.T) {
	tcp, r := listen(t, Options{IdleTimeout: time.Hour})
	call(t, tcp).shake(alice, 1, raft.LaneUrgent)
	bulk := call(t, tcp).shake(alice, 1, raft.LaneBulk)
	urgent := call(t, tcp).shake(alice, 1, raft.LaneUrgent)
	bulk.write(bytes.Repeat([]byte("garbage!"), 10))
	bulk.untilClosed()
	m := raft.Message{From: alice, To: bob, Body: raft.TimeoutNow{}}
	frame, err := EncodeMessage(m)
	require.NoError(t, err)
	urgent.write(frame)
	assert.Equal(t, m, r.AwaitMessages(t, 1)[0])
}
