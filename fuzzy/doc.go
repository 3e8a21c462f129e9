// Package fuzzy runs whole clusters of the real raft.Core in a simulated world of disasters, and checks
// after every event what must always hold. One seed fixes everything that happens.
//
//	profile.go faults.go        what a seed draws: the cluster, its limits, its clients, its disasters
//	cluster.go                  the events, in the order of virtual time
//	node.go sender.go disk.go   one member: the loop, the senders and the store around its core, with every
//	                            freedom that the core's contract allows
//	workload.go                 the clients, who retry, hedge and give up
//	liveness.go                 the second phase: a quorum is healed, every other fault is permanent
//	liveness_transfer.go        its stage of a transfer, and how soon requests are answered
//	world.go                    how slow that quorum works: its disks, links, steps and pauses
//	liveness_choose.go          which quorum that is, or what is missing for one
//	witness.go                  what was seen to come to a member and go from it, for the checks
//	liveness_partial.go         its last stage: links are cut for good
//	invariants_*.go             what is checked, a group a file, each with its sentence
//	directed*.go                scenarios that are played on purpose: the director, its verbs, the stories
//	trace.go                    what happened, for people and for programs
//	case.go settings.go         one run, written down: what differs from a plain cluster,
//	edits.go                    and what is left out
//	shrink.go                   a run that fails, made as small as it gets
//	story.go                    what decided how it failed, in forty lines
//
// The cores are driven through their exported API alone.
package fuzzy
