package elections

import (
	"slices"

	"github.com/coxswain/raft/internal/sim"
)

// watch measures a run from its first fault on. The world need only call it if the leader of a member, the set of members
// that are up, or the set of cut links changes.
type watch struct {
	world *world
	on    bool
	fault sim.Time // times count from here
	last  sim.Time // of the last change

	leaders  []Rank // live members that believe they lead
	previous []Rank // before the last change
	reigning Rank   // the leader, or the last one; of several leaders, the one that began last
	began    func(Rank)

	two    stretch // in which two lead
	twin   stretch // in which two lead in one epoch
	agreed stretch // in which the members agree
	whom   Rank    // the leader on which they agree
	// relieved is a leader that an operator wants to replace, or 0. An agreement on this leader does not count.
	relieved Rank

	settled     bool   // an agreement has held for a heartbeat interval
	effort      effort // until the members agree
	atAgreement effort // when the present agreement began

	outcome Outcome
}

// effort counts what it takes to agree.
type effort struct{ messages, bytes, elections int64 }

// stretch is an interval in which something holds.
type stretch struct {
	holds bool
	since sim.Time
}

// set records whether the condition holds from now on. It returns how long the condition held until now.
func (s *stretch) set(holds bool, now sim.Time) (lasted int64) {
	if s.holds {
		lasted = int64(now - s.since)
	} else {
		s.since = now
	}
	s.holds = holds
	return lasted
}

// begin starts measuring.
func (v *watch) begin() {
	now := v.world.queue.Now()
	v.on, v.fault, v.last = true, now, now
	for _, m := range []Measure{Messages, Bytes, Elections, Agreement} {
		v.outcome[m] = Never
	}
	if !v.world.algorithm.Epochs {
		v.outcome[TwoInTerm] = Never
	}
	v.changed()
}

// end returns the outcome when the time is up or the budget of events is spent.
func (v *watch) end(inTime bool) Outcome {
	v.account(v.leaders)
	v.settle()
	if inTime && v.settled && v.agreed.holds {
		v.outcome[Ends] = 1
	}
	return v.outcome
}

// sent counts a message, unless the members already agree.
func (v *watch) sent(m Message) {
	if v.counts() {
		v.effort.messages++
		v.effort.bytes += int64(m.Bytes())
	}
}

// elects counts an election, unless the members already agree.
func (v *watch) elects() {
	if v.counts() {
		v.effort.elections++
	}
}

// counts reports whether the members do not agree yet.
func (v *watch) counts() bool {
	if v.on && !v.settled {
		v.settle()
	}
	return v.on && !v.settled
}

// changed handles a change of the leaders, of the members that are up, or of the links that are cut.
func (v *watch) changed() {
	v.previous, v.leaders = v.leaders, v.previous[:0]
	for i := range v.world.members {
		if m := &v.world.members[i]; m.machine != nil && m.leader == m.env.self {
			v.leaders = append(v.leaders, m.env.self)
		}
	}
	v.findNewLeaders()
	if v.on {
		v.account(v.previous)
		v.agree()
	}
}

// findNewLeaders counts the leader changes without a cause. Such a change happens if a member begins to lead, the present or
// last leader has worked ever since it began to lead, and nobody else leads.
func (v *watch) findNewLeaders() {
	v.findHindered()
	for _, r := range v.leaders {
		if slices.Contains(v.previous, r) {
			continue
		}
		alone := !slices.ContainsFunc(v.previous, func(o Rank) bool { return o != v.reigning })
		caused := v.reigning == 0 || v.world.member(v.reigning).hindered
		if v.on && r != v.reigning && !caused && alone {
			v.outcome[Changes]++
		}
		if r != v.reigning || caused {
			v.reigning, v.world.member(r).hindered = r, !v.works(r)
		}
		if v.began != nil {
			v.began(r)
		}
	}
	if len(v.leaders) == 1 { // of several leaders, the one that remains
		v.reigning = v.leaders[0]
	}
}

// findHindered finds the leaders that cannot work now. If another member replaces such a leader, that change has a cause.
func (v *watch) findHindered() {
	for i := range v.world.members {
		if m := &v.world.members[i]; !m.hindered && (m.env.self == v.reigning || m.leader == m.env.self) {
			m.hindered = !v.works(m.env.self)
		}
	}
}

// works reports whether a member is up and connected to a majority of the configured members.
func (v *watch) works(r Rank) bool {
	if r == 0 || v.world.member(r).machine == nil {
		return false
	}
	reached := 0
	for i := range v.world.members {
		if v.world.connected(r, Rank(i+1)) {
			reached++
		}
	}
	return 2*reached > len(v.world.members)
}

// account updates the measures for the time since the last change. led lists the members that led in that time.
func (v *watch) account(led []Rank) {
	now := v.world.queue.Now()
	if len(led) == 0 {
		v.outcome[Leaderless] += int64(now - v.last)
	}
	v.last = now
	v.outcome[TwoLeaders] = max(v.outcome[TwoLeaders], v.two.set(len(v.leaders) > 1, now))
	if v.world.algorithm.Epochs {
		v.outcome[TwoInTerm] = max(v.outcome[TwoInTerm], v.twin.set(v.inOneEpoch(), now))
	}
}

func (v *watch) inOneEpoch() bool {
	for i, r := range v.leaders {
		for _, other := range v.leaders[:i] {
			if v.world.member(r).epoch == v.world.member(other).epoch {
				return true
			}
		}
	}
	return false
}

// agree checks whether the members agree. They agree if every live member that is connected to a live leader follows that
// leader, and these followers are more than half of the live members. So the largest part of a partition can agree. Other
// measures show the behaviour of the other parts.
func (v *watch) agree() {
	v.settle()
	whom := v.agreement()
	now := v.world.queue.Now()
	if whom != v.whom {
		v.agreed.set(false, now) // another leader: the interval begins anew
	}
	began := whom != 0 && !v.agreed.holds
	v.agreed.set(whom != 0, now)
	if began {
		v.atAgreement = v.effort
		v.world.record(Record{Kind: RecordAgree, Peer: whom})
	} else if whom == 0 && v.whom != 0 {
		v.world.record(Record{Kind: RecordPart})
	}
	v.whom = whom
}

// agreement returns the leader on which the members agree now; 0: they do not agree.
func (v *watch) agreement() Rank {
	for _, r := range v.leaders {
		if r == v.relieved {
			continue
		}
		live, holders, all := 0, 0, true
		for i := range v.world.members {
			m := &v.world.members[i]
			if m.machine == nil {
				continue
			}
			live++
			switch connected := v.world.connected(r, m.env.self); {
			case connected && v.follows(m, r):
				holders++
			case connected:
				all = false
			}
		}
		if all && 2*holders > live {
			return r
		}
	}
	return 0
}

// follows reports whether a member follows a leader in the leader's present epoch and reign. If the leader's earlier reign
// ended with a crash and the member did not notice the crash, the member does not follow the present reign.
func (v *watch) follows(m *member, leader Rank) bool {
	return m.leader == leader && m.epoch == v.world.member(leader).epoch && !m.unheard
}

// settle records the first agreement that has lasted for a heartbeat interval.
func (v *watch) settle() {
	if v.settled || !v.agreed.holds || v.world.queue.Now()-v.agreed.since < v.world.times.Heartbeat {
		return
	}
	v.settled = true
	v.outcome[Agreement] = int64(v.agreed.since - v.fault)
	v.outcome[Messages], v.outcome[Bytes] = v.atAgreement.messages, v.atAgreement.bytes
	v.outcome[Elections] = v.atAgreement.elections
}
