package node

import "sync"

// watched holds a value and a channel that announces the next change of the value. Several goroutines may wait for a change.
type watched[T any] struct {
	mu      sync.Mutex
	value   T
	changed chan struct{} // closed with the next change
}

func newWatched[T any](value T) *watched[T] {
	return &watched[T]{value: value, changed: make(chan struct{})}
}

func (w *watched[T]) load() (value T, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value, w.changed
}

// publish sets the value and wakes all waiters, even if the value is the same as before.
func (w *watched[T]) publish(value T) {
	w.mu.Lock()
	w.value = value
	w.mu.Unlock()
	w.wakeAll()
}

// wakeAll wakes all waiters because something other than the value has changed.
func (w *watched[T]) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}
