package elections

import (
	"fmt"
	"io"
	"time"
)

// Text returns a function that writes the records of a run as lines of text. If all is false, the function leaves out
// messages and timers, and writes a rule only if the rule made a member change its leader. The function ignores errors of w.
// The caller passes a bufio.Writer as w, because a bufio.Writer keeps its first error.
func Text(w io.Writer, all bool) func(Record) {
	var rule Record           // the latest
	kinds := map[int]string{} // of messages, by number
	return func(r Record) {
		if r.Kind == RecordArrive {
			r.Text = kinds[r.Message]
		}
		text := r.told()
		switch r.Kind {
		case RecordSend:
			kinds[r.Message] = r.Text
		case RecordRule:
			rule = r
		case RecordLeader:
			if !all && rule.Step == r.Step && rule.Member == r.Member {
				text += ": " + rule.Text
			}
		}
		if r.routine() && !all {
			return
		}
		who := ""
		if r.Member != 0 {
			who = fmt.Sprint(r.Member)
		}
		µs := int64(r.At) / int64(time.Microsecond)
		_, _ = fmt.Fprintf(w, "%6d.%03d ms %3s  %s\n", µs/1000, µs%1000, who, text)
	}
}

// routine reports whether the record is of a frequent kind, which a reader skips when looking for decisions.
func (r *Record) routine() bool {
	switch r.Kind {
	case RecordArrive, RecordTimer, RecordRule, RecordSend:
		return true
	}
	return false
}

// told says in words what the record is about.
func (r *Record) told() string {
	switch r.Kind {
	case RecordBegin:
		return fmt.Sprintf("%s with %d members, seed %d", r.Text, r.N, r.Seed)
	case RecordStart:
		return "starts"
	case RecordCrash:
		return "crashes"
	case RecordArrive:
		return fmt.Sprintf("receives %s from %d", r.Text, r.Peer)
	case RecordTimer:
		return "a timer runs out"
	case RecordTold:
		return "is told by its operator: " + r.Text
	case RecordLost:
		return fmt.Sprintf("learns that the process of %d has ended", r.Peer)
	case RecordSend:
		if r.Lost {
			return fmt.Sprintf("sends %s to %d, which is lost", r.Text, r.Peer)
		}
		return fmt.Sprintf("sends %s to %d", r.Text, r.Peer)
	case RecordLeader:
		return r.toldLeader()
	case RecordCut:
		return fmt.Sprintf("can no longer send to %d", r.Peer)
	case RecordMend:
		return fmt.Sprintf("can send to %d again", r.Peer)
	case RecordFault:
		return "fault: " + r.Text
	case RecordAgree:
		return fmt.Sprintf("the members agree on %d", r.Peer)
	case RecordPart:
		return "the members no longer agree"
	case RecordEnd:
		return "the run ends"
	}
	return r.Text // a rule
}

func (r *Record) toldLeader() string {
	text := fmt.Sprintf("follows %d", r.Peer)
	switch r.Peer {
	case 0:
		return "follows nobody"
	case r.Member:
		text = "leads"
	}
	if r.Epoch != 0 {
		text += fmt.Sprintf(" in term %d", r.Epoch)
	}
	return text
}
