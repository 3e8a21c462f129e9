package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of configurations.
//
//	N7   Only a member that votes, or is to become a voter, campaigns or leads. The newest configuration of its log says so or, while the newest is not known to be committed, an earlier one that may still be needed. An uninitialized member has no term, unless it joins an existing cluster. (dissertation §4.2.2)
//	N9   The configuration in use is the newest one in the log, committed or not. It is reported whenever it changes or becomes committed. (dissertation §4.1)
//	G7   Each configuration follows lawfully from the one before it, so that any quorum of one meets any quorum of the next. (§6)
//	G19  A leader appends a configuration only once it has committed the one before it and an entry of its own term. (§6)

// checkConfiguration checks the configuration that a member uses and reports after a step. before is nil for the first output
// of a process.
func (k *checker) checkConfiguration(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w, l := &n.status, &n.seen, configured(n.log)
	index, committed := raft.Index(0), raft.Index(0)
	if l != nil {
		index = l.index
	}
	if s.Commit > 0 && int(s.Commit) <= len(n.log) {
		committed = n.log[s.Commit-1].config.index
	}
	if s.ConfigIndex != index || s.ConfigCommitted != committed || !w.adopts(&s.Config, n.config()) {
		k.broken("N9", "%s uses the configuration of entry %d, the committed one is that of %d; its log says %d and %d, or names others",
			n, s.ConfigIndex, s.ConfigCommitted, index, committed)
	}
	if out.Config != nil && !out.Config.Equal(*n.config()) {
		k.broken("N9", "%s reports a configuration other than that of entry %d", n, index)
	}
	if before == nil {
		return
	}
	given := index == 0 && len(before.Config.Members) != len(s.Config.Members)
	changed := l != n.configBefore || before.ConfigCommitted != s.ConfigCommitted || given
	if changed && out.Config == nil {
		k.broken("N9", "%s does not report the configuration of entry %d, or does not report that the one of %d is committed", n, index, committed)
	}
	if !changed && out.Config != nil && out.Write.Log == nil {
		k.broken("N9", "%s reports the configuration of entry %d, but nothing about it has changed", n, index)
	}
}

// adopts reports whether a member's configuration equals the required one. It compares each list only once, because the core
// shares the lists of its configurations and never changes them.
func (w *witness) adopts(is, must *raft.Configuration) bool {
	if len(is.Members) == 0 {
		return len(must.Members) == 0
	}
	if list := &is.Members[0]; w.list != list || w.mustUse != must {
		w.list, w.mustUse = list, must
		return is.Equal(*must)
	}
	return true
}

// checkRole checks that a member that campaigns or leads may do so. A member that has lost its vote may be needed until it
// knows that the configuration without its vote is committed. A learner may be needed until the change that would make it a
// voter is given up.
func (k *checker) checkRole(n *node) {
	if n.status.Role == raft.Follower {
		return
	}
	for l := configured(n.log); l != nil; l = l.before {
		if needs(&l.Configuration, n.peer()) {
			return
		}
		if l.index <= n.status.Commit && n.status.Role != raft.Leader { // N66 limits how much longer a leader leads
			break
		}
	}
	k.broken("N7", "%s is a %v, but not a voter of its configuration", n, n.status.Role)
}

// checkConfigAppended checks a configuration that a member has just appended.
func (k *checker) checkConfigAppended(n *node, l *loggedConfig) {
	s := &n.status
	if s.Role != raft.Leader || l.term != s.Term || l.before == nil {
		return // another leader has created it
	}
	if s.Commit < l.before.index || s.Commit <= n.earlier(s.Term) {
		k.broken("G19", "%s appends the configuration of entry %d in term %d, but has committed only %d; the configuration before it is that of %d, and the first entry of the term %d",
			n, l.index, s.Term, s.Commit, l.before.index, n.earlier(s.Term)+1)
	}
}

// checkFollows checks a configuration that is new to all logs.
func (k *checker) checkFollows(n *node, l *loggedConfig) {
	if why := unlawful(&l.before.Configuration, &l.Configuration, l.index); why != "" {
		k.broken("G7", "%s appends the configuration of entry %d after that of %d: %s", n, l.index, l.before.index, why)
	}
}

// unlawful returns the reason why a configuration may not follow another one as the entry at an index; "" if it may. Of two
// consecutive configurations, one is joint or both have the same voters. A joint configuration has the voters of both
// configurations.
func unlawful(before, after *raft.Configuration, at raft.Index) string {
	joint := len(after.Outgoing) > 0
	switch {
	case joint && len(before.Outgoing) > 0:
		return "it is joint, and so is the one before it"
	case joint && !slices.Equal(after.Outgoing, votersOf(before)):
		return "its outgoing voters are not those before it"
	case !joint && !slices.Equal(votersOf(after), votersOf(before)):
		return "the voters change without a joint configuration"
	case after.Level < before.Level || after.Level == 0:
		return "its feature level falls, or is that of a bootstrap"
	}
	effects, keeps := true, true // effects: the waiting change takes effect; keeps: it is given up
	var gone []raft.Peer
	for i := range before.Members {
		was := &before.Members[i]
		is := member(after, was.Peer())
		if is == nil {
			gone = append(gone, was.Peer())
		}
		effects, keeps = effects && becomes(was, is), keeps && is != nil && is.Kind == was.Kind && is.Next == raft.NextSame
		switch {
		case is != nil && is.Kind == raft.Voter && was.Kind != raft.Voter && was.Next != raft.NextVoter:
			return "a member votes that did not have to catch up"
		case is == nil && was.Kind == raft.Voter:
			return "a voter is removed at once"
		case (waits(before) || len(before.Outgoing) > 0) && is != nil && (is.Address != was.Address || is.Meta != was.Meta):
			return "an address changes while a change is running"
		}
	}
	if why := newcomers(before, after); why != "" {
		return why
	}
	switch {
	case waits(before) && !effects && !keeps:
		return "a change that waits takes effect in part"
	case len(before.Outgoing) > 0 && !effects:
		return "leaving a joint configuration changes more than that"
	}
	return removals(before, after, gone, at)
}

// becomes reports whether a member has the role that it must get from the waiting change, or from the end of a joint
// configuration.
func becomes(was, is *raft.Member) bool {
	kind, gone := was.Kind, was.Kind == raft.Leaving
	switch was.Next {
	case raft.NextVoter:
		kind = raft.Voter
	case raft.NextLearner:
		kind = raft.Learner
	case raft.NextRemoved:
		kind, gone = raft.Leaving, was.Kind != raft.Voter
	}
	if gone {
		return is == nil
	}
	return is != nil && is.Kind == kind && is.Next == raft.NextSame
}

// newcomers checks the members that a configuration adds. They must be learners, no other change may be in progress, and they
// must not have been removed before.
func newcomers(before, after *raft.Configuration) string {
	for i := range after.Members {
		m := &after.Members[i]
		if includes(before, m.Peer()) {
			continue
		}
		removed := slices.ContainsFunc(before.Removed, func(r raft.Removal) bool { return r.Peer == m.Peer() })
		switch {
		case m.Kind != raft.Learner:
			return "a member joins, but not as a learner"
		case removed:
			return "a removed member returns"
		case waits(before) || len(before.Outgoing) > 0:
			return "a member joins while a change is running"
		}
	}
	return ""
}

// removals checks the removals that a configuration remembers. These are the removals of the previous configuration, and the
// members that are gone since then.
func removals(before, after *raft.Configuration, gone []raft.Peer, at raft.Index) string {
	all := slices.Clone(before.Removed)
	for _, p := range gone {
		all = append(all, raft.Removal{Peer: p, Index: at})
	}
	if forgotten := len(all) - removalsMax; forgotten > 0 {
		all = all[forgotten:]
	}
	if !slices.Equal(all, after.Removed) {
		return "it does not remember which members were removed, and by which entry"
	}
	return ""
}

// removalsMax is the number of removals that a configuration remembers.
const removalsMax = 64

// waits reports whether a change waits for members to catch up.
func waits(c *raft.Configuration) bool {
	return slices.ContainsFunc(c.Members, func(m raft.Member) bool { return m.Next != raft.NextSame })
}

// votersOf returns the voters of the incoming half, sorted as the members are.
func votersOf(c *raft.Configuration) (voters []raft.Peer) {
	for i := range c.Members {
		if m := &c.Members[i]; m.Kind == raft.Voter {
			voters = append(voters, m.Peer())
		}
	}
	return voters
}
