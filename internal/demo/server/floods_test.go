package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raw connects to the member and writes the text.
func (m member) raw(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", m.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

func read(t *testing.T, from io.Reader) response {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(from), nil)
	require.NoError(t, err)
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return response{answer, string(data)}
}

func TestServer_EveryErrorIsInJSON(t *testing.T) {
	m := newMember(t, "n1")
	const end = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, row := range []struct {
		rule, request string
		want          admin.Code
		status        int
	}{
		{"a bad escape in the path", "GET /kv/%zz" + end, admin.BadRequest, 400},
		{"a bad escape in the query", "GET /kv?limit=%zz" + end, admin.BadRequest, 400},
		{"a path that could be cleaned", "GET //status" + end, admin.NotFound, 404},
		{"a path with dots", "GET /kv/../status/.." + end, admin.NotFound, 404},
		{"a path below one that has none", "GET /status/" + end, admin.NotFound, 404},
		{"no path", "OPTIONS *" + end, admin.NotFound, 404},
		{"an authority for a path", "CONNECT localhost:1" + end, admin.NotFound, 404},
		{"another method", "BREW /status" + end, admin.MethodNotAllowed, 405},
		{"headers that are too large", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*server.HeaderBytesMax) + "\r\n\r\n",
			api.HeaderTooLarge, 431},
		{"no host", "GET /status HTTP/1.1\r\n\r\n", admin.BadRequest, 400},
		{"a malformed header", "GET /status HTTP/1.1\r\nHost: localhost\r\nnone\r\n\r\n", admin.BadRequest, 400},
		{"no HTTP", "hello\r\n\r\n", admin.BadRequest, 400},
		{"another version", "PRI * HTTP/3.0\r\n\r\n", admin.BadRequest, 400},
		{"an encoding that is not known", "PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: zip\r\n\r\n", admin.BadRequest, 400},
		{"an expectation that is not known", "PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\n\r\n", admin.BadRequest, 400},
		{"metrics that are not there", "GET /metrics" + end, admin.NotFound, 404},
	} {
		t.Run(row.rule, func(t *testing.T) {
			for _, before := range []string{"", "GET /healthz" + end} { // also on a connection that was used before
				in := bufio.NewReader(m.raw(t, before+row.request))
				if before != "" {
					answer, err := http.ReadResponse(in, nil)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, answer.Body)
					require.NoError(t, err)
				}
				r := read(t, in)
				assert.Equal(t, row.status, r.StatusCode)
				assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
				assert.NotEmpty(t, r.failure(t).Remedy)
				assert.Equal(t, row.want, r.failure(t).Code)
			}
		})
	}
}

// A stored value is returned unchanged, even if it looks like an error of http.Server.
func TestServer_AValueThatLooksLikeAnErrorIsAValue(t *testing.T) {
	m := newMember(t, "n1")
	value := strings.Repeat("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n", 10000)
	m.do(t, "PUT", "/kv/k", value)
	assert.Equal(t, value, m.do(t, "GET", "/kv/k", "").body)
}

func TestBody_ThatTricklesHoldsNoSlot(t *testing.T) {
	m := newMember(t, "n1")
	for range 2 * server.RequestsMax {
		m.raw(t, "PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
	}
	assert.Equal(t, 200, m.do(t, "PUT", "/kv/k", "v").StatusCode)
}

func TestBody_TheOneThatArrivesLongestMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := serve(t, rafttest.NewFake("n1", &kv.Store{}))
		send := func(request string) net.Conn {
			client := dial()
			_, err := io.WriteString(client, request)
			require.NoError(t, err)
			return client
		}
		first := send("PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
		_, err := first.Read(make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))) // the body is being read
		require.NoError(t, err)
		for range server.BodiesMax {
			send("PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
		}
		r := read(t, first)
		assert.Equal(t, 429, r.StatusCode)
		assert.Equal(t, admin.Overloaded, r.failure(t).Code)
		assert.Equal(t, 200, read(t, send("PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nv")).StatusCode)
	})
}

// serve returns a function that connects to a server of the node. It returns the client's end of the connection.
func serve(t *testing.T, n *rafttest.Fake[*kv.Store]) (dial func() net.Conn) {
	web := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}).HTTP()
	listener := &pipes{conns: make(chan net.Conn)}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { _ = web.Close() })
	return func() net.Conn {
		client, accepted := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		listener.conns <- accepted
		return client
	}
}

// pipes is a listener that accepts the connections in the channel. They are pipes, because pipes obey the clock of a synctest
// bubble.
type pipes struct{ conns chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	if conn, open := <-p.conns; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error   { close(p.conns); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestBody_HasADeadlineThatTricklingDoesNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, rafttest.NewFake("n1", &kv.Store{}))()
		began := time.Now()
		var trickling sync.WaitGroup
		defer trickling.Wait()
		defer client.Close()
		trickling.Go(func() {
			_, err := io.WriteString(client, "PUT /kv/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
			for err == nil {
				time.Sleep(time.Second)
				_, err = client.Write([]byte("x"))
			}
		})
		r := read(t, client)
		assert.Equal(t, server.BodyTimeout, time.Since(began))
		assert.Equal(t, 408, r.StatusCode)
		assert.Equal(t, admin.BodyTimedOut, r.failure(t).Code)
	})
}

func TestReply_ThatIsNotReadEndsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.NewFake("n1", &kv.Store{})
		data, err := kv.Command{Op: kv.Put, Key: "k", Value: make([]byte, kv.ValueBytesMax)}.Encode()
		require.NoError(t, err)
		_, err = n.Propose(t.Context(), data)
		require.NoError(t, err)
		client := serve(t, n)()
		_, err = io.WriteString(client, "GET /kv/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		time.Sleep(server.ReplyTimeout + time.Second)
		left, _ := io.ReadAll(client)
		assert.Less(t, len(left), kv.ValueBytesMax/2)
	})
}

// Unread replies use up RepliesBytesMax. The server cuts off the oldest replies, so that other replies arrive.
func TestReply_TheOneThatIsWrittenLongestMakesRoom(t *testing.T) {
	m := newMember(t, "n1")
	value := strings.Repeat("v", kv.ValueBytesMax)
	require.Equal(t, 200, m.do(t, "PUT", "/kv/k", value).StatusCode)
	var silent []net.Conn
	for range 2 * server.RepliesBytesMax / kv.ValueBytesMax {
		silent = append(silent, m.raw(t, "GET /kv/k HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	// A request above may be read after this one, and then its reply cuts off this one, so the client asks again.
	require.Eventually(t, func() bool {
		answer, err := m.Client().Get(m.URL + "/kv/k")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return err == nil && string(body) == value
	}, time.Minute, time.Millisecond)
	whole := 0
	for _, conn := range silent {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue
		}
		if n, _ := io.Copy(io.Discard, answer.Body); n == kv.ValueBytesMax {
			whole++
		}
	}
	assert.Less(t, whole, len(silent), "at least one made room") // others may be read only when there is room again
}
