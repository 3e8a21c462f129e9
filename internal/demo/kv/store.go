// Package kv is the state machine of the demo store: a sorted map from keys to values, each with the
// raft index of its last change as its revision.
package kv

import (
	"strings"
	"sync/atomic"

	"github.com/coxswain/raft"
)

// Store is the map. The node calls Apply, Snapshot and Restore, one at a time. Any goroutine may call View at any time, and
// View never waits. The zero value is an empty store.
type Store struct {
	state atomic.Pointer[state]
}

// state is one version of the map; it never changes.
type state struct {
	tree      tree
	applied   raft.Index // index of the last entry whose effects are in the tree
	restoring bool       // Restore runs or has failed, and the tree is empty
}

var _ raft.FSM = (*Store)(nil)

// View is one version of the map. It never changes, and keeps its items in memory.
type View struct{ state }

// View returns the present version, or ErrRestoring.
func (s *Store) View() (View, error) {
	now := s.state.Load()
	switch {
	case now == nil:
		return View{}, nil
	case now.restoring:
		return View{}, ErrRestoring
	}
	return View{*now}, nil
}

// Apply applies the commands of the batch. Readers see all of them at once.
func (s *Store) Apply(batch []raft.Entry, results [][]byte) error {
	view, err := s.View()
	if err != nil {
		return err
	}
	now := view.state
	for i, e := range batch {
		var answer Answer
		now.tree, answer = applyEntry(now.tree, e)
		if results[i], err = answer.encode(); err != nil {
			return err
		}
		now.applied = e.Index
	}
	s.state.Store(&now)
	return nil
}

func applyEntry(t tree, e raft.Entry) (tree, Answer) {
	c, err := DecodeCommand(e.Data)
	if err != nil {
		return t, Answer{Refused: err.Error()}
	}
	now, existed := t.get(c.Key)
	if !c.Condition.holds(now, existed) {
		return t, Answer{Failed: true, Revision: now.Revision, Existed: existed}
	}
	answer := Answer{Revision: e.Index, Existed: existed}
	if c.Op == Delete {
		return t.delete(c.Key), answer
	}
	return t.put(Item{Key: c.Key, Value: c.Value, Revision: e.Index}), answer
}

// Get returns the item with this key.
func (v View) Get(key string) (Item, bool) { return v.tree.get(key) }

// Applied returns the raft index of the last command of this version.
func (v View) Applied() raft.Index { return v.applied }

// Len returns the number of keys.
func (v View) Len() int { return v.tree.size }

// List returns up to limit items whose keys begin with prefix and are above after, in the order of their keys. It also
// reports whether there are more such items.
func (v View) List(prefix, after string, limit int) (items []Item, more bool) {
	start := prefix
	if after >= prefix && after != "" {
		start = after + "\x00" // the smallest key above it
	}
	for item := range v.tree.from(start) {
		if !strings.HasPrefix(item.Key, prefix) {
			break
		}
		if len(items) == limit {
			return items, true
		}
		items = append(items, item)
	}
	return items, false
}
