package electionpage

import (
	"strconv"
	"strings"

	"github.com/coxswain/raft/internal/sim"
)

// A diagram leaves out repetitions. A run of 30 s has hundreds of heartbeats, and a reader looks for new things. An act is
// news if the member did nothing like it for a while, or if the member then follows another leader. The diagram also draws
// the acts near news.
const (
	actsMax    = 1000 // of a diagram
	likeLately = 30   // heartbeat intervals
	leastFold  = 12   // a gap of fewer acts is not worth it
)

// gap is a series of acts that are left out.
type gap struct {
	from, to sim.Time
	acts     int
	rest     bool // all that follows
}

// fold returns the acts that are drawn, and the gaps between them.
func (t *story) fold(heartbeat sim.Time) (drawn []*act, gaps []gap) {
	acts := t.from()
	near := t.nearNews(acts, heartbeat)
	shown := map[int]bool{} // messages whose departure is drawn
	start := -1
	for i := 0; i <= len(acts); i++ {
		if i < len(acts) && !near[i] && !(acts[i].Message != 0 && shown[acts[i].Message]) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			if i-start < leastFold {
				drawn = show(drawn, shown, acts[start:i])
			} else {
				gaps = append(gaps, gap{from: acts[start].At, to: acts[i-1].At, acts: i - start})
			}
			start = -1
		}
		if i == len(acts) {
			break
		}
		if len(drawn) >= actsMax {
			return drawn, append(gaps, gap{from: acts[i].At, to: t.end, acts: len(acts) - i, rest: true})
		}
		drawn = show(drawn, shown, acts[i:i+1])
	}
	return drawn, gaps
}

func show(drawn []*act, shown map[int]bool, acts []*act) []*act {
	for _, a := range acts {
		for _, m := range a.sent {
			shown[m.Message] = true
		}
	}
	return append(drawn, acts...)
}

// from returns the acts from the beginning of the story on.
func (t *story) from() []*act {
	for i, a := range t.acts {
		if a.At >= t.began {
			return t.acts[i:]
		}
	}
	return nil
}

// nearNews reports for each act whether it is news, or within a heartbeat interval of news. Faults are news,
// too.
func (t *story) nearNews(acts []*act, heartbeat sim.Time) []bool {
	var news []sim.Time
	for _, f := range t.turns {
		news = append(news, f.at)
	}
	for _, c := range t.cuts {
		news = append(news, c.at)
	}
	seen := map[string]sim.Time{}
	for _, a := range t.acts {
		key := likeness(a)
		at, before := seen[key]
		seen[key] = a.At
		if a.At >= t.began && (!before || a.At-at > likeLately*heartbeat || a.changed || a.down) {
			news = append(news, a.At)
		}
	}
	near := make([]bool, len(acts))
	for _, at := range news {
		for i := firstFrom(acts, at-heartbeat); i < len(acts) && acts[i].At <= at+heartbeat; i++ {
			near[i] = true
		}
	}
	return near
}

// firstFrom returns the index of the first act at or after a time.
func firstFrom(acts []*act, at sim.Time) int {
	low, high := 0, len(acts)
	for low < high {
		if middle := (low + high) / 2; acts[middle].At < at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// likeness returns a text that describes an act. If two acts have equal texts, a reader need not see both.
func likeness(a *act) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(a.Member)) + string(a.Kind) + strconv.Itoa(int(a.Peer)) + "|" + strings.Join(a.rules, "|"))
	for i, m := range a.sent {
		if i == 0 || m.Text != a.sent[i-1].Text {
			b.WriteString("|" + m.Text)
		}
	}
	return b.String()
}

// routine returns the kinds of messages that members send while nothing happens. It looks before the fault. If the run begins
// with the fault, it looks at the end of the run.
func (t *story) routine(heartbeat sim.Time) map[string]bool {
	low, high := -4*heartbeat, sim.Time(0)
	if len(t.acts) > 0 && t.acts[0].At >= 0 {
		low, high = t.end-4*heartbeat, t.end
	}
	kinds := map[string]bool{}
	for _, a := range t.acts {
		for _, m := range a.sent {
			if m.At >= low && m.At < high {
				kinds[m.Text] = true
			}
		}
	}
	return kinds
}
