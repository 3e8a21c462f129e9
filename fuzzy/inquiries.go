package fuzzy

import (
	"errors"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/joining"
)

// This file carries questions from a process to another one, and the answers back. In runs with petitions, a question for a
// process that is paused waits, and one that is not answered fails after its time.

// inquiry is a question that a process has asked.
type inquiry struct {
	of       *node
	life     uint32
	to       *node // nil: nobody is at the address
	question joining.Question
	change   *changing // the correction that it asks for instead; nil: it is a question
	aside    *aside    // for which it is asked; nil: the process runs
	asked    sim.Time
	reply    raft.WhoReply
	err      error
	answered bool
	proved   bool   // its answer says that a quorum has confirmed its sender,
	lacks    string // and this is what that lacks; "": nothing
}

// The stages of a question.
const (
	askArrives = iota
	askReturns
	askEnds // its time is over
	askStages
)

// askChances are those that a question is lost, that its answer is false, and that an address leads to another process.
const (
	askLost   = 100_000
	askFalse  = 20_000
	askAstray = 50_000
)

var errAsked = errors.New("no answer")

// ask sends a question to the process at an address, or to another one by mistake.
func (n *node) ask(q joining.Question) {
	c, s := n.c, n.seeking.random
	i := slices.IndexFunc(c.nodes, func(other *node) bool { return other.place == q.Address })
	if c.profile.Members.Pace > 0 {
		n.inquire(inquiry{question: q, to: c.nodeAt(i, s)})
		return
	}
	if i < 0 || q.Who.Petition != nil || s.Chance(askAstray) {
		i = s.IntN(len(c.nodes))
	}
	one := inquiry{of: n, life: n.life, to: c.nodes[i], question: q}
	if s.Chance(askLost) || q.Who.Petition != nil {
		one.err = errAsked
	}
	c.asked = append(c.asked, &one)
	c.travelsIn(len(c.asked)-1, askArrives, s)
}

// errs reports whether questions get lost, arrive elsewhere, and are answered falsely.
func (c *cluster) errs() bool { return c.phase == safetyPhase && c.scene == nil }

// nodeAt returns a node, and rarely another one; nil if there is none.
func (c *cluster) nodeAt(i int, s *sim.Stream) *node {
	if c.errs() && s.Chance(askAstray) {
		i = s.IntN(len(c.nodes))
	}
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// inquire sends a question that ends after its time.
func (n *node) inquire(one inquiry) {
	c, s := n.c, n.seeking.random
	one.of, one.life, one.asked = n, n.life, c.now()
	c.asked = append(c.asked, &one)
	i := len(c.asked) - 1
	switch lost := c.lostOnTheWay(&one, s); {
	case !lost:
		c.travelsIn(i, askArrives, s)
	case c.errs() && s.Coin(): // the connection breaks
		one.err = errAsked
		c.travelsIn(i, askReturns, s)
	}
	c.queue.Push(c.now()+c.unpaced(one.question.Timeout), event{kind: evQuestion, a: int64(askStages*i + askEnds)})
}

// lostOnTheWay reports whether a question or its answer gets lost between two processes.
func (c *cluster) lostOnTheWay(one *inquiry, s *sim.Stream) bool {
	if one.to == nil || one.to == one.of {
		return one.to == nil
	}
	up := c.net.Links.Up(one.of.index, one.to.index) && c.net.Links.Up(one.to.index, one.of.index)
	return !up || c.errs() && s.Chance(askLost)
}

func (c *cluster) travelsIn(i, stage int, s *sim.Stream) {
	c.queue.Push(c.now()+1+s.Exponential(c.profile.ElectionTimeout/10), event{kind: evQuestion, a: int64(askStages*i + stage)})
}

// travels carries a question to the process that is asked, and the answer back.
func (c *cluster) travels(a int64) {
	i, stage := int(a/askStages), a%askStages
	one := c.asked[i]
	if one == nil {
		return
	}
	n, s := one.of, one.of.seeking.random
	switch paced := c.profile.Members.Pace > 0; {
	case stage == askArrives && paced && one.to.core == nil:
		one.err = errAsked
		c.travelsIn(i, askReturns, s)
	case stage == askArrives && paced:
		one.to.handle(event{kind: evServe, a: int64(i)})
	case stage == askArrives:
		if one.err == nil {
			one.reply, one.err = one.to.answersWho(s)
		}
		c.travelsIn(i, askReturns, s)
	default:
		if stage == askEnds {
			one.err = errAsked
		}
		c.asked[i] = nil
		n.learnsAnswer(one)
	}
}

// learnsAnswer gives an answer, or the error of a question, to the process that has asked.
func (n *node) learnsAnswer(one *inquiry) {
	switch s := &n.seeking; {
	case one.aside != nil:
		one.aside.answered(one)
	case n.core == nil || n.life != one.life || s.rules == nil:
	case one.change != nil:
		s.entry.outcome(one.err)
		s.rules.Changed(n.paced(), one.err)
		n.later(1, event{kind: evSeek, a: s.turn})
	default:
		s.note(one)
		s.rules.Answered(one.question, one.reply, one.err)
		n.later(1, event{kind: evSeek, a: s.turn})
	}
}

// serves handles a question.
func (n *node) serves(a int64) {
	one := n.c.asked[a]
	switch {
	case one == nil:
	case one.change != nil:
		n.takesCorrection(int(a), one)
	case one.question.Who.Petition != nil:
		n.petitioned(int(a))
	case one.question.Who.Confirm:
		n.confirms(int(a), one)
	default:
		n.answersTo(int(a), nil)
	}
}

// answersTo sends an answer. refused is why a petition or a change was not carried out.
func (n *node) answersTo(i int, refused error) {
	one := n.c.asked[i]
	if one == nil || one.answered {
		return
	}
	one.answered = true
	s := one.of.seeking.random
	if one.change != nil {
		one.err = refused
	} else {
		confirmed, q := one.reply.Confirmed, &one.question.Who
		one.reply, one.err = n.answersWho(s)
		one.reply.Granted, one.reply.Confirmed = q.Petition != nil && refused == nil, confirmed
		if refused != nil {
			one.reply.Reason = refused.Error()
		}
		n.c.check.checkGranted(n, one)
	}
	if !n.c.lostOnTheWay(one, s) {
		n.c.travelsIn(i, askReturns, s)
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
		Founders: foundersOf(founders), Address: n.place, Meta: n.seeking.meta, Leader: n.status.Leader,
		Members: n.status.Config.Members, Index: n.status.ConfigIndex, Committed: n.status.ConfigCommitted == n.status.ConfigIndex,
	}
	lies := askFalse
	if n.c.profile.Members.Pace > 0 {
		lies /= 8 // there are many more questions
	}
	if n.c.errs() && s.Chance(lies) {
		r.Cluster[0], r.Term = byte(1+s.IntN(255)), 1+raft.Term(s.IntN(9))
	}
	return r, nil
}
