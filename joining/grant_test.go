package joining_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// second is a unit of the values' clock.
const second = raft.Time(time.Second)

// configured returns a configuration of n1, which leads, and the others.
func configured(others ...raft.Member) raft.Configuration {
	c := raft.NewConfiguration(append([]raft.Member{{ID: "n1", Incarnation: 1, Address: "h1:1"}}, others...))
	c.Level = 1
	return c
}

// leads returns what the leader n1 of that configuration knows.
func leads(c raft.Configuration, seen ...joining.Seen) joining.Leader {
	return joining.Leader{Self: raft.Peer{ID: "n1", Incarnation: 1}, ClusterName: "c", Config: c, Index: 7, Committed: true, Seen: seen}
}

// petition is that of n3, whose present store is 9.
func petition(learner bool) raft.Who {
	return raft.Who{ClusterName: "c", From: raft.Peer{ID: "n3", Incarnation: 9}, Address: "h3:1", Petition: &raft.Petition{Meta: "m", Learner: learner}}
}

func TestGrant_TheNextStep(t *testing.T) {
	n3 := func(incarnation raft.Incarnation, kind raft.MemberKind) raft.Member {
		return raft.Member{ID: "n3", Incarnation: incarnation, Address: "h3:1", Meta: "m", Kind: kind}
	}
	mine, old, left := n3(9, raft.Voter), n3(8, raft.Voter), n3(7, raft.Learner)
	moved, away := mine, n3(9, raft.Learner)
	moved.Address, away.Address = "h4:1", "h4:1"
	lost := func(i raft.Incarnation) joining.Seen {
		return joining.Seen{Peer: raft.Peer{ID: "n3", Incarnation: i}, Answers: 9}
	}
	runs := func(i raft.Incarnation) joining.Seen { return joining.Seen{Peer: raft.Peer{ID: "n3", Incarnation: i}} }
	joins := raft.Member{ID: "n3", Address: "h3:1", Meta: "m"}
	asLearner := joins
	asLearner.Kind = raft.Learner
	address := "h3:1"
	replaced := raft.Change{Replace: []raft.Replacement{{Old: old.Peer(), New: joins}}}
	for _, row := range []struct {
		rule    string
		learner bool
		config  raft.Configuration
		seen    []joining.Seen
		want    *raft.Change
		err     string
	}{
		{rule: "who is not named is added", config: configured(), want: &raft.Change{Add: []raft.Member{joins}}},
		{rule: "… as a learner if it wants that", learner: true, config: configured(), want: &raft.Change{Add: []raft.Member{asLearner}}},
		{rule: "a member needs nothing", config: configured(mine)},
		{rule: "a learner that wants a vote is promoted", config: configured(n3(9, raft.Learner)), want: &raft.Change{Promote: []raft.Peer{mine.Peer()}}},
		{rule: "… and stays one if it wants that", learner: true, config: configured(n3(9, raft.Learner))},
		{rule: "… once its entry leads to it", config: configured(away), want: &raft.Change{Update: []raft.Update{{Peer: mine.Peer(), Address: &address}}}},
		{rule: "its own entry is corrected", config: configured(moved), want: &raft.Change{Update: []raft.Update{{Peer: mine.Peer(), Address: &address}}}},
		{rule: "a lost disk is replaced", config: configured(old), seen: []joining.Seen{lost(8)}, want: &replaced},
		{rule: "a running member is not", config: configured(old), seen: []joining.Seen{runs(8)}, err: "n3 is a member already, at h3:1"},
		{rule: "… nor one of which nothing is known", config: configured(old), err: "n3 is a member already"},
		{rule: "another store began to take the place, and was lost, too", config: configured(left, old), seen: []joining.Seen{lost(7), lost(8)},
			want: &raft.Change{Remove: []raft.Peer{left.Peer()}}},
		{rule: "… and that one runs", config: configured(left, old), seen: []joining.Seen{runs(7), lost(8)}, err: "incarnation"},
		{rule: "an address of another member", config: configured(raft.Member{ID: "n2", Incarnation: 2, Address: "h3:1"}), err: "h3:1: that is the address of n2"},
	} {
		d, err := new(joining.Grant).Decide(second, petition(row.learner), leads(row.config, row.seen...))
		if row.err != "" {
			assert.ErrorContains(t, err, row.err, row.rule)
			continue
		}
		require.NoError(t, err, row.rule)
		assert.Equal(t, row.want, d.Change, row.rule)
		assert.True(t, row.want == nil || d.Index == 7, row.rule)
	}
}

func TestGrant_WhatIsRefused(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*raft.Who, *joining.Leader)
		as     any
		says   string
	}{
		{"another cluster", func(q *raft.Who, _ *joining.Leader) { q.ClusterName = "d" }, new(*joining.OtherClusterError), `n1 is of cluster "c", not of "d"`},
		{"no address", func(q *raft.Who, _ *joining.Leader) { q.Address = "" }, new(*raft.ConfigError), "missing"},
		{"a wildcard", func(q *raft.Who, _ *joining.Leader) { q.Address = "0.0.0.0:7000" }, new(*raft.ConfigError), `"0.0.0.0:7000" names no machine`},
		{"a wildcard of IPv6", func(q *raft.Who, _ *joining.Leader) { q.Address = "[::]:7000" }, new(*raft.ConfigError), "names no machine"},
		{"no host", func(q *raft.Who, _ *joining.Leader) { q.Address = ":7000" }, new(*raft.ConfigError), "names no machine"},
		{"no port", func(q *raft.Who, _ *joining.Leader) { q.Address = "h3" }, new(*raft.ConfigError), "no \"host:port\""},
		{"port 0", func(q *raft.Who, _ *joining.Leader) { q.Address = "h3:0" }, new(*raft.ConfigError), "no \"host:port\""},
		{"a long address", func(q *raft.Who, _ *joining.Leader) { q.Address = strings.Repeat("h", 300) + ":1" }, new(*raft.ConfigError), "302 bytes"},
		{"a long Meta", func(q *raft.Who, _ *joining.Leader) { q.Petition.Meta = strings.Repeat("m", 1025) }, new(*raft.ConfigError), "Meta has 1025 bytes"},
		{"a configuration that may be rolled back", func(_ *raft.Who, l *joining.Leader) { l.Committed = false }, new(*raft.ChangePendingError), "wait"},
		{"the id of the leader", func(q *raft.Who, _ *joining.Leader) { q.From.ID = "n1" }, new(*joining.InUseError), "otherwise end it, or choose another id"},
		{"a store that was removed", func(_ *raft.Who, l *joining.Leader) {
			l.Config.Removed = []raft.Removal{{Peer: raft.Peer{ID: "n3", Incarnation: 9}, Index: 5}}
		}, new(*raft.WasRemovedError), "removed by configuration 5"},
	} {
		q, l := petition(false), leads(configured())
		row.change(&q, &l)
		d, err := new(joining.Grant).Decide(second, q, l)
		assert.Nil(t, d.Change, row.rule)
		assert.ErrorAs(t, err, row.as, row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
	}
}

// Point 5 of the rules: at once, after two seconds of refusals, or after ten seconds of silence, and never before.
func TestGrant_WhenAnOldIncarnationIsLost(t *testing.T) {
	old := raft.Peer{ID: "n3", Incarnation: 8}
	l := func(s joining.Seen) joining.Leader {
		s.Peer = old
		return leads(configured(raft.Member{ID: "n3", Incarnation: 8, Address: "h3:1"}), s)
	}
	at := func(g *joining.Grant, now time.Duration, s joining.Seen) bool {
		d, err := g.Decide(raft.Time(now), petition(false), l(s))
		if err != nil {
			assert.ErrorAs(t, err, new(*joining.InUseError))
		}
		return d.Change != nil
	}
	const s = time.Second
	for _, row := range []struct {
		rule string
		seen joining.Seen
		want bool
	}{
		{"its address answers as the petitioner", joining.Seen{Answers: 9}, true},
		{"… as a third incarnation", joining.Seen{Answers: 10, Silence: time.Hour}, false},
		{"refused for two seconds, and silent", joining.Seen{RefusedFor: 2 * s, Silence: 2 * s}, true},
		{"refused for less", joining.Seen{RefusedFor: 2*s - 1, Silence: time.Hour}, false},
		{"refused, but heard within", joining.Seen{RefusedFor: time.Hour, Silence: 2*s - 1}, false},
		{"long silence that is seen once", joining.Seen{Silence: time.Hour}, false},
	} {
		assert.Equal(t, row.want, at(new(joining.Grant), s, row.seen), row.rule)
	}

	watched := func(silence func(now time.Duration) time.Duration, step, until time.Duration) (at0 time.Duration) {
		g := new(joining.Grant)
		for now := time.Duration(0); now <= until; now += step {
			if at(g, now, joining.Seen{Silence: silence(now)}) {
				return now
			}
		}
		return -1
	}
	forever := func(time.Duration) time.Duration { return time.Hour }
	assert.Equal(t, 10*s, watched(forever, s, time.Minute), "ten seconds of silence, from petition to petition")
	assert.Equal(t, 12*s, watched(func(now time.Duration) time.Duration { return now - 2*s + 1 }, s, time.Minute),
		"the silence begins when it was last heard")
	assert.Equal(t, time.Duration(-1), watched(func(now time.Duration) time.Duration { return now % (9 * s) }, s, time.Minute), "it is heard now and then")
	assert.Equal(t, 50*s, watched(forever, 10*s, time.Minute), "a pause of the leader's process counts as little of it")
	g := new(joining.Grant)
	for now := time.Duration(0); now < 10*s; now += s {
		assert.False(t, at(g, now, joining.Seen{Silence: time.Hour}))
	}
	assert.False(t, at(g, 10*s, joining.Seen{}), "it is heard")
	assert.False(t, at(g, 40*s, joining.Seen{Silence: 30 * s}), "what was before does not count after a pause")
}

func TestGrant_EachIsWatchedForItself(t *testing.T) {
	c := configured(raft.Member{ID: "n3", Incarnation: 8, Address: "h3:1"}, raft.Member{ID: "n4", Incarnation: 4, Address: "h4:1"})
	seen := func(p raft.Peer) joining.Seen { return joining.Seen{Peer: p, Silence: time.Hour} }
	g := new(joining.Grant)
	for now := raft.Time(0); now < 10*second; now += second {
		_, err := g.Decide(now, petition(false), leads(c, seen(raft.Peer{ID: "n3", Incarnation: 8})))
		assert.Error(t, err)
	}
	q := petition(false)
	q.From.ID, q.Address = "n4", "h5:1"
	_, err := g.Decide(10*second, q, leads(c, seen(raft.Peer{ID: "n4", Incarnation: 4})))
	assert.ErrorAs(t, err, new(*joining.InUseError))

	gone := configured()
	_, err = g.Decide(10*second, petition(false), leads(gone))
	require.NoError(t, err)
	q = petition(false)
	q.From.Incarnation = 10
	_, err = g.Decide(11*second, q, leads(c, seen(raft.Peer{ID: "n3", Incarnation: 8})))
	assert.ErrorAs(t, err, new(*joining.InUseError), "it was no member in between")
}

// Two stores of an id are lost: the one that votes, and one that began to take its place. Their silences run together.
func TestGrant_TwoLostStoresAreWatchedTogether(t *testing.T) {
	voter := raft.Member{ID: "n3", Incarnation: 8, Address: "h3:1"}
	learner := raft.Member{ID: "n3", Incarnation: 7, Address: "h3:1", Kind: raft.Learner}
	silent := []joining.Seen{{Peer: voter.Peer(), Silence: time.Hour}, {Peer: learner.Peer(), Silence: time.Hour}}
	g := new(joining.Grant)
	for now := raft.Time(0); now < 10*second; now += second {
		_, err := g.Decide(now, petition(false), leads(configured(learner, voter), silent...))
		assert.ErrorAs(t, err, new(*joining.InUseError))
	}
	d, err := g.Decide(10*second, petition(false), leads(configured(learner, voter), silent...))
	require.NoError(t, err)
	assert.Equal(t, []raft.Peer{learner.Peer()}, d.Change.Remove)
	d, err = g.Decide(11*second, petition(false), leads(configured(voter), silent...))
	require.NoError(t, err)
	assert.Equal(t, voter.Peer(), d.Change.Replace[0].Old)
}
