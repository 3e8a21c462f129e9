package viewer

// Diagram holds the events between a few nodes. Times are nanoseconds from a common start. Steps, messages and marks are each
// ordered by time. Other types refer to lanes and states by index.
type Diagram struct {
	Title    string    `json:"title"`
	Text     string    `json:"text,omitempty"`   // a sentence or two: what to look at
	At       []string  `json:"at,omitempty"`     // its value on each of Page.Axes
	Number   string    `json:"number,omitempty"` // what Step.Number counts: "term"
	Values   []string  `json:"values,omitempty"` // names of Step.Values
	Lanes    []Lane    `json:"lanes"`
	States   []State   `json:"states"`
	Start    []Step    `json:"start,omitempty"` // states of lanes before their first step, if the diagram begins later
	Steps    []Step    `json:"steps"`
	Messages []Message `json:"messages"`
	Marks    []Mark    `json:"marks,omitempty"`
	Warnings []string  `json:"warnings,omitempty"` // shown on top, for example about parts that are left out
	Wall     bool      `json:"wall,omitempty"`     // times are wall-clock times, since 1970
}

// Row returns the row of a mark, from 1, for a link to this mark. The order of rows equals the order in assets/model.js. A
// mark comes before the steps of its instant, but a mark with ToneBad comes after them.
func (d *Diagram) Row(mark int) int {
	laid, steps := 0, 0
	for i := range mark + 1 {
		m := &d.Marks[i]
		for steps < len(d.Steps) && (d.Steps[steps].Time < m.Time || m.Tone == ToneBad && d.Steps[steps].Time == m.Time) {
			steps++
		}
		laid = steps + i + 1
	}
	return laid
}

// Lane is a node.
type Lane struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // one word about it: "learner", "priority 3"
}

// State is a state of a node, as explained in the legend. Its letter is readable without colours.
type State struct {
	Name   string `json:"name"`
	Letter string `json:"letter"`
	Tone   Tone   `json:"tone"`
}

// Tone is a meaning that has a colour. There are only a few, so that the colours are easy to distinguish.
type Tone string

// The tones.
const (
	ToneCalm Tone = "calm" // an ordinary member
	ToneAsk  Tone = "ask"  // campaigns
	ToneLead Tone = "lead" // leads
	ToneIdle Tone = "idle" // takes no part
	ToneDown Tone = "down" // crashed, stopped
	ToneInfo Tone = "info" // of marks: a phase
	ToneWarn Tone = "warn" // of marks: a fault
	ToneBad  Tone = "bad"  // something that must not happen
)

// Step is what a node did at one moment, and its state afterwards.
type Step struct {
	Time    int64    `json:"t"`
	Lane    int      `json:"l"`
	State   int      `json:"s"`
	Number  uint64   `json:"n,omitempty"`
	Text    string   `json:"x,omitempty"` // the rule that acted, in one sentence
	Details []string `json:"d,omitempty"` // more sentences, shown when the step is selected
	Major   bool     `json:"m,omitempty"` // a decision: listed, and a stop when jumping
	Values  []string `json:"v,omitempty"` // present values of the node, named by Diagram.Values; absent: unchanged
	Log     *Log     `json:"log,omitempty"`
}

// Log changes the log of a node. The change drops the entries after After, and then appends Runs. Durable is the last durable
// index of the log, and Committed is the last committed index.
type Log struct {
	After     uint64 `json:"a"`
	Runs      []Run  `json:"r,omitempty"`
	Durable   uint64 `json:"d,omitempty"`
	Committed uint64 `json:"c,omitempty"`
}

// Run is a sequence of entries of one term and kind.
type Run struct {
	Term  uint64 `json:"t"`
	Count uint64 `json:"n"`
	Kind  string `json:"k,omitempty"` // absent: the ordinary kind
}

// Message is a message, in flight from Sent until the step that receives it.
type Message struct {
	From int    `json:"f"`
	To   int    `json:"o"`
	Sent int64  `json:"t"`
	Step int    `json:"s,omitempty"` // number in Diagram.Steps of the step that received it, from 1; 0: it was lost
	Kind string `json:"k"`
	Text string `json:"x,omitempty"`
	Tone Tone   `json:"c,omitempty"` // absent: ordinary; ToneLead, ToneAsk and ToneBad stand out
}

// Mark is an event outside the nodes, or a remark about it.
type Mark struct {
	Time  int64    `json:"t"`
	Until int64    `json:"u,omitempty"` // end, if the event lasts
	Lanes []int    `json:"l,omitempty"` // the lanes that it concerns; absent: all
	Tone  Tone     `json:"c"`           // ToneInfo, ToneWarn or ToneBad
	Text  string   `json:"x"`
	Cut   [][2]int `json:"cut,omitempty"` // the links that are cut, from and to, until the next mark with Cuts
	Cuts  bool     `json:"cuts,omitempty"`
}
