package processes

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/workload"
)

func all() (kinds []Kind) {
	for _, h := range habits {
		kinds = append(kinds, h.kind)
	}
	return kinds
}

func of(faults []Fault, k Kind) (some []Fault) {
	for _, f := range faults {
		if f.Kind == k {
			some = append(some, f)
		}
	}
	return some
}

func TestDraw_OneSeedOneSchedule(t *testing.T) {
	const duration = 5 * time.Minute
	b := budget{members: 5}
	faults := draw(7, b, all(), duration)
	assert.Equal(t, faults, draw(7, b, all(), duration))
	assert.NotEqual(t, faults, draw(8, b, all(), duration))
	for _, k := range all() {
		assert.NotEmpty(t, of(faults, k), k)
		assert.Equal(t, of(faults, k), draw(7, b, []Kind{k}, duration), "leaving others out does not move %s", k)
	}
	assert.Greater(t, len(of(faults, Kill)), 70, "leaders are killed again and again")
	assert.True(t, slices.IsSortedFunc(faults, func(a, b Fault) int { return int(a.At - b.At) }))
	assert.Equal(t, len(faults), len(inLane(faults, processes))+len(inLane(faults, network))+len(inLane(faults, changes)))
}

func TestDraw_KeepsWithinItsBounds(t *testing.T) {
	for seed := range uint64(50) {
		for _, f := range draw(seed, budget{members: 3}, all(), 10*time.Second) {
			h, _ := habitOf(f.Kind)
			require.GreaterOrEqual(t, f.At, time.Duration(0))
			require.Less(t, f.At, 10*time.Second)
			require.GreaterOrEqual(t, f.For, h.least)
			require.LessOrEqual(t, f.For, h.most)
			require.Less(t, f.Node, 3)
			require.NotEqual(t, f.Node, f.Other)
			side := f.side(3)
			require.NotZero(t, side)
			require.Less(t, bits.OnesCount64(side), 3, "neither group is empty")
		}
		for _, k := range all() {
			require.NotEmpty(t, draw(seed, budget{members: 3}, []Kind{k}, time.Second), "a short run has each kind once: %s", k)
		}
	}
}

func TestBudget_NeverTheDisksOfMoreThanAMinorityAreLost(t *testing.T) {
	for voters, most := range []int{0, 0, 0, 1, 1, 2, 2, 3} {
		assert.Equal(t, most, mayLose(voters), "%d voters", voters)
	}
}

func TestBudget_SpareMembersLetTheClusterGrowToFiveAndSwap(t *testing.T) {
	for nodes, members := range map[int]int{3: 5, 4: 5, 5: 6, 8: 9, 9: 9} {
		assert.Equal(t, members, memberCount(nodes), "%d nodes", nodes)
	}
}

func TestBudget_WithoutDisksOfOursLeavesTheirFaultsOut(t *testing.T) {
	b := budget{members: 5, noDisks: true}
	kinds, left := b.choose(nil)
	assert.Equal(t, []Kind{FullDisk, FailSync, StallSync, PowerCut, PowerCutAll}, left)
	assert.Len(t, kinds, len(habits)-len(left))
	kinds, left = b.choose([]Kind{Kill, PowerCut})
	assert.Equal(t, []Kind{Kill}, kinds)
	assert.Equal(t, []Kind{PowerCut}, left)
}

func TestParseKinds_ListsTheChoices(t *testing.T) {
	kinds, err := ParseKinds([]string{"kill", " half-open", "kill"})
	require.NoError(t, err)
	assert.Equal(t, []Kind{Kill, HalfOpen}, kinds)
	_, err = ParseKinds([]string{"flood"})
	assert.ErrorContains(t, err, `unknown fault "flood"; there are`)
	for _, k := range all() {
		assert.ErrorContains(t, err, string(k))
	}
}

func TestLook_FindsWhatMembersMustNotSay(t *testing.T) {
	leads := func(id string, term uint64) api.Status {
		return api.Status{Status: admin.Status{ID: id, Role: "leader", Term: term}}
	}
	at := func(id string, startCount, term, commit, applied uint64) api.Status {
		return api.Status{Status: admin.Status{ID: id, StartCount: startCount, Term: term, Commit: commit, Applied: applied}}
	}
	based := func(startCount, base, snapshot uint64) api.Status {
		return api.Status{Status: admin.Status{ID: "n1", StartCount: startCount, Applied: snapshot, Base: base, Snapshot: admin.Snapshot{Last: snapshot}}}
	}
	for _, row := range []struct {
		rule string
		said []api.Status
		want string
	}{
		{"terms have leaders", []api.Status{leads("n1", 1), leads("n2", 2), leads("n1", 1), {}}, ""},
		{"two of one term", []api.Status{leads("n1", 1), leads("n2", 1)}, "one leader a term"},
		{"everything advances", []api.Status{at("n1", 1, 1, 5, 4), at("n1", 1, 2, 5, 5)}, ""},
		{"a term falls", []api.Status{at("n1", 1, 2, 5, 4), at("n1", 1, 1, 5, 5)}, "nothing goes back"},
		{"a commit index falls", []api.Status{at("n1", 1, 1, 5, 4), at("n1", 1, 1, 4, 4)}, "nothing goes back"},
		{"an applied index falls", []api.Status{at("n1", 1, 1, 5, 4), at("n1", 1, 1, 5, 3)}, "nothing goes back"},
		{"a base falls", []api.Status{based(1, 5, 6), based(1, 4, 6)}, "nothing goes back"},
		{"the newest snapshot gets older", []api.Status{based(1, 5, 6), based(1, 5, 5)}, "nothing goes back"},
		{"a restart may know less of its snapshots", []api.Status{based(1, 5, 6), based(2, 4, 5)}, ""},
		{"a log lacks what no snapshot covers", []api.Status{based(1, 6, 6), based(1, 6, 5)}, "a snapshot covers what the log lacks"},
		{"a received snapshot is not recorded yet", []api.Status{based(1, 5, 5), based(1, 7, 5), based(1, 7, 7)}, ""},
		{"a restart forgets what is committed", []api.Status{at("n1", 1, 1, 5, 4), at("n1", 2, 1, 0, 0)}, ""},
	} {
		l, broken := newLook(), ""
		for _, s := range row.said {
			if rule, text := l.at(s); text != "" {
				broken = rule
			}
		}
		assert.Equal(t, row.want, broken, row.rule)
	}
}

func TestStats_TellLatenciesAndTheLongestGap(t *testing.T) {
	var s stats
	began := time.Now()
	s.lastWrite = began
	for i := range 100 {
		end := began.Add(time.Duration(i+1) * 10 * time.Millisecond)
		s.observe(workload.Request{Called: end.Add(-time.Duration(i+1) * time.Millisecond), Ended: end, Write: true})
	}
	last := began.Add(3 * time.Second)
	s.observe(workload.Request{Called: last, Ended: last, Result: workload.Refused})
	s.observe(workload.Request{Called: last, Ended: last.Add(time.Second), Write: true})
	assert.Equal(t, uint64(101), s.operations())
	assert.Equal(t, 3*time.Second, s.gap, "a refused request is not a write")
	assert.True(t, s.writtenAfter(last))
	assert.InEpsilon(t, 51*time.Millisecond, s.latencies.at(500), 0.13)
	assert.InEpsilon(t, 100*time.Millisecond, s.latencies.at(990), 0.13)
	assert.Equal(t, time.Second, s.latencies.at(1000))
	assert.Zero(t, (&histogram{}).at(500))
}
