package transport

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The bytes of the messages of snapshots are the wire format. They must not change, because other versions rely on them.
func TestSnapshot_FormatDoesNotChange(t *testing.T) {
	file := raft.SnapshotID([]byte("0123456789abcdef"))
	for _, row := range []struct {
		body   raft.Body
		header string
		meta   string
		tail   string
	}{
		{
			raft.SnapshotChunk{File: file, At: 5, Data: []byte("data"), Last: true, Size: 9, Sum: 1 << 16},
			"\x48\x00\x00\x00" + "\x00\x00\x00\x00" + "\x22" + "\x3c\x00\x00\x00",
			"\x89\xa1f\xc4\x01a\xa2fi\x01\xa2sa\x05\xa2sc\xce\x00\x01\x00\x00\xa2sf\xc4\x100123456789abcdef\xa2sl\xc3\xa2ss\x09\xa1t\xc4\x01b\xa2ti\x01",
			"data\xd1\x7d\xd8\xae",
		},
		{
			raft.SnapshotProgress{File: file, At: 7, Begin: true},
			"\x34\x00\x00\x00" + "\x00\x00\x00\x00" + "\x23" + "\x30\x00\x00\x00",
			"\x87\xa1f\xc4\x01a\xa2fi\x01\xa2sa\x07\xa2sb\xc3\xa2sf\xc4\x100123456789abcdef\xa1t\xc4\x01b\xa2ti\x01", "",
		},
		{
			raft.SnapshotProgress{File: file, Done: true, Refusal: raft.StreamNoSpace},
			"\x34\x00\x00\x00" + "\x00\x00\x00\x00" + "\x23" + "\x30\x00\x00\x00",
			"\x87\xa1f\xc4\x01a\xa2fi\x01\xa2rr\x03\xa2sd\xc3\xa2sf\xc4\x100123456789abcdef\xa1t\xc4\x01b\xa2ti\x01", "",
		},
	} {
		frame, err := EncodeMessage(raft.Message{From: alice, To: bob, Body: row.body})
		require.NoError(t, err)
		metaEnd := frameHeaderBytes + len(row.meta)
		assert.Equal(t, row.header, string(frame[:frameHeaderBytes]), "%T", row.body)
		assert.Equal(t, row.meta, string(frame[frameHeaderBytes:metaEnd]), "%T", row.body)
		assert.Equal(t, row.tail, string(frame[metaEnd+frameSumBytes:]), "%T", row.body)
	}
}

func snapshotOf(t *testing.T, members int) raft.Snapshot {
	t.Helper()
	for _, m := range transporttest.Messages(alice, bob) {
		offer, ok := m.Body.(raft.InstallSnapshot)
		if !ok {
			continue
		}
		s := offer.Snapshot
		s.Config = raft.Configuration{}
		for i := range members {
			s.Config.Members = append(s.Config.Members, raft.Member{
				ID:      raft.NodeID(fmt.Sprintf("%03d", i) + strings.Repeat("i", raft.NodeIDBytesMax-3)),
				Address: strings.Repeat("\"", raft.AddressBytesMax), Meta: strings.Repeat("\\", raft.MetaBytesMax), Incarnation: math.MaxUint64,
			})
		}
		require.NoError(t, s.Check())
		return s
	}
	return raft.Snapshot{}
}

// chunkFrame returns the frame of a chunk with this data and sum. change may change its meta.
func chunkFrame(change func(*wireMessage), data, sum []byte) []byte {
	w := wireMessage{From: []byte("a"), FromIncarnation: 1, To: []byte("b"), ToIncarnation: 1, File: make([]byte, 16)}
	change(&w)
	return append(append(appendFrame(nil, frameSnapshotChunk, encodeMeta(w), len(data)+len(sum)), data...), sum...)
}

func TestSnapshot_WhatNoMemberSendsIsRefused(t *testing.T) {
	sum := func(data string) []byte { return tail{data: []byte(data)}.appendSum(nil) }
	nothing := func(*wireMessage) {}
	good := snapshotOf(t, 3)
	offer := func(change func(*wireMessage)) []byte {
		return damage(frameInstallSnapshot, func(w *wireMessage) {
			w.File, w.Snapshot = bytes.Clone(good.File[:]), good.Encode()
			change(w)
		})
	}
	_, err := DecodeMessage(offer(nothing))
	require.NoError(t, err)
	_, err = DecodeMessage(chunkFrame(nothing, []byte("data"), sum("data")))
	require.NoError(t, err)
	far := good
	far.ID.Index = 1<<62 + 1
	for _, row := range []struct {
		rule  string
		frame []byte
		want  error
	}{
		{"a chunk with a flipped bit", chunkFrame(nothing, []byte("dat`"), sum("data")), ErrMalformed},
		{"a chunk without its checksum", chunkFrame(nothing, nil, nil), ErrMalformed},
		{"a chunk with half a checksum", chunkFrame(nothing, nil, sum("")[:2]), ErrMalformed},
		{"a chunk over the limit", chunkFrame(nothing, make([]byte, chunkBytesMax+1), sum(string(make([]byte, chunkBytesMax+1)))), ErrMalformed},
		{"a frame over the limit", chunkFrame(nothing, make([]byte, chunkBytesMax+smallBytesMax), nil), ErrOversized},
		{"a chunk of a file whose id is short", chunkFrame(func(w *wireMessage) { w.File = w.File[:15] }, []byte("data"), sum("data")), ErrMalformed},
		{"a chunk without a file id", chunkFrame(func(w *wireMessage) { w.File = nil }, []byte("data"), sum("data")), ErrMalformed},
		{"a chunk at an offset near 2^64", chunkFrame(func(w *wireMessage) { w.At = math.MaxUint64 }, []byte("data"), sum("data")), ErrMalformed},
		{"a size near 2^64", chunkFrame(func(w *wireMessage) { w.Size = math.MaxUint64 }, []byte("data"), sum("data")), ErrMalformed},
		{"a snapshot's checksum of 33 bits", chunkFrame(func(w *wireMessage) { w.Sum = 1 << 32 }, []byte("data"), sum("data")), ErrMalformed},
		{"progress at an offset near 2^64", damage(frameSnapshotProgress, func(w *wireMessage) { w.File, w.At = make([]byte, 16), math.MaxUint64 }), ErrMalformed},
		{"progress of no file", damage(frameSnapshotProgress, nothing), ErrMalformed},
		{"an offer without a file id", offer(func(w *wireMessage) { w.File = nil }), ErrMalformed},
		{"an offer of one file that describes another", offer(func(w *wireMessage) { w.File[0]++ }), ErrMalformed},
		{"an offer of garbage", offer(func(w *wireMessage) { w.Snapshot = []byte("{") }), ErrMalformed},
		{"an offer with an index near 2^64", offer(func(w *wireMessage) { w.Snapshot = far.Encode() }), ErrMalformed},
		{"an offer whose snapshot has no cluster and no entry", offer(func(w *wireMessage) { w.Snapshot = raft.Snapshot{File: good.File}.Encode() }), ErrMalformed},
	} {
		t.Run(row.rule, func(t *testing.T) {
			_, err := DecodeMessage(row.frame)
			require.ErrorIs(t, err, row.want)
		})
	}
}

// If only a later release can describe a snapshot, the offer is not damaged. So the connection stays open, and the core
// refuses the offer.
func TestSnapshot_OfALaterReleaseIsPassedOn(t *testing.T) {
	good := snapshotOf(t, 3)
	later := bytes.Replace(good.Encode(), []byte(`"version":1`), []byte(`"version":9`), 1)
	m, err := DecodeMessage(damage(frameInstallSnapshot, func(w *wireMessage) {
		w.File, w.Snapshot, w.Acked = bytes.Clone(good.File[:]), later, 5
	}))
	require.NoError(t, err)
	assert.Equal(t, raft.InstallSnapshot{Snapshot: raft.Snapshot{File: good.File}, Acknowledged: 5}, m.Body)
}

func TestSnapshot_TheLargestDescriptionFits(t *testing.T) {
	m := raft.Message{From: alice, To: bob, Term: 7, Body: raft.InstallSnapshot{Snapshot: snapshotOf(t, raft.MembersMax)}}
	frame, err := EncodeMessage(m)
	require.NoError(t, err)
	assert.Greater(t, len(frame), 400<<10)
	got, err := DecodeMessage(frame)
	require.NoError(t, err)
	assert.Equal(t, m, got)
}

func TestSnapshot_EncodeRefusesWhatNoMemberSends(t *testing.T) {
	for _, body := range []raft.Body{
		raft.SnapshotChunk{At: -1}, raft.SnapshotChunk{Size: -1}, raft.SnapshotProgress{At: -1},
	} {
		_, err := EncodeMessage(raft.Message{From: alice, To: bob, Body: body})
		assert.Error(t, err, "%+v", body)
	}
	_, err := EncodeMessage(raft.Message{From: alice, To: bob, Body: transporttest.Chunk(0, chunkBytesMax)})
	require.NoError(t, err)
	_, err = EncodeMessage(raft.Message{From: alice, To: bob, Body: transporttest.Chunk(0, chunkBytesMax+1)})
	require.ErrorIs(t, err, ErrOversized)
}

// A stream of many GiB needs the memory of only one chunk. The reason is that the handler processes each chunk before the
// transport reads the next one.
func TestReceive_ReusesTheBytesOfChunks(t *testing.T) {
	var sent []byte
	var chunks []raft.Message
	for i := int64(1); i <= 3; i++ {
		m := raft.Message{From: alice, To: bob, Body: raft.SnapshotChunk{At: i * 1000, Data: bytes.Repeat([]byte{byte(i)}, 1000)}}
		frame, err := EncodeMessage(m)
		require.NoError(t, err)
		chunks, sent = append(chunks, m), append(sent, frame...)
	}
	r := &chunkKeeper{Recorder: transporttest.NewRecorder("b")}
	err := new(TCP).receive(r, &inbound{peer: alice}, newFrameReader(bytes.NewReader(sent), FrameBytesMax))
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, chunks, r.AwaitMessages(t, 3), "the recorder copies them")
	require.Len(t, r.places, 3)
	assert.Equal(t, []*byte{r.places[0], r.places[0], r.places[0]}, r.places)
}

// chunkKeeper records the addresses of the bytes of chunks.
type chunkKeeper struct {
	*transporttest.Recorder
	places []*byte
}

func (k *chunkKeeper) Receive(from raft.Peer, batch []raft.Message) {
	for _, m := range batch {
		k.places = append(k.places, &m.Body.(raft.SnapshotChunk).Data[0])
	}
	k.Recorder.Receive(from, batch)
}
