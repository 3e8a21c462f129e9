package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// preferring is namedConfig at feature level 2, with the priorities of some members.
func preferring(text string, priorities map[raft.NodeID]raft.Priority) raft.Configuration {
	c := namedConfig(text)
	c.Level = 2
	for i := range c.Members {
		c.Members[i].Priority = priorities[c.Members[i].ID]
	}
	return c
}

func TestUnpreferred_NoticesEachBreach(t *testing.T) {
	type of = map[raft.NodeID]raft.Priority
	const never = raft.PriorityNever
	for _, row := range []struct {
		why, before string
		was         of
		after       string
		is          of
	}{
		{"", "a b", nil, "a b", of{"a": never, "b": 5}},
		{"", "a b", of{"a": 5}, "a b", of{"b": 5}},
		{"", "a b>removed c:learner>voter", of{"b": 5, "c": 5}, "a b:leaving c/a b", of{"b": 5, "c": 5}},
		{"", "a b>removed c:learner>voter", of{"b": 5, "c": 5}, "a b c:learner", of{"b": 5}},
		{"", "a b:learner/a b", of{"b": 5}, "a b:learner", nil},
		{"learner with priority 5", "a b:learner", nil, "a b:learner", of{"b": 5}},
		{"learner with priority 5", "a b:learner/a b", of{"b": 5}, "a b:learner", of{"b": 5}},
		{"[a b] nobody may lead", "a b", of{"a": never}, "a b", of{"a": never, "b": never}},
		{"[a] nobody may lead", "a b", of{"a": never}, "a b:leaving/a b", of{"a": never}},
		{"[a] nobody may lead", "a", nil, "a b:learner>voter", of{"a": never}},
		{"[b] nobody may lead", "a", nil, "a>removed b:learner>voter", of{"b": never}},
		{"[a b] nobody may lead", "a b c:learner>voter", of{"a": never, "b": never}, "a b:leaving c/a b", of{"a": never, "b": never}},
		{"changes from 5 to 1", "a b>removed c:learner>voter", of{"b": 5, "c": 5}, "a b:leaving c/a b", of{"b": 5}},
		{"changes from 1 to 5", "a b:leaving/a b", nil, "a//b", of{"a": 5}},
	} {
		before, after := preferring(row.before, row.was), preferring(row.after, row.is)
		if why := unpreferred(&before, &after); row.why == "" {
			assert.Empty(t, why, "%s, then %s", row.before, row.after)
		} else {
			assert.Contains(t, why, row.why, "%s, then %s", row.before, row.after)
		}
	}
	after := preferring("a b", of{"b": 5})
	after.Level = 1
	assert.Contains(t, unpreferred(nil, &after), "at feature level 1")
}

func TestInvariants_OfPrioritiesNoticeTheirBreach(t *testing.T) {
	p := func(p raft.Priority) *raft.Priority { return &p }
	update := func(id raft.NodeID, to raft.Priority) raft.Change {
		return raft.Change{Update: []raft.Update{{Peer: raft.Peer{ID: id}, Priority: p(to)}}}
	}
	config := preferring("a b c d:learner", map[raft.NodeID]raft.Priority{"b": raft.PriorityNever, "c": 7})
	for _, row := range []struct {
		about  string
		change raft.Change
		want   []raft.RefusalKind
	}{
		{"a voter", update("a", 5), nil},
		{"a standby is left to lead", raft.Change{Remove: []raft.Peer{{ID: "a"}, {ID: "c"}}}, []raft.RefusalKind{raft.RefusedNotElectable}},
		{"until the new voter votes", raft.Change{Update: append(update("a", -1).Update, update("c", -1).Update...), Promote: []raft.Peer{{ID: "d"}}},
			[]raft.RefusalKind{raft.RefusedNotElectable}},
		{"a learner", update("d", 5), []raft.RefusalKind{raft.RefusedMalformed}},
		{"out of range", update("a", 101), []raft.RefusalKind{raft.RefusedMalformed}},
		{"a learner joins", raft.Change{Add: []raft.Member{{ID: "e", Incarnation: 'e', Kind: raft.Learner, Priority: 5}}}, []raft.RefusalKind{raft.RefusedMalformed}},
	} {
		a := (&changing{Change: row.change}).meets(&config)
		assert.Equal(t, row.want, a.problems, row.about)
	}
	replaces := &changing{Change: raft.Change{Replace: []raft.Replacement{{Old: raft.Peer{ID: "c"}, New: raft.Member{ID: "e", Address: "e", Incarnation: 'e'}}}}}
	kept := preferring("a b d:learner e", map[raft.NodeID]raft.Priority{"b": raft.PriorityNever, "e": 7})
	assert.True(t, replaces.meets(&config).made(replaces, &kept))
	kept.Members[3].Priority = 0
	assert.False(t, replaces.meets(&config).made(replaces, &kept), "the new member has lost the priority")

	c, lead, follower := withSpare(t)
	was := lead.rule(namedConfig("a b c"))
	was.index--
	l := lead.joins(preferring("a b c", map[raft.NodeID]raft.Priority{"b": 5}))
	l.before, lead.log[len(lead.log)-2].config = was, was
	l.Members[1].ID, l.Members[1].Incarnation = follower.id, follower.disk.incarnation
	was.Members[1].ID, was.Members[1].Incarnation = follower.id, follower.disk.incarnation
	lead.seen.speaks[follower.peer()] = raft.ProtocolMembership
	c.check.checkChangeAccepted(lead, &changing{Change: update(follower.id, 5)}, lead.log[len(lead.log)-1].entry.ID())
	expectBreach(t, c, "N69")
}

// Some seeds have priorities, and some of these have members of an earlier release.
func TestDraw_Priorities(t *testing.T) {
	drawn, earlier := 0, 0
	for number := range uint64(200) {
		p, err := Draw(Seed{"members", number})
		require.NoError(t, err)
		if p.Members.Priorities > 0 {
			drawn++
		}
		if p.Members.Earlier > 0 {
			earlier++
			require.Positive(t, p.Members.Priorities)
		}
	}
	assert.True(t, drawn > 10 && drawn < 80, "%d", drawn)
	assert.Positive(t, earlier)
	s := sim.NewStream(1, sim.MembersConcern<<8)
	for range 1000 {
		if p := drawnPriority(s); !inRange(p) {
			return
		}
	}
	assert.Fail(t, "no priority is out of range")
}
