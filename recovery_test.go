package raft_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

var newCluster = raft.ClusterID{7, 7, 7}

const freshIncarnation raft.Incarnation = 70

// lastOfABC is the store of a, the only member of abc whose disk is left: entries 1@0 2@1 3@3 4@3, and term 5.
func lastOfABC(t *testing.T) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 5, Vote: peer("b")}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	for _, e := range entries(2, 1, 3, 3) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return stored
}

// recovered returns the store after its recovery, and the entry that the recovery has appended.
func recovered(t *testing.T, stored raft.Stored) (raft.Stored, raft.Entry) {
	t.Helper()
	r, err := stored.Recover("a", newCluster, freshIncarnation, 9, false)
	require.NoError(t, err)
	stored.Incarnation, stored.Hard = r.Incarnation, r.Hard
	require.NoError(t, stored.Log.Observe(r.Entry))
	return stored, r.Entry
}

// The survivor leads alone, with every entry of its log, in a term that no lost member can have reached.
func TestRecovery_TheSurvivorLeadsAlone(t *testing.T) {
	stored, entry := recovered(t, lastOfABC(t))
	assert.Equal(t, raft.EntryID{Term: 5 + 1<<32, Index: 5}, entry.ID())
	c := begin(t, coreConfig(), stored)
	require.Equal(t, newCluster, c.Status().Cluster)
	c.timeout()
	c.persist()
	c.persist()
	s := c.Status()
	assert.Equal(t, raft.Leadership{Term: 6 + 1<<32, Leader: "a", LeaderIncarnation: freshIncarnation, Role: raft.Leader}, c.Leadership())
	assert.Equal(t, raft.Index(6), s.Commit, "the entry of the recovery, and all before it")
	assert.Equal(t, raft.Member{ID: "a", Address: "a:1", Incarnation: freshIncarnation}, s.Config.Members[0])
	assert.Len(t, s.Config.Members, 1)
	assert.Equal(t, uint64(6), s.Config.Level)
	assert.Equal(t, newCluster, s.Cluster, "another term is not another cluster")
	assert.Equal(t, newCluster, s.Durable.Cluster)
}

// Nobody of the former cluster takes part in the new one, whatever its term.
func TestRecovery_FormerMembersAreRefused(t *testing.T) {
	stored, _ := recovered(t, lastOfABC(t))
	c := begin(t, coreConfig(), stored)
	for _, to := range []raft.Incarnation{'a', freshIncarnation} {
		m := c.from("b", 7, raft.AppendRequest{})
		m.Message.To.Incarnation = to
		out := c.step(m)
		assert.Contains(t, traced(out), raft.TraceRefused)
		assert.Empty(t, append(out.Send, out.Write.Then...))
	}
}

// joining delivers to a new member, d, the first entries of the recovered log, and makes them durable. It returns what is then
// on its disk.
func joiningRecovered(t *testing.T, log []raft.Entry, term raft.Term) (*core, raft.Stored) {
	t.Helper()
	c := begin(t, coreConfig(), raft.Stored{Incarnation: 'd', StartCount: 1})
	leader := raft.Peer{ID: "n", Incarnation: freshIncarnation}
	last := log[len(log)-1].ID()
	out := c.step(raft.Received{Message: raft.Message{From: leader, To: raft.Peer{ID: "a", Incarnation: 'd'}, Cluster: newCluster, Term: term,
		Body: raft.AppendRequest{Last: last, Entries: log}}})
	require.NotNil(t, out.Write.Hard)
	require.NotNil(t, out.Write.Log)
	stored := raft.Stored{Incarnation: 'd', StartCount: 2, Hard: *out.Write.Hard}
	for _, e := range out.Write.Log.Entries {
		require.NoError(t, stored.Log.Observe(e))
	}
	return c, stored
}

// A new member may have any part of the log when it restarts, also a part before the entry of the recovery. Entry 1 then names the
// former cluster, but the member belongs to the new one from its first entry on.
func TestRecovery_AJoinerWithAnyPartOfTheLog(t *testing.T) {
	_, entry := recovered(t, lastOfABC(t))
	log := append(append([]raft.Entry{bootstrapEntry(membersNamed("abc"))}, entries(2, 1, 3, 3)...), entry)
	term := entry.Term + 3
	for n := 1; n <= len(log); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			_, stored := joiningRecovered(t, log[:n], term)
			assert.Equal(t, newCluster, stored.Hard.Cluster)
			c := begin(t, coreConfig(), stored)
			assert.Equal(t, newCluster, c.Status().Cluster)
			former := c.from("b", term+5, raft.AppendRequest{Prev: log[n-1].ID(), Last: log[n-1].ID()})
			former.Message.To.Incarnation = 'd'
			assert.Contains(t, traced(c.step(former)), raft.TraceRefused, "a former member does not lead it")
			rest := raft.AppendRequest{Prev: log[n-1].ID(), Last: entry.ID(), Entries: log[n:], Commit: entry.Index}
			c.step(raft.Received{Message: raft.Message{From: raft.Peer{ID: "n", Incarnation: freshIncarnation}, To: raft.Peer{ID: "a", Incarnation: 'd'},
				Cluster: newCluster, Term: term, Body: rest}})
			assert.Equal(t, entry.ID(), c.Status().Last)
			assert.Equal(t, entry.Index, c.Status().Commit)
			assert.Equal(t, []raft.Member{{ID: "a", Address: "a:1", Incarnation: freshIncarnation}}, c.Status().Config.Members, "at once, not only after a restart")
		})
	}
}

// A crash may leave the hard state without the first entries. The member still belongs to the new cluster.
func TestRecovery_AJoinerWithoutItsFirstEntries(t *testing.T) {
	_, entry := recovered(t, lastOfABC(t))
	_, stored := joiningRecovered(t, []raft.Entry{bootstrapEntry(membersNamed("abc"))}, entry.Term+3)
	c := begin(t, coreConfig(), raft.Stored{Incarnation: 'd', StartCount: 2, Hard: stored.Hard})
	former := c.from("b", entry.Term+9, raft.AppendRequest{})
	former.Message.To.Incarnation = 'd'
	assert.Contains(t, traced(c.step(former)), raft.TraceRefused)
}

// A base and a snapshot get the new cluster's id, because new members receive them.
func TestRecovery_ACompactedLog(t *testing.T) {
	stored := storedBehind(t, 5, id(4, 3), 3, 5)
	stored.Snapshot = raft.Snapshot{Base: baseOf(id(4, 3)), File: raft.SnapshotID{1}}
	r, err := stored.Recover("a", newCluster, freshIncarnation, 9, false)
	require.NoError(t, err)
	assert.Equal(t, newCluster, r.Base.Cluster)
	assert.Equal(t, newCluster, r.Snapshot.Cluster)
	assert.Equal(t, clusterOfTheTests, stored.Log.Base.Cluster)
	stored.Incarnation, stored.Hard, stored.Log.Base, stored.Snapshot = r.Incarnation, r.Hard, r.Base, r.Snapshot
	require.NoError(t, stored.Log.Observe(r.Entry))
	again, err := stored.RecoverAs(stored.Log.Configuration().Members[0], raft.ClusterID{8}, 71, 9)
	require.NoError(t, err)
	assert.Equal(t, r.Hard.Term+1<<32, again.Hard.Term, "a second recovery does not repeat terms either")
}

// A standby that survives leads, because nobody else can.
func TestRecovery_AStandby(t *testing.T) {
	config := raft.NewConfiguration(membersNamed("abc"))
	config.Members[0].Priority, config.Level = raft.PriorityNever, 2
	stored, _ := recovered(t, storedBehindConfig(t, config, 5, id(4, 3)))
	c := begin(t, coreConfig(), stored)
	c.timeout()
	c.persist()
	assert.Equal(t, raft.Leader, c.Leadership().Role)
}

// What the members had agreed on stays in force. The changes that they had begun do not, and the cluster's clock does not go back.
func TestRecovery_KeepsTheSettings(t *testing.T) {
	config := raft.NewConfiguration(membersNamed("abc"))
	config.Members[0].Next, config.Members[0].AppVersion = raft.NextLearner, 4
	config.AppVersionMin, config.Sessions, config.LeaseDuration, config.Level = 3, true, 100*time.Millisecond, 5
	stored := storedBehindConfig(t, config, 5, id(4, 3), 3)
	stored.Log.LastTime = 50
	_, entry := recovered(t, stored)
	assert.EqualValues(t, 50, entry.Time)
	r, err := raft.DecodeRecovery(entry.Data)
	require.NoError(t, err)
	want := raft.NewConfiguration([]raft.Member{{ID: "a", Address: "a:1", Incarnation: freshIncarnation, AppVersion: 4}})
	want.AppVersionMin, want.Sessions, want.LeaseDuration, want.Level = 3, true, 100*time.Millisecond, 6
	assert.Equal(t, want, r.Configuration)
}

func TestRecovery_Refusals(t *testing.T) {
	marked := lastOfABC(t)
	marked.Mark = &raft.Mark{Kind: raft.MarkContradicted, By: peer("b")}
	stranger := lastOfABC(t)
	stranger.Incarnation = 'z'
	late := lastOfABC(t)
	late.Hard.Term = 1<<63 - 1
	alone, _ := recovered(t, lastOfABC(t))
	for _, row := range []struct {
		rule   string
		stored raft.Stored
		says   string
	}{
		{"it holds nothing", raft.Stored{Incarnation: 'a'}, "it belongs to no cluster"},
		{"its configuration does not name it", stranger, "recover another survivor"},
		{"its term is impossible", late, "impossibly high"},
		{"it was recovered already", alone, "it has a majority by itself, so nothing is lost: start it"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			_, err := row.stored.Recover("a", newCluster, freshIncarnation, 9, false)
			var refused *raft.NotRecoverableError
			require.ErrorAs(t, err, &refused)
			assert.Contains(t, err.Error(), row.says)
		})
	}
	_, err := marked.Recover("a", newCluster, freshIncarnation, 9, false)
	var contradicted *raft.ContradictedError
	require.ErrorAs(t, err, &contradicted)
	_, err = marked.Recover("a", newCluster, freshIncarnation, 9, true)
	assert.NoError(t, err, "the operator has no other survivor")
}

func TestRecovery_Records(t *testing.T) {
	_, entry := recovered(t, lastOfABC(t))
	r, err := raft.DecodeRecovery(entry.Data)
	require.NoError(t, err)
	assert.Equal(t, newCluster, r.Cluster)
	assert.Equal(t, clusterOfTheTests, r.Former)
	assert.Equal(t, entry.Data, r.Encode())
	for _, bad := range []string{"", "{", `{"version":1}`, `{"version":0}`, `{"version":1,"configuration":{"version":1,"level":6,"members":[]}}`} {
		_, err := raft.DecodeRecovery([]byte(bad))
		assert.Error(t, err, bad)
	}
	_, err = raft.DecodeRecovery([]byte(`{"version":2,"configuration":7}`))
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
	r.Configuration = raft.NewConfiguration(membersNamed("ab"))
	r.Configuration.Level = 6
	_, err = raft.DecodeRecovery(r.Encode())
	assert.ErrorContains(t, err, "one voter")
	r.Configuration, r.Cluster = raft.NewConfiguration(membersNamed("a")), raft.ClusterID{}
	r.Configuration.Level = 6
	_, err = raft.DecodeRecovery(r.Encode())
	assert.ErrorContains(t, err, "does not name")
}

// survivor is a store with the entries of these terms behind entry 1, of which it knows some to be committed.
func survivor(t *testing.T, commit raft.Index, terms ...raft.Term) *raft.Stored {
	t.Helper()
	stored := raft.Stored{Commit: commit}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abcde"))))
	for _, e := range entries(2, terms...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return &stored
}

func TestRecovery_TheBestSurvivor(t *testing.T) {
	marked := survivor(t, 3, 1, 5)
	marked.Mark = &raft.Mark{Kind: raft.MarkContradicted, By: peer("b")}
	compacted := storedBehind(t, 5, id(6, 3))
	for _, row := range []struct {
		rule   string
		stores []*raft.Stored
		want   int
	}{
		{"there is none", nil, -1},
		{"one that holds nothing does not count", []*raft.Stored{{}}, -1},
		{"a later term counts for more than a longer log", []*raft.Stored{survivor(t, 1, 1, 1, 1), survivor(t, 1, 1, 2)}, 1},
		{"of one term, the longer log", []*raft.Stored{survivor(t, 1, 1, 2, 2), survivor(t, 1, 1, 2)}, 0},
		{"Figure 8: what is known to be committed counts for more than the term", []*raft.Stored{survivor(t, 3, 1, 2), survivor(t, 2, 1, 3)}, 0},
		{"a hint beyond the log is of no use", []*raft.Stored{survivor(t, 9, 1, 2), survivor(t, 2, 1, 2, 2)}, 1},
		{"what is compacted is committed", []*raft.Stored{survivor(t, 1, 1, 1, 2, 2, 4), &compacted}, 1},
		{"a marked one does not count, nor what it takes to be committed", []*raft.Stored{marked, survivor(t, 1, 1)}, 1},
		{"unless there is no other", []*raft.Stored{marked, {}}, 0},
	} {
		assert.Equal(t, row.want, raft.BestSurvivor(row.stores), row.rule)
	}
}
