package fuzzy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Profile holds all parameters of a run. Chances are in millionths.
type Profile struct {
	Name            string
	Voters          int
	Learners        int
	ElectionTimeout sim.Time
	Length          sim.Time // of the safety phase
	FaultsFrom      sim.Time // until then only the network misbehaves
	Network         sim.NetworkFaults
	Faults          []FaultRate
	Node            NodeProfile
	Limits          raft.Limits
	Snapshots       Snapshots
	Segments        Segments
	Members         Members
	Load            Load
	Lulls           Lulls
	Leases          Leases
	Recoveries      Recoveries
	Sessions        Sessions
	World           World // the second phase
	// Beyond lets faults destroy the disks of all voters but one, which is more than Raft tolerates. Nodes may then stop and
	// report the reason, but must not report or commit anything false.
	Beyond bool
}

// FaultRate is the rate of one fault: the mean time between two injections in the whole cluster, and the mean duration of an
// injection.
type FaultRate struct {
	Fault FaultKind
	Every sim.Time
	For   sim.Time
}

// NodeProfile lists the freedoms of the core's contract that the host of a core uses.
type NodeProfile struct {
	Codec         int       // chance that a message goes through the real codec
	StepDelay     sim.Delay // time from an event to its step: events gather into batches
	DiskDelay     sim.Delay // time of one write
	DiskStallMax  sim.Time  // time after which a write counts as stalled; 0: one second
	ApplyStallMax sim.Time  // time after which a state machine counts as hanging; 0: ten seconds
	Unequal       int       // how many times shorter a member's election timeout may be than the profile's; 0: all are equal
	Preferences   int       // how many preferences about the next leader members have, see noPreferences
	Unlike        bool      // each member has limits of its own, and its own times after which a disk or FSM counts as stalled
	MergeMax      int       // maximum number of writes merged into one
	CacheBytesMax int       // limit of the log cache
	Atomic        bool      // a write is durable as a whole or not at all; otherwise any prefix that the contract allows may be durable
	LatePersisted int       // chance that Persisted reaches the core later than the promises leave
	LateSend      int       // chance that a message waits in a sender's queue
	SendWait      sim.Time  // mean time of that wait
	DropSpan      int       // chance that a sender drops an append, and reports it
	Spurious      int       // chance of a step without an event
	Punctual      bool      // no timer fires late
	Connections   bool      // PeerUp and PeerLost are reported
	Notice        sim.Time  // mean time until they are reported; 0: a twentieth of an election timeout
	DriftMax      int       // millionths that a clock may be too fast or too slow
	OneSeed       bool      // all processes are started with the same seed
	Handshakes    bool      // members accept messages only after a handshake
	Starts        int       // how often each disk was started before the run, or up to three times less
	OtherLists    int       // chance of a start with another list of initial members than the rest
	Versions      int       // chance that a process starts with another version of its program; 0: programs have no versions
	Durable       bool      // the state machines keep their state on disk themselves: a raft.DurableFSM
	Compact       int       // chance of a start with a log that is compacted further than before
	Differ        int       // chance that a batch leaves a state machine in a state that differs from the other members'
	LateWrite     int       // chance that the writer of an idle disk begins late
	LateWait      sim.Time  // mean delay of such a writer
	Stuck         int       // chance, for each append or reply to one, that a connection for entries stops accepting messages for some time
	PauseMax      sim.Time  // the longest pause of a process; 0: no limit
	Dozes         int       // maximum number of further pauses of a process that has paused
	Carries       int       // bytes of records in one append to every other member, until it is healed; 0: no limit
	LateLists     int       // chance of a start without the list of initial members, which the process is given later
	Told          int       // chance of a start whose process is told of a cluster
	ToldAfter     sim.Time  // mean time until it is
	Seekers       int       // chance of a start whose process looks for its cluster before it takes its list
	OpenLists     int       // chance that a list of initial members leaves an address open
	Works         int       // chance of a step that the host of a member that may work begins to do so; 0: hosts do not
	WorkStopMax   sim.Time  // how long a transfer waits for the end of that work
	WorkStop      sim.Time  // mean time until it ends
	EmptiedAt     int       // the bootstrapper's disk is emptied once this many others hold entry 1 and nobody has a term; 0: never
}

// generousLimits returns the limits of runs that do not test limits.
func generousLimits() raft.Limits {
	return raft.Limits{
		CommandBytesMax: 1 << 20, ProposalsMax: 1000, ProposalBytesMax: 1 << 20, UnappliedMax: 10_000,
		AppendBytesMax: 1 << 16, InflightMax: 64, InflightBytesMax: 1 << 18,
	}
}

// Snapshots sets how members take and send snapshots. The limits set the times at which they do so.
type Snapshots struct {
	On             bool
	BytesMax       int // of a snapshot, not counting its state
	Failures       int // chance that a snapshot cannot be written
	ChunkBytes     int
	WindowChunks   int
	BytesPerSecond int // of a stream; 0: no limit
	ReserveBytes   int // bytes that a snapshot leaves free; 0: as many as the log uses, within bounds
	BlockBytes     int // bytes of a file that share one checksum
	Old            int // members that cannot read messages about snapshots, and take none, until they are healed
}

// Load describes the clients.
type Load struct {
	Clients   int
	Think     sim.Time // mean time between an answer and the next request
	Patience  sim.Time // time after which a client gives up
	Reads     int      // chance that a request is a read
	Transfers int      // chance that a request is a transfer
	Hedged    int      // chance that a write is sent to two members
	Burst     int      // maximum number of writes in one request
	Keys      int
	BytesMax  int  // limit of a command
	History   bool // keep the whole history, for the linearizability checker
	Forwards  int  // chance that a write is sent to a member that forwards it to the leader
	Holds     bool // during a planned transfer, a loop holds proposals back
	// ForwardsChanges is the chance that a change of the members or a transfer is asked of any member, which forwards it.
	ForwardsChanges int
}

// mostBytes returns an estimate of the maximum number of bytes that the clients write. It assumes that each request is
// answered within 10 ms.
func (l *Load) mostBytes(length sim.Time) int {
	return l.Clients * l.Burst * l.BytesMax / 2 * int(length/(l.Think+sim.In(10*time.Millisecond)))
}

// Profiles returns the names that Draw accepts, each with its purpose.
func Profiles() []string {
	var list []string
	for _, p := range profiles {
		list = append(list, p.name+": "+p.about)
	}
	return list
}

// dear lists the profiles that All omits, because each of their seeds takes seconds.
var dear = []string{"day", "churn"}

// All returns the names of the profiles that campaigns run. A campaign runs thousands of seeds of each.
func All() []string {
	var names []string
	for _, p := range profiles {
		if !slices.Contains(dear, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

var profiles = []struct {
	name, about string
	shape       func(s *sim.Stream, p *Profile)
}{
	{"swarm", "each class of faults on or off, everything else at random (the default)", shapeSwarm},
	{"calm", "no fault at all: nothing may happen but work", shapeCalm},
	{"alone", "one class of faults alone: those of the network, of processes, of disks or of clocks", shapeAlone},
	{"bootstrap", "faults from the first moment on, and short lives", shapeBootstrap},
	{"elections", "one leader after another fails, while messages and disks take as long as elections", shapeElections},
	{"slow", "disks, messages, steps and pauses as long as elections throughout, and few faults besides", shapeSlow},
	{"beyond", "beyond the fault budget: disks of a majority wiped or damaged; nodes may stop, never lie", shapeBeyond},
	{"images", "older images of disks, or of their logs alone, are put back, and members that saw newer ones notice it", shapeImages},
	{"snapshots", "snapshots are taken, sent and installed all the time", shapeSnapshots},
	{"durable", "state machines that survive a restart, and logs that begin after the entries that these have applied", shapeDurable},
	{"segments", "logs in small segments, which are cut short, truncated and damaged all the time", shapeSegments},
	{"hangs", "state machines that hang in a batch, or all of them at the same entry", shapeHangs},
	{"preference", "members hear of the end of processes: in time, late, falsely or not at all; priorities change, and favorites fail", shapePreference},
	{"unequal", "members with different election timeouts", shapeUnequal},
	{"leases", "leaders with leases, clocks at the bound of drift, and late messages, while leadership is lost and transferred all the time", shapeLeases},
	{"sessions", "a small table of sessions that expire, and commands that are sent twice, late and in any order, on both kinds of state machines", shapeSessions},
	{"members", "members join, change their roles and leave all the time", shapeMembers},
	{"churn", "the members change for ten minutes while one leader after another fails; 72 seeds are 12 hours; not among all", shapeChurn},
	{"day", "a day of a healthy cluster whose members may change, but whose leader never does; not among all", shapeDay},
	{"recoveries", "majorities lose their disks for good, survivors are recovered, and the former members come back", shapeRecoveries},
	{"forwards", "clients write, and admins change the members, through members that forward to the leader, while leaders change and messages arrive twice and late", shapeForwards},
	{"history", "short runs whose whole history is checked for linearizability", shapeHistory},
}

// Draw returns the profile of a seed.
func Draw(seed Seed) (Profile, error) {
	if name, directed := strings.CutPrefix(seed.Profile, ScenarioPrefix); directed {
		return drawScenario(seed, name)
	}
	if seed.Profile == ApplicationProfile {
		return Profile{}, fmt.Errorf("fuzzy: seed %v runs the state machine of a test: run that test with COXSWAIN_SEED=%v", seed, seed)
	}
	for _, choice := range profiles {
		if choice.name == seed.Profile {
			s := sim.NewStream(seed.Number, sim.Profile)
			p := drawSwarm(s)
			p.Name = seed.Profile
			choice.shape(s, &p)
			drawPreferences(seed, &p)
			if !slices.Contains(dear, p.Name) {
				drawRare(seed, &p)
				drawFiles(seed, &p)
				drawJoins(seed, &p)
				drawSegments(seed, &p)
				drawCarries(seed, &p)
				drawUnlike(seed, &p)
				drawPast(seed, &p)
				drawPriorities(seed, &p)
				drawFavorites(seed, &p)
				drawLulls(seed, &p)
				drawNews(seed, &p)
				drawPlanned(seed, &p)
				drawWorks(seed, &p)
				drawGiven(seed, &p)
				drawVersions(seed, &p)
				drawErrands(seed, &p)
				drawHeard(seed, &p)
				drawSeekers(seed, &p)
				drawPetitions(seed, &p)
			}
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("fuzzy: unknown profile %q; there are\n  %s", seed.Profile, strings.Join(Profiles(), "\n  "))
}

// drawSwarm draws all settings. Each class of faults is off half of the time, because it could keep the other classes from
// reaching some states. The intensities are spread over orders of magnitude.
func drawSwarm(s *sim.Stream) Profile {
	timeout := sim.In(150 * time.Millisecond)
	p := Profile{
		Voters: sim.Pick(s, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7, 9), ElectionTimeout: timeout,
		Length: s.LogTime(sim.In(2*time.Second), sim.In(16*time.Second)), // many short runs find more than a few long ones
	}
	if s.IntN(5) == 0 && p.Voters < 8 {
		p.Learners = 1 + s.IntN(2)
	}
	if s.IntN(3) > 0 {
		p.FaultsFrom = min(sim.In(2*time.Second), p.Length/4)
	}
	p.Network = drawNetwork(s)
	p.Faults = drawFaults(s)
	p.Node = drawNode(s)
	p.Limits = drawLimits(s)
	p.Load = drawLoad(s)
	p.Node.DiskStallMax = sim.Pick(s, 0, s.LogTime(timeout/5, sim.In(time.Second)))
	if p.World = drawWorld(s, timeout); p.Limits != generousLimits() {
		p.World = World{} // sending one slow entry at a time would take forever
	}
	return p
}

func drawNetwork(s *sim.Stream) sim.NetworkFaults {
	millisecond := sim.In(time.Millisecond)
	chance := func(most int) int {
		drawn := s.LogUniform(100, most)
		return drawn * s.IntN(2)
	}
	f := sim.NetworkFaults{
		Loss: chance(300_000), BurstBegin: chance(2000), BurstEnd: 100_000, Duplicate: chance(300_000),
		Replay: chance(30_000), Misdeliver: chance(10_000), Corrupt: chance(10_000),
		ReplayMax: s.LogTime(sim.In(time.Second), sim.In(20*time.Second)), FIFO: s.Coin(),
	}
	f.Delay = sim.Delay{
		Shape: sim.DelayShape(s.IntN(4)), Min: s.LogTime(millisecond/20, 5*millisecond),
		Mean: s.LogTime(millisecond/5, 20*millisecond), Max: s.LogTime(10*millisecond, 1000*millisecond),
	}
	if s.IntN(4) == 0 {
		f.Bandwidth = s.LogUniform(50_000, 10_000_000)
	}
	if s.IntN(4) == 0 {
		f.Capacity = 2 + s.IntN(19)
	}
	return f
}

func drawFaults(s *sim.Stream) []FaultRate {
	var rates []FaultRate
	for k := Crash; k < Image; k++ {
		r := FaultRate{
			Fault: k,
			Every: s.LogTime(sim.In(300*time.Millisecond), sim.In(15*time.Second)),
			For:   s.LogTime(sim.In(10*time.Millisecond), sim.In(3*time.Second)),
		}
		if s.Coin() {
			rates = append(rates, r)
		}
	}
	return rates
}

func drawNode(s *sim.Stream) NodeProfile {
	millisecond := sim.In(time.Millisecond)
	chance := func(most int) int {
		drawn := s.LogUniform(1000, most)
		return drawn * s.IntN(2)
	}
	n := NodeProfile{
		Codec: sim.Pick(s, 20_000, 100_000, sim.Million), Atomic: s.Coin(), MergeMax: sim.Pick(s, 1, 4, 64),
		CacheBytesMax: sim.Pick(s, 1, 2000, 20_000, 1<<20),
		DiskDelay: sim.Delay{
			Shape: sim.DelayShape(s.IntN(4)), Min: s.LogTime(millisecond/50, 5*millisecond),
			Mean: s.LogTime(millisecond/20, 20*millisecond), Max: s.LogTime(millisecond, 300*millisecond),
		},
		LatePersisted: chance(500_000), LateSend: chance(500_000), DropSpan: chance(100_000), Spurious: chance(100_000),
		Connections: s.Coin(), DriftMax: chance(100_000), SendWait: s.LogTime(millisecond/2, 200*millisecond),
		OneSeed: s.IntN(3) == 0,
	}
	delayed := sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(millisecond/20, 5*millisecond), Max: 50 * millisecond}
	if s.Coin() {
		n.StepDelay = delayed
	}
	return n
}

func (n *NodeProfile) diskStallMax() sim.Time { return cmp.Or(n.DiskStallMax, sim.In(time.Second)) }

// drawLimits often draws tiny limits, because these make rare paths common.
func drawLimits(s *sim.Stream) raft.Limits {
	limits := raft.Limits{
		CommandBytesMax: sim.Pick(s, 100, 1<<20),
		ProposalsMax:    sim.Pick(s, 3, 1000), ProposalBytesMax: sim.Pick(s, 200, 1<<20), UnappliedMax: sim.Pick(s, 8, 10_000),
		AppendBytesMax: sim.Pick(s, 1, 200, 1<<16), InflightMax: sim.Pick(s, 1, 2, 16), InflightBytesMax: sim.Pick(s, 100, 1<<18),
	}
	if s.Coin() {
		return generousLimits()
	}
	return limits
}

func drawLoad(s *sim.Stream) Load {
	l := Load{
		Clients: 1 + s.IntN(12), Think: s.LogTime(sim.In(2*time.Millisecond), sim.In(400*time.Millisecond)),
		Patience: s.LogTime(sim.In(50*time.Millisecond), sim.In(2*time.Second)), Reads: s.IntN(600_000),
		Transfers: s.LogUniform(100, 30_000) * s.IntN(2), Hedged: s.LogUniform(1000, 200_000) * s.IntN(2),
		Burst: sim.Pick(s, 1, 1, 4, 20), Keys: 1 + s.IntN(5), BytesMax: sim.Pick(s, 32, 32, 300, 5000),
		History: s.IntN(4) == 0,
	}
	return l
}

func only(kinds ...FaultKind) func(*sim.Stream, *Profile) {
	return func(s *sim.Stream, p *Profile) {
		p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return !slices.Contains(kinds, r.Fault) })
		if !slices.Contains(kinds, Partition) {
			p.Network = sim.NetworkFaults{Delay: p.Network.Delay}
		}
		if len(p.Faults) == 0 {
			p.Faults = []FaultRate{{kinds[0], sim.In(time.Second), sim.In(500 * time.Millisecond)}}
		}
	}
}

// shapeAlone draws one class of faults.
func shapeAlone(s *sim.Stream, p *Profile) {
	only(sim.Pick(s,
		[]FaultKind{Partition, Flap, Clog, Reset, Usurp},
		[]FaultKind{Crash, PowerCut, CrashLoop, Close},
		[]FaultKind{Stall, DiskFailure, Wipe, Rot, Crash},
		[]FaultKind{Pause, Suspend, Slow, Drift, Jump},
	)...)(s, p)
}

func shapeCalm(s *sim.Stream, p *Profile) {
	p.Faults, p.World = nil, World{}
	p.Network = sim.NetworkFaults{Delay: sim.Delay{Mean: sim.In(time.Millisecond)}, FIFO: true}
	if s.Coin() { // entries queue up, but must not delay other messages
		p.Network.Bandwidth, p.Load.BytesMax = s.LogUniform(20_000, 200_000), 20_000
	}
	p.Node = NodeProfile{Codec: 200_000, DiskDelay: sim.Delay{Mean: sim.In(2 * time.Millisecond)}, MergeMax: 64, CacheBytesMax: 1 << 20}
	p.Load.Transfers, p.Load.Think = 0, max(p.Load.Think, sim.In(30*time.Millisecond))
	p.Length = sim.In(5 * time.Second)
}

// shapeBootstrap draws long or brief faults. Long faults make bootstrappers begin again, and brief faults let them finish.
func shapeBootstrap(s *sim.Stream, p *Profile) {
	p.FaultsFrom, p.Length = 0, s.LogTime(sim.In(time.Second), sim.In(6*time.Second))
	brief := s.Coin()
	if s.IntN(4) == 0 { // members with emptied disks could bootstrap another cluster: see mayEmpty
		p.Node.OtherLists = 400_000
		p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Wipe })
	}
	p.Node.Handshakes = s.Coin()
	if s.IntN(8) > 0 { // a disk that is damaged before the bootstrap prevents it permanently
		p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Rot })
	}
	if s.Coin() { // replies to an earlier probe arrive late, and repeatedly
		p.Network.Replay = s.LogUniform(10_000, 300_000)
		p.Network.ReplayMax = s.LogTime(p.ElectionTimeout, 20*p.ElectionTimeout)
	}
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every/10, sim.In(50*time.Millisecond))
		if brief {
			p.Faults[i].For /= 10
		}
	}
	if s.IntN(4) == 0 {
		slowBootstrap(s, p)
	}
}

// slowBootstrap makes the write of entry 1 slow on all members. It takes longer than a bootstrapper initially waits.
func slowBootstrap(s *sim.Stream, p *Profile) {
	tenth := p.ElectionTimeout / 10
	p.World = World{Disk: s.LogTime(worldDiskTenths*tenth*3/5, worldDiskTenths*tenth), Trip: s.LogTime(worldTripTenths*tenth*4/5, worldTripTenths*tenth)}
	p.Limits, p.Length = generousLimits(), s.LogTime(4*p.unit(), 20*p.unit())
	p.Network.Delay, p.Network.Bandwidth = p.World.delay(p.ElectionTimeout), 0
	p.Node.DiskDelay, p.Node.DiskStallMax = p.World.writes(p.ElectionTimeout), 0
	p.Load.Think = max(p.Load.Think, p.unit()/8)
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every, p.unit())
	}
}

// shapeElections makes replies arrive in a later term, and several terms pass in one step.
func shapeElections(s *sim.Stream, p *Profile) {
	millisecond := sim.In(time.Millisecond)
	p.Voters, p.Length, p.FaultsFrom = sim.Pick(s, 2, 3, 3, 4, 5, 5), sim.In(6*time.Second), sim.In(500*time.Millisecond)
	p.Faults = nil
	for _, kind := range []FaultKind{Usurp, Pause, Crash, Clog} {
		if kind == Usurp || kind == Crash || s.Coin() {
			every, length := s.LogTime(200*millisecond, 1000*millisecond), s.LogTime(50*millisecond, 800*millisecond)
			p.Faults = append(p.Faults, FaultRate{kind, every, length})
		}
	}
	p.Network.Delay = sim.Delay{
		Shape: sim.Exponential, Mean: s.LogTime(millisecond, 60*millisecond), Max: 400 * millisecond,
	}
	p.Network.Replay, p.Network.ReplayMax, p.Network.FIFO = s.LogUniform(10_000, 300_000), 600*millisecond, false
	p.Node.DiskDelay = sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(millisecond, 40*millisecond), Max: 300 * millisecond}
	p.Node.StepDelay = sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(millisecond, 30*millisecond)}
	p.Load.Think, p.Load.Transfers = s.LogTime(5*millisecond, 100*millisecond), s.IntN(2)*50_000
	p.Load.History = false // with long waits, histories take too long to check
}

func shapeBeyond(s *sim.Stream, p *Profile) {
	only(Stall, DiskFailure, Wipe, Rot, Crash, Partition)(s, p)
	p.Beyond = true
	often := FaultRate{Every: p.Length / 8, For: sim.In(100 * time.Millisecond)}
	p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Wipe || r.Fault == Rot })
	for _, kind := range []FaultKind{Wipe, Rot} {
		often.Fault = kind
		p.Faults = append(p.Faults, often)
	}
}

// shapeImages keeps all other faults mild, so that disks change between the time of a copy and the time at which the copy is
// put back.
func shapeImages(s *sim.Stream, p *Profile) {
	p.Voters, p.Learners, p.World = sim.Pick(s, 3, 3, 3, 4, 5, 5, 7), 0, World{}
	p.FaultsFrom, p.Length = sim.In(500*time.Millisecond), sim.In(8*time.Second)
	p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Wipe || r.Fault == Rot })
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every, sim.In(3*time.Second))
	}
	p.Faults = append(p.Faults, FaultRate{Image, sim.In(time.Second), sim.In(time.Second)})
	p.Node.Handshakes = true
	if s.Coin() {
		drawSnapshots(s, p)
		p.Node.Durable = s.IntN(3) == 0
		if s.Coin() { // leaders compact all but the last entry, whatever a follower needs next
			p.Limits.SnapshotEntries, p.Limits.SnapshotTailBytes, p.Limits.SnapshotHoldBytes = 3, 1, 1
		}
	}
}

func shapeHistory(_ *sim.Stream, p *Profile) {
	p.Length, p.Load.History = sim.In(4*time.Second), true
	p.FaultsFrom = min(p.FaultsFrom, sim.In(time.Second))
	p.Load.Clients, p.Load.Burst = min(p.Load.Clients, 6), 1
	p.Load.Think = max(p.Load.Think, sim.In(40*time.Millisecond))
}

// injects reports whether a run has a class of faults.
func (p *Profile) injects(k FaultKind) bool {
	return slices.ContainsFunc(p.Faults, func(r FaultRate) bool { return r.Fault == k })
}

// coreConfig returns the configuration of the member's core.
func (n *node) coreConfig() raft.CoreConfig {
	return raft.CoreConfig{
		DiskStallMax:    time.Duration(n.diskStallMax),
		ApplyStallMax:   time.Duration(n.applyStallMax),
		ElectionTimeout: time.Duration(n.timeout()),
		Snapshots:       n.c.profile.Snapshots.On && n.protocol() > 1,
		DurableFSM:      n.c.profile.Node.Durable,
		Preferences:     n.preferences,
		Limits:          n.limits,
		AppVersion:      n.version,
	}
}
