package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Members sets which nodes may join the cluster, and how its members change.
type Members struct {
	Spares   int      // nodes that initially belong to no cluster
	Twins    int      // the last of the spares, which have the ids of other nodes
	Admins   int      // number of admins that change the members at the same time
	Think    sim.Time // mean time between an answer to an admin and the next change
	Patience sim.Time // how long a member that is to vote may make no progress
	Bound    sim.Time // time within which L20 requires a change to end; 0: not checked
	Gentle   bool     // admins ask the leader for one change after another, none of which needs a new leader
	Gone     int      // removals that the cluster remembers when the run begins
	Emptied  sim.Time // mean time after which the directory of a removed member is emptied; 0: never
	// Priorities is the chance that a change sets priorities.
	Priorities int
	Earlier    int // of the first members, how many run a release without priorities until they are healed
	// Pace is how many times faster the clocks of package joining run than those of the cores, in runs whose processes petition
	// to join, correct their entries and set their stores aside; 0: they do not.
	Pace int
}

// on reports whether the members of a run may change.
func (m *Members) on() bool { return m.Admins > 0 }

// nodes returns how many nodes a run has.
func (p *Profile) nodes() int { return p.Voters + p.Learners + p.Members.Spares }

// drawMembers makes members continually join, change their roles and leave.
func drawMembers(s *sim.Stream, p *Profile) {
	timeout := p.ElectionTimeout
	p.Members = Members{
		Spares: 1 + s.IntN(4), Admins: sim.Pick(s, 1, 1, 2, 3), Think: s.LogTime(timeout/5, 10*timeout),
		Patience: s.LogTime(2*timeout, 20*timeout), Emptied: s.LogTime(timeout, 20*timeout),
	}
	p.Members.Twins = s.IntN(min(p.Members.Spares, p.Voters) + 1)
}

// drawJoins makes the members change in a quarter of the runs of other profiles. It uses its own stream, so that the other
// runs do not change.
func drawJoins(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<24)
	joins := s.IntN(4) == 0
	switch p.Name {
	case "swarm", "slow", "elections", "snapshots", "durable", "images":
		if joins {
			drawMembers(s, p)
			drawAmbushes(s, p)
		}
	}
	if s.Coin() && p.Members.on() && p.Node.Handshakes {
		p.Faults = append(p.Faults, FaultRate{
			Move, s.LogTime(sim.In(500*time.Millisecond), sim.In(5*time.Second)), s.LogTime(sim.In(20*time.Millisecond), sim.In(time.Second)),
		})
	}
}

// shapeMembers changes the members while faults happen. It uses every class of faults that leaves enough members alive.
func shapeMembers(s *sim.Stream, p *Profile) {
	p.Voters, p.Learners = sim.Pick(s, 1, 2, 3, 3, 3, 4, 5), s.IntN(2)
	p.Length = s.LogTime(sim.In(3*time.Second), sim.In(12*time.Second))
	p.Limits, p.World = generousLimits(), World{}
	p.FaultsFrom = min(p.FaultsFrom, sim.In(time.Second))
	if s.Coin() {
		drawSnapshots(s, p)
	}
	drawMembers(s, p)
	if s.Coin() {
		p.Load.Transfers = 30_000
	}
	p.Node.Handshakes = s.Coin()
	drawAmbushes(s, p)
}

// churnBound is the bound of L20, in election timeouts. A new leader leaves a configuration within a few exchanges. The
// rest of the bound is for lost messages, and for members that need a snapshot.
const churnBound = 20

// shapeChurn makes random changes of the members continue for ten minutes. Meanwhile leaders fail, often at a certain moment
// of a change. Only removed members lose their disks, so that every configuration can be finished.
func shapeChurn(s *sim.Stream, p *Profile) {
	timeout, second := sim.In(150*time.Millisecond), sim.In(time.Second)
	*p = Profile{
		Name: p.Name, Voters: sim.Pick(s, 2, 3, 3, 3, 4, 5), Learners: s.IntN(2), ElectionTimeout: timeout, Length: sim.In(10 * time.Minute), FaultsFrom: 4 * timeout,
		Network: sim.NetworkFaults{
			Delay: sim.Delay{Min: second / 1000, Mean: second / 200, Max: second / 20}, FIFO: s.Coin(),
			Loss: s.LogUniform(100, 10_000), Duplicate: s.LogUniform(100, 10_000),
		},
		Node: NodeProfile{
			Codec: 20_000, DiskDelay: sim.Delay{Mean: second / 500}, MergeMax: 64, CacheBytesMax: 1 << 20, DriftMax: 1000,
			Connections: s.Coin(), Handshakes: s.Coin(), Atomic: s.Coin(),
		},
		Limits: generousLimits(),
		Load:   Load{Clients: 2, Think: 2 * second, Patience: 10 * timeout, Reads: 200_000, Burst: 2, Keys: 5, BytesMax: 100},
	}
	drawMembers(s, p)
	p.Members.Think, p.Members.Patience, p.Members.Bound = s.LogTime(second/2, 5*second), s.LogTime(2*timeout, 10*timeout), churnBound*timeout
	drawSnapshots(s, p) // a log that keeps all changes would be long
	p.Limits.SnapshotEntries, p.Snapshots.BytesPerSecond, p.Snapshots.Failures = s.LogUniform(10, 100), 0, 0
	p.Snapshots.ChunkBytes, p.Snapshots.WindowChunks = 4096, 4
	often := s.LogTime(2*second, 10*second)
	p.Faults = []FaultRate{
		{Decapitate, often, second}, {Usurp, 4 * often, second}, {Crash, 2 * often, 2 * second}, {PowerCut, 4 * often, 2 * second},
		{Pause, 2 * often, second}, {Close, 4 * often, 2 * second}, {Partition, 2 * often, 2 * second},
		{Orphan, 2 * often, 2 * second}, {Exile, 4 * often, 5 * second}, {Lag, 4 * often, 5 * second}, {Churn, 8 * often, 5 * second},
	}
}

// drawAmbushes adds faults during changes of the members.
func drawAmbushes(s *sim.Stream, p *Profile) {
	for kind := Decapitate; kind <= Churn; kind++ {
		if s.Coin() {
			p.Faults = append(p.Faults, FaultRate{
				kind, s.LogTime(sim.In(200*time.Millisecond), sim.In(3*time.Second)), s.LogTime(sim.In(50*time.Millisecond), sim.In(2*time.Second)),
			})
		}
	}
}

// idOf returns the id of a node. The last spares may be twins.
func (p *Profile) idOf(i int) raft.NodeID {
	if first := p.nodes() - min(p.Members.Twins, p.Members.Spares, p.Voters); i >= first {
		return nodeID(i - first)
	}
	return nodeID(i)
}

// spare reports whether the node initially belongs to no cluster.
func (p *Profile) spare(i int) bool { return i >= p.Voters+p.Learners }

// A change takes three entries. Each of them is committed within one or a few units of the second phase. Members that must
// catch up may take as long as the patience of the change. Each new leader begins anew. A leader that is voted out transfers
// its leadership.
const settleUnits = 40

// settleTime returns the time for which a change of members may continue after everything works again.
func (p *Profile) settleTime() sim.Time {
	if !p.Members.on() {
		return 0
	}
	return settleUnits*p.unit() + 6*p.Members.Patience
}
