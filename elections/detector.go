package elections

// The timers of the detector.
const (
	TimerHeartbeat Timer = iota // of a leader: it is time for a heartbeat
	TimerSuspect                // of a follower: the leader has been silent for too long
	// AlgorithmTimer is the first timer of an algorithm's own.
	AlgorithmTimer
)

// Heartbeat is HEARTBEAT(id), which a leader sends to all at every heartbeat interval.
type Heartbeat struct{ Leader Rank }

// Kind returns the message's name.
func (Heartbeat) Kind() string { return "HEARTBEAT" }

// Bytes returns the message's size.
func (Heartbeat) Bytes() int { return HeaderBytes + RankBytes }

// Detector notices that the leader is gone. Some sources say only that a process notices a failure; their algorithms share
// this detector. The leader sends heartbeats. If a member hears no heartbeat for the timeout, it suspects the leader
// (choice). Each heartbeat draws a new timeout.
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
	e.Rule("I lead: I send my heartbeats.")
	e.Stop(TimerSuspect)
	e.Set(TimerHeartbeat, e.Times().Heartbeat)
	e.Broadcast(heartbeat)
}

// Watch restarts the wait for the leader. It is called whenever the leader is heard.
func (Detector) Watch(e *Env) {
	e.Stop(TimerHeartbeat)
	e.Set(TimerSuspect, e.Times().DrawTimeout(e.Random()))
}

// WatchFixed waits for the fixed silence plus the member's δ instead of a random timeout.
func (Detector) WatchFixed(e *Env) {
	e.Stop(TimerHeartbeat)
	e.Set(TimerSuspect, e.Times().Silence+e.Times().Delta(e.N(), e.Self()))
}
