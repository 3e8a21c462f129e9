package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/joining"
)

// Founders that look for their cluster: package joining decides when a process gets its list, and whether it has heard of a
// cluster. It runs as it does in package member. The seeds are some of the addresses, some of which lead elsewhere. Answers are lost,
// late or false. Invariants N102, N103 and G22 judge what follows.

// seeking is a process's part in the search.
//
//	N103 A process that looks for its cluster takes its list only once each seed has answered or failed, and never after an answer has shown a cluster with a term. The founder with the lowest id takes it only with an answer of each other founder.
type seeking struct {
	silent     []string        // the seeds that have neither answered nor failed
	until      raft.Time       // when they count as failed; 0: none was asked yet
	shown      bool            // an answer has shown a cluster with a term
	answered   []raft.NodeID   // members that have answered
	rules      *joining.Seeker // nil: this process was started with its list, or with none
	founders   raft.Configuration
	meta       string
	learner    bool
	petitioned bool // it has asked for a vote in this run, and has had none since
	seeds      []string
	turn       int64 // the present wake-up
	random     *sim.Stream
	entry      correcting
}

// drawSeekers draws runs in which founders look for their cluster. It uses its own stream.
func drawSeekers(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.HandshakeConcern<<48)
	seeks, chance := s.IntN(4), sim.Pick(s, 500_000, sim.Million)
	if p.Name == "bootstrap" && seeks < 2 || p.Name == "swarm" && seeks == 0 {
		p.Node.Seekers = chance
	}
}

// seeksList makes a process that starts look for its cluster, in place of its list. If processes petition, those without a list
// look for it, too, and so do those that have a store.
func (n *node) seeksList() {
	s, paced := &n.seeking, n.c.profile.Members.Pace > 0
	s.rules = nil
	if chance := n.c.profile.Node.Seekers; chance == 0 || !paced && (len(n.given.Members) == 0 || n.c.phase != safetyPhase) {
		return
	} else if s.random == nil {
		s.random = sim.NewStream(n.c.seed.Number, sim.HandshakeConcern<<40+sim.Concern(n.index))
	}
	if !s.random.Chance(n.c.profile.Node.Seekers) {
		return
	}
	s.founders = n.given
	if paced {
		n.petitionsToo()
	}
	s.rules = joining.NewSeeker(joining.Config{
		Self: n.peer(), ClusterName: "simulated", Founders: foundersOf(s.founders), Address: n.place, Meta: s.meta, Learner: s.learner,
	})
	s.seeds = s.seeds[:0]
	for _, other := range n.c.nodes { // each start has seeds of its own, often all
		if n.c.scene != nil || s.random.IntN(8) > 0 {
			s.seeds = append(s.seeds, other.place)
		}
	}
	if paced && len(n.c.left) > 0 && s.random.Coin() {
		s.seeds = append(s.seeds, n.c.left[0])
	}
	s.silent, s.until, s.shown, s.answered, s.entry, s.petitioned = slices.Clone(s.seeds), 0, false, nil, correcting{}, false
	if n.c.phase == safetyPhase {
		if n.given = (raft.Configuration{}); slices.Contains(foundersOf(s.founders), n.id) {
			n.awaited = s.founders
		}
		n.later(1, event{kind: evSeek, a: s.turn})
	}
}

// petitionsToo draws how a process is started that may petition. Each has the same founders, but for a process with the id of
// another one.
func (n *node) petitionsToo() {
	s := &n.seeking
	if s.founders = n.c.initial; n.name() != string(n.id) {
		s.founders = raft.Configuration{}
	}
	s.meta = sim.Pick(s.random, "", "", n.place)
	s.learner = n.c.profile.spare(n.index) && s.founders.Members != nil && n.index%3 == 0
}

// found returns the address at which this process has found a member by asking, as the transport is told; "": it has not.
func (n *node) found(id raft.NodeID) string {
	if n.c.profile.Members.Pace == 0 || n.seeking.rules == nil {
		return ""
	}
	if at := n.seeking.rules.Addresses(id); len(at) > 0 {
		return at[0]
	}
	return ""
}

// comesLater reports whether a start waits until there is a cluster: a second process with the id of a founder mostly does, because
// nobody bootstraps while both of them answer.
func (n *node) comesLater() bool {
	c := n.c
	if c.profile.Members.Pace == 0 || n.name() == string(n.id) || c.seed.Number%4 == 0 || c.newestCommitted() != nil || c.phase != safetyPhase {
		return false
	}
	n.restartIn(c.profile.ElectionTimeout)
	return true
}

// paced returns the time on the clock of package joining.
func (n *node) paced() raft.Time { return n.now().Mono * raft.Time(max(n.c.profile.Members.Pace, 1)) }

// unpaced returns how long a time of package joining takes.
func (c *cluster) unpaced(d time.Duration) sim.Time {
	return max(sim.In(d)/sim.Time(max(c.profile.Members.Pace, 1)), 1)
}

func foundersOf(c raft.Configuration) (ids []raft.NodeID) {
	for _, m := range c.Members {
		if !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// seeks reports whether a running process still looks for its cluster, in place of its list.
func (n *node) seeks() bool {
	return n.core != nil && n.seeking.rules != nil && len(n.awaited.Members) > 0
}

// mayAsk reports whether processes look for their cluster at this time.
func (c *cluster) mayAsk() bool {
	return c.phase == safetyPhase || c.profile.Members.Pace > 0 && c.live != nil && c.live.stage == joins
}

// seek lets the rules decide, and carries that out.
func (n *node) seek() {
	s := &n.seeking
	if s.rules == nil || !n.c.mayAsk() { // then it was started anew with its list, or has it
		return
	}
	a := s.rules.Next(n.paced(), n.state())
	if r := a.Heard; r != nil {
		n.c.stats.Told++
		n.c.faulted("%s hears from %s of cluster %v", n.name(), r.From.ID, r.Cluster)
		n.post(raft.Heard{Cluster: r.Cluster, From: r.From.ID})
		n.later(s.random.Exponential(8*n.c.profile.ElectionTimeout), event{kind: evForget})
	}
	if a.List != nil && len(n.awaited.Members) > 0 {
		n.checkList()
		n.giveList()
	}
	for _, q := range a.Ask {
		n.ask(q)
		if s.until == 0 {
			s.until = n.paced() + raft.Time(q.Timeout)
		}
	}
	if n.c.profile.Members.Pace > 0 {
		n.correct(&a)
		m, named := n.status.Config.Peer(n.peer())
		asks := slices.ContainsFunc(a.Ask, func(q joining.Question) bool { return q.Who.Petition != nil })
		s.petitioned = asks || s.petitioned && (!named || m.Kind != raft.Voter || n.status.Leader == "")
	}
	s.turn++
	if a.Resolve {
		s.rules.Resolved(n.paced(), s.seeds, nil)
		n.later(1, event{kind: evSeek, a: s.turn})
		return
	}
	n.later(n.c.unpaced(time.Duration(a.Wake-n.paced())), event{kind: evSeek, a: s.turn})
}

// state returns what a member knows of its cluster.
func (n *node) state() joining.State {
	return joining.State{
		Cluster: n.status.Cluster, Term: n.status.Term, Leader: n.status.Leader, Config: n.status.Config,
		Index: n.status.ConfigIndex, Committed: n.status.ConfigCommitted == n.status.ConfigIndex,
	}
}

// note keeps what N103 needs to know of an answer.
func (s *seeking) note(one *inquiry) {
	s.silent = slices.DeleteFunc(s.silent, func(address string) bool { return address == one.question.Address })
	if r := one.reply; one.err == nil && r.From != one.of.peer() {
		s.shown = s.shown || r.Term > 0
		s.answered = append(s.answered, r.From.ID)
		s.entry.hear(r.From, r.Address)
	}
}

// checkList checks N103.
func (n *node) checkList() {
	c, s := n.c, &n.seeking
	c.holds(len(s.silent) == 0 || s.until > 0 && n.paced() >= s.until, "N103", "%s takes its list before %v have answered", n, s.silent)
	c.holds(!s.shown, "N103", "%s takes its list, although it was shown a cluster", n)
	ids := foundersOf(s.founders)
	for _, id := range ids {
		c.holds(ids[0] != n.id || id == n.id || slices.Contains(s.answered, id), "N103", "%s takes the list without an answer of %s", n, id)
	}
}
