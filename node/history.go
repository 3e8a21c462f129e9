package node

import (
	"fmt"
	"sync"

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

	reason     string          // for the last change
	lost       raft.Leadership // the last leadership that ended
	lostReason string
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

// change records why leadership changed, and returns the reason as a sentence. events are those of the Step
// that changed it.
func (h *history) change(from, to raft.Leadership, events []raft.TraceEvent) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	cause := causeOf(events)
	if from.Leader != "" {
		h.lost, h.lostReason = from, cause
	}
	switch {
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

// causeOf returns, in parentheses, the decision that led to a role change: the trace event before the last one
// that reports such a change.
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
