package node

import (
	"sync"
	"time"
)

// warnEvery is the minimum interval between two warnings about the same repeated failure.
const warnEvery = time.Minute

// trouble is the last error of something that is tried again and again.
type trouble struct {
	mu     sync.Mutex
	err    error     // nil: the last attempt succeeded
	warned time.Time // last warning; zero: none
}

// set replaces the error, and reports whether to log it.
func (t *trouble) set(err error) (warn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if warn = err != nil && (t.warned.IsZero() || time.Since(t.warned) >= warnEvery); warn {
		t.warned = time.Now()
	}
	return warn
}

func (t *trouble) get() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
