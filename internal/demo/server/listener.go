package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// Listener wraps the listener for the http.Server of HTTP. On its connections, the kernel buffers few bytes that a client
// does not read. Errors that http.Server itself writes are in JSON.
func Listener(inner net.Listener) net.Listener { return listener{inner} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	tcp, ok := accepted.(*net.TCPConn)
	if err != nil || !ok {
		return accepted, err
	}
	_ = tcp.SetWriteBuffer(replyBufferBytes) // if this fails, the connection keeps the system's default
	return &conn{TCPConn: tcp}, nil
}

// conn is a client's connection.
type conn struct {
	*net.TCPConn
	answering atomic.Bool // the handler is answering a request
}

// Write turns the errors of http.Server itself into JSON. When http.Server cannot read a request, it writes an error as text,
// and no handler sees it.
func (c *conn) Write(b []byte) (int, error) {
	if c.answering.Load() {
		return c.TCPConn.Write(b)
	}
	replaced, ok := inJSON(b)
	if !ok {
		return c.TCPConn.Write(b)
	}
	if _, err := c.TCPConn.Write(replaced); err != nil {
		return 0, err
	}
	return len(b), nil
}

// inJSON returns the API's error for a response that http.Server itself wrote. It returns false if b is not such a response.
func inJSON(response []byte) ([]byte, bool) {
	status, rest, found := bytes.Cut(response, []byte("\r\n"))
	if !found || !bytes.HasPrefix(status, []byte("HTTP/1.")) || len(status) < len("HTTP/1.1 400") {
		return nil, false
	}
	if class := status[len("HTTP/1.1 ")]; class != '4' && class != '5' {
		return nil, false
	}
	_, text, _ := strings.Cut(string(rest), "\r\n\r\n")
	if text == "" {
		text = string(status[len("HTTP/1.1 "):])
	}
	failure := api.Errorf(admin.BadRequest, "correct the request", "it is no request of HTTP/1.1: %s", text)
	if bytes.HasPrefix(status[len("HTTP/1.1 "):], []byte("431")) {
		failure = api.Errorf(api.HeaderTooLarge, "send less in the path and the headers",
			"the headers are over the limit of %d bytes", HeaderBytesMax)
	}
	a := fail(failure)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		a.status, http.StatusText(a.status), len(a.body), a.body), true
}

// reset ends the connection at once. The kernel drops the bytes that the client has not read.
func (c *conn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of the request. It returns nil if the connection did not come through Listener.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// onState counts the connections, and records that an answer has been written completely.
func (s *Server) onState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
	if mine, ok := c.(*conn); ok && state == http.StateIdle {
		mine.answering.Store(false)
	}
}
