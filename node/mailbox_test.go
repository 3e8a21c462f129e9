package node

import (
	"testing"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// The next batch may begin before the loop learns that the last one has ended. The core gets both reports in order:
// otherwise it would not learn how long a slow batch took.
func TestMailbox_ABatchEndsBeforeTheNextOneBegins(t *testing.T) {
	m := newMailbox()
	first, second := raft.EntryID{Term: 1, Index: 2}, raft.EntryID{Term: 1, Index: 3}
	m.applying(raft.Applying{ID: first, Since: 1})
	events, _, _ := m.take(nil)
	expect.Equal(t, []raft.Event{raft.Applying{ID: first, Since: 1}}, events)
	m.appliedUpTo(first)
	m.applying(raft.Applying{ID: second, Since: 5})
	events, _, _ = m.take(nil)
	expect.Equal(t, []raft.Event{raft.Applied{ID: first}, raft.Applying{ID: second, Since: 5}}, events)
}
