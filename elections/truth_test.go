package elections

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// deed is one step of a member in a trace. It holds the facts that a test can learn from the trace, without asking the
// machine.
type deed struct {
	n             int
	self, peer    Rank // peer: whose message it takes, 0 for none
	algorithm     *Algorithm
	before, after Rank // whom it takes for the leader
	rules         []string
	sent          map[string][]Rank // to whom, by the kind of the message
	// The members that have answered since the last election began, and whether that election is still in progress.
	answered []Rank
	electing bool
}

// others are all members in a range but the one that acts.
func (d *deed) others(from, to Rank) (ranks []Rank) {
	for r := from; r <= to; r++ {
		if r != d.self {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// sends reports whether the member sends a message of one of the kinds to exactly these members. If no kind is given, any
// kind counts.
func (d *deed) sends(to []Rank, kinds ...string) bool {
	for kind, ranks := range d.sent {
		if (len(kinds) == 0 || slices.Contains(kinds, kind)) && slices.Equal(ranks, to) {
			return true
		}
	}
	return len(to) == 0 && len(d.sent) == 0
}

// silent reports whether the member sends nothing, or nothing but acknowledgements of hops.
func (d *deed) silent() bool {
	_, ack := d.sent["ACK"]
	return len(d.sent) == 0 || len(d.sent) == 1 && ack
}

func (d *deed) toAll() bool { return d.sends(d.others(1, Rank(d.n))) }

func (d *deed) isBully() bool {
	return slices.Contains([]string{"bully-a", "bully-b", "next-in-line"}, d.algorithm.Name)
}

// claims lists the claims in the sentences that a trace can refute. If a sentence matches a claim, the claim must hold.
var claims = []struct {
	says  *regexp.Regexp
	holds func(d *deed) bool
}{
	{says(`I ask every higher rank`), func(d *deed) bool {
		return int(d.self) < d.n && d.sends(d.others(d.self+1, Rank(d.n)), "ELECTION")
	}},
	{says(`no rank is above mine|No rank is above mine`), func(d *deed) bool { return int(d.self) == d.n }},
	{says(`tell all lower ranks`), func(d *deed) bool { return d.self > 1 && d.sends(d.others(1, d.self-1)) }},
	{says(`tell any lower rank`), func(d *deed) bool { return d.sends(d.others(1, d.self-1)) }},
	{says(`tell all( that|\.)|tell everybody|to all|I lead: I send my heartbeats`), func(d *deed) bool {
		return d.toAll() || isCore(d.algorithm) && !d.silent()
	}},
	{says(`(^|: )I lead(\.|,|:| the | a | and )|I keep leading`), func(d *deed) bool { return d.after == d.self }},
	{says(`I stop leading|no longer lead myself|I step down|I yield|I do not lead|I decline`), func(d *deed) bool { return d.after != d.self }},
	{says(`^A leader announces itself: I follow`), func(d *deed) bool { return d.after == d.peer }},
	{says(`I follow\b`), func(d *deed) bool { return d.after != 0 && d.after != d.self }},
	{says(`my election is over`), func(d *deed) bool { return d.electing }},
	{says(`^A leader announces itself: I follow\.`), func(d *deed) bool { return !d.electing }},
	{says(`^My leader|my leader's name`), func(d *deed) bool { return d.before != 0 && d.before != d.self }},
	{says(`^My leader's heartbeat`), func(d *deed) bool { return d.before == d.peer }},
	{says(`not from my leader`), func(d *deed) bool { return d.before != d.peer }},
	{says(`I have no leader|^I know no leader`), func(d *deed) bool { return d.before == 0 }},
	{says(`I know no leader\.`), func(d *deed) bool { return d.after == 0 }},
	{says(`I answer[:,. ]`), func(d *deed) bool { return slices.Contains(d.receivers(), d.peer) }},
	{says(`I drop it|I ignore|it is too late|in vain`), func(d *deed) bool { return d.silent() && d.after == d.before }},
	{says(`A lower rank`), func(d *deed) bool { return d.peer < d.self || !d.isBully() }},
	{says(`A higher rank`), func(d *deed) bool { return d.peer > d.self || !d.isBully() }},
	{says(`One below me`), func(d *deed) bool { return d.peer < d.self || d.algorithm == bullyQuality }},
	{says(`One above me`), func(d *deed) bool { return d.peer > d.self || d.algorithm == bullyQuality }},
	{says(`tell all below me`), func(d *deed) bool { return d.sends(d.others(1, d.self-1)) || d.toAll() }},
	{says(`No(ne above me| candidate) answered`), func(d *deed) bool { return len(d.answered) == 0 }},
	{says(`No higher candidate answered`), func(d *deed) bool {
		return !slices.ContainsFunc(d.answered, func(r Rank) bool { return r > d.self })
	}},
	{says(`the highest that answered leads`), func(d *deed) bool {
		return len(d.answered) > 0 && slices.Max(d.answered) == d.after
	}},
	{says(`All are in my group`), func(d *deed) bool { return d.sends(d.others(1, Rank(d.n)), "HEARTBEAT") }},
	{says(`a group of one, and invite all`), func(d *deed) bool { return d.sends(d.others(1, Rank(d.n)), "INVITE") }},
	{says(`I send my group heartbeats, and invite`), func(d *deed) bool {
		return len(d.sent["HEARTBEAT"]) > 0 && len(d.sent["INVITE"]) > 0
	}},
	{says(`I invite it(\.| into)`), func(d *deed) bool { return len(d.sent["INVITE"]) == 1 }},
	{says(`I invite it next time|invited already|invited all outside just now|no longer lead myself`), (*deed).silent},
}

func says(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

func (d *deed) receivers() (all []Rank) {
	for _, ranks := range d.sent {
		all = append(all, ranks...)
	}
	return all
}

// truthReader builds deeds from a trace, and checks that the sentences of each deed are true.
type truthReader struct {
	algorithm *Algorithm
	n         int
	now       *deed
	held      map[Rank]Rank
	kinds     map[int]string // of messages
	answered  map[Rank][]Rank
	electing  map[Rank]bool
	untrue    map[string]*deed // the sentences that did not hold, and where
	said      map[string]*promise
}

func newTruthReader(a *Algorithm, n int) *truthReader {
	return &truthReader{
		algorithm: a, n: n, held: map[Rank]Rank{}, kinds: map[int]string{}, answered: map[Rank][]Rank{},
		electing: map[Rank]bool{}, untrue: map[string]*deed{}, said: map[string]*promise{},
	}
}

func (r *truthReader) take(record Record) {
	switch record.Kind {
	case RecordStart, RecordArrive, RecordTimer, RecordTold, RecordLost:
		r.end()
		self := record.Member
		if record.Kind == RecordStart {
			r.held[self], r.answered[self], r.electing[self] = 0, nil, false
		}
		r.now = &deed{
			n: r.n, self: self, peer: record.Peer, algorithm: r.algorithm, before: r.held[self], after: r.held[self],
			sent: map[string][]Rank{}, answered: r.answered[self], electing: r.electing[self],
		}
		if kind := r.kinds[record.Message]; kind == "ALIVE" || kind == "ANSWER" {
			r.answered[self] = append(r.answered[self], record.Peer)
		}
	case RecordRule:
		r.now.rules = append(r.now.rules, record.Text)
	case RecordSend:
		r.kinds[record.Message] = record.Text
		r.now.sent[record.Text] = append(r.now.sent[record.Text], record.Peer)
	case RecordLeader:
		r.now.after, r.held[record.Member] = record.Peer, record.Peer
	case RecordEnd:
		r.end()
	}
}

// end checks the deed that is over.
func (r *truthReader) end() {
	d := r.now
	if d == nil {
		return
	}
	r.now = nil
	for _, rule := range d.rules {
		p := r.sentence(rule)
		for _, holds := range p.holds {
			if !holds(d) {
				r.untrue[rule] = d
			}
		}
		if p.begins {
			r.answered[d.self], r.electing[d.self] = nil, true
		}
		if p.ends {
			r.electing[d.self] = false
		}
	}
}

// promise is what a sentence says.
type promise struct {
	holds        []func(d *deed) bool
	begins, ends bool // an election of the member's own
}

// sentence reads a sentence, once.
func (r *truthReader) sentence(rule string) *promise {
	p := r.said[rule]
	if p == nil {
		p = &promise{begins: begins.MatchString(rule), ends: ends.MatchString(rule)}
		for _, c := range claims {
			if c.says.MatchString(rule) {
				p.holds = append(p.holds, c.holds)
			}
		}
		r.said[rule] = p
	}
	return p
}

var (
	begins = says(`I hold an election|I answer, and hold my own|I start an election|I ask `)
	ends   = says(`I follow\b|: I lead[,.]`)
)

// The sentence that a member records for a step is true of that step, as far as the trace shows.
func TestRules_TellNoUntruth(t *testing.T) {
	seeds := map[int]uint64{2: 1, tracedSize: 1}
	for _, a := range Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			for n, seeds := range seeds {
				for _, s := range append(slices.Clip(Scenarios()), LostVotes()) {
					for seed := uint64(1); seed <= seeds && s.Takes(a); seed++ {
						r := newTruthReader(a, n)
						_, err := Run(a, s, &Setup{N: n, Times: Scaled()}, seed, r.take)
						require.NoError(t, err)
						require.NotEmpty(t, r.said)
						for rule, d := range r.untrue {
							assert.Fail(t, rule, "%s, n = %d, seed %d: %d from %d, leader %d, then %d, of %q, sends %v, answered by %v",
								s.Name, n, seed, d.self, d.peer, d.before, d.after, d.rules, d.sent, d.answered)
						}
					}
				}
			}
		})
	}
}

// rareRow is a state that hardly ever occurs in a comparison, and the sentence that the member records in that state.
type rareRow struct {
	state     string
	algorithm *Algorithm
	self      Rank
	options   Options
	do        func(a *actor)
	want      string
}

var rareRows = []rareRow{
	{"the lowest rank has nobody to tell", bullyThreeStep, 1, Options{}, func(a *actor) { a.fires(timerAlive) },
		"None above me answered: I lead, and tell all below me."},
	{"who is told to proceed need not be the highest", bullyThreeStep, 3, Options{}, func(a *actor) { a.hears(1, bullyProceed) },
		"I am told to proceed: I lead, and tell all below me."},
	{"who answers when another was told to proceed is late", bullyThreeStep, 3, Options{}, func(a *actor) {
		a.hears(5, bullyAlive)
		a.fires(timerAlive)
		a.hears(4, bullyAlive)
	}, "This is too late, or a duplicate: I drop it."},
	{"a follower has no election that could be over", bullyThreeStep, 3, Options{}, func(a *actor) {
		a.hears(5, announcement{})
		a.hears(4, announcement{})
	}, "A leader announces itself: I follow."},
	{"the highest rank is asked, and has nobody to ask", bullyCascading, 5, Options{}, func(a *actor) { a.hears(2, cascadeElection) },
		"I hold an election: no rank is above mine to ask, but I wait."},
	{"who leads has no election that an answer could be for", bullyCascading, 3, Options{}, func(a *actor) {
		a.fires(timerAnswer)
		a.hears(4, cascadeAnswer)
	}, "An answer to an earlier election of mine: I drop it."},
	{"nobody is before the first in line", nextInLineFailover, 3, Options{}, func(a *actor) {
		a.hears(5, announcement{[]Rank{3, 2}})
		a.fires(TimerSuspect)
	}, "I am next in line, and nobody before me answered: I lead."},
	{"who starts has no leader that could be silent", candidateOrdinary, 3, Options{}, func(a *actor) { a.fires(TimerSuspect) },
		"I know no leader, δ has passed: I ask any candidate left."},
	{"nobody answered a candidate", candidateOrdinary, 3, Options{Candidates: []Rank{3, 5}}, func(a *actor) {
		a.fires(TimerSuspect)
		a.fires(timerCollect)
	}, "No higher candidate answered in time: I lead, and tell all."},
	{"one that left the group has not been invited", invitationAlgorithm, 3, Options{}, func(a *actor) {
		a.hears(2, acceptance{group{3, 1}, []Rank{2, 4}})
		a.fires(TimerHeartbeat)
		a.hears(2, invite{group{2, 1}, 1})
	}, "One that was in my group invites me: I invite it next time."},
	{"a former group of its own is named", invitationAlgorithm, 3, Options{}, func(a *actor) { a.hears(2, referral{group{3, 0}}) },
		"I am referred to a leader that is in my group already."},
	{"a member that was skipped acknowledges", ringCollecting, 3, Options{}, func(a *actor) {
		l := a.waiting[0].message.(lap)
		a.clock += a.times.Answer
		a.fires(timerHop)
		a.hears(4, ack{l})
	}, "This acknowledgement is late: I no longer wait for it."},
	{"nobody is in service", ballotsNone, 1, Options{Priorities: []int{-1, 1, 1, 1, 1}}, started,
		"I am out of service, and so is all that I hear: nobody wins."},
	{"a claim may be a dead leader's", ballotsNone, 1, Options{Priorities: []int{1, 1, 1, 1, 1}}, func(a *actor) {
		a.hears(2, ballot{stamp: a.wall(1), votes: 1, claims: true, cast: true})
		a.fires(ballotsPeriod)
	}, "I win, but a member of no lower priority claims to lead."},
}

func TestRules_TellNoUntruthInRareStates(t *testing.T) {
	for _, row := range rareRows {
		t.Run(row.state, func(t *testing.T) {
			a := &actor{newBench(t, 5, Scaled()), row.self}
			row.options.Self, row.options.N = row.self, 5
			a.start(row.self, row.algorithm.New(row.options))
			row.do(a)
			require.NotEmpty(t, a.rules)
			assert.Contains(t, a.rules[max(0, len(a.rules)-2):], fmt.Sprintf("%d: %s", row.self, row.want))
		})
	}
}

// Raft's sentence about a message depends on the message's term, and on whether the member still leads.
func TestRules_OfRaftHeedTheTermOfAMessage(t *testing.T) {
	const term = 5
	for _, row := range []struct {
		state string
		body  raft.Body
		term  raft.Term
		leads bool
		want  string
	}{
		{"a pre-vote is answered, and its grant counts, whatever the terms", raft.PreVoteRequest{}, term - 1, false, "would vote"},
		{"so does the grant", raft.PreVoteReply{}, term - 1, false, "An answer to my pre-vote."},
		{"a request of an older term is answered", raft.VoteRequest{}, term - 1, false, "I answer with my term."},
		{"so is an older leader", raft.Heartbeat{}, term - 1, true, "I answer with my term."},
		{"a vote of an older term is late", raft.VoteReply{}, term - 1, true, "it is too late."},
		{"an answer to its leadership", raft.HeartbeatReply{}, term, true, "I lead on"},
		{"an answer to a leadership that is over", raft.AppendReply{}, term, false, "that has ended."},
		{"an answer to an older leadership, though it leads again", raft.HeartbeatReply{}, term - 1, true, "that has ended."},
		{"an answer that ends its leadership", raft.HeartbeatReply{}, term + 1, true, "newer term than mine."},
		{"a leader that steps down matters to elections", raft.SteppedDown{}, term, false, "stepped down."},
	} {
		assert.Contains(t, raftHeard(&raft.Message{Term: row.term, Body: row.body}, term, row.leads), row.want, row.state)
	}
}
