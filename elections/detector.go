package elections

// The timers of the detector.
const (
	TimerHeartbeat Timer = iota // the leader's: it is time for a heartbeat
	TimerSuspect                // a member's: the leader was silent for too long
	// AlgorithmTimer is the first of an algorithm's own.
	AlgorithmTimer
)

// Heartbeat is HEARTBEAT(id), what a leader sends to all at every heartbeat interval.
type Heartbeat struct{ Leader Rank }

// Kind is the message's name.
func (Heartbeat) Kind() string { return "HEARTBEAT" }

// Bytes is its size.
func (Heartbeat) Bytes() int { return HeaderBytes + RankBytes }

// Detector notices that the leader is gone. The algorithms that say only "a process notices" share it: the
// leader sends heartbeats at the heartbeat interval, and a member that hears none for the timeout suspects it
// (choice). The draw is made anew whenever the leader is heard.
//
//	func (m *machine) Fire(e *Env, t Timer) {
//		switch t {
//		case TimerHeartbeat:
//			m.detector.Beat(e, Heartbeat{e.Self()})
//		case TimerSuspect:
//			... an election
type Detector struct{}

// Beat sends a leader's heartbeat, and sets the timer of the next one. A leader suspects nobody.
func (Detector) Beat(e *Env, heartbeat Message) {
	e.Rule("I lead, and make myself heard.")
	e.Stop(TimerSuspect)
	e.Set(TimerHeartbeat, e.Times().Heartbeat)
	e.Broadcast(heartbeat)
}

// Watch waits for the leader, from now on: it is called whenever the leader is heard.
func (Detector) Watch(e *Env) {
	e.Stop(TimerHeartbeat)
	e.Set(TimerSuspect, e.Times().DrawTimeout(e.Random()))
}

// WatchFixed waits with the fixed silence and the member's δ in place of the draw.
func (Detector) WatchFixed(e *Env) {
	e.Stop(TimerHeartbeat)
	e.Set(TimerSuspect, e.Times().Silence+e.Times().Delta(e.N(), e.Self()))
}
