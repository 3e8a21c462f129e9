package transport

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	alice = raft.Peer{ID: "a", Incarnation: 1}
	bob   = raft.Peer{ID: "b", Incarnation: 1}
)

// standard holds the limits of a connection between members of this release.
var standard = limits{FrameBytesMax, ours.max}

func TestMessage_EveryTypeSurvivesTheWire(t *testing.T) {
	kinds := map[byte]bool{}
	for _, m := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(m)
		require.NoError(t, err, "%T", m.Body)
		kinds[frame[8]] = true
		got, err := DecodeMessage(frame)
		require.NoError(t, err, "%T", m.Body)
		assert.Equal(t, m, got)
	}
	assert.Len(t, kinds, int(frameForwardReply-frameBootstrapProbe)+1, "a type of message is missing here")
}

// Zero values are absent from the wire. A decoder must decode them as zero, even if it has decoded other values before.
func TestMessage_ZeroFieldsSurviveTheWire(t *testing.T) {
	d := newDecoder()
	for _, full := range transporttest.Messages(alice, bob) {
		frame, err := EncodeMessage(full)
		require.NoError(t, err)
		_, err = d.message(headerOf(t, frame), frame)
		require.NoError(t, err)
		for _, m := range []raft.Message{
			{From: alice, To: raft.Peer{ID: "b"}, Body: raft.BootstrapProbe{}},
			{From: alice, To: bob, Body: raft.PreVoteReply{}},
			{From: alice, To: bob, Body: raft.AppendRequest{}},
			{From: alice, To: bob, Body: raft.Heartbeat{}},
			{From: alice, To: bob, Body: raft.Forward{}},
			{From: alice, To: bob, Body: raft.ForwardReply{}},
		} {
			frame, err := EncodeMessage(m)
			require.NoError(t, err)
			got, err := d.message(headerOf(t, frame), frame)
			require.NoError(t, err)
			assert.Equal(t, m, got)
		}
	}
}

func headerOf(t *testing.T, frame []byte) frameHeader {
	t.Helper()
	h, err := parseHeader(frame, FrameBytesMax)
	require.NoError(t, err)
	return h
}

// The bytes of a heartbeat and of an append are the wire format. They must not change, because other versions rely on them.
func TestMessage_FormatDoesNotChange(t *testing.T) {
	m := raft.Message{From: alice, To: bob, Term: 7, Body: raft.Heartbeat{Round: raft.RPCID{StartCount: 3, Counter: 4}, Commit: 5}}
	frame, err := EncodeMessage(m)
	require.NoError(t, err)
	assert.Equal(t, "\x23\x00\x00\x00"+"\x00\x00\x00\x00"+"\x1b"+"\x1f\x00\x00\x00"+
		"\x88\xa1T\x07\xa1b\x03\xa1f\xc4\x01a\xa2fi\x01\xa1k\x05\xa1n\x04\xa1t\xc4\x01b\xa2ti\x01", string(frame[:len(frame)-4]))
}

func TestMessage_FieldOfALaterVersionIsSkipped(t *testing.T) {
	type laterMessage struct {
		wireMessage
		Priority int               `codec:"prio"`
		Hints    map[string][]byte `codec:"hints"`
		Nested   []any             `codec:"nested"`
	}
	later := laterMessage{Priority: 5, Hints: map[string][]byte{"x": {1}}, Nested: []any{[]any{1, "two"}, 3.0, nil}}
	later.From, later.FromIncarnation, later.To, later.ToIncarnation = []byte("a"), 1, []byte("b"), 1
	later.Term, later.Match = 7, 20
	got, err := DecodeMessage(appendFrame(nil, frameAppendReply, encodeMeta(later), 0))
	require.NoError(t, err)
	assert.Equal(t, raft.Message{From: alice, To: bob, Term: 7, Body: raft.AppendReply{Match: 20}}, got)
}

// If only a later release can read a record, the record is not damaged. So the connection stays open, and the core refuses
// the entry.
func TestAppend_EntryOfALaterReleaseIsPassedOn(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(record []byte)
		kind   raft.EntryKind
	}{
		{"of an unknown kind", func(r []byte) { r[32] = 9 }, 9},
		{"of a later version", func(r []byte) { r[7], r[32] = 1, 0 }, 0},
	} {
		e, err := raft.DecodeEntry(raft.Entry{Index: 2, Term: 2, Kind: raft.EntryCommand, Data: []byte("x")}.Record())
		require.NoError(t, err)
		record := e.Record() // a new buffer; the frame keeps it
		row.change(record)
		end := len(record) - 4
		binary.LittleEndian.PutUint32(record[end:], crc32.Checksum(record[:end], crc32.MakeTable(crc32.Castagnoli)))
		last := raft.EntryID{Term: 2, Index: 2}
		frame, err := EncodeMessage(raft.Message{From: alice, To: bob, Term: 2, Body: raft.AppendRequest{
			Prev: raft.EntryID{Term: 1, Index: 1}, Last: last, Entries: []raft.Entry{e},
		}})
		require.NoError(t, err)
		got, err := DecodeMessage(frame)
		require.NoError(t, err, row.rule)
		r := got.Body.(raft.AppendRequest)
		assert.Equal(t, []raft.Entry{{Index: 2, Term: 2, Kind: row.kind}}, r.Entries, row.rule)
	}
}

func TestHello_FieldOfALaterVersionIsSkipped(t *testing.T) {
	type laterHello struct {
		wireHello
		Zone string `codec:"zone"`
	}
	h, lane, err := decodeHello(encodeMeta(laterHello{
		wireHello: wireHello{Lane: 1, ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b"}, Zone: "west",
	}))
	require.NoError(t, err)
	assert.Equal(t, raft.LaneBulk, lane)
	assert.Equal(t, raft.Hello{ClusterName: "test", From: alice, Expected: raft.Peer{ID: "b"}}, h)
}

func TestHelloAndRejection_SurviveTheWire(t *testing.T) {
	list := raft.NewConfiguration([]raft.Member{{ID: "a", Address: "x:1", Meta: "m", Incarnation: 4}, {ID: "b", Address: "y:1", Kind: raft.Learner}})
	hello := raft.Hello{
		ClusterName: "test", Cluster: raft.ClusterID{1}, From: alice, Expected: bob, StartCount: 2, Term: 3,
		Bootstrapper: alice, Address: "z:1", List: list, ElectionTimeout: 4,
		Lineage: raft.Lineage{}.Begin(7).Begin(8), Confirmed: raft.StartID{Count: 1, Nonce: 7}, Remembers: sighting,
		Named: []raft.Incarnation{1, 1 << 63}, NamedIndex: 9, Release: "v0.2.0",
		AppendBytesMax: 1 << 20, CommandBytesMax: 5, NoSnapshots: true, IdleTimeout: 6, AppVersion: 1<<64 - 1,
	}
	fields := reflect.ValueOf(hello)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		assert.Equal(t, name == "Protocol", fields.Field(i).IsZero(), "%s: every field is sent, except those that the connection itself shows", name)
	}
	for range raft.LineageStartsMax {
		hello.Lineage = hello.Lineage.Begin(1 << 60)
	}
	gotHello, lane, err := decodeHello(encodeHello(hello, raft.LaneBulk))
	require.NoError(t, err)
	assert.Equal(t, hello, gotHello)
	assert.Equal(t, raft.LaneBulk, lane)
	rejection := raft.Rejection{
		Reason: 200, From: alice, Cluster: raft.ClusterID{1}, Term: 2, Named: 3, Index: 4, List: list,
		VersionsMin: 4, VersionsMax: 5, Detail: "why", Seen: sighting,
	}
	gotRejection, err := decodeRejection(encodeRejection(rejection))
	require.NoError(t, err)
	assert.Equal(t, rejection, gotRejection, "a reason of a later version is kept")
}

var sighting = raft.Sighting{Peer: bob, Start: raft.StartID{Count: 3, Nonce: 1 << 62}, Term: 5}

// Starts and incarnations in a hello come from the network. This member refuses values that no member has.
func TestHello_StartsAndIncarnationsThatNoMemberHasAreMalformed(t *testing.T) {
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for rule, change := range map[string]func(*wireHello){
		"a number without a nonce":         func(w *wireHello) { w.Lineage = number(1) },
		"a nonce that is cut short":        func(w *wireHello) { w.Lineage = append(number(1), 1, 2, 3) },
		"65 starts":                        func(w *wireHello) { w.Lineage = bytes.Repeat(number(1), 66) },
		"a start 0":                        func(w *wireHello) { w.Lineage = append(number(0), number(9)...) },
		"numbers that leave no room":       func(w *wireHello) { w.Lineage = append(number(1<<64-1), number(9)...) },
		"a confirmed start as large":       func(w *wireHello) { w.ConfirmedStart = 1<<64 - 1 },
		"a remembered one as large":        func(w *wireHello) { w.Remembers = wireSighting{ID: "b", Count: 1<<64 - 1} },
		"a remembered term as large":       func(w *wireHello) { w.Remembers = wireSighting{ID: "b", Term: 1<<64 - 1} },
		"an incarnation that is cut short": func(w *wireHello) { w.Named = number(1)[:7] },
		"three incarnations of one id":     func(w *wireHello) { w.Named = slices.Concat(number(1), number(2), number(3)) },
		"an incarnation twice":             func(w *wireHello) { w.Named = slices.Concat(number(2), number(2)) },
		"no incarnation":                   func(w *wireHello) { w.Named = number(0) },
		"a configuration that none has":    func(w *wireHello) { w.NamedIndex = 1<<64 - 1 },
		"what is remembered is of nobody": func(w *wireHello) {
			w.Remembers = wireSighting{ID: "with space", Count: 1}
		},
	} {
		w := wireHello{ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b"}
		_, _, err := decodeHello(encodeMeta(w))
		require.NoError(t, err)
		change(&w)
		_, _, err = decodeHello(encodeMeta(w))
		assert.ErrorIs(t, err, ErrMalformed, rule)
	}
	_, err := decodeRejection(encodeMeta(wireRejection{Reason: 8, Seen: wireSighting{ID: "b", Count: 1<<64 - 1}}))
	assert.ErrorIs(t, err, ErrMalformed)
	_, err = decodeRejection(encodeMeta(wireRejection{Reason: 16, Index: 1<<64 - 1}))
	assert.ErrorIs(t, err, ErrMalformed)
}

// Only people read the release. So a bad release does not close the connection, but it is never printed.
func TestHello_AReleaseThatCannotBePrintedIsDropped(t *testing.T) {
	for release, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1\x1b[2J": "", strings.Repeat("1", raft.ReleaseBytesMax+1): "",
	} {
		h, _, err := decodeHello(encodeMeta(wireHello{ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b", Release: release}))
		require.NoError(t, err)
		assert.Equal(t, want, h.Release)
	}
}

// damage returns the frame of a valid message after a change of its wire form.
func damage(kind frameType, change func(*wireMessage), records ...raft.Entry) []byte {
	w := wireMessage{From: []byte("a"), FromIncarnation: 1, To: []byte("b"), ToIncarnation: 1, Term: 7}
	change(&w)
	var bytes []byte
	for _, e := range records {
		bytes = append(bytes, e.Record()...)
	}
	return append(appendFrame(nil, kind, encodeMeta(w), len(bytes)), bytes...)
}

// reseal recomputes the checksum of a frame without records after a change.
func reseal(frame []byte) []byte {
	end := len(frame) - frameSumBytes
	binary.LittleEndian.PutUint32(frame[end:], crc32.Checksum(frame[:end], castagnoli))
	return frame
}

func entry(term raft.Term, index raft.Index) raft.Entry {
	return transporttest.Entry(raft.EntryID{Term: term, Index: index}, raft.EntryCommand, 10)
}

func TestMessage_WhatNoMemberSendsIsRefused(t *testing.T) {
	sound := func() []byte { return damage(frameHeartbeat, func(*wireMessage) {}) }
	span := func(prevTerm, prevIndex, lastTerm, lastIndex uint64) func(*wireMessage) {
		return func(w *wireMessage) {
			w.PrevTerm, w.PrevIndex, w.LastTerm, w.LastIndex = prevTerm, prevIndex, lastTerm, lastIndex
		}
	}
	spoiled := damage(frameAppendRequest, span(1, 1, 2, 2), entry(2, 2))
	spoiled[len(spoiled)-6]++
	longRecord := damage(frameAppendRequest, span(1, 1, 2, 2), entry(2, 2))
	longRecord[len(longRecord)-len(entry(2, 2).Record())]++
	bigList := append([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, make([]byte, 100)...)
	rows := []struct {
		rule  string
		frame []byte
		want  error
	}{
		{"less than a header", sound()[:5], ErrMalformed},
		{"a frame cut short", sound()[:20], ErrMalformed},
		{"a frame with bytes after it", append(sound(), 0), ErrMalformed},
		{"a flipped bit", func() []byte { f := sound(); f[15] ^= 1; return f }(), ErrMalformed},
		{"an unknown type", damage(99, func(*wireMessage) {}), ErrMalformed},
		{"a hello in place of a message", damage(frameHello, func(*wireMessage) {}), ErrMalformed},
		{"another group", func() []byte { f := sound(); f[4] = 1; return reseal(f) }(), ErrMalformed},
		{"a heartbeat of a gigabyte", func() []byte { f := sound(); f[3] = 0x40; return f }(), ErrOversized},
		{"meta longer than its frame", func() []byte { f := sound(); f[9]++; return reseal(f) }(), ErrMalformed},
		{"records after a heartbeat", damage(frameHeartbeat, func(*wireMessage) {}, entry(1, 1)), ErrMalformed},
		{"meta that is not msgpack", appendFrame(nil, frameHeartbeat, []byte{0xc1, 0xff}, 0), ErrMalformed},
		{"meta with bytes after it", appendFrame(nil, frameHeartbeat, append(encodeMeta(wireMessage{}), 0), 0), ErrMalformed},
		{"a map that promises 4 billion fields", appendFrame(nil, frameHeartbeat, []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, 0), ErrMalformed},
		{"a sender that promises 4 gigabytes", appendFrame(nil, frameHeartbeat, []byte{0x81, 0xa1, 'f', 0xc6, 0xff, 0xff, 0xff, 0xff}, 0), ErrMalformed},
		{"a sender that promises 2 gigabytes", appendFrame(nil, frameHeartbeat, []byte{0x81, 0xa1, 'f', 0xc6, 0x80, 0, 0, 0}, 0), ErrMalformed},
		{"an unknown field that promises 4 gigabytes", appendFrame(nil, frameHeartbeat, []byte{0x81, 0xa1, '?', 0xdb, 0xff, 0xff, 0xff, 0xff}, 0), ErrMalformed},
		{"no sender", damage(frameHeartbeat, func(w *wireMessage) { w.From = nil }), ErrMalformed},
		{"a sender with a space", damage(frameHeartbeat, func(w *wireMessage) { w.From = []byte("a b") }), ErrMalformed},
		{"a receiver of 65 bytes", damage(frameHeartbeat, func(w *wireMessage) { w.To = make([]byte, 65) }), ErrMalformed},
		{"half a cluster id", damage(frameHeartbeat, func(w *wireMessage) { w.Cluster = make([]byte, 8) }), ErrMalformed},
		{"a term near 2^64", damage(frameVoteRequest, func(w *wireMessage) { w.Term = math.MaxUint64 - 1 }), ErrMalformed},
		{"a log that ends near 2^64", damage(frameVoteRequest, func(w *wireMessage) { w.LastTerm = math.MaxUint64 }), ErrMalformed},
		{"a match near 2^64", damage(frameAppendReply, func(w *wireMessage) { w.Match = math.MaxUint64 }), ErrMalformed},
		{"an unknown verdict", damage(frameBootstrapProbeReply, func(w *wireMessage) { w.Verdict = 9 }), ErrMalformed},
		{"a list that is not a list", damage(frameBootstrapProbe, func(w *wireMessage) { w.List = []byte{1} }), ErrMalformed},
		{"a list of 4 billion members", damage(frameBootstrapProbe, func(w *wireMessage) { w.List = bigList }), ErrMalformed},
		{"a list without a voter", damage(frameBootstrapProbe, func(w *wireMessage) {
			w.List = encodeMeta([]wireMember{{ID: "a", Address: "x", Kind: 1}})
		}), ErrMalformed},
		{"a list that names a member twice", damage(frameBootstrapProbe, func(w *wireMessage) {
			w.List = encodeMeta([]wireMember{{ID: "a", Address: "x"}, {ID: "b", Address: "x"}, {ID: "a", Address: "y"}})
		}), ErrMalformed},
		{"a bootstrap without its entry", damage(frameBootstrapRequest, func(*wireMessage) {}), ErrMalformed},
		{"a bootstrap of two entries", damage(frameBootstrapRequest, func(*wireMessage) {}, entry(0, 1), entry(0, 2)), ErrMalformed},
		{"entries after a gap", damage(frameAppendRequest, span(1, 1, 2, 3), entry(2, 3)), ErrMalformed},
		{"entries with a gap", damage(frameAppendRequest, span(1, 1, 2, 4), entry(2, 2), entry(2, 4)), ErrMalformed},
		{"entries whose terms fall", damage(frameAppendRequest, span(1, 1, 2, 3), entry(3, 2), entry(2, 3)), ErrMalformed},
		{"entries that fall below Prev's term", damage(frameAppendRequest, span(3, 1, 2, 2), entry(2, 2)), ErrMalformed},
		{"entries that end before Last", damage(frameAppendRequest, span(1, 1, 2, 3), entry(2, 2)), ErrMalformed},
		{"no entries, although Last is not Prev", damage(frameAppendRequest, span(1, 1, 1, 2)), ErrMalformed},
		{"an entry of a later term than its message", damage(frameAppendRequest, span(1, 1, 8, 2), entry(8, 2)), ErrMalformed},
		{"an entry with an index near 2^64", damage(frameAppendRequest, span(1, 1, 2, 2), entry(2, math.MaxUint64)), ErrMalformed},
		{"a spoiled record", spoiled, raft.ErrBadRecord},
		{"a record that reaches beyond the frame", longRecord, raft.ErrBadRecord},
	}
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			_, err := DecodeMessage(row.frame)
			require.ErrorIs(t, err, row.want)
		})
	}
}

func TestEncode_RefusesWhatNoMemberSends(t *testing.T) {
	hollow := raft.AppendRequest{Prev: raft.EntryID{Term: 1, Index: 1}, Last: raft.EntryID{Term: 1, Index: 3}}
	_, err := EncodeMessage(raft.Message{From: alice, To: bob, Term: 1, Body: hollow})
	require.ErrorContains(t, err, "0 entries for the span")
	_, err = EncodeMessage(raft.Message{From: alice, To: bob, Term: 1})
	require.ErrorContains(t, err, "not a message of this version")
	big := transporttest.Append(raft.EntryID{}, []int{1 << 20}, 0)
	big.Entries[0].Term, big.Last.Term = 1, 1
	_, _, err = new(encoder).message(nil, raft.Message{From: alice, To: bob, Term: 1, Body: big}, limits{1 << 20, ours.max})
	require.ErrorIs(t, err, ErrOversized)
}

// A sender respects the receiver's limit. If a release announces no limit, it accepts the default.
func TestLimits_BothSidesCount(t *testing.T) {
	for _, row := range []struct {
		rule               string
		own, says, carries int
	}{
		{"the receiver's is smaller", FrameBytesMax, 64<<10 - appendOverheadMax, 64 << 10},
		{"its own is smaller", 64 << 10, 1 << 20, 64 << 10},
		{"the receiver announces none", FrameBytesMax, 0, FrameBytesMax},
		{"the receiver accepts almost nothing", FrameBytesMax, 1, 1 + appendOverheadMax},
	} {
		w := &TCP{options: Options{FrameBytesMax: row.own}}
		assert.Equal(t, limits{row.carries, 3}, w.limitsTo(raft.Hello{AppendBytesMax: row.says, Protocol: 3}), row.rule)
	}
	h, _, err := decodeHello(encodeMeta(wireHello{
		ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b", AppendBytesMax: math.MaxUint64, CommandBytesMax: 1 << 62,
	}))
	require.NoError(t, err)
	assert.Zero(t, h.AppendBytesMax, "a limit above what can be sent counts as none")
	hello := wireHello{ClusterName: "test", ID: "a", Incarnation: 1, ExpectedID: "b", AppendBytesMax: 1}
	assert.ErrorIs(t, hello.check(), ErrMalformed, "no member has such a limit")
	assert.Zero(t, h.CommandBytesMax)
}

// Another transport may send the opening of a TCP connection as one piece.
func TestOpening_SurvivesTheWireAsOnePiece(t *testing.T) {
	hello := raft.Hello{ClusterName: "test", From: alice, Expected: bob, StartCount: 2, Lineage: raft.Lineage{}.Begin(7).Begin(8), ElectionTimeout: 4}
	got, rejection, err := DecodeOpening(EncodeHello(hello))
	require.NoError(t, err)
	assert.Nil(t, rejection)
	hello.Protocol = ours.max
	assert.Equal(t, hello, got)

	why := raft.Rejection{Reason: raft.RejectClusterName, From: bob, Detail: "why"}
	_, rejection, err = DecodeOpening(EncodeRejection(why))
	require.NoError(t, err)
	assert.Equal(t, &why, rejection)

	whole := EncodeHello(hello)
	for size := range whole {
		_, _, err := DecodeOpening(whole[:size])
		assert.ErrorIs(t, err, ErrMalformed, "cut to %d bytes", size)
	}
	_, _, err = DecodeOpening(append(whole, 0))
	assert.ErrorIs(t, err, ErrMalformed)
	later := opening{versions: versions{ours.max + 1, ours.max + 2}, hello: hello}
	_, _, err = DecodeOpening(later.encode())
	assert.ErrorIs(t, err, ErrVersion)
}

func TestMessage_LargestListFits(t *testing.T) {
	var members []raft.Member
	for i := range raft.MembersMax {
		id := make([]byte, raft.NodeIDBytesMax)
		for j := range id {
			id[j] = '<' // JSON writes it as six bytes
		}
		id[0], id[1] = byte('A'+i/16), byte('a'+i%16)
		members = append(members, raft.Member{
			ID: raft.NodeID(id), Address: string(make([]byte, raft.AddressBytesMax)), Meta: string(make([]byte, raft.MetaBytesMax)),
			Kind: raft.Voter, Incarnation: math.MaxUint64,
		})
	}
	list := raft.NewConfiguration(members)
	require.NoError(t, list.Validate())
	bootstrap := raft.Bootstrap{Cluster: raft.ClusterID{1}, Bootstrapper: members[0].Peer(), Configuration: list}
	entry := raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: bootstrap.Encode()}
	for _, body := range []raft.Body{raft.BootstrapProbe{List: list}, raft.BootstrapRequest{Entry: entry}} {
		frame, err := EncodeMessage(raft.Message{From: alice, To: bob, Cluster: raft.ClusterID{1}, Body: body})
		require.NoError(t, err)
		got, err := DecodeMessage(frame)
		require.NoError(t, err)
		if found, ok := got.Body.(raft.BootstrapRequest); ok {
			assert.Equal(t, entry.Data, found.Entry.Data)
			continue
		}
		assert.Equal(t, body, got.Body)
	}
}

// A member sends these messages to every peer twenty times a second, so they should leave little garbage.
func TestMessage_HotPathAllocatesLittle(t *testing.T) {
	e, d := &encoder{}, newDecoder()
	heartbeat := raft.Message{From: alice, To: bob, Cluster: raft.ClusterID{1}, Term: 7, Body: raft.Heartbeat{Commit: 5}}
	buf, _, err := e.message(nil, heartbeat, standard)
	require.NoError(t, err)
	frame := append([]byte(nil), buf...)
	h := headerOf(t, frame)
	encoding := testing.AllocsPerRun(100, func() { buf, _, _ = e.message(buf[:0], heartbeat, standard) })
	decoding := testing.AllocsPerRun(100, func() { _, _ = d.message(h, frame) })
	assert.Zero(t, encoding)
	assert.LessOrEqual(t, decoding, 1.0, "the body alone")

	few := allocationsOfAppend(t, 4)
	assert.LessOrEqual(t, allocationsOfAppend(t, 64), few, "allocations grow with the entries")
}

func allocationsOfAppend(t *testing.T, entries int) float64 {
	t.Helper()
	e, d := &encoder{}, newDecoder()
	m := raft.Message{From: alice, To: bob, Term: 7, Body: transporttest.Append(raft.EntryID{Term: 7}, make([]int, entries), 0)}
	whole, err := EncodeMessage(m)
	require.NoError(t, err)
	h := headerOf(t, whole)
	buf := make([]byte, 0, 4096)
	return testing.AllocsPerRun(100, func() {
		if _, _, err := e.message(buf, m, standard); err != nil {
			t.Fatal(err)
		}
		if _, err := d.message(h, whole); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkMessage_Heartbeat(b *testing.B) {
	benchmarkMessage(b, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1000}, Commit: 5})
}

func BenchmarkMessage_AppendOf64Entries(b *testing.B) {
	sizes := make([]int, 64)
	for i := range sizes {
		sizes[i] = 128
	}
	benchmarkMessage(b, transporttest.Append(raft.EntryID{Term: 7}, sizes, 0))
}

func benchmarkMessage(b *testing.B, body raft.Body) {
	e, d := &encoder{}, newDecoder()
	m := raft.Message{From: alice, To: bob, Cluster: raft.ClusterID{1}, Term: 7, Body: body}
	whole, err := EncodeMessage(m)
	if err != nil {
		b.Fatal(err)
	}
	h, _ := parseHeader(whole, FrameBytesMax)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _, _ = e.message(buf[:0], m, standard)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.message(h, whole); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// An earlier release refuses a hello whose list leaves an address open, so it gets none.
func TestHello_AListWithOpenAddressesIsNotShownToEarlierReleases(t *testing.T) {
	hello := raft.Hello{ClusterName: "test", From: alice, Expected: bob, StartCount: 2, Lineage: raft.Lineage{}.Begin(7).Begin(8), ElectionTimeout: 4}
	for open, address := range map[bool]string{true: "", false: "c:1"} {
		hello.List = raft.NewConfiguration([]raft.Member{{ID: "b", Address: "b:1"}, {ID: "c", Address: address}})
		meta := encodeHello(hello, raft.LaneBulk)
		got, _, err := decodeHello(meta)
		require.NoError(t, err)
		assert.Equal(t, hello, got)
		var w wireHello
		require.NoError(t, decodeMeta(codec.NewDecoderBytes(nil, newHandle()), meta, &w))
		assert.Equal(t, open, len(w.List) == 0)
		assert.Equal(t, open, len(w.OpenList) > 0)
		w.OpenList = []byte{1}
		_, _, err = decodeHello(encodeMeta(w))
		assert.ErrorIs(t, err, ErrMalformed)
	}
}
