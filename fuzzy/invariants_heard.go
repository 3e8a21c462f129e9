package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of what members hear of clusters, and of what that must prevent.
//
//	N102 Once a member without a cluster was told of one, and until its process ends or it holds an entry 1, it sends no probe, writes no entry 1 of its own, and answers each probe with the cluster of which it was told. Nobody else gives that answer.
//	G22  For each list of initial members there is one cluster, unless the disks of all members of the earlier one were emptied.

// checkHeard checks N102. What the member is told in a step counts from the next one on.
func (k *checker) checkHeard(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	was, now := n.seen.hearing, n.seen.hearing
	for _, e := range events {
		if told, ok := e.(raft.Heard); ok && !n.doomed {
			now = told
		}
	}
	if !n.status.Uninitialized {
		now = raft.Heard{}
	}
	n.seen.hearing = now
	k.c.holds(n.status.Heard == now, "N102", "%s was told of %v, and says %v", n, now, n.status.Heard)
	for i := range out.Send {
		switch b := out.Send[i].Body.(type) {
		case raft.BootstrapProbe:
			k.c.holds(was.From == "" || !before.Uninitialized, "N102", "%s probes the members, although it was told of %v", n, was)
		case raft.BootstrapProbeReply:
			says := raft.Heard{Cluster: b.HeardOf, From: b.HeardFrom}
			k.c.holds(says == was || n.heardOf(says, events) || !n.status.Uninitialized && says.From == "", "N102",
				"%s was told of %v, and answers a probe with %v", n, was, says)
			k.c.holds(says.From == "" || b.Result == raft.ProbeInitialized, "N102", "%s was told of %v, and answers a probe with %q", n, was, b.Result)
		}
	}
	own := before.Uninitialized && out.Write.Log != nil && n.status.Bootstrapper == n.peer()
	k.c.holds(!own || was.From == "", "N102", "%s bootstraps a cluster, although it was told of %v", n, was)
}

// heardOf reports whether a member was told this in the running step.
func (n *node) heardOf(told raft.Heard, events []raft.Event) bool {
	for _, e := range events {
		if e == raft.Event(told) {
			return true
		}
	}
	return false
}

// checkOneCluster checks G22 for a member that has a durable term. A cluster begins with the first of them.
func (k *checker) checkOneCluster(n *node) {
	b := &raft.Bootstrap{}
	if len(n.log) > 0 {
		*b, _ = raft.DecodeBootstrap(n.log[0].entry.Data) // cannot fail: a core refuses an entry 1 that does not decode
	}
	begun := func(other *raft.Bootstrap) bool { return other.Cluster == b.Cluster }
	if b.Cluster == (raft.ClusterID{}) || slices.ContainsFunc(k.founded, begun) {
		return
	}
	for _, other := range k.founded {
		if !other.Configuration.SameList(b.Configuration) {
			continue
		}
		for _, m := range other.Configuration.Members {
			k.c.holds(k.c.at(m.Peer()).disk.incarnation != m.Incarnation, "G22",
				"%s begins cluster %v, although the disk of %s still belongs to cluster %v of the same list", n, b.Cluster, k.c.title(m.Peer()), other.Cluster)
		}
	}
	k.founded = append(k.founded, b)
}
