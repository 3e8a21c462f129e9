package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// drawSnapshots makes members continually take and send snapshots.
func drawSnapshots(s *sim.Stream, p *Profile) {
	p.Snapshots = Snapshots{
		On: true, BytesMax: s.LogUniform(1, 20_000), Failures: sim.Pick(s, 0, 100_000), ChunkBytes: s.LogUniform(1, 4096) + 63,
		WindowChunks: 1 + s.IntN(8), BytesPerSecond: s.LogUniform(2000, 10_000_000) * s.IntN(2),
	}
	p.Limits.SnapshotEntries, p.Limits.SnapshotLogBytes = s.LogUniform(3, 40), s.LogUniform(300, 1<<20)
	p.Limits.SnapshotTailBytes, p.Limits.SnapshotHoldBytes = s.LogUniform(1, 5000), sim.Pick(s, s.LogUniform(1, 20_000), 1<<20)
}

// heldTripsMax is the longest unit of a world, in election timeouts, in which a member streams the state of a DurableFSM. The
// member holds the state for ten of these units for each acknowledgement.
const heldTripsMax = 5

// shapeSwarm makes members take snapshots in half of the runs. In some of these runs they take them seldom.
func shapeSwarm(s *sim.Stream, p *Profile) {
	if s.Coin() {
		return
	}
	drawSnapshots(s, p)
	p.Limits.SnapshotEntries = s.LogUniform(3, 2000)
	p.Node.Durable = s.IntN(4) == 0 && p.unit() <= heldTripsMax*p.ElectionTimeout
	if s.Coin() {
		p.Faults = append(p.Faults, away(s))
	}
}

func away(s *sim.Stream) FaultRate {
	return FaultRate{Away, s.LogTime(sim.In(time.Second), sim.In(6*time.Second)), s.LogTime(sim.In(100*time.Millisecond), sim.In(3*time.Second))}
}

// shapeSnapshots makes followers repeatedly fall behind the base of the leader's log.
func shapeSnapshots(s *sim.Stream, p *Profile) {
	p.World, p.Limits = World{}, generousLimits()
	drawSnapshots(s, p)
	for _, kind := range []FaultKind{Crash, Partition, Usurp} {
		p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == kind })
		p.Faults = append(p.Faults, FaultRate{kind, s.LogTime(sim.In(500*time.Millisecond), sim.In(3*time.Second)), s.LogTime(sim.In(50*time.Millisecond), sim.In(2*time.Second))})
	}
	p.Faults = append(p.Faults, away(s))
	p.FaultsFrom = min(p.FaultsFrom, sim.In(time.Second))
	if s.IntN(4) == 0 { // a stream takes long, while the log grows by more than is otherwise kept
		p.Load.BytesMax, p.Snapshots.BytesMax, p.Snapshots.BytesPerSecond = 32, 100_000, s.LogUniform(20_000, 200_000)
		p.Limits.SnapshotHoldBytes = 300
	}
}

// shapeDurable does the same as shapeSnapshots. It also often restarts members with logs that are compacted further than
// before.
func shapeDurable(s *sim.Stream, p *Profile) {
	shapeSnapshots(s, p)
	p.Node.Durable, p.Node.Compact = true, sim.Pick(s, 0, 100_000, 500_000, sim.Million)
	p.Faults = slices.DeleteFunc(p.Faults, func(r FaultRate) bool { return r.Fault == Crash })
	p.Faults = append(p.Faults, FaultRate{Crash, s.LogTime(sim.In(200*time.Millisecond), sim.In(2*time.Second)), sim.In(200 * time.Millisecond)})
	if s.IntN(4) == 0 { // a leader stays long enough to give up a receiver that is away
		p.Faults = []FaultRate{{Away, sim.In(500 * time.Millisecond), s.LogTime(sim.In(time.Second), sim.In(3*time.Second))}}
		p.Length, p.Limits.SnapshotHoldBytes = max(p.Length, sim.In(10*time.Second)), 1<<20
		p.Snapshots.BytesMax, p.Snapshots.BytesPerSecond = 100_000, s.LogUniform(5000, 50_000)
	}
}

// dayTimeout is the election timeout of profile day. With a shorter one, a day would have too many heartbeats for many
// seeds.
const dayTimeout = 2 * time.Second

// shapeDay draws the events of a healthy cluster in a day: one kind of event, or all kinds at once. The kinds are large
// proposals, a slow disk, snapshots, a follower that goes away and then gets a snapshot, and pauses. Unless a follower goes
// away, learners join and are promoted, and members are replaced and removed.
func shapeDay(s *sim.Stream, p *Profile) {
	timeout := sim.In(dayTimeout)
	*p = Profile{
		Name: p.Name, Voters: sim.Pick(s, 3, 3, 5), ElectionTimeout: timeout, Length: sim.In(24 * time.Hour), FaultsFrom: 4 * timeout,
		Network: sim.NetworkFaults{Delay: sim.Delay{Min: sim.In(time.Millisecond), Mean: sim.In(5 * time.Millisecond)}, FIFO: true},
		Node: NodeProfile{
			DiskDelay: sim.Delay{Mean: timeout / 400}, DiskStallMax: 4 * timeout, MergeMax: 64, CacheBytesMax: 1 << 20, DriftMax: 1000,
			Connections: true,
		},
		Limits: generousLimits(),
		Load: Load{
			Clients: 3, Think: sim.In(15 * time.Second), Patience: 10 * timeout, Reads: 200_000, Burst: 2, Keys: 5, BytesMax: 100,
		},
	}
	large, slow, taken, sent, paused := true, true, true, true, true
	if one := s.IntN(6); one < 5 {
		large, slow, taken, sent, paused = one == 0, one == 1, one == 2, one == 3, one == 4
	}
	if large { // sending the largest one takes half a timeout
		p.Load.BytesMax, p.Network.Bandwidth = 20_000, 20_000
	}
	if slow {
		p.Node.DiskDelay = sim.Delay{Shape: sim.Uniform, Min: timeout / 4, Mean: timeout / 8}
	}
	if taken || sent { // about every minute
		drawSnapshots(s, p)
		p.Limits.SnapshotEntries, p.Snapshots.BytesMax = 12, 100_000
		p.Snapshots.BytesPerSecond, p.Snapshots.BlockBytes, p.Snapshots.Failures = s.LogUniform(10_000, 1_000_000), 4096, 0
	}
	if sent {
		p.Faults = append(p.Faults, FaultRate{Away, sim.In(10 * time.Minute), sim.In(30 * time.Second)})
	}
	if paused {
		p.Node.PauseMax = 2 * timeout / 5
		p.Faults = append(p.Faults, FaultRate{Pause, sim.In(time.Minute), timeout / 4})
	}
	if !sent { // with one voter away, the loss of another one may cost the leader its quorum
		p.Node.Handshakes = true // a removed member that starts again is told, so that its disk is emptied and it may join
		p.Members = Members{
			Spares: 2, Admins: 1, Think: sim.In(30 * time.Minute), Patience: 10 * timeout, Bound: churnBound * timeout, Gentle: true,
			Emptied: sim.In(10 * time.Minute),
		}
		if large { // a member that joins is sent the log of hours, at the load's rate
			p.Members.Bound = 0
		}
	}
}
