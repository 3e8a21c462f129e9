// Package elections runs every election algorithm that the Raft core learned from, side by side with the
// core itself, through the same faults: what each costs, how fast it is, and exactly how it breaks.
//
// Each algorithm is one file, a deterministic Machine behind one small interface, and opens with its
// source, its assumptions and its guarantee:
//
//	twophase.go           two-phase ELECT/VOTE election
//	bully_threestep.go    bully: ask, tell the best to proceed, be told
//	bully_cascading.go    bully: who is asked holds an election of its own
//	nextinline.go         next-in-line failover
//	candidates.go         candidate/ordinary, with δ
//	invitation.go         invitation: groups merge
//	ring.go               ring, collecting and maximum-only
//	ring_changroberts.go  ring, Chang–Roberts
//	ballots.go            periodic ballots with priority, quorum and consecutive wins
//	stable.go             stable leader election
//	raft.go               Raft: the real raft.Core
//
// What they share, and what runs them:
//
//	machine.go    Machine, Message, Timer, and Env, what a machine may do
//	detector.go   heartbeats and suspicion, for the algorithms that leave them open
//	seat.go       who leads, and the watch over it: bully, next-in-line, candidate/ordinary, ring
//	ring_relay.go from hop to hop round a ring
//	times.go      how long things take: scaled for comparisons, published for the authors' examples
//	algorithm.go  the registry
package elections
