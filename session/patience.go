package session

import (
	"context"
	"reflect"
	"time"
)

// patience is the context of first attempts. Those that begin at about the same time for the same caller's context share one: a
// context with a timer for each would cost more than everything else that a session adds to a command on its way.
type patience struct {
	context.Context
	parent context.Context
	cancel context.CancelFunc
	until  time.Time // attempts that begin later need another one
	users  int
	old    bool // there is another one for further attempts
}

// start returns the context of a first attempt that begins now. It ends after s.attempt, or a quarter of that later. s.mu is held.
func (s *Session) start(ctx context.Context) *patience {
	now := time.Now()
	if p := s.patience; p == nil || now.After(p.until) || !same(p.parent, ctx) {
		if p != nil {
			p.old = true
			p.release()
		}
		share := s.attempt / 4
		limited, cancel := context.WithTimeout(ctx, s.attempt+share)
		s.patience = &patience{Context: limited, parent: ctx, cancel: cancel, until: now.Add(share)}
	}
	s.patience.users++
	return s.patience
}

// release frees the context if no attempt needs it any more. The present one ends by itself. s.mu is held.
func (p *patience) release() {
	if p.old && p.users == 0 {
		p.cancel()
	}
}

// same reports whether both are the same context. A context that cannot be compared is the same as none. Whether a struct can be
// compared takes a look at each field, so the usual contexts, pointers and context.Background, do without.
func same(a, b context.Context) bool {
	t := reflect.TypeOf(a)
	usual := t.Kind() == reflect.Pointer || t.Size() == 0 && t.Comparable()
	return (usual || reflect.ValueOf(a).Comparable()) && a == b
}
