package elections

import "github.com/coxswain/raft"

// Raft with the core's preferences, as a node has them unless its configuration switches them off. The leader names its
// successors, and a member that learns from its connections that the leader's process has ended does not wait for a timeout.

var raftPreferred = &Algorithm{
	Name:  "raft-preferred",
	Title: "Raft, with news and successors",
	Source: "Ongaro, Ousterhout, 2014, as raft; successors after Gholipour et al., 2009; priorities and their order after the " +
		"manual of the ballots; the news of a broken connection is this library's",
	Assumes: raftCore.Assumes + " News assumes a host that refuses connections once its process has ended.",
	Guarantees: "What raft guarantees: a preference says who campaigns when, never who may win. If news is wrong, a leader that works is " +
		"replaced only if a majority has the news at the same time.",
	InCore: []*CorePart{coreNews, coreNewsEnds, coreSuccessors, coreRank, coreSpan, coreRetry, corePriority},
	Choices: []string{
		"All members have the same priority, so that the lab shows news and successors alone.",
		"News takes three packets: the reset of the connection, the dial, and the refusal. They are as late as messages, and as often " +
			"lost; if one is lost, there is no news.",
		"A process that is back before it is dialed again causes no news, and neither does a cut link.",
	},
	Epochs:    true,
	News:      true,
	New:       func(o Options) Machine { return &raftMachine{o: o} },
	Bootstrap: bootstrapOnce,
}

// Lost reports to the core that the process of a peer has ended.
func (m *raftMachine) Lost(e *Env, peer Rank) {
	e.Rule("I am refused a new connection: that process has ended.")
	lost := raft.Peer{ID: raftID(peer), Incarnation: raft.Incarnation(peer)}
	m.told = append(m.told, raft.PeerLost{Peer: lost, Refused: true})
	m.steps(e)
}
