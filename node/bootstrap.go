package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/coxswain/raft"
)

// Bootstrap gives this member its list of initial members after Start, for a program that learns later which members begin
// the cluster. The rules are those of Config.Initial, and so is what protects against two clusters: every member of the list
// must get the same list, by Bootstrap or Config.Initial, each at any time; the voter with the lowest id probes the others, and
// the cluster exists only once the disks of all hold its first entry.
//
// Bootstrap returns nil once this member belongs to the cluster and knows its first term. Until the process ends, it may be
// called again with the same list, also at the same time and after it has succeeded. If ctx ends first, the error is a
// *NotReadyError that says what it waited for, such as that this member was told of a cluster (Heard). ctx ends the wait, not the
// bootstrap: this member keeps the list, and the cluster may begin at any time after. The list itself is not stored. If the process
// ends before this member's disk holds the first entry of the cluster, the next start has no list: call Bootstrap again, with this
// or another list. Once the disk holds that entry, the next start continues with it.
//
// Bootstrap fails with
//
//   - *raft.ConfigError, joined with others, in an error that Start would also return for Config.Initial: correct the list.
//   - *BootstrapError: another list is in force here, or this member belongs to a cluster. Nothing has changed.
//   - ErrWiped, ErrClosed, *raft.RemovedError, *raft.StaleImageError and *raft.ContradictedError, as for Propose.
func (n *Node) Bootstrap(ctx context.Context, members []raft.Member) error {
	list := raft.NewConfiguration(members)
	if err := n.checkInitial(members); err != nil {
		return err
	}
	if err := n.usable(ctx); err != nil {
		return err
	}
	_ = n.requests.tell(raft.InitialGiven{Initial: list}) // usable reports below that the node has ended
	for {
		_, changed := n.watched.load() // before the status, so that changed announces every later change
		s := n.coreStatus()
		err := n.usable(ctx)
		switch {
		case err != nil && err == ctx.Err():
			return &NotReadyError{Reason: n.Status().LeaderReason, Err: err}
		case err != nil:
			return err
		case s.Term > 0 && n.identity.began(list):
			return nil
		case s.Term > 0 || !s.Config.SameList(list):
			return &BootstrapError{Given: list, InForce: s.Config, Cluster: s.Cluster, Term: s.Term}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-n.stop:
		}
	}
}

// Heard tells this member that a cluster of its name exists, as the member from says, which belongs to it. A zero cluster means
// that its id is not known. If this member belongs to no cluster and holds no first entry of one, it bootstraps none until its
// process ends: it probes nobody, and tells every bootstrapper what it has heard, so that the bootstrapper waits. Status.Missing
// says so on both. The member still waits to be added, and a bootstrap for which all members have already answered goes on. On
// any other member, Heard has no effect. Nothing is stored: if the cluster no longer exists, restart this member.
//
// A call before Bootstrap counts from the first probe on. Heard fails with *raft.ConfigError if from is no id of a member, and
// with ErrClosed and the other errors of a node that has ended. It waits for nothing.
func (n *Node) Heard(cluster raft.ClusterID, from raft.NodeID) error {
	if err := raft.ValidateName("member id", string(from)); err != nil {
		return invalid([]error{&raft.ConfigError{Field: "From", Err: err}})
	}
	return n.requests.tell(raft.Heard{Cluster: cluster, From: from})
}

// checkInitial returns the problems of a list of initial members.
func (n *Node) checkInitial(members []raft.Member) error {
	if len(members) == 0 {
		return invalid([]error{&raft.ConfigError{Field: "Initial", Err: errors.New("is empty; it takes all initial members")}})
	}
	cfg := n.cfg
	cfg.Initial, cfg.Limits = members, *n.limits()
	return cfg.Validate()
}

// began reports whether this start of the member has seen a cluster of this list begin. A member that was added to another
// cluster has never held the first entry without a term.
func (i *identity) began(list raft.Configuration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begins && i.initial.SameList(list)
}

// BootstrapError refuses Node.Bootstrap: this member has another list of initial members, or belongs to a cluster. Nothing has
// changed. In a cluster (Term above 0), the error matches raft.ErrInitialized, and there is nothing to bootstrap: use the
// member as it is. Otherwise, give all members one list. To take another list, a member must be restarted, and its store must
// be emptied (storage.SetAside) if it holds the first entry of a cluster.
type BootstrapError struct {
	Given   raft.Configuration // the refused list
	InForce raft.Configuration // the list in force, or the configuration of Cluster
	Cluster raft.ClusterID     // whose first entry this member holds; zero: none yet
	Term    raft.Term          // above 0: this member belongs to a cluster, which has begun
}

func (e *BootstrapError) Error() string {
	switch {
	case e.Term > 0 && e.Cluster == raft.ClusterID{}:
		return fmt.Sprintf("raft: not bootstrapped with %s: this member belongs to a cluster in term %d, whose leader it has heard: use it as it is",
			e.Given.ListText(), e.Term)
	case e.Term > 0:
		return fmt.Sprintf("raft: not bootstrapped with %s: this member belongs to cluster %v in term %d, of %s: use it as it is",
			e.Given.ListText(), e.Cluster, e.Term, e.InForce.ListText())
	case e.Cluster != raft.ClusterID{}:
		return fmt.Sprintf("raft: not bootstrapped with %s: this member's disk holds the first entry of cluster %v, of %s: "+
			"give all members one list, and set the store aside (storage.SetAside) of a member that must take another",
			e.Given.ListText(), e.Cluster, e.InForce.ListText())
	}
	return fmt.Sprintf("raft: not bootstrapped with %s: the list of initial members in force here is %s: "+
		"give all members one list, and restart a member that must take another", e.Given.ListText(), e.InForce.ListText())
}

// Unwrap returns raft.ErrInitialized if the member belongs to a cluster.
func (e *BootstrapError) Unwrap() error {
	if e.Term > 0 {
		return raft.ErrInitialized
	}
	return nil
}
