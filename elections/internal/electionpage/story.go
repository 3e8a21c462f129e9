package electionpage

import (
	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/sim"
)

// story is a run, prepared for drawing. Times count from the first fault.
type story struct {
	n     int
	acts  []*act
	turns []turn
	cuts  []cut
	calms []agreement
	began sim.Time // the first instant that is worth drawing
	end   sim.Time
}

// act is the behaviour of one member at one instant. The member starts, crashes, receives a message, or gets an order of its
// operator, or one of its timers expires.
type act struct {
	elections.Record // what happened to it
	rules            []string
	sent             []elections.Record
	leader           elections.Rank // the leader that it follows afterwards
	epoch            uint64
	changed          bool // it followed another one before
	down             bool
}

// turn is something that happened in the world.
type turn struct {
	at   sim.Time
	text string
}

// cut is the set of links that are cut from a time on.
type cut struct {
	at    sim.Time
	links [][2]int
}

// agreement is an interval in which the members agreed.
type agreement struct {
	from, to sim.Time
	whom     elections.Rank
}

// reader builds a story from records, one at a time.
type reader struct {
	story   *story
	fault   sim.Time
	faulted bool
	last    map[elections.Rank]*act
	links   map[[2]int]bool
	order   [][2]int // the cut links, in the order of cutting
	agreed  *agreement
}

// read runs a seed, and returns its story.
func read(a *elections.Algorithm, s *elections.Scenario, setup *elections.Setup, seed uint64) (*story, error) {
	r := &reader{story: &story{n: setup.N}, last: map[elections.Rank]*act{}, links: map[[2]int]bool{}}
	if _, err := elections.Run(a, s, setup, seed, r.take); err != nil {
		return nil, err
	}
	r.settle(setup.Times.Heartbeat)
	return r.story, nil
}

// take processes a record.
func (r *reader) take(record elections.Record) {
	t := r.story
	switch record.Kind {
	case elections.RecordFault:
		if !r.faulted {
			r.faulted, r.fault = true, record.At
		}
		t.turns = append(t.turns, turn{record.At, record.Text})
	case elections.RecordStart, elections.RecordCrash, elections.RecordArrive, elections.RecordTimer, elections.RecordTold,
		elections.RecordLost:
		r.begin(record)
	case elections.RecordRule:
		r.rule(record)
	case elections.RecordSend:
		last := r.last[record.Member]
		last.sent = append(last.sent, record)
	case elections.RecordLeader:
		last := r.last[record.Member]
		last.changed = last.changed || last.leader != record.Peer
		last.leader, last.epoch = record.Peer, record.Epoch
	case elections.RecordCut, elections.RecordMend:
		r.relink(record)
	case elections.RecordAgree, elections.RecordPart:
		r.agree(record)
	case elections.RecordEnd:
		t.end = record.At
	}
}

// begin begins an act. The member keeps its leader, unless it crashes.
func (r *reader) begin(record elections.Record) {
	next := &act{Record: record}
	if last := r.last[record.Member]; last != nil && record.Kind != elections.RecordCrash {
		next.leader, next.epoch = last.leader, last.epoch
	}
	next.down = record.Kind == elections.RecordCrash
	r.last[record.Member] = next
	r.story.acts = append(r.story.acts, next)
}

func (r *reader) rule(record elections.Record) {
	last := r.last[record.Member]
	last.rules = append(last.rules, record.Text)
}

func (r *reader) relink(record elections.Record) {
	t := r.story
	link := [2]int{int(record.Member) - 1, int(record.Peer) - 1}
	if record.Kind == elections.RecordCut {
		r.order = append(r.order, link)
	}
	r.links[link] = record.Kind == elections.RecordCut
	var links [][2]int
	for _, l := range r.order {
		if r.links[l] {
			links = append(links, l)
		}
	}
	if n := len(t.cuts); n > 0 && t.cuts[n-1].at == record.At {
		t.cuts = t.cuts[:n-1]
	}
	t.cuts = append(t.cuts, cut{record.At, links})
}

func (r *reader) agree(record elections.Record) {
	if r.agreed != nil {
		r.agreed.to = record.At
		r.story.calms = append(r.story.calms, *r.agreed)
		r.agreed = nil
	}
	if record.Kind == elections.RecordAgree {
		r.agreed = &agreement{from: record.At, whom: record.Peer}
	}
}

// settle makes all times count from the fault. It sets the beginning of the story shortly before the first fault or cut. It
// drops agreements that did not last for a heartbeat interval, and agreements that began before the fault.
func (r *reader) settle(heartbeat sim.Time) {
	t := r.story
	r.agree(elections.Record{At: t.end})
	began := r.fault
	if len(t.cuts) > 0 {
		began = min(began, t.cuts[0].at)
	}
	t.began = began - 2*heartbeat - r.fault
	t.end -= r.fault
	for _, a := range t.acts {
		a.At -= r.fault
		for i := range a.sent {
			a.sent[i].At -= r.fault
		}
	}
	for i := range t.turns {
		t.turns[i].at -= r.fault
	}
	for i := range t.cuts {
		t.cuts[i].at -= r.fault
	}
	var lasting []agreement
	for _, a := range t.calms {
		if a.to-a.from >= heartbeat && a.from > r.fault {
			lasting = append(lasting, agreement{a.from - r.fault, a.to - r.fault, a.whom})
		}
	}
	t.calms = lasting
}
