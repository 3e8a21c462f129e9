package joining

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// Store is what is known of a store that its member cannot use.
type Store struct {
	ID          raft.NodeID
	ClusterName string
	Cluster     raft.ClusterID // which the store itself says; zero: it cannot say so
}

// MayDiscard returns nil if a store may be set aside, so that its member joins again with an empty one. why is the error with which
// the store was refused. r is the answer to a question with Who.Confirm that was asked after why was known. Otherwise the error is
// a *KeptError.
//
// Only a *raft.StaleImageError or a *raft.CorruptError lets a store be set aside. A store that contradicts others may be the last
// witness of acknowledged writes. Without a leader that a quorum confirms, a failure that has damaged the stores of a majority
// would make all of them set their stores aside.
func MayDiscard(why error, s Store, r raft.WhoReply) error {
	keep := func(format string, args ...any) error {
		return &KeptError{Why: why, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case !discardable(why):
		return &KeptError{Why: why, Reason: "this error needs the remedy that it names", Final: true}
	case s.Cluster == (raft.ClusterID{}):
		return &KeptError{Why: why, Reason: "it cannot tell which cluster it belongs to: look at it, and set it aside yourself with storage.SetAside; then the member joins with an empty one", Final: true}
	case r.ClusterName != s.ClusterName:
		return keep("%v", &OtherClusterError{ID: r.From.ID, Cluster: r.ClusterName, Want: s.ClusterName})
	case r.Cluster != s.Cluster:
		return keep("%s is of cluster %v, and the store of cluster %v: correct the seeds", r.From.ID, r.Cluster, s.Cluster)
	case r.Leader != r.From.ID || !r.Confirmed:
		return keep("%s answers, and no majority has confirmed that it leads: wait for a leader", r.From.ID)
	case !r.Committed:
		return keep("configuration %d of %s is not committed yet: wait", r.Index, r.From.ID)
	case !slices.ContainsFunc(r.Members, func(m raft.Member) bool { return m.ID == s.ID }):
		return keep("configuration %d does not name %s: if it was removed and is to join again, start it with member.Config.Rejoin, or set the store aside yourself (storage.SetAside)", r.Index, s.ID)
	}
	return nil
}

// Refused says what a member does with a store that was refused at its start. why is the error. setAside allows the member to
// set the store aside as MayDiscard says, and rejoin names the entry that removed this member, if the member is to join again.
// Without an error, the store is set aside: at once, or, if ask is true, once a leader has answered so that MayDiscard allows it.
func Refused(why error, setAside bool, rejoin raft.Index) (ask bool, err error) {
	var removed *raft.RemovedError
	switch is := errors.As(why, &removed); {
	case is && rejoin == removed.Index:
		return false, nil
	case is && rejoin != 0:
		return false, fmt.Errorf("%w: Rejoin names the removal by entry %d, which is another one", why, rejoin)
	case !setAside:
		return false, why
	}
	return true, nil
}

// discardable reports whether the error is one of the two for which a store may be set aside, and no other one.
func discardable(err error) bool {
	var (
		stale        *raft.StaleImageError
		corrupt      *raft.CorruptError
		contradicted *raft.ContradictedError
		later        *raft.LaterVersionError
		earlier      *raft.EarlierVersionError
	)
	if errors.As(err, &contradicted) || errors.As(err, &later) || errors.As(err, &earlier) || errors.Is(err, raft.ErrLocked) {
		return false
	}
	return errors.As(err, &stale) || errors.As(err, &corrupt)
}

// KeptError says why a store that its member cannot use is not set aside. It matches Why.
type KeptError struct {
	Why    error  // with which the store was refused
	Reason string // why it is kept, and what to do
	Final  bool   // no answer of a leader changes that
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%v; the store is kept: %s", e.Why, e.Reason)
}

func (e *KeptError) Unwrap() error { return e.Why }
