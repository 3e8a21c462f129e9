package sim

// OutageKind says what happens to a process.
type OutageKind int

// The kinds.
const (
	Crash     OutageKind = iota // a process dies and restarts
	PowerCut                    // several die at the same instant
	CrashLoop                   // a process dies again and again while it starts
	Pause                       // a process does not run, but its clock does
	Suspend                     // a process does not run, and its clock is stopped
	Slow                        // a process is slow in everything
)

func (k OutageKind) String() string {
	return [...]string{"crash", "power cut", "crash loop", "pause", "suspend", "slow"}[k]
}

// OutageFaults defines how often processes fail, and for how long. It holds the mean time between two outages of a kind in
// the whole cluster (0: never), and the durations of the outages.
type OutageFaults struct {
	Every [Slow + 1]Time
	For   [Slow + 1]Time
}

// Outage is one failure of processes.
type Outage struct {
	Kind  OutageKind
	Nodes uint64
	For   Time // time until the process restarts or continues
	Again int  // CrashLoop: number of further crashes
	// Effects delays the outage until the process has had this many more effects. The outage then happens in the middle of
	// the process's work. 0 means at once.
	Effects int
}

// Outages draws outages of one kind. Each kind has its own stream.
type Outages struct {
	Kind   OutageKind
	every  Time
	length Time
	n      int
	random *Stream
}

// NewOutages returns one source for each kind that can happen.
func NewOutages(seed uint64, n int, f OutageFaults) []*Outages {
	var all []*Outages
	for k := Crash; k <= Slow; k++ {
		if f.Every[k] > 0 {
			stream := NewStream(seed, ProcessConcern<<8+Concern(k))
			all = append(all, &Outages{k, f.Every[k], f.For[k], n, stream})
		}
	}
	return all
}

// Wait draws the time until the next outage.
func (o *Outages) Wait() Time { return 1 + o.random.Exponential(o.every) }

// Next draws the next outage.
func (o *Outages) Next() Outage {
	out := Outage{Kind: o.Kind, Nodes: 1 << o.random.IntN(o.n), For: 1 + o.random.Exponential(o.length)}
	effects, again := o.random.IntN(12), 1+o.random.IntN(5)
	size, all := 1+o.random.IntN(o.n), o.random.Coin()
	several := o.random.Subset(o.n, size)
	switch o.Kind {
	case Crash:
		out.Effects = effects
	case CrashLoop:
		out.Again = again
	case PowerCut:
		if out.Nodes = several; all {
			out.Nodes = 1<<o.n - 1
		}
	}
	return out
}
