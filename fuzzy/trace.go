package fuzzy

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// TraceFormat is the version of the JSON form of Record. New fields leave it unchanged. Every other change raises it. A
// reader rejects a version that it does not know.
const TraceFormat = 1

// Record is one line of a trace. In NDJSON each line is one object, and an absent field is zero:
//
//	begin    the first line: "format" (TraceFormat), "seed", "profile", "nodes" (ids, in order)
//	start    a process was started: the fields of a step
//	step     a core took events: "events" lists them, "receives" the ids of the messages among them;
//	         "role", "term", "leader", "last" ([index, term]), "persisted", "commit" and "applied" are
//	         the core's after the step; "write" is the write that the core requests; "log" is the
//	         change of the core's log: the entries after "after" are dropped, and "runs" of entries of
//	         one term and kind are appended; "notes" are the core's decisions
//	send     "node" put message "id" for "to" on the wire: "message" is its type, "text" its content;
//	         a message whose id no step receives was lost
//	crash    the process of "node" died: "text" describes the contents that its disk keeps
//	fault    "text" describes the fault that began or ended; if "cut" is there, it lists the links that
//	         carry nothing from now on, [from, to] each
//	heal     the second phase begins
//	snapshot the state machine of an application froze its state, has written it, or was restored
//	apply    the state machine of an application has applied a command
//	failure  "text" describes the rule that did not hold
//	end      the last line; a file without it was cut short
//
// "seq" counts the lines from 1. "time" is virtual, in nanoseconds.
type Record struct {
	Seq    uint64   `json:"seq"`
	Time   sim.Time `json:"time"`
	Kind   string   `json:"kind"`
	Node   string   `json:"node,omitempty"`
	Events []string `json:"events,omitempty"`

	Role      string     `json:"role,omitempty"`
	Term      raft.Term  `json:"term,omitempty"`
	Leader    string     `json:"leader,omitempty"`
	Last      *[2]uint64 `json:"last,omitempty"`
	Persisted raft.Index `json:"persisted,omitempty"`
	Commit    raft.Index `json:"commit,omitempty"`
	Applied   raft.Index `json:"applied,omitempty"`
	Write     string     `json:"write,omitempty"`
	Log       *LogChange `json:"log,omitempty"`
	Trace     []string   `json:"notes,omitempty"`
	Receives  []uint64   `json:"receives,omitempty"`

	To      string `json:"to,omitempty"`
	ID      uint64 `json:"id,omitempty"`
	Message string `json:"message,omitempty"`
	Text    string `json:"text,omitempty"`

	Cut *[][2]string `json:"cut,omitempty"`

	Format  int      `json:"format,omitempty"`
	Seed    string   `json:"seed,omitempty"`
	Profile *Profile `json:"profile,omitempty"`
	Nodes   []string `json:"nodes,omitempty"`

	events []raft.TraceEvent // what Trace renders
}

// NDJSON returns a tracer that writes one JSON object per line.
func NDJSON(w io.Writer) func(*Record) {
	e := json.NewEncoder(w)
	return func(r *Record) { _ = e.Encode(r) } // the writer keeps its own error
}

// Text returns a tracer that writes decisions and faults as text for people. If all is true, it also writes each message and
// each step.
func Text(w io.Writer, all bool) func(*Record) {
	return func(r *Record) {
		if line := r.line(all); line != "" {
			fmt.Fprintf(w, "%10.3fms %-2s %s\n", float64(r.Time)/1e6, r.Node, line)
		}
	}
}

func (r *Record) line(all bool) string {
	switch r.Kind {
	case "begin":
		return fmt.Sprintf("seed %s, nodes %s", r.Seed, strings.Join(r.Nodes, " "))
	case "send":
		if all {
			return fmt.Sprintf("  → %s #%d %s %s", r.To, r.ID, r.Message, r.Text)
		}
		return ""
	case "step", "start":
		return r.step(all)
	}
	return strings.TrimSpace(r.Kind + " " + r.Text)
}

func (r *Record) step(all bool) string {
	if !all && len(r.Trace) == 0 && r.Kind != "start" {
		return ""
	}
	var last [2]uint64 // a file may lack it
	if r.Last != nil {
		last = *r.Last
	}
	line := fmt.Sprintf("%s %s term=%d leader=%s last=%d@%d persisted=%d commit=%d applied=%d",
		r.Kind, r.Role, r.Term, r.Leader, last[0], last[1], r.Persisted, r.Commit, r.Applied)
	if all {
		line += fmt.Sprintf(" events=%v receives=%v write=%q", r.Events, r.Receives, r.Write)
	}
	for _, event := range r.Trace {
		line += "\n                  " + event
	}
	return line
}

// record gives a record its number and time, and passes it to the tracer.
func (c *cluster) record(r Record) {
	if c.trace == nil {
		return
	}
	first := c.all()[0]
	first.lines++
	r.Seq, r.Time = first.lines, c.now()
	c.trace(&r)
}

// recordLinks records the links that are cut, if they have changed.
func (c *cluster) recordLinks() {
	cut, text := [][2]string{}, ""
	for from := range c.nodes {
		before := len(cut)
		for to := range c.nodes {
			if from != to && !c.net.Links.Up(from, to) {
				cut = append(cut, [2]string{c.nodes[from].name(), c.nodes[to].name()})
			}
		}
		if len(cut) > before {
			text += " " + c.nodes[from].name() + "→"
		}
		for _, link := range cut[before:] {
			text += link[1]
		}
	}
	if slices.Equal(cut, c.cut) {
		return
	}
	c.cut = cut
	if text == "" {
		text = " none"
	}
	c.record(Record{Kind: "fault", Text: "links that are cut:" + text, Cut: &cut})
}

// begin records the events of a step.
func (c *cluster) begin(n *node, kind string) {
	if c.trace == nil {
		return
	}
	r := &Record{Kind: kind, Node: n.name(), Receives: n.received}
	n.received = nil
	for _, e := range n.inbox {
		r.Events = append(r.Events, c.eventName(e))
	}
	c.stepped = r
}

// finish writes the record of a step before the step's effects happen, and adds the step to the hash.
func (c *cluster) finish(n *node, out *raft.Output) {
	s := &n.status
	c.hash.add(uint64(s.Term)<<8|uint64(s.Role), uint64(s.Commit)<<32|uint64(s.Last.Index))
	c.hash.add(uint64(len(out.Send))<<32|uint64(len(out.Answers))<<16|uint64(len(out.Trace)), uint64(out.WakeAt))
	if c.trace == nil {
		return
	}
	r := c.stepped
	if r.Kind == "step" && len(r.Events) > 0 {
		r.Events = r.Events[:len(r.Events):len(r.Events)]
	}
	r.Role, r.Term, r.Leader = s.Role.String(), s.Term, string(s.Leader)
	r.Last = &[2]uint64{uint64(s.Last.Index), uint64(s.Last.Term)}
	r.Persisted, r.Commit, r.Applied = s.Persisted, s.Commit, s.Applied
	r.Write, r.events = describeWrite(&out.Write), out.Trace
	r.Log = logChange(n, r.Kind == "start", out.Write.Log)
	for _, event := range out.Trace {
		r.Trace = append(r.Trace, event.String())
	}
	c.record(*r)
}

func (c *cluster) eventName(e raft.Event) string {
	if m, ok := e.(raft.Received); ok {
		return fmt.Sprintf("%s from %s", typeName(m.Message.Body), c.nameOf(m.Message.From))
	}
	return typeName(e)
}

func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "raft.") }

func describeWrite(w *raft.Write) string {
	if w.Seq == 0 {
		return ""
	}
	text := fmt.Sprintf("#%d", w.Seq)
	if w.Hard != nil {
		text += fmt.Sprintf(" term %d vote %s", w.Hard.Term, w.Hard.Vote.ID)
	}
	if w.Log != nil {
		text += fmt.Sprintf(" log after %v: %d entries", w.Log.After, len(w.Log.Entries))
	}
	return text + fmt.Sprintf(" then %d messages", len(w.Then))
}

func (c *cluster) recordSend(n *node, id uint64, m *raft.Message) {
	body := m.Body
	text := fmt.Sprintf("term %d", m.Term)
	switch r := body.(type) {
	case raft.AppendRequest:
		text += fmt.Sprintf(" (%v, %v] commit %d", r.Prev, r.Last, r.Commit)
	case raft.BootstrapRequest:
		text += fmt.Sprintf(" entry %v", r.Entry.ID())
	default:
		text += fmt.Sprintf(" %+v", body)
	}
	c.record(Record{Kind: "send", Node: n.name(), To: c.nameOf(m.To), ID: id, Message: typeName(body), Text: text})
}

// traceHash is a hash of all events of a run (T1: the same seed gives the same hash).
type traceHash struct{ sum uint64 }

func (h *traceHash) add(a, b uint64) { h.sum = mix(mix(h.sum, a), b) }

// mix is one step of a fast hash that need not resist forgery.
func mix(h, x uint64) uint64 {
	h ^= x
	h *= 0x9fb21c651e98df25
	return h ^ h>>32
}
