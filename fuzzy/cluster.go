package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// cluster is the simulated world: members, network, clients and faults. One goroutine owns it.
type cluster struct {
	seed     Seed
	profile  Profile
	edits    *edits // what the run leaves out; nil: nothing
	queue    sim.Queue[event]
	net      *sim.Network[envelope]
	wire     *sim.Stream // draws which messages go through the codec, and which bits flip
	nodes    []*node
	ready    []*node // nodes to step before the next event
	nemeses  []*nemesis
	poison   poison
	ambushes []*ambush // injections that wait for some moment of a change
	work     *workload
	admins   *admins
	lulls    *lulls
	check    *checker
	host     *host // non-nil if the members run an application
	phase    phase
	live     *liveness // non-nil in the second phase
	scene    *director // non-nil in a directed scenario
	trace    func(*Record)
	stepped  *Record // the record of the running step, if traced
	current  *node   // the node whose core is running, for the report of a panic
	failure  *Failure
	stats    Stats
	hash     traceHash
	initial  raft.Configuration
	starts   int32       // starts of all disks so far
	moves    int         // moves of machines to new addresses
	leases   *sim.Stream // of askForLeases
	asked    []*inquiry  // by processes that look for their cluster; nil: it has ended
	left     []string    // abandoned addresses
	others   int         // index at which a mistaken list of initial members begins
	lines    uint64      // records of the trace
	forged   bool        // a scenario has forged a message
	lost     bool        // a lying disk has lost acknowledged writes
	cut      [][2]string // the cut links in the latest trace record about them
	kin      *kin        // all clusters of the run; nil: there is only this one
	origin
}

type phase int

const (
	safetyPhase phase = iota
	livenessPhase
	ended
)

// envelope is a message in transit. Its id links its departure and its arrival in traces.
type envelope struct {
	message raft.Message
	id      uint64
	start   int32 // start count of the sender's disk
}

// eventKind is the kind of an event.
type eventKind uint8

const (
	evArrive    eventKind = iota // a message; a: the packet
	evWake                       // a core's timer
	evStep                       // a loop runs
	evWritten                    // a write has ended
	evPersisted                  // a loop learns that a write is durable; a: the Seq
	evFlush                      // a sender runs
	evApply                      // an applier has completed its batch
	evPeer                       // a loop learns about a connection; a: the peer, and its state
	evStart                      // a process is started
	evVault                      // an event about snapshots; a: which one
	evShake                      // a process dials; a: the peer
	evKept                       // a disk has written its member's memory; a: the number of the write
	evImage                      // the next stage of an image that a nemesis (node) injects; a: the stage
	evAway                       // a nemesis (node) checks whether a member may come back
	evResume                     // a paused process continues
	evEnd                        // a process ends, since its member was removed
	evFreeze                     // a process pauses; a: for how long
	evClient                     // a client (node) begins a request
	evAdmin                      // an admin (node) begins a change
	evRepair                     // an operator empties disks
	evGiveUp                     // a client gives up on a request; a: the request
	evFault                      // a nemesis (node) injects a fault
	evMend                       // the fault of a nemesis (node) ends; a: which injection
	evFlip                       // a flapping link changes; a: from and to
	evPhase                      // the next phase begins
	evWatch                      // the liveness checker checks
	evCue                        // a director checks
	evExit                       // a process that was told to stop ends; a: for how long
	evWork                       // a late writer begins
	evUnstick                    // a stuck connection accepts messages again
	evDoze                       // a process pauses again
	evAsk                        // a client reads from a member; a: how many more times
	evUnhang                     // a hung applier continues
	evWorkEnds                   // the work of a host ends
	evStall                      // the disk of a leader stalls after it has found another member stale; a: for how long
	evRedial                     // a process dials the peers that have not accepted it
	evLull                       // the present lull continues, or ends
	evTend                       // a process maintains the segments of its log
	evNews                       // a loop hears that the process of a peer has ended; a: the peer
	evGiven                      // a process is given its list of initial members
	evTold                       // a process is told of a cluster; a: the kind of news
	evForget                     // a process that was told of a cluster is restarted
	evRelay                      // a member forwards a write again; a: the request
	evLie                        // a loop hears that of a peer that lives; a: the peer, and how long its dials are refused
	evSeek                       // a process that looks for its cluster decides again; a: its turn
	evQuestion                   // a question of such a process arrives, or its answer; a: which
	evServe                      // a process handles a question; a: which
	evContact                    // a leader reaches a petitioner, or not; a: which petition
	evOverdue                    // the time for the change of a petition is over; a: which petition
	evLease                      // the leader may be asked for leases
	evLeased                     // a member answers the reads by its lease that wait for nothing
	evAside                      // a process without a store asks again; a: the number of its search
	evLoss                       // a majority loses its disks
	evRecovery                   // an operator recovers a survivor
	evReturn                     // a disk is there again
	evMeet                       // a member of another cluster reaches one of this
)

type event struct {
	kind eventKind
	node int16
	life uint32
	a    int64
}

// lanes is the number of lanes of a transport.
const lanes = int(raft.LaneForward) + 1

func newCluster(seed Seed, p Profile) *cluster {
	c := assemble(seed, p)
	c.scene = newDirector(c)
	return c
}

// assemble returns a cluster without a director.
func assemble(seed Seed, p Profile) *cluster {
	n := p.nodes()
	c := &cluster{seed: seed, profile: p, wire: sim.NewStream(seed.Number, sim.NetworkConcern<<8), leases: sim.NewStream(seed.Number, sim.MembersConcern<<44)}
	random := sim.NewStream(seed.Number, sim.NetworkConcern)
	c.net = sim.NewNetwork[envelope](n, lanes, random, func(at sim.Time, packet sim.Packet) {
		c.queue.Push(at, event{kind: evArrive, a: int64(packet)})
	})
	c.net.Faults = p.Network
	var members []raft.Member
	for i := range p.Voters + p.Learners {
		m := raft.Member{ID: nodeID(i), Address: fmt.Sprintf("%s:1", nodeID(i))}
		if i >= p.Voters {
			m.Kind = raft.Learner
		}
		members = append(members, m)
	}
	preferInitially(seed, &p, members)
	c.initial = raft.NewConfiguration(members)
	c.others = 1 + int(seed.Number%uint64(max(p.Voters-1, 1)))
	c.check = newChecker(c)
	for i := range n {
		c.nodes = append(c.nodes, newNode(c, i))
	}
	for _, n := range c.nodes {
		n.place = n.name() + ":1"
		n.places = []string{n.place}
	}
	c.liveOn()
	c.work = newWorkload(c)
	c.admins = newAdmins(c)
	c.lulls = &lulls{c: c, random: sim.NewStream(seed.Number, sim.WorkloadConcern<<8)}
	c.nemeses = newNemeses(c)
	return c
}

func nodeID(i int) raft.NodeID { return raft.NodeID(rune('a' + i)) }

// run handles events until the run ends or fails.
func (c *cluster) run() {
	if c.scene != nil {
		c.scene.perform()
	} else {
		c.prepare()
	}
	for running := c.turns(); running != nil && c.failure == nil && !c.edits.over(c); running = c.turns() {
		running.turn()
		c.failure = running.failure
	}
	for _, k := range c.all() {
		for i := 0; i < len(k.nodes) && c.failure == nil; i++ {
			k.check.checkHeldFiles(k.nodes[i])
			c.failure = k.failure
		}
	}
	c.host.end()
}

// prepare schedules the first events.
func (c *cluster) prepare() {
	for _, n := range c.nodes {
		c.queue.Push(c.now()+n.random.Between(0, c.profile.ElectionTimeout), event{kind: evStart, node: int16(n.index)})
	}
	for i := range c.work.clients {
		c.queue.Push(c.now()+c.profile.ElectionTimeout, event{kind: evClient, node: int16(i)})
	}
	c.loseLater()
	for i := range c.admins.admins {
		c.admins.later(i)
	}
	c.admins.repairLater()
	if c.profile.Leases.Duration > 0 {
		c.askForLeases()
	}
	for i, m := range c.nemeses {
		c.queue.Push(c.profile.FaultsFrom+m.wait(), event{kind: evFault, node: int16(i)})
	}
	c.queue.Push(c.profile.Length, event{kind: evPhase})
}

// turn handles the next event. The queue is never empty, because the checker of the second phase keeps scheduling its own
// events.
func (c *cluster) turn() {
	e, ok := c.queue.Pop()
	if !ok {
		c.fail(Simulation, "simulation", "nothing is left to happen")
		return
	}
	c.stats.Events++
	c.hash.add(uint64(e.kind)<<32|uint64(e.node), uint64(c.queue.Now()))
	c.handle(e)
	if c.profile.Node.EmptiedAt > 0 {
		c.emptyBootstrapper()
	}
	if c.trace != nil {
		c.recordLinks()
	}
	c.stepReady()
}

// stepReady runs every loop that has work now.
func (c *cluster) stepReady() {
	for i := 0; i < len(c.ready) && c.failure == nil; i++ {
		c.ready[i].step()
	}
	c.ready = c.ready[:0]
}

func (c *cluster) now() sim.Time { return c.queue.Now() }

func (c *cluster) handle(e event) {
	if c.lulls.holds(e) {
		return
	}
	switch e.kind {
	case evArrive:
		c.arrive(sim.Packet(e.a))
	case evQuestion:
		c.travels(e.a)
	case evClient:
		c.work.begin(int(e.node))
	case evRepair:
		c.admins.repair()
	case evAdmin:
		c.admins.begin(int(e.node))
	case evGiveUp:
		c.work.giveUp(raft.RequestID(e.a))
	case evFault:
		c.inject(int(e.node))
	case evMend:
		c.nemeses[e.node].mend(c, e.a)
	case evFlip:
		c.flip(e)
	case evImage:
		c.nemeses[e.node].stage(c, e.a)
	case evAway:
		c.nemeses[e.node].stayAway(c)
	case evLull:
		c.lulls.next()
	case evPhase:
		c.nextPhase()
	case evWatch:
		c.live.watch()
	case evCue:
	case evLeased:
		c.nodes[e.node].answerLeased(e.life)
	case evLease:
		c.askForLeases()
	case evAside:
		c.nodes[e.node].aside.ask(e.a)
	case evLoss:
		c.loseMajority()
	case evRecovery:
		c.recoverSurvivors()
	case evReturn:
		c.nodes[e.node].isBack()
	case evMeet:
		c.meet()
	case evStart:
		if n := c.nodes[e.node]; n.life == e.life {
			n.start()
		}
	default:
		if n := c.nodes[e.node]; n.life == e.life {
			n.handle(e)
		}
	}
}

// fail ends the run. The first failure counts.
func (c *cluster) fail(class Class, rule, format string, args ...any) {
	if c.failure != nil {
		return
	}
	if c.excused(class, rule) {
		if slices.Contains(finalRules, rule) {
			c.phase = ended
			panic(errCut)
		}
		return
	}
	if c.edits.ignores(rule) {
		if class == Liveness {
			c.phase = ended // the awaited event will never happen
		}
		return
	}
	c.failure = &Failure{Class: class, Rule: rule, Text: fmt.Sprintf(format, args...), At: c.now(), Event: c.stats.Events}
	c.record(Record{Kind: "failure", Text: c.failure.Error()})
}

// holds fails the run if an invariant does not hold.
func (c *cluster) holds(holds bool, rule, format string, args ...any) {
	if !holds {
		c.fail(Safety, rule, format, args...)
	}
}

func (c *cluster) arrive(p sim.Packet) {
	if d, ok := c.net.Arrive(p); ok && !c.scene.keeps(d) {
		c.deliver(d)
	}
}

// deliver delivers a message to its receiver. The message passes through the codec if the profile has drawn that.
func (c *cluster) deliver(d sim.Delivery[envelope]) {
	n := c.nodes[d.To]
	if n.core == nil {
		return
	}
	if c.live != nil && c.live.stage == quiet && d.Message.id <= uint64(c.live.sent) {
		c.live.late++
	}
	if !n.takes(c.nodes[d.From], d.Message.start) || !n.isOpen(c.nodes[d.From], d.Message) {
		return
	}
	m, ok := d.Message.message, true
	if c.live == nil && !c.lulls.resting() && c.wire.Chance(c.net.Faults.Misdeliver) {
		m = c.strayed(n, m)
	}
	if c.wire.Chance(c.profile.Node.Codec) || d.Corrupt {
		if m, ok = c.recode(m, d.Corrupt); !ok {
			c.breaksAt(d)
			return
		}
	}
	c.stats.Messages++
	n.heardFrom(c.nodes[d.From])
	if !n.frozen && n.streamed(m) || isStream(m.Body) {
		return
	}
	if isForward(m.Body) {
		n.forwarded(m)
		return
	}
	d.Message.message = m
	if !n.holdsAppend(d.Message) {
		n.receive(d.Message)
	}
}

// receive puts a message into the inbox.
func (n *node) receive(e envelope) {
	if n.c.trace != nil {
		n.received = append(n.received, n.c.traced(e.id))
	}
	n.post(raft.Received{Message: e.message})
}

// strayed changes a message so that it comes from a stranger. The stranger is either another cluster, or a sender in a newer
// term that no configuration names. In the second case the message is a reply, or a vote request with an empty log. Another
// cluster does not hold this cluster's entry 1, unless it was recovered from it. A member that is brought that entry with the id
// of another cluster would therefore take it for the recovered one, and stay in it.
func (c *cluster) strayed(to *node, m raft.Message) raft.Message {
	stranger := m
	stranger.From.Incarnation = ^m.From.Incarnation
	stranger.Term += 1 + raft.Term(c.wire.IntN(3))
	switch c.wire.IntN(4) {
	case 0:
		stranger.Body = raft.VoteRequest{}
		return stranger
	case 1:
		switch m.Body.(type) {
		case raft.VoteReply, raft.AppendReply, raft.HeartbeatReply, raft.ReadRequest:
			return stranger
		}
	}
	if r, ok := m.Body.(raft.AppendRequest); !ok || r.Prev.Index > 0 || to.status.Cluster != (raft.ClusterID{}) {
		m.Cluster = foreign(m.Cluster)
	}
	return m
}

// foreign returns the id of another cluster whose members have the same names and addresses.
func foreign(id raft.ClusterID) raft.ClusterID {
	if id != (raft.ClusterID{}) {
		id[0]++
	}
	return id
}

// nextPhase ends the safety phase, or the run.
func (c *cluster) nextPhase() {
	if c.fate != intact {
		c.queue.Push(c.now()+c.profile.ElectionTimeout, event{kind: evPhase})
		return
	}
	if c.phase == safetyPhase && c.lulls.extends() {
		return
	}
	if c.phase == safetyPhase && (c.lost || c.host != nil) {
		c.phase = ended
		return
	}
	if c.phase == safetyPhase {
		c.retireImages()
		c.retireFiles()
		c.phase = livenessPhase
		c.live = newLiveness(c)
		return
	}
	c.live.end()
	if c.failure != nil || !c.live.part() {
		c.phase = ended
	}
}
