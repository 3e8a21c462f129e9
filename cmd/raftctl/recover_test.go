package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// survivorIn makes the closed store of one of five members, with the entries of these terms behind entry 1.
func survivorIn(t *testing.T, id raft.NodeID, of raft.ClusterID, commit raft.Index, terms ...raft.Term) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), string(id))
	s, err := storage.Open(dir, storage.Options{})
	require.NoError(t, err)
	var members []raft.Member
	for i, name := range []raft.NodeID{"n1", "n2", "n3", "n4", "n5"} {
		members = append(members, raft.Member{ID: name, Address: string(name) + ":1", Incarnation: raft.Incarnation(i + 1)})
	}
	stored, err := s.Load(t.Context(), raft.Identity{Cluster: "orders", ID: id, Fresh: raft.Incarnation(id[1] - '0'), Nonce: 5})
	require.NoError(t, err)
	w, err := stored.Initialize(id, of, raft.NewConfiguration(members))
	require.NoError(t, err)
	for _, term := range terms {
		w.Log.Entries = append(w.Log.Entries, raft.Entry{Index: raft.Index(len(w.Log.Entries) + 1), Term: term, Kind: raft.EntryCommand})
		w.Hard = &raft.HardState{Term: term}
	}
	w.Commit = commit
	require.NoError(t, s.Write(w))
	require.NoError(t, s.Close())
	return dir
}

// n5 led a term in which it committed nothing. n2 has an earlier term's entry, and knows that a later leader has committed it.
func TestRecover_TakesTheSurvivorThatKnowsMore(t *testing.T) {
	n2, n5 := survivorIn(t, "n2", raft.ClusterID{1}, 3, 1, 2), survivorIn(t, "n5", raft.ClusterID{1}, 2, 1, 3)
	for _, dirs := range [][]string{{"recover", n2, n5}, {"recover", n5, n2}} {
		code, out, errOut := ctl(dirs...)
		require.Equal(t, exitOK, code, errOut)
		assert.Contains(t, out, `n2 of cluster "orders" (01000000000000000000000000000000), last entry 3@2, known to be committed up to 3`)
		assert.Contains(t, out, "take "+n2+": ")
		assert.Contains(t, out, "raftctl recover "+n2+" --cluster orders")
	}
	code, out, errOut := ctl("recover", n2, "--cluster", "orders")
	require.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, "every entry up to 3@2")
	code, out, errOut = ctl("recover", n2)
	assert.Equal(t, exitFailed, code, "it is recovered")
	assert.NotContains(t, out, "take")
	assert.Contains(t, errOut, "it has a majority by itself, so nothing is lost: start it")
	code, _, errOut = ctl("recover", n5, n2)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "are of different clusters")
}
