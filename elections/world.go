package elections

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft/internal/sim"
)

// eventsMax is the largest number of events in one run. A run with more events is cut off, and counts as a run without an
// end.
const eventsMax = 20_000_000

// world is one run: the machines, the network between them, and the faults. One goroutine owns it.
type world struct {
	algorithm *Algorithm
	setup     *Setup
	times     Times
	seed      uint64
	queue     sim.Queue[event]
	net       *sim.Network[envelope]
	chance    *sim.Stream // of the faults
	members   []member    // by rank, from 0
	// priorities are the present ones, by rank from 0; nil: the algorithm has none.
	priorities []int
	actions    []func() // faults and other scheduled actions, by index
	watch      watch
	trace      func(Record)
	step       int // counts the events
	budget     int // the most events that the run may have
	messages   int // counts the messages, which a trace names by this number
	// coarse delays some timers to the next multiple of every, counted from the time after. It affects the timers that were
	// set at the time after or earlier, and that expire later. See severalDetectors.
	coarse struct{ after, every sim.Time }
}

// member is one process, which may be down, with its clock and its disk.
type member struct {
	env     Env
	machine Machine // nil while it is down
	clock   sim.Clock
	life    uint32 // raised at a crash: events of an earlier life are ignored
	disk    any
	timers  [timersMax]timer
	leader  Rank // as its machine returns it
	epoch   uint64
	office  int // the step in which it took office, if it leads
	// hindered is true if, since this member began to lead, it was down, it was cut off from the majority, or a priority
	// changed.
	hindered bool
	unheard  bool // the leader that it follows has left office since, and it has not heard from that leader's present reign, if there is one
}

// timer is one of a member's timers. It is in the queue at most once. If the member sets it to a later time while it is in
// the queue, it is not due when it comes up, and the world puts it back.
type timer struct {
	set   sim.Time // when it was set
	due   sim.Time // 0: it does not run
	armed sim.Time // when it comes up in the queue; 0: it does not
}

// envelope is a message in flight.
type envelope struct {
	message Message
	id      int
	step    int        // the step in which it was sent
	packet  packetKind // if it is no message
	life    uint32     // of the process that dials
}

type eventKind uint8

const (
	evArrive eventKind = iota // a: the packet
	evTimer                   // a: when it was to come up
	evStart                   // the process starts
	evAction                  // a: index into actions
)

type event struct {
	kind  eventKind
	timer uint8
	rank  int16
	life  uint32
	a     int64
}

// newWorld returns a world in which no member runs yet. disks is the contents of their disks, or nil.
func newWorld(a *Algorithm, s *Setup, seed uint64, disks []any) *world {
	w := &world{algorithm: a, setup: s, times: s.Times, seed: seed, budget: eventsMax, chance: sim.NewStream(seed, sim.ProcessConcern)}
	w.net = sim.NewNetwork[envelope](s.N, 1, sim.NewStream(seed, sim.NetworkConcern), func(at sim.Time, p sim.Packet) {
		w.queue.Push(at, event{kind: evArrive, a: int64(p)})
	})
	w.net.Faults.FIFO = true
	w.net.Faults.Delay = sim.Delay{Shape: sim.Uniform, Min: delayMin, Mean: delayMax / 2}
	clocks := sim.NewStream(seed, sim.ClockConcern)
	w.members = make([]member, s.N)
	for i := range w.members {
		m := &w.members[i]
		random := sim.NewStream(seed, sim.NodeConcern+sim.Concern(i))
		m.env = Env{host: w, self: Rank(i + 1), n: s.N, times: &w.times, random: random}
		m.clock.SetDrift(0, int64(clocks.IntN(2*driftMax+1)-driftMax))
		if disks != nil {
			m.disk = disks[i]
		}
	}
	if a.Priorities != nil {
		if w.priorities = slices.Clone(s.Priorities); len(w.priorities) == 0 {
			w.priorities = a.Priorities(s.N)
		}
	}
	w.watch.world = w
	return w
}

// driftMax is the largest drift of a clock in millionths, as on an ordinary machine.
const driftMax = 100

func (w *world) member(r Rank) *member { return &w.members[r-1] }

// at schedules an action.
func (w *world) at(t sim.Time, action func()) {
	w.actions = append(w.actions, action)
	w.queue.Push(t, event{kind: evAction, a: int64(len(w.actions) - 1)})
}

// startAt schedules the start of a process, if it is down then.
func (w *world) startAt(t sim.Time, r Rank) { w.queue.Push(t, event{kind: evStart, rank: int16(r)}) }

// run runs until this time, and reports whether the budget of events was enough.
func (w *world) run(until sim.Time) bool {
	w.at(until, func() {})
	last := int64(len(w.actions) - 1)
	for w.step < w.budget {
		e, ok := w.queue.Pop()
		if !ok || e.kind == evAction && e.a == last {
			return true
		}
		w.step++
		w.handle(e)
	}
	return false
}

func (w *world) handle(e event) {
	switch e.kind {
	case evArrive:
		w.arrive(sim.Packet(e.a))
	case evTimer:
		w.comeUp(Rank(e.rank), Timer(e.timer), e)
	case evStart:
		w.start(Rank(e.rank))
	case evAction:
		w.actions[e.a]()
		w.watch.changed()
	}
}

func (w *world) start(r Rank) {
	m := w.member(r)
	if m.machine != nil {
		return
	}
	s := w.setup
	m.machine = w.algorithm.New(Options{
		Self: r, N: s.N, Candidates: s.Candidates, Priorities: w.priorities, Wins: s.Wins, Qualities: s.Qualities,
	})
	m.timers = [timersMax]timer{}
	w.record(Record{Kind: RecordStart, Member: r})
	m.machine.Start(&m.env)
	w.look(m)
	w.watch.changed()
}

// crash ends a process. Only the value that it last passed to Keep survives.
func (w *world) crash(r Rank) {
	m := w.member(r)
	if m.machine == nil {
		return
	}
	w.record(Record{Kind: RecordCrash, Member: r})
	if m.leader == r {
		w.leaveOffice(r)
	}
	m.machine, m.leader, m.epoch, m.unheard = nil, 0, 0, false
	m.life++
	w.resetConnections(r)
	w.watch.changed()
}

// prioritize gives a member another priority, which a restart keeps. It does nothing if the algorithm has no
// priorities.
func (w *world) prioritize(r Rank, priority int) {
	if w.priorities == nil {
		return
	}
	w.priorities[r-1] = priority
	for i := range w.members {
		w.members[i].hindered = true // the next leader is the operator's choice
	}
	if m := w.member(r); m.machine != nil {
		w.record(Record{Kind: RecordTold, Member: r, Text: fmt.Sprintf("priority %d", priority)})
		m.machine.(Prioritized).Prioritize(&m.env, priority)
		w.look(m)
	}
}

func (w *world) arrive(p sim.Packet) {
	d, ok := w.net.Arrive(p)
	to := Rank(d.To + 1)
	if !ok {
		return // the link is cut; the trace shows a departure without an arrival
	}
	m, from := w.member(to), Rank(d.From+1)
	if d.Message.packet != packetMessage {
		w.arrivePacket(from, to, d.Message)
		return
	}
	if m.machine == nil {
		return
	}
	w.record(Record{Kind: RecordArrive, Member: to, Peer: from, Message: d.Message.id})
	m.machine.Receive(&m.env, from, d.Message.message)
	w.look(m)
	if m.unheard && from == m.leader && w.leads(from) && d.Message.step >= w.member(from).office {
		m.unheard = false
		w.watch.changed()
	}
}

// leads reports whether a member is up and believes that it leads.
func (w *world) leads(r Rank) bool { return w.member(r).machine != nil && w.member(r).leader == r }

// leaveOffice marks each follower of this member: the follower follows a past leader, even if this member leads again.
func (w *world) leaveOffice(r Rank) {
	for i := range w.members {
		if w.members[i].leader == r {
			w.members[i].unheard = true
		}
	}
}

// look updates a member's leader after each call of its machine.
func (w *world) look(m *member) {
	leader, epoch := m.machine.Leader()
	if leader == m.leader && epoch == m.epoch {
		return
	}
	self := m.env.self
	switch {
	case leader == self && m.leader != self:
		m.office = w.step
	case leader != self && m.leader == self:
		w.leaveOffice(self)
	}
	m.leader, m.epoch, m.unheard = leader, epoch, false
	w.record(Record{Kind: RecordLeader, Member: m.env.self, Peer: leader, Epoch: epoch})
	w.watch.changed()
}

// comeUp fires a timer that is due, and puts back one that was set to a later time.
func (w *world) comeUp(r Rank, t Timer, e event) {
	m := w.member(r)
	timer := &m.timers[t]
	if m.machine == nil || e.life != m.life || e.a != int64(timer.armed) {
		return
	}
	timer.armed = 0
	if timer.due == 0 {
		return
	}
	if due := w.expiry(m, timer); due > w.queue.Now() {
		w.arm(m, t, due)
		return
	}
	timer.due = 0
	w.record(Record{Kind: RecordTimer, Member: r, Timer: t})
	m.machine.Fire(&m.env, t)
	w.look(m)
}

// expiry returns when a timer expires, in true time.
func (w *world) expiry(m *member, t *timer) sim.Time {
	due := m.clock.Shows(t.due, w.queue.Now())
	if c := w.coarse; c.every > 0 && t.set <= c.after && due > c.after {
		due = c.after + (due-c.after+c.every-1)/c.every*c.every
	}
	return due
}

func (w *world) arm(m *member, t Timer, at sim.Time) {
	m.timers[t].armed = at
	w.queue.Push(at, event{kind: evTimer, timer: uint8(t), rank: int16(m.env.self), life: m.life, a: int64(at)})
}

// The methods of host.

func (w *world) now(self Rank) sim.Time { return w.member(self).clock.Local(w.queue.Now()) }

func (w *world) wall(self Rank) int64 { return w.member(self).clock.Wall(w.queue.Now()) }

func (w *world) send(from, to Rank, m Message) {
	if to == from || to < 1 || int(to) > w.setup.N {
		panic("elections: a message goes to another member")
	}
	w.messages++
	w.watch.sent(m)
	if w.trace == nil {
		w.net.Send(w.queue.Now(), int(from-1), int(to-1), 0, 0, envelope{message: m, id: w.messages, step: w.step})
		return
	}
	lost := w.net.Lost
	w.net.Send(w.queue.Now(), int(from-1), int(to-1), 0, 0, envelope{message: m, id: w.messages, step: w.step})
	w.record(Record{
		Kind: RecordSend, Member: from, Peer: to, Message: w.messages, Text: m.Kind(), Bytes: m.Bytes(),
		Lost: w.net.Lost > lost,
	})
}

func (w *world) set(self Rank, t Timer, after sim.Time) {
	m := w.member(self)
	timer := &m.timers[t]
	timer.set, timer.due = w.queue.Now(), m.clock.Local(w.queue.Now())+max(after, 1)
	if due := w.expiry(m, timer); timer.armed == 0 || due < timer.armed {
		w.arm(m, t, due)
	}
}

func (w *world) stop(self Rank, t Timer) { w.member(self).timers[t].due = 0 }

func (w *world) rule(self Rank, sentence string) {
	if w.trace != nil {
		w.record(Record{Kind: RecordRule, Member: self, Text: sentence})
	}
}

func (w *world) elect(Rank) { w.watch.elects() }

func (w *world) stored(self Rank) any  { return w.member(self).disk }
func (w *world) keep(self Rank, v any) { w.member(self).disk = v }

// connected reports whether two members are up and hear each other.
func (w *world) connected(a, b Rank) bool {
	return w.member(a).machine != nil && w.member(b).machine != nil &&
		w.net.Links.Up(int(a-1), int(b-1)) && w.net.Links.Up(int(b-1), int(a-1))
}
