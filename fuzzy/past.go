package fuzzy

import (
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file lets a run begin in the middle of the life of a cluster, because some limits are constants that no short run
// reaches: the starts that a lineage remembers, and the removals that a configuration remembers.

// drawPast gives some runs a past that ends close to a limit, and lets disks lose single entries in some runs of profiles that
// do not do so anyway. It uses its own stream, so that the other runs do not change.
func drawPast(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<56)
	starts, gone, lose := s.IntN(4), s.IntN(4), s.IntN(16)
	if starts == 0 && p.Node.Handshakes {
		p.Node.Starts = raft.LineageStartsMax
	}
	if gone == 0 && p.Members.on() && !p.Segments.On && p.Node.OtherLists == 0 {
		p.Members.Gone = removalsMax - s.IntN(4)
	}
	switch p.Name {
	case "swarm", "snapshots", "durable", "members":
		if lose == 0 {
			p.Faults = append(p.Faults, FaultRate{Image, sim.In(time.Second), sim.In(time.Second)})
		}
	}
}

// oldsMax bounds the spares that were voters once.
const oldsMax = 2

// liveOn gives the members the log of a cluster that has removed others. Some of these are spares, which do not know that
// their removal is committed. The rest are strangers, which no longer exist.
func (c *cluster) liveOn() {
	p := &c.profile
	if p.Members.Gone == 0 {
		return
	}
	present := p.Voters + p.Learners
	olds := min(p.Members.Spares-p.Members.Twins, oldsMax)
	var members, strangers []raft.Member
	for i, n := range c.nodes[:present+olds] {
		m := raft.Member{ID: n.id, Address: n.place, Incarnation: n.disk.incarnation}
		if i >= p.Voters && i < present {
			m.Kind = raft.Learner
		}
		members = append(members, m)
	}
	for i := range p.Members.Gone - olds {
		id := fmt.Sprintf("gone-%d", i)
		strangers = append(strangers, raft.Member{ID: raft.NodeID(id), Address: id, Kind: raft.Learner, Incarnation: raft.Incarnation(i + 1)})
	}
	log := formerLog(members, strangers, present)
	for i, n := range c.nodes[:len(members)] {
		d, holds := &n.disk, len(log)
		d.hard.Term, d.commit = 1, raft.Index(holds)
		if i >= present {
			holds -= 1 + d.random.IntN(2)
			d.commit = 3
		}
		d.log = c.check.lengthen(n, nil, &raft.LogWrite{Entries: log[:holds]})
	}
	first := c.nodes[0]
	first.log, first.status.Term = first.disk.log, 1
	c.check.extend(first, first.disk.commit)
	first.log, first.status.Term = nil, 0
}

// formerLog returns a log in which strangers join the members. Then all but some of the members are removed, and after them
// the strangers.
func formerLog(members, strangers []raft.Member, some int) (log []raft.Entry) {
	entry := func(kind raft.EntryKind, data []byte) {
		log = append(log, raft.Entry{Index: raft.Index(len(log) + 1), Term: raft.Term(min(len(log), 1)), Kind: kind, Data: data})
	}
	var removed []raft.Removal
	configure := func(outgoing []raft.Peer, gone []raft.Member, left ...[]raft.Member) {
		for _, m := range raft.NewConfiguration(gone).Members {
			removed = append(removed, raft.Removal{Peer: m.Peer(), Index: raft.Index(len(log) + 1)})
		}
		next := raft.NewConfiguration(slices.Concat(left...))
		next.Level, next.Outgoing, next.Removed = 1, outgoing, removed
		entry(raft.EntryConfiguration, next.Encode())
	}
	first := raft.Bootstrap{
		Cluster: raft.ClusterID{9}, Bootstrapper: members[0].Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 1},
		Configuration: raft.NewConfiguration(members),
	}
	entry(raft.EntryBootstrap, first.Encode())
	entry(raft.EntryNoop, nil)
	configure(nil, nil, members, strangers)
	if olds := slices.Clone(members[some:]); len(olds) > 0 {
		for i := range olds {
			olds[i].Kind = raft.Leaving
		}
		configure(votersOf(&first.Configuration), nil, members[:some], olds, strangers)
		configure(nil, olds, members[:some], strangers)
	}
	configure(nil, strangers, members[:some])
	return log
}
