package fuzzy

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariants of the second phase. A bound is in units of its world, see world.go:
// election timeouts, where nothing else takes time.
//
//	L1   Once a quorum is healed, it elects a leader.
//	L2   All healed members reach the same log, and apply it.
//	L3   The healed members serve client requests.
//	L4   A leader stays leader as long as nothing is wrong with it. (dissertation §9.6)
//	L5   A member that comes back deposes nobody and raises no term. (dissertation §9.6)
//	L6   When links are cut for good, a member that reaches a quorum both ways and holds everything committed becomes leader, if there is one. (Howard & Abraham 2020)
//	L7   Repair ends: a follower's log fails the consistency check a bounded number of times. (§5.3)
//	L8   An idle cluster sends heartbeats and nothing else.
//	L9   Every request is answered, even if its member loses its leadership.
//	L10  Once the load has gone, nothing is pending, waiting or in flight.
//	L11  Terms do not race: interference from outside the quorum raises them a bounded number of times.
//	L14  Under load, too, a working quorum answers each request in time.
//	L13  A transfer that nothing prevents succeeds in time.
//	L12  A leader with a stalled disk does not keep a quorum of working disks from committing for long.

// liveness is the second phase. A random quorum, the core, is healed: its processes run, its links and
// disks work, as fast as the profile's World says. Every other fault is permanent. Then the cluster must elect,
// serve, converge and fall quiet.
//
// A stall is a failure, unless choose has named the resource that is missing.
type liveness struct {
	c               *cluster
	random          *sim.Stream
	core            uint64
	exiled          bool // whoever is outside the core is cut off for good
	stage           stage
	since           sim.Time // of the stage
	began           raft.Term
	requestIDs      []raft.RequestID
	served          int
	wrote           bool // what was served is not reads alone
	leader          *node
	doomed          *node          // the leader, left out of the core for nothing but its disk, which stands still; mostly nil
	staller         *node          // who leads on with a disk that stands still
	stalled         sim.Time       // since when
	sent            int            // messages, when the quiet began
	quieted         raft.Term      // the term when the quiet began
	late            int            // messages from before it that arrived in it: each may be answered
	probe           raft.RequestID // a write, while parted
	clashes         int
	asked           int            // requests before the first that must be answered in time; 0: none must yet
	transferOutcome raft.RequestID // of the transfer; 0: none was asked for
	pauses          int            // of processes, since the heal
	term0           raft.Term      // before a follower restarted
}

type stage int

const (
	electing stage = iota
	serving
	transferring // see liveness_transfer.go
	converging
	rejoining // a follower restarted, unseen; nobody writes
	quiet
	parted // see liveness_partial.go
)

var stageRules = [...]string{"L1", "L3", "L13", "L2", "L5", "L4", "L6"}

// An attempt to elect takes two units at most: a wait, which is up to two election timeouts, and the exchanges of
// pre-votes and votes. In a world where these outlast the wait, candidates disturb each other until their waits
// have grown enough: the waits add up to no more than the last one, which is less than twice an attempt. Every
// second attempt or so succeeds then; fifty fail in a row once in 10^15 runs.
const (
	stageUnits     = 100 // that a stage may take
	growthUnits    = 100 // more, where waits must grow
	outerUnits     = 600 // with nodes outside the core that meddle
	stallUnits     = 200 // beyond DiskStallMax, with such links between them and the core as there are
	servedRequests = 8
	termsMax       = 60
)

func newLiveness(c *cluster) *liveness {
	l := &liveness{c: c, random: sim.NewStream(c.seed.Number, sim.ProcessConcern), since: c.now()}
	c.work.stopped = !c.profile.World.Clients
	if c.profile.Name == "calm" {
		c.mustHold(c.check.elections == 1, "L4", "%d elections in a cluster without faults", c.check.elections)
	}
	missing := ""
	if l.core, missing = l.choose(); missing != "" {
		return l.excuse(missing)
	}
	l.exiled = l.random.IntN(4) > 0 && l.doomed == nil
	c.record(Record{Kind: "heal", Text: names(l.core) + ": healed; every other fault is permanent"})
	l.heal()
	if _, bootstrapped := l.configuration(); !bootstrapped {
		// What a mistaken list would have bootstrapped may have reached a disk when its process ended.
		if _, missing = l.chooseBootstrap(); missing != "" {
			return l.excuse(missing)
		}
	}
	for _, n := range c.nodes {
		l.began = max(l.began, n.disk.hard.Term)
	}
	l.clashes = c.check.conflicts
	l.next(electing)
	return l
}

// excuse ends the run: what the second phase takes is not there.
func (l *liveness) excuse(missing string) *liveness {
	l.c.stats.Excuse = missing
	l.c.phase = ended
	return l
}

// heal mends the core, and makes everything else permanent.
func (l *liveness) heal() {
	c := l.c
	now := c.now()
	links := l.core
	if l.doomed != nil {
		links |= 1 << l.doomed.index
	}
	c.net.Calm(links, c.profile.World.network(c.profile.ElectionTimeout))
	for _, n := range c.nodes {
		if l.core>>n.index&1 == 0 {
			l.abandon(n)
			continue
		}
		n.slow, n.loops, n.dieAfter = 0, 0, 0
		n.disk.stallTill, n.disk.fails, n.disk.healed = 0, false, true
		n.clock.Resume(now)
		n.clock.SetDrift(now, 0)
		n.resume()
		if n.misled || n.closing {
			n.crash() // somebody corrects its list, or it was about to end
		}
		n.start()
		n.endWrites()
		if len(n.outbox) > 0 {
			n.later(n.sendWait(), event{kind: evFlush}) // its connection takes more again
		}
	}
}

// abandon leaves a node as it is, for ever.
func (l *liveness) abandon(n *node) {
	if n == l.doomed || n.disk.stallTill > l.c.now() {
		n.disk.stallTill = sim.Never
	}
	n.forever = true
	n.loops, n.dieAfter = 0, 0
	if !l.exiled {
		return
	}
	for i := range l.c.nodes {
		if i != n.index {
			l.c.net.Links.CutBoth(sim.Exiles, n.index, i)
		}
	}
}

func (l *liveness) next(s stage) {
	l.stage, l.since = s, l.c.now()
	l.later()
}

func (l *liveness) later() {
	l.c.queue.Push(l.c.now()+l.c.profile.ElectionTimeout/2, event{kind: evWatch})
}

// watch looks twice in an election timeout whether the stage has reached its end.
func (l *liveness) watch() {
	c := l.c
	c.mustHold(l.term() <= l.began+termsMax+raft.Term(l.pauses), "L11", "%d terms since the heal", l.term()-l.began)
	l.watchStall()
	l.prompt()
	l.pause()
	reached := false
	switch l.stage {
	case electing:
		reached = l.elected()
	case serving:
		reached = l.serves()
	case transferring:
		reached = l.transferEnded()
	case converging:
		reached = l.converged()
	case rejoining:
		reached = l.rejoined()
	case parted:
		reached = l.obeyed()
	case quiet:
		return
	}
	switch {
	case reached && l.stage == parted:
		c.phase = ended
	case reached && l.stage == rejoining:
		l.sent = c.net.Sent
		l.quieted = l.term()
		l.next(quiet)
		c.queue.Push(c.now()+c.profile.quietTime(), event{kind: evPhase})
	case reached && l.stage == electing:
		l.asked = len(c.work.requests)
		l.next(serving)
	case reached && l.stage == serving:
		c.work.stopped = true
		l.next(transferring)
	case reached && l.stage == converging:
		l.restartOne()
		l.next(rejoining)
	case reached:
		l.next(l.stage + 1)
	case c.now()-l.since > l.limit():
		c.fail(Liveness, stageRules[l.stage], "%s\n%s", l.complaint(), c.describe())
	default:
		l.later()
	}
}

// limit grows with what followers may lack, committed or not: they may be sent it entry by entry.
func (l *liveness) limit() sim.Time {
	units := sim.Time(stageUnits)
	if !l.exiled {
		units = outerUnits
	}
	if !l.c.profile.World.quiet() {
		units += growthUnits
	}
	return (units + l.backlog()) * l.c.profile.unit()
}

// backlog is the units that it takes to bring followers up to date.
func (l *liveness) backlog() sim.Time {
	longest := len(l.c.check.canonical)
	for _, n := range l.members() {
		longest = max(longest, int(n.status.Last.Index))
	}
	return sim.Time(longest) / 10
}

func (l *liveness) complaint() string {
	waited := fmt.Sprintf("%d units of %v after nodes %b were healed", (l.c.now()-l.since)/l.c.profile.unit(), l.c.profile.unit(), l.core)
	return waited + ", " + [...]string{"nobody leads them", "they do not serve", "the leadership is not transferred", "they are not equal", "a restarted one is not", "", "nobody leads whom the links that are left allow to"}[l.stage]
}

// watchStall looks whether a leader outside the core leads on though its disk does not work.
func (l *liveness) watchStall() {
	c := l.c
	i := c.leader()
	if i < 0 || l.core>>i&1 == 1 || c.nodes[i].disk.stallTill != sim.Never || c.nodes[i].writing == 0 {
		l.staller = nil
		return
	}
	if n := c.nodes[i]; l.staller != n {
		l.staller, l.stalled = n, c.now()
	}
	stood := c.now() - l.stalled
	c.mustHold(stood <= c.profile.Node.diskStallMax()+stallUnits*c.profile.unit(), "L12",
		"%s has led with a disk that stands still for %v, while nodes %b could go on\n%s", c.nodes[i].id, stood, l.core, c.describe())
}

func (l *liveness) term() (term raft.Term) {
	for _, n := range l.members() {
		term = max(term, n.status.Term)
	}
	return term
}

// members are the nodes of the core.
func (l *liveness) members() []*node {
	var list []*node
	for _, n := range l.c.nodes {
		if l.core>>n.index&1 == 1 && n.core != nil {
			list = append(list, n)
		}
	}
	return list
}

// elected: all that reach the leader follow it. It may be outside the core.
func (l *liveness) elected() bool {
	i := l.c.leader()
	if i < 0 {
		return false
	}
	l.leader = l.c.nodes[i]
	return !l.leader.frozen && l.followed()
}

func (l *liveness) followed() bool {
	following := 0
	for _, n := range l.members() {
		if !l.counts(n) {
			continue
		}
		if n.status.Leader != l.leader.id || n.status.Term != l.leader.status.Term {
			return false
		}
		following++
	}
	return following > 0
}

// counts: the leader can be expected to reach a node, as the life that it knows.
func (l *liveness) counts(n *node) bool {
	m, member := l.leader.status.Config.Member(n.id)
	return member && m.Incarnation == n.disk.incarnation && l.leader.meets(n)
}

// serves: writes and reads are answered, whoever leads meanwhile.
func (l *liveness) serves() bool {
	w := l.c.work
	open := l.requestIDs[:0]
	for _, t := range l.requestIDs {
		switch r := &w.requests[t]; {
		case r.state == answeredWell:
			l.served++
			l.wrote = l.wrote || r.kind == writeRequest
		case r.node.core != nil && !r.node.frozen && r.node.life == r.life && (r.state == unanswered || r.state == acceptedOnly):
			open = append(open, t)
		}
	}
	l.requestIDs = open
	if l.served >= servedRequests && l.wrote {
		return true
	}
	if len(open) > 0 || !l.elected() {
		return false
	}
	for range servedRequests / 4 {
		if t := w.write(l.leader, 0, 1); t > 0 {
			l.requestIDs = append(l.requestIDs, t)
		}
		members := l.members()
		if t := w.read(members[l.random.IntN(len(members))], 0, 0); t > 0 {
			l.requestIDs = append(l.requestIDs, t)
		}
	}
	return false
}

// converged: all that reach the leader have applied the same.
func (l *liveness) converged() bool {
	if !l.elected() || l.leader.status.Last.Index > l.c.check.committed() {
		return false
	}
	for _, n := range l.members() {
		if l.counts(n) && (n.status.Last != l.leader.status.Last || n.applied < l.c.check.committed()) {
			return false
		}
	}
	return true
}

// restartOne restarts a follower in the core, if that leaves a quorum.
func (l *liveness) restartOne() {
	members := l.members()
	n := members[l.random.IntN(len(members))]
	l.term0 = l.leader.status.Term
	if n == l.leader || !l.counts(n) || !l.exiled {
		return
	}
	l.c.record(Record{Kind: "fault", Text: string(n.id) + " restarts"})
	n.crash()
	n.start()
}

// rejoined: it has caught up, and deposed nobody (dissertation §9.6).
func (l *liveness) rejoined() bool {
	if l.exiled && l.c.profile.steady() && l.c.profile.Voters > 2 && bits.OnesCount64(l.core) == len(l.c.nodes) {
		l.c.mustHold(l.leader.status.Role == raft.Leader && l.leader.status.Term == l.term0, "L5",
			"%s lost the lead when a follower restarted", l.leader.id)
	}
	return l.converged()
}

const quietTimeouts = 6

// quietTime is how long nothing is asked of the cluster. What was repeated before, such as a forwarded read whose
// answer was long under way, has its answer, too, when it ends.
func (p *Profile) quietTime() sim.Time {
	return quietTimeouts*p.ElectionTimeout + 4*(p.unit()-p.ElectionTimeout)
}

// end is called when the quiet ends.
func (l *liveness) end() {
	c := l.c
	whole := bits.OnesCount64(l.core) == len(c.nodes)
	if whole && c.profile.steady() {
		c.mustHold(l.leader.status.Role == raft.Leader, "L4", "%s lost the lead of an idle cluster", l.leader.id)
		beats := (len(c.nodes) - 1) * 2 * 3 * int(c.profile.quietTime()/c.profile.ElectionTimeout+2)
		c.mustHold(c.net.Sent-l.sent <= beats+2*l.late, "L8", "%d messages of an idle cluster in %v", c.net.Sent-l.sent, c.profile.quietTime())
	}
	repairs := c.check.conflicts - l.clashes
	// Appends behind one that did not leave are rejected one by one: with a window of one entry each, that
	// is at most once an entry and follower, and again for each course of probing.
	bound := int(l.term()) + (len(c.nodes)-1)*(40+int(l.leader.status.Last.Index))
	c.mustHold(!l.exiled || repairs <= bound, "L7", "%d failed consistency checks since the heal", repairs)
	l.allAnswered()
	l.relieved()
}

// allAnswered: everything that was asked of a core in this life has its answer.
func (l *liveness) allAnswered() {
	for i := range l.c.work.requests {
		r := &l.c.work.requests[i]
		if r.node == nil || r.node.core == nil || r.life != r.node.life || l.core>>r.node.index&1 == 0 {
			continue
		}
		if !l.counts(r.node) {
			continue
		}
		if r.state == unanswered || r.state == acceptedOnly {
			l.c.fail(Liveness, "L9", "request %d, asked of %s at %v, is not answered (state %d)", i, r.node.id, r.opened, r.state)
			return
		}
	}
}

// mustHold is a check of something that must happen.
func (c *cluster) mustHold(holds bool, rule, format string, args ...any) {
	if !holds {
		c.fail(Liveness, rule, format, args...)
	}
}

// describe prints every member.
func (c *cluster) describe() string {
	var b strings.Builder
	for _, n := range c.nodes {
		switch {
		case n.core == nil:
			fmt.Fprintf(&b, "%s down, durable %+v, log up to %d, damaged %v\n", n.id, n.disk.hard, len(n.disk.log), n.disk.damaged)
		default:
			fmt.Fprintf(&b, "%s frozen=%v forever=%v %s %v\n", n.id, n.frozen, n.forever, n.core.State(), n.status.Missing)
		}
	}
	return b.String()
}
