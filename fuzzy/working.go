package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The work that a host does while its member leads. A leader tells the next one to campaign only after the end of it, but waits
// no longer than WorkStopMax.
//
//	N120  A leader tells nobody to campaign while its host works for its term, unless the host was told WorkStopMax ago to stop.
//	N121  A host may work if its member leads, has applied an entry of its own term, transfers its leadership to nobody, and was not told to close; and only then.

// drawWorks draws whether hosts work, how long they take to stop, and how long a transfer waits for that.
func drawWorks(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<40)
	if s.IntN(3) > 0 {
		return
	}
	p.Node.Works = s.LogUniform(20_000, sim.Million)
	p.Node.WorkStopMax = s.LogTime(p.ElectionTimeout/10, p.ElectionTimeout)
	p.Node.WorkStop = s.LogTime(p.ElectionTimeout/100, 2*p.ElectionTimeout)
}

// duty is the work that a host does for the leadership of its member.
type duty struct {
	random *sim.Stream
	term   raft.Term // 0: none
	told   raft.Term // what the core was last told
	number int64     // of the present work: earlier ends do not count
	stops  raft.Time // when it was told to stop; 0: it was not
}

// reportWork tells the core for which term the host works, if that has changed.
func (n *node) reportWork() {
	if d := &n.duty; d.told != d.term {
		d.told = d.term
		working := raft.Working{Term: d.term, StopMax: time.Duration(n.c.profile.Node.WorkStopMax)}
		n.inbox = append([]raft.Event{working}, n.inbox...)
	}
}

// followWork begins and stops the host's work after a step, before any output of the step leaves. Work that is told to stop
// takes a while, and some work ends by itself.
func (n *node) followWork() {
	d, p := &n.duty, &n.c.profile.Node
	if p.Works == 0 {
		return
	}
	may := n.core.MayWork()
	switch {
	case d.term == 0 && may && d.random.Chance(p.Works):
		d.term, d.stops = n.status.Term, 0
		d.number++
		if d.random.Coin() {
			n.later(d.random.Exponential(10*n.c.profile.ElectionTimeout), event{kind: evWorkEnds, a: d.number})
		}
	case d.term != 0 && d.stops == 0 && (!may || d.term != n.status.Term):
		d.stops = n.seen.now
		n.later(d.random.Exponential(p.WorkStop), event{kind: evWorkEnds, a: d.number})
	}
}

// endWork ends the work with a number.
func (n *node) endWork(number int64) {
	if d := &n.duty; d.number == number && d.term != 0 {
		d.term = 0
		n.poke()
	}
}

// checkWorkEnded checks that a leader that tells the next one to campaign has waited for its host: N120.
func (k *checker) checkWorkEnded(n *node) {
	d, most := &n.duty, raft.Time(k.c.profile.Node.WorkStopMax)
	if d.term == n.status.Term && (d.stops == 0 || n.seen.now-d.stops < most) {
		k.broken("N120", "%s tells another member to campaign in term %d while its host still works, told to stop at %v (now %v)",
			n, d.term, time.Duration(d.stops), time.Duration(n.seen.now))
	}
}

// checkMayWork checks what a member says about the work of its host: N121.
func (k *checker) checkMayWork(n *node) {
	s, w := &n.status, &n.seen
	should := s.Role == raft.Leader && s.Applied > w.office && s.TransferringUntil == 0 && !w.closed
	if may := n.core.MayWork(); may != should {
		k.broken("N121", "%s, %s of term %d, says %v to the work of its host: applied %d, its own entries begin after %d, transferring until %v",
			n, s.Role, s.Term, may, s.Applied, w.office, time.Duration(s.TransferringUntil))
	}
}
