package fuzzy

import (
	"fmt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariants of the second phase. Bounds are in units of the run's world (see world.go), which are election timeouts if
// nothing else takes time.
//
//	L1   Once a quorum is healed, it elects a leader.
//	L2   All healed members reach the same log, and apply it.
//	L3   The healed members serve client requests.
//	L4   A leader stays leader as long as nothing is wrong with it. (dissertation §9.6)
//	L5   A member that comes back deposes no leader and raises no term. (dissertation §9.6)
//	L6   When links are permanently cut, a member that reaches a quorum both ways and holds everything committed becomes leader, if there is such a member. (Howard & Abraham 2020)
//	L7   Repair ends: a follower's log fails the consistency check a bounded number of times. (§5.3)
//	L8   An idle cluster sends heartbeats and nothing else.
//	L9   Every request is answered, even if its member loses its leadership.
//	L10  Once the load has ended, nothing is pending, waiting or in flight.
//	L11  Terms do not race: interference from outside the quorum raises them a bounded number of times.
//	L14  Under load, too, a working quorum answers each request in time.
//	L13  A transfer that nothing prevents succeeds in time.
//	L15  A joint configuration is left, and a change that waits for members takes effect or is given up.
//	L18  A healed voter that was removed learns about its removal from the members that it dials.
//	L19  Healed members find each other: they dial the members of the configuration at their present addresses.
//	L12  A leader with a stalled disk, or with an FSM that hangs, prevents a working quorum from serving only for a short time.

// liveness is the second phase. A random quorum, called the core, is healed: its processes run, and its links and disks work
// as fast as the profile's World says. Every other fault is permanent. Then the cluster must elect a leader, serve clients,
// converge and fall quiet.
//
// If a stage does not end in time, the run fails, unless choose has named a missing resource.
type liveness struct {
	c               *cluster
	random          *sim.Stream
	core            uint64
	exiled          bool // the nodes outside the core are permanently cut off
	stage           stage
	since           sim.Time // beginning of the stage
	began           raft.Term
	requestIDs      []raft.RequestID
	served          int
	wrote           bool // not only reads, but also a write was served
	leader          *node
	doomed          *node          // the leader, left out of the core only because its disk is stalled or full; usually nil
	staller         *node          // a leader that keeps leading with a stalled disk
	stalled         sim.Time       // since when, or since a member of the core last caught up a little
	behind, nearest raft.Index     // the leader's initial last entry, and how close to it a member of the core has come
	sent            int            // messages sent before the quiet
	quieted         raft.Term      // the term at the beginning of the quiet
	late            int            // earlier messages that arrived during the quiet: each may be answered
	probe           raft.RequestID // a write during the last stage
	clashes         int
	takeovers       int            // begun before the heal
	unwritten       bool           // nobody writes until the logs are equal
	asked           int            // requests before the first that must be answered in time; 0: none must yet
	transferOutcome raft.RequestID // the request for the transfer; 0: none yet
	transfers       int            // transfers requested
	pauses          int            // pauses of processes since the heal
	grown           sim.Time       // the longest wait of a member since the heal; 0: no wait has grown
	term0           raft.Term      // the term before a follower restarted, or of the leader that transfers its leadership
}

type stage int

const (
	electing stage = iota
	serving
	joins        // processes get their places, see liveness_joining.go
	settling     // the running change of members ends
	transferring // see liveness_transfer.go
	converging
	rejoining // a follower has restarted unnoticed by its leader; nobody writes
	quiet
	parted // see liveness_partial.go
)

var stageRules = [...]string{"L1", "L3", "L23", "L15", "L13", "L2", "L5", "L4", "L6"}

// An election attempt takes at most two units: one for a wait of up to two election timeouts, and one for the exchanges of
// pre-votes and votes. In some worlds the exchanges take longer than the wait. There, candidates disturb each other until
// their waits have grown enough. All earlier waits together are at most as long as the last wait, which is less than twice an
// attempt. After that, about every second attempt succeeds. Fifty attempts in a row fail once in 10^15 runs.
const (
	stageUnits     = 100 // for a stage
	growthUnits    = 100 // additional, where waits must grow
	outerUnits     = 600 // additional, with nodes outside the core that interfere
	stallUnits     = 200 // after DiskStallMax, with the links to the core as they are
	servedRequests = 8
	termsMax       = 60
)

func newLiveness(c *cluster) *liveness {
	l := &liveness{c: c, random: sim.NewStream(c.seed.Number, sim.ProcessConcern), since: c.now()}
	c.work.stopped = !c.profile.World.Clients
	if c.profile.Name == "calm" || c.profile.Name == "day" {
		c.mustHold(c.check.elections == 1+c.stats.Takeovers, "L4", "%d elections in a healthy cluster, %d of them for a priority", c.check.elections, c.stats.Takeovers)
	}
	missing := ""
	if l.core, missing = l.choose(); missing != "" {
		return l.excuse(missing)
	}
	l.exiled = l.random.IntN(4) > 0 && l.doomed == nil
	c.record(Record{Kind: "heal", Text: c.names(l.core) + ": healed; every other fault is permanent"})
	l.heal()
	if _, bootstrapped := l.configuration(); !bootstrapped {
		// A disk may hold entry 1 of a mistaken list. The entry may have been written while its process ended.
		if _, missing = l.chooseBootstrap(); missing != "" {
			return l.excuse(missing)
		}
	}
	for _, n := range c.nodes {
		l.began = max(l.began, n.disk.hard.Term)
	}
	l.clashes, l.takeovers = c.check.conflicts, c.stats.Takeovers
	// A leader whose disk is stalled notices that only when it has something to write.
	if i := c.leader(); l.doomed == nil && !c.anySpoiled() && (l.exiled || i < 0 || l.core>>i&1 == 1) && sim.NewStream(c.seed.Number, sim.ProcessConcern<<16).Coin() {
		l.unwritten = true
		c.lulls.begin()
	}
	l.next(electing)
	return l
}

// excuse ends the run without a failure, because a resource that the second phase needs is missing.
func (l *liveness) excuse(missing string) *liveness {
	l.c.stats.Excuse = missing
	l.c.phase = ended
	return l
}

// heal mends the core, and makes all other faults permanent.
func (l *liveness) heal() {
	c := l.c
	now := c.now()
	links := l.core
	if l.doomed != nil {
		links |= 1 << l.doomed.index
	}
	c.net.Calm(links, c.profile.World.network(c.profile.ElectionTimeout))
	l.hideFollowers()
	c.poison = poison{}
	for _, n := range c.nodes {
		if l.core>>n.index&1 == 0 {
			l.abandon(n)
			continue
		}
		n.clock.SetDrift(now, 0)
		n.heal(n.misled || n.closing || n.hasHeard() || n.seeks() || n.protocol() < raft.ProtocolNewest || n.carries() > 0) // with the right list, the newest release and no small limit, or it was about to end
	}
}

func (l *liveness) next(s stage) {
	l.stage, l.since = s, l.c.now()
	l.later()
}

func (l *liveness) later() {
	l.c.queue.Push(l.c.now()+l.c.profile.ElectionTimeout/2, event{kind: evWatch})
}

// watch checks twice per election timeout whether the stage has ended.
func (l *liveness) watch() {
	c := l.c
	c.mustHold(l.term() <= l.began+termsMax+raft.Term(l.pauses), "L11", "%d terms since the heal", l.term()-l.began)
	if missing := l.outvoted(); missing != "" {
		l.excuse(missing)
		return
	}
	l.watchStall()
	l.reunite()
	l.checkPrompt()
	l.pause()
	reached := false
	switch l.stage {
	case electing:
		l.watchWaits()
		reached = l.elected()
	case serving:
		reached = l.serves()
	case joins:
		reached = l.joined()
	case settling:
		reached = l.settles()
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
		l.sent = c.net.Sent + c.unsent()
		l.quieted = l.term()
		l.next(quiet)
		c.queue.Push(c.now()+c.profile.quietTime(), event{kind: evPhase})
	case reached && l.stage == electing && l.unwritten && c.profile.Members.on():
		l.next(settling)
	case reached && l.unwritten && l.stage < converging:
		l.next(converging)
	case reached && (l.stage == electing || l.unwritten):
		if l.unwritten {
			l.unwritten = false
			c.lulls.end()
		}
		l.asked = len(c.work.requests)
		l.next(serving)
	case reached && l.stage == serving:
		c.work.stopped = true
		l.afterServing()
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

// limit returns the longest time of a stage. It grows with the number of entries that followers may lack, because the leader
// may send them one by one.
//
// An election may also take as long as two grown waits. Waits grow if disks or answers were slow before the heal. Suppose
// that only one member can win, and it needs the vote of a member that is still bound by an earlier vote. It may request
// pre-votes shortly before that vote stops binding. Then it waits as long again. Each wait is drawn up to twice its length.
func (l *liveness) limit() sim.Time {
	units := sim.Time(stageUnits)
	if !l.exiled {
		units = outerUnits
	}
	if !l.c.profile.World.quiet() {
		units += growthUnits
	}
	limit := (units + l.backlog()) * l.c.profile.unit()
	switch l.stage {
	case electing:
		limit += 2 * 2 * l.grown
	case settling:
		limit += l.c.profile.settleTime()
	case joins:
		limit += l.c.profile.settleTime() + l.c.unpaced(joinTime)
	}
	return limit
}

// watchWaits records the longest wait of a member. A late answer to a request from before the heal may lengthen a wait after
// the heal. N31 checks the reasons for which a wait grows.
func (l *liveness) watchWaits() {
	for _, n := range l.members() {
		if wait := sim.Time(n.status.Election.Wait); wait > sim.Time(n.timeout()) {
			l.grown = max(l.grown, wait)
		}
	}
}

// backlog returns the number of units needed to bring followers up to date. A leader outside the core may send one entry at a
// time, over links that lose and reorder messages.
func (l *liveness) backlog() sim.Time {
	longest, perUnit := len(l.c.check.canonical), sim.Time(10)
	if !l.exiled {
		perUnit = 1
	}
	for _, n := range l.members() {
		longest = max(longest, int(n.status.Last.Index))
	}
	return sim.Time(longest)/perUnit + l.c.profile.snapshotUnits()
}

func (l *liveness) complaint() string {
	waited := fmt.Sprintf("%d units of %v after nodes %b were healed", (l.c.now()-l.since)/l.c.profile.unit(), l.c.profile.unit(), l.core)
	return waited + ", " + [...]string{"nobody leads them", "they do not serve", fmt.Sprintf("%v has no place, or a petition is open", l.displaced()), "the change of members continues", "the leadership is not transferred", "their logs are not equal", "the log of a restarted one is not", "", "no member leads that still has the links to lead"}[l.stage]
}

func (l *liveness) term() (term raft.Term) {
	for _, n := range l.members() {
		term = max(term, n.status.Term)
	}
	return term
}

// members returns the nodes of the core.
func (l *liveness) members() []*node {
	var list []*node
	for _, n := range l.c.nodes {
		if l.core>>n.index&1 == 1 && n.core != nil {
			list = append(list, n)
		}
	}
	return list
}

// elected reports whether there is a leader, and all members that reach the leader follow it. The leader may be outside the
// core.
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
		// If heartbeats come less often than its timeout, it asks for pre-votes between them, perhaps at each check.
		steady := 3*n.timeout() >= l.leader.timeout()
		if steady && n.status.Leader != l.leader.id || n.status.Term != l.leader.status.Term {
			return false
		}
		following++
	}
	return following > 0
}

// counts reports whether the leader should be able to reach a node, under the incarnation that the leader's configuration
// names.
func (l *liveness) counts(n *node) bool {
	return includes(&l.leader.status.Config, n.peer()) && l.leader.meets(n)
}

// serves reports whether writes and reads have been answered, whichever member leads.
func (l *liveness) serves() bool {
	w := l.c.work
	open := l.requestIDs[:0]
	for _, t := range l.requestIDs {
		switch r := &w.requests[t]; {
		case r.state == answeredWell:
			l.served++
			l.wrote = l.wrote || r.kind == writeRequest
		case r.node.status.FSMHangs: // its node tells the callers that the outcome is unknown
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
		if n := members[l.random.IntN(len(members))]; l.c.profile.Members.on() && !l.counts(n) {
			continue // it is not a member, and no member answers it
		} else if t := w.read(n, 0, 0); t > 0 {
			l.requestIDs = append(l.requestIDs, t)
		}
	}
	return false
}

// converged reports whether all members that reach the leader have applied the same log.
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

// restartOne restarts a follower in the core, if a quorum remains without it.
func (l *liveness) restartOne() {
	members := l.members()
	n := members[l.random.IntN(len(members))]
	l.term0 = l.leader.status.Term
	if n == l.leader || !l.counts(n) || !l.exiled {
		return
	}
	l.c.record(Record{Kind: "fault", Text: n.name() + " restarts"})
	n.crash()
	n.start()
}

// rejoined reports whether the restarted follower has caught up. It also checks that the follower's return has not deposed
// the leader (dissertation §9.6).
func (l *liveness) rejoined() bool {
	if l.exiled && l.c.profile.steady() && len(votersOf(&l.leader.status.Config)) > 2 && l.whole() {
		l.c.mustHold(l.leader.status.Role == raft.Leader && l.leader.status.Term == l.term0 || l.takeovers < l.c.stats.Takeovers, "L5",
			"%s lost its leadership when a follower restarted", l.leader)
	}
	return l.converged() && !l.parting()
}

// unsent returns the number of messages that wait for a sender or may still be answered.
func (c *cluster) unsent() (messages int) {
	for _, n := range c.nodes {
		messages += len(n.outbox) + len(n.inbox)
	}
	return messages
}

const quietTimeouts = 6

// beatMessages is how many messages a heartbeat takes: the heartbeat, its answer, and what the round has proved.
const beatMessages = 3

// quietTime returns the time for which the cluster gets no requests. It is long enough to answer earlier retries, such as the
// retries of a forwarded read.
func (p *Profile) quietTime() sim.Time {
	return quietTimeouts*p.ElectionTimeout + 4*(p.unit()-p.ElectionTimeout)
}

// end is called when the quiet ends.
func (l *liveness) end() {
	c := l.c
	if l.whole() && c.profile.steady() {
		c.mustHold(l.leader.status.Role == raft.Leader || l.takeovers < c.stats.Takeovers || c.impatient(l.leader) || l.succeeded(), "L4", "%s lost its leadership in an idle cluster", l.leader)
		// A leader whose disk stalls appends a no-op. Until a follower has written it, the leader repeats that append.
		timeouts := int((c.profile.quietTime()+2*c.profile.World.Disk)/c.profile.ElectionTimeout + 2)
		beats := (len(c.nodes) - 1) * beatMessages * 3 * timeouts * max(1, c.profile.Node.Unequal)
		c.mustHold(c.net.Sent-l.sent <= beats+2*l.late, "L8", "%d messages of an idle cluster in %v", c.net.Sent-l.sent, c.profile.quietTime())
	}
	repairs := c.check.conflicts - l.clashes
	// If an append is dropped, the followers reject the appends after it one by one. Suppose that each append carries one
	// entry, and a sender with sixteen appends in flight drops one in ten. Then there are up to two rejections per entry and
	// follower, and more each time a follower is probed.
	bound := int(l.term()) + (len(c.nodes)-1)*(40+2*int(l.leader.status.Last.Index))
	c.mustHold(!l.exiled || repairs <= bound, "L7", "%d failed consistency checks since the heal", repairs)
	l.checkAllAnswered()
	l.checkRelieved()
	l.checkRemovalKnown()
	l.checkFound()
	l.checkCaretaker()
	for _, n := range l.members() {
		c.check.checkLogLength(n)
	}
}

// checkAllAnswered checks that every request to a running process has an answer.
func (l *liveness) checkAllAnswered() {
	if i := l.unanswered(); i >= 0 {
		r := &l.c.work.requests[i]
		l.c.fail(Liveness, "L9", "request %d, sent to %s at %v, is not answered (state %d)", i, r.node, r.opened, r.state)
	}
}

// unanswered returns the first request to a running process that has no answer, or -1.
func (l *liveness) unanswered() int {
	for i := range l.c.work.requests {
		r := &l.c.work.requests[i]
		if r.node == nil || r.node.core == nil || r.life != r.node.life || l.core>>r.node.index&1 == 0 {
			continue
		}
		if !l.counts(r.node) {
			continue
		}
		if age := l.c.now() - r.opened; r.kind == readRequest && l.asksUnhealed(r.node) && age <= 2*readsAskedMax*l.c.profile.ElectionTimeout {
			continue
		}
		if r.state == unanswered || r.state == acceptedOnly {
			return i
		}
	}
	return -1
}
