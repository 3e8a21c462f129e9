package elections

import "github.com/coxswain/raft/internal/sim"

// TraceFormat is the version of Record. If a change matters to a reader, the change raises the version.
const TraceFormat = 2

// RecordKind is the kind of a Record.
type RecordKind string

// The kinds of records. The records of one step share its number: first what happened to a member (start,
// timer, arrive, told, lost) or to the world (the others), then the consequences (rule, send, leader).
const (
	RecordBegin  RecordKind = "begin"  // the run; Text: algorithm, scenario
	RecordStart  RecordKind = "start"  // the process Member starts
	RecordCrash  RecordKind = "crash"  // it ends
	RecordArrive RecordKind = "arrive" // Member receives Message from Peer
	RecordTimer  RecordKind = "timer"  // Member's Timer has run out
	RecordTold   RecordKind = "told"   // Member is told something by its operator: Text
	RecordLost   RecordKind = "lost"   // Member learns that the process of Peer has ended
	RecordRule   RecordKind = "rule"   // which rule acts: Text
	RecordSend   RecordKind = "send"   // Member sends Message, a Text, to Peer; a Lost one never arrives
	RecordLeader RecordKind = "leader" // Member believes that Peer, 0 for nobody, is the leader of Epoch
	RecordCut    RecordKind = "cut"    // Member can no longer send to Peer
	RecordMend   RecordKind = "mend"   // it can again
	RecordFault  RecordKind = "fault"  // the scenario acts: Text; times count from the first one
	RecordAgree  RecordKind = "agree"  // the members agree on Peer from now on
	RecordPart   RecordKind = "part"   // they no longer do
	RecordEnd    RecordKind = "end"    // the run is over
)

// Record is one line of a trace. A diagram of the run can be drawn from the trace, for any algorithm. If a send has no
// arrive, the message was lost, or met a cut link or a process that was down.
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

// record passes a record to the trace, if there is one.
func (w *world) record(r Record) {
	if w.trace == nil {
		return
	}
	r.Step, r.At = w.step, w.queue.Now()
	w.trace(r)
}
