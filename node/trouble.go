package node

import (
	"sync"
	"time"
)

// warnEvery is how much time passes at least between two warnings about a trouble that repeats itself.
const warnEvery = time.Minute

// trouble is why something that is tried again and again failed the last time.
type trouble struct {
	mu     sync.Mutex
	err    error
	warned time.Time // zero: not since it succeeded
}

// set replaces the error; nil if the last attempt succeeded. It reports whether to log it.
func (t *trouble) set(err error) (warn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err = err; err == nil {
		t.warned = time.Time{}
		return false
	}
	if warn = t.warned.IsZero() || time.Since(t.warned) >= warnEvery; warn {
		t.warned = time.Now()
	}
	return warn
}

func (t *trouble) get() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
