package joining_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// world is what the addresses answer, and one seeker among them.
type world struct {
	t       *testing.T
	s       *joining.Seeker
	now     raft.Time
	st      joining.State
	seeds   []string
	answers map[string]any // by address: a raft.WhoReply, an error, or nil for silence
	asked   []joining.Question
	heard   *raft.WhoReply
	list    []raft.Member
	change  *raft.Change
	index   raft.Index
}

func peer(id raft.NodeID) raft.Peer { return raft.Peer{ID: id, Incarnation: raft.Incarnation(id[1])} }

// of returns the configuration of a seeker.
func of(id raft.NodeID, founders ...raft.NodeID) joining.Config {
	return joining.Config{Self: peer(id), ClusterName: "c", Founders: founders, Address: "h" + string(id[1]) + ":1", Meta: "meta " + string(id)}
}

// empty returns the answer of an uninitialized member at h<number>:1.
func empty(id raft.NodeID, founders ...raft.NodeID) raft.WhoReply {
	return raft.WhoReply{From: peer(id), ClusterName: "c", Founders: founders, Address: "h" + string(id[1]) + ":1", Meta: "meta " + string(id)}
}

// serving returns the answer of a member of cluster 1 at h<number>:1, which n8 leads.
func serving(id raft.NodeID, others ...raft.Member) raft.WhoReply {
	r := empty(id)
	r.Cluster, r.Term, r.Leader, r.Index, r.Committed = raft.ClusterID{1}, 3, "n8", 7, true
	r.Members = raft.NewConfiguration(append(others, raft.Member{ID: "n8", Incarnation: peer("n8").Incarnation, Address: "h8:1"})).Members
	return r
}

func newWorld(t *testing.T, cfg joining.Config, seeds ...string) *world {
	require.NoError(t, cfg.Validate())
	return &world{t: t, s: joining.NewSeeker(cfg), seeds: seeds, answers: make(map[string]any)}
}

// step carries out what the seeker asks for until it asks for nothing more.
func (w *world) step() {
	for range 100 {
		a := w.s.Next(w.now, w.st)
		assert.Greater(w.t, a.Wake, w.now)
		if a.Heard != nil {
			assert.Nil(w.t, w.heard, "it is told once")
			w.heard = a.Heard
		}
		if a.List != nil {
			assert.Nil(w.t, w.list, "it is given once")
			w.list = a.List
		}
		if a.Change != nil {
			w.change, w.index = a.Change, a.Index
		}
		if !a.Resolve && len(a.Ask) == 0 {
			return
		}
		if a.Resolve {
			w.s.Resolved(w.now, w.seeds, nil)
		}
		for _, q := range a.Ask {
			w.asked = append(w.asked, q)
			switch r := w.answers[q.Address].(type) {
			case raft.WhoReply:
				if q.Who.Petition != nil {
					r.Reason = "not now"
				}
				w.s.Answered(q, r, nil)
			case error:
				w.s.Answered(q, raft.WhoReply{}, r)
			}
		}
	}
	w.t.Error("the seeker never rests")
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	for end := w.now + raft.Time(d); w.now < end; w.now += raft.Time(100 * time.Millisecond) {
		w.step()
	}
	w.step()
}

func (w *world) missing() string { return strings.Join(w.s.Missing(w.st), "\n") }

func (w *world) petitions() (at []string) {
	for _, q := range w.asked {
		if q.Who.Petition != nil {
			at = append(at, q.Address)
		}
	}
	return at
}

var errRefused = errors.New("connection refused")

// three is a founder among n1 n2 n3 whose seeds are the addresses of the three. n2 and n3 answer.
func three(t *testing.T, id raft.NodeID) *world {
	founders := []raft.NodeID{"n1", "n2", "n3"}
	w := newWorld(t, of(id, founders...), "h1:1", "h2:1", "h3:1")
	for _, other := range founders {
		w.answers["h"+string(other[1])+":1"] = empty(other, founders...)
	}
	return w
}

func TestSeeker_TheLowestFounderGivesTheWholeList(t *testing.T) {
	w := three(t, "n1")
	w.step()
	assert.Equal(t, []raft.Member{
		{ID: "n1", Address: "h1:1", Meta: "meta n1"}, {ID: "n2", Address: "h2:1", Meta: "meta n2"}, {ID: "n3", Address: "h3:1", Meta: "meta n3"},
	}, w.list)
	assert.Nil(t, w.heard)
	assert.Empty(t, w.petitions())
}

func TestSeeker_TheOtherFoundersLeaveAddressesOpen(t *testing.T) {
	w := three(t, "n2")
	w.answers["h1:1"], w.answers["h3:1"] = errRefused, errRefused
	w.step()
	assert.Equal(t, []raft.Member{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}, w.list, "it waits for nobody: the lowest founder does")
}

func TestSeeker_EmptyingTheStoresIsAdvisedOnlyWhileTheBootstrapperIsSilent(t *testing.T) {
	const advice = "if n1, which bootstraps the cluster, is permanently lost"
	for _, id := range []raft.NodeID{"n1", "n2"} {
		w := three(t, id)
		w.answers["h3:1"] = errRefused
		w.run(time.Minute)
		assert.Contains(t, w.missing(), "founder n3 has not been found")
		assert.NotContains(t, w.missing(), advice)
	}
	w := three(t, "n2")
	w.answers["h1:1"] = errRefused
	w.run(time.Minute)
	assert.Regexp(t, "^founder n1 has not been found(.|\n)*"+advice, w.missing())
}

func TestSeeker_AFounderAloneNeedsNoSeed(t *testing.T) {
	w := newWorld(t, of("n1", "n1"))
	w.step()
	assert.Equal(t, []raft.Member{{ID: "n1", Address: "h1:1", Meta: "meta n1"}}, w.list)
}

// Rule 1.
func TestSeeker_WhoIsNoFounderOnlyJoins(t *testing.T) {
	for _, founders := range [][]raft.NodeID{nil, {"n1", "n2"}} {
		w := newWorld(t, of("n0", founders...), "h1:1", "h2:1")
		w.answers["h1:1"], w.answers["h2:1"] = empty("n1", founders...), empty("n2", founders...)
		w.run(time.Minute)
		assert.Nil(t, w.list)
		assert.Empty(t, w.petitions())
		assert.Contains(t, w.missing(), "no leader of the cluster answers: looked for at h1:1 (n1), h2:1 (n2)")
	}
}

// Rule 3.
func TestSeeker_SeedsFirst(t *testing.T) {
	for _, id := range []raft.NodeID{"n1", "n2"} {
		w := three(t, id)
		w.seeds = append(w.seeds, "h9:1") // silent
		w.run(joining.AskMax - 200*time.Millisecond)
		assert.Nil(t, w.list)
		assert.Contains(t, w.missing(), "the seeds have not all answered or failed yet", "h9:1 (no answer yet)")
		w.run(400 * time.Millisecond)
		assert.NotNil(t, w.list, "a silent seed counts as failed")
	}
	w := newWorld(t, of("n2", "n1", "n2"), "h1:1")
	assert.Nil(t, w.s.Next(0, w.st).List, "nothing is resolved yet")
	w.s.Resolved(0, nil, errors.New("no such host"))
	assert.Nil(t, w.s.Next(0, w.st).List, "a look-up that failed has asked nobody")
	assert.Equal(t, "seeds: no such host\nevery look-up of the seeds has failed, so nobody was asked yet", w.missing())
	w.s.Resolved(0, []string{"h1:1"}, nil)
	assert.Nil(t, w.s.Next(0, w.st).List, "a seed that was found later is asked first, too")
}

func TestSeeker_AMemberThatJoinsSaysWhyNoSeedHasAnAddress(t *testing.T) {
	w := newWorld(t, of("n9", "n1", "n2"))
	w.s.Next(0, w.st)
	w.s.Resolved(0, nil, errors.New("no such host"))
	w.s.Next(0, w.st)
	assert.Equal(t, "seeds: no such host\nevery look-up of the seeds has failed, so nobody was asked yet\nno leader of the cluster answers: no seed has an address", w.missing())
}

// A member that answers without saying what its store holds may belong to a cluster.
func TestSeeker_AMemberThatDoesNotSayWhatItHoldsIsWaitedFor(t *testing.T) {
	for _, r := range []*raft.Rejection{{Reason: raft.RejectBusy}, {Reason: raft.RejectMalformed, VersionsMin: 1, VersionsMax: 6}} {
		w := three(t, "n1")
		w.seeds, w.answers["h9:1"] = append(w.seeds, "h9:1"), r
		w.run(time.Minute)
		assert.Nil(t, w.list)
		w.answers["h9:1"] = nil
		w.run(time.Minute)
		assert.NotNil(t, w.list)

		w = three(t, "n2")
		w.answers["h3:1"] = nil
		w.step()
		w.answers["h1:1"] = r
		w.run(time.Minute)
		assert.NotNil(t, w.list, "n1 has said it once in this run")
	}
}

// Rule 4.
func TestSeeker_AFounderThatHearsAsksToJoin(t *testing.T) {
	for _, id := range []raft.NodeID{"n1", "n2"} {
		w := three(t, id)
		w.answers["h3:1"] = serving("n3")
		w.step()
		assert.Nil(t, w.list)
		require.NotNil(t, w.heard)
		assert.Equal(t, peer("n3"), w.heard.From)
		assert.Contains(t, w.missing(), "has heard of cluster 01000000000000000000000000000000 of this name, from n3 in term 3")
		assert.Contains(t, w.missing(), "a restart forgets that")
		assert.Empty(t, w.petitions(), "n3 does not lead, and n8 has not answered")

		w.answers["h8:1"] = serving("n8")
		w.run(5 * time.Second)
		require.NotEmpty(t, w.petitions())
		assert.Equal(t, "h8:1", w.petitions()[0], "the leader is asked where the configuration says")
		assert.Nil(t, w.list, "until this run ends")
		assert.Contains(t, w.missing(), "not now")
	}
}

func TestSeeker_WhatIsNotHeard(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*raft.WhoReply)
	}{
		{"entry 1 of another bootstrapper, without a term (rule 5)", func(r *raft.WhoReply) {
			r.Cluster, r.Bootstrapper = raft.ClusterID{1}, raft.Peer{ID: "n1", Incarnation: 5}
		}},
		{"a cluster of another name", func(r *raft.WhoReply) { *r = serving("n3"); r.ClusterName = "d" }},
		{"this store itself", func(r *raft.WhoReply) { *r = serving("n2") }},
	} {
		w := three(t, "n2")
		r := w.answers["h3:1"].(raft.WhoReply)
		row.change(&r)
		w.answers["h3:1"] = r
		w.run(time.Minute)
		assert.Nil(t, w.heard, row.rule)
		assert.NotNil(t, w.list, row.rule)
	}
	w := three(t, "n2")
	earlier := serving("n2")
	earlier.From.Incarnation++
	w.answers["h9:1"], w.seeds = earlier, append(w.seeds, "h9:1")
	w.step()
	assert.NotNil(t, w.heard, "another store of its own id counts")
}

func TestSeeker_AClusterIsHeardOfAtAnyTime(t *testing.T) {
	w := three(t, "n2")
	w.step()
	require.NotNil(t, w.list)
	w.answers["h3:1"] = serving("n3")
	w.run(5 * time.Second)
	assert.NotNil(t, w.heard)
}

// DNS no longer names an address whose question is open: it is not asked twice at a time, and its answer counts.
func TestSeeker_AnOpenQuestionOutlivesItsSeed(t *testing.T) {
	w := three(t, "n2")
	resolve := func(seeds ...string) []joining.Question {
		w.s.Resolved(0, seeds, nil)
		return w.s.Next(0, w.st).Ask
	}
	open := resolve("h3:1")
	require.Len(t, open, 1)
	assert.Len(t, resolve("h1:1"), 1)
	assert.Empty(t, resolve("h1:1", "h3:1"))
	resolve("h1:1")
	w.s.Answered(open[0], serving("n3"), nil)
	assert.NotNil(t, w.s.Next(0, w.st).Heard)
}

// Rules 8 and 9.
func TestSeeker_WhoHoldsEntry1GoesOn(t *testing.T) {
	w := three(t, "n2")
	w.st.Cluster = raft.ClusterID{5}
	w.answers["h3:1"], w.answers["h8:1"] = serving("n3"), serving("n8")
	w.run(time.Minute)
	assert.Nil(t, w.heard)
	assert.Nil(t, w.list)
	assert.Empty(t, w.petitions())
}

// Rule 6, as far as it is the seeker's: the list needs an answer of each founder itself.
func TestSeeker_TheLowestFounderWaitsForEach(t *testing.T) {
	founders := []raft.NodeID{"n1", "n2", "n3"}
	for _, row := range []struct {
		rule   string
		change func(*world)
		says   string
	}{
		{"one is not there", func(w *world) { w.answers["h3:1"] = errRefused },
			"founder n3 has not been found: looked for at h1:1 (this member itself), h2:1 (n2), h3:1 (connection refused)"},
		{"a stranger among the founders", func(w *world) { w.answers["h3:1"] = empty("n4", founders...) }, "founder n3 has not been found"},
		{"other founders", func(w *world) { w.answers["h3:1"] = empty("n3", "n1", "n3") }, "n3 at h3:1 was started with the founders [n1 n3], and this member with [n1 n2 n3]"},
		{"no founders", func(w *world) { w.answers["h3:1"] = empty("n3") }, "n3 at h3:1 was started with the founders []"},
		{"a process that is no founder, with other founders", func(w *world) { w.answers["h9:1"], w.seeds = empty("n9", "n9"), append(w.seeds, "h9:1") },
			"n9 at h9:1 was started with the founders [n9], and this member with [n1 n2 n3]"},
		{"an id that is in use twice", func(w *world) {
			twin := empty("n3", founders...)
			twin.From.Incarnation++
			w.answers["h9:1"], w.seeds = twin, append(w.seeds, "h9:1")
		}, "two processes answer as n3, at h3:1 (incarnation"},
		{"its own id is in use", func(w *world) {
			twin := empty("n1", founders...)
			twin.From.Incarnation++
			w.answers["h9:1"], w.seeds = twin, append(w.seeds, "h9:1")
		}, "another process with the id n1 (incarnation"},
	} {
		w := three(t, "n1")
		row.change(w)
		w.run(time.Minute)
		assert.Nil(t, w.list, row.rule)
		assert.Contains(t, w.missing(), row.says, row.rule)
	}
	w := three(t, "n1")
	w.answers["h3:1"] = errRefused
	w.run(time.Minute)
	w.answers["h3:1"] = empty("n3", "n3", "n2", "n1")
	w.run(time.Second)
	assert.NotNil(t, w.list, "the order of the founders does not matter")
	assert.Empty(t, w.missing())
}

func TestSeeker_AnAdvertisedAddressMustLeadToItsMember(t *testing.T) {
	founders := []raft.NodeID{"n1", "n2", "n3"}
	for _, row := range []struct {
		advertises string
		there      any
		says       string
	}{
		{"h7:1", empty("n2", founders...), `n3, found at h3:1, says that the others reach it at "h7:1", where n2 answers`},
		{"h7:1", errRefused, `"h7:1", where it does not answer (connection refused)`},
		{"h7:1", nil, `"h7:1", which has not answered yet`},
		{"127.0.0.1:1", empty("n3", founders...), "leads each machine to itself"},
		{"localhost:1", errRefused, "leads each machine to itself"},
		{"[0:0:0:0:0:0:0:1]:1", errRefused, "leads each machine to itself"},
		{"0.0.0.0:1", nil, `"0.0.0.0:1" names no machine`},
		{"[::]:1", nil, "names no machine"},
		{":1", nil, "names no machine"},
		{"", nil, "missing"},
	} {
		w := three(t, "n1")
		r := empty("n3", founders...)
		r.Address = row.advertises
		w.answers["h3:1"] = r
		w.answers[row.advertises] = row.there
		w.run(joining.AskMax / 2)
		assert.Nil(t, w.list, row.advertises)
		assert.Contains(t, w.missing(), row.says, row.advertises)
	}
	w := three(t, "n1")
	r := empty("n3", founders...)
	r.Address = "name:1"
	w.answers["h3:1"], w.answers["name:1"] = r, r
	w.step()
	require.NotNil(t, w.list)
	assert.Equal(t, "name:1", w.list[2].Address)
	assert.Equal(t, []string{"name:1", "h3:1"}, w.s.Addresses("n3"))
}

func TestSeeker_BadSeeds(t *testing.T) {
	other := empty("n9")
	other.ClusterName = "d"
	for _, row := range []struct {
		rule    string
		seeds   []string
		answers map[string]any
		says    string
	}{
		{"none", nil, nil, "founder n2 has not been found: no seed has an address; name the addresses of other members as seeds"},
		{"itself alone", []string{"h1:1"}, nil, "looked for at h1:1 (this member itself); name the addresses of other members as seeds"},
		{"doubled", []string{"h1:1", "h1:1"}, nil, "looked for at h1:1 (this member itself);"},
		{"of another cluster", []string{"h9:1"}, map[string]any{"h9:1": other}, `h9:1 (raft: n9 is of cluster "d", not of "c"`},
		{"garbage", []string{"h9:1"}, map[string]any{"h9:1": raft.WhoReply{}}, `h9:1 (member id "" has 0 bytes`},
		{"half of them", []string{"h2:1", "h9:1"}, map[string]any{"h9:1": errRefused}, "founder n3 has not been found: looked for at h2:1 (n2), h9:1 (connection refused)"},
	} {
		w := three(t, "n1")
		for address, r := range row.answers {
			w.answers[address] = r
		}
		w.seeds = row.seeds
		w.run(time.Minute)
		assert.Nil(t, w.list, row.rule)
		assert.Contains(t, w.missing(), row.says, row.rule)
	}
	w := three(t, "n1")
	w.s.Next(0, w.st)
	w.s.Resolved(0, nil, errors.New(`"jobs:7000": no such host`))
	assert.Contains(t, w.missing(), `seeds: "jobs:7000": no such host`)
}

func TestSeeker_DoubledSeedsAreAskedOnce(t *testing.T) {
	w := three(t, "n1")
	w.seeds = []string{"h2:1", "h3:1", "h2:1", "h3:1"}
	w.step()
	assert.Len(t, w.asked, 2)
	assert.NotNil(t, w.list)
}

func TestSeeker_TheNumberOfPlacesIsBounded(t *testing.T) {
	w := newWorld(t, of("n0"))
	for i := range 2 * joining.SeedsMax {
		address := "a" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ":1"
		r := serving("n9", raft.Member{ID: "n7", Incarnation: 7, Address: "c" + address})
		r.Address, r.Leader = "b"+address, "n7"
		w.seeds, w.answers[address] = append(w.seeds, address), r
	}
	w.run(10 * time.Second)
	var places []string
	for _, q := range w.asked {
		places = append(places, q.Address)
	}
	slices.Sort(places)
	assert.LessOrEqual(t, len(slices.Compact(places)), 2*joining.SeedsMax)
}

// However many addresses others name, each founder is asked where it says that it is.
func TestSeeker_FoundersHaveTheirPlaces(t *testing.T) {
	seeds, founders := []string{"h2:1"}, []raft.NodeID{"n1", "n2"}
	for i := range joining.SeedsMax - 1 {
		seeds = append(seeds, fmt.Sprintf("s%d:1", i))
	}
	w := newWorld(t, of("n1", founders...), seeds...)
	for i, at := range seeds[1:] {
		r := empty("n9")
		r.From.Incarnation, r.Address = raft.Incarnation(i+1), "found-"+at
		w.answers[at] = r
	}
	extra := empty("n9")
	extra.Address = "extra:1"
	w.answers["found-s0:1"], w.answers["found-s1:1"] = extra, errRefused
	w.run(5 * time.Second)
	late := empty("n2", founders...)
	late.Address = "late:1"
	w.answers["h2:1"], w.answers["late:1"] = late, late
	w.run(5 * time.Second)
	assert.NotNil(t, w.list, w.missing())
}
