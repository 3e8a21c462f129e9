package fuzzy

import (
	"errors"
	"slices"

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
	silent   []string        // the seeds that have neither answered nor failed
	until    raft.Time       // when they count as failed; 0: none was asked yet
	shown    bool            // an answer has shown a cluster with a term
	answered []raft.NodeID   // members that have answered
	rules    *joining.Seeker // nil: this process was started with its list, or with none
	founders raft.Configuration
	seeds    []string
	turn     int64 // the present wake-up
	random   *sim.Stream
}

// inquiry is a question that a process has asked.
type inquiry struct {
	of       *node
	life     uint32
	to       *node
	question joining.Question
	reply    raft.WhoReply
	err      error
}

// The stages of a question.
const (
	askArrives = iota
	askReturns
)

// askChances are those that a question is lost, that its answer is false, and that an address leads to another process.
const (
	askLost   = 100_000
	askFalse  = 20_000
	askAstray = 50_000
)

var errAsked = errors.New("no answer")

// drawSeekers draws runs in which founders look for their cluster. It uses its own stream.
func drawSeekers(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.HandshakeConcern<<48)
	seeks, chance := s.IntN(4), sim.Pick(s, 500_000, sim.Million)
	if p.Name == "bootstrap" && seeks < 2 || p.Name == "swarm" && seeks == 0 {
		p.Node.Seekers = chance
	}
}

// seeksList makes a process that starts look for its cluster, in place of its list.
func (n *node) seeksList() {
	s := &n.seeking
	s.rules = nil
	if chance := n.c.profile.Node.Seekers; chance == 0 || len(n.given.Members) == 0 || n.c.phase != safetyPhase {
		return
	} else if s.random == nil {
		s.random = sim.NewStream(n.c.seed.Number, sim.HandshakeConcern<<40+sim.Concern(n.index))
	}
	if !s.random.Chance(n.c.profile.Node.Seekers) {
		return
	}
	s.founders = n.given
	s.rules = joining.NewSeeker(joining.Config{
		Self: n.peer(), ClusterName: "simulated", Founders: foundersOf(n.given), Address: n.name() + ":1",
	})
	s.seeds = s.seeds[:0]
	for _, other := range n.c.nodes { // each start has seeds of its own, often all
		if s.random.IntN(8) > 0 {
			s.seeds = append(s.seeds, other.name()+":1")
		}
	}
	s.silent, s.until, s.shown, s.answered = slices.Clone(s.seeds), 0, false, nil
	n.awaited, n.given = n.given, raft.Configuration{}
	n.later(1, event{kind: evSeek, a: s.turn})
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

// seek lets the rules decide, and carries that out. Petitions and changes of entries are not simulated.
func (n *node) seek() {
	s := &n.seeking
	if s.rules == nil || n.c.phase != safetyPhase { // then it was started anew with its list, or has it
		return
	}
	a := s.rules.Next(n.now().Mono, joining.State{
		Cluster: n.status.Cluster, Term: n.status.Term, Leader: n.status.Leader, Config: n.status.Config,
		Index: n.status.ConfigIndex, Committed: n.status.ConfigCommitted == n.status.ConfigIndex,
	})
	if r := a.Heard; r != nil {
		n.c.stats.Told++
		n.c.faulted("%s hears from %s of cluster %v", n.name(), r.From.ID, r.Cluster)
		n.post(raft.Heard{Cluster: r.Cluster, From: r.From.ID})
		n.later(s.random.Exponential(8*n.c.profile.ElectionTimeout), event{kind: evForget})
	}
	if a.List != nil {
		n.checkList()
		n.giveList()
	}
	for _, q := range a.Ask {
		n.ask(q)
		if s.until == 0 {
			s.until = n.now().Mono + raft.Time(q.Timeout)
		}
	}
	s.turn++
	if a.Resolve {
		s.rules.Resolved(n.now().Mono, s.seeds, nil)
		n.later(1, event{kind: evSeek, a: s.turn})
		return
	}
	n.later(max(sim.Time(a.Wake-n.now().Mono), 1), event{kind: evSeek, a: s.turn})
}

// ask sends a question to the process at an address, or to another one by mistake.
func (n *node) ask(q joining.Question) {
	c, s := n.c, n.seeking.random
	i := slices.IndexFunc(c.nodes, func(other *node) bool { return other.name()+":1" == q.Address })
	if i < 0 || q.Who.Petition != nil || s.Chance(askAstray) {
		i = s.IntN(len(c.nodes))
	}
	one := inquiry{of: n, life: n.life, to: c.nodes[i], question: q}
	if s.Chance(askLost) || q.Who.Petition != nil {
		one.err = errAsked
	}
	c.asked = append(c.asked, one)
	c.queue.Push(c.now()+1+s.Exponential(c.profile.ElectionTimeout/10), event{kind: evQuestion, a: int64(2*len(c.asked) - 2 + askArrives)})
}

// travels carries a question to the process that is asked, and the answer back.
func (c *cluster) travels(a int64) {
	one := &c.asked[a/2]
	n, s := one.of, one.of.seeking.random
	if a%2 == askArrives {
		if one.err == nil {
			one.reply, one.err = one.to.answersWho(s)
		}
		c.queue.Push(c.now()+1+s.Exponential(c.profile.ElectionTimeout/10), event{kind: evQuestion, a: a + askReturns})
		return
	}
	if n.core != nil && n.life == one.life && n.seeking.rules != nil {
		n.seeking.note(one)
		n.seeking.rules.Answered(one.question, one.reply, one.err)
		n.later(1, event{kind: evSeek, a: n.seeking.turn})
	}
}

// note keeps what N103 needs to know of an answer.
func (s *seeking) note(one *inquiry) {
	s.silent = slices.DeleteFunc(s.silent, func(address string) bool { return address == one.question.Address })
	if r := one.reply; one.err == nil && r.From != one.of.peer() {
		s.shown = s.shown || r.Term > 0
		s.answered = append(s.answered, r.From.ID)
	}
}

// checkList checks N103.
func (n *node) checkList() {
	c, s := n.c, &n.seeking
	c.holds(len(s.silent) == 0 || s.until > 0 && n.now().Mono >= s.until, "N103", "%s takes its list before %v have answered", n, s.silent)
	c.holds(!s.shown, "N103", "%s takes its list, although it was shown a cluster", n)
	ids := foundersOf(s.founders)
	for _, id := range ids {
		c.holds(ids[0] != n.id || id == n.id || slices.Contains(s.answered, id), "N103", "%s takes the list without an answer of %s", n, id)
	}
}

// answersWho returns what the process says about itself: what its disk holds, and not what it was told.
func (n *node) answersWho(s *sim.Stream) (raft.WhoReply, error) {
	if n.core == nil || n.frozen {
		return raft.WhoReply{}, errAsked
	}
	founders := n.initial
	if n.seeking.rules != nil {
		founders = n.seeking.founders
	}
	h := n.hello(raft.Peer{})
	r := raft.WhoReply{
		From: h.From, ClusterName: h.ClusterName, Cluster: h.Cluster, Term: h.Term, Bootstrapper: h.Bootstrapper,
		Founders: foundersOf(founders), Address: n.name() + ":1", Leader: n.status.Leader,
		Members: n.status.Config.Members, Index: n.status.ConfigIndex, Committed: n.status.ConfigCommitted == n.status.ConfigIndex,
	}
	if s.Chance(askFalse) {
		r.Cluster[0], r.Term = byte(1+s.IntN(255)), 1+raft.Term(s.IntN(9))
	}
	return r, nil
}
