package fuzzy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// loggedConfig is a configuration in a log, decoded by the checker. Each slot of a log points to the configuration that is in
// force from the slot's entry on. So a log that is truncated, replaced or copied always has the right configurations. Logs
// that are equal up to the entry of a loggedConfig share that loggedConfig.
type loggedConfig struct {
	raft.Configuration
	index  raft.Index
	term   raft.Term     // of its entry
	before *loggedConfig // the configuration before it; nil: it is that of entry 1
}

// logged returns the configuration in force after an entry of a log. hash is the hash of the log up to the entry. before is
// the configuration in force before the entry.
func (k *checker) logged(n *node, e *raft.Entry, hash uint64, before *loggedConfig) *loggedConfig {
	if e.Kind != raft.EntryBootstrap && e.Kind != raft.EntryConfiguration && e.Kind != raft.EntryRecovery {
		return before
	}
	if known := k.configs[hash]; known != nil {
		return known
	}
	l := &loggedConfig{index: e.Index, term: e.Term, before: before}
	var err error
	switch e.Kind {
	case raft.EntryConfiguration:
		l.Configuration, err = raft.DecodeConfiguration(e.Data)
	case raft.EntryRecovery:
		var r raft.Recovery
		r, err = raft.DecodeRecovery(e.Data)
		l.Configuration = r.Configuration
	default:
		var f raft.Bootstrap
		f, err = raft.DecodeBootstrap(e.Data)
		l.Configuration = f.Configuration
	}
	if err != nil {
		k.broken("N9", "%s holds a configuration that does not decode: %v", n, err)
		return before
	}
	k.configs[hash] = l
	k.checkPriorities(n, l)
	k.checkVersions(n, l)
	if before != nil && e.Kind != raft.EntryRecovery { // whose voters did not agree: checkFounded checks it
		k.checkFollows(n, l)
	}
	return l
}

// configured returns the newest configuration in a log; nil if the log is empty.
func configured(log []slot) *loggedConfig {
	if len(log) == 0 {
		return nil
	}
	return log[len(log)-1].config
}

// mayName reports whether the member's configuration names a peer, or an earlier configuration to which the member may be
// rolled back names it. The member knows that its log is committed up to the commit index.
func (n *node) mayName(p raft.Peer, commit raft.Index) bool {
	for l := configured(n.log); l != nil; l = l.before {
		if includes(&l.Configuration, p) || l.index <= commit {
			return includes(&l.Configuration, p)
		}
	}
	return includes(n.config(), p)
}

// config returns the configuration that the member must use. This is the newest configuration in the member's log. Without a
// log, it is the list that the member was started with.
func (n *node) config() *raft.Configuration {
	if l := configured(n.log); l != nil {
		return &l.Configuration
	}
	return &n.given
}

// agreed counts the voters for which something holds, in the configuration in force. If the running step has changed the
// configuration, a majority of the previous configuration suffices, because the step may have acted under it.
func (n *node) agreed(holds func(p raft.Peer) bool) tally {
	now := quorum(n.config(), holds)
	if was := n.configBefore; was != nil && was != configured(n.log) && !now.reached() {
		if before := quorum(&was.Configuration, holds); before.reached() {
			return before
		}
	}
	return now
}

// standing returns every configuration that may still decide. These are the newest committed configuration, and each later
// configuration in a log that may win an election. standing returns no configuration before the cluster is bootstrapped.
func (c *cluster) standing() []*loggedConfig {
	newest := c.newestCommitted()
	if newest == nil {
		return nil
	}
	list := []*loggedConfig{newest}
	for _, n := range c.nodes {
		logs := [2][]slot{n.disk.log}
		if n.core != nil {
			logs[1] = n.log
		}
		for _, log := range logs {
			for l := configured(log); l != nil && l.index > newest.index && !n.disk.damaged; l = l.before {
				if !slices.Contains(list, l) {
					list = append(list, l)
				}
			}
		}
	}
	return list
}

// newestCommitted returns the newest configuration that is known to be committed. Before any entry is committed, it returns
// the configuration of a member with a term, because a term proves that all members hold this configuration.
func (c *cluster) newestCommitted() *loggedConfig {
	if l := len(c.check.canonical); l > 0 {
		return c.check.canonical[l-1].slot.config
	}
	for _, n := range c.nodes {
		if len(n.disk.log) > 0 && n.disk.hard.Term > 0 {
			return n.disk.log[0].config
		}
	}
	return nil
}

// spares reports whether the cluster can work without one node. Every configuration that may still decide must have a
// majority without it, in both halves.
func (c *cluster) spares(n *node) bool {
	for _, l := range c.standing() {
		kept := quorum(&l.Configuration, func(p raft.Peer) bool {
			other := c.at(p)
			return other != n && other.peer() == p && !other.disk.damaged && !other.disk.files.spoiled && other.disk.epoch == 0
		})
		if !kept.reached() {
			return false
		}
	}
	return true
}

// String lists the members and their roles. The members of the outgoing half follow after a slash.
func (l *loggedConfig) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration of entry %d:", l.index)
	for _, m := range l.Members {
		fmt.Fprintf(&b, " %s/%04x", m.ID, uint64(m.Incarnation)&0xffff)
		if m.Kind != raft.Voter {
			fmt.Fprintf(&b, ":%v", m.Kind)
		}
		if m.Next != raft.NextSame {
			fmt.Fprintf(&b, ">%v", m.Next)
		}
		if m.Priority != 0 {
			fmt.Fprintf(&b, "=%v", m.Priority)
		}
	}
	for i, p := range l.Outgoing {
		if i == 0 {
			b.WriteString(" and")
		}
		fmt.Fprintf(&b, " %s/%04x", p.ID, uint64(p.Incarnation)&0xffff)
	}
	return b.String()
}
