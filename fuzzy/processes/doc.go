// Package processes runs a cluster of real raftkv processes, breaks everything around them, and checks what
// their clients were told. The command raftlab chaos runs it.
//
// There is a proxy between every two members for each direction (proxy.go), and every member has a disk that forgets
// what was not synced (disks.go). A seed draws which faults happen and when (schedule.go). At any time there is at most
// one fault of the processes or their disks, one of the network (inject.go), and one change of the members. Clients write
// and read all the time. At the end everything is healed, and the members must agree on a state that holds every
// acknowledged write (conclude.go). A member that ends without a reason is a failure as well (watch.go).
//
// The members take a snapshot every second or two, of values that make it last for a second. Some faults keep a member
// away until it needs a snapshot, or wait for a moment at which one is taken, sent or received (snapshots.go).
//
// The members change by the commands that a user has: raftkv members, and serve --join. The harness says what it wants of
// each member, and runs what is left to do until the leader's configuration says so (changes.go). Commands and members are
// killed in the midst of that, and two commands run at once (admins.go). A lost disk means that its member is replaced
// (losses.go). What a command has reported as done must be there from then on, and at the end the members must be those
// that were wanted last. Whoever was removed must end with its exit code. A member has two addresses, with a proxy in front
// of each, so that the others must find out where it is.
//
// Clients talk to the members without a proxy, and members forward requests to the leader without one. So clients still
// ask a member that is cut off from the others, and would notice if it answered with old data.
//
// The seed fixes the schedule, not the run: real processes do not do the same thing twice.
//
// # What is never exceeded
//
// Raft survives any number of crashes and power cuts, at once or not, as long as synced data stays, and the loss of a
// minority's synced data. So every fault may happen to all members, except for lost disks: those are emptied, damaged, or
// come back older. Disks are only lost while all that were lost before have been replaced, while the configuration of the
// leader is committed and no change runs, and never those of more than a minority of its voters.
package processes
