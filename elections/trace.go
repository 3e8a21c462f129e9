package elections

import "github.com/coxswain/raft/internal/sim"

// TraceFormat is the version of Record. It is raised by every change that a reader must know of.
const TraceFormat = 2

// RecordKind says what a Record tells.
type RecordKind string

// The kinds of records. Those of one step have its number: first what happened to a member (start, timer,
// arrive, told) or to the world (the others), then what came of it (rule, send, leader).
const (
	RecordBegin  RecordKind = "begin"  // the run; Text: algorithm, scenario
	RecordStart  RecordKind = "start"  // the process Member starts
	RecordCrash  RecordKind = "crash"  // it ends
	RecordArrive RecordKind = "arrive" // Member takes Message from Peer
	RecordTimer  RecordKind = "timer"  // Member's Timer has run out
	RecordTold   RecordKind = "told"   // Member is told something by its operator: Text
	RecordRule   RecordKind = "rule"   // which rule acts: Text
	RecordSend   RecordKind = "send"   // Member sends Message, a Text, to Peer; a Lost one never arrives
	RecordLeader RecordKind = "leader" // Member takes Peer, 0 for nobody, for the leader of Epoch
	RecordCut    RecordKind = "cut"    // Member cannot send to Peer any more
	RecordMend   RecordKind = "mend"   // it can again
	RecordFault  RecordKind = "fault"  // the scenario acts: Text; the first one is what times count from
	RecordAgree  RecordKind = "agree"  // the members agree on Peer from now on
	RecordPart   RecordKind = "part"   // they do not any more
	RecordEnd    RecordKind = "end"    // the run is over
)

// Record is one line of a trace: what a diagram of the run is drawn from, for any algorithm. A message
// that was sent and has no arrive was lost, or met a cut link or a process that was down.
type Record struct {
	Step    int        `json:"step"`
	At      sim.Time   `json:"at"` // nanoseconds
	Kind    RecordKind `json:"kind"`
	Member  Rank       `json:"member,omitempty"`
	Peer    Rank       `json:"peer,omitempty"`
	Message int        `json:"message,omitempty"` // pairs send and arrive
	Bytes   int        `json:"bytes,omitempty"`
	Lost    bool       `json:"lost,omitempty"`
	Timer   Timer      `json:"timer,omitempty"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Text    string     `json:"text,omitempty"`
	N       int        `json:"n,omitempty"`      // begin: how many members
	Seed    uint64     `json:"seed,omitempty"`   // begin
	Format  int        `json:"format,omitempty"` // begin
}

// record tells the trace, if there is one.
func (w *world) record(r Record) {
	if w.trace == nil {
		return
	}
	r.Step, r.At = w.step, w.queue.Now()
	w.trace(r)
}
