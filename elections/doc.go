// Package elections runs every election algorithm that the Raft core learned from, side by side with the
// core itself, through the same faults: what each costs, how fast it is, and exactly how it breaks.
//
// Each algorithm is one file, a deterministic Machine behind one small interface, and opens with its
// source, its assumptions and its guarantee:
//
//	twophase.go  two-phase ELECT/VOTE election
//	stable.go    stable leader election
//	ballots.go   periodic ballots with priority, quorum and consecutive wins
//	raft.go      Raft: the real raft.Core
//
// What they share, and what runs them:
//
//	machine.go    Machine, Message, Timer, and Env, what a machine may do
//	detector.go   heartbeats and suspicion, for the algorithms that leave them open
//	times.go      how long things take: scaled for comparisons, published for the authors' examples
//	algorithm.go  the registry
package elections
