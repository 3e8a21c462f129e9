package fuzzy

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the recoveries. A recovered cluster is a cluster of its own, with its own checker, network, clients and second phase.
// Its machines are those of the former one. All but the survivor have an empty disk there, and may be added. The former members, with
// their disks, go on in the former cluster, with or without a majority. Each cluster hears of the others only what they should not say
// to it.

// Recoveries sets how often a majority loses its disks for good.
type Recoveries struct {
	Most int // how many clusters of a run lose a majority; 0: none
}

// shapeRecoveries draws short lives of clusters whose members change.
func shapeRecoveries(s *sim.Stream, p *Profile) {
	p.Voters, p.Learners = sim.Pick(s, 2, 3, 3, 3, 4, 5, 5), s.IntN(2)
	p.FaultsFrom, p.Length = 2*p.ElectionTimeout, s.LogTime(sim.In(1500*time.Millisecond), sim.In(5*time.Second))
	p.World, p.Limits = World{}, generousLimits()
	p.Limits.AppendBytesMax = sim.Pick(s, 1, 200, 1<<16)
	if s.Coin() {
		drawSnapshots(s, p)
		p.Node.Durable = s.IntN(3) == 0
	}
	drawMembers(s, p)
	drawAmbushes(s, p)
	p.Faults = append(p.Faults, FaultRate{Usurp, s.LogTime(2*p.ElectionTimeout, 20*p.ElectionTimeout), p.ElectionTimeout}) // logs that differ
	p.Members.Think = min(p.Members.Think, 2*p.ElectionTimeout)
	p.Node.Handshakes, p.Load.History = s.Coin(), s.Coin()
	switch s.IntN(4) {
	case 0:
		p.Sessions = drawnSessions(s)
		p.Load.History = true
	case 1: // leases do not cover clocks that stop, or disks that forget
		only(Crash, CrashLoop, Pause, Usurp, Close, Drift, Jump, Partition, Clog, Slow, Decapitate, Orphan, Lag)(s, p)
		p.Leases = Leases{Duration: p.ElectionTimeout * sim.Time(40+s.IntN(60)) / 100, Reads: sim.Million}
		p.Node.DriftMax = min(p.Node.DriftMax, driftBound)
	}
	p.Recoveries.Most = sim.Pick(s, 1, 2, 3)
}

// kin are the clusters of one run.
type kin struct {
	random   *sim.Stream
	clusters []*cluster // the first one begins the run
	losses   int
	most     int
}

// origin says where a cluster comes from, and what has become of it.
type origin struct {
	former *cluster       // nil: it was bootstrapped
	id     raft.ClusterID // of a recovered cluster
	begins raft.Term      // likewise, the term of the recovery
	mark   string         // behind the names of its nodes in traces
	fate   fate
	said   []raft.Message // the last ones
}

type fate int

const (
	intact fate = iota
	losing      // a majority has lost its disks, and nothing is recovered yet
	bereft      // a survivor was recovered
)

// saidMax is how many messages of a cluster may reach another one.
const saidMax = 64

// turns returns the cluster that has the next event, or nil if all have ended. A cluster that has lost a majority goes on as long as
// another one.
func (c *cluster) turns() (next *cluster) {
	if c.kin == nil {
		if c.phase == ended {
			return nil
		}
		return c
	}
	goesOn := false
	for _, k := range c.kin.clusters {
		if k.phase != ended {
			goesOn = goesOn || k.fate != bereft
			if next == nil || k.queue.Next() < next.queue.Next() {
				next = k
			}
		}
	}
	if !goesOn {
		return nil
	}
	return next
}

// all returns the clusters of the run, the first one first.
func (c *cluster) all() []*cluster {
	if c.kin == nil {
		return []*cluster{c}
	}
	return c.kin.clusters
}

// lanes returns the nodes that a trace will name. Which clusters are recovered, only a run of the seed tells.
func (c *cluster) lanes() (ids []string) {
	if c.trace == nil || c.profile.Recoveries.Most == 0 {
		return c.ids()
	}
	run := newCluster(c.seed, c.profile)
	run.edits = c.edits
	run.guarded()
	for _, k := range run.all() {
		ids = append(ids, k.ids()...)
	}
	return ids
}

// traced returns the id of a message in traces, where the messages of all clusters meet.
func (c *cluster) traced(id uint64) uint64 { return id + uint64(len(c.mark))<<40 }

// count adds what has happened in the recovered clusters to the counts of the run.
func (c *cluster) count() {
	for _, k := range c.all()[1:] {
		all, s := &c.stats, &k.stats
		all.Events, all.Steps, all.Messages = all.Events+s.Events, all.Steps+s.Steps, all.Messages+s.Messages
		all.Starts, all.Crashes, all.Faults = all.Starts+s.Starts, all.Crashes+s.Crashes, all.Faults+s.Faults
		all.Commits, all.Elections, all.Histories = all.Commits+s.Commits, all.Elections+s.Elections, all.Histories+s.Histories
		all.Changes, all.Changed = all.Changes+s.Changes, all.Changed+s.Changed
		all.Excuse = cmp.Or(all.Excuse, s.Excuse)
		c.hash.add(k.hash.sum, uint64(k.now()))
	}
}

// loseLater schedules the loss of a majority.
func (c *cluster) loseLater() {
	most := c.profile.Recoveries.Most
	if most == 0 {
		return
	}
	if c.kin == nil {
		c.kin = &kin{sim.NewStream(c.seed.Number, sim.MembersConcern<<48), []*cluster{c}, 0, most}
	}
	length := c.profile.Length - c.now()
	if c.kin.losses < most {
		c.queue.Push(c.now()+c.kin.random.Between(length/8, length*3/4), event{kind: evLoss})
	}
}

// loseMajority ends the processes of members until the rest is no quorum. At least one disk that can be recovered is left.
func (c *cluster) loseMajority() {
	newest, random := c.newestCommitted(), c.kin.random
	if c.phase != safetyPhase || c.kin.losses >= c.kin.most {
		return
	}
	if newest == nil || !slices.ContainsFunc(c.nodes, (*node).survives) {
		c.queue.Push(c.now()+c.profile.ElectionTimeout, event{kind: evLoss})
		return
	}
	c.kin.losses++
	c.fate = losing
	more, order := sim.Pick(random, 0, 0, 0, sim.Million/2), c.kin.order(len(c.nodes))
	if random.IntN(4) == 0 {
		order = nil // the operator errs: the majority is there, and goes on later
	}
	for _, i := range order {
		n := c.nodes[i]
		left := slices.ContainsFunc(c.nodes, func(o *node) bool { return o != n && !o.gone && o.survives() })
		works := quorum(&newest.Configuration, func(p raft.Peer) bool { o := c.at(p); return o.peer() == p && !o.gone }).reached()
		if left && (works || random.Chance(more)) {
			n.loses()
		}
	}
	c.faulted("an operator finds that a majority has lost its disks")
	c.queue.Push(c.now()+1+random.Exponential(3*c.profile.ElectionTimeout), event{kind: evRecovery})
}

// order returns the first n numbers in a random order.
func (k *kin) order(n int) []int {
	m := nemesis{random: k.random}
	return m.order(n)
}

// survives reports whether a disk has what can be recovered. A member that has a majority by itself needs no recovery.
func (n *node) survives() bool {
	d := &n.disk
	if d.damaged || d.files.spoiled || d.hard.Term == 0 || len(d.log) == 0 {
		return false
	}
	config := &configured(d.log).Configuration
	return includes(config, n.peer()) && !quorum(config, func(p raft.Peer) bool { return p == n.peer() }).reached()
}

// loses ends a process, whose disk is lost or kept aside.
func (n *node) loses() {
	n.crash()
	n.gone = true
	n.c.faulted("%s is gone", n.name())
}

// isBack starts a process of a former member with its former disk.
func (n *node) isBack() {
	n.gone = false
	n.c.faulted("%s is back with its disk", n.name())
	n.restartIn(0)
}

// recoverSurvivors stops all members, and recovers one or two of those that are left. Two operators do not know of each other, and
// each reaches some of the disks. Then other members come back with their disks.
func (c *cluster) recoverSurvivors() {
	random := c.kin.random
	var groups [2][]*node
	operators := sim.Pick(random, 1, 1, 2)
	for _, i := range c.kin.order(len(c.nodes)) {
		n := c.nodes[i]
		if n.gone {
			continue
		}
		n.loses()
		if !n.disk.damaged && !n.disk.files.spoiled && len(n.disk.log) > 0 {
			g := random.IntN(operators)
			groups[g] = append(groups[g], n)
		}
	}
	var taken []*node
	for _, g := range groups {
		if n := c.recoverBest(g); n != nil {
			taken = append(taken, n)
		}
	}
	for _, n := range c.nodes {
		switch {
		case len(taken) == 0: // the disks come back
			n.isBack()
		case !slices.Contains(taken, n) && random.Coin():
			c.queue.Push(c.now()+1+random.Exponential(8*c.profile.ElectionTimeout), event{kind: evReturn, node: int16(n.index)})
		}
	}
	if c.fate = intact; len(taken) > 0 {
		c.fate = bereft
	}
}

// recoverBest recovers the best of the disks that an operator reaches. It returns nil if none can be recovered.
func (c *cluster) recoverBest(reached []*node) *node {
	var stores []*raft.Stored
	var compared []*node
	for _, n := range reached {
		if !n.openFiles() || !n.recoverLog() {
			continue
		}
		if stored, loaded := n.loads(); loaded {
			stores, compared = append(stores, &stored), append(compared, n)
		}
	}
	for len(stores) > 0 {
		i := raft.BestSurvivor(stores)
		if i < 0 {
			return nil
		}
		n := compared[i]
		c.check.checkSurvivor(n, compared)
		r, err := stores[i].Recover(n.id, c.kin.clusterID(), raft.Incarnation(c.kin.random.Uint64()|1), n.clock.Wall(c.now()), stores[i].Mark != nil)
		if err == nil {
			c.succeed(n, r)
			return n
		}
		c.faulted("%s is not recovered: %v", n.name(), err)
		if includes(&configured(n.disk.log).Configuration, n.peer()) { // it has a majority by itself
			return nil
		}
		stores, compared = slices.Delete(stores, i, i+1), slices.Delete(compared, i, i+1) // the operator takes the next one
	}
	return nil
}

func (k *kin) clusterID() (id raft.ClusterID) {
	binary.LittleEndian.PutUint64(id[:], k.random.Uint64()|1)
	return id
}

// succeed begins a new cluster with the disk of a survivor.
func (c *cluster) succeed(taken *node, r raft.Recovered) {
	p, random := c.profile, c.kin.random
	life := random.LogTime(sim.In(time.Second), sim.In(4*time.Second))
	p.Length, p.FaultsFrom = c.now()+life, c.now()+life/8
	p.Members.Gone, p.Node.Starts, p.Node.EmptiedAt = 0, 0, 0
	h := assemble(Seed{c.seed.Profile, c.kin.clusters[0].seed.Number ^ uint64(len(c.kin.clusters))<<56}, p)
	h.kin, h.former, h.id, h.begins, h.trace, h.starts = c.kin, c, r.Hard.Cluster, r.Hard.Term, c.trace, c.starts
	h.moves, h.left = c.moves, slices.Clone(c.left)
	if c.edits != nil {
		h.edits = &edits{requested: ordinals{all: true}, changed: ordinals{all: true}, ignored: c.edits.ignored}
	}
	h.mark = strings.Repeat("+", len(c.kin.clusters))
	h.queue.Begin(c.now())
	c.kin.clusters = append(c.kin.clusters, h)
	for i, was := range c.nodes {
		n := h.nodes[i]
		n.initial, n.place, n.places, n.version = raft.Configuration{}, was.place, slices.Clone(was.places), was.version
		n.disk.ghosts = append(slices.Clone(was.disk.ghosts), ghost{was.disk.incarnation, slices.Clone(was.disk.log)})
	}
	n := h.nodes[taken.index]
	n.disk.recover(h, &taken.disk, &r)
	c.faulted("%s is recovered as %s, of cluster %v, by entry %v", taken.name(), n.name(), h.id, r.Entry.ID())
	h.inherit(n, &taken.disk, r.Entry)
	h.prepare()
	for _, k := range []*cluster{c, h} {
		k.queue.Push(k.now()+k.profile.ElectionTimeout, event{kind: evMeet})
	}
	c.kin.clusters[0].stats.Recoveries++
}

// recover replaces an empty disk by another one, as a recovery changes it. The log gets its new entry at the next start.
func (d *disk) recover(h *cluster, from *disk, r *raft.Recovered) {
	ghosts, pedigree, of := d.ghosts, from.pedigree.clone(), cmp.Or(from.segments.of, from.incarnation)
	d.restore(from.image(), true)
	d.ghosts, d.epoch, d.lossy = ghosts, 0, false
	d.pedigree.lineage, d.pedigree.starts = pedigree.lineage, pedigree.starts
	d.pedigree.memory, d.pedigree.met = raft.Sightings{}, make([]meeting, len(h.nodes))
	d.segments.of, d.segments.stats = of, &h.stats.Segments
	d.incarnation, d.hard, d.base, d.snapshot, d.recovery = r.Incarnation, r.Hard, r.Base, r.Snapshot, &r.Entry
}

// endRecovery appends the entry of a recovery, unless the log holds it. It returns false if the process ends before or meanwhile.
func (n *node) endRecovery() bool {
	d := &n.disk
	if d.recovery == nil || d.recovery.Index <= raft.Index(len(d.log)) {
		return true
	}
	again := n.random.Exponential(n.c.profile.ElectionTimeout)
	if n.random.IntN(4) == 0 {
		n.restartIn(again)
		return false
	}
	w := raft.Write{Log: &raft.LogWrite{After: d.lastID(), Entries: []raft.Entry{*d.recovery}}}
	if s := &d.segments; s.log != nil {
		if failed, err := s.make(d, &w); err != nil {
			d.cutShort(n, &w, failed)
			s.end(s.random.Coin())
			n.restartIn(again)
			return false
		}
		s.waited = false
	}
	d.complete(n, &w)
	return true
}

// inherit makes what the survivor holds the committed log of a new cluster. Its clients know of nothing else: the values that the
// log leads to are there before their first request.
func (c *cluster) inherit(n *node, was *disk, e raft.Entry) {
	k, former := c.check, c.former
	k.configs, k.payloads = maps.Clone(former.check.configs), maps.Clone(former.check.payloads)
	for _, w := range former.work.writes[1:] {
		c.work.writes = append(c.work.writes, attempt{key: w.key})
	}
	c.work.sessions.inherit(former.work.sessions)
	log := k.lengthen(n, slices.Clone(n.disk.log), &raft.LogWrite{After: n.disk.lastID(), Entries: []raft.Entry{e}})
	for i := range log {
		k.seen = append(k.seen, seenEntry{log[i].entry.Term, log[i].hash})
	}
	n.log, n.status.Term = log, e.Term
	k.extend(n, e.Index)
	n.log, n.status.Term = nil, 0
	if c.failure == nil {
		k.checkFounded(n, was, &e)
	}
	for key, serial := range k.machine.values {
		if serial > 0 {
			c.work.history = append(c.work.history, operation{client: -1, write: true, key: uint8(key), serial: serial})
		}
	}
}

// inherit makes the clients go on with their sessions. Which of their commands have an effect, only the survivor's log tells. Each
// command keeps an attempt in doubt, because that log may hold even one that was refused.
func (s *sessionClients) inherit(from *sessionClients) {
	for serial, was := range from.commands {
		c := *was
		c.answer, c.effects, c.never, c.called = nil, 0, false, -1 // before all that is called here
		c.doubt, c.ended = was.doubt+1, was.ended && was.answer == nil
		s.commands[serial] = &c
	}
	for i, was := range from.clients {
		was.open, was.copies = slices.Clone(was.open), slices.Clone(was.copies)
		for k, c := range was.open {
			was.open[k] = s.commands[c.serial]
		}
		for k, c := range was.copies {
			was.copies[k].command = s.commands[c.command.serial]
		}
		s.clients[i] = was
	}
}

// remember keeps a message that may reach another cluster.
func (c *cluster) remember(m raft.Message) {
	switch m.Body.(type) {
	case raft.BootstrapProbe, raft.BootstrapProbeReply, raft.BootstrapRequest, raft.BootstrapReply:
		return
	}
	if c.kin == nil || isStream(m.Body) || isForward(m.Body) {
		return
	}
	if len(c.said) == saidMax {
		c.said = append(c.said[:0], c.said[saidMax/2:]...)
	}
	c.said = append(c.said, m)
}

// meet lets a member of another cluster reach a member of this one, by a connection and by a message. The message may name the
// receiver, and a sender that it knows, so that only the cluster is wrong.
func (c *cluster) meet() {
	random := c.kin.random
	c.queue.Push(c.now()+1+random.Exponential(c.profile.ElectionTimeout/4), event{kind: evMeet})
	from, n := c.kin.clusters[random.IntN(len(c.kin.clusters))], c.nodes[random.IntN(len(c.nodes))]
	other, forged := from.nodes[random.IntN(len(from.nodes))], random.IntN(4)
	if from == c || n.core == nil || n.disk.cluster() == (raft.ClusterID{}) || n.status.Cluster == (raft.ClusterID{}) {
		return
	}
	if to := other.disk.cluster(); n.disk.hard.Term > 0 && other.disk.hard.Term > 0 && to != (raft.ClusterID{}) {
		c.check.checkApart(n, other)
	}
	if len(from.said) == 0 {
		return
	}
	m := from.said[random.IntN(len(from.said))]
	if m.Cluster == n.status.Cluster || m.Cluster == (raft.ClusterID{}) {
		return
	}
	if forged > 0 {
		m.To = n.peer()
	}
	if forged > 1 && len(n.config().Members) > 0 {
		m.From = n.config().Members[random.IntN(len(n.config().Members))].Peer()
	}
	c.kin.clusters[0].stats.Strangers++
	n.receive(envelope{message: m})
}
