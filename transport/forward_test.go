package transport

import (
	"bytes"
	"math"
	"net"
	"sync/atomic"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The bytes of callers' requests and their answers are the wire format. They must not change, because other versions rely on
// them.
func TestForward_FormatDoesNotChange(t *testing.T) {
	for _, row := range []struct {
		body               raft.Body
		header, meta, tail string
	}{
		{
			raft.Forward{StartCount: 3, Counter: 4, ToStart: 5, Left: 6, Kind: raft.ForwardTransfer, Data: []byte("data")},
			"\x34\x00\x00\x00" + "\x00\x00\x00\x00" + "\x24" + "\x28\x00\x00\x00",
			"\x8a\xa1T\x07\xa1b\x03\xa1f\xc4\x01a\xa2fi\x01\xa2fk\x03\xa2lf\x06\xa1n\x04\xa1t\xc4\x01b\xa2ti\x01\xa2ts\x05",
			"data\xd1\x7d\xd8\xae",
		},
		{
			raft.ForwardReply{
				StartCount: 3, Counter: 4, Outcome: raft.ForwardRefused, Index: 5, EntryTerm: 6, Error: []byte("error"),
				Leader: raft.Peer{ID: "c", Incarnation: 8},
			},
			"\x42\x00\x00\x00" + "\x00\x00\x00\x00" + "\x25" + "\x3a\x00\x00\x00",
			"\x8d\xa1T\x07\xa1b\x03\xa2er\xc4\x05error\xa1f\xc4\x01a\xa2fi\x01\xa1l\xc4\x01c\xa2la\x08\xa2li\x05\xa2lt\x06" +
				"\xa1n\x04\xa1t\xc4\x01b\xa2ti\x01\xa1v\x03",
			"\x00\x00\x00\x00",
		},
	} {
		frame, err := EncodeMessage(raft.Message{From: alice, To: bob, Term: 7, Body: row.body})
		require.NoError(t, err)
		metaEnd := min(frameHeaderBytes+len(row.meta), len(frame))
		assert.Equal(t, row.header, string(frame[:frameHeaderBytes]), "%T", row.body)
		assert.Equal(t, row.meta, string(frame[frameHeaderBytes:metaEnd]), "%T", row.body)
		assert.Equal(t, row.tail, string(frame[min(metaEnd+frameSumBytes, len(frame)):]), "%T", row.body)
	}
}

// The frames share a buffer as long as they fit into it. What was decoded from one stays as it is while later ones arrive.
func TestForward_LaterFramesLeaveTheDataAlone(t *testing.T) {
	var stream []byte
	var want, got []raft.Body
	for i := range uint64(3 * receiveMax) {
		data := bytes.Repeat([]byte{byte(i)}, 500)
		if i%receiveMax == 0 {
			data = bytes.Repeat(data, 100) // more than the buffer holds
		}
		for _, body := range []raft.Body{
			raft.Forward{StartCount: 1, Counter: i + 1, ToStart: 1, Kind: raft.ForwardPropose, Data: data},
			raft.ForwardReply{StartCount: 1, Counter: i + 1, Outcome: raft.ForwardApplied, Data: data},
		} {
			frame, err := EncodeMessage(raft.Message{From: alice, To: bob, Term: 7, Body: body})
			require.NoError(t, err)
			stream, want = append(stream, frame...), append(want, body)
		}
	}
	f, d := newFrameReader(bytes.NewReader(stream), FrameBytesMax), newDecoder()
	for range want {
		h, frame, err := f.next()
		require.NoError(t, err)
		m, err := d.message(h, frame)
		require.NoError(t, err)
		got = append(got, m.Body)
	}
	assert.Equal(t, want, got)
}

// forwardFrame returns the frame of a request or an answer with this data and sum. change may change its meta.
func forwardFrame(kind frameType, change func(*wireMessage), data, sum []byte) []byte {
	w := wireMessage{From: []byte("a"), FromIncarnation: 1, To: []byte("b"), ToIncarnation: 1, Term: 7}
	change(&w)
	return append(append(appendFrame(nil, kind, encodeMeta(w), len(data)+len(sum)), data...), sum...)
}

func TestForward_WhatNoMemberSendsIsRefused(t *testing.T) {
	data := []byte("data")
	sum := tail{data: data}.appendSum(nil)
	nothing := func(*wireMessage) {}
	tooLong := bytes.Repeat([]byte("e"), raft.ForwardErrorBytesMax+1)
	for _, kind := range []frameType{frameForward, frameForwardReply} {
		_, err := DecodeMessage(forwardFrame(kind, nothing, data, sum))
		require.NoError(t, err)
		for _, row := range []struct {
			rule  string
			frame []byte
			want  error
		}{
			{"a flipped bit", forwardFrame(kind, nothing, []byte("dat`"), sum), ErrMalformed},
			{"no checksum", forwardFrame(kind, nothing, nil, nil), ErrMalformed},
			{"half a checksum", forwardFrame(kind, nothing, nil, sum[:2]), ErrMalformed},
			{"a start near 2^64", forwardFrame(kind, func(w *wireMessage) { w.StartCount = math.MaxUint64 }, data, sum), ErrMalformed},
			{"a counter near 2^64", forwardFrame(kind, func(w *wireMessage) { w.Counter = math.MaxUint64 }, data, sum), ErrMalformed},
			{"a receiver's start near 2^64", forwardFrame(kind, func(w *wireMessage) { w.ToStart = math.MaxUint64 }, data, sum), ErrMalformed},
			{"a deadline that is negative", forwardFrame(kind, func(w *wireMessage) { w.Left = math.MaxUint64 }, data, sum), ErrMalformed},
			{"an index near 2^64", forwardFrame(kind, func(w *wireMessage) { w.LastIndex = math.MaxUint64 }, data, sum), ErrMalformed},
			{"meta over its limit", forwardFrame(kind, func(w *wireMessage) { w.Error = make([]byte, 2*raft.ForwardErrorBytesMax) }, data, sum), ErrOversized},
			{"data over the limit", forwardFrame(kind, nothing, make([]byte, FrameBytesMax+raft.ForwardErrorBytesMax), sum), ErrOversized},
		} {
			_, err := DecodeMessage(row.frame)
			assert.ErrorIs(t, err, row.want, "type %d: %s", kind, row.rule)
		}
	}
	for rule, change := range map[string]func(*wireMessage){
		"an error over the limit":   func(w *wireMessage) { w.Error = tooLong },
		"a leader with a space":     func(w *wireMessage) { w.Leader = []byte("a b") },
		"a leader with a long name": func(w *wireMessage) { w.Leader = make([]byte, raft.NodeIDBytesMax+1) },
	} {
		_, err := DecodeMessage(forwardFrame(frameForwardReply, change, data, sum))
		assert.ErrorIs(t, err, ErrMalformed, rule)
	}
}

// A later release may have other kinds and outcomes. The node answers them, so the connection stays open.
func TestForward_KindsAndOutcomesOfALaterReleaseArePassedOn(t *testing.T) {
	sum := tail{}.appendSum(nil)
	m, err := DecodeMessage(forwardFrame(frameForward, func(w *wireMessage) { w.Kind = 99 }, nil, sum))
	require.NoError(t, err)
	assert.Equal(t, raft.Forward{Kind: 99}, m.Body)
	m, err = DecodeMessage(forwardFrame(frameForwardReply, func(w *wireMessage) { w.Verdict = 99 }, nil, sum))
	require.NoError(t, err)
	assert.Equal(t, raft.ForwardReply{Outcome: 99}, m.Body)
}

func TestForward_TheLargestFitsAndALargerOneIsRefused(t *testing.T) {
	least := limits{frameBytesLeast, ours.max}
	most := (&TCP{options: Options{FrameBytesMax: frameBytesLeast}}).ForwardBytesMax()
	longest := raft.Peer{ID: raft.NodeID(bytes.Repeat([]byte("i"), raft.NodeIDBytesMax)), Incarnation: math.MaxUint64}
	request := transporttest.Request(numberMax, most)
	request.StartCount, request.ToStart, request.Left = numberMax, numberMax, numberMax
	reply := raft.ForwardReply{
		StartCount: numberMax, Counter: numberMax, Outcome: 255, Index: numberMax, EntryTerm: numberMax,
		Data: request.Data, Error: make([]byte, raft.ForwardErrorBytesMax), Leader: longest,
	}
	m := raft.Message{From: longest, To: longest, Cluster: raft.ClusterID{1}, Term: numberMax, Body: request}
	_, _, err := new(encoder).message(nil, m, least)
	require.NoError(t, err)
	m.Body = reply
	frame, rest, err := new(encoder).message(nil, m, least)
	require.NoError(t, err)
	_, err = parseHeader(frame, frameBytesLeast)
	require.NoError(t, err, "%d bytes follow", rest.bytes())

	reply.Data = make([]byte, frameBytesLeast)
	for _, body := range []raft.Body{
		transporttest.Request(1, frameBytesLeast), reply, raft.ForwardReply{Error: make([]byte, raft.ForwardErrorBytesMax+1)},
	} {
		m.Body = body
		_, _, err = new(encoder).message(nil, m, least)
		assert.ErrorIs(t, err, ErrOversized, "%T", body)
	}
	m.Body = raft.Forward{Left: -1}
	_, err = EncodeMessage(m)
	assert.ErrorContains(t, err, "deadline passed")
}

// A member of an earlier release closes the connection if it receives a frame that it does not know. So it must not get such
// frames.
func TestSides_AnEarlierReleaseGetsNone(t *testing.T) {
	chunk, progress := transporttest.Chunk(0, 100), raft.SnapshotProgress{}
	request, answer := transporttest.Request(1, 100), raft.ForwardReply{}
	for _, row := range []struct {
		speaks        uint16
		lane          raft.Lane
		onLane, other raft.Body
	}{
		{raft.ProtocolSnapshots - 1, raft.LaneSnapshot, chunk, progress},
		{raft.ProtocolSnapshots - 1, raft.LaneForward, request, answer},
		{raft.ProtocolForwarding - 1, raft.LaneForward, request, answer},
		{raft.ProtocolForwarding - 1, raft.LaneForward, answer, request},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = listener.Close() }()
		var accepted atomic.Int32
		received := make(chan raft.Message, 10)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				go serveVersion(row.speaks, conn, received)
			}
		}()
		a, r := listenAs(t, "a", Options{})
		a.Connect([]raft.Contact{{Member: raft.Member{ID: "b"}, Addresses: []string{listener.Addr().String()}}})
		assert.Equal(t, row.speaks, r.AwaitUp(t, "b").Hello.Protocol)
		onLane := raft.Message{From: alice, To: bob, Body: row.onLane}
		other := raft.Message{From: alice, To: bob, Body: row.other}
		require.ErrorIs(t, a.Send(bob, row.lane, []raft.Message{onLane}), ErrVersion)
		require.ErrorIs(t, a.Send(bob, raft.LaneBulk, []raft.Message{onLane}), ErrVersion)
		reply := raft.Message{From: alice, To: bob, Body: raft.AppendReply{Match: 3}}
		require.ErrorIs(t, a.Send(bob, raft.LaneBulk, []raft.Message{other, reply}), ErrVersion)
		assert.Equal(t, reply, <-received, "the other messages were sent on the same connection")
		assert.Equal(t, int32(2), accepted.Load(), "no third connection was dialed")
		assert.True(t, a.Peer(bob).Connected)
	}
}

// serveVersion answers a handshake like a member whose newest version is speaks. It passes on the messages that it receives.
func serveVersion(speaks uint16, conn net.Conn, received chan<- raft.Message) {
	f := newFrameReader(conn, FrameBytesMax)
	o, err := readOpening(f)
	if err != nil {
		return
	}
	h := raft.Hello{ClusterName: "test", From: bob, Expected: raft.Peer{ID: o.hello.From.ID}, StartCount: 1}
	_, _ = conn.Write(opening{versions: versions{1, speaks}, hello: h, lane: o.lane}.encode()) // the test notices
	d := newDecoder()
	for {
		h, frame, err := f.next()
		if err != nil {
			return
		}
		if h.kind == frameBeat {
			continue
		}
		if m, err := d.message(h, frame); err == nil {
			received <- m
		}
	}
}
