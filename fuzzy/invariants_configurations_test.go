package fuzzy

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// namedConfig returns the configuration of level 1 that a text describes. The text has up to three parts, separated by
// slashes: the members, the outgoing voters, and the members that entry 9 has removed. "d:learner>voter" is a learner that is
// to become a voter. A member without a kind is a voter. Incarnations follow from the ids.
func namedConfig(text string) raft.Configuration {
	parts := append(strings.Split(text, "/"), "", "")
	kinds := map[string]raft.MemberKind{"": raft.Voter, "learner": raft.Learner, "leaving": raft.Leaving}
	roles := map[string]raft.NextRole{"": raft.NextSame, "voter": raft.NextVoter, "learner": raft.NextLearner, "removed": raft.NextRemoved}
	var members []raft.Member
	for _, word := range strings.Fields(parts[0]) {
		word, role, _ := strings.Cut(word, ">")
		id, kind, _ := strings.Cut(word, ":")
		m := raft.Member{ID: raft.NodeID(id), Address: id, Kind: kinds[kind], Next: roles[role], Incarnation: raft.Incarnation(id[0])}
		members = append(members, m)
	}
	c := raft.NewConfiguration(members)
	c.Level = 1
	for _, id := range strings.Fields(parts[1]) {
		c.Outgoing = append(c.Outgoing, raft.Peer{ID: raft.NodeID(id), Incarnation: raft.Incarnation(id[0])})
	}
	for _, id := range strings.Fields(parts[2]) {
		c.Removed = append(c.Removed, raft.Removal{Peer: raft.Peer{ID: raft.NodeID(id), Incarnation: raft.Incarnation(id[0])}, Index: 9})
	}
	return c
}

func TestUnlawful_NoticesEachBreach(t *testing.T) {
	for _, row := range []struct{ why, before, after string }{
		{"", "a b c", "a b c d:learner"},
		{"", "a b c", "a b c d:learner>voter"},
		{"", "a b c d:learner>voter", "a b c d/a b c"},
		{"", "a b c d:learner>voter", "a b c d:learner"},
		{"", "a b c", "a b c:leaving/a b c"},
		{"", "a b c:leaving/a b c", "a b//c"},
		{"", "a b c>removed d:learner>voter", "a b c:leaving d/a b c"},
		{"", "a b c>removed d:learner>voter", "a b c d:learner"},
		{"", "a b c d:learner", "a b c//d"},
		{"the voters change", "a b c", "a b c d"},
		{"the voters change", "a b c", "a b//c"},
		{"the voters change", "a b c", "a b c:learner"},
		{"the voters change", "a b c:leaving/a b c", "a//b c"},
		{"outgoing voters", "a b c d:learner>voter", "a b c d/a b"},
		{"it is joint, and so", "a b c d/a b c", "a b c:leaving d/a b c d"},
		{"did not have to catch up", "a b c d:learner", "a b c d/a b c"},
		{"removed at once", "a b c", "a b/a b c"},
		{"in part", "a b c>removed d:learner>voter", "a b c:leaving d:learner/a b c"},
		{"in part", "a b c>removed d:learner>voter", "a b c>removed d:learner"},
		{"but not as a learner", "a b c", "a b c d/a b c"},
		{"while a change is running", "a b c d:learner>voter", "a b c d:learner e:learner"},
		{"more than that", "a b c:leaving/a b c", "a b c:learner"},
		{"returns", "a b//c", "a b c:learner//c"},
		{"remember", "a b c d:learner", "a b c"},
		{"remember", "a b//c", "a b"},
	} {
		before, after := namedConfig(row.before), namedConfig(row.after)
		why := unlawful(&before, &after, 9)
		if row.why == "" {
			assert.Empty(t, why, "%s, then %s", row.before, row.after)
		} else {
			assert.Contains(t, why, row.why, "%s, then %s", row.before, row.after)
		}
	}
	before, after := namedConfig("a b c d:learner>voter"), namedConfig("a b c d/a b c")
	after.Members[0].Address = "elsewhere"
	assert.Contains(t, unlawful(&before, &after, 9), "an address changes")
	before, after = namedConfig("a"), namedConfig("a b:learner")
	after.Level = 0
	assert.Contains(t, unlawful(&before, &after, 9), "feature level")
	before, after = namedConfig("a b c d:learner"), namedConfig("a b c//d")
	assert.Contains(t, unlawful(&before, &after, 10), "by which entry")
}

// Every quorum of a configuration meets every quorum of each configuration that may follow it. The test tries all pairs of
// configurations of four members.
func TestUnlawful_QuorumsOfNeighboursMeet(t *testing.T) {
	lawful := 0
	all := halvesOfFour()
	for _, before := range all {
		for _, after := range all {
			if unlawful(&before, &after, 9) != "" {
				continue
			}
			lawful++
			for one := range 16 {
				for other := range 16 {
					if one&other == 0 && quorum(&before, among(one)).reached() && quorum(&after, among(other)).reached() {
						assert.Fail(t, "two quorums do not meet", "%+v and %+v: %b and %b", before, after, one, other)
					}
				}
			}
		}
	}
	assert.Greater(t, lawful, 100)
}

func among(set int) func(p raft.Peer) bool {
	return func(p raft.Peer) bool { return set>>(p.Incarnation-'a')&1 == 1 }
}

// halvesOfFour returns one configuration of a, b, c and d for each pair of halves.
func halvesOfFour() (all []raft.Configuration) {
	for incoming := 1; incoming < 16; incoming++ {
		for outgoing := range 16 {
			c := namedConfig("a:learner b:learner c:learner d:learner")
			for i := range c.Members {
				m := &c.Members[i]
				switch in, out := among(incoming)(m.Peer()), among(outgoing)(m.Peer()); {
				case in:
					m.Kind = raft.Voter
				case out:
					m.Kind = raft.Leaving
				}
				if among(outgoing)(m.Peer()) {
					c.Outgoing = append(c.Outgoing, m.Peer())
				}
			}
			c.Members = slices.DeleteFunc(c.Members, func(m raft.Member) bool { return m.Kind == raft.Learner && outgoing > 0 })
			all = append(all, c, waitingFor(c))
		}
	}
	return all
}

// waitingFor returns the configuration with a change in which all learners wait to become voters.
func waitingFor(c raft.Configuration) raft.Configuration {
	c.Members = slices.Clone(c.Members)
	for i := range c.Members {
		if c.Members[i].Kind == raft.Learner {
			c.Members[i].Next = raft.NextVoter
		}
	}
	return c
}

// rule puts a configuration in force in a member's log. The last entry of the log becomes its entry.
func (n *node) rule(config raft.Configuration) *loggedConfig {
	last := &n.log[len(n.log)-1]
	l := &loggedConfig{Configuration: config, index: last.entry.Index, term: last.entry.Term, before: last.config}
	last.config = l
	n.configBefore = l
	n.status.Config, n.status.ConfigIndex = config, l.index
	return l
}

// voteless returns the configuration of a member's log, changed so that some members do not vote.
func voteless(n *node, members ...*node) raft.Configuration {
	c := *n.config()
	c.Members = slices.Clone(c.Members)
	for _, m := range members {
		c.Members[m.index].Kind = raft.Learner
	}
	return c
}

// jointWith returns a joint configuration. Its incoming half is one member alone, and its outgoing half is all members.
func jointWith(n *node) raft.Configuration {
	c := *n.config()
	c.Members = slices.Clone(c.Members)
	for i := range c.Members {
		c.Outgoing = append(c.Outgoing, c.Members[i].Peer())
		if i != n.index {
			c.Members[i].Kind = raft.Leaving
		}
	}
	return c
}

var configurationBreaches = []breach{
	{"N7", func(_ *cluster, k *checker, _, follower *node) {
		follower.rule(voteless(follower, follower))
		follower.status.Role, follower.status.Commit = raft.Candidate, configured(follower.log).index
		k.checkRole(follower)
	}},
	{"N7", func(_ *cluster, k *checker, lead, _ *node) { // it was no voter before, either
		lead.rule(voteless(lead, lead)).before = nil
		k.checkRole(lead)
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkConfiguration(lead, &lead.status, &raft.Output{Config: &raft.Configuration{}})
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) { // nothing has changed
		k.checkConfiguration(lead, &lead.status, &raft.Output{Config: &lead.status.Config})
	}},
	{"N9", func(_ *cluster, k *checker, lead, follower *node) { // others than its log says
		lead.status.Config = voteless(lead, follower)
		k.checkConfiguration(lead, &lead.status, &raft.Output{})
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.ConfigIndex++
		k.checkConfiguration(lead, &lead.status, &raft.Output{})
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.ConfigCommitted = 0
		k.checkConfiguration(lead, &lead.status, &raft.Output{})
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) { // it has changed, and that is not reported
		lead.rule(voteless(lead))
		lead.configBefore = nil
		lead.status.ConfigCommitted = lead.status.ConfigIndex
		k.checkConfiguration(lead, &lead.status, &raft.Output{})
	}},
	{"N9", func(_ *cluster, k *checker, lead, _ *node) { // it does not decode
		k.logged(lead, &raft.Entry{Index: 5, Term: 1, Kind: raft.EntryConfiguration, Data: []byte("{}")}, 77, lead.log[0].config)
	}},
	{"G7", func(_ *cluster, k *checker, lead, follower *node) {
		after := voteless(lead, follower)
		after.Level = 1
		e := raft.Entry{Index: 5, Term: 1, Kind: raft.EntryConfiguration, Data: after.Encode()}
		k.logged(lead, &e, 77, lead.log[0].config)
	}},
	{"G19", func(_ *cluster, k *checker, lead, _ *node) { // the one before it is not committed
		first := lead.rule(voteless(lead))
		lead.status.Commit = first.index - 1
		k.checkConfigAppended(lead, &loggedConfig{index: first.index + 1, term: lead.status.Term, before: first})
	}},
	{"G19", func(_ *cluster, k *checker, lead, _ *node) { // no entry of its term is committed
		lead.status.Term++
		k.checkConfigAppended(lead, &loggedConfig{index: lead.status.Last.Index + 1, term: lead.status.Term, before: lead.log[0].config})
	}},
	{"G5", func(c *cluster, k *checker, lead, _ *node) { // the leader alone is the incoming half
		lead.rule(jointWith(lead))
		for _, n := range c.nodes {
			if n != lead {
				n.disk.log = n.disk.log[:2]
			}
		}
		k.checkHeldByQuorum(lead, lead.log[lead.status.Commit-1].hash)
	}},
	{"G5", func(_ *cluster, k *checker, lead, follower *node) { // the leader is outside, and counts itself
		lead.rule(voteless(lead, lead))
		follower.disk.log = follower.disk.log[:2]
		k.checkHeldByQuorum(lead, lead.log[lead.status.Commit-1].hash)
	}},
	{"G8", func(c *cluster, k *checker, lead, _ *node) {
		clear(k.leaders)
		lead.rule(jointWith(lead))
		for _, n := range c.nodes {
			if n != lead {
				delete(k.votes, voteKey{n.disk.incarnation, 0, lead.status.Term})
			}
		}
		k.checkElection(lead, &raft.CoreStatus{})
	}},
	{"G13", func(_ *cluster, k *checker, lead, _ *node) {
		lead.rule(jointWith(lead))
		r := reading{requestID: 1 << 40}
		lead.seen.recordRead(r)
		k.checkReadConfirmed(lead, r)
	}},
	{"N13", func(_ *cluster, k *checker, lead, _ *node) {
		lead.rule(jointWith(lead))
		lead.seen.now = lead.now().Mono
		for i := range lead.seen.peers {
			lead.seen.peers[i].heard = 0
		}
		k.checkOffice(lead, &lead.status)
	}},
	{"G15", func(_ *cluster, k *checker, lead, follower *node) { // a client's transfer, whose target is leaving
		lead.seen.transfer = 1 << 20
		lead.rule(jointWith(lead))
		k.checkTimeoutNow(lead, &lead.status, message(lead, follower, lead.hard.Term, raft.TimeoutNow{}))
	}},
	{"G9", func(_ *cluster, k *checker, lead, _ *node) { // a configuration of another entry
		b := lead.disk.baseAt(5)
		b.ConfigIndex++
		k.checkSnapshotBase(lead, &b)
	}},
}

func TestInvariants_OfConfigurationsNoticeTheirBreach(t *testing.T) {
	for _, row := range configurationBreaches {
		c, lead, follower := running(t)
		row.breach(c, c.check, lead, follower)
		expectBreach(t, c, row.rule)
	}
}

// A leader whose own disk has stalled may transfer its leadership to any voter.
func TestInvariants_AVoterThatIsLeavingMayTakeOver(t *testing.T) {
	c, lead, follower := running(t)
	lead.rule(jointWith(lead))
	c.check.checkTimeoutNow(lead, &lead.status, message(lead, follower, lead.hard.Term, raft.TimeoutNow{}))
	assert.Nil(t, c.failure)
}

// A leader that is voted out still leads until its removal is committed.
func TestInvariants_ALeaderThatIsVotedOutMayLead(t *testing.T) {
	c, lead, _ := running(t)
	lead.rule(voteless(lead, lead))
	c.check.checkRole(lead)
	assert.Nil(t, c.failure)
}

// A truncated log has the newest configuration of its remaining entries.
func TestConfigurations_FallBackWithTheirLog(t *testing.T) {
	c, lead, follower := running(t)
	first := lead.config()
	next := namedConfig("a:learner")
	next.Members = append(slices.Clone(first.Members), next.Members[0])
	next.Members[3].ID = "d"
	last := lead.log[len(lead.log)-1].entry.ID()
	e := raft.Entry{Index: last.Index + 1, Term: last.Term, Kind: raft.EntryConfiguration, Data: next.Encode()}
	log := c.check.lengthen(lead, slices.Clone(lead.log), &raft.LogWrite{After: last, Entries: []raft.Entry{e}})
	require.Nil(t, c.failure)
	assert.True(t, configured(log).Equal(next))
	assert.Equal(t, e.Index, configured(log).index)
	same := c.check.lengthen(follower, slices.Clone(lead.log), &raft.LogWrite{After: last, Entries: []raft.Entry{e}})
	assert.Same(t, configured(log), configured(same), "equal logs share it")
	assert.Same(t, first, &configured(log[:len(log)-1]).Configuration)
	cut := c.check.lengthen(lead, log, &raft.LogWrite{After: last})
	assert.Same(t, first, &configured(cut).Configuration)
	assert.Nil(t, configured(nil))
}
