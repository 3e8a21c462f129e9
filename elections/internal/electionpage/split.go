package electionpage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/viewer"
)

// reign is an interval in which the same two or more members lead.
type reign struct {
	from, to sim.Time
	leaders  []elections.Rank
	epochs   []uint64
}

// reigns returns the intervals with split brain.
func (t *story) reigns() (all []reign) {
	held := make([]*act, t.n+1)
	var now *reign
	for _, a := range t.acts {
		before := held[a.Member]
		held[a.Member] = a
		if before != nil && before.leader == a.leader && before.epoch == a.epoch {
			continue
		}
		next := leaders(held, a.At)
		if now != nil && next != nil && slices.Equal(now.leaders, next.leaders) && slices.Equal(now.epochs, next.epochs) {
			continue
		}
		if now != nil && a.At > now.from {
			now.to = a.At
			all = append(all, *now)
		}
		now = next
	}
	if now != nil {
		now.to = t.end
		all = append(all, *now)
	}
	return all
}

// inOneEpoch reports whether all lead in the same epoch.
func (r *reign) inOneEpoch() bool {
	return !slices.ContainsFunc(r.epochs, func(e uint64) bool { return e != r.epochs[0] })
}

// leaders returns the reign of the present leaders, or nil if there are not several.
func leaders(held []*act, at sim.Time) *reign {
	r := &reign{from: at}
	for _, a := range held {
		if a != nil && a.leader == a.Member {
			r.leaders = append(r.leaders, a.Member)
			r.epochs = append(r.epochs, a.epoch)
		}
	}
	if len(r.leaders) < 2 {
		return nil
	}
	return r
}

// splits returns the red bands, one for each reign. Reigns that follow each other without a pause are one split brain. The
// first band says how long the split brain lasts, and the other bands say that it continues. A short split brain is called an
// overlap.
func (t *story) splits(a *elections.Algorithm, heartbeat sim.Time) (marks []viewer.Mark) {
	all := slices.DeleteFunc(t.reigns(), func(r reign) bool { return r.to <= t.began })
	name := ""
	for i := range all {
		r := &all[i]
		text := name + " goes on: "
		if i == 0 || r.from != all[i-1].to {
			ends := r.to
			for _, next := range all[i+1:] {
				if next.from == ends {
					ends = next.to
				}
			}
			name, text = "Split brain", "Split brain for "
			if ends-r.from < heartbeat {
				name, text = "Overlap", "Overlap of "
			}
			text += lasting(ends-r.from) + ": "
			if ends > r.to {
				text += "first "
			}
		}
		marks = append(marks, viewer.Mark{
			Time: int64(max(r.from, t.began)), Until: int64(r.to), Tone: viewer.ToneBad, Lanes: r.lanes(), Text: text + r.lead(a),
		})
	}
	return marks
}

func (r *reign) lanes() []int {
	lanes := make([]int, len(r.leaders))
	for i, leader := range r.leaders {
		lanes[i] = int(leader) - 1
	}
	return lanes
}

// lead describes which members lead, and in which terms. An algorithm may count something other than terms; invitation counts
// groups.
func (r *reign) lead(a *elections.Algorithm) string {
	names, where := make([]string, len(r.leaders)), ""
	inOne := a.Epochs && r.inOneEpoch()
	for i, leader := range r.leaders {
		names[i] = fmt.Sprint(leader)
		if a.Epochs && !inOne {
			names[i] += fmt.Sprintf(" (term %d)", r.epochs[i])
		}
	}
	last := len(names) - 1
	switch {
	case inOne && last == 1:
		where = fmt.Sprintf(", both in term %d", r.epochs[0])
	case inOne:
		where = fmt.Sprintf(", all in term %d", r.epochs[0])
	}
	return fmt.Sprintf("%s and %s lead%s.", strings.Join(names[:last], ", "), names[last], where)
}
