package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newQuestions() *questions { return &questions{of: map[string]*asker{}} }

// ask asks n times at once, and returns how many questions were taken.
func (q *questions) ask(source string, n int, now time.Time) (taken int) {
	for range n {
		if end, ok := q.begin(source, now); ok {
			end()
			taken++
		}
	}
	return taken
}

func TestQuestions_ASourceHasAShareThatComesBackWithTime(t *testing.T) {
	q, now := newQuestions(), time.Now()
	const most = 2 * questionsPerSecond
	assert.Equal(t, most, q.ask("a", 2*most, now))
	assert.Equal(t, most, q.ask("b", 2*most, now), "another source has its own")
	now = now.Add(time.Second)
	assert.Equal(t, questionsPerSecond, q.ask("a", 2*most, now))
	assert.Equal(t, most, q.ask("a", 2*most, now.Add(time.Hour)), "no more than the whole share")
}

func TestQuestions_AllSourcesTogetherHaveALimitAndFewAreRemembered(t *testing.T) {
	q, now := newQuestions(), time.Now()
	const most = 2 * questionsPerSecond * questionsOfAll
	taken := 0
	for i := range 100_000 {
		taken += q.ask(fmt.Sprint(i), 1, now)
	}
	assert.Equal(t, most, taken)
	assert.LessOrEqual(t, len(q.of), most)
	assert.Equal(t, 1, q.ask("late", 1, now.Add(time.Minute)))
	assert.Len(t, q.of, 1, "those that have their whole share again are forgotten")
}

func TestQuestions_OpenOnesAreBounded(t *testing.T) {
	q, now := newQuestions(), time.Now()
	var ends []func()
	for source := range questionsOfAll + 1 {
		open := 0
		for range 2 * questionsOpenMax {
			if end, ok := q.begin(fmt.Sprint(source), now); ok {
				ends = append(ends, end)
				open++
			}
		}
		if source < questionsOfAll {
			assert.Equal(t, questionsOpenMax, open)
		} else {
			assert.Zero(t, open, "of all sources together")
		}
	}
	ends[len(ends)-1]()
	now = now.Add(time.Hour)
	assert.Equal(t, 1, q.ask("late", 1, now))
	assert.Zero(t, q.ask("0", 1, now), "its open ones count until they end")
	for _, end := range ends[:len(ends)-1] {
		end()
	}
	assert.Equal(t, 1, q.ask("0", 1, now))
}

// Without TLS, the connections of one host are one source. With TLS, a member is one, from wherever it calls.
func TestQuestions_WhoIsOneSource(t *testing.T) {
	q := raft.Who{From: raft.Peer{ID: "a"}}
	plain, secured := &TCP{}, &TCP{options: Options{TLS: new(tls.Config)}}
	assert.Equal(t, plain.sourceOf(callerAt("10.0.0.1:1"), q), plain.sourceOf(callerAt("10.0.0.1:2"), q))
	assert.NotEqual(t, plain.sourceOf(callerAt("10.0.0.1:1"), q), plain.sourceOf(callerAt("10.0.0.2:1"), q))
	assert.Equal(t, secured.sourceOf(callerAt("10.0.0.1:1"), q), secured.sourceOf(callerAt("10.0.0.2:1"), q))
}

// callerAt returns a connection from an address.
func callerAt(address string) net.Conn {
	return called{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

type called struct {
	net.Conn
	from net.Addr
}

func (c called) RemoteAddr() net.Addr { return c.from }

// What needs other members gets longer than a handshake.
func TestWho_TheTimeOfAnAnswer(t *testing.T) {
	o := Options{HandshakeTimeout: time.Second}
	assert.Equal(t, time.Second, o.whoTime(raft.Who{}))
	assert.Equal(t, whoWorkMax, o.whoTime(raft.Who{Confirm: true}))
	assert.Equal(t, whoWorkMax, o.whoTime(raft.Who{Petition: &raft.Petition{}}))
}

// A caller that never closes after its answer holds no connection.
func TestWho_ACallerThatStaysAfterItsAnswer(t *testing.T) {
	b, err := Listen("127.0.0.1:0", Options{HandshakeTimeout: 200 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	r := transporttest.NewRecorder("b")
	r.Answer = func(context.Context, raft.Who) (raft.WhoReply, error) {
		return raft.WhoReply{From: r.Self.From, ClusterName: r.Self.ClusterName}, nil
	}
	require.NoError(t, b.Start(r))
	q := raft.Who{ClusterName: r.Self.ClusterName, From: raft.Peer{ID: "a", Incarnation: 1}, Address: "a:1"}
	question := opening{versions: versions{raft.ProtocolFounding, ours.max}, who: &q}.encode()
	var answer []byte
	for tries := 0; len(answer) == 0 && tries < 100; tries++ { // on a slow machine, a question may come too late
		c := call(t, b)
		_, _ = c.conn.Write(question)
		answer = c.untilClosed() // the member ends the connection
		require.NoError(t, c.conn.Close())
	}
	assert.NotEmpty(t, answer)
}

func TestWho_WhatNoMemberAsksOrAnswersIsRefused(t *testing.T) {
	long := strings.Repeat("a", 2000)
	question := func(change func(*wireWho)) []byte {
		w := wireWho{ClusterName: "test", ID: "a", Incarnation: 1, Address: "a:1", Petitions: true}
		change(&w)
		return encodeMeta(w)
	}
	for name, meta := range map[string][]byte{
		"no msgpack": {0xc1}, "nested": bytes.Repeat([]byte{0x91}, 1000),
		"no cluster":                 question(func(w *wireWho) { w.ClusterName = "" }),
		"a newline in the id":        question(func(w *wireWho) { w.ID = "a\n" }),
		"a long address":             question(func(w *wireWho) { w.Address = long }),
		"a long Meta":                question(func(w *wireWho) { w.Meta = long }),
		"a petition without address": question(func(w *wireWho) { w.Address = "" }),
		"a petition of nobody":       question(func(w *wireWho) { w.Incarnation = 0 }),
	} {
		_, err := decodeWho(meta)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err := decodeWho(question(func(*wireWho) {}))
	require.NoError(t, err)

	member := wireMember{ID: "a", Address: "a:1", Incarnation: 1}
	answer := func(change func(*wireWhoReply)) []byte {
		w := wireWhoReply{ClusterName: "test", ID: "a", Incarnation: 1, Members: encodeMeta([]wireMember{member})}
		change(&w)
		return encodeMeta(w)
	}
	members := func(change func(*wireMember)) []byte {
		m := member
		change(&m)
		return answer(func(w *wireWhoReply) { w.Members = encodeMeta([]wireMember{m}) })
	}
	for name, meta := range map[string][]byte{
		"no msgpack":           {0xc1},
		"no incarnation":       answer(func(w *wireWhoReply) { w.Incarnation = 0 }),
		"a wrong name":         answer(func(w *wireWhoReply) { w.ClusterName = "a b" }),
		"half a cluster id":    answer(func(w *wireWhoReply) { w.Cluster = []byte{1} }),
		"a term near 2^64":     answer(func(w *wireWhoReply) { w.Term = math.MaxUint64 }),
		"an index near 2^64":   answer(func(w *wireWhoReply) { w.Index = math.MaxUint64 }),
		"a wrong leader":       answer(func(w *wireWhoReply) { w.Leader = "\x00" }),
		"a wrong bootstrapper": answer(func(w *wireWhoReply) { w.BootstrapperID = long }),
		"a long Meta":          answer(func(w *wireWhoReply) { w.Meta = long }),
		"an empty founder":     answer(func(w *wireWhoReply) { w.Founders = "a  b" }),
		"too many founders":    answer(func(w *wireWhoReply) { w.Founders = strings.Repeat("a ", raft.MembersMax) + "a" }),
		"no list of members":   answer(func(w *wireWhoReply) { w.Members = []byte{1} }),
		"an empty list":        answer(func(w *wireWhoReply) { w.Members = []byte{0x90} }),
		"256 members":          answer(func(w *wireWhoReply) { w.Members = append([]byte{0xdc, 1, 0}, make([]byte, 256)...) }),
		"a member twice":       answer(func(w *wireWhoReply) { w.Members = encodeMeta([]wireMember{member, member}) }),
		"no address":           members(func(m *wireMember) { m.Address = "" }),
		"a long address":       members(func(m *wireMember) { m.Address = long }),
		"an open member":       members(func(m *wireMember) { m.Incarnation = 0 }),
		"an unknown kind":      members(func(m *wireMember) { m.Kind = 99 }),
		"a priority":           members(func(m *wireMember) { m.Priority = math.MaxInt8 }),
		"a member id":          members(func(m *wireMember) { m.ID = "é" }),
	} {
		_, err := decodeWhoReply(meta)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err = decodeWhoReply(answer(func(*wireWhoReply) {}))
	require.NoError(t, err)
}

// Only questions and answers that a member can send are decoded.
func FuzzWho(f *testing.F) {
	f.Add(false, encodeWho(raft.Who{ClusterName: "test", From: alice, Address: "a:1", Confirm: true, Petition: &raft.Petition{Meta: "m", Learner: true}}))
	f.Add(true, encodeWhoReply(raft.WhoReply{
		From: alice, ClusterName: "test", Cluster: raft.ClusterID{1}, Term: 2, Bootstrapper: bob, Founders: []raft.NodeID{"a", "b"}, Address: "a:1",
		Members: []raft.Member{{ID: "a", Address: "a:1", Incarnation: 1}}, Index: 3, Leader: "b", Committed: true, Reason: "why",
	}))
	f.Fuzz(func(t *testing.T, answer bool, meta []byte) {
		kind := frameWho
		if answer {
			kind = frameWhoReply
		}
		sent := opening{versions: ours}.encode()[:openingBytes]
		o, err := readOpening(newFrameReader(bytes.NewReader(appendFrame(sent, kind, meta, 0)), FrameBytesMax))
		if err != nil {
			return
		}
		same, err := readOpening(newFrameReader(bytes.NewReader(o.encode()), FrameBytesMax))
		require.NoError(t, err)
		require.Equal(t, o, same)
	})
}
