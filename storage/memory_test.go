package storage_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

func TestMemory_ReopenClosesTheEarlierStore(t *testing.T) {
	before := storage.NewMemory()
	_, err := before.Load(context.Background(), member)
	require.NoError(t, err)
	require.NoError(t, before.Write(logWrite(raft.EntryID{}, 0, 3)))

	after := before.Reopen()
	assert.ErrorIs(t, before.Write(logWrite(raft.EntryID{Index: 3}, 0, 1)), storage.ErrStoreClosed)
	stored, err := after.Load(context.Background(), member)
	require.NoError(t, err)
	assert.EqualValues(t, 3, stored.Log.Last.Index)
	assert.EqualValues(t, 2, stored.StartCount)
	require.NoError(t, before.Close())
	assert.NoError(t, after.Write(logWrite(raft.EntryID{Index: 3}, 0, 1)))
}

func TestMemory_WorksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storage.NewMemory()
		_, err := m.Load(t.Context(), member)
		require.NoError(t, err)
		go func() { _ = m.Write(logWrite(raft.EntryID{}, 0, 1)) }()
		synctest.Wait()
		entries, err := m.Entries(raft.Span{After: 0, Last: 1}, 0)
		require.NoError(t, err)
		assert.Len(t, entries, 1)
	})
}

func TestMemory_ACopyIsIndependent(t *testing.T) {
	m := storage.NewMemory()
	_, err := m.Load(context.Background(), member)
	require.NoError(t, err)
	require.NoError(t, m.Write(logWrite(raft.EntryID{}, 0, 3)))
	image := m.Copy()
	require.NoError(t, m.Write(logWrite(raft.EntryID{Index: 3}, 0, 2)))
	stored, err := image.Load(context.Background(), member)
	require.NoError(t, err)
	assert.EqualValues(t, 3, stored.Log.Last.Index)
	assert.EqualValues(t, 2, stored.StartCount)
	require.NoError(t, image.Write(logWrite(raft.EntryID{Index: 3}, 1, 1)))
	entries, err := m.Entries(raft.Span{After: 3, Last: 5}, 1<<20)
	require.NoError(t, err)
	assert.EqualValues(t, 0, entries[0].Term, "a write to one does not change the other")
}
