package transport

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// edges are the numbers at which the form of a number in msgpack changes. lengths are the lengths at which the form of a byte
// string changes.
var (
	edges = []uint64{
		0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 32767, 32768, 32769, 65535, 65536, 1<<31 - 1, 1 << 31, 1<<31 + 1,
		1<<32 - 1, 1 << 32, numberMax, 1<<63 - 1, 1 << 63, 1<<64 - 1,
	}
	lengths = []int{0, 1, 31, 32, 255, 256, 65535, 65536}
)

// setField sets one field of a wireMessage to the number n. For a field of bytes, n selects the number of bytes from lengths.
func setField(field reflect.Value, n uint64, lengths []int) {
	switch field.Interface().(type) {
	case uint64:
		field.SetUint(n)
	case uint8:
		field.SetUint(n % 256)
	case int64:
		field.SetInt(int64(n))
	case bool:
		field.SetBool(n != 0)
	case []byte:
		field.SetBytes(bytes.Repeat([]byte{byte(n)}, lengths[n%uint64(len(lengths))]))
	default:
		panic(fmt.Sprintf("a field of type %v is neither written nor read by hand", field.Type()))
	}
}

// present returns the message with nil in place of empty bytes. Both mean that the field is absent.
func present(w wireMessage) wireMessage {
	fields := reflect.ValueOf(&w).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Slice && f.Len() == 0 {
			f.SetZero()
		}
	}
	return w
}

// general is the decoder of the forms that wireMessage.decode does not read itself. encodeGeneral encodes such forms.
var general = codec.NewDecoderBytes(nil, newHandle())

func encodeGeneral(w *wireMessage) (meta []byte) {
	generalEncoder.ResetBytes(&meta)
	generalEncoder.MustEncode(w)
	return meta
}

var generalEncoder = codec.NewEncoderBytes(new([]byte), newHandle())

// sameBothWays checks that this package encodes and decodes a message as go-msgpack does.
func sameBothWays(t *testing.T, w, used *wireMessage) {
	t.Helper()
	want := encodeGeneral(w)
	got := w.encode([]byte("before"))
	require.True(t, "before"+string(want) == string(got), "%+v", *w)
	var read wireMessage
	require.NoError(t, decodeMeta(general, want, &read))
	require.NoError(t, used.decode(general, want))
	require.True(t, reflect.DeepEqual(present(read), present(*used)), "%+v", *w)
}

// If a field has no line in wireMessage.fields, its value is lost silently. So this test fails for such a field.
func TestWire_EveryFieldIsWrittenAndReadAsByMsgpack(t *testing.T) {
	var used wireMessage
	for i := range reflect.TypeFor[wireMessage]().NumField() {
		for _, n := range edges {
			for _, sign := range []uint64{1, math.MaxUint64} { // MaxUint64 is -1 for signed fields
				w := wireMessage{From: []byte("a"), To: []byte("b")}
				setField(reflect.ValueOf(&w).Elem().Field(i), sign*n, lengths)
				sameBothWays(t, &w, &used)
			}
		}
	}
	assert.True(t, used.decodeOwn(encodeMeta(wireMessage{From: []byte("a"), To: []byte("b"), Term: 1 << 32})))
}

// The decoder has already decoded other messages. It must still decode messages with any fields.
func TestWire_AnyMessageIsWrittenAndReadAsByMsgpack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var used wireMessage
	for range 3000 {
		var w wireMessage
		fields, share := reflect.ValueOf(&w).Elem(), r.IntN(8)
		for i := range fields.NumField() {
			if r.IntN(8) < share {
				setField(fields.Field(i), edges[r.IntN(len(edges))], lengths[:6])
			}
		}
		sameBothWays(t, &w, &used)
	}
}

// Messages of members are decoded without go-msgpack. Otherwise decoding would be slow, and nobody would
// notice.
func TestWire_WhatMembersSendIsReadByHand(t *testing.T) {
	for _, m := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(m)
		require.NoError(t, err)
		meta, _, err := parseFrame(headerOf(t, frame), frame)
		require.NoError(t, err)
		var w wireMessage
		assert.True(t, w.decodeOwn(meta), "%T", m.Body)
	}
}

// readsAsMsgpackDoes checks that both decoders read the same from meta, or that both refuse it.
func readsAsMsgpackDoes(t *testing.T, meta []byte, used *wireMessage) {
	t.Helper()
	var read wireMessage
	wantErr := decodeMeta(general, meta, &read)
	err := used.decode(general, meta)
	if wantErr != nil {
		require.ErrorIs(t, err, ErrMalformed, "%x", meta)
		require.Equal(t, wantErr.Error(), err.Error(), "%x", meta)
		return
	}
	require.NoError(t, err, "%x", meta)
	require.True(t, reflect.DeepEqual(present(read), present(*used)), "%x", meta)
}

// A message is truncated, extended, or changed in one byte. Both decoders read the same from it, or both refuse it.
func TestWire_DamageIsReadAsByMsgpack(t *testing.T) {
	var used wireMessage
	for _, whole := range wireSeeds(t) {
		for i := range whole {
			readsAsMsgpackDoes(t, whole[:i], &used)
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0x81, 0xa1, 0xa2, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc6, 0xcc, 0xcf, 0xd0, 0xd3, 0xd9, 0xe0, 0xff} {
				changed := bytes.Clone(whole)
				changed[i] = b
				readsAsMsgpackDoes(t, changed, &used)
				readsAsMsgpackDoes(t, append(whole[:i:i], append([]byte{b}, whole[i:]...)...), &used)
			}
		}
		readsAsMsgpackDoes(t, append(bytes.Clone(whole), 0xc0), &used)
	}
}

// wireSeeds returns the meta of every message, and other forms that go-msgpack reads.
func wireSeeds(t testing.TB) (seeds [][]byte) {
	t.Helper()
	for _, m := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(m)
		require.NoError(t, err)
		meta, _, err := parseFrame(headerOfFuzz(frame), frame)
		require.NoError(t, err)
		seeds = append(seeds, meta)
	}
	for _, other := range []string{
		"\xc0", "\x80", "\x90", "\x92\xc4\x01a\x01",
		"\x82\xa1t\xc4\x01b\xa1f\xc4\x01a",                           // another order
		"\x82\xa1T\x01\xa1T\x02",                                     // a field twice
		"\x82\xa1T\xcf\x00\x00\x00\x00\x00\x00\x00\x07\xa1x\xd0\x07", // wider than needed, and signed
		"\x81\xa1f\xa1a", "\x81\xd9\x01f\xc4\x01a",                   // strings for bytes, a long name
		"\x83\xa1T\xc0\xa1f\xc0\xa1v\xc0", // nil
		"\xde\x00\x01\xa1T\x07", "\xdf\x00\x00\x00\x01\xa1T\x07",
		"\x81\xa1v\xcd\x01\x00", "\x81\xa1w\xcf\xff\xff\xff\xff\xff\xff\xff\xff", // too great
		"\x82\xa4later\xa1x\x01", "\x81\xa5later\x93\x01\xc0\x81\x01\x02", // of a later version
	} {
		seeds = append(seeds, []byte(other))
	}
	return seeds
}

// FuzzWire looks for bytes that our decoder reads differently from go-msgpack. It also looks for messages that our encoder
// writes differently.
func FuzzWire(f *testing.F) {
	for _, meta := range wireSeeds(f) {
		f.Add(meta)
	}
	var used wireMessage
	f.Fuzz(func(t *testing.T, meta []byte) {
		readsAsMsgpackDoes(t, meta, &used)
		require.Equal(t, encodeGeneral(&used), used.encode(nil))
	})
}

// The lengths that a peer declares do not determine how much is allocated.
func TestWire_LengthsThatLieTakeNoMemory(t *testing.T) {
	for _, row := range []string{
		"\x81\xa1f\xc6\xff\xff\xff\xff", "\x81\xa1f\xc6\x7f\xff\xff\xff", "\x81\xa1f\xc5\xff\xff", "\x81\xa2ls\xc4\xff",
		"\x8f\xbf", "\x81\xa1f\xc6\x00\x00",
	} {
		var w wireMessage
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.False(t, w.decodeOwn([]byte(row)))
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<10), "%x", row)
		_, err := DecodeMessage(appendFrame(nil, frameHeartbeat, []byte(row), 0))
		assert.ErrorIs(t, err, ErrMalformed, "%x", row)
	}
}

// When a message is decoded, the message before it stays unchanged, and the new message takes nothing from it.
func TestWire_NothingIsKeptOfTheMessageBefore(t *testing.T) {
	d := newDecoder()
	var frames [][]byte
	messages := transporttest.Messages(alice, bob)
	for _, m := range messages {
		frame, err := EncodeMessage(m)
		require.NoError(t, err)
		frames = append(frames, frame)
	}
	for i, first := range frames {
		got, err := d.message(headerOf(t, first), bytes.Clone(first))
		require.NoError(t, err)
		for j, second := range frames {
			next, err := d.message(headerOf(t, second), bytes.Clone(second))
			require.NoError(t, err)
			assert.Equal(t, messages[j], next)
			_, err = d.message(headerOf(t, first), bytes.Clone(first))
			require.NoError(t, err)
		}
		assert.Equal(t, messages[i], got)
	}
	longer := raft.Message{From: raft.Peer{ID: "longer"}, To: bob, Body: raft.TimeoutNow{}}
	e := &encoder{}
	for _, m := range []raft.Message{longer, messages[0], {From: alice, To: bob, Body: raft.TimeoutNow{}}, longer} {
		frame, _, err := e.message(nil, m, standard)
		require.NoError(t, err)
		got, err := DecodeMessage(frame)
		require.NoError(t, err)
		assert.Equal(t, m, got)
	}
}

// Only incarnations, which are random, and a checksum may be any number.
func TestWire_NumbersThatNoClusterReachesAreRefused(t *testing.T) {
	fields := reflect.TypeFor[wireMessage]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if fields.Field(i).Type.Kind() != reflect.Uint64 || strings.HasSuffix(name, "Incarnation") || name == "Sum" || name == "AppVersion" {
			continue
		}
		var w wireMessage
		reflect.ValueOf(&w).Elem().Field(i).SetUint(numberMax)
		require.NoError(t, w.checkNumbers(), name)
		reflect.ValueOf(&w).Elem().Field(i).SetUint(numberMax + 1)
		require.ErrorIs(t, w.checkNumbers(), ErrMalformed, name)
	}
}
