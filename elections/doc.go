// Package elections runs well-known election algorithms side by side with the Raft core itself, through the same
// faults. It shows what each algorithm costs, how fast it is, and how it breaks.
//
// Each algorithm is a deterministic Machine in one file, which opens with its source, its assumptions and its
// guarantee:
//
//	twophase.go           two-phase ELECT/VOTE election
//	bully_threestep.go    bully: ask, tell the best to proceed, be told
//	bully_cascading.go    bully: a member that is asked holds its own election
//	bully_quality.go      bully in three steps, ranked by the host's quality first
//	nextinline.go         next-in-line failover
//	candidates.go         candidate/ordinary, with δ
//	invitation.go         invitation: groups merge
//	ring.go               ring, collecting and maximum-only
//	ring_changroberts.go  ring, Chang–Roberts
//	ballots.go            periodic ballots with priority, quorum and consecutive wins
//	stable.go             stable leader election
//	raft.go               Raft: the real raft.Core
//	raft_preferred.go     the same, with the preferences of the core: news of broken connections, and successors
//	raft_bare.go          Raft §5.2 to the letter, with a fixed timeout, and with ranks: for comparison
//
// What they share, and what runs them:
//
//	machine.go    Machine, Message, Timer, and Env: what a machine may do
//	detector.go   heartbeats and suspicion, for the algorithms that leave them open
//	seat.go       who leads, and its failure detection: bully, next-in-line, candidate/ordinary, ring
//	ring_relay.go passing messages round a ring, and the rest that all forms of it share
//	times.go      how long things take: scaled for comparisons, published for the authors' examples
//	algorithm.go  the registry
//	core.go       which features of the algorithms the Raft core has, and which it lacks
//	setup.go      how members are configured; lookup by name
//	world.go      one run: the machines, the network between them, the faults
//	connections.go what connections tell of processes that have ended
//	scenario.go   the faults, by name; run.go runs one scenario
//	watch.go      what is measured in a run
//	trace.go      the records of a run, from which a diagram is drawn; tell.go writes them as text
//	measure.go    the measures, and their summary over all seeds
//	matrix.go     every algorithm in every scenario at every size, in parallel
//	published.go  the second comparison of that document, with the authors' own times
//	table.go      tables for the terminal; report.go writes JSON; markdown.go docs/results/elections.md, glance.go its first table
//
// Command electionlab, in cmd/, runs all of it; internal/electionpage makes its HTML page. The lab is a module of its own,
// so that nobody who imports the Raft library compiles it.
//
// Results do not depend on a clock, map order, floats or the number of workers: the same seeds give the same
// table, byte for byte.
package elections
