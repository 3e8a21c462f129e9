package transport

import (
	"bytes"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/require"
)

// A peer may send any bytes. The frames must consist of these bytes, each frame must be within its limits, and the stream
// must end with an error.
func FuzzFrame(f *testing.F) {
	var stream []byte
	for _, m := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(m)
		require.NoError(f, err)
		f.Add(frame)
		stream = append(stream, frame...)
	}
	f.Add(stream)
	f.Add(append(bytes.Clone(beat), beat[:7]...))
	const appendBytesMax = 128 << 10
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newFrameReader(bytes.NewReader(sent), appendBytesMax)
		at := 0
		for {
			h, frame, err := r.next()
			if err != nil {
				return
			}
			require.Len(t, frame, h.size())
			require.True(t, bytes.HasPrefix(sent[at:], frame))
			at += len(frame)
			bodyMax, metaMax, err := h.kind.limit(appendBytesMax)
			require.NoError(t, err)
			require.LessOrEqual(t, h.body, bodyMax)
			require.LessOrEqual(t, h.meta, metaMax)
			_, _, _ = parseFrame(h, frame)
		}
	})
}

// The decoder accepts only messages that a member can send. So if a decoded message is encoded again, the result decodes to
// the same message.
func FuzzMessage(f *testing.F) {
	for _, m := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(m)
		require.NoError(f, err)
		meta, records, err := parseFrame(headerOfFuzz(frame), frame)
		require.NoError(f, err)
		if frameType(frame[8]).carriesData() {
			records = records[:len(records)-frameSumBytes]
		}
		f.Add(frame[8], meta, records)
	}
	f.Fuzz(func(t *testing.T, kind byte, meta, records []byte) {
		// Correct the checksums, because the fuzzer would not find the right ones.
		if frameType(kind).carriesData() {
			records = tail{data: records}.appendSum(bytes.Clone(records))
		}
		frame := append(appendFrame(nil, frameType(kind), meta, len(records)), records...)
		m, err := DecodeMessage(frame)
		if err != nil {
			return
		}
		again, err := EncodeMessage(m)
		require.NoError(t, err)
		same, err := DecodeMessage(again)
		require.NoError(t, err)
		require.Equal(t, m, same)
	})
}

func headerOfFuzz(frame []byte) frameHeader {
	h, _ := parseHeader(frame, FrameBytesMax)
	return h
}

// Only hellos and rejections that a member can send are decoded.
func FuzzHandshake(f *testing.F) {
	list := raft.NewConfiguration([]raft.Member{{ID: "a", Address: "x:1"}, {ID: "b", Address: "x:2", Kind: raft.Learner}})
	f.Add(false, encodeHello(raft.Hello{
		ClusterName: "test", Cluster: raft.ClusterID{1}, From: alice, Expected: bob, StartCount: 2, Term: 3,
		Bootstrapper: alice, Address: "z:1", List: list, ElectionTimeout: 4,
		Lineage: raft.Lineage{}.Begin(7).Begin(8), Confirmed: raft.StartID{Count: 1, Nonce: 7}, Remembers: sighting,
	}, raft.LaneBulk))
	f.Add(true, encodeRejection(raft.Rejection{
		Reason: raft.RejectListDiffers, From: alice, Cluster: raft.ClusterID{1}, Term: 2, Named: 3,
		List: list, VersionsMin: 1, VersionsMax: 1, Detail: "why", Seen: sighting,
	}))
	f.Fuzz(func(t *testing.T, rejection bool, meta []byte) {
		kind := frameHello
		if rejection {
			kind = frameRejection
		}
		sent := opening{versions: ours, rejection: &raft.Rejection{}}.encode()[:openingBytes]
		sent = appendFrame(sent, kind, meta, 0)
		o, err := readOpening(newFrameReader(bytes.NewReader(sent), FrameBytesMax))
		if err != nil {
			return
		}
		same, err := readOpening(newFrameReader(bytes.NewReader(o.encode()), FrameBytesMax))
		require.NoError(t, err)
		require.Equal(t, o, same)
	})
}
