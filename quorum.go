package raft

import (
	"errors"
	"fmt"
	"slices"
)

// This file holds majorities, single and joint. It also decides which configuration follows a joint one.

// majority returns how many of n voters are a quorum. Any two quorums share a member (§5.2). Code that needs a quorum calls
// hasQuorum (elections) or quorumValue (leaders). No other code counts voters.
func majority(n int) int { return n/2 + 1 }

// hasQuorum reports whether the peers are a quorum of the configuration in force.
func (c *Core) hasQuorum(peers []Peer) bool {
	return c.config().hasQuorum(func(p Peer) bool { return slices.Contains(peers, p) })
}

// hasQuorum reports whether the peers for which in returns true are a quorum of the configuration. It asks in about the
// incarnations that the configuration names.
//
//	"Agreement (for elections and entry commitment) requires separate majorities from both the old and new
//	configurations." (§6)
func (c Configuration) hasQuorum(in func(Peer) bool) bool {
	voters, granted := 0, 0
	for _, m := range c.Members {
		if m.Kind != Voter {
			continue
		}
		voters++
		if in(m.Peer()) {
			granted++
		}
	}
	agreed := 0
	for _, p := range c.Outgoing {
		if in(p) {
			agreed++
		}
	}
	return granted >= majority(voters) && (!c.Joint() || agreed >= majority(len(c.Outgoing)))
}

// quorumValue returns the largest value that a quorum has reached. own is the leader's value, of returns a peer's value, and
// values is reused memory. The leader counts itself only in the halves in which it votes. If the leader removes itself, there
// is no such half at the end:
//
//	"it replicates log entries but does not count itself in majorities." (§6)
func quorumValue[T Index | Time](l *leader, values *[]T, own T, of func(*progress) T) T {
	value, voters := halfValue(l, IncomingHalf, values, own, of)
	assert(voters > 0, "every configuration has a voter in its incoming half")
	if outgoing, voters := halfValue(l, OutgoingHalf, values, own, of); voters > 0 {
		value = min(value, outgoing)
	}
	return value
}

// halfValue returns the largest value that a majority of one half has reached, and how many voters that half has.
func halfValue[T Index | Time](l *leader, half Halves, values *[]T, own T, of func(*progress) T) (value T, voters int) {
	reached := (*values)[:0]
	if l.votes&half != 0 {
		reached = append(reached, own)
	}
	for i := range l.peers {
		if p := &l.peers[i]; p.votes&half != 0 {
			reached = append(reached, of(p))
		}
	}
	*values = reached
	if len(reached) == 0 {
		return 0, 0
	}
	slices.Sort(reached)
	return reached[len(reached)-majority(len(reached))], len(reached)
}

// The configurations of a log follow one another like this. A plain one is neither joint nor changing:
//
//	plain ──a learner joins, leaves or is replaced, an address changes──► plain
//	plain ──voters are demoted or removed──► joint
//	plain ──learners are to become voters──► changing
//	changing ──all of them have caught up──► joint
//	changing ──they make no progress, or the change is canceled──► plain
//	joint ──► plain
//
// The configuration that follows a joint or changing one depends only on that one and on the entry's index. So any leader can
// finish a change that another leader has begun.

// enter returns the configuration in which the running change takes effect, as the entry at the given index. If the voters
// change, that configuration is joint:
//
//	"When the leader receives a request to change the configuration from C_old to C_new, it stores the configuration for
//	joint consensus (C_old,new in the figure) as a log entry" (§6)
//
// A removed voter stays a member until the log leaves the joint configuration, because its vote is still needed.
func (c Configuration) enter(at Index) Configuration {
	assert(!c.Joint(), "a joint configuration is left before the next one is entered")
	next := c
	next.Members, next.Patience = nil, 0
	var removed []Peer
	changes := false
	for _, m := range c.Members {
		changes = changes || m.willVote() != (m.Kind == Voter)
		role := m.Next
		m.Next = NextSame
		switch {
		case role == NextVoter:
			m.Kind = Voter
		case role == NextLearner:
			m.Kind = Learner
		case role == NextRemoved && m.Kind == Voter:
			m.Kind = Leaving
		case role == NextRemoved:
			removed = append(removed, m.Peer())
			continue
		}
		next.Members = append(next.Members, m)
	}
	if changes {
		next.Outgoing = c.voterPeers()
	}
	next.Removed = c.withRemoved(removed, at)
	return next
}

// leave returns the configuration that follows a joint one, as the entry at the given index: the paper's C_new. A demoted
// voter loses its priority with its last vote.
func (c Configuration) leave(at Index) Configuration {
	assert(c.Joint(), "only a joint configuration is left")
	next := c
	next.Members, next.Outgoing = nil, nil
	var removed []Peer
	for _, m := range c.Members {
		if m.Kind == Leaving {
			removed = append(removed, m.Peer())
			continue
		}
		if m.Kind == Learner {
			m.Priority = 0
		}
		next.Members = append(next.Members, m)
	}
	next.Removed = c.withRemoved(removed, at)
	return next
}

// giveUp returns the configuration without the running change. The learners that joined for the change stay. They do not
// reduce availability, and the next attempt has less to do because they already have their logs.
func (c Configuration) giveUp() Configuration {
	assert(c.Changing(), "only a change that waits is given up")
	next := c
	next.Members, next.Patience = slices.Clone(c.Members), 0
	for i := range next.Members {
		next.Members[i].Next = NextSame
		if next.Members[i].Kind == Learner {
			next.Members[i].Priority = 0
		}
	}
	return next
}

// follows returns an error unless c may follow before in a log, as the entry at the given index. Both must be valid.
//
//	"Unfortunately, any approach where servers switch directly from the old configuration to the new configuration is
//	unsafe." (§6)
func (c Configuration) follows(before Configuration, at Index) error {
	switch {
	case before.Joint() && !c.Equal(before.leave(at)):
		return errors.New("a joint configuration can only be left")
	case before.Joint():
		return nil
	case before.Changing() && !c.Equal(before.enter(at)) && !c.Equal(before.giveUp()):
		return errors.New("a change that waits for members can only take effect or be given up")
	case before.Changing():
		return nil
	}
	return c.begins(before, at)
}

// begins is the rule of follows for a previous configuration that is neither joint nor changing.
func (c Configuration) begins(before Configuration, at Index) error {
	was := c.Outgoing
	if !c.Joint() {
		was = c.voterPeers()
	}
	switch {
	case !slices.Equal(was, before.voterPeers()):
		return errors.New("its voters change without the agreement of those before")
	case c.Level < max(before.Level, featureLevelMembers):
		return fmt.Errorf("its feature level is %d after %d", c.Level, before.Level)
	case c.AppVersionMin < before.AppVersionMin:
		return fmt.Errorf("its lowest version of the application is %d after %d", c.AppVersionMin, before.AppVersionMin)
	case before.Sessions && !c.Sessions:
		return errors.New("it has no sessions, and the one before it has")
	}
	var removed []Peer
	for _, m := range before.Members {
		if _, ok := c.Peer(m.Peer()); !ok {
			removed = append(removed, m.Peer())
		}
	}
	if !slices.Equal(c.Removed, before.withRemoved(removed, at)) {
		return errors.New("its removals are not the members that it removes")
	}
	for _, m := range c.Members {
		_, again := before.removal(m.Peer())
		switch {
		case again:
			return fmt.Errorf("member %q returns with an incarnation that was removed", m.ID)
		case m.Kind == Voter && before.VotesIn(m.Peer()) == 0:
			return fmt.Errorf("member %q votes without having been a learner that had to catch up", m.ID)
		}
	}
	return nil
}

// missing returns the silent voters of the configuration after the running change. It returns nil if the live voters are a
// quorum of that configuration, or if the voters do not change. live reports whether a voter is live.
func (c Configuration) missing(at Index, live func(Peer) bool) []NodeID {
	next := c.enter(at)
	if !next.Joint() {
		return nil
	}
	next.Outgoing = nil
	if next.hasQuorum(live) {
		return nil
	}
	var silent []NodeID
	for _, p := range next.voterPeers() {
		if !live(p) {
			silent = append(silent, p.ID)
		}
	}
	return silent
}

// voterPeers returns the voters of the incoming half, sorted.
func (c Configuration) voterPeers() []Peer {
	var voters []Peer
	for _, m := range c.Members {
		if m.Kind == Voter {
			voters = append(voters, m.Peer())
		}
	}
	return voters
}

// withRemoved returns the removals, with those of the entry at the given index added. Beyond RemovedMax, it drops the oldest.
// A peer whose removal is dropped is a stranger with an intact log. Such a peer may not join (handshake.View.MayJoin).
func (c Configuration) withRemoved(peers []Peer, at Index) []Removal {
	removed := slices.Clip(c.Removed)
	for _, p := range peers {
		removed = append(removed, Removal{p, at})
	}
	return removed[max(0, len(removed)-RemovedMax):]
}

// removedLast returns the latest entry that removed a member with this id. It returns 0 if the configuration remembers no
// such entry.
func (c Configuration) removedLast(id NodeID) (last Index) {
	for _, r := range c.Removed {
		if r.Peer.ID == id {
			last = r.Index
		}
	}
	return last
}

// removal returns how a peer was removed, if the configuration remembers it.
func (c Configuration) removal(p Peer) (Removal, bool) {
	i := slices.IndexFunc(c.Removed, func(r Removal) bool { return r.Peer == p })
	if i < 0 {
		return Removal{}, false
	}
	return c.Removed[i], true
}
