package raft

import (
	"encoding/binary"
	"fmt"
)

// bootstrapper is the state of the member that bootstraps the cluster, from its start until it campaigns. That member is the
// voter of node.Config.Initial with the lowest id.
//
//	calling ──all others are uninitialized, with our list──► holding ──all hold entry 1──► campaign in term 1
//
// The answers to a probe promise nothing, so the bootstrapper may probe as often as necessary. The cluster exists only once
// entry 1 is durable on every member. So if a member has a term, all members have held entry 1.
type bootstrapper struct {
	list     Configuration
	probe    RPCID
	replies  []probeAnswer // one for each other member, in the list's order
	holding  bool          // entry 1 has been issued to this member's disk
	resendAt Time
	redoAt   Time // holding: when to probe the members again; 0: entry 1 is not durable here yet
	redone   int  // repeated probes because of redoAt
}

// probeAnswer is what the bootstrapper knows about one member in the present probe.
type probeAnswer struct {
	id           NodeID
	peer         Peer // as in its answer
	result       ProbeResult
	bootstrapper Peer // ProbeInitialized
	term         Term // ProbeInitialized
	heard        Heard
	holds        bool // entry 1 is durable there
}

// hearing is what this start has heard of a cluster, and when it was last told so.
type hearing struct {
	Heard
	wall int64
}

// redoTimeouts is the number of election timeouts for which a bootstrapper that holds entry 1 waits until the others hold it.
// After that it probes the members again, because a member's disk may have been emptied. The time doubles with each
// repetition, because the disks may only be slow.
const redoTimeouts = 10

// startBootstrap makes this member the bootstrapper if it is the first voter of the list, its durable term is 0,
// no other member has made it hold entry 1, and it has heard of no cluster.
func (c *Core) startBootstrap() {
	list := c.bootstrapList()
	if c.hard.Term > 0 || !isBootstrapper(list, c.self.ID) {
		return
	}
	if f := c.log.Bootstrap; c.hasHeard() || f != nil && f.Bootstrapper != c.self {
		return
	}
	c.bootstrapper = &bootstrapper{list: list}
	c.probeMembers()
}

// onInitialGiven takes the list of initial members of a member that has none and belongs to no cluster. It is as safe as a
// restart with that list: an uninitialized member has promised nothing, its answers to earlier probes promise nothing, and the
// list does not change again before a restart. See docs/decisions/0043.
func (c *Core) onInitialGiven(initial Configuration) {
	if !c.uninitialized() || len(c.cfg.Initial.Members) > 0 {
		return
	}
	c.cfg.Initial = NewConfiguration(initial.Members)
	assert(c.cfg.Validate() == nil && len(initial.Members) > 0, "a list of initial members is checked before it is given")
	config := c.config()
	c.step.out.Config = &config
	c.startBootstrap()
}

// onHeard ends the bootstrap of a member that has heard of a cluster. A member that holds entry 1, even if not durably yet, goes
// on: its cluster may have begun, and what it has heard may be of that cluster.
func (c *Core) onHeard(e Heard) {
	assert(validateNodeID(e.From) == nil, "the member that told it is named")
	if !c.uninitialized() {
		return
	}
	if c.follower.hearing.Heard != e {
		c.trace(TraceEvent{Kind: TraceHeard, Peer: e.From, Text: e.cluster()})
	}
	c.follower.hearing = hearing{e, c.now.Wall}
	c.bootstrapper = nil
}

// hasHeard reports whether this member bootstraps no cluster because it has heard of one. Once it holds entry 1, it goes on.
func (c *Core) hasHeard() bool { return c.uninitialized() && c.follower.hearing.From != "" }

// cluster names the cluster for people.
func (e Heard) cluster() string {
	if e.Cluster == (ClusterID{}) {
		return "a cluster"
	}
	return fmt.Sprintf("cluster %v", e.Cluster)
}

// isBootstrapper reports whether this member is the one that probes the members of the list.
func isBootstrapper(list Configuration, id NodeID) bool {
	voters := list.Voters()
	return len(voters) > 0 && voters[0].ID == id
}

// bootstrapList returns the list of node.Config.Initial. If that list is no longer given, it returns the present members,
// each id once.
func (c *Core) bootstrapList() Configuration {
	if len(c.cfg.Initial.Members) > 0 || c.cluster() == (ClusterID{}) {
		return c.cfg.Initial
	}
	config := c.config()
	members := make([]Member, 0, len(config.Members))
	for _, m := range config.Members {
		if named, _ := config.Member(m.ID); named.Peer() == m.Peer() && m.Kind != Leaving {
			m.Incarnation, m.Next = 0, NextSame
			members = append(members, m)
		}
	}
	return NewConfiguration(members)
}

// probeMembers begins a new probe. Answers to an earlier one no longer count.
func (c *Core) probeMembers() {
	f := c.bootstrapper
	f.probe, f.holding = c.nextID(), false
	f.replies = nil
	for _, m := range f.list.Members {
		if m.ID != c.self.ID {
			f.replies = append(f.replies, probeAnswer{id: m.ID})
		}
	}
	c.trace(TraceEvent{Kind: TraceBootstrapProbe})
	c.resendBootstrap()
	c.bootstrap()
}

// resendBootstrap sends the present request again to every member that has not answered it.
func (c *Core) resendBootstrap() {
	for i := range c.bootstrapper.replies {
		c.sendBootstrap(&c.bootstrapper.replies[i])
	}
	c.bootstrapper.resendAt = c.now.Mono + c.electionTimeout()
}

func (c *Core) sendBootstrap(a *probeAnswer) {
	f := c.bootstrapper
	switch {
	case !f.holding && a.result != ProbeUninitialized:
		c.send(Peer{ID: a.id}, BootstrapProbe{ID: f.probe, List: f.list})
	case f.holding && !a.holds && c.disk.persisted >= 1:
		c.send(a.peer, BootstrapRequest{Entry: c.bootstrapEntry()})
	}
}

// wakeAt returns the time at which to send requests again, or to begin a new probe.
func (f *bootstrapper) wakeAt() Time {
	if f.holding && f.redoAt > 0 {
		return min(f.resendAt, f.redoAt)
	}
	return f.resendAt
}

func (c *Core) onBootstrapperDeadline() {
	f := c.bootstrapper
	switch {
	case f.holding && f.redoAt > 0 && c.now.Mono >= f.redoAt:
		f.redone++
		c.probeMembers()
	case c.now.Mono >= f.resendAt:
		c.resendBootstrap()
	}
}

// onBootstrapperPeerUp sends the present request to a member whose connection has just come up. If the member has returned as
// another incarnation, its earlier answer no longer counts. If the bootstrapper is already holding entry 1 in that case, it
// probes all members again.
func (c *Core) onBootstrapperPeerUp(e PeerUp) {
	if c.bootstrapper == nil {
		return
	}
	a := c.bootstrapper.reply(e.ID)
	if a == nil {
		return
	}
	if another := a.result != 0 && a.peer.Incarnation != e.Incarnation; another && c.bootstrapper.holding {
		c.probeMembers()
		return
	} else if another {
		*a = probeAnswer{id: a.id}
	}
	c.sendBootstrap(a)
}

func (f *bootstrapper) reply(id NodeID) *probeAnswer {
	for i := range f.replies {
		if f.replies[i].id == id {
			return &f.replies[i]
		}
	}
	return nil
}

// onBootstrapProbe answers a probe. The answer promises nothing.
func (c *Core) onBootstrapProbe(from Peer, r BootstrapProbe) {
	if !isBootstrapper(r.List, from.ID) {
		c.trace(TraceEvent{Kind: TraceRefused, Peer: from.ID, Text: "only the first voter of the list probes the members"})
		return
	}
	reply := BootstrapProbeReply{ID: r.ID, Result: ProbeInitialized, List: c.bootstrapList(), Wall: c.now.Wall}
	switch {
	case c.hasHeard():
		reply.HeardOf, reply.HeardFrom = c.follower.hearing.Cluster, c.follower.hearing.From
	case c.mayRedo(from, r.ID), c.uninitialized() && len(reply.List.Members) > 0:
		reply.Result = ProbeUninitialized
		if !reply.List.SameList(r.List) {
			reply.Result = ProbeListDiffers
		}
	case c.uninitialized():
		reply.Result = ProbeNoInitial
	default:
		_, reply.Bootstrapper = c.origin()
	}
	c.trace(TraceEvent{Kind: TraceBootstrapProbeReply, Peer: from.ID, Text: reply.Result.String()})
	c.send(from, reply)
}

// mayRedo reports whether a later probe of the same bootstrapper and incarnation may replace the bootstrap that this member
// holds. It may do so only while the term is 0. At term 0, the bootstrapper has not campaigned as far as this member knows.
func (c *Core) mayRedo(bootstrapper Peer, probe RPCID) bool {
	f := c.log.Bootstrap
	return f != nil && c.hard == HardState{} && f.Bootstrapper == bootstrapper && f.Probe.Less(probe)
}

func (c *Core) onBootstrapProbeReply(m Message, r BootstrapProbeReply) {
	f := c.bootstrapper
	if f == nil || f.holding || r.ID != f.probe {
		return
	}
	a := f.reply(m.From.ID)
	if a == nil {
		return
	}
	if r.Result == ProbeUninitialized && !r.List.SameList(f.list) {
		c.refuse(m, "it claims to have our list and shows another")
		return
	}
	c.hearClock(Peer{ID: m.From.ID}, r.Wall) // the list names no incarnations yet
	*a = probeAnswer{
		id: a.id, peer: m.From, result: r.Result, bootstrapper: r.Bootstrapper, term: m.Term, heard: Heard{r.HeardOf, r.HeardFrom},
	}
	c.bootstrap()
}

// bootstrap writes entry 1 once every other member has answered that it is uninitialized and has the same list.
func (c *Core) bootstrap() {
	f := c.bootstrapper
	for _, a := range f.replies {
		if a.result != ProbeUninitialized {
			return
		}
	}
	members := make([]Member, 0, len(f.list.Members))
	for _, m := range f.list.Members {
		m.Incarnation = c.self.Incarnation
		if a := f.reply(m.ID); a != nil {
			m.Incarnation = a.peer.Incarnation
		}
		members = append(members, m)
	}
	bootstrap := Bootstrap{
		Cluster: c.freshCluster(), Bootstrapper: c.self, Probe: f.probe, Configuration: NewConfiguration(members),
	}
	f.holding, f.redoAt = true, 0
	c.adoptBootstrap(bootstrap.Bootstrapper, Entry{
		Index: 1, Kind: EntryBootstrap, Time: c.stampNow(), Data: bootstrap.Encode(),
	})
}

// freshCluster returns a cluster id that no earlier bootstrap used. The id is random for each start, and differs for each
// probe.
func (c *Core) freshCluster() ClusterID {
	id := c.cfg.NewCluster
	last := binary.LittleEndian.Uint64(id[8:])
	binary.LittleEndian.PutUint64(id[8:], last^c.bootstrapper.probe.Counter)
	return id
}

// adoptBootstrap makes entry 1 the whole log.
func (c *Core) adoptBootstrap(bootstrapper Peer, e Entry) {
	assert(c.hard == HardState{} && c.log.commit == 0, "a cluster is bootstrapped before its first term")
	if c.log.Last.Index > 0 {
		c.truncate(0)
	}
	c.appendEntries([]Entry{e})
	c.trace(TraceEvent{Kind: TraceBootstrapped, Peer: bootstrapper.ID, ID: e.ID()})
}

// bootstrapEntry returns entry 1, to be sent to a member that has not acknowledged it.
func (c *Core) bootstrapEntry() Entry {
	return Entry{Index: 1, Kind: EntryBootstrap, Time: c.log.LastTime, Data: c.log.Bootstrap.Encode()}
}

// onBootstrapPersisted sends entry 1 to all once it is durable here.
func (c *Core) onBootstrapPersisted() {
	if f := c.bootstrapper; f != nil && f.holding && c.disk.persisted >= 1 {
		if f.redoAt == 0 {
			f.redoAt = c.now.Mono + redoTimeouts*c.electionTimeout()<<min(f.redone, doublingsMax)
		}
		c.resendBootstrap()
		c.checkHeld()
	}
}

// onBootstrapRequest accepts entry 1 from the bootstrapper, and acknowledges it once it is durable.
func (c *Core) onBootstrapRequest(m Message, r BootstrapRequest) {
	if later, ok := ofLaterRelease([]Entry{r.Entry}); ok {
		c.trace(TraceEvent{Kind: TraceLaterVersion, Peer: m.From.ID, ID: later.ID()})
		return
	}
	f, err := DecodeBootstrap(r.Entry.Data)
	if err != nil || r.Entry.ID() != (EntryID{0, 1}) || r.Entry.Kind != EntryBootstrap || f.Bootstrapper != m.From || f.Cluster != m.Cluster ||
		!isBootstrapper(f.Configuration, m.From.ID) {
		c.refuse(m, "its entry 1 is not a bootstrap by its sender")
		return
	}
	if self, ok := f.Configuration.Member(c.self.ID); !ok || self.Peer() != c.self {
		c.refuse(m, "its bootstrap names this member with another incarnation")
		return
	}
	held := c.log.Bootstrap != nil && c.log.Bootstrap.Bootstrapper == f.Bootstrapper && c.log.Bootstrap.Probe == f.Probe
	switch {
	case held && c.hard == HardState{}:
	case c.uninitialized() && c.cfg.Initial.SameList(f.Configuration), c.mayRedo(m.From, f.Probe):
		c.adoptBootstrap(f.Bootstrapper, r.Entry)
	default:
		c.refuse(m, "this member is initialized, or has another list")
		return
	}
	c.promiseLog(m.From, BootstrapReply{ID: f.Probe}, 1)
}

func (c *Core) onBootstrapReply(from Peer, r BootstrapReply) {
	f := c.bootstrapper
	if f == nil || !f.holding || r.ID != f.probe {
		return
	}
	if a := f.reply(from.ID); a != nil && a.peer == from {
		a.holds = true
	}
	c.checkHeld()
}

// checkHeld campaigns in term 1 once all members hold entry 1 durably.
func (c *Core) checkHeld() {
	for _, a := range c.bootstrapper.replies {
		if !a.holds {
			return
		}
	}
	if c.disk.persisted < 1 {
		return
	}
	if m, ok := c.config().Member(c.self.ID); ok && m.Kind == Voter {
		c.follower.vacancy.cause = CauseBootstrap
		c.campaign(false)
	}
}

// missing returns what the bootstrap is waiting for, one sentence per member, or of what this member has heard.
func (c *Core) missing() []string {
	f, h := c.bootstrapper, c.follower.hearing
	if c.hasHeard() {
		return []string{fmt.Sprintf("this member was told by %s of %s: it bootstraps none, and waits to be added; "+
			"if that cluster no longer exists, restart this member, which forgets it", h.From, h.cluster())}
	}
	if f == nil {
		return nil
	}
	var missing []string
	allAtZero := true
	for _, a := range f.replies {
		allAtZero = allAtZero && a.result == ProbeInitialized && a.term == 0 && a.heard.From == ""
		if s := f.lacks(a); s != "" {
			missing = append(missing, s)
		}
	}
	if allAtZero && len(f.replies) > 0 {
		missing = append(missing, "nothing was ever committed: empty all stores and start again")
	}
	return missing
}

func (f *bootstrapper) lacks(a probeAnswer) string {
	switch {
	case f.holding && !a.holds:
		return fmt.Sprintf("%s has not yet stored the bootstrap entry", a.id)
	case f.holding:
		return ""
	case a.result == 0:
		return fmt.Sprintf("%s has not answered the probe", a.id)
	case a.result == ProbeListDiffers:
		return fmt.Sprintf("%s was started with another list of initial members", a.id)
	case a.result == ProbeNoInitial:
		return fmt.Sprintf("%s was started without a list of initial members", a.id)
	case a.result == ProbeInitialized && a.heard.From != "":
		return fmt.Sprintf("%s was told by %s of %s, and takes part in no bootstrap until it is restarted: "+
			"restart it if that cluster no longer exists", a.id, a.heard.From, a.heard.cluster())
	case a.result == ProbeInitialized:
		return fmt.Sprintf("%s already belongs to a cluster, bootstrapped by %s (incarnation %v), in term %d",
			a.id, a.bootstrapper.ID, a.bootstrapper.Incarnation, a.term)
	}
	return ""
}

// Initialize makes an uninitialized store that of a member of a new cluster, without node.Config.Initial. It is for programs
// that create many groups and know their members. Make the returned write durable, or repeat everything after a crash. Then
// pass s to NewCore. The member begins in term 1, without a leader.
//
// It is safe only if all members of c do it with the same arguments, before their cores run, and never again. The cluster id
// and the incarnations must be random and new: see Identity.Fresh. Never do it for an emptied disk, which has forgotten votes
// and entries: replace its member. A store of this cluster needs no write. Another initialized store is refused with
// ErrInitialized, and a bad argument with a *ConfigError.
func (s *Stored) Initialize(id NodeID, cluster ClusterID, c Configuration) (StorageWrite, error) {
	hard := HardState{Term: 1}
	if s.Mark != nil {
		return StorageWrite{}, s.Mark.Err()
	}
	if s.Log.Bootstrap != nil && s.Log.Bootstrap.Cluster == cluster || s.Log.Base.ID.Index > 0 && s.Log.Base.Cluster == cluster {
		return StorageWrite{}, nil
	}
	if s.Log.Last != (EntryID{}) || s.Hard != hard && s.Hard != (HardState{}) {
		return StorageWrite{}, fmt.Errorf("%w: its term is %d, its last entry %v", ErrInitialized, s.Hard.Term, s.Log.Last)
	}
	f := Bootstrap{Cluster: cluster, Configuration: NewConfiguration(c.Members)}
	if voters := f.Configuration.Voters(); len(voters) > 0 {
		f.Bootstrapper = voters[0].Peer()
	}
	e := Entry{Index: 1, Kind: EntryBootstrap, Data: f.Encode()}
	if _, err := DecodeBootstrap(e.Data); err != nil {
		return StorageWrite{}, &ConfigError{"Configuration", err}
	}
	if self, _ := f.Configuration.Member(id); self.Peer() != (Peer{id, s.Incarnation}) {
		return StorageWrite{}, &ConfigError{"Configuration", fmt.Errorf(
			"it names member %q with incarnation %v, and the store has %v: load an uninitialized store with the one that the configuration names, as Identity.Fresh",
			id, self.Incarnation, s.Incarnation)}
	}
	e.Seal()
	if err := s.Log.Observe(e); err != nil {
		return StorageWrite{}, err
	}
	s.Hard = hard
	return StorageWrite{Hard: &hard, Log: &LogWrite{Entries: []Entry{e}}}, nil
}
