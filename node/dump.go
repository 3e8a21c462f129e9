package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/coxswain/raft"
)

// NotesFormat is the version of what WriteNotes writes. Fields may be added to a version; whatever else
// changes raises it, and a reader refuses a version that it does not know.
const NotesFormat = 1

// notesLine is a line of WriteNotes.
type notesLine struct {
	Kind    string      `json:"kind"`
	Format  int         `json:"format,omitempty"`
	Node    raft.NodeID `json:"node,omitempty"`
	Dropped bool        `json:"dropped,omitempty"`
	Time    int64       `json:"time,omitempty"`
	Term    raft.Term   `json:"term,omitempty"`
	Role    string      `json:"role,omitempty"`
	Text    string      `json:"text,omitempty"`
}

// WriteNotes writes the latest decisions of this member, up to 4,096, as NDJSON, while it runs or after it
// has ended: what led to its end. One JSON object a line, absent fields are zero:
//
//	notes  the first line: "format" (NotesFormat), "node", and "dropped" if there were more notes
//	note   "text" says what was decided, in which "term", and "role" what the member has become by it;
//	       those of one step have one "time"
//	end    the last line; a file without it was cut short. "text" says what ended the node by itself
//
// "time" is that of the machine, in nanoseconds since 1970.
func (n *Node) WriteNotes(w io.Writer) error {
	notes := n.history.all()
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	err := lines.Encode(notesLine{Kind: "notes", Format: NotesFormat, Node: n.cfg.ID, Dropped: len(notes) == notesMax})
	for i := range notes {
		note := &notes[i]
		line := notesLine{Kind: "note", Time: note.at, Term: note.Term, Role: becomes(note.Kind), Text: note.String()}
		err = errors.Join(err, lines.Encode(line))
	}
	end := notesLine{Kind: "end", Time: n.now().Wall}
	if ended := n.Err(); ended != nil && !errors.Is(ended, raft.ErrClosed) {
		end.Text = ended.Error()
	}
	return errors.Join(err, lines.Encode(end), buffered.Flush())
}

// becomes returns the role that a decision leads to, if it leads to another.
func becomes(k raft.NoteKind) string {
	switch k {
	case raft.NoteLeader:
		return raft.Leader.String()
	case raft.NoteFollower:
		return raft.Follower.String()
	case raft.NotePreCampaign:
		return raft.PreCandidate.String()
	case raft.NoteCampaign:
		return raft.Candidate.String()
	}
	return ""
}
