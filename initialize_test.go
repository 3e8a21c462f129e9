package raft_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// uninitialized is what Load returns of an uninitialized store that was formatted for member a.
func uninitialized(change func(*raft.Stored)) raft.Stored {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1}
	change(&stored)
	return stored
}

func TestInitialize_SaysWhatALoadWouldReturn(t *testing.T) {
	store := storage.NewMemory()
	identity := raft.Identity{Cluster: "test", ID: "a", Fresh: peer("a").Incarnation, Nonce: 1}
	stored, err := store.Load(t.Context(), identity)
	require.NoError(t, err)
	w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("cab")))
	require.NoError(t, err)
	require.NoError(t, store.Write(w))
	loaded, err := store.Reopen().Load(t.Context(), identity)
	require.NoError(t, err)
	assert.Equal(t, stored.Hard, loaded.Hard)
	assert.Equal(t, stored.Log, loaded.Log)
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), loaded.Log.Bootstrap.Configuration)

	again := loaded
	w, err = again.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	assert.Zero(t, w, "it is initialized: nothing to write")
	assert.Equal(t, loaded, again)
}

// Every member writes the same entry 1, in whatever order the members are listed.
func TestInitialize_WritesTheSameEntryEverywhere(t *testing.T) {
	a, b := uninitialized(func(*raft.Stored) {}), raft.Stored{Incarnation: peer("b").Incarnation, StartCount: 5}
	ofA, err := a.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	ofB, err := b.Initialize("b", clusterOfTheTests, raft.Configuration{Members: membersNamed("bca")})
	require.NoError(t, err)
	assert.Equal(t, ofA.Log.Entries[0].Record(), ofB.Log.Entries[0].Record())
}

// A crash may leave the first part of the write: the term without the entry.
func TestInitialize_GoesOnAfterACrash(t *testing.T) {
	stored := uninitialized(func(s *raft.Stored) { s.Hard.Term = 1 })
	w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	assert.Len(t, w.Log.Entries, 1)
	assert.Equal(t, raft.HardState{Term: 1}, *w.Hard)
}

func TestInitialize_RefusesAStoreThatIsInitialized(t *testing.T) {
	for rule, change := range map[string]func(*raft.Stored){
		"it is of another cluster": func(s *raft.Stored) {
			_, err := s.Initialize("a", raft.ClusterID{9}, raft.NewConfiguration(membersNamed("abc")))
			require.NoError(t, err)
		},
		"it has voted":         func(s *raft.Stored) { s.Hard = raft.HardState{Term: 1, Vote: peer("b")} },
		"it was in a term":     func(s *raft.Stored) { s.Hard.Term = 2 },
		"its log begins later": func(s *raft.Stored) { s.Hard.Term = 1; s.Log.Last = id(7, 1) },
	} {
		stored := uninitialized(change)
		before := stored
		w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
		assert.ErrorIs(t, err, raft.ErrInitialized, rule)
		assert.Zero(t, w, rule)
		assert.Equal(t, before, stored, rule)
	}
	marked := uninitialized(func(s *raft.Stored) { s.Mark = &raft.Mark{Kind: raft.MarkStaleImage} })
	_, err := marked.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	var stale *raft.StaleImageError
	assert.ErrorAs(t, err, &stale)
}

func TestInitialize_RefusesWhatIsNoCluster(t *testing.T) {
	for _, row := range []struct {
		rule    string
		id      raft.NodeID
		cluster raft.ClusterID
		members []raft.Member
		says    string
	}{
		{"the store has another incarnation", "b", clusterOfTheTests, membersNamed("abc"), "Identity.Fresh"},
		{"this member is not named", "d", clusterOfTheTests, membersNamed("abc"), `"d"`},
		{"an incarnation is missing", "a", clusterOfTheTests, listNamed("abc").Members, "incarnation"},
		{"the cluster has no id", "a", raft.ClusterID{}, membersNamed("abc"), "cluster id"},
		{"there are no members", "a", clusterOfTheTests, nil, "no voter"},
		{"a member is listed twice", "a", clusterOfTheTests, membersNamed("aab"), "twice"},
	} {
		stored := uninitialized(func(*raft.Stored) {})
		w, err := stored.Initialize(row.id, row.cluster, raft.Configuration{Members: row.members})
		var config *raft.ConfigError
		require.ErrorAs(t, err, &config, row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
		assert.Zero(t, w, row.rule)
		assert.Equal(t, uninitialized(func(*raft.Stored) {}), stored, row.rule)
	}
}
