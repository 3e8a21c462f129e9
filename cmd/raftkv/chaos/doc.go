// Package chaos runs a cluster of real raftkv processes, breaks everything around them, and checks what
// their clients were told.
//
// There is a proxy between every two members for each direction (proxy.go), and every member has a disk that forgets
// what was not synced (disks.go). A seed draws which faults happen and when (schedule.go). At any time there is at most
// one fault of the processes or their disks, and one of the network (inject.go). Clients write and read all the time. At
// the end everything is healed, and the members must agree on a state that holds every acknowledged write (conclude.go).
// A member that ends without a reason is a failure as well (watch.go).
//
// The members take a snapshot every second or two, of values that make it last for a second. Some faults keep a member
// away until it needs a snapshot, or wait for a moment at which one is taken, sent or received (snapshots.go).
//
// Clients talk to the members without a proxy, and members forward requests to the leader without one. So clients still
// ask a member that is cut off from the others, and would notice if it answered with old data.
//
// The seed fixes the schedule, not the run: real processes do not do the same thing twice.
//
// # What is never exceeded
//
// Raft survives any number of crashes and power cuts, at once or not, as long as synced data stays, and the loss of a
// minority's synced data. So every fault may happen to all members, except for the wiped disk: one member is wiped,
// once, and only if at least four others are left or the user asked for it. It cannot join the cluster again without a
// change of membership; it must report that it was wiped, and stay out of the way.
package chaos
