package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
)

// clockScenarios show how one wrong wall clock must not affect the stamps of entries.
var clockScenarios = []scenario{
	{name: "leader-years-ahead", voters: 3, play: leaderYearsAhead, source: "class of CockroachDB's clock offsets",
		about: "a leader whose wall clock jumps ten years ahead does not shift the stamps of all later entries"},
	{
		name: "new-leader-years-ahead", voters: 3, play: newLeaderYearsAhead,
		about: "a new leader whose wall clock is ten years ahead does not stamp even its first entry by that clock alone",
	},
}

// strangerScenarios show which effects a sender must not have if the configuration does not name it.
var strangerScenarios = []scenario{{
	name: "answer-of-a-stranger", voters: 3, play: answerOfAStranger,
	about: "a reply of a newer term from a sender that the configuration does not name deposes no leader",
}}

func answerOfAStranger(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.written(a)
	answers := d.hold(these(b), these(a), raft.HeartbeatReply{})
	d.until("b answers a heartbeat", answers.some)
	reigns := d.reignsOn(a)
	for _, m := range answers.taken() {
		d.forge(m, func(m *raft.Message) {
			m.From = raft.Peer{ID: "stranger", Incarnation: 77}
			m.Term++
		})
	}
	d.check("a still leads", reigns)
}

const (
	tenYears      = int64(10 * 365 * 24 * time.Hour)
	stampAheadMax = int64(time.Minute)
)

// stampsAreSane checks the stamps of the entries from an index on. The stamps never fall. They are ahead of a correct clock
// by at most a minute, plus one second for the time that passes meanwhile.
func (d *director) stampsAreSane(n, right *node, from int) {
	latest := right.clock.Wall(d.c.now()) + stampAheadMax + int64(time.Second)
	d.check("the stamps of "+n.name()+" never fall, and stay close to the clocks of the others", func() bool {
		for i := from; i < len(n.log); i++ {
			if n.log[i].entry.Time > latest || i > 0 && n.log[i].entry.Time < n.log[i-1].entry.Time {
				return false
			}
		}
		return len(n.log) > from
	})
}

func leaderYearsAhead(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.written(a)
	for _, jump := range []int64{tenYears, -2 * tenYears, tenYears} {
		a.clock.Jump(jump)
		from := len(a.log)
		d.written(a)
		d.wait(1)
		d.stampsAreSane(a, b, from)
	}
	a.clock.Jump(tenYears)
	d.written(a)
	d.crash(a)
	d.elect(b)
	d.written(b)
	d.stampsAreSane(b, b, 0)
}

func newLeaderYearsAhead(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.written(a)
	b.clock.Jump(tenYears)
	d.wait(1)
	from := len(b.log)
	replies := d.lose(nil, these(b), raft.HeartbeatReply{})
	d.crash(a)
	d.elect(b)
	d.stampsAreSane(b, c, from)
	replies.stop()
	d.written(b)
	d.stampsAreSane(b, c, from)
}
