package failover

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/distribution"
	"github.com/coxswain/raft/internal/leaks"
)

func TestMain(m *testing.M) {
	code := leaks.Main(m.Run)
	built.Remove()
	os.Exit(code)
}

func TestRun_MeasuresBothClustersOfAKind(t *testing.T) {
	r, err := Run(t.Context(), Options{Members: 3, Trials: 2, Kinds: []string{"kill"}, Without: []string{"news"}, Bound: time.Minute})
	require.NoError(t, err)
	require.Len(t, r.Results, 1)
	k := &r.Results[0]
	assert.Equal(t, "kill", k.Kind)
	assert.Positive(t, k.SyncedMS)
	for _, s := range []Side{k.On, k.Off} {
		assert.Equal(t, 2, s.Count)
		assert.Positive(t, s.AckedMS)
		assert.Greater(t, s.Max, 1.0, "no leader is elected within a millisecond, so it was another member that wrote")
	}
}

func TestOptions_SayWhatIsWrong(t *testing.T) {
	good := Options{Members: 3, Trials: 1}
	require.NoError(t, good.Validate())
	for want, edit := range map[string]func(*Options){
		"--members 2: it takes 3 to 9":      func(o *Options) { o.Members = 2 },
		"--trials 0: it takes 1 to":         func(o *Options) { o.Trials = 0 },
		`unknown kind "flood"; there are`:   func(o *Options) { o.Kinds = []string{"kill", "flood"} },
		`--without "votes": use news`:       func(o *Options) { o.Without = []string{"votes"} },
		"kill      SIGKILL of the leader\n": func(o *Options) { o.Kinds = []string{"x"} },
	} {
		bad := good
		edit(&bad)
		assert.ErrorContains(t, bad.Validate(), want)
	}
}

func TestSteady_EveryMemberFollowsIsConnectedAndHasAppliedAll(t *testing.T) {
	steady := func() []api.Status {
		all := make([]api.Status, 3)
		for i := range all {
			all[i].ID, all[i].Role = fmt.Sprintf("n%d", i+1), []string{"follower", "leader", "follower"}[i]
			all[i].Leader, all[i].Term, all[i].Applied, all[i].Last = "n2", 4, 9, 9
			all[i].Members = []admin.MemberStatus{{ID: "n1", Connected: true}, {ID: "n2", Connected: true}, {ID: "n3", Connected: true}}
			all[i].Members[i].Connected = false // to itself
		}
		return all
	}
	assert.Equal(t, 1, steadyLeader(steady()))
	for name, edit := range map[string]func([]api.Status){
		"nobody leads":                   func(all []api.Status) { all[1].Role = "follower" },
		"one is in another term":         func(all []api.Status) { all[0].Term = 3 },
		"one follows nobody":             func(all []api.Status) { all[0].Leader = "" },
		"one is behind":                  func(all []api.Status) { all[2].Applied = 8 },
		"two followers are disconnected": func(all []api.Status) { all[0].Members[2].Connected = false },
		"one does not answer":            func(all []api.Status) { all[0] = api.Status{} },
	} {
		all := steady()
		edit(all)
		assert.Equal(t, -1, steadyLeader(all), name)
	}
}

func sample() Report {
	side := func(ms ...time.Duration) Side {
		var times []time.Duration
		for _, t := range ms {
			times = append(times, t*time.Millisecond)
		}
		return Side{Times: distribution.Of(times, 60*time.Millisecond)}
	}
	planned := Result{Kind: "transfer", Says: "the leadership is transferred", On: side(3, 4), Off: side(5, 70)}
	planned.Off.Asked, planned.Off.Failed, planned.Off.First = 100, 2, "n2: not_leader"
	return Report{
		Origin: "commit 1", Members: 3, Without: []string{"news", "successors"}, BoundMS: 60,
		Results: []Result{
			{Kind: "kill", Says: "SIGKILL of the leader", SyncedMS: 0.3, On: side(10, 12, 14), Off: side(190, 200, 210)},
			{Kind: "silence", Says: "the leader's host vanishes", LeftOut: "needs root"},
			planned,
		},
	}
}

func TestReport_SaysEverythingOfBothSides(t *testing.T) {
	text := sample().String()
	for _, want := range []string{
		"3 members", "off: without news, successors", "silence          left out: needs root", "a synced write 0.30",
		"2 of 100 requests failed, the first one: n2: not_leader", "above 60: 1 of 2",
	} {
		assert.Contains(t, text, want)
	}
	page := sample().Markdown("failover/processes-3.svg")
	for _, want := range []string{
		"## Real processes, 3 members", "](failover/processes-3.svg)", "commit 1",
		"| kill: SIGKILL of the leader | on | 3 | 12.0 | 12.0 | 14.0 | 14.0 | 14.0 | 0 | synced write 0.30 |",
		"|  | off | 2 | 37.5 | 37.5 | 70.0 | 70.0 | 70.0 | 1 | 2 of 100 requests failed, the first one: n2: not_leader |",
		"left out: needs root",
	} {
		assert.Contains(t, page, want)
	}
}

func TestPicture_HasAPanelForEachKindThatWasMeasured(t *testing.T) {
	svg := sample().SVG()
	assert.Equal(t, 2, strings.Count(svg, "<g "))
	assert.Equal(t, 2, strings.Count(svg, colourOn+`" stroke-width`))
	assert.Contains(t, svg, "preferences on: median 12.0 ms")
	assert.Contains(t, svg, ">10 ms<")
	assert.NotContains(t, svg, "NaN")
	assert.Contains(t, Report{}.SVG(), "</svg>")
	assert.NotContains(t, Report{}.SVG(), "NaN")
}
