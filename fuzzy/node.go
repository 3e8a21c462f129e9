package fuzzy

import (
	"encoding/binary"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// inboxMax is the maximum number of messages that wait for a loop. It corresponds to Config.ReceivedMax.
const inboxMax = 1000

// node is one member: a machine with a disk and a clock. While the process of the machine runs, it has a core.
type node struct {
	c      *cluster
	index  int
	id     raft.NodeID
	random *sim.Stream // of this node alone
	disk   disk
	clock  sim.Clock
	slow   sim.Time // additional time of each step
	tuning
	initial raft.Configuration // the right list of initial members
	place   string             // the address at which it is reached
	table   []string           // addresses of all nodes, as an operator has told it; nil: none

	// The process. life rises when the process dies, so events of an earlier life have no effect.
	life      uint32
	core      *raft.Core // nil while it is down
	born      sim.Time   // on the local clock
	frozen    bool
	deferred  []event // events that came while the process was frozen
	dieAfter  int     // number of effects after which it crashes; 0: never
	deadFor   sim.Time
	loops     int                // how many more starts end in a crash
	given     raft.Configuration // the list of initial members that it was started with, or has been given since
	awaited   raft.Configuration // the list that it was started without, and is still to be given
	lists     *sim.Stream        // decides that
	rumors    *sim.Stream        // see hearsay
	seeking   seeking
	desk      desk       // of its petitioners, if it leads
	aside     *aside     // the search for a leader that lets it set its store aside; nil: there is none
	rejoin    raft.Index // the removal that it is started with to join again; 0: none
	removal   removalTold
	places    []string // all addresses at which it was
	diedAt    sim.Time // when its last process ended
	misled    bool     // the list differs from that of the rest
	forever   bool     // its faults are permanent: it is not in the healed quorum
	upgraded  bool     // to the newest release
	removedIn uint32   // the life, plus 1, in which it learned about its removal
	ended     bool     // it was removed from the cluster, and starts again only after its disk is emptied

	inbox    []raft.Event
	spare    []raft.Event
	received []uint64 // ids of the messages in the inbox, while traced
	stepping bool     // a step is scheduled
	wakeAt   raft.Time
	armed    sim.Time // time of the next evWake; 0: none

	log            []slot        // the core's log, with payloads, for the checks
	configBefore   *loggedConfig // in force before the running step
	configSent     *loggedConfig // the last configuration sent in an append
	cache          *pipeline.Cache
	leaves         func(raft.Message) // leave and stale, made once
	unfilled       func(raft.Message, error)
	queue          []raft.Write // issued writes that are not completed
	writing        int          // number of those that the disk is writing
	merged         raft.Write   // the writes of that number, merged into one
	writes         int64        // number of the last scheduled end of a write; earlier ends do not count
	outbox         []raft.Message
	left           []raft.Message // what has left or was dropped of the messages that a sender is delivering
	applyTo        raft.EntryID
	applied        raft.Index
	ages           pipeline.Ages // of this process
	appliedMost    raft.Index    // highest applied index of any life with this disk
	hang           hang
	duty           duty
	machine        *machine // with the entries up to applied
	batches        int      // batches that its applier has applied
	vault          vault
	hosted         *hosted      // the state machine of an application; nil: none
	base           raft.EntryID // base of the core's log before the running step; in a doomed core, the last base that it wrote
	installing     raft.EntryID // of the snapshot that the running step records
	applying       bool
	accepted       []acceptance
	firstRequestID int  // the first request of this life
	closing        bool // it was told to stop

	status raft.CoreStatus // after the last step
	seen   witness
	hands  hands
	delays delays
	news   news
	lease  raft.LeaderLease
	hard   raft.HardState // the hard state as the core has it
	doomed bool           // its core has marked the store

	forwarding      forwarding
	gone            bool   // its disk is lost, or is kept aside
	noRemoteChanges bool   // it takes no changes and no transfers of other members
	version         uint64 // of the application; 0: its program has none
	versions        *sim.Stream
}

func newNode(c *cluster, i int) *node {
	n := &node{c: c, index: i, id: c.profile.idOf(i), random: sim.NewStream(c.seed.Number, sim.NodeConcern+sim.Concern(i))}
	if !c.profile.spare(i) {
		n.initial = c.initial
	}
	n.machine, n.disk.saved.machine = newMachine(&c.profile), newMachine(&c.profile)
	n.leaves, n.unfilled = n.leave, n.stale
	n.disk.random = sim.NewStream(c.seed.Number, sim.DiskConcern<<8+sim.Concern(i))
	n.delays.random = sim.NewStream(c.seed.Number, sim.DiskConcern<<16+sim.Concern(i))
	n.disk.files = newFileSystem(c, i)
	n.disk.segments = newSegmented(c, i)
	n.disk.hands = sim.NewStream(c.seed.Number, sim.HandshakeConcern<<8+sim.Concern(i))
	n.disk.incarnation = raft.Incarnation(n.disk.random.Uint64() | 1)
	if most := c.profile.Node.Starts; most > 0 {
		n.disk.restarts(c, max(most-n.disk.hands.IntN(4), 1))
	}
	n.noRemoteChanges = c.profile.Load.ForwardsChanges > 0 && sim.NewStream(c.seed.Number, sim.MembersConcern<<40+sim.Concern(i)).IntN(8) == 0
	n.duty.random = sim.NewStream(c.seed.Number, sim.NodeConcern<<40+sim.Concern(i))
	n.versions = sim.NewStream(c.seed.Number, sim.NodeConcern<<32+sim.Concern(i))
	n.differ()
	n.usual = n.limits
	if d := c.profile.Node.DriftMax; d > 0 {
		n.clock.SetDrift(0, int64(n.random.IntN(2*d)-d))
	}
	return n
}

func (n *node) peer() raft.Peer { return raft.Peer{ID: n.id, Incarnation: n.disk.incarnation} }

// now returns the time on this machine. Mono is 1 when the process starts.
func (n *node) now() raft.Now {
	now := n.c.now()
	return raft.Now{Mono: raft.Time(n.clock.Local(now) - n.born + 1), Wall: n.clock.Wall(now)}
}

// start starts a process from the contents of the disk.
func (n *node) start() {
	if !n.mayStart() || !n.openFiles() || !n.recoverLog() {
		return
	}
	n.disk.restarts(n.c, 1)
	if n.c.finds() {
		n.c.check.announced[startedAt{n.peer(), n.disk.lineage.Last()}] = n.place
	}
	n.compact()
	n.born = n.clock.Local(n.c.now())
	stored, loaded := n.loads()
	if !loaded {
		return
	}
	n.upgrade()
	n.retime()
	n.limits, n.given = n.usual, n.leaveOpen(n.list())
	cfg := n.coreConfig()
	n.learnLater()
	cfg.ID, cfg.Initial, cfg.Seed = n.id, n.given, n.random.Uint64()
	if n.c.profile.Node.OneSeed {
		cfg.Seed = n.c.seed.Number | 1
	}
	binary.LittleEndian.PutUint64(cfg.NewCluster[:], n.random.Uint64()|1)
	n.log = append(n.log[:0], n.disk.log...)
	n.cache = pipeline.NewCache(stored.Log.Last.Index, n.c.profile.Node.CacheBytesMax)
	n.applying, n.hang, n.ages, n.duty = false, hang{}, nil, duty{random: n.duty.random, number: n.duty.number}
	n.resumeState()
	n.base = n.disk.base.ID
	if !n.beginVault() {
		return
	}
	n.hosted.start()
	n.wakeAt, n.armed, n.stepping, n.writing, n.merged = 0, 0, false, 0, raft.Write{}
	n.hard, n.doomed = n.disk.hard, false
	n.delays = delays{random: n.delays.random}
	n.firstRequestID, n.closing = len(n.c.work.requests), false
	n.startNews()
	n.beginForwards()
	n.desk = desk{}
	n.c.current = n
	core, out, err := raft.NewCore(cfg, stored, n.now())
	if n.refused(err) || n.c.check.isOutdated(n, err) {
		return
	}
	if err != nil {
		n.c.fail(Safety, "N1", "%s does not start: %v", n, err)
		return
	}
	n.core = core
	n.status = core.Status()
	n.c.stats.Starts++
	n.c.begin(n, "start")
	n.takeWrite(&out)
	n.seen.begin(n)
	n.lease = out.Lease
	n.c.check.checkStart(n, &out)
	n.c.check.checkMessageIDs(n, &out)
	n.c.finish(n, &out)
	if n.loops > 0 {
		n.loops--
		n.dieAfter = 1 + n.random.IntN(8)
	}
	n.openBook(&stored)
	n.process(&out)
	n.beginHands()
	n.c.tellPeers(n, true)
}

// list returns the list of initial members with which the process starts. Sometimes, by mistake, the list holds only the last
// of these members.
func (n *node) list() raft.Configuration {
	c := n.c
	mistaken := n.random.Chance(c.profile.Node.OtherLists)
	n.misled = mistaken && c.phase == safetyPhase && !c.profile.spare(n.index) && n.index >= c.others && c.others < c.profile.Voters // every list has a voter
	if n.misled {
		return raft.NewConfiguration(c.initial.Members[c.others:])
	}
	return n.initial
}

// crash ends the process. An arbitrary part of its unsynced writes survives on the disk.
func (n *node) crash() {
	if n.core == nil {
		return
	}
	n.c.stats.Crashes++
	n.diedAt = n.c.now()
	n.hosted.abandon()
	n.c.check.checkHeldFiles(n)
	n.cutFiles()
	n.disk.crash(n)
	if n.c.trace != nil {
		n.c.record(Record{Kind: "crash", Node: n.name(), Text: n.disk.describe()})
	}
	n.core = nil
	n.life++
	clear(n.inbox)
	n.inbox, n.queue, n.outbox, n.accepted = n.inbox[:0], nil, nil, nil
	n.deferred, n.received = nil, nil
	n.dieAfter = 0
	n.thaw()
	n.c.tellPeers(n, false)
}

// exit ends the process, which starts again after d.
func (n *node) exit(d sim.Time) {
	n.crash()
	n.restartIn(d)
}

// restartIn restarts the process later.
func (n *node) restartIn(d sim.Time) {
	n.c.queue.Push(n.c.now()+d, event{kind: evStart, node: int16(n.index), life: n.life})
}

// post delivers an event to the loop.
func (n *node) post(e raft.Event) {
	if n.core == nil {
		return
	}
	if _, message := e.(raft.Received); message && len(n.inbox) >= inboxMax {
		return
	}
	n.inbox = append(n.inbox, e)
	n.poke()
}

// poke makes the loop run, either at once or after the node's step delay.
func (n *node) poke() {
	if n.stepping || n.frozen {
		return
	}
	n.stepping = true
	delay := n.slow
	switch {
	case n.disk.healed && n.c.profile.World.Step > 0:
		delay += n.random.Between(0, n.c.profile.World.Step)
	case !n.disk.healed && n.c.profile.Node.StepDelay.Mean > 0:
		delay += n.random.Exponential(n.c.profile.Node.StepDelay.Mean)
	}
	if delay == 0 {
		n.c.ready = append(n.c.ready, n)
		return
	}
	n.later(delay, event{kind: evStep})
}

func (n *node) later(d sim.Time, e event) {
	e.node, e.life = int16(n.index), n.life
	n.c.queue.Push(n.c.now()+d, e)
}

// step passes the gathered events to the core.
func (n *node) step() {
	n.stepping = false
	if n.core == nil || n.frozen {
		return
	}
	n.c.begin(n, "step")
	n.reportHang()
	n.reportWork()
	events := n.inbox
	n.inbox = n.spare[:0]
	n.c.stats.Steps++
	n.c.current = n
	before := n.status
	now := n.now()
	n.seen.now = now.Mono
	n.takeGiven(&before, events)
	out := n.core.Step(now, events...)
	n.status = n.core.Status()
	n.seen.hardWas = n.hard
	n.takeWrite(&out)
	n.c.check.checkStep(n, &before, events, &out)
	n.followWork()
	n.desk.step(n, &before, events)
	n.c.finish(n, &out)
	clear(events)
	n.spare = events[:0]
	n.momentsOf(&before)
	s := &n.status
	last := n.c.lulls.on() && s.Commit > before.Commit && s.Commit == s.Last.Index
	if s.Role == raft.Leader && (last || before.Role != raft.Leader) || n.installing.Index > 0 {
		n.c.lulls.reached()
	}
	if out.Config != nil || before.Term == 0 {
		n.publish()
	}
	if s.ConfigIndex > 0 && s.ConfigCommitted == s.ConfigIndex {
		n.forwarding.committed = s.Config
	}
	n.endIfRemoved()
	if n.c.failure == nil {
		n.process(&out)
		n.endIfOutdated()
	}
}

// takeWrite takes the write of an output first, so that an entry is in the log before any message about it leaves.
func (n *node) takeWrite(out *raft.Output) {
	w := &out.Write
	n.configBefore = configured(n.log)
	if n.installing = (raft.EntryID{}); w.Snapshot != nil {
		n.installing = w.Snapshot.ID
	}
	if l := w.Log; l != nil {
		if l.Reset {
			n.c.check.checkInstall(n, w)
		}
		n.takeLog(l)
	}
	switch {
	case w.Log != nil && w.Log.Reset:
		n.base = w.Log.After
	case !n.doomed && w.Mark == nil: // a mark takes back the base of its step: the log is evidence
		n.base = n.status.Base
	}
	if out.Write.Hard != nil {
		n.hard = *out.Write.Hard
	}
}

// process processes an output. The process may crash between any two of its effects.
func (n *node) process(out *raft.Output) {
	writeFirst := n.random.Coin()
	if writeFirst && !n.issue(out) {
		return
	}
	for i := range out.Send {
		if !n.effect() {
			return
		}
		n.send(out.Send[i])
	}
	if !writeFirst && !n.issue(out) || !n.effect() {
		return
	}
	n.c.work.answered(n, out.Answers)
	if out.Restore != nil && n.effect() {
		n.restoreLater(*out.Restore)
	}
	if out.Apply.Index > 0 && n.effect() {
		n.applyUpTo(out.Apply)
	}
	if out.Keep != nil && n.effect() {
		n.keepSnapshots(out.Keep)
	}
	n.wakeAt = out.WakeAt
	n.arm()
}

// issue queues the write. It returns false if the process crashed.
func (n *node) issue(out *raft.Output) bool {
	if out.Write.Seq == 0 {
		return true
	}
	if !n.effect() {
		return false
	}
	n.queue = append(n.queue, out.Write)
	n.beginWrite()
	return true
}

// effect is called before each visible effect. It returns false if the process crashes at this point.
func (n *node) effect() bool {
	if n.dieAfter > 0 {
		if n.dieAfter--; n.dieAfter == 0 {
			n.crash()
			n.restartIn(n.deadFor)
		}
	}
	return n.core != nil
}

// arm sets the timer. Timers sometimes fire late.
func (n *node) arm() {
	if n.core == nil || n.frozen {
		return
	}
	due := n.clock.Shows(sim.Time(n.wakeAt)-1+n.born, n.c.now())
	if due == sim.Never || n.armed != 0 && n.armed <= due {
		return
	}
	if n.random.IntN(64) == 0 && !n.c.profile.Node.Punctual {
		due += n.random.Exponential(n.c.profile.shortestTimeout() / 20)
	}
	n.armed = due
	n.c.queue.Push(due, event{kind: evWake, node: int16(n.index), life: n.life, a: int64(due)})
}

func (n *node) wake() {
	n.armed = 0
	if n.now().Mono >= n.wakeAt || n.random.Chance(n.c.profile.Node.Spurious) {
		n.poke()
		return
	}
	n.arm()
}
