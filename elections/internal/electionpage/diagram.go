package electionpage

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/viewer"
)

// The states of a member, as indexes of states.
const (
	stateLeads = iota
	stateFollows
	stateNone
	stateDown
)

var states = []viewer.State{
	stateLeads:   {Name: "leads", Letter: "L", Tone: viewer.ToneLead},
	stateFollows: {Name: "follows", Letter: "F", Tone: viewer.ToneCalm},
	stateNone:    {Name: "knows no leader", Letter: "?", Tone: viewer.ToneAsk},
	stateDown:    {Name: "down", Letter: "×", Tone: viewer.ToneDown},
}

// draw returns the diagram of a story.
func draw(t *story, a *elections.Algorithm, s *elections.Scenario, heartbeat sim.Time) viewer.Diagram {
	d := viewer.Diagram{
		Title: a.Title + ": " + s.Title, At: []string{a.Title, s.Title}, Number: "leader", States: states,
	}
	for r := 1; r <= t.n; r++ {
		d.Lanes = append(d.Lanes, viewer.Lane{Name: fmt.Sprint(r)})
	}
	if a.Epochs {
		d.Values = []string{"term"}
	}
	often, kinds := t.often(), t.kinds()
	drawn, gaps := t.fold(heartbeat)
	t.drawStart(&d, a)
	arrivals := map[int]int{} // by message, the step that takes it, from 1
	for _, act := range drawn {
		drawn := step(act, a)
		drawn.Text, drawn.Details = t.say(act, often, kinds)
		d.Steps = append(d.Steps, drawn)
		if act.Kind == elections.RecordArrive {
			arrivals[act.Message] = len(d.Steps)
		}
	}
	t.drawMessages(&d, drawn, arrivals, t.routine(heartbeat))
	t.drawMarks(&d, a, gaps, heartbeat)
	return d
}

// drawStart draws the state of each member when the story begins.
func (t *story) drawStart(d *viewer.Diagram, a *elections.Algorithm) {
	held := make([]*act, t.n+1)
	for _, act := range t.acts {
		if act.At >= t.began {
			break
		}
		held[act.Member] = act
	}
	for _, before := range held {
		if before != nil {
			d.Start = append(d.Start, step(before, a))
		}
	}
}

func step(t *act, a *elections.Algorithm) viewer.Step {
	s := viewer.Step{
		Time: int64(t.At), Lane: int(t.Member) - 1, State: stateOf(t), Number: uint64(t.leader),
		Major: t.changed || t.down || t.Kind == elections.RecordStart,
	}
	if a.Epochs && t.leader != 0 {
		s.Values = []string{fmt.Sprint(t.epoch)}
	} else if a.Epochs {
		s.Values = []string{""}
	}
	return s
}

// say returns the rule that the diagram shows for an act, and the act's other rules as details. If several rules act, it
// returns the rarest rule of the run, because that rule says most. Among equally rare rules it returns the last, because the
// others led to that rule.
func (t *story) say(a *act, often map[string]int, kinds map[int]string) (rule string, others []string) {
	if len(a.rules) == 0 {
		return plain(a, kinds), nil
	}
	best := 0
	for i, r := range a.rules {
		if often[r] <= often[a.rules[best]] {
			best = i
		}
	}
	for i, r := range a.rules {
		if i != best && !slices.Contains(others, r) && r != a.rules[best] {
			others = append(others, r)
		}
	}
	return a.rules[best], others
}

// often returns how many times each rule acts.
func (t *story) often() map[string]int {
	often := map[string]int{}
	for _, a := range t.acts {
		for _, r := range a.rules {
			often[r]++
		}
	}
	return often
}

// plain describes an act that has no rule.
func plain(t *act, kinds map[int]string) string {
	switch {
	case t.down:
		return "I crash."
	case t.Kind == elections.RecordStart:
		return "I start."
	case t.Kind == elections.RecordArrive:
		return fmt.Sprintf("I take %s from %d.", kinds[t.Message], t.Peer)
	case t.Kind == elections.RecordTold:
		return fmt.Sprintf("I am told: %s.", t.Text)
	case t.Kind == elections.RecordLost:
		return fmt.Sprintf("I learn that the process of %d has ended.", t.Peer)
	case len(t.sent) > 0:
		return fmt.Sprintf("It is time: I send %s.", t.sent[0].Text)
	}
	return "A timer of mine runs out."
}

// kinds returns the kind of each message.
func (t *story) kinds() map[int]string {
	kinds := map[int]string{}
	for _, a := range t.acts {
		for _, m := range a.sent {
			kinds[m.Message] = m.Text
		}
	}
	return kinds
}

func stateOf(t *act) int {
	switch {
	case t.down:
		return stateDown
	case t.leader == 0:
		return stateNone
	case t.leader == t.Member:
		return stateLeads
	}
	return stateFollows
}

// drawMessages draws the messages of the drawn steps, except those that arrive at a step that is not drawn.
func (t *story) drawMessages(d *viewer.Diagram, drawn []*act, arrivals map[int]int, routine map[string]bool) {
	arrive := map[int]bool{}
	for _, act := range t.acts {
		if act.Kind == elections.RecordArrive {
			arrive[act.Message] = true
		}
	}
	for _, act := range drawn {
		for _, m := range act.sent {
			if arrive[m.Message] && arrivals[m.Message] == 0 || m.At > t.end-underWay && !m.Lost {
				continue
			}
			message := viewer.Message{
				From: int(m.Member) - 1, To: int(m.Peer) - 1, Sent: int64(m.At), Step: arrivals[m.Message], Kind: m.Text,
			}
			if !routine[m.Text] {
				message.Tone = viewer.ToneAsk
			}
			d.Messages = append(d.Messages, message)
		}
	}
}

// underWay is the length of the last part of a run. A message that is sent in this part is not drawn as lost, because it may
// still be in flight.
const underWay = sim.Time(10 * time.Millisecond)

// drawMarks draws faults, agreements, split brain and gaps, ordered by time.
func (t *story) drawMarks(d *viewer.Diagram, a *elections.Algorithm, gaps []gap, heartbeat sim.Time) {
	until := t.end
	if n := len(gaps); n > 0 && gaps[n-1].rest {
		until = gaps[n-1].from
	}
	var marks []viewer.Mark
	cuts := slices.Clone(t.cuts)
	for _, f := range t.turns {
		mark := viewer.Mark{Time: int64(f.at), Tone: viewer.ToneWarn, Text: sentence(f.text)}
		cuts = slices.DeleteFunc(cuts, func(c cut) bool {
			if c.at != f.at {
				return false
			}
			mark.Cuts, mark.Cut = true, c.links
			return true
		})
		marks = append(marks, mark)
	}
	for _, c := range cuts {
		marks = append(marks, viewer.Mark{
			Time: int64(c.at), Tone: viewer.ToneWarn, Text: "Links are cut.", Cuts: true, Cut: c.links,
		})
	}
	for _, c := range t.calms {
		text := fmt.Sprintf("All that can hear %d agree on it.", c.whom)
		marks = append(marks, viewer.Mark{Time: int64(c.from), Tone: viewer.ToneInfo, Text: text})
	}
	marks = append(marks, t.splits(a, heartbeat)...)
	marks = slices.DeleteFunc(marks, func(m viewer.Mark) bool {
		return m.Time < int64(t.began) || m.Time > int64(until)
	})
	for _, g := range gaps {
		marks = append(marks, viewer.Mark{Time: int64(g.from), Tone: viewer.ToneInfo, Text: g.text()})
	}
	slices.SortStableFunc(marks, func(a, b viewer.Mark) int { return cmp.Compare(a.Time, b.Time) })
	d.Marks = marks
}

func (g gap) text() string {
	if g.rest {
		return fmt.Sprintf("The diagram ends here. It goes on like this for %s.", lasting(g.to-g.from))
	}
	return fmt.Sprintf("%s of the same: %d steps are left out.", lasting(g.to-g.from), g.acts)
}

// lasting formats a duration with two or three digits.
func lasting(t sim.Time) string {
	switch d := time.Duration(t); {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
}

// sentence makes one of a few words.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
