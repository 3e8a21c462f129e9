package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// question is that of a member of the cluster "test".
func question(id raft.NodeID) raft.Who {
	return raft.Who{ClusterName: "test", From: firstOf(id), Address: string(id) + ":1"}
}

// Each transport of this package carries each field of the question and of the answer.
func TestWho_EveryFieldArrives(t *testing.T) {
	ca := newAuthority(t)
	network := transport.NewNetwork()
	rows := map[string]func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string){
		"tcp": func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			tcp, err := transport.Listen(loopback, transport.Options{})
			require.NoError(t, err)
			return tcp, tcp.Addr().String()
		},
		"tls": func(t *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			tcp, err := transport.Listen(loopback, ca.member(t, "test", id))
			require.NoError(t, err)
			return tcp, tcp.Addr().String()
		},
		"memory": func(_ *testing.T, id raft.NodeID) (raft.WhoCarrier, string) {
			return network.Join(id), string(id) + ":1"
		},
	}
	asked := raft.Who{
		ClusterName: "test", From: raft.Peer{ID: "a", Incarnation: 7}, Address: "a:1", Confirm: true,
		Petition: &raft.Petition{Meta: "http://a", Learner: true},
	}
	answer := raft.WhoReply{
		From: raft.Peer{ID: "b", Incarnation: 1}, ClusterName: "test", Cluster: raft.ClusterID{1}, Term: 2, Bootstrapper: raft.Peer{ID: "c", Incarnation: 3},
		Founders: []raft.NodeID{"a", "b", "c"}, Address: "b:1", Meta: "http://b", Leader: "c",
		Members: []raft.Member{
			{ID: "b", Address: "b:1", Incarnation: 1, Meta: "http://b", Priority: 3},
			{ID: "b", Address: "b:2", Incarnation: 4, Kind: raft.Learner}, {ID: "c", Address: "c:1", Incarnation: 3, Kind: raft.Leaving},
		},
		Index: 9, Committed: true, Confirmed: true, Granted: true, Reason: "because",
	}
	for name, join := range rows {
		t.Run(name, func(t *testing.T) {
			a, _ := join(t, "a")
			b, address := join(t, "b")
			defer func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) }()
			got := make(chan raft.Who, 1)
			r := transporttest.NewRecorder("b")
			r.Answer = func(_ context.Context, q raft.Who) (raft.WhoReply, error) {
				got <- q
				return answer, nil
			}
			require.NoError(t, b.Start(r))
			reply, err := a.Who(t.Context(), address, asked)
			require.NoError(t, err)
			assert.Equal(t, asked, <-got)
			assert.Equal(t, answer, reply)
			assert.Zero(t, r.Count(), "a question is no handshake, and makes no contact")
		})
	}
}

// A cut that is made while a member answers loses the answer.
func TestWho_ACutOfTheNetworkLosesTheAnswer(t *testing.T) {
	network := transport.NewNetwork()
	a, b := network.Join("a"), network.Join("b")
	defer func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) }()
	r := transporttest.NewRecorder("b")
	r.Answer = func(context.Context, raft.Who) (raft.WhoReply, error) {
		network.Cut("a", "b")
		return raft.WhoReply{From: firstOf("b"), ClusterName: "test"}, nil
	}
	require.NoError(t, b.Start(r))
	_, err := a.Who(t.Context(), "b:1", question("a"))
	require.ErrorAs(t, err, new(*transport.WhoError))
}

// answering listens, reads a question, and answers each caller with these bytes. nil: it says nothing and closes nothing.
func answering(t *testing.T, with []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	var conns sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = conn.Write(with)
				if with == nil {
					_, _ = io.Copy(io.Discard, conn) // until the caller gives up
				}
			})
		}
	})
	return l.Addr().String()
}

// What a member says about itself gets into the configuration, also through JSON.
func TestWho_TextsAreUTF8(t *testing.T) {
	a, _ := start(t, "a", transport.Options{})
	b, r := start(t, "b", transport.Options{})
	reply := raft.WhoReply{From: firstOf("b"), ClusterName: "test"}
	r.Answer = func(context.Context, raft.Who) (raft.WhoReply, error) { return reply, nil }
	q := raft.Who{ClusterName: "test", From: firstOf("a"), Address: "a:1", Petition: &raft.Petition{}}
	_, err := a.Who(t.Context(), b.Addr().String(), q)
	require.NoError(t, err)
	q.Petition.Meta = "\xff"
	_, err = a.Who(t.Context(), b.Addr().String(), q)
	require.Error(t, err, "the question is malformed")
	q.Petition.Meta, reply.Meta = "", "\xff"
	_, err = a.Who(t.Context(), b.Addr().String(), q)
	require.ErrorIs(t, err, transport.ErrMalformed)
}

func TestWho_WhateverAnswersInsteadIsAClearError(t *testing.T) {
	leaks.Check(t)
	a, _ := start(t, "a", transport.Options{HandshakeTimeout: time.Minute})
	hasty, _ := start(t, "a", transport.Options{HandshakeTimeout: 300 * time.Millisecond})
	other, r := start(t, "z", transport.Options{})
	r.Self.ClusterName = "other"
	liar, r := start(t, "y", transport.Options{})
	r.Answer = func(_ context.Context, q raft.Who) (raft.WhoReply, error) {
		return raft.WhoReply{From: firstOf("y"), ClusterName: "other"}, nil
	}
	mute, r := start(t, "x", transport.Options{})
	r.Answer = func(context.Context, raft.Who) (raft.WhoReply, error) { return raft.WhoReply{}, errors.New("no") }
	earlier := func(versions uint16, reason raft.RejectReason) []byte {
		return transport.EncodeRejection(raft.Rejection{Reason: reason, From: firstOf("n2"), VersionsMin: 1, VersionsMax: versions})
	}
	hello := raft.Hello{ClusterName: "test", From: firstOf("b"), Expected: firstOf("a"), StartCount: 1}
	rows := map[string]struct {
		address string
		says    string
		is      error
	}{
		"nobody":                              {"127.0.0.1:1", "refused", nil},
		"an address without a port":           {"127.0.0.1", "missing port", nil},
		"an empty address":                    {"", "missing", nil},
		"a host that there is not":            {"no-such-host.invalid:1", "no-such-host.invalid", nil},
		"a host beyond loopback, without TLS": {"192.0.2.1:1", "is not a loopback address", nil},
		"a process that says nothing":         {answering(t, nil), "did not answer in time", os.ErrDeadlineExceeded},
		"a process that closes":               {answering(t, []byte{}), "without an answer", io.EOF},
		"another protocol":                    {answering(t, []byte("HTTP/1.1 400 Bad Request\r\n\r\n")), "HTTP/1.1", transport.ErrMalformed},
		"half an answer":                      {answering(t, []byte("coxswain\x01\x00")), "ended", transport.ErrMalformed},
		"a hello":                             {answering(t, transport.EncodeHello(hello)), "with a handshake", transport.ErrMalformed},
		"an earlier release":                  {answering(t, earlier(6, raft.RejectVersion)), "before v0.7.0", transport.ErrVersion},
		"a release that knows no such frame":  {answering(t, earlier(6, raft.RejectMalformed)), `"n2" runs a release before v0.7.0`, transport.ErrVersion},
		"a member of another cluster":         {other.Addr().String(), `"other"`, nil},
		"a member that misnames its cluster":  {liar.Addr().String(), `"other"`, nil},
		"a member that ends":                  {mute.Addr().String(), "without an answer", io.EOF},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			asks := a
			if row.is == os.ErrDeadlineExceeded {
				asks = hasty
			}
			_, err := asks.Who(t.Context(), row.address, question("a"))
			var failed *transport.WhoError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, row.address, failed.Address)
			assert.Contains(t, err.Error(), row.says)
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
		})
	}
	var rejected *transport.RejectedError
	_, err := a.Who(t.Context(), other.Addr().String(), question("a"))
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, raft.RejectClusterName, rejected.Rejection.Reason)
	assert.Equal(t, firstOf("z"), rejected.By)
}

func TestWho_EndsWithItsContextAndWithTheTransport(t *testing.T) {
	silent := answering(t, nil)
	a, _ := start(t, "a", transport.Options{HandshakeTimeout: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := a.Who(ctx, silent, question("a"))
	require.ErrorIs(t, err, context.Canceled)
	failed := make(chan error, 1)
	go func() {
		_, err := a.Who(t.Context(), silent, question("a"))
		failed <- err
	}()
	require.NoError(t, a.Close())
	require.ErrorIs(t, <-failed, raft.ErrClosed)
}

// Without a valid certificate, nobody learns anything, and nobody's answer counts.
func TestWho_TheCertificatesOfBothSidesAreChecked(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	own := ca.member(t, "test", "a")
	b, r := start(t, "b", ca.member(t, "test", "b"))
	asked := false
	r.Answer = func(context.Context, raft.Who) (raft.WhoReply, error) {
		asked = true
		return raft.WhoReply{}, errors.New("no")
	}
	for name, options := range map[string]transport.Options{
		"of another member": ca.member(t, "test", "c"), "of another cluster": ca.member(t, "other", "a"),
		"of another authority": stranger.member(t, "test", "a"), "none": {},
	} {
		a, err := transport.Listen(loopback, options)
		require.NoError(t, err)
		q := question("a")
		q.Petition = &raft.Petition{}
		_, err = a.Who(t.Context(), b.Addr().String(), q)
		require.Error(t, err, name)
		assert.False(t, asked, name)
		if name == "of another member" { // a certificate for c petitions for a
			var refused *raft.Rejection
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, raft.RejectCertificate, refused.Reason)
		}
		require.NoError(t, a.Close())
	}
	assert.Positive(t, b.Stats().Rejected[raft.RejectCertificate])

	a, _ := start(t, "a", own)
	for name, options := range map[string]transport.Options{
		"of another member": ca.member(t, "test", "c"), "of another cluster": ca.member(t, "other", "b"),
	} {
		b, _ := start(t, "b", options)
		_, err := a.Who(t.Context(), b.Addr().String(), question("a"))
		var wrong *transport.CertificateError
		require.ErrorAs(t, err, &wrong, name)
	}
	b, _ = start(t, "b", stranger.member(t, "test", "b"))
	_, err := a.Who(t.Context(), b.Addr().String(), question("a"))
	require.ErrorContains(t, err, "TLS")
}

// A flood of questions is refused early. Meanwhile a connected member stays connected, and another one connects.
func TestWho_AFloodDisturbsNoMember(t *testing.T) {
	const callers = 200
	patient := transport.Options{IdleTimeout: time.Minute, HandshakeTimeout: time.Minute} // the flood uses the same processors
	a, ra := start(t, "a", patient)
	b, rb := start(t, "b", patient)
	b.Connect(at("a", a.Addr().String()))
	rb.AwaitUp(t, "a")
	asking := bytesOfQuestion(t)
	flood(t, a.Addr().String(), callers, asking)
	require.Eventually(t, func() bool { return a.Stats().Rejected[raft.RejectBusy] > callers }, time.Minute, time.Millisecond)
	var longest time.Duration
	message := transporttest.Messages(firstOf("b"), firstOf("a"))[0]
	for range 5 {
		began := time.Now()
		require.NoError(t, b.Send(firstOf("a"), message.Lane(), []raft.Message{message}))
		ra.Await(t, "a message", func(e transporttest.Event) bool { return e.Kind == transporttest.EventReceived })
		c, rc := start(t, "c", patient)
		c.Connect(at("a", a.Addr().String()))
		rc.AwaitUp(t, "a")
		require.NoError(t, c.Close())
		longest = max(longest, time.Since(began))
	}
	s := a.Stats()
	t.Logf("a message and a new connection took at most %v; %d questions were answered and %d refused", longest.Round(time.Millisecond), s.Questions, s.Rejected[raft.RejectBusy])
	assert.Zero(t, b.Stats().Lost)
}

// bytesOfQuestion returns the bytes of a question.
func bytesOfQuestion(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- ""
			return
		}
		b := make([]byte, 4096)
		n, _ := conn.Read(b)
		_ = conn.Close()
		got <- string(b[:n])
	}()
	a, err := transport.Listen(loopback, transport.Options{})
	require.NoError(t, err)
	_, err = a.Who(t.Context(), l.Addr().String(), question("f"))
	require.Error(t, err)
	require.NoError(t, errors.Join(a.Close(), l.Close()))
	return <-got
}
