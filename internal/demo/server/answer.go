package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
)

// answer is a complete answer. Handlers return an answer and do not write it. Therefore a slow client does not occupy the
// resources of a handler.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// handler answers a request whose body has arrived.
type handler func(r *http.Request, body []byte) answer

// reply returns an answer with the value as JSON.
func reply(status int, value any) answer {
	body, err := json.Marshal(value)
	if err != nil {
		return fail(api.Errorf(admin.Internal, "report this", "%v", err))
	}
	return answer{status, http.Header{"Content-Type": {"application/json"}}, append(body, '\n')}
}

// fail returns an answer that reports the error.
func fail(err *admin.Error) answer {
	c := captured{answer: answer{header: http.Header{}}}
	err.Write(&c)
	c.body = c.buf.Bytes()
	return c.answer
}

// captured is an answer that an http.Handler writes.
type captured struct {
	answer
	buf bytes.Buffer
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) WriteHeader(status int)      { c.status = status }
func (c *captured) Write(b []byte) (int, error) { return c.buf.Write(b) }

// deliver sends the answer. For each replyPieceBytes of it, the client has ReplyTimeout to read them.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, a answer) {
	connection := connOf(r)
	reset := func() {
		if connection != nil {
			connection.reset()
		}
	}
	x := s.replies.begin(reset)
	defer x.done()
	if !x.take(len(a.body)) {
		reset()
		return
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	control := http.NewResponseController(w)
	w.WriteHeader(a.status)
	for piece := range slices.Chunk(a.body, replyPieceBytes) {
		_ = control.SetWriteDeadline(time.Now().Add(ReplyTimeout))
		if _, err := w.Write(piece); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			reset()
			return
		}
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		reset()
	}
}

// readBody reads the whole body of the request within BodyTimeout. The error is an *admin.Error. When the caller no longer
// needs the bytes, it must call done of the transfer.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, x *transfer, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, &transfer{of: &s.bodies, gone: true}, nil
	}
	control := http.NewResponseController(w)
	x = s.bodies.begin(func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	_ = control.SetReadDeadline(time.Now().Add(BodyTimeout))
	defer func() {
		if !x.arrived() {
			err = api.Errorf(admin.Overloaded, "send it at once, in a second",
				"too many bodies are being read, and this one did not arrive soon enough")
		}
		if err == nil {
			_ = control.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request while it is carried out
		}
	}()
	in := http.MaxBytesReader(w, r.Body, kv.ValueBytesMax)
	for {
		if len(body) == cap(body) {
			room := min(max(bodyGrowBytes, 4*cap(body)), kv.ValueBytesMax+1)
			if !x.take(room - cap(body)) {
				return nil, x, nil
			}
			body = append(make([]byte, 0, room), body...)
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return body, x, explainBody(err)
		}
	}
}

// explainBody returns the API's error for a failure to read the body; nil for the end of the body.
func explainBody(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &tooLarge):
		return api.Errorf(admin.ValueTooLarge, "store less under one key; other paths take no body",
			"the body is over the limit of %d bytes", kv.ValueBytesMax)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return api.Errorf(admin.BodyTimedOut, "send it faster, or store less under one key",
			"the body did not arrive within %v", BodyTimeout)
	}
	return api.Errorf(admin.BadRequest, "send it again", "the body broke off: %v", err)
}
