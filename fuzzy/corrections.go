package fuzzy

import (
	"errors"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// This file has corrections: a member whose address or Meta differs from its entry has the leader change the entry.

// correcting is what a process has found out about its entry, for N105.
type correcting struct {
	said  []saying
	entry raft.Member  // when it last asked for a correction
	first *raft.Member // at its first refused request
	right bool         // the entry was right once
}

// saying is an address that another process has given for itself.
type saying struct {
	by      raft.Peer
	address string
}

func (c *correcting) hear(by raft.Peer, address string) {
	if s := (saying{by, address}); !slices.Contains(c.said, s) {
		c.said = append(c.said, s)
	}
}

// outcome notes the outcome of a request.
func (c *correcting) outcome(err error) {
	var later *raft.ConfigChangedError
	var pending *raft.ChangePendingError
	if c.first == nil && err != nil && !errors.As(err, &later) && !errors.As(err, &pending) {
		first := c.entry
		c.first = &first
	}
}

// correct sends the leader the correction that the rules ask for.
func (n *node) correct(a *joining.Action) {
	s, st := &n.seeking, n.state()
	entry, named := st.Config.Peer(n.peer())
	if a.Change == nil {
		calm := named && st.Index > 0 && st.Committed && !st.Config.Joint() && !st.Config.Changing() && st.Leader != ""
		s.entry.right = s.entry.right || calm && entry.Address == n.place && (s.meta == "" || entry.Meta == s.meta)
		return
	}
	n.c.check.checkCorrection(n, a.Change)
	n.c.stats.Corrections++
	s.entry.entry = entry
	ch := &changing{Change: *a.Change, ifIndex: a.Index}
	n.c.faulted("%s asks to correct its entry: %s", n.name(), ch.describe())
	to := n.c.at(raft.Peer{ID: n.status.Leader, Incarnation: n.status.LeaderIncarnation})
	n.inquire(inquiry{question: joining.Question{Timeout: changeTimeout}, change: ch, to: to})
}

// takesCorrection carries out a correction, if this member leads.
func (n *node) takesCorrection(i int, one *inquiry) {
	switch {
	case n.status.Role != raft.Leader:
		n.answersTo(i, errNotLeader)
	case n.noRemoteChanges && one.of != n:
		n.answersTo(i, errNoChanges)
	default:
		n.asksFor(&changing{Change: one.change.Change, ifIndex: one.change.ifIndex}, n.status.Term, func(err error) { n.answersTo(i, err) })
	}
}
