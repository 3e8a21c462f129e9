package fuzzy

import (
	"fmt"

	"github.com/coxswain/raft"
)

// The invariants of the versions of the application.
//
//	N100 A program starts unless the newest configuration in its log needs a later version. One that runs says that it is outdated once that configuration needs a later version, and is given nothing to apply or to restore from then on.
//	N101 The lowest version that may run never falls. A leader raises it only to a version that each member has reached by its own answer to a heartbeat of this term, and only while it hears all of them. No configuration names a member with a lower version.

// checkVersions checks the versions in a configuration that is new to all logs.
func (k *checker) checkVersions(n *node, l *loggedConfig) {
	least := uint64(0)
	if l.before != nil {
		least = l.before.AppVersionMin
	}
	if why := misversioned(least, &l.Configuration); why != "" {
		k.broken("N101", "%s appends %v: %s", n, l, why)
	}
}

// misversioned returns what is wrong with the versions of a configuration that follows one with the minimum least; "" if
// nothing is.
func misversioned(least uint64, c *raft.Configuration) string {
	switch {
	case c.AppVersionMin < least:
		return fmt.Sprintf("the minimum falls from %d to %d", least, c.AppVersionMin)
	case c.AppVersionMin > 0 && c.Level < 3:
		return fmt.Sprintf("the minimum is %d at feature level %d", c.AppVersionMin, c.Level)
	}
	for i := range c.Members {
		if m := &c.Members[i]; m.AppVersion < c.AppVersionMin || c.AppVersionMin == 0 && m.AppVersion > 0 {
			return fmt.Sprintf("%s has version %d, and the minimum is %d", m.ID, m.AppVersion, c.AppVersionMin)
		}
	}
	return ""
}

// checkOutdated checks what a step does about the minimum. The messages of the step have been recorded.
func (k *checker) checkOutdated(n *node, out *raft.Output) {
	needs := n.config().AppVersionMin
	if says := n.core.Outdated() != nil; says != (needs > n.version) {
		k.broken("N100", "%s says that it is outdated: %v; its version is %d, and its configuration needs %d", n, says, n.version, needs)
	}
	if needs > n.version && (out.Apply.Index > 0 || out.Restore != nil) {
		k.broken("N100", "%s applies up to %v, with a program of version %d, and its configuration needs %d", n, out.Apply, n.version, needs)
	}
	l := configured(n.log)
	if l == n.configBefore || l == nil || l.before == nil || l.term != n.status.Term || n.status.Role != raft.Leader || needs == l.before.AppVersionMin {
		return
	}
	k.c.stats.Raised++
	for _, m := range l.Members {
		told, heard := n.version, true
		if m.Peer() != n.peer() {
			p := n.seen.of(m.Peer())
			told, heard = p.version, n.seen.now-p.heard < max(n.timeout(), 2*p.roundTrip)
		}
		if told < needs || !heard {
			k.broken("N101", "%s raises the minimum to %d, but %s has told it version %d, and is heard: %v", n, needs, m.ID, told, heard)
		}
	}
}
