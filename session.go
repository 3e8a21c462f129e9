package raft

import (
	"fmt"
	"time"
)

// This file holds what the core knows of sessions (dissertation §6.3): when the log may hold their entries. Package session has
// the rest.

// SessionFSM is an FSM that may also apply EntrySession entries. session.Wrap makes one of any FSM. What wraps an FSM again must
// pass AppliesSessions on. Another FSM gets no such entry: a leader with it refuses them, and another member with it ends, with
// a *node.NoSessionsError.
type SessionFSM interface {
	FSM
	// AppliesSessions reports whether Apply takes EntrySession entries. It is called at any time, and always says the same.
	AppliesSessions() bool
}

// AppliesSessions reports whether an FSM takes EntrySession entries.
func AppliesSessions(fsm FSM) bool {
	s, ok := fsm.(SessionFSM)
	return ok && s.AppliesSessions()
}

// allowSessions puts Configuration.Sessions in force if one of the proposals needs it. The entry of that configuration comes
// before the first entry of a session. So a member that holds an entry of a session knows that there are sessions, and an earlier
// release refuses the store. The error says why the proposals are refused; nil: they are not.
//
// As for every configuration, the one before it and an entry of this term must be committed.
func (c *Core) allowSessions(proposals []Proposal) (RefusalKind, error) {
	needed := false
	for _, p := range proposals {
		needed = needed || p.Kind == EntrySession && !c.isOtherTerm(p.Term)
	}
	run := c.log.config()
	if !needed || run.Config.Sessions {
		return 0, nil
	}
	switch {
	case run.Config.Joint() || run.Config.Changing():
		since := time.Duration(c.now.Mono - c.leader.change.since)
		return RefusedChanging, &ChangePendingError{run.Index, run.Config.Joint(), run.Config.awaited(), since}
	case !c.committedOwn() || !c.mayChange():
		return RefusedOverloaded, nil // for a round trip
	}
	next := run.Config
	next.Sessions, next.Level = true, max(next.Level, featureLevelSessions)
	if why := c.membersOnOlderProtocol(next); why.kind != 0 {
		return why.kind, fmt.Errorf("raft: no session was opened: %w", &EarlierReleaseError{why.concerns, why.protocol, why.needs})
	}
	c.appendConfig(next)
	c.leader.change.raised = c.log.Last.Index
	return 0, nil
}

// sessionProblems checks that the feature level keeps out releases without sessions.
func (c Configuration) sessionProblems(p *problems) {
	if c.Sessions && c.Level < featureLevelSessions {
		p.add("it has sessions at feature level %d; sessions begin with level %d", c.Level, featureLevelSessions)
	}
}
