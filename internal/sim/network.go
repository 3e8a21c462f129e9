package sim

// DelayShape is the distribution of the delays of messages.
type DelayShape int

// The shapes.
const (
	Uniform DelayShape = iota // from Min to twice Mean
	Exponential
	Pareto  // from Min on, with a heavy tail up to Max
	Bimodal // Min, but up to Max once in sixteen times
)

// Delay says how long messages travel.
type Delay struct {
	Shape          DelayShape
	Min, Mean, Max Time
}

func (d Delay) draw(s *Stream) Time {
	switch d.Shape {
	case Uniform:
		return s.Between(d.Min, max(d.Min, 2*d.Mean))
	case Exponential:
		return min(d.Min+s.Exponential(d.Mean), d.Max)
	case Pareto:
		return s.Pareto(d.Min, d.Max)
	}
	if s.IntN(16) == 0 {
		return s.Between(d.Min, d.Max)
	}
	return d.Min
}

// NetworkFaults describes how a network misbehaves. Probabilities are in millionths of the messages. The zero value is a
// perfect network without delay.
type NetworkFaults struct {
	Loss       int
	BurstBegin int // chance that a burst of losses begins on a link
	BurstEnd   int // chance that it ends
	Duplicate  int // the message arrives twice
	Replay     int // the message arrives again, up to ReplayMax later
	Misdeliver int // the message arrives at another node
	Corrupt    int // the message arrives with flipped bits
	Delay      Delay
	ReplayMax  Time
	FIFO       bool // messages of one link and lane keep their order
	Bandwidth  int  // bytes a second of each link and lane; 0: unlimited
	Capacity   int  // maximum number of messages in flight on a link; another one evicts a random one; 0: unlimited
}

// Packet names a message in flight.
type Packet int32

// Network carries messages of type M between nodes. Each link has independent lanes.
type Network[M any] struct {
	Links  *Links
	Faults NetworkFaults
	// Core is a set of nodes between which CoreFaults apply instead of Faults.
	Core       uint64
	CoreFaults NetworkFaults
	// Counts since the beginning.
	Sent, Lost, Doubled, Replayed, Misdelivered, Corrupted, Evicted, Blocked int

	n        int
	lanes    int
	random   *Stream
	schedule func(at Time, p Packet)
	routes   []route
	packets  []packet[M]
	free     []Packet
}

// route is one direction of one lane between two nodes.
type route struct {
	burst   bool
	last    Time // the latest arrival
	busy    Time // time until which the bandwidth is used up
	clogged Time // time before which nothing arrives
	queue   []Packet
	broken  int // number of times that its connection broke
}

type packet[M any] struct {
	message      M
	from, to     int
	addressee    int
	lane         int
	connection   int // value of route.broken when the packet was sent
	corrupt      bool
	evicted      bool
	occupiesLink bool
}

// Delivery is a message that arrives at To.
type Delivery[M any] struct {
	Message  M
	From, To int
	Corrupt  bool // the caller must flip bits below the codec
}

// NewNetwork connects n nodes. For each message that is to arrive, it calls schedule with the time. The caller must call
// Arrive at that time.
func NewNetwork[M any](n, lanes int, random *Stream, schedule func(at Time, p Packet)) *Network[M] {
	return &Network[M]{
		Links: NewLinks(n), n: n, lanes: lanes, random: random, schedule: schedule,
		routes: make([]route, n*n*lanes),
	}
}

func (w *Network[M]) route(from, to, lane int) *route { return &w.routes[(from*w.n+to)*w.lanes+lane] }

// Send sends a message of this many bytes. It always draws the same number of random bits, independently of the faults.
func (w *Network[M]) Send(now Time, from, to, lane, bytes int, m M) {
	w.Sent++
	f := w.faults(from, to)
	fate, more := w.random.Uint64(), w.random.Uint64()
	again := w.random.Between(0, max(f.ReplayMax, 1))
	r := w.route(from, to, lane)
	if roll(&more, f.BurstBegin) {
		r.burst = true
	}
	if roll(&more, f.BurstEnd) {
		r.burst = false
	}
	lost := roll(&fate, f.Loss) || r.burst
	doubled, replayed := roll(&fate, f.Duplicate), roll(&fate, f.Replay)
	p := packet[M]{message: m, from: from, to: to, addressee: to, lane: lane}
	stray, evicted := w.random.IntN(max(w.n-1, 1)), w.random.Uint64()
	if roll(&more, f.Misdeliver) && w.n > 1 {
		p.to = (to + 1 + stray) % w.n
		w.Misdelivered++
	}
	first, second := f.Delay.draw(w.random), f.Delay.draw(w.random)
	if w.random.Chance(f.Corrupt) {
		p.corrupt = true
		w.Corrupted++
	}
	if replayed {
		w.Replayed++
		w.put(now+again, p)
	}
	if lost {
		w.Lost++
		return
	}
	w.put(arrival(f, now, r, bytes, first), w.enqueue(f, r, p, evicted))
	if doubled {
		w.Doubled++
		w.put(arrival(f, now, r, bytes, second), p)
	}
}

// roll returns true with this probability, and uses up 20 bits.
func roll(bits *uint64, millionths int) bool {
	r := (*bits & (1<<20 - 1)) * Million >> 20
	*bits >>= 20
	return int(r) < millionths
}

// arrival returns when a message arrives.
func arrival(f *NetworkFaults, now Time, r *route, bytes int, delay Time) Time {
	leaves := now
	if f.Bandwidth > 0 {
		leaves = max(now, r.busy) + Time(bytes)*1e9/Time(f.Bandwidth)
		r.busy = leaves
	}
	at := max(leaves+delay, r.clogged)
	if f.FIFO {
		at = max(at, r.last)
	}
	r.last = max(r.last, at)
	return at
}

// enqueue adds a message to the link, and evicts another one if the link is full.
func (w *Network[M]) enqueue(f *NetworkFaults, r *route, p packet[M], random uint64) packet[M] {
	if f.Capacity == 0 {
		return p
	}
	p.occupiesLink = true
	if len(r.queue) >= f.Capacity {
		i := int(random % uint64(len(r.queue)))
		w.packets[r.queue[i]].evicted = true
		w.Evicted++
		r.queue = append(r.queue[:i], r.queue[i+1:]...)
	}
	return p
}

func (w *Network[M]) put(at Time, p packet[M]) {
	var id Packet
	if n := len(w.free); n > 0 {
		id = w.free[n-1]
		w.free = w.free[:n-1]
		w.packets[id] = p
	} else {
		id = Packet(len(w.packets))
		w.packets = append(w.packets, p)
	}
	r := w.route(p.from, p.addressee, p.lane)
	w.packets[id].connection = r.broken
	if p.occupiesLink {
		r.queue = append(r.queue, id)
	}
	w.schedule(at, id)
}

// Arrive returns the message. It returns false if the message was lost after the call of Send, because the message was
// evicted, its connection broke, or the link is cut.
func (w *Network[M]) Arrive(id Packet) (Delivery[M], bool) {
	p := w.packets[id]
	w.packets[id] = packet[M]{}
	w.free = append(w.free, id)
	r := w.route(p.from, p.addressee, p.lane)
	if p.occupiesLink && !p.evicted {
		for i, queued := range r.queue {
			if queued == id {
				r.queue = append(r.queue[:i], r.queue[i+1:]...)
				break
			}
		}
	}
	if p.evicted || p.connection != r.broken {
		return Delivery[M]{}, false
	}
	if !w.Links.Up(p.from, p.to) {
		w.Blocked++
		return Delivery[M]{}, false
	}
	return Delivery[M]{p.message, p.from, p.to, p.corrupt}, true
}

// Break loses the messages in flight on one lane from one node to another. The end of their connection has the same effect.
func (w *Network[M]) Break(from, to, lane int) { w.route(from, to, lane).broken++ }

// Clog delays all messages from one node to another until this time.
func (w *Network[M]) Clog(from, to int, until Time) {
	for lane := range w.lanes {
		w.route(from, to, lane).clogged = until
	}
}

// Under returns how many messages are in flight.
func (w *Network[M]) Under() int { return len(w.packets) - len(w.free) }

// Calm ends all faults on the links between the nodes of the set, including cuts and queues. It then applies the given faults
// to these links.
func (w *Network[M]) Calm(set uint64, faults NetworkFaults) {
	w.Core, w.CoreFaults = set, faults
	w.Links.MendAmong(set)
	for i := range w.routes {
		if from, to := i/w.lanes/w.n, i/w.lanes%w.n; (set>>from)&(set>>to)&1 == 1 {
			r := &w.routes[i]
			r.burst, r.clogged, r.busy, r.last = false, 0, 0, 0
		}
	}
}

func (w *Network[M]) faults(from, to int) *NetworkFaults {
	if (w.Core>>from)&(w.Core>>to)&1 == 1 {
		return &w.CoreFaults
	}
	return &w.Faults
}
