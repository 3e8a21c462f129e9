// Package fuzzy runs whole clusters of the real raft.Core in a simulated world of faults, and checks the
// invariants after every event. One seed determines everything that happens.
//
//	profile.go faults.go        what a seed draws: the cluster, its limits, its clients, its faults
//	cluster.go                  the events, in the order of virtual time
//	node.go sender.go disk.go   one member: the loop, the senders, the store and the applier around its core, with
//	applier.go log.go           every freedom that the core's contract allows
//	machine.go durable.go       its state machine, and one that keeps its state on the disk
//	sessions.go ledger.go       clients with sessions, and a machine behind the library's table of them
//	application*.go             a user's state machine instead, with a reference to compare it with
//	snapshots.go streams.go     its snapshots, and how they are sent
//	members.go quorum.go        the node that a message or a configuration means, and quorums
//	configurations.go           the configurations of each log
//	admins.go contacts.go       who changes the members, and the connections that members keep
//	profile_members.go          what a seed draws for changes of the members
//	recoveries.go               the loss of a majority, recoveries, and the other clusters of such a run
//	news.go                     news that a process has ended: true, late or false
//	working.go                  the work that a host does while its member leads
//	priorities.go               what it draws for priorities, and how admins change them
//	faults_members.go           the faults during changes of the members
//	liveness_members.go         the second phase of runs with such changes
//	workload.go                 the clients, who retry, hedge and give up
//	liveness.go                 the second phase: a quorum is healed, every other fault is permanent
//	liveness_transfer.go        its stage of a transfer, and how soon requests are answered
//	world.go                    how slow that quorum is: its disks, links, steps and pauses
//	liveness_choose.go          the choice of that quorum, or what is missing for one
//	liveness_partial.go         the last stage of that phase: links are cut permanently
//	witness.go                  a record of the messages of each member, for the checks
//	invariants_*.go             the checks, one group per file, each with its sentence; invariants_step.go says how
//	                            to add one, and to prove that it can fail
//	checker.go rules.go         what the checks share, and when they run; the list of their sentences
//	directed*.go                directed scenarios: the director, its verbs, the scenarios
//	failover.go                 trials of how soon the next leader is elected
//	trace.go                    a record of a run, for people and for programs
//	case.go settings.go         one run as text: how it differs from a plain cluster,
//	edits.go                    and what it leaves out
//	shrink.go                   makes a failing run as small as possible
//	story.go                    explains in forty lines why a run failed
//
// The cores are driven through their exported API alone. Package processes, below this one, breaks real processes.
package fuzzy
