package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/sim"
)

// belief is the leader that a scripted member follows from a time on, in milliseconds.
type belief struct {
	at     int
	leader Rank
	epoch  uint64
}

// scripted is a machine that plays a part, to test the watch and not an algorithm. At each change of its belief it begins an
// election, and sends a message to the next member.
type scripted struct {
	part []belief
	now  belief
}

func (s *scripted) Start(e *Env)                { s.next(e) }
func (s *scripted) Receive(*Env, Rank, Message) {}
func (s *scripted) Leader() (Rank, uint64)      { return s.now.leader, s.now.epoch }

func (s *scripted) Fire(e *Env, _ Timer) {
	s.now, s.part = s.part[0], s.part[1:]
	e.Elect()
	e.Send(e.Self()%Rank(e.N())+1, Heartbeat{s.now.leader})
	s.next(e)
}

func (s *scripted) next(e *Env) {
	if len(s.part) > 0 {
		e.Set(AlgorithmTimer, ms(s.part[0].at)-e.Now())
	}
}

func ms(n int) sim.Time { return sim.Time(n) * sim.Time(time.Millisecond) }

// play lets members play their parts until one second after a fault, which comes at 100 ms.
func play(parts [][]belief, faults func(w *world)) Outcome {
	a := &Algorithm{Epochs: true, New: func(o Options) Machine { return &scripted{part: parts[o.Self-1]} }}
	w := newWorld(a, &Setup{N: len(parts), Times: Scaled()}, 1, nil)
	for i := range parts {
		w.member(Rank(i + 1)).clock = sim.Clock{}
		w.startAt(0, Rank(i+1))
	}
	w.fault(ms(100), "it begins", func() {})
	if faults != nil {
		faults(w)
	}
	return w.watch.end(w.run(ms(1100)))
}

// follows returns a part: from a time on, the member follows one leader in epoch 1.
func follows(at int, leader Rank) []belief { return []belief{{at, leader, 1}} }

var watched = []struct {
	name    string
	parts   [][]belief
	faults  func(w *world)
	measure Measure
	want    int64
}{
	{
		"agreement begins when the last connected member holds the leader",
		[][]belief{follows(200, 3), follows(250, 3), follows(180, 3)}, nil, Agreement, int64(ms(150)),
	},
	{
		"an agreement shorter than a heartbeat interval is none",
		[][]belief{
			{{200, 3, 1}, {240, 0, 0}, {400, 3, 1}}, follows(200, 3), follows(200, 3),
		}, nil, Agreement, int64(ms(300)),
	},
	{
		"nobody agrees on a leader that is down", [][]belief{follows(200, 3), follows(200, 3), follows(200, 3)},
		func(w *world) { w.at(ms(190), func() { w.crash(3) }) }, Agreement, Never,
	},
	{
		"nobody agrees on one that does not lead", [][]belief{follows(200, 3), follows(200, 3), follows(200, 2)},
		nil, Agreement, Never,
	},
	{
		"a member that is cut off need not agree", [][]belief{follows(200, 3), nil, follows(200, 3)},
		func(w *world) { w.at(ms(100), func() { w.cut([]int{0, 1, 0}) }) }, Agreement, int64(ms(100)),
	},
	{
		"nor one that only does not hear the leader", [][]belief{follows(200, 3), nil, follows(200, 3)},
		func(w *world) { w.at(ms(100), func() { w.cutOne(2, 1) }) }, Agreement, int64(ms(100)),
	},
	{
		"nor one that only the leader does not hear", [][]belief{follows(200, 3), nil, follows(200, 3)},
		func(w *world) { w.at(ms(100), func() { w.cutOne(1, 2) }) }, Agreement, int64(ms(100)),
	},
	{
		"and does not count: half of the live members is too few", [][]belief{
			follows(50, 4), follows(50, 4), follows(50, 4), follows(50, 4),
		},
		func(w *world) { w.at(ms(100), func() { w.cut([]int{0, 0, 1, 1}) }) }, Agreement, Never,
	},
	{
		"nobody follows a leader of another term", [][]belief{
			{{50, 3, 5}}, {{50, 3, 5}}, {{50, 3, 5}, {140, 3, 1}},
		}, nil, Agreement, Never,
	},
	{
		"a leader that came back before it was missed claims to lead: who has not heard so does not follow",
		[][]belief{follows(50, 3), follows(50, 3), follows(50, 3)},
		func(w *world) { w.at(ms(100), func() { w.crash(3) }); w.startAt(ms(110), 3) }, Agreement, Never,
	},
	{
		"nor who holds one that left office, and took it again", [][]belief{
			follows(50, 3), follows(50, 3), {{50, 3, 1}, {140, 0, 0}, {150, 3, 1}},
		}, nil, Agreement, Never,
	},
	{
		"messages count until the agreement, from the fault on",
		[][]belief{follows(200, 3), follows(250, 3), {{50, 3, 1}, {600, 3, 1}}}, nil, Messages, 2,
	},
	{
		"elections count as messages do",
		[][]belief{follows(200, 3), follows(250, 3), {{50, 3, 1}, {600, 3, 1}}}, nil, Elections, 2,
	},
	{
		"bytes are those of these messages",
		[][]belief{follows(200, 3), follows(250, 3), {{50, 3, 1}, {600, 3, 1}}}, nil, Bytes, 2 * (HeaderBytes + RankBytes),
	},
	{
		"two leaders at one instant: the longest time",
		[][]belief{
			{{50, 1, 1}, {200, 0, 0}, {300, 1, 3}, {600, 0, 0}}, {{150, 2, 2}}, nil,
		}, nil, TwoLeaders, int64(ms(300)),
	},
	{
		"two in one term", [][]belief{
			{{150, 1, 1}}, {{200, 2, 1}, {350, 2, 2}}, nil,
		}, nil, TwoInTerm, int64(ms(150)),
	},
	{
		"two in different terms are not two in one", [][]belief{follows(200, 1), {{200, 2, 2}}, nil},
		nil, TwoInTerm, 0,
	},
	{
		"the time without any leader adds up", [][]belief{
			{{50, 1, 1}, {200, 0, 0}, {300, 1, 1}, {600, 0, 0}, {700, 1, 1}}, nil, nil,
		}, nil, Leaderless, int64(ms(200)),
	},
	{
		"a leader that crashed leads no more", [][]belief{follows(50, 1), nil, nil},
		func(w *world) { w.at(ms(900), func() { w.crash(1) }) }, Leaderless, int64(ms(200)),
	},
	{
		"a change although the old leader works has no cause", [][]belief{
			{{50, 1, 1}, {300, 2, 2}}, {{50, 1, 1}, {310, 2, 2}}, follows(50, 1),
		}, nil, Changes, 1,
	},
	{
		"to lead again is no change", [][]belief{
			{{50, 1, 1}, {300, 0, 0}, {400, 1, 2}}, nil, nil,
		}, nil, Changes, 0,
	},
	{
		"a crash of the old leader is a cause", [][]belief{follows(50, 1), {{50, 1, 1}, {310, 2, 2}}, nil},
		func(w *world) { w.at(ms(300), func() { w.crash(1) }) }, Changes, 0,
	},
	{
		"its return is none for another change", [][]belief{
			{{50, 1, 1}, {500, 1, 3}}, {{50, 1, 1}, {310, 2, 2}, {500, 0, 0}}, nil,
		},
		func(w *world) { w.at(ms(300), func() { w.crash(1) }); w.startAt(ms(400), 1) }, Changes, 1,
	},
	{
		"that the old leader lost the majority is a cause, though it has come back", [][]belief{
			{{50, 1, 1}, {350, 0, 0}}, {{50, 1, 1}, {400, 2, 2}}, nil,
		},
		func(w *world) {
			w.at(ms(300), func() { w.cut([]int{0, 1, 2}) })
			w.at(ms(350), w.mend)
		}, Changes, 0,
	},
	{
		"that it does not hear the majority is one, too", [][]belief{
			{{50, 1, 1}, {350, 0, 0}}, {{50, 1, 1}, {400, 2, 2}}, nil,
		},
		func(w *world) { w.at(ms(300), func() { w.cutOne(1, 0); w.cutOne(2, 0) }) }, Changes, 0,
	},
	{
		"that it is left with half of an even number is one, too", [][]belief{
			{{50, 1, 1}, {350, 0, 0}}, nil, {{50, 1, 1}, {400, 3, 2}}, nil,
		},
		func(w *world) { w.at(ms(300), func() { w.cut([]int{0, 0, 1, 1}) }) }, Changes, 0,
	},
	{
		"the end of two leaders is no change without a cause", [][]belief{
			{{50, 1, 1}}, {{60, 2, 2}}, {{300, 3, 3}},
		}, nil, Changes, 0,
	},
	{
		"one that leads on when a second one has given way is the old leader again", [][]belief{
			{{50, 1, 1}}, {{200, 2, 2}, {250, 1, 1}}, {{400, 3, 3}},
		}, nil, Changes, 2,
	},
	{
		"and what has happened to it since it began is a cause, though nothing happened to the second one", [][]belief{
			{{50, 1, 1}}, {{200, 2, 2}, {250, 1, 1}}, {{400, 3, 3}},
		},
		func(w *world) {
			w.at(ms(210), func() { w.cut([]int{0, 1, 1}) })
			w.at(ms(240), w.mend)
		}, Changes, 1,
	},
	{
		"so that a crash of the first one is a cause, though the second one works", [][]belief{
			{{50, 1, 1}}, {{200, 2, 2}, {250, 1, 1}}, {{400, 3, 3}},
		},
		func(w *world) { w.at(ms(300), func() { w.crash(1) }) }, Changes, 1,
	},
	{
		"one that takes over again and again, and gives way each time, changes the leader each time", [][]belief{
			{{50, 1, 1}}, {{200, 2, 2}, {250, 1, 1}, {300, 2, 3}, {350, 1, 1}, {400, 2, 4}, {450, 1, 1}}, follows(50, 1),
		}, nil, Changes, 3,
	},
	{
		"an agreement on another one begins anew, though it comes at one step with the end of the last", [][]belief{
			follows(50, 1), {{270, 1, 1}, {300, 3, 1}}, follows(50, 3),
		},
		func(w *world) { w.at(ms(60), func() { w.cutOne(0, 2); w.cutOne(2, 0) }) }, Agreement, int64(ms(200)),
	},
	{"a run ends if the members agree at its end", [][]belief{follows(50, 1), follows(50, 1)}, nil, Ends, 1},
	{
		"a run does not end if they agree no more", [][]belief{follows(50, 1), {{50, 1, 1}, {900, 2, 2}}},
		nil, Ends, 0,
	},
}

func TestWatch_MeasuresWhatItSays(t *testing.T) {
	for _, row := range watched {
		t.Run(row.name, func(t *testing.T) {
			got := play(row.parts, row.faults)[row.measure]
			if got > int64(ms(1)) {
				got -= got % 100 // a timer is a nanosecond late: clocks round up
			}
			assert.Equal(t, row.want, got)
		})
	}
}

// A leader crashes and comes back. A member that followed it before the crash follows it again when it hears the leader's new
// reign. Messages that were in flight at the crash do not belong to the new reign. Neither do messages that the leader sends
// before it leads again.
func TestWatch_WhoHearsALeaderThatCameBackFollowsIt(t *testing.T) {
	for _, row := range []struct {
		rule   string
		first  []belief // of 2, until it crashes
		second []belief // and when it is back
		want   func(at int64) bool
	}{
		{
			"it is heard", follows(50, 2), []belief{{115, 0, 0}, {200, 2, 1}},
			func(at int64) bool { return at > int64(ms(100)+delayMin/2) && at <= int64(ms(100)+delayMax) },
		},
		{
			"only what was sent before the crash arrives", []belief{{50, 2, 1}, {98, 2, 1}, {99, 2, 1}}, nil,
			func(at int64) bool { return at == Never },
		},
	} {
		lives := [][]belief{row.first, row.second}
		a := &Algorithm{New: func(o Options) Machine {
			if o.Self == 1 {
				return &scripted{part: follows(50, 2)}
			}
			part := lives[0]
			lives = lives[1:]
			if part == nil {
				return &mute{leader: 2}
			}
			return &scripted{part: part}
		}}
		w := newWorld(a, &Setup{N: 2, Times: Scaled()}, 1, nil)
		w.startAt(0, 1)
		w.startAt(0, 2)
		w.fault(ms(100), "2 crashes", func() { w.crash(2) })
		w.startAt(ms(100)+1, 2)
		assert.Condition(t, func() bool { return row.want(w.watch.end(w.run(ms(1100)))[Agreement]) }, row.rule)
	}
}

// mute is a machine that leads at once, and says nothing.
type mute struct{ leader Rank }

func (*mute) Start(*Env)                  {}
func (*mute) Fire(*Env, Timer)            {}
func (*mute) Receive(*Env, Rank, Message) {}
func (m *mute) Leader() (Rank, uint64)    { return m.leader, 1 }

func TestRun_IsCutAtItsBudgetAndDoesNotEnd(t *testing.T) {
	w := newWorld(&Algorithm{New: func(Options) Machine { return &restless{} }}, &Setup{N: 1, Times: Scaled()}, 1, nil)
	w.budget = 1000
	w.startAt(0, 1)
	w.fault(0, "it begins", func() {})
	inTime := w.run(runTime)
	assert.False(t, inTime)
	assert.Equal(t, 1000, w.step)
	assert.Less(t, w.queue.Now(), runTime)
	o := w.watch.end(inTime)
	assert.Equal(t, int64(0), o[Ends])
	assert.Equal(t, int64(0), o[Agreement], "what was measured until then stays")
}

// restless is a machine that leads, and never comes to rest.
type restless struct{}

func (*restless) Start(e *Env)                { e.Set(AlgorithmTimer, ms(1)) }
func (*restless) Fire(e *Env, _ Timer)        { e.Set(AlgorithmTimer, ms(1)) }
func (*restless) Receive(*Env, Rank, Message) {}
func (*restless) Leader() (Rank, uint64)      { return 1, 0 }
