package fuzzy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// N41 requires a mark only for a contradiction of the member's present knowledge. The member knows each entry above its base,
// and the base itself. It also knows that no term below the base is higher than the base's term.
func TestMarks_N41CountsWhatAMemberStillKnows(t *testing.T) {
	for _, row := range []struct {
		rule   string
		base   raft.Index
		index  raft.Index
		term   func(ours raft.Term) raft.Term
		breach bool
	}{
		{"no base, an earlier term", 0, 5, earlier, true},
		{"no base, a later term", 0, 5, later, true},
		{"no base, the same entry", 0, 5, same, false},
		{"above the base, an earlier term", 4, 5, earlier, true},
		{"above the base, a later term", 4, 5, later, true},
		{"the base in an earlier term", 5, 5, earlier, true},
		{"the base in a later term", 5, 5, later, true},
		{"the base", 5, 5, same, false},
		{"below the base, a term that is impossible there", 6, 5, later, true},
		{"below the base, an earlier term", 6, 5, earlier, false},
		{"below the base, the same term", 6, 5, same, false},
	} {
		for kind, asAppend := range map[string]func(raft.EntryID) raft.AppendRequest{
			"Prev": func(id raft.EntryID) raft.AppendRequest { return raft.AppendRequest{Prev: id} },
			"entry": func(id raft.EntryID) raft.AppendRequest {
				return raft.AppendRequest{Entries: []raft.Entry{{Term: id.Term, Index: id.Index}}}
			},
		} {
			t.Run(row.rule+", "+kind, func(t *testing.T) {
				c, lead, follower := running(t)
				if row.base > 0 {
					follower.status.Base = follower.log[row.base-1].entry.ID()
				}
				theirs := raft.EntryID{Term: row.term(follower.log[row.index-1].entry.Term), Index: row.index}
				follower.status.Term += 2 // the term of a newer leader
				m := message(lead, follower, follower.status.Term, asAppend(theirs))
				m.Cluster = follower.status.Cluster
				before := follower.status
				c.check.checkNoMarkDue(follower, &before, []raft.Event{raft.Received{Message: *m}})
				if row.breach {
					expectBreach(t, c, "N41")
				} else {
					assert.Nil(t, c.failure)
				}
			})
		}
	}
}

// N41 requires no mark for entries that only a DurableFSM remembers as committed, until a leader has reported them.
func TestMarks_N41ExcusesWhatTheFSMAloneRemembers(t *testing.T) {
	for _, row := range []struct {
		rule                  string
		applied, hint, commit raft.Index // on the disk at the start, and the commit index now
		breach                bool
	}{
		{"only the FSM reports it", 6, 4, 6, false},
		{"the disk holds the report of a leader", 6, 5, 6, true},
		{"a leader has reported more since the start", 6, 4, 7, true},
		{"the FSM has not applied it", 4, 5, 5, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead, follower := running(t)
			follower.seen.resumed, follower.disk.commit = row.applied, row.hint
			follower.status.Term += 2
			theirs := raft.EntryID{Term: later(follower.log[4].entry.Term), Index: 5}
			m := message(lead, follower, follower.status.Term, raft.AppendRequest{Prev: theirs})
			m.Cluster = follower.status.Cluster
			before := follower.status
			before.Commit = row.commit
			c.check.checkNoMarkDue(follower, &before, []raft.Event{raft.Received{Message: *m}})
			if row.breach {
				expectBreach(t, c, "N41")
			} else {
				assert.Nil(t, c.failure)
			}
		})
	}
}

// A member may acknowledge an entry of another log to a leader only under three conditions. The entry is below the member's
// base, its term is possible there, and a disk has lost committed entries.
func TestMarks_N6ExcusesOnlyWhatIsCompacted(t *testing.T) {
	for _, row := range []struct {
		rule    string
		lie     func(c *cluster, liar *node)
		base    raft.Index
		term    func(ours raft.Term) raft.Term
		excused bool
	}{
		{"below the base", forgetsCommitted, 6, earlier, true},
		{"no disk has lost anything", func(*cluster, *node) {}, 6, earlier, false},
		{"a disk lied, and has lost nothing", liesIdly, 6, earlier, false},
		{"the base", forgetsCommitted, 5, earlier, false},
		{"above the base", forgetsCommitted, 4, earlier, false},
		{"below the base, a term that is impossible there", forgetsCommitted, 6, later, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead := runningFive(t)
			follower, liar := c.nodes[(lead.index+1)%5], c.nodes[(lead.index+2)%5]
			row.lie(c, liar)
			follower.base = follower.log[row.base-1].entry.ID()
			other := *lead.log[4].entry
			other.Term = row.term(other.Term)
			lead.log = append([]slot(nil), lead.log...)
			lead.log[4] = slot{entry: &other, hash: lead.log[4].hash + 1}
			for _, n := range []*node{lead, follower} {
				n.status.Term += 2
				n.disk.hard.Term = n.status.Term
			}
			c.check.checkAcknowledgedLog(follower, message(follower, lead, lead.status.Term, raft.AppendReply{Match: 5}), 5)
			if row.excused {
				assert.Nil(t, c.failure)
			} else {
				expectBreach(t, c, "N6")
			}
		})
	}
}

func earlier(t raft.Term) raft.Term { return t - 1 }
func same(t raft.Term) raft.Term    { return t }
func later(t raft.Term) raft.Term   { return t + 1 }

// strangerShows returns a running cluster in which a stranger has shown a loss to the follower. In the next term, the
// stranger has shown that the follower lacks entries that it acknowledged.
func strangerShows(t *testing.T) (c *cluster, lead, follower *node) {
	c, lead, follower = running(t)
	follower.status.Term++
	follower.hard = raft.HardState{Term: follower.status.Term}
	follower.disk.lossy = true // so N22 does not apply
	lost := raft.EntryID{Term: follower.status.Term, Index: follower.status.Last.Index + 4}
	m := message(lead, follower, follower.status.Term, raft.AppendRequest{Prev: lost, Last: lost, Acknowledged: lost.Index})
	m.From, m.Cluster = raft.Peer{ID: "z", Incarnation: 1}, follower.status.Cluster
	before := follower.status
	follower.status.Suspected = m.From
	c.check.checkSuspicion(follower, &before, []raft.Event{raft.Received{Message: *m}}, &raft.Output{})
	assert.Equal(t, strangerWitness{m.From, m.Term}, follower.seen.stranger)
	assert.Nil(t, c.failure)
	return c, lead, follower
}

func TestMarks_ASuspicionLasts(t *testing.T) {
	c, _, follower := strangerShows(t)
	before := follower.status
	follower.status.Suspected = raft.Peer{}
	c.check.checkSuspicion(follower, &before, nil, &raft.Output{})
	expectBreach(t, c, "N74")
}

func TestMarks_N74AppliesAfterAStrangerShowsALoss(t *testing.T) {
	for _, row := range []struct {
		rule   string
		body   raft.Body // the message that the member sends
		breach bool
	}{
		{"a vote", raft.VoteReply{Granted: true}, true},
		{"a pre-vote", raft.PreVoteReply{Granted: true}, true},
		{"its own candidacy", raft.VoteRequest{}, true},
		{"asking for pre-votes", raft.PreVoteRequest{}, true},
		{"a denied vote", raft.VoteReply{}, false},
		{"a denied pre-vote", raft.PreVoteReply{}, false},
		{"an acknowledgement", raft.AppendReply{Match: 1}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c, lead, follower := strangerShows(t)
			before := follower.status
			follower.status.Term++ // a vote of a later term counts, too
			out := raft.Output{Send: []raft.Message{*message(follower, lead, follower.status.Term, row.body)}}
			c.check.checkSuspicion(follower, &before, nil, &out)
			if row.breach {
				expectBreach(t, c, "N74")
			} else {
				assert.Nil(t, c.failure)
			}
		})
	}
	t.Run("it learns who that was, but does not mark its store", func(t *testing.T) {
		c, lead, follower := strangerShows(t)
		follower.seen.stranger.by = lead.peer()
		before := follower.status
		c.check.checkSuspicion(follower, &before, nil, &raft.Output{})
		expectBreach(t, c, "N74")
	})
	t.Run("an entry of a later term", func(t *testing.T) {
		c, _, follower := strangerShows(t)
		before := follower.status
		follower.status.Last.Term = follower.status.Term + 1
		c.check.checkSuspicion(follower, &before, nil, &raft.Output{})
		assert.Zero(t, follower.seen.stranger)
		assert.Nil(t, c.failure)
	})
	for _, elected := range []bool{false, true} {
		t.Run(fmt.Sprintf("a member leads the same term, elected by this one: %v", elected), func(t *testing.T) {
			c, lead, follower := strangerShows(t)
			before := follower.status
			if elected {
				follower.hard.Vote = lead.peer()
			}
			beat := raft.Received{Message: *message(lead, follower, follower.status.Term, raft.Heartbeat{})}
			out := raft.Output{Send: []raft.Message{*message(follower, lead, follower.status.Term, raft.VoteReply{Granted: true})}}
			c.check.checkSuspicion(follower, &before, []raft.Event{beat}, &out)
			if elected {
				expectBreach(t, c, "N74")
			} else {
				assert.Nil(t, c.failure)
			}
		})
	}
	t.Run("no disk has lost anything", func(t *testing.T) {
		c, _, follower := strangerShows(t)
		follower.disk.lossy = false
		follower.status.Suspected = raft.Peer{ID: "z", Incarnation: 1}
		c.check.checkSuspicion(follower, &raft.CoreStatus{}, nil, &raft.Output{})
		expectBreach(t, c, "N22")
	})
}
