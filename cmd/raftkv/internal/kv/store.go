// Package kv is the state machine of the demo store: a sorted map from keys to values, each with the
// raft index of its last change as its revision.
package kv

import (
	"strings"
	"sync/atomic"

	"github.com/coxswain/raft"
)

// Store is the map. The node calls Apply, Snapshot and Restore on one goroutine. All other methods may be called from any
// goroutine at any time, and never wait. The zero value is an empty store.
type Store struct {
	state atomic.Pointer[state]
}

// state is one version of the map; it never changes.
type state struct {
	tree    tree
	applied raft.Index // of the last entry whose effects are in the tree
}

var _ raft.FSM = (*Store)(nil)

func (s *Store) load() state {
	if now := s.state.Load(); now != nil {
		return *now
	}
	return state{}
}

// Apply applies the commands of the batch; readers see all of it at once.
func (s *Store) Apply(batch []raft.Entry, results [][]byte) error {
	now := s.load()
	for i, e := range batch {
		var answer Answer
		now.tree, answer = applyEntry(now.tree, e)
		data, err := answer.encode()
		if err != nil {
			return err
		}
		results[i] = data
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
func (s *Store) Get(key string) (Item, bool) { return s.load().tree.get(key) }

// Applied returns the raft index of the last command in the store.
func (s *Store) Applied() raft.Index { return s.load().applied }

// Len returns how many keys there are.
func (s *Store) Len() int { return s.load().tree.size }

// List returns up to limit items in the order of their keys, which begin with prefix and are above
// after, and whether there are more of them.
func (s *Store) List(prefix, after string, limit int) (items []Item, more bool) {
	start := prefix
	if after >= prefix && after != "" {
		start = after + "\x00" // the next key there is
	}
	for item := range s.load().tree.from(start) {
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
