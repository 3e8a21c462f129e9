// Package fuzzy runs whole clusters of the real raft.Core in a simulated world of faults, and checks the
// invariants after every event. One seed fixes everything that happens.
//
//	profile.go faults.go        what a seed draws: the cluster, its limits, its clients, its faults
//	cluster.go                  the events, in the order of virtual time
//	node.go sender.go disk.go   one member: the loop, the senders, the store and the applier around its core, with
//	applier.go log.go           every freedom that the core's contract allows
//	machine.go durable.go       its state machine, and one that keeps its state on the disk
//	application*.go             a user's state machine in the place of that, with a reference
//	snapshots.go streams.go     its snapshots, and how they are sent
//	members.go quorum.go        which node a message or a configuration means, and what a quorum is
//	configurations.go           the configurations of each log
//	admins.go contacts.go       who changes the members, and whom members keep connections to
//	profile_members.go          what a seed draws for that
//	faults_members.go           the faults that strike while the members change
//	liveness_members.go         the second phase of such runs
//	workload.go                 the clients, who retry, hedge and give up
//	liveness.go                 the second phase: a quorum is healed, every other fault is permanent
//	liveness_transfer.go        its stage of a transfer, and how soon requests are answered
//	world.go                    how slow that quorum is: its disks, links, steps and pauses
//	liveness_choose.go          the choice of that quorum, or what is missing for one
//	witness.go                  a record of the messages of each member, for the checks
//	liveness_partial.go         its last stage: links are cut for good
//	invariants_*.go             the checks, one group per file, each with its sentence
//	directed*.go                directed scenarios: the director, its verbs, the scenarios
//	trace.go                    a record of a run, for people and for programs
//	case.go settings.go         one run in written form: what differs from a plain cluster,
//	edits.go                    and what is left out
//	shrink.go                   makes a failing run as small as possible
//	story.go                    tells in forty lines why a run failed
//
// The cores are driven through their exported API alone. Package processes, below this one, breaks real processes.
package fuzzy
