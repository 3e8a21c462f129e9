package pipeline

import "github.com/coxswain/raft"

// Allowance bounds the bytes of entries that a member takes from one leader while its log has no room for another segment. It
// must be large enough for the entries that a new leader commits before it can answer. It must also be small enough that the
// record of a snapshot still finds room after these entries. This is because writes are made in order, and the snapshot makes
// the room.
type Allowance struct {
	term  raft.Term // term of the leader
	bytes int       // bytes taken from this leader since there was room
	spent bool      // an append of this leader was not taken
}

// Takes reports whether to take an append of that term with so many bytes of entries. most is the allowance. After Takes
// rejects an append, it rejects all later appends of the same leader until there is room. Otherwise the answer to a later
// append would report a gap.
func (a *Allowance) Takes(full bool, term raft.Term, bytes, most int) bool {
	if !full || term > a.term {
		*a = Allowance{term: max(term, a.term)}
	}
	if !full {
		return true
	}
	a.spent = a.spent || a.bytes+bytes > most
	if !a.spent {
		a.bytes += bytes
	}
	return !a.spent
}
