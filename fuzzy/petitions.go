package fuzzy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/joining"
)

// This file has petitions: a process asks the leader to make it a member. Package joining decides, on both sides, as it does in
// packages member and node. The leader reaches the petitioner at its address before the change, as it reaches each new member.
// Invariants N104 and N105 judge what follows, and L23 that each of them gets its place.

// drawPetitions makes the processes of some runs petition. It uses its own stream.
func drawPetitions(seed Seed, p *Profile) {
	s, timeout := sim.NewStream(seed.Number, sim.HandshakeConcern<<44), p.ElectionTimeout
	some, pace, chance, early := s.IntN(3), sim.Pick(s, 4, 8, 16), sim.Pick(s, 700_000, sim.Million, sim.Million), s.Coin()
	if p.Name != "members" || some > 0 || p.Members.Gone > 0 {
		return
	}
	p.Members.Pace, p.Node.Seekers, p.Node.Handshakes = pace, chance, true
	if early { // disks are lost before and during the bootstrap, too
		p.FaultsFrom = 0
	}
	p.Members.Admins, p.Members.Think, p.Length = 1, 8*p.Members.Think, max(p.Length, sim.In(6*time.Second))
	for _, f := range []FaultRate{
		{Wipe, s.LogTime(4*timeout, 40*timeout), s.LogTime(timeout/4, 8*timeout)}, {Rot, s.LogTime(4*timeout, 20*timeout), timeout},
		{Move, s.LogTime(4*timeout, 40*timeout), s.LogTime(timeout/4, 8*timeout)}, {Pause, s.LogTime(4*timeout, 40*timeout), s.LogTime(timeout, 20*timeout)},
		{Blackout, p.Length, timeout},
	} {
		often := 2
		switch f.Fault {
		case Blackout:
			often = 8
		case Rot:
			often = 1
		}
		if s.IntN(often) == 0 && !p.injects(f.Fault) {
			p.Faults = append(p.Faults, f)
		}
	}
}

// desk is what a process keeps to answer petitioners if it leads.
type desk struct {
	rules   joining.Petitions
	open    []*petition
	term    raft.Term // that it leads; 0: none
	since   raft.Time // when it began to
	heard   []lastHeard
	dials   []dialing // of the members whose ids others have claimed
	watched []watching
}

// petition is a change that is made for a petitioner.
type petition struct {
	number  int64
	of      raft.Peer
	term    raft.Term
	change  *changing
	waiting []int // inquiries
}

// lastHeard is when a process has last heard a node, as which member.
type lastHeard struct {
	peer raft.Peer
	at   raft.Time // on the local clock
	true sim.Time
}

// dialing is what the dials of a member have shown.
type dialing struct {
	peer    raft.Peer
	answers raft.Incarnation // which has answered instead
	refused raft.Time        // since when nobody listens; 0: somebody does, or nothing is known
	starts  uint64           // of the disk that was there then
}

// The times of a node that its package does not export.
const (
	whoWorkMax    = 3 * time.Second
	petitionMax   = 15 * time.Second
	changeTimeout = 15 * time.Second
)

var (
	errNotLeader = errors.New("this member does not lead")
	errNoChanges = errors.New("the leader takes no changes of others")
)

// step notes whom a process has heard, and since when it leads.
func (d *desk) step(n *node, before *raft.CoreStatus, events []raft.Event) {
	if n.c.profile.Members.Pace == 0 {
		return
	}
	now := n.now().Mono
	if s := &n.status; s.Role != raft.Leader {
		d.term = 0
	} else if d.term != s.Term {
		d.term, d.since = s.Term, now
	}
	if d.heard == nil {
		d.heard = make([]lastHeard, len(n.c.nodes))
	}
	for _, e := range events {
		if r, ok := e.(raft.Received); ok {
			if from := n.c.at(r.Message.From); from != nil {
				d.heard[from.index] = lastHeard{r.Message.From, now, n.c.now()}
			}
		}
	}
}

// silence returns how long the leader has not heard a member, on the clock of package joining.
func (d *desk) silence(n *node, p raft.Peer) time.Duration {
	since := d.since
	for _, h := range d.heard {
		if h.peer == p {
			since = max(since, h.at)
		}
	}
	return time.Duration(n.now().Mono-since) * time.Duration(n.c.profile.Members.Pace)
}

// petitioned answers a petition, once the changes that follow from it have ended, or after whoWorkMax.
func (n *node) petitioned(i int) {
	one, d := n.c.asked[i], &n.desk
	if one == nil || one.answered {
		return
	}
	q := one.question.Who
	switch {
	case n.status.Role != raft.Leader:
		n.answersTo(i, errNotLeader)
		return
	case n.noRemoteChanges:
		n.answersTo(i, errNoChanges)
		return
	}
	if o := slices.IndexFunc(d.open, func(p *petition) bool { return p.of == q.From }); o >= 0 {
		d.open[o].waiting = append(d.open[o].waiting, i)
		n.hurries(i)
		return
	}
	known := n.knownOf(q.From)
	n.c.check.watchPetition(n, q.From, &known)
	decision, err := d.rules.Begin(n.paced(), q, known)
	if err != nil || decision.Change == nil {
		n.answersTo(i, err)
		return
	}
	n.c.check.checkGrant(n, &q, decision.Change)
	n.c.stats.Petitions++
	p := &petition{number: int64(n.c.stats.Petitions), of: q.From, term: n.status.Term, waiting: []int{i}}
	p.change = &changing{Change: *decision.Change, ifIndex: decision.Index}
	p.change.Patience = time.Duration(n.c.profile.Members.Patience) // the default is a minute
	n.c.faulted("%s petitions %s, which decides to %s", n.c.title(q.From), n.name(), p.change.describe())
	d.open = append(d.open, p)
	n.hurries(i)
	n.later(1+n.seekingStream().Exponential(n.c.profile.ElectionTimeout/10), event{kind: evContact, a: p.number})
	n.later(n.c.unpaced(petitionMax), event{kind: evOverdue, a: p.number})
}

// hurries answers a petition after whoWorkMax at the latest.
func (n *node) hurries(i int) {
	n.later(n.c.unpaced(whoWorkMax), event{kind: evOverdue, a: -int64(i) - 1})
}

// overdue ends the wait for a change, or for an answer.
func (d *desk) overdue(n *node, a int64) {
	if a < 0 {
		n.answersTo(int(-a-1), joining.ErrPetitionOpen)
		return
	}
	d.ends(n, a, errors.New("the outcome is unknown"), false)
}

// contact reaches the petitioner at its address, and asks for the change.
func (n *node) contact(number int64) {
	o := slices.IndexFunc(n.desk.open, func(p *petition) bool { return p.number == number })
	if o < 0 {
		return
	}
	p := n.desk.open[o]
	ch := p.change
	var joiners []*raft.Member
	for i := range ch.Replace {
		joiners = append(joiners, &ch.Replace[i].New)
	}
	for i := range ch.Add {
		joiners = append(joiners, &ch.Add[i])
	}
	for _, m := range joiners {
		if m.Incarnation != 0 { // the leader takes its word
			n.c.check.checkContacted(n, m)
			continue
		}
		if err := n.reaches(m); err != nil {
			n.desk.ends(n, number, err, true)
			return
		}
		if is, named := n.status.Config.Peer(m.Peer()); named && is.Kind == raft.Voter {
			n.desk.ends(n, number, &raft.MemberExistsError{Member: is, Answers: true}, false)
			return
		}
	}
	if !n.letsJoin(ch) {
		n.desk.ends(n, number, errors.New("its store may not join"), false)
		return
	}
	n.asksFor(ch, p.term, func(err error) { n.desk.ends(n, number, err, false) })
}

// reaches makes contact with the process at the address of a member that is to join, and takes its incarnation.
func (n *node) reaches(m *raft.Member) error {
	i := slices.IndexFunc(n.c.nodes, func(other *node) bool { return other.place == m.Address })
	if i < 0 {
		return fmt.Errorf("nobody is at %s", m.Address)
	}
	at, links := n.c.nodes[i], n.c.net.Links
	if at.core == nil || at.frozen || at.id != m.ID || at == n || !links.Up(n.index, i) || !links.Up(i, n.index) {
		return fmt.Errorf("%s does not answer at %s", m.ID, m.Address)
	}
	m.Incarnation, m.AppVersion = at.disk.incarnation, at.version
	return nil
}

// asksFor asks the member's own core for a change, and tells the outcome.
func (n *node) asksFor(ch *changing, term raft.Term, ended func(err error)) {
	ch.met = configured(n.log)
	r := request{kind: changeRequest, client: len(n.c.admins.admins), node: n, change: ch, floor: n.c.check.committed()}
	r.ended = func(a raft.Answer) {
		switch {
		case a.Kind == raft.AnswerChanged:
			ended(nil)
		case a.Err != nil:
			ended(a.Err)
		default:
			ended(changeError(a, ch))
		}
	}
	t := n.c.work.ask(r)
	n.post(raft.ChangeRequested{RequestID: t, Term: term, IfIndex: ch.ifIndex, Change: ch.Change})
}

// changeError returns the error of a change that was not made, as a node returns it.
func changeError(a raft.Answer, ch *changing) error {
	switch a.Refusal {
	case raft.RefusedConfigIndex:
		return &raft.ConfigChangedError{IfIndex: ch.ifIndex}
	case raft.RefusedChanging:
		return &raft.ChangePendingError{}
	}
	return fmt.Errorf("refused (%d, %d)", a.Kind, a.Refusal)
}

// ends ends the change for a petitioner. If it was made, the next step is decided.
func (d *desk) ends(n *node, number int64, err error, unreachable bool) {
	o := slices.IndexFunc(d.open, func(p *petition) bool { return p.number == number })
	if o < 0 {
		return
	}
	p := d.open[o]
	d.open = slices.Delete(d.open, o, o+1)
	failed := err
	if !unreachable {
		failed = nil
	}
	d.rules.Ended(n.paced(), p.of, failed)
	for _, i := range p.waiting {
		if err != nil {
			n.answersTo(i, err)
		} else {
			n.petitioned(i)
		}
	}
}

// knownOf returns what a leader knows when a petition of the caller arrives.
func (n *node) knownOf(caller raft.Peer) joining.Leader {
	s := &n.status
	known := joining.Leader{
		Self: n.peer(), ClusterName: "simulated", Config: s.Config, Index: s.ConfigIndex, Committed: s.ConfigCommitted == s.ConfigIndex,
	}
	for _, other := range s.Config.Members {
		if other.ID != caller.ID || other.Peer() == caller {
			continue
		}
		d := n.desk.dial(n, other)
		seen := joining.Seen{Peer: other.Peer(), Silence: n.desk.silence(n, other.Peer()), Answers: d.answers}
		if d.refused > 0 {
			seen.RefusedFor = max(time.Duration(n.now().Mono-d.refused)*time.Duration(n.c.profile.Members.Pace), 1)
		}
		known.Seen = append(known.Seen, seen)
	}
	return known
}

// addressesOf returns the addresses at which a leader dials a member.
func (n *node) addressesOf(m raft.Member) []string {
	addresses := []string{m.Address}
	if at := n.disk.memory.SeenOf(m.Peer()).Address; at != "" && at != m.Address {
		addresses = append(addresses, at)
	}
	return addresses
}

// dial dials the addresses of a member. If the former dials were refused, too, nobody has listened since the last process there
// has ended.
func (d *desk) dial(n *node, m raft.Member) *dialing {
	i := slices.IndexFunc(d.dials, func(x dialing) bool { return x.peer == m.Peer() })
	if i < 0 {
		i, d.dials = len(d.dials), append(d.dials, dialing{peer: m.Peer()})
	}
	x, now, refused, starts, died := &d.dials[i], n.now().Mono, true, uint64(0), sim.Time(0)
	for _, address := range n.addressesOf(m) {
		at := slices.IndexFunc(n.c.nodes, func(other *node) bool { return other.place == address })
		switch {
		case at < 0: // perhaps the machine is gone
			refused = refused && len(address)%2 == 0
			continue
		case at == n.index || !n.c.net.Links.Up(n.index, at) || !n.c.net.Links.Up(at, n.index):
			refused = false
			continue
		}
		other := n.c.nodes[at]
		starts, died = starts+other.disk.startCount, max(died, other.diedAt)
		refused = refused && other.core == nil
		switch {
		case other.core == nil || other.frozen:
		case other.peer() == m.Peer():
			x.answers = 0
		case other.id == m.ID:
			x.answers = other.disk.incarnation
		}
	}
	switch {
	case !refused:
		x.refused = 0
	case x.refused == 0 || x.starts != starts:
		x.refused = max(now-raft.Time(n.c.now()-died), d.since, 1)
	}
	x.starts = starts
	return x
}

// seekingStream is the stream of a process in the search for members.
func (n *node) seekingStream() *sim.Stream {
	if n.seeking.random == nil {
		n.seeking.random = sim.NewStream(n.c.seed.Number, sim.HandshakeConcern<<40+sim.Concern(n.index))
	}
	return n.seeking.random
}
