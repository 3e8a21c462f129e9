// Package chaos runs a cluster of real raftkv processes, breaks everything around them, and checks what
// their clients were told.
//
// Between every two members stands a proxy for each direction (proxy.go), and under every member a disk
// that forgets what was not synced (disks.go). A seed draws what is done to them and when (schedule.go);
// one fault of the processes or their disks, and one of the network, at a time (inject.go). Clients write
// and read all the while. At the end everything is healed, and the members must agree on a state that
// holds every acknowledged write (conclude.go). A member that ends without a reason is a failure as well
// (watch.go).
//
// Clients talk to the members without a proxy, and a member passes a request on to the leader without one:
// a member that is cut off from the others is still asked, which is when it could tell what is old.
//
// The seed fixes the schedule, not the run: real processes do not do the same thing twice.
//
// # What is never exceeded
//
// Raft survives any number of crashes and power cuts, at once or not, as long as what was synced is there;
// and the loss of what was synced by a minority. So everything may happen to all members, but for the
// wiped disk: one member is wiped, once, and only where four others or more are left, or where it was asked
// for. It cannot be taken into the cluster again without a change of membership; it must say that it was
// wiped, and stay out of the way.
package chaos
