package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/coxswain/raft"
)

// TraceFormat is the version of the output of WriteTrace. A new field does not change the version; any other change
// does. A reader must refuse a version that it does not know.
const TraceFormat = 1

// traceLine is one line of WriteTrace.
type traceLine struct {
	Kind    string      `json:"kind"`
	Format  int         `json:"format,omitempty"`
	Node    raft.NodeID `json:"node,omitempty"`
	Dropped bool        `json:"dropped,omitempty"`
	Time    int64       `json:"time,omitempty"`
	Term    raft.Term   `json:"term,omitempty"`
	Role    string      `json:"role,omitempty"`
	Text    string      `json:"text,omitempty"`
}

// WriteTrace writes the latest decisions of this member, up to 4,096, as NDJSON. It works while the member runs, and
// after the member has ended: then the decisions show what led to the end. Each line is one JSON object, in which
// absent fields are zero:
//
//	notes  the first line: "format" (TraceFormat), "node", and "dropped" if there may have been older ones
//	note   one decision: "text" describes it, "term" is the term, and "role" the member's new role, if it changed;
//	       the decisions of one step have the same "time"
//	end    the last line; a file without it was cut short. "text" is the error that ended the node
//
// "time" is the wall-clock time in nanoseconds since 1970.
func (n *Node) WriteTrace(w io.Writer) error {
	events := n.history.all()
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	err := lines.Encode(traceLine{Kind: "notes", Format: TraceFormat, Node: n.cfg.ID, Dropped: len(events) == traceEventsMax})
	for i := range events {
		event := &events[i]
		line := traceLine{Kind: "note", Time: event.at, Term: event.Term, Role: becomes(event.Kind), Text: event.String()}
		err = errors.Join(err, lines.Encode(line))
	}
	end := traceLine{Kind: "end", Time: n.now().Wall}
	if ended := n.Err(); ended != nil && !errors.Is(ended, raft.ErrClosed) {
		end.Text = ended.Error()
	}
	return errors.Join(err, lines.Encode(end), buffered.Flush())
}

// Decision is a trace event of this member.
type Decision struct {
	Number uint64    // its place among all since the start of the process, from 1
	At     time.Time // by this member's clock
	raft.TraceEvent
}

// Decisions returns the latest decisions after the one with this number, oldest first: those of WriteTrace, up to 4,096. It does
// not wait for the loop. Any goroutine may call it, even after the node has ended.
func (n *Node) Decisions(after uint64) (latest []Decision) {
	events, first := n.history.since(after)
	for i, event := range events {
		latest = append(latest, Decision{Number: first + uint64(i), At: time.Unix(0, event.at), TraceEvent: event.TraceEvent})
	}
	return latest
}

// becomes returns the role to which a decision leads, or "" if the decision does not change the role.
func becomes(k raft.TraceEventKind) string {
	switch k {
	case raft.TraceLeader:
		return raft.Leader.String()
	case raft.TraceFollower:
		return raft.Follower.String()
	case raft.TracePreCampaign:
		return raft.PreCandidate.String()
	case raft.TraceCampaign:
		return raft.Candidate.String()
	}
	return ""
}
