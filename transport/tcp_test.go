package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start starts a member on loopback.
func start(t *testing.T, id raft.NodeID, opts transport.Options) (*transport.TCP, *transporttest.Recorder) {
	t.Helper()
	leaks.Check(t)
	tcp, err := transport.Listen(loopback, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, tcp.Close()) })
	r := transporttest.NewRecorder(id)
	require.NoError(t, tcp.Start(r))
	return tcp, r
}

// at returns an open contact.
func at(id raft.NodeID, address string) []raft.Contact {
	return []raft.Contact{{Member: raft.Member{ID: id}, Addresses: []string{address}}}
}

// firstOf returns the identity of a new Recorder with this id.
func firstOf(id raft.NodeID) raft.Peer { return transporttest.NewRecorder(id).Self.From }

func TestListen_PortInUseIsAClearError(t *testing.T) {
	first, err := transport.Listen(loopback, transport.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()
	_, err = transport.Listen(first.Addr().String(), transport.Options{})
	var failed *transport.ListenError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, first.Addr().String(), failed.Address)
	assert.Contains(t, err.Error(), "cannot listen on "+failed.Address)
}

func TestListen_BeyondLoopbackNeedsTLSOrInsecure(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		_, err := transport.Listen(address, transport.Options{})
		var insecure *transport.InsecureError
		require.ErrorAs(t, err, &insecure, address)
	}
	everywhere := &listenerAt{address: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}}
	_, err := transport.New(everywhere, nil, transport.Options{})
	var insecure *transport.InsecureError
	require.ErrorAs(t, err, &insecure)
	_, err = transport.New(everywhere, nil, transport.Options{Insecure: true})
	require.NoError(t, err)
}

// listenerAt is a listener that has only an address.
type listenerAt struct {
	net.Listener
	address net.Addr
}

func (l *listenerAt) Addr() net.Addr { return l.address }

func TestDial_BeyondLoopbackNeedsTLSOrInsecure(t *testing.T) {
	a, r := start(t, "a", transport.Options{})
	a.Connect(at("b", "192.0.2.1:4001"))
	r.AwaitLost(t, "b", false)
	var insecure *transport.InsecureError
	require.ErrorAs(t, a.Peer(firstOf("b")).Err, &insecure)
}

func TestOptions_ValidateNamesEveryProblem(t *testing.T) {
	_, err := transport.Listen(loopback, transport.Options{
		FrameBytesMax: 1, HandshakesMax: -1, IdleTimeout: time.Nanosecond, RedialMin: time.Minute,
	})
	for _, field := range []string{"FrameBytesMax", "HandshakesMax", "IdleTimeout", "RedialMin"} {
		require.ErrorContains(t, err, "Options."+field)
	}
}

func TestDial_AddressThatDoesNotResolveIsReportedAndTriedAgain(t *testing.T) {
	a, r := start(t, "a", transport.Options{})
	a.Connect(at("b", "no-such-host.invalid:4001"))
	r.AwaitLost(t, "b", false)
	status := a.Peer(firstOf("b"))
	assert.False(t, status.Connected)
	require.ErrorContains(t, status.Err, "no-such-host.invalid", "it names the host that did not resolve")
	r.AwaitLost(t, "b", false)
}

func TestListen_AddressThatDoesNotResolveIsAClearError(t *testing.T) {
	_, err := transport.Listen("no-such-host.invalid:0", transport.Options{})
	var failed *transport.ListenError
	require.ErrorAs(t, err, &failed)
	assert.ErrorContains(t, err, "no-such-host.invalid")
}

func TestDial_ResolverIsAskedForEachDial(t *testing.T) {
	b, _ := start(t, "b", transport.Options{})
	var asked atomic.Int32
	unknown := errors.New("unknown member")
	resolve := func(_ context.Context, m raft.Member) (string, error) {
		if asked.Add(1) <= 2 {
			return "", unknown
		}
		assert.Equal(t, "service:b", m.Address)
		return b.Addr().String(), nil
	}
	a, r := start(t, "a", transport.Options{Resolve: resolve})
	a.Connect(at("b", "service:b"))
	r.AwaitLost(t, "b", false)
	assert.Equal(t, "service:b", a.Peer(firstOf("b")).Address, "it was dialed nowhere")
	r.AwaitUp(t, "b")
	assert.NoError(t, a.Peer(firstOf("b")).Err)
	assert.Positive(t, a.Peer(firstOf("b")).RoundTrip)
	assert.Equal(t, b.Addr().String(), a.Peer(firstOf("b")).Address)
}

// A resolver may know two addresses, and return them in turns. The peer answers at one of them.
func TestDial_AllLanesGoToOneAddress(t *testing.T) {
	gone, _ := start(t, "b", transport.Options{})
	require.NoError(t, gone.Close())
	b, seen := start(t, "b", transport.Options{})
	var asked atomic.Int32
	a, r := start(t, "a", transport.Options{Resolve: func(context.Context, raft.Member) (string, error) {
		if asked.Add(1)%2 == 0 {
			return gone.Addr().String(), nil
		}
		return b.Addr().String(), nil
	}})
	a.Connect(at("b", "service:b"))
	r.AwaitUp(t, "b")
	m := raft.Message{From: raft.Peer{ID: "a", Incarnation: 1}, To: raft.Peer{ID: "b", Incarnation: 1}, Body: transporttest.Request(1, 100)}
	require.NoError(t, a.Send(firstOf("b"), raft.LaneForward, []raft.Message{m}))
	assert.Equal(t, m, seen.AwaitMessages(t, 1)[0])
	assert.EqualValues(t, 1, asked.Load())
}

// The address of a member may be the address of a proxy or a tunnel, and the proxy or tunnel may not run.
func TestDial_TheLogAndPeerStatusNameTheDialedAddress(t *testing.T) {
	b, _ := start(t, "b", transport.Options{})
	gone := b.Addr().String()
	require.NoError(t, b.Close())
	var log bytes.Buffer
	a, r := start(t, "a", transport.Options{
		Resolve: func(context.Context, raft.Member) (string, error) { return gone, nil },
		Logger:  hclog.New(&hclog.LoggerOptions{Output: &log}),
	})
	a.Connect(at("b", "service:b"))
	r.AwaitLost(t, "b", false)
	assert.Equal(t, gone, a.Peer(firstOf("b")).Address)
	require.NoError(t, a.Close())
	assert.Contains(t, log.String(), "peer is not connected: peer=b address="+gone)
}

func TestConnect_NewAddressIsDialedInPlaceOfTheOldOne(t *testing.T) {
	old, _ := start(t, "b", transport.Options{})
	moved, seen := start(t, "b", transport.Options{})
	a, r := start(t, "a", transport.Options{})
	a.Connect(at("b", old.Addr().String()))
	r.AwaitUp(t, "b")
	a.Connect(at("b", moved.Addr().String()))
	r.AwaitLost(t, "b", false)
	r.AwaitUp(t, "b")
	m := raft.Message{From: raft.Peer{ID: "a", Incarnation: 1}, To: raft.Peer{ID: "b", Incarnation: 1}, Body: raft.TimeoutNow{}}
	require.NoError(t, a.Send(firstOf("b"), raft.LaneUrgent, []raft.Message{m}))
	assert.Equal(t, m, seen.AwaitMessages(t, 1)[0])
}

func TestSend_MessageOverTheLimitIsLeftOutAndTheOthersArrive(t *testing.T) {
	b, seen := start(t, "b", transport.Options{})
	a, r := start(t, "a", transport.Options{FrameBytesMax: 64 << 10})
	a.Connect(at("b", b.Addr().String()))
	r.AwaitUp(t, "b")
	message := func(body raft.Body) raft.Message {
		return raft.Message{From: raft.Peer{ID: "a", Incarnation: 1}, To: raft.Peer{ID: "b", Incarnation: 1}, Term: 7, Body: body}
	}
	batch := []raft.Message{
		message(raft.AppendReply{Match: 1}),
		message(transporttest.Append(raft.EntryID{Term: 7}, []int{70 << 10}, 0)),
		message(raft.AppendReply{Match: 2}),
	}
	err := a.Send(firstOf("b"), raft.LaneBulk, batch)
	require.ErrorIs(t, err, transport.ErrOversized)
	assert.Equal(t, []raft.Message{batch[0], batch[2]}, seen.AwaitMessages(t, 2))
	assert.True(t, a.Peer(firstOf("b")).Connected)
	assert.Equal(t, uint64(1), a.Stats().Unsendable)
}

func TestSend_AnAppendOfAppendBytesMaxArrives(t *testing.T) {
	options := transport.Options{FrameBytesMax: 64 << 10}
	b, seen := start(t, "b", options)
	a, r := start(t, "a", options)
	a.Connect(at("b", b.Addr().String()))
	r.AwaitUp(t, "b")
	size := a.AppendBytesMax() - raft.RecordOverheadBytes
	m := raft.Message{
		From: raft.Peer{ID: "a", Incarnation: 1}, To: raft.Peer{ID: "b", Incarnation: 1}, Term: 7,
		Body: transporttest.Append(raft.EntryID{Term: 7}, []int{size}, 0),
	}
	require.NoError(t, a.Send(firstOf("b"), raft.LaneBulk, []raft.Message{m}))
	seen.AwaitMessages(t, 1)
}

// No member sends anything for many times the IdleTimeout, and every connection stays open.
func TestBeats_KeepSilentConnectionsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a, b := n.New(t, "a").(*transport.TCP), n.New(t, "b").(*transport.TCP)
		r := transporttest.NewRecorder("a")
		require.NoError(t, a.Start(r))
		require.NoError(t, b.Start(transporttest.NewRecorder("b")))
		a.Connect(at("b", n.Address("b")))
		r.AwaitUp(t, "b")
		time.Sleep(time.Hour)
		assert.True(t, a.Peer(firstOf("b")).Connected)
		assert.Equal(t, uint64(1), a.Stats().Dialed)
		assert.Equal(t, 2, b.Stats().Inbound)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// shortOfFiles is a listener that fails for a while, as if the process had too many open files.
type shortOfFiles struct {
	net.Listener
	failures int
}

func (l *shortOfFiles) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestAccept_ContinuesAfterFailuresAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a := n.New(t, "a").(*transport.TCP)
		b, err := transport.New(&shortOfFiles{n.listen("b"), 5}, n.dial, transport.Options{})
		require.NoError(t, err)
		r := transporttest.NewRecorder("a")
		require.NoError(t, a.Start(r))
		require.NoError(t, b.Start(transporttest.NewRecorder("b")))
		a.Connect(at("b", n.Address("b")))
		r.AwaitUp(t, "b")
		assert.Equal(t, uint64(5), b.Stats().AcceptFailed)
		require.NoError(t, b.Close())
		r.AwaitLost(t, "b", true)
		assert.Equal(t, uint64(1), a.Stats().Lost)
		require.NoError(t, a.Close())
	})
}

func TestRejection_IsTheErrorOfThePeer(t *testing.T) {
	b, judge := start(t, "b", transport.Options{})
	judge.Self.ClusterName = "another"
	a, r := start(t, "a", transport.Options{})
	a.Connect(at("b", b.Addr().String()))
	r.AwaitRejected(t, "b")
	var refused *transport.RejectedError
	require.ErrorAs(t, a.Peer(firstOf("b")).Err, &refused)
	assert.Equal(t, raft.Peer{ID: "b"}, refused.By, "as it was dialed")
	var rejection *raft.Rejection
	require.ErrorAs(t, a.Peer(firstOf("b")).Err, &rejection)
	assert.Equal(t, raft.RejectClusterName, rejection.Reason)
	assert.Positive(t, b.Stats().Rejected[raft.RejectClusterName])
}

// The host of a peer vanishes, so the stream of the peer does not end. The silence of the peer ends the connection.
func TestBeats_SilentAcceptorIsGivenUp(t *testing.T) {
	leaks.Check(t)
	const idle = 50 * time.Millisecond
	silent, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, silent.Close()) })
	a, r := start(t, "a", transport.Options{IdleTimeout: idle})
	go func() { // b answers the handshakes, and sends nothing more
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			defer func() { _ = conn.Close() }()
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = conn.Write(transport.EncodeHello(raft.Hello{
				ClusterName: "test", From: firstOf("b"), Expected: r.Self.From, StartCount: 1, IdleTimeout: idle,
			}))
		}
	}()
	a.Connect(at("b", silent.Addr().String()))
	r.AwaitUp(t, "b")
	r.AwaitLost(t, "b", false)
}

// b answers on the urgent lane, and closes the bulk lane. Then a closes the urgent lane, too.
func TestDialPair_ClosesTheFirstLaneIfTheSecondFails(t *testing.T) {
	leaks.Check(t)
	half, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, half.Close()) })
	a, r := start(t, "a", transport.Options{})
	a.Connect(at("b", half.Addr().String()))
	urgent, err := half.Accept()
	require.NoError(t, err)
	defer func() { _ = urgent.Close() }()
	_, err = urgent.Read(make([]byte, 1024))
	require.NoError(t, err)
	_, err = urgent.Write(transport.EncodeHello(raft.Hello{ClusterName: "test", From: firstOf("b"), Expected: r.Self.From, StartCount: 1}))
	require.NoError(t, err)
	bulk, err := half.Accept()
	require.NoError(t, err)
	require.NoError(t, bulk.Close())
	require.NoError(t, urgent.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = urgent.Read(make([]byte, 1))
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// One member has a short IdleTimeout, and its peer beats less often. The member does not give up the peer.
func TestBeats_OfTwoIdleTimeoutsTheLongerOneHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{IdleTimeout: time.Minute})
		a, err := transport.New(n.listen("a"), n.dial, transport.Options{IdleTimeout: time.Second})
		require.NoError(t, err)
		b := n.New(t, "b").(*transport.TCP)
		join(t, a, b)
		time.Sleep(10 * time.Minute)
		assert.Zero(t, a.Stats().Lost+a.Stats().Silent)
		assert.Zero(t, b.Stats().Lost+b.Stats().Silent)
	})
}

func TestLogger_WarnsOnceForEachKindOfTrouble(t *testing.T) {
	var log bytes.Buffer
	opts := transport.Options{Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), RedialMax: 20 * time.Millisecond}
	a, r := start(t, "a", opts)
	a.Connect(at("b", "127.0.0.1:1")) // a port that no server of this test can get
	for range 5 {
		r.AwaitLost(t, "b", false)
	}
	require.NoError(t, a.Close())
	assert.Equal(t, 1, strings.Count(log.String(), "peer is not connected"))
	assert.GreaterOrEqual(t, a.Stats().DialFailed, uint64(5))
}

func TestClose_LeavesNoGoroutine(t *testing.T) {
	ids := []raft.NodeID{"a", "b", "c"}
	var contacts []raft.Contact
	var tcps []*transport.TCP
	var recorders []*transporttest.Recorder
	for _, id := range ids {
		tcp, r := start(t, id, transport.Options{})
		tcps, recorders = append(tcps, tcp), append(recorders, r)
		contacts = append(contacts, at(id, tcp.Addr().String())...)
	}
	for _, tcp := range tcps {
		tcp.Connect(contacts)
	}
	for i, r := range recorders {
		for range 2 {
			r.Await(t, "up", func(e transporttest.Event) bool { return e.Kind == transporttest.EventUp })
		}
		if i == 0 {
			require.NotEmpty(t, goroutinesOfTransport())
		}
	}
	for _, tcp := range tcps {
		require.NoError(t, tcp.Close())
	}
	assert.Empty(t, goroutinesOfTransport())
	assert.Zero(t, tcps[0].Stats().Inbound)
}

// goroutinesOfTransport returns the stacks of goroutines that run methods of the package.
func goroutinesOfTransport() []string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	var ours []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "raft/transport.(*") {
			ours = append(ours, stack)
		}
	}
	return ours
}

// One member sends to another over loopback, in batches like those of a busy leader.
func BenchmarkTCP_Send(b *testing.B) {
	for _, row := range []struct {
		name  string
		sizes []int
	}{
		{"64 entries of 128 B", slices.Repeat([]int{128}, 64)},
		{"1 entry of 1 MiB", []int{1 << 20}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var got atomic.Int64
			receiver, err := transport.Listen(loopback, transport.Options{})
			require.NoError(b, err)
			defer func() { _ = receiver.Close() }()
			require.NoError(b, receiver.Start(counting{transporttest.NewRecorder("b"), &got}))
			sender, err := transport.Listen(loopback, transport.Options{})
			require.NoError(b, err)
			defer func() { _ = sender.Close() }()
			r := transporttest.NewRecorder("a")
			require.NoError(b, sender.Start(r))
			sender.Connect(at("b", receiver.Addr().String()))
			require.Eventually(b, func() bool { return sender.Peer(firstOf("b")).Connected }, time.Minute, time.Millisecond)
			batch := []raft.Message{{
				From: r.Self.From, To: raft.Peer{ID: "b", Incarnation: 1}, Term: 7,
				Body: transporttest.Append(raft.EntryID{Term: 7}, row.sizes, 0),
			}}
			frame, err := transport.EncodeMessage(batch[0])
			require.NoError(b, err)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if err := sender.Send(firstOf("b"), raft.LaneBulk, batch); err != nil {
					b.Fatal(err)
				}
			}
			require.Eventually(b, func() bool { return got.Load() >= int64(b.N) }, time.Minute, time.Millisecond)
		})
	}
}

// counting is a Handler that only counts received messages.
type counting struct {
	*transporttest.Recorder
	got *atomic.Int64
}

func (c counting) Receive(_ raft.Peer, batch []raft.Message) { c.got.Add(int64(len(batch))) }
