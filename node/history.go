package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

// traceEventsMax is how many of the latest trace events are kept.
const traceEventsMax = 4096

// history keeps the latest trace events of the core and the reason for the last change of leadership, for
// Status, WriteTrace and the log.
type history struct {
	mu     sync.Mutex
	events []datedEvent // a ring once it is full
	next   int
	count  uint64 // events so far, including those that are not kept any more

	losses     []loss          // latest losses, oldest first
	reason     string          // reason for the last change
	office     raft.Leadership // of the last leader that this member has known
	began      raft.Time       // when this member first knew it
	lost       raft.Leadership // last leadership that ended
	lostReason string
}

const (
	lossesMax    = 64              // losses that are remembered
	lossesRecent = 2 * time.Minute // age up to which a loss is recent
	// lossesOften is the number of recent losses at which the cluster counts as unhealthy. It is more than a rolling restart
	// of five members causes.
	lossesOften = 7
)

// loss is one loss of the leader that this member knew. Afterwards this member knew another leader, or none.
type loss struct {
	at   raft.Time
	term raft.Term // of that leader
	what string    // what was slowest in this member's own attempts since, see raft.ElectionStatus.Slowest
	took raft.Time // how long that took; 0: no attempt since
}

// noteLoss records the loss of a leader, unless that leader has transferred its leadership: often this member knows that only
// once the next one leads. It also records what is slowest in this member's own election attempts since the last loss.
func (h *history) noteLoss(at raft.Time, from, to raft.Leadership, tried raft.ElectionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := len(h.losses) - 1
	switch {
	case from.Leader == "" && to.ByTransfer && end >= 0 && h.losses[end].term+1 == to.Term:
		h.losses = h.losses[:end]
	case from.Leader != "" && !to.ByTransfer && (from.Leader != to.Leader || from.Term != to.Term):
		if len(h.losses) == lossesMax {
			h.losses = slices.Delete(h.losses, 0, 1)
		}
		h.losses = append(h.losses, loss{at: at, term: from.Term})
	}
	if len(h.losses) == 0 {
		return
	}
	last := &h.losses[len(h.losses)-1]
	if what, took := tried.Slowest(); took > last.took {
		last.what, last.took = what, took
	}
}

// unsettled returns a sentence if this member loses leaders too often, or "" otherwise.
func (h *history) unsettled(now raft.Time, timeout time.Duration) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var recent int
	var slowest loss
	for _, l := range h.losses {
		if now-l.at > raft.Time(lossesRecent) {
			continue
		}
		if recent++; l.took > slowest.took {
			slowest = l
		}
	}
	if recent < lossesOften {
		return ""
	}
	why, enough := "", 2*timeout
	if took := time.Duration(slowest.took); took > timeout/2 {
		why, enough = fmt.Sprintf(", and %s took up to %v", slowest.what, took.Round(time.Millisecond)), max(enough, enoughFor(slowest.took))
	}
	return fmt.Sprintf("the leader was lost %d times in the last %v: unless it was stopped, moved or disconnected, the election timeout of %v is too short%s: "+
		"set it to %v or more on all members", recent, lossesRecent, timeout, why, enough)
}

// datedEvent is a trace event and the wall-clock time of its Step.
type datedEvent struct {
	raft.TraceEvent
	at int64
}

// add records the trace events of one Step.
func (h *history) add(at int64, events []raft.TraceEvent) {
	if len(events) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count += uint64(len(events))
	for _, event := range events {
		if len(h.events) < traceEventsMax {
			h.events = append(h.events, datedEvent{event, at})
			continue
		}
		h.events[h.next] = datedEvent{event, at}
		h.next = (h.next + 1) % traceEventsMax
	}
}

// all returns the trace events, oldest first.
func (h *history) all() []datedEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(append([]datedEvent(nil), h.events[h.next:]...), h.events[:h.next]...)
}

// since returns the trace events after the first ones, as many as after says, oldest first, and the number of the first one that
// it returns. It returns only those that are kept.
func (h *history) since(after uint64) (events []datedEvent, first uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := uint64(len(h.events))
	first = max(after, h.count-kept) + 1
	for n := first; n <= h.count; n++ {
		events = append(events, h.events[(uint64(h.next)+kept-1-(h.count-n))%kept])
	}
	return events, first
}

// change records why leadership changed, and returns the reason as a sentence. events are those of the Step that changed the
// leadership.
func (h *history) change(from, to raft.Leadership, events []raft.TraceEvent) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	cause := causeOf(events)
	if from.Leader != "" {
		h.lost, h.lostReason = from, cause
	}
	switch {
	case tookOver(events) != "":
		h.reason = fmt.Sprintf("%s leads in term %d: it took over %s", to.Leader, to.Term, tookOver(events))
	case to.Leader != "" && to.Leader == h.lost.Leader && to.Term == h.lost.Term:
		h.reason = fmt.Sprintf("%s leads in term %d, and is heard again%s", to.Leader, to.Term, h.lostReason)
	case to.Leader != "" && h.lost.Leader != "":
		h.reason = fmt.Sprintf("%s leads in term %d, after %s in term %d%s",
			to.Leader, to.Term, h.lost.Leader, h.lost.Term, h.lostReason)
	case to.Leader != "":
		h.reason = fmt.Sprintf("%s leads in term %d", to.Leader, to.Term)
	case h.lost.Leader != "":
		h.reason = fmt.Sprintf("no leader: %s led in term %d%s", h.lost.Leader, h.lost.Term, h.lostReason)
	default:
		h.reason = fmt.Sprintf("no leader: this member is a %v in term %d%s", to.Role, to.Term, cause)
	}
	return h.reason
}

// noteOffice records when this member learned of a leader.
func (h *history) noteOffice(at raft.Time, to raft.Leadership) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to.Leader != "" && (to.Leader != h.office.Leader || to.Term != h.office.Term) {
		h.office, h.began = to, at
	}
}

// inOffice returns how long this member has known a leader, or 0 if it knows none.
func (h *history) inOffice(now raft.Time, l raft.Leadership) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.Leader == "" || l.Leader != h.office.Leader || l.Term != h.office.Term {
		return 0
	}
	return time.Duration(now - h.began)
}

// tookOver returns why this member has become the leader, or "".
func tookOver(events []raft.TraceEvent) string {
	for _, event := range events {
		if event.Kind == raft.TraceLeader {
			return event.Text
		}
	}
	return ""
}

// causeOf returns, in parentheses, the decision that led to the last role change. The decision is the trace event just before
// the role change.
func causeOf(events []raft.TraceEvent) string {
	for i := len(events) - 1; i > 0; i-- {
		switch events[i].Kind {
		case raft.TraceLeader, raft.TraceFollower, raft.TracePreCampaign, raft.TraceCampaign:
			return fmt.Sprintf(" (%v)", events[i-1])
		}
	}
	return ""
}

func (h *history) lastReason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}
