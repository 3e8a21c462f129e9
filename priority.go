package raft

import (
	"fmt"
	"strconv"
)

// Priority says which voters should lead. Of the voters that could take over, those with the highest priority come first. A
// priority never decides who may win an election. The zero value counts as 1, and is the only way in which a configuration
// holds that priority. A learner has no priority.
type Priority int8

// PriorityNever is that of a standby: it votes and stores, and leads only if no other voter can. People read and write it as 0.
const PriorityNever Priority = -1

// PriorityMax is the highest priority.
const PriorityMax = 100

// PriorityOf returns the priority that people write as number: 0 for PriorityNever, else 1 to PriorityMax. The error for any
// other number is a *PriorityError without an ID.
func PriorityOf(number int) (Priority, error) {
	switch {
	case number < 0 || number > int(PriorityMax):
		return 0, &PriorityError{Number: number}
	case number == 0:
		return PriorityNever, nil
	}
	return Priority(number).stored(), nil
}

// Number returns the priority as people read it: 0 for PriorityNever, 1 for the zero value.
func (p Priority) Number() int {
	switch p {
	case PriorityNever:
		return 0
	case 0:
		return 1
	}
	return int(p)
}

func (p Priority) String() string { return strconv.Itoa(p.Number()) }

// stored returns the priority as a configuration holds it.
func (p Priority) stored() Priority {
	if p == 1 {
		return 0
	}
	return p
}

// electable reports whether the member, if it votes, leads in ordinary times.
func (m Member) electable() bool { return m.Priority >= 0 }

// unelectable returns the voters of a half in which nobody is electable. It looks at both halves, and at the voters after the
// running change. It returns nil if there is no such half.
func (c Configuration) unelectable() []Peer {
	for _, votes := range []func(Member) bool{
		func(m Member) bool { return m.Kind == Voter },
		func(m Member) bool { return c.VotesIn(m.Peer())&OutgoingHalf != 0 },
		Member.willVote,
	} {
		var half []Peer
		electable := false
		for _, m := range c.Members {
			if votes(m) {
				half, electable = append(half, m.Peer()), electable || m.electable()
			}
		}
		if !electable && len(half) > 0 {
			return half
		}
	}
	return nil
}

// prioritized reports whether a member has another priority than 1.
func (c Configuration) prioritized() bool {
	for _, m := range c.Members {
		if m.Priority != 0 {
			return true
		}
	}
	return false
}

// priorityProblems checks the priorities. A learner may have one only if the running change makes it a voter. The initial
// members may have priorities although the feature level of their list is 0, because the level of the bootstrap is higher then.
func (c Configuration) priorityProblems(p *problems) {
	for _, m := range c.Members {
		switch {
		case m.Priority == 0:
		case m.Priority == 1:
			p.add("member %q: the priority 1 is written as 0", m.ID)
		case !c.needs(m.Peer()):
			*p = append(*p, &PriorityError{ID: m.ID, Number: m.Priority.Number(), Learner: true})
		case c.Level > 0 && c.Level < featureLevelPriorities:
			p.add("member %q has priority %v at feature level %d; priorities begin with level %d", m.ID, m.Priority, c.Level, featureLevelPriorities)
		}
	}
	if half := c.unelectable(); half != nil {
		*p = append(*p, &NotElectableError{Voters: peerIDs(half), Raise: half[0].ID})
	}
}

// PriorityError refuses a priority that is out of range, or that a learner is to have. Give another one, or make the learner
// a voter first (Node.AddMember, which takes a priority, too).
type PriorityError struct {
	ID      NodeID // "": of no member
	Number  int    // as Priority.Number
	Learner bool   // the member is a learner, or is to be one
}

func (e *PriorityError) Error() string {
	of := ""
	if e.ID != "" {
		of = fmt.Sprintf("member %q: ", e.ID)
	}
	if e.Learner {
		return fmt.Sprintf("%sthe priority %d is given to a learner, and only voters have one: make it a voter first", of, e.Number)
	}
	return fmt.Sprintf("%sthe priority is %d; it takes 1 to %d, or 0 (PriorityNever) for a member that should never lead", of, e.Number, PriorityMax)
}

// NotElectableError refuses a change or a list of members: after it, or while it runs, all voters would have PriorityNever.
// First raise the priority of one of them (Node.SetPriority).
type NotElectableError struct {
	Voters []NodeID // those that would be the only voters
	Raise  NodeID   // one of them, whose priority can be raised first; "": they are to join, so add one with a higher priority
}

func (e *NotElectableError) Error() string {
	s := fmt.Sprintf("of the voters %s none would lead, because all would have priority 0: ", idList(e.Voters))
	if e.Raise == "" {
		return s + "add one of them with a priority above 0"
	}
	return s + fmt.Sprintf("first give one of them a priority above 0, as in SetPriority(%s, 1)", e.Raise)
}
