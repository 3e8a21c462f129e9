package boltfsm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/boltfsm"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/session"
)

// count keeps, for each command, how often it was applied, in a bucket within a bucket. "fail" fails.
func count(tx *bolt.Tx, e raft.Entry) ([]byte, error) {
	if string(e.Data) == "fail" {
		return nil, errors.New("no room")
	}
	all, err := tx.CreateBucketIfNotExists([]byte("all"))
	if err != nil {
		return nil, err
	}
	counts, err := all.CreateBucketIfNotExists([]byte("counts"))
	if err != nil {
		return nil, err
	}
	sequence, err := all.NextSequence()
	if err != nil {
		return nil, err
	}
	times := append([]byte{1}, counts.Get(e.Data)...)
	return binary.BigEndian.AppendUint64(times, sequence), counts.Put(bytes.Clone(e.Data), times)
}

func open(t *testing.T, path string) *boltfsm.FSM {
	t.Helper()
	f, err := boltfsm.Open(path, count, nil)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func entry(i raft.Index, data string) []raft.Entry {
	return []raft.Entry{{Index: i, Term: 1, Kind: raft.EntryCommand, Data: []byte(data)}}
}

func apply(t *testing.T, f raft.FSM, i raft.Index, data string) []byte {
	t.Helper()
	results := make([][]byte, 1)
	require.NoError(t, f.Apply(entry(i, data), results))
	return results[0]
}

func applied(t *testing.T, f raft.DurableFSM) raft.EntryID {
	t.Helper()
	id, err := f.Applied()
	require.NoError(t, err)
	return id
}

func snapshot(t *testing.T, f raft.FSM) []byte {
	t.Helper()
	frozen, err := f.Snapshot()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, frozen.WriteTo(t.Context(), &b))
	require.NoError(t, frozen.Close())
	return b.Bytes()
}

func TestFSM_IsAStateMachine(t *testing.T) {
	commands := [][]byte{[]byte("a"), []byte("b"), []byte("a"), []byte("a")}
	rafttest.CheckFSM(t, func() raft.FSM { return open(t, filepath.Join(t.TempDir(), "state")) }, commands)
	rafttest.CheckFSM(t, func() raft.FSM {
		f, err := session.Wrap(open(t, filepath.Join(t.TempDir(), "state")))
		require.NoError(t, err)
		return f
	}, commands)
}

// What was applied is there after the process has ended, together with its last entry.
func TestFSM_StateAndEntryAreDurableTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	assert.Zero(t, applied(t, f))
	apply(t, f, 3, "a")
	assert.Error(t, f.Apply(append(entry(4, "a"), entry(5, "fail")...), make([][]byte, 2)))
	require.NoError(t, f.Close())
	f = open(t, path)
	assert.Equal(t, raft.EntryID{Term: 1, Index: 3}, applied(t, f))
	assert.Equal(t, []byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 2}, apply(t, f, 4, "a"), "nothing of the batch that failed was stored")
}

// A restored state belongs to no entry until Sync has returned: a crash before that leaves an empty state, never the restored one
// under its entry or the old one's.
func TestFSM_ARestoreIsConfirmedBySync(t *testing.T) {
	from := open(t, filepath.Join(t.TempDir(), "from"))
	for i := range raft.Index(9) {
		apply(t, from, i+1, "a")
	}
	image, id := snapshot(t, from), raft.EntryID{Term: 1, Index: 9}
	for _, synced := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "state")
		f := open(t, path)
		apply(t, f, 1, "b")
		require.NoError(t, f.Restore(t.Context(), id, bytes.NewReader(image)))
		assert.Equal(t, id, applied(t, f))
		if synced {
			require.NoError(t, f.Sync())
		}
		require.NoError(t, f.Close())
		f = open(t, path)
		if synced {
			assert.Equal(t, id, applied(t, f))
			assert.Equal(t, snapshot(t, from), snapshot(t, f))
		} else {
			assert.Zero(t, applied(t, f))
			assert.Equal(t, snapshot(t, open(t, filepath.Join(t.TempDir(), "empty"))), snapshot(t, f))
		}
	}
}

// A batch behind a restored state confirms that state. A later Sync does not go back to its entry: a restart would apply the batch again.
func TestFSM_ABatchConfirmsARestore(t *testing.T) {
	from := open(t, filepath.Join(t.TempDir(), "from"))
	apply(t, from, 9, "a")
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	require.NoError(t, f.Restore(t.Context(), raft.EntryID{Term: 1, Index: 9}, bytes.NewReader(snapshot(t, from))))
	apply(t, f, 10, "a")
	last := raft.EntryID{Term: 1, Index: 10}
	assert.Equal(t, last, applied(t, f))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	assert.Equal(t, last, applied(t, open(t, path)))
}

// A bad snapshot changes nothing.
func TestFSM_ABadSnapshotIsRefused(t *testing.T) {
	from := open(t, filepath.Join(t.TempDir(), "from"))
	apply(t, from, 1, "a")
	image := snapshot(t, from)
	f := open(t, filepath.Join(t.TempDir(), "state"))
	apply(t, f, 1, "b")
	before := snapshot(t, f)
	for cut := range image {
		require.Error(t, f.Restore(t.Context(), raft.EntryID{Term: 1, Index: 9}, bytes.NewReader(image[:cut])), cut)
	}
	require.ErrorIs(t, f.Restore(t.Context(), raft.EntryID{Term: 1, Index: 9}, bytes.NewReader(image[:len(image)-1])), io.ErrUnexpectedEOF)
	require.ErrorContains(t, f.Restore(t.Context(), raft.EntryID{Term: 1, Index: 9}, bytes.NewReader(append(image, image...))), "goes on behind its end")
	assert.Equal(t, before, snapshot(t, f))
	assert.Equal(t, raft.EntryID{Term: 1, Index: 1}, applied(t, f))
}

// Sessions are in the file, and not in the FSM's own part of a snapshot.
func TestFSM_StoresSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	put := func(list ...session.Change) func() []session.Change { return func() []session.Change { return list } }
	a, b := session.Change{Key: []byte("a"), Value: []byte("1")}, session.Change{Key: []byte("b"), Value: []byte("2")}
	require.NoError(t, f.ApplyWith(nil, nil, raft.EntryID{Term: 1, Index: 2}, put(a, b)))
	require.NoError(t, f.ApplyWith(nil, nil, raft.EntryID{Term: 1, Index: 3}, put(session.Change{Key: []byte("a")})))
	stored := func() (list []session.Change) {
		require.NoError(t, f.Sessions(func(k, v []byte) error {
			list = append(list, session.Change{Key: bytes.Clone(k), Value: bytes.Clone(v)})
			return nil
		}))
		return list
	}
	require.NoError(t, f.Close())
	f = open(t, path)
	assert.Equal(t, []session.Change{b}, stored())
	assert.Equal(t, raft.EntryID{Term: 1, Index: 3}, applied(t, f))
	require.NoError(t, f.RestoreWith(t.Context(), raft.EntryID{Term: 1, Index: 9}, bytes.NewReader(snapshot(t, f)), []session.Change{a}))
	assert.Equal(t, []session.Change{a}, stored())
}

// An answer may be what the transaction reads. It is the same after later transactions.
func TestFSM_AnAnswerOutlivesItsTransaction(t *testing.T) {
	f, err := boltfsm.Open(filepath.Join(t.TempDir(), "state"), func(tx *bolt.Tx, e raft.Entry) ([]byte, error) {
		b, err := tx.CreateBucketIfNotExists([]byte("values"))
		if err != nil || string(e.Data) == "get" {
			return b.Get([]byte("k")), err
		}
		return nil, b.Put([]byte("k"), e.Data)
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	first := strings.Repeat("a", 3000)
	apply(t, f, 1, first)
	answer := apply(t, f, 2, "get")
	for i := range raft.Index(10) {
		apply(t, f, 3+i, strings.Repeat("b", 3000))
	}
	assert.Equal(t, first, string(answer))
}

func TestFSM_ViewReads(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "state"))
	apply(t, f, 1, "a")
	require.NoError(t, f.View(func(tx *bolt.Tx) error {
		assert.Equal(t, []byte{1}, tx.Bucket([]byte("all")).Bucket([]byte("counts")).Get([]byte("a")))
		return nil
	}))
}

func TestOpen_BadInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	_, err := boltfsm.Open(path, nil, nil)
	require.ErrorContains(t, err, "needs a function")
	require.NoError(t, os.WriteFile(path, []byte("nonsense"), 0o600))
	_, err = boltfsm.Open(path, count, nil)
	require.ErrorContains(t, err, path)
	_, err = boltfsm.Open(filepath.Join(t.TempDir(), "no", "directory"), count, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	other := filepath.Join(t.TempDir(), "state")
	open(t, other)
	_, err = boltfsm.Open(other, count, nil)
	require.ErrorContains(t, err, "timeout", "another process has it open")
}
