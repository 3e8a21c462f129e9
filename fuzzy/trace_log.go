package fuzzy

import "github.com/coxswain/raft"

// LogChange is the change that a step makes to the log of its core. The change at a start holds the whole log.
type LogChange struct {
	After raft.Index `json:"after"`
	Runs  []LogRun   `json:"runs,omitempty"`
}

// LogRun is a number of entries of one term and kind; an absent kind is a command.
type LogRun struct {
	Term  raft.Term `json:"term"`
	Count int       `json:"count"`
	Kind  string    `json:"kind,omitempty"`
}

// logChange returns the change of a write, or the whole log, or nil if nothing changes.
func logChange(n *node, whole bool, w *raft.LogWrite) *LogChange {
	var change LogChange
	switch {
	case whole:
		change.After = n.status.Base.Index
		for i := change.After; i < n.last(); i++ {
			change.add(n.log[i].entry)
		}
	case w == nil:
		return nil
	default:
		change.After = w.After.Index
		for i := range w.Entries {
			change.add(&w.Entries[i])
		}
	}
	return &change
}

func (c *LogChange) add(e *raft.Entry) {
	kind := ""
	if e.Kind != raft.EntryCommand {
		kind = e.Kind.String()
	}
	if last := len(c.Runs) - 1; last >= 0 && c.Runs[last].Term == e.Term && c.Runs[last].Kind == kind {
		c.Runs[last].Count++
		return
	}
	c.Runs = append(c.Runs, LogRun{Term: e.Term, Count: 1, Kind: kind})
}
