package fuzzy

import (
	"fmt"

	"github.com/coxswain/raft"
)

// The invariants of recoveries. A cluster of its own begins with each of them, and all other invariants hold within each cluster. What
// the former cluster has committed beyond the survivor's log is the loss that G26 bounds; the new cluster knows nothing of it.
//
//	G26  Of the disks that an operator compares, the one to recover holds every entry that one of them knows to be committed, and everything committed if they are a quorum. None of them knows an entry to be committed that is not.
//	G27  A recovered log is the survivor's, with one entry behind it that makes the survivor the only voter. Its term is 2^32 above the highest on the survivor's disk, and above every term that a member of the former cluster has or will have. The base and the snapshot are of the new cluster.
//	G28  A member that has a term stays in its cluster. Each member of a recovered cluster belongs to it from its first entry on, neither accepts the members of another one nor is accepted by them, and cannot be added there with its disk.

// checkSurvivor checks G26 for the disk that is taken, before it changes.
func (k *checker) checkSurvivor(taken *node, compared []*node) {
	var known raft.Index
	for _, n := range compared {
		i := max(n.disk.commit, n.disk.base.ID.Index)
		i = min(i, raft.Index(len(n.disk.log)))
		hash, _ := at(n.disk.log, i)
		k.c.holds(i == 0 || i <= k.committed() && k.canonical[i-1].hash == hash, "G26", "the disk of %s says that %d is committed, which is not", n, i)
		known = max(known, i)
	}
	how := "is known to be committed"
	if all := k.committed(); known < all && k.c.decide(compared) {
		known, how = all, "a quorum has committed"
	}
	if known == 0 || k.c.failure != nil {
		return
	}
	hash, there := at(taken.disk.log, known)
	k.c.holds(there && hash == k.canonical[known-1].hash, "G26", "%s is recovered without %v, which %s", taken, k.canonical[known-1].id, how)
}

// decide reports whether some disks are a quorum of each configuration that may still decide.
func (c *cluster) decide(disks []*node) bool {
	for _, l := range c.standing() {
		t := quorum(&l.Configuration, func(p raft.Peer) bool {
			for _, n := range disks {
				if n.peer() == p && n.disk.epoch == 0 {
					return true
				}
			}
			return false
		})
		if !t.reached() {
			return false
		}
	}
	return true
}

// checkFounded checks G27 for the disk of a survivor that was just recovered. was is the disk as it was before.
func (k *checker) checkFounded(n *node, was *disk, e *raft.Entry) {
	config, d, former := k.canonical[e.Index-1].slot.config, &n.disk, was.log
	m := member(&config.Configuration, n.peer())
	k.c.holds(int(e.Index) == len(former)+1 && len(k.canonical) == int(e.Index), "G27", "the recovery of %s, whose log had %d entries, is entry %v", n, len(former), e.ID())
	for i := range former {
		k.c.holds(k.canonical[i].hash == former[i].hash, "G27", "the recovery of %s changes entry %d", n, i+1)
	}
	k.c.holds(config.index == e.Index && len(config.Members) == 1 && m != nil && m.Kind == raft.Voter && m.Next == raft.NextSame && len(config.Outgoing) == 0,
		"G27", "%s is recovered, but not as the only voter: %v", n, config)
	k.c.holds(d.hard.Term == e.Term && d.hard.Vote == (raft.Peer{}) && d.cluster() == k.c.id, "G27", "%s is recovered at %v of cluster %v with %+v", n, e.ID(), k.c.id, d.hard)
	k.c.holds(e.Term == max(was.hard.Term, was.lastID().Term)+1<<32, "G27", "%s, in term %d, is recovered at %v", n, was.hard.Term, e.ID())
	k.c.holds(d.base.ID == was.base.ID && (d.base.ID.Index == 0 || d.base.Cluster == k.c.id), "G27", "%s is recovered with the base %+v", n, d.base)
	k.c.holds(d.snapshot.ID == was.snapshot.ID && (d.snapshot.ID.Index == 0 || d.snapshot.Cluster == k.c.id), "G27", "%s is recovered with the snapshot %+v", n, d.snapshot)
	for _, other := range k.c.former.nodes {
		k.checkNewTerm(e.Term, other.disk.hard.Term, fmt.Sprint(other))
		k.checkNewTerm(e.Term, other.status.Term, fmt.Sprint(other))
	}
	k.c.holds(k.c.id != k.c.former.id && n.disk.incarnation != ghostOf(d), "G27", "%s keeps its incarnation or its cluster", n)
}

func (k *checker) checkNewTerm(begins, is raft.Term, who string) {
	k.c.holds(is < begins, "G27", "cluster %v begins in term %d, but %s of the former one reaches term %d", k.c.id, begins, who, is)
}

// ghostOf returns the incarnation that a recovered disk had before.
func ghostOf(d *disk) raft.Incarnation { return d.ghosts[len(d.ghosts)-1].incarnation }

// checkFormerTerms checks a term in which a member was elected against the clusters that were recovered from its own.
func (k *checker) checkFormerTerms(term raft.Term) {
	if k.c.kin == nil {
		return
	}
	for _, heir := range k.c.kin.clusters {
		if heir.former == k.c {
			heir.check.checkNewTerm(heir.begins, term, "a leader")
		}
	}
}

// checkBelongs checks the cluster of a member that has a term or has just started.
func (k *checker) checkBelongs(n *node, before raft.ClusterID) {
	if is := n.status.Cluster; is != before && (before != raft.ClusterID{}) {
		k.broken("G28", "%s belonged to cluster %v, and now to %v", n, before, is)
	} else if k.c.former != nil && is != k.c.id && (is != raft.ClusterID{}) {
		k.broken("G28", "%s belongs to cluster %v in the recovered cluster %v", n, is, k.c.id)
	}
}

// checkApart checks two members of different clusters, each of which dials the other one.
func (k *checker) checkApart(n, other *node) {
	for _, pair := range [][2]*node{{n, other}, {other, n}} {
		of, by := pair[0], pair[1]
		view, hello := by.handshake(by.disk.memory), of.hello(by.peer())
		k.c.holds(view.Judge(hello).Rejection != nil, "G28", "%s of cluster %v accepts %s of cluster %v", by, view.Cluster, of, hello.Cluster)
		k.c.holds(view.MayJoin(hello) != nil, "G28", "%s of cluster %v may be added to cluster %v with its disk", of, hello.Cluster, view.Cluster)
	}
}
