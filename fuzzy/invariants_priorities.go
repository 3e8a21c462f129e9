package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of priorities.
//
//	G20  Each half of a configuration has a voter that may lead, also while a change waits. Only members that vote, or are to vote, have a priority. While a change runs, it stays as it is. A configuration with priorities has feature level 2 or more.

// checkPriorities checks the priorities of a configuration that is new to all logs.
func (k *checker) checkPriorities(n *node, l *loggedConfig) {
	var before *raft.Configuration
	if l.before != nil {
		before = &l.before.Configuration
	}
	if why := unpreferred(before, &l.Configuration); why != "" {
		k.broken("G20", "%s appends %v: %s", n, l, why)
	}
}

// unpreferred returns what is wrong with the priorities of a configuration that follows another one; "" if nothing is.
func unpreferred(before, after *raft.Configuration) string {
	for i := range after.Members {
		m := &after.Members[i]
		outgoing := slices.Contains(after.Outgoing, m.Peer())
		switch {
		case m.Priority == 0:
		case m.Kind == raft.Learner && m.Next != raft.NextVoter && !outgoing:
			return fmt.Sprintf("%s is a learner with priority %v", m.ID, m.Priority)
		case after.Level < 2:
			return fmt.Sprintf("%s has priority %v at feature level %d", m.ID, m.Priority, after.Level)
		}
		if before == nil || !waits(before) && len(before.Outgoing) == 0 {
			continue
		}
		was := member(before, m.Peer())
		if was != nil && was.Priority != m.Priority && (m.Kind != raft.Learner || outgoing) {
			return fmt.Sprintf("the priority of %s changes from %v to %v while a change is running", m.ID, was.Priority, m.Priority)
		}
	}
	halves := [][]raft.Peer{votersOf(after), after.Outgoing, nil}
	for i := range after.Members {
		if m := &after.Members[i]; m.Next == raft.NextVoter || m.Kind == raft.Voter && m.Next == raft.NextSame {
			halves[2] = append(halves[2], m.Peer())
		}
	}
	for _, half := range halves {
		leads := func(p raft.Peer) bool { m := member(after, p); return m != nil && m.Priority != raft.PriorityNever }
		if len(half) > 0 && !slices.ContainsFunc(half, leads) {
			return fmt.Sprintf("of the voters %v nobody may lead", idsOfPeers(half))
		}
	}
	return ""
}
