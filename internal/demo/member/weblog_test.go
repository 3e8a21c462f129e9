package member

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// A server without file descriptors fails to accept connections, again and again.
func TestWebLog_LinesThatBeginAlikeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newWebLog(hclog.New(&hclog.LoggerOptions{Output: &out, Name: "n1"}))
		for range 100 {
			l.Printf("http: Accept error: %v; retrying in %v", "too many open files", 5*time.Millisecond)
			time.Sleep(10 * time.Millisecond)
		}
		l.Printf("http: panic serving 127.0.0.1:1: oh")
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), `[WARN]  n1: the HTTP server for clients: error="Accept error: too many open files; retrying in 5ms" left_out=0`)
		assert.Contains(t, out.String(), `error="panic serving 127.0.0.1:1: oh" left_out=0`)
		out.Reset()
		time.Sleep(webWarnEvery)
		l.Printf("http: Accept error: again")
		assert.Contains(t, out.String(), `error="Accept error: again" left_out=99`)
	})
}
