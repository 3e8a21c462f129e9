// Package elections runs well-known election algorithms side by side with the Raft core itself, through the same
// faults: what each costs, how fast it is, and exactly how it breaks.
//
// Each algorithm is one file, a deterministic Machine behind one small interface, and opens with its
// source, its assumptions and its guarantee:
//
//	twophase.go           two-phase ELECT/VOTE election
//	bully_threestep.go    bully: ask, tell the best to proceed, be told
//	bully_cascading.go    bully: who is asked holds an election of its own
//	bully_quality.go      bully in three steps, ranked by the quality of the host before the number
//	nextinline.go         next-in-line failover
//	candidates.go         candidate/ordinary, with δ
//	invitation.go         invitation: groups merge
//	ring.go               ring, collecting and maximum-only
//	ring_changroberts.go  ring, Chang–Roberts
//	ballots.go            periodic ballots with priority, quorum and consecutive wins
//	stable.go             stable leader election
//	raft.go               Raft: the real raft.Core
//	raft_bare.go          Raft §5.2 to the letter, with a fixed timeout, and with ranks: for comparison
//
// What they share, and what runs them:
//
//	machine.go    Machine, Message, Timer, and Env, what a machine may do
//	detector.go   heartbeats and suspicion, for the algorithms that leave them open
//	seat.go       who leads, and the watch over it: bully, next-in-line, candidate/ordinary, ring
//	ring_relay.go from hop to hop round a ring
//	times.go      how long things take: scaled for comparisons, published for the authors' examples
//	algorithm.go  the registry
//	core.go       what the Raft core has and lacks of what the algorithms suggest
//	setup.go      how members are configured, and finding what is asked for by name
//	world.go      one run: machines, the network between them, what happens to them
//	scenario.go   what happens to them, by name; run.go plays one
//	watch.go      what is measured in a run
//	trace.go      what a diagram of a run is drawn from
//	measure.go    the measures, and their summary over all seeds
//	matrix.go     every algorithm in every scenario at every size, by several workers
//	published.go  the second comparison of the document, with the authors' own times
//	table.go      the table in the terminal; report.go as JSON; markdown.go the document, glance.go its first table
//
// Nothing depends on a clock, a map's order, a float or the number of workers: the same seeds give the same
// table, byte for byte.
package elections
