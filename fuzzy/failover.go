package fuzzy

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file measures how soon a cluster has its next leader. It runs the members of every other simulation, in a world whose
// only faults are the loss of the leader and of messages. Every invariant is checked meanwhile.

// Failovers describes trials in each of which a leader is lost. A round trip takes 1 ms, and a durable write 2 ms.
type Failovers struct {
	Members     int // voters
	Trials      int
	Seed        uint64
	Silent      bool // the leader's host vanishes, and nobody is told; otherwise its process is killed, and its host refuses connections
	LossPercent int  // of all messages
	Preferences raft.Preferences
}

// FailoverTimes is the result of trials.
type FailoverTimes struct {
	Times  []time.Duration // from the loss of each leader to the next one
	Wasted int             // terms in which nobody was elected
	Split  int             // of these, the terms in which several members stood for election
}

// failoverBatchMax is the largest number of trials of one cluster. Its logs grow with the trials.
const failoverBatchMax = 100

// Run runs the trials. The same Failovers give the same times. The error is a *Failure if an invariant did not hold, or if a
// cluster got no leader.
func (f Failovers) Run() (FailoverTimes, error) {
	batches := make([]failoverBatch, (f.Trials+failoverBatchMax-1)/failoverBatchMax)
	var running sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range batches {
		batches[i].Failovers = f
		batches[i].Seed, batches[i].Trials = f.Seed+uint64(i), min(failoverBatchMax, f.Trials-i*failoverBatchMax)
		free <- struct{}{}
		running.Go(func() {
			batches[i].run()
			<-free
		})
	}
	running.Wait()
	var all FailoverTimes
	for i := range batches {
		b := &batches[i]
		if b.failure != nil {
			return all, fmt.Errorf("failovers of seed %d: %w", b.Seed, b.failure)
		}
		all.Times = append(all.Times, b.result.Times...)
		all.Wasted += b.result.Wasted
		all.Split += b.result.Split
	}
	return all, nil
}

// failoverBatch is the trials of one cluster.
type failoverBatch struct {
	Failovers
	result  FailoverTimes
	failure error
	stood   map[raft.Term]uint64 // the members that stood for election in each term of the running trial
}

func (b *failoverBatch) run() {
	c := newCluster(Seed{"failover", b.Seed}, b.profile())
	for _, n := range c.nodes {
		n.preferences = b.Preferences
	}
	c.scene = &director{c: c, story: scenario{play: b.play}, unheard: map[*node][]raft.Seq{}}
	c.guarded()
	if c.failure != nil {
		b.failure = c.failure
	}
}

func (b *failoverBatch) profile() Profile {
	p := plain()
	half := sim.In(time.Millisecond / 2)
	p.Name, p.Voters, p.Length = "failover", b.Members, sim.In(time.Hour)
	p.Network.Delay = sim.Delay{Min: half, Mean: half / 2}
	p.Network.Loss = b.LossPercent * sim.Million / 100
	p.Node.DiskDelay = sim.Delay{Min: 4 * half, Mean: 2 * half}
	p.Node.MergeMax, p.Node.Punctual, p.Node.Connections, p.Node.Notice = 64, true, true, 2*half
	return p
}

// play runs the trials, and ends the run.
func (b *failoverBatch) play(d *director) {
	random := sim.NewStream(b.Seed, sim.WorkloadConcern<<16)
	d.start(d.c.nodes...)
	for range b.Trials {
		d.awaitSteady()
		d.wait(2 + float64(random.IntN(1000))/500) // until the leader has told all what it tells them in time
		b.trial(d, d.awaitSteady())                // too many messages may have been lost meanwhile
	}
	d.c.phase = ended
	panic(errCut)
}

// trial loses a leader and waits for the next one. The lost member then returns.
func (b *failoverBatch) trial(d *director, lost *node) {
	b.stood = map[raft.Term]uint64{}
	began, before := d.c.now(), lost.status.Term
	if b.Silent {
		d.isolate(sim.BothWays, lost)
	} else {
		d.crash(lost)
	}
	var next *node
	d.await("another leader", func() bool {
		for _, n := range d.c.nodes {
			if n == lost || n.core == nil || n.status.Term <= before {
				continue
			}
			switch n.status.Role {
			case raft.Leader:
				next = n
			case raft.Candidate:
				b.stood[n.status.Term] |= 1 << n.index
			}
		}
		return next != nil
	})
	b.result.Times = append(b.result.Times, time.Duration(d.c.now()-began))
	for term := before + 1; term < next.status.Term; term++ {
		b.result.Wasted++
		if bits.OnesCount64(b.stood[term]) > 1 {
			b.result.Split++
		}
	}
	if b.Silent {
		d.heal()
	} else {
		d.start(lost)
	}
}

// await is like until, with more time, because many messages may be lost.
func (d *director) await(what string, is func() bool) {
	const timeouts = 1000
	if !d.reached(timeouts, is) {
		d.cut(Liveness, "S2", "not within %d election timeouts: %s\n%s", timeouts, what, d.c.describe())
	}
}

// awaitSteady waits for a leader that all members follow, and returns it.
func (d *director) awaitSteady() (leader *node) {
	d.await("a leader that all follow, with equal logs", func() bool { leader = d.steady(); return leader != nil })
	return leader
}

// steady returns the leader if all members follow it and have applied the same entries. Otherwise it returns nil.
func (d *director) steady() *node {
	i := d.c.leader()
	if i < 0 {
		return nil
	}
	leader := d.c.nodes[i]
	for _, n := range d.c.nodes {
		if n.core == nil || n.status.Term != leader.status.Term || n.status.Leader != leader.id || n.applied != leader.last() {
			return nil
		}
	}
	return leader
}
