package elections

import (
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// Scenario is a plan of faults, the same for every algorithm.
type Scenario struct {
	Name    string
	Title   string
	Meaning string   // in scaled times; see Told
	cuts    bool     // links are cut: it takes at most sim.NodesMax members
	cold    bool     // the fault is the start itself
	before  sim.Time // how long before the fault the scenario begins to act, in scaled times
	// only reports whether the scenario applies to an algorithm. If only is nil, the scenario applies to all algorithms.
	only func(*Algorithm) bool
	// inject plans the faults. The last one comes before the run ends.
	inject func(w *world, fault sim.Time)
}

// Told describes the scenario for this time profile.
func (s *Scenario) Told(t *Times) string {
	if t.Heartbeat == scaledHeartbeat {
		return s.Meaning
	}
	return fmt.Sprintf("%s Here everything except message delays takes %d times as long.", s.Meaning, t.longer())
}

// Durations in scaled times; see Times.lasting.
const (
	runTime        = sim.Time(30 * time.Second) // of a run, from its fault on
	startSpread    = sim.Time(50 * time.Millisecond)
	partitionTime  = sim.Time(10 * time.Second)
	cutBefore      = sim.Time(5 * time.Second)
	cascadeReturns = sim.Time(10 * time.Second)
	flapEvery      = sim.Time(3 * time.Second)
	flapDown       = sim.Time(time.Second)
	flaps          = 7
	stormTime      = sim.Time(10 * time.Second)
	stormEvery     = sim.Time(500 * time.Millisecond)
	stormDownMin   = sim.Time(200 * time.Millisecond)
	stormDownMax   = sim.Time(time.Second)
	coarseFrom     = sim.Time(80 * time.Millisecond)
	coarseEvery    = sim.Time(70 * time.Millisecond)
)

var scenarios = []*Scenario{
	{
		Name: "cold-start", Title: "Cold start of all", cold: true, inject: coldStart,
		Meaning: "All processes start within 50 ms. Times count from the first instant.",
	},
	{
		Name: "leader-crash", Title: "Leader crash", inject: leaderCrash,
		Meaning: "The leader crashes, and stays down.",
	},
	{
		Name: "several-detectors", Title: "Several detectors at one instant", inject: severalDetectors,
		Meaning: "The leader crashes, and the timers that are running then expire together, at instants 70 ms apart.",
	},
	{
		Name: "cascade", Title: "Cascade", inject: cascade,
		Meaning: "The leader crashes, and the next leader crashes within 5 ms of taking over. Both are back after 10 s.",
	},
	{
		Name: "minority", Title: "Majority/minority partition", cuts: true, inject: minority,
		Meaning: "The leader and as many others as still form a minority are cut off for 10 s.",
	},
	{
		Name: "three-way", Title: "Three-way partition", cuts: true, inject: threeWay,
		Meaning: "Three parts, as equal as possible, are cut off from each other for 10 s; none is a majority.",
	},
	{
		Name: "one-way", Title: "One-way link", cuts: true, inject: oneWay,
		Meaning: "For 10 s, one member does not hear the leader, but the leader hears it. No other link is cut.",
	},
	{
		Name: "deaf", Title: "Deaf member", cuts: true, inject: deaf,
		Meaning: "For 10 s, one member that does not lead hears nobody, but everybody hears it.",
	},
	{
		Name: "flapping", Title: "Flapping highest rank", inject: flapping,
		Meaning: "The highest rank crashes every 3 s, seven times, and is back after 1 s and a random part of a heartbeat interval.",
	},
	{
		Name: "flapping-leader", Title: "Flapping leader", inject: flappingLeader,
		Meaning: "The member that leads crashes every 3 s, seven times, and is back after 1 s and a random part of a heartbeat interval.",
	},
	{
		Name: "loss-5", Title: "5 % loss", inject: loss(50_000),
		Meaning: "One message in 20 is lost from now on, and the leader crashes and stays down.",
	},
	{
		Name: "loss-20", Title: "20 % loss", inject: loss(200_000),
		Meaning: "One message in 5 is lost from now on, and the leader crashes and stays down.",
	},
	{
		Name: "quick-restart", Title: "Restart quicker than detection", inject: quickRestart,
		Meaning: "The leader crashes, and is back after a fifth of a heartbeat interval to a whole one, before anybody misses its heartbeats.",
	},
	{
		Name: "restart-storm", Title: "Restart storm", inject: restartStorm,
		Meaning: "For 10 s, a member crashes every 500 ms unless it is down, the leader first, and is back after 200 ms to 1 s.",
	},
	{
		Name: "heal", Title: "A partition heals", cuts: true, before: cutBefore, inject: heal,
		Meaning: "A partition as in minority began 5 s earlier. Now it heals, and times count from there.",
	},
	{
		Name: "clock-jump", Title: "Wall clocks jump", inject: clockJumps,
		Meaning: "The leader's wall clock jumps a minute ahead, and is set right after 10 s. At 15 s all wall clocks jump " +
			"a minute ahead, within 1 s, and at 20 s all are set right, within 1 s. Only ballots and the stable election compare the clocks of two " +
			"members.",
	},
	{
		Name: "priority-change", Title: "Priorities change", only: hasPriorities, inject: priorityChanges,
		Meaning: "Only for algorithms with priorities. A member other than the leader gets the highest; times count until the " +
			"members agree on a leader other than the old one. After 10 s the leader gets the lowest priority in service. " +
			"After 20 s the present leader is taken out of service for 5 s.",
	},
}

// Scenarios returns every scenario, in the order of the tables.
func Scenarios() []*Scenario { return scenarios }

// Takes reports whether a scenario applies to an algorithm.
func (s *Scenario) Takes(a *Algorithm) bool { return s.only == nil || s.only(a) }

// warmUp returns how much time the members have to find a leader before the fault: forty heartbeat intervals,
// and two for each member.
func warmUp(t *Times, n int) sim.Time {
	return t.lasting(sim.Time(2*time.Second) + sim.Time(n)*sim.Time(100*time.Millisecond))
}

// plan schedules the members' starts and the faults. It returns the time of the first fault.
func (s *Scenario) plan(w *world) (fault sim.Time) {
	for r := 1; r <= w.setup.N; r++ {
		w.startAt(w.chance.Between(0, w.times.lasting(startSpread)), Rank(r))
	}
	phase := w.chance.Between(0, w.times.Heartbeat)
	if !s.cold {
		fault = warmUp(&w.times, w.setup.N) + phase + w.times.lasting(s.before)
	}
	s.inject(w, fault)
	w.changePriorities(fault)
	return fault
}

// fault schedules a fault. The first one begins the measurement.
func (w *world) fault(at sim.Time, what string, act func()) {
	w.at(at, func() {
		w.record(Record{Kind: RecordFault, Text: what})
		act()
		if !w.watch.on {
			w.watch.begin()
		}
	})
}

// present returns the leader that most live members follow, or, if there is no leader, the highest rank that is
// up.
func (w *world) present() Rank {
	best, most := Rank(0), -1
	for i := range w.members {
		m := &w.members[i]
		if m.machine == nil {
			continue
		}
		held := 0
		for k := range w.members {
			if m.leader == m.env.self && w.members[k].machine != nil && w.members[k].leader == m.env.self {
				held++
			}
		}
		if held >= most {
			best, most = m.env.self, held
		}
	}
	return best
}

// crashPresent crashes the leader and returns it; 0 if nobody is up.
func (w *world) crashPresent() Rank {
	r := w.present()
	if r != 0 {
		w.crash(r)
	}
	return r
}

func coldStart(w *world, fault sim.Time) {
	w.fault(fault, "all start", func() {})
}

func leaderCrash(w *world, fault sim.Time) {
	w.fault(fault, "the leader crashes", func() { w.crashPresent() })
}

func severalDetectors(w *world, fault sim.Time) {
	w.fault(fault, "the leader crashes, and timers are coarse", func() {
		w.crashPresent()
		w.coarse.after, w.coarse.every = fault+w.times.lasting(coarseFrom), w.times.lasting(coarseEvery)
	})
}

func cascade(w *world, fault sim.Time) {
	w.fault(fault, "the leader crashes", func() {
		first, returns := w.crashPresent(), w.times.lasting(cascadeReturns)
		w.startAt(fault+returns, first)
		delay := w.chance.Between(0, delayMax)
		w.watch.began = func(next Rank) {
			w.watch.began = nil
			crash, back := w.queue.Now()+delay, fault+returns
			if crash >= back { // nobody took over before the first one was back
				back = crash + returns
			}
			w.fault(crash, "the next leader crashes", func() { w.crash(next) })
			w.startAt(back, next)
		}
	})
}

// cut cuts every link between different parts. parts maps a member, by rank from 0, to its part.
func (w *world) cut(parts []int) {
	for a := range parts {
		for b := range parts {
			if parts[a] != parts[b] {
				w.cutOne(a, b)
			}
		}
	}
}

func (w *world) cutOne(from, to int) {
	w.net.Links.Cut(sim.Partitions, from, to)
	w.record(Record{Kind: RecordCut, Member: Rank(from + 1), Peer: Rank(to + 1)})
}

// mend undoes every cut.
func (w *world) mend() {
	for a := range w.members {
		for b := range w.members {
			if !w.net.Links.Up(a, b) {
				w.record(Record{Kind: RecordMend, Member: Rank(a + 1), Peer: Rank(b + 1)})
			}
		}
	}
	w.net.Links.Heal(sim.Partitions)
}

// deal assigns members to parts, the leader first and the others in random order: sizes[0] members to part 0,
// and so on.
func (w *world) deal(sizes ...int) []int {
	n := w.setup.N
	order := []int{int(w.present()) - 1}
	for i := range n {
		if i != order[0] {
			order = append(order, i)
		}
	}
	for i := n - 1; i > 1; i-- {
		k := 1 + w.chance.IntN(i)
		order[i], order[k] = order[k], order[i]
	}
	parts := make([]int, n)
	for part, size := range sizes {
		for _, i := range order[:size] {
			parts[i] = part
		}
		order = order[size:]
	}
	return parts
}

func (w *world) isolateMinority() {
	few := (w.setup.N - 1) / 2
	w.cut(w.deal(few, w.setup.N-few))
}

func minority(w *world, fault sim.Time) {
	w.fault(fault, "the leader is cut off with a minority", w.isolateMinority)
	w.fault(fault+w.times.lasting(partitionTime), "the partition heals", w.mend)
}

func threeWay(w *world, fault sim.Time) {
	w.fault(fault, "three parts are cut off from each other", func() {
		n := w.setup.N
		w.cut(w.deal(n/3, (n+1)/3, (n+2)/3))
	})
	w.fault(fault+w.times.lasting(partitionTime), "the partition heals", w.mend)
}

func oneWay(w *world, fault sim.Time) {
	w.fault(fault, "one member does not hear the leader", func() {
		if n := w.setup.N; n > 1 {
			leader := int(w.present()) - 1
			w.cutOne(leader, (leader+1+w.chance.IntN(n-1))%n)
		}
	})
	w.fault(fault+w.times.lasting(partitionTime), "the link is mended", w.mend)
}

func deaf(w *world, fault sim.Time) {
	w.fault(fault, "one member hears nobody", func() {
		n := w.setup.N
		if n == 1 {
			return
		}
		member := (int(w.present()) + w.chance.IntN(n-1)) % n
		for from := range n {
			if from != member {
				w.cutOne(from, member)
			}
		}
	})
	w.fault(fault+w.times.lasting(partitionTime), "it hears all again", w.mend)
}

func flapping(w *world, fault sim.Time) {
	highest := Rank(w.setup.N)
	flap(w, fault, fmt.Sprintf("%d crashes", highest), func() Rank { return highest })
}

func flappingLeader(w *world, fault sim.Time) {
	flap(w, fault, "the leader crashes", func() Rank { return max(w.present(), 1) })
}

// flap crashes a member again and again, and lets it return each time.
func flap(w *world, fault sim.Time, text string, member func() Rank) {
	for i := range flaps {
		at := fault + sim.Time(i)*w.times.lasting(flapEvery)
		phase := w.chance.Between(0, w.times.Heartbeat) // otherwise each return would meet the leader's heartbeats at the same phase
		w.fault(at, text, func() {
			r := member()
			w.crash(r)
			w.startAt(at+w.times.lasting(flapDown)+phase, r)
		})
	}
}

func loss(millionths int) func(*world, sim.Time) {
	return func(w *world, fault sim.Time) {
		w.fault(fault, "messages are lost, and the leader crashes", func() {
			w.net.Faults.Loss = millionths
			w.crashPresent()
		})
	}
}

func quickRestart(w *world, fault sim.Time) {
	w.fault(fault, "the leader crashes, and is back at once", func() {
		if r := w.crashPresent(); r != 0 {
			w.startAt(fault+w.chance.Between(w.times.Heartbeat/5, w.times.Heartbeat), r)
		}
	})
}

func restartStorm(w *world, fault sim.Time) {
	for at := fault; at < fault+w.times.lasting(stormTime); at += w.times.lasting(stormEvery) {
		down := w.chance.Between(w.times.lasting(stormDownMin), w.times.lasting(stormDownMax))
		victim := Rank(1 + w.chance.IntN(w.setup.N))
		w.fault(at, "a member crashes", func() {
			if at == fault {
				victim = max(w.present(), 1)
			}
			if w.member(victim).machine != nil { // a member that is down already keeps its time of return
				w.crash(victim)
				w.startAt(at+down, victim)
			}
		})
	}
}

func heal(w *world, fault sim.Time) {
	w.at(fault-w.times.lasting(cutBefore), w.isolateMinority)
	w.fault(fault, "the partition heals", w.mend)
}
