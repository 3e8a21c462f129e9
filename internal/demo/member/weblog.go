package member

import (
	"log"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// webWarnEvery is the minimum interval between two lines of http.Server that begin alike. If the process has no free file
// descriptors, http.Server writes a line for each attempt to accept a connection.
const webWarnEvery = 10 * time.Second

// webLog writes the log lines of http.Server to the log of the member.
type webLog struct {
	to hclog.Logger

	mu   sync.Mutex
	seen map[string]*webWarned // by the first words; http.Server has a handful of texts
}

type webWarned struct {
	at      time.Time
	leftOut int
}

func newWebLog(to hclog.Logger) *log.Logger {
	return log.New(&webLog{to: to, seen: map[string]*webWarned{}}, "", 0)
}

// Write is called for each line. It drops a line if it has written a line that begins alike within webWarnEvery.
func (w *webLog) Write(line []byte) (int, error) {
	text := strings.TrimPrefix(strings.TrimSpace(string(line)), "http: ")
	first, rest, _ := strings.Cut(text, " ")
	second, _, _ := strings.Cut(rest, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[first+" "+second]
	if s == nil {
		s = &webWarned{}
		w.seen[first+" "+second] = s
	}
	if !s.at.IsZero() && time.Since(s.at) < webWarnEvery {
		s.leftOut++
		return len(line), nil
	}
	w.to.Warn("the HTTP server for clients", "error", text, "left_out", s.leftOut)
	*s = webWarned{at: time.Now()}
	return len(line), nil
}
