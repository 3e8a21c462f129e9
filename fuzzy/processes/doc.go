// Package processes runs a cluster of real raftkv processes, breaks everything around them, and checks the answers that
// their clients got. The command raftlab chaos runs it.
//
// There is a proxy between every two members for each direction (proxy.go), and every member has a disk that forgets
// unsynced writes in a power cut (disks.go). A seed draws the faults and their times (schedule.go). At any time there is at
// most one fault of the processes or their disks, one of the network (inject.go), and one membership change. Clients write
// and read all the time. At the end everything is healed, and the members must agree on a state that holds every
// acknowledged write (conclude.go). A member that ends without a reason is a failure, too (watch.go).
//
// The members take a snapshot every second or two. Large values make a snapshot last for a second. Some faults keep a member
// away until it needs a snapshot, or strike while a snapshot is taken, sent or received (snapshots.go).
//
// The membership changes by the commands that a user has: raftkv members, and serve --join. The harness decides which members
// it wants, and runs commands until the leader's configuration has them (changes.go). It kills commands and members during
// changes, and runs two commands at once (admins.go). If a disk is lost, its member is replaced (losses.go). A change that a
// command has reported as done must last, and at the end the members must be those that were wanted last. A removed member
// must end with the exit code for removals. A member has two addresses, with a proxy in front of each, so that the others must
// find out at which one it runs.
//
// Clients reach the members without a proxy, and members forward requests to the leader without one. So clients still
// ask a member that is cut off from the others, and would notice if it answered with old data.
//
// The seed determines the schedule, not the run: real processes do not do the same thing twice.
//
// # What is never exceeded
//
// Raft survives any number of crashes and power cuts, at once or not, as long as synced data survives. It also survives the
// loss of a minority's synced data. So every fault may happen to all members, except the loss of a disk: an emptied or
// damaged disk, or an older image. Disks are lost only when all earlier losses have been repaired, the leader's
// configuration is committed, and no change runs. Never more than a minority of the voters loses its disks.
package processes
