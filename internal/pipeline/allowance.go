package pipeline

import "github.com/coxswain/raft"

// Allowance is how many bytes of entries a member takes from one leader while its log has no room for another segment. It is
// enough for what a new leader must commit before it can answer, and little enough that the record of a snapshot, which makes
// the room, is written behind them: writes are made in order.
type Allowance struct {
	term  raft.Term // of the leader
	bytes int       // that were taken from it since there was room
	spent bool
}

// Takes reports whether an append of that term, with so many bytes of entries, is taken now. Once one is not, none is of this
// leader as long as there is no room: to answer what comes behind it would be to say that it is missing.
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
