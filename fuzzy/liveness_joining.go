package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The second phase in runs with petitions. The healed processes ask the healed cluster for their places.
//
//	L23  Each healed process that looks for its cluster becomes a member with the role that it wants, or it says what it waits for: another store has its id or its address, or the leader takes no changes.

// joinTime bounds the joins after everything works again: silence, pauses after failures, and petitions one after another.
const joinTime = 90 * time.Second

// afterServing begins the next stage, after those that the run does not have.
func (l *liveness) afterServing() {
	switch l.next(transferring); {
	case l.c.profile.Members.Pace > 0:
		l.stage = joins
		l.beginJoins()
	case l.c.profile.Members.on():
		l.stage = settling
	}
}

// beginJoins lets the healed processes look for their cluster again.
func (l *liveness) beginJoins() {
	for _, n := range l.members() {
		s := &n.seeking
		if s.rules == nil {
			continue
		}
		s.seeds = s.seeds[:0]
		for _, other := range l.c.nodes {
			s.seeds = append(s.seeds, other.place)
		}
		s.turn++
		n.later(1, event{kind: evSeek, a: s.turn})
	}
}

// joined reports whether each of them has its place, or waits for good reason.
func (l *liveness) joined() bool {
	return l.elected() && l.settled() && len(l.leader.desk.open) == 0 && l.displaced() == nil
}

// displaced returns a healed process that has no place, and no good reason; nil: there is none.
func (l *liveness) displaced() *node {
	for _, n := range l.members() {
		if n.seeking.rules != nil && !l.placed(n) {
			return n
		}
	}
	return nil
}

// placed reports whether a process has its place, or says why not.
func (l *liveness) placed(n *node) bool {
	lead := l.leader
	config := &lead.status.Config
	if m := member(config, n.peer()); m != nil && (m.Kind == raft.Voter || n.seeking.learner || !n.seeking.petitioned) {
		return true
	}
	others := slices.ContainsFunc(config.Members, func(m raft.Member) bool {
		other := l.c.at(m.Peer())
		alive := other != nil && other.peer() == m.Peer() && (l.core>>other.index&1 == 1 || !l.exiled)
		return m.Peer() != n.peer() && (m.Address == n.place || m.ID == n.id && (alive || m.ID == lead.id))
	})
	earlier := slices.ContainsFunc(config.Members, func(m raft.Member) bool { // of a release without changes, and not healed
		other := l.c.at(m.Peer())
		return other != nil && l.core>>other.index&1 == 0 && other.protocol() < raft.ProtocolPriorities
	})
	refused := earlier || lead.noRemoteChanges || n.removedIn == n.life+1 || n.version < config.AppVersionMin || !n.meets(lead) ||
		lead.handshake(lead.disk.memory).MayJoin(n.hello(lead.peer())) != nil
	return (others || refused) && len(n.seeking.rules.Missing(n.state())) > 0
}

// mustHold checks a liveness condition.
func (c *cluster) mustHold(holds bool, rule, format string, args ...any) {
	if !holds {
		c.fail(Liveness, rule, format, args...)
	}
}
