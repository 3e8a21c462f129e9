package raft

// assert ends the node, not the process, when its own state is impossible. The sentence is constant
// so that an assertion that holds costs nothing.
func assert(holds bool, sentence string) {
	if !holds {
		panic(&InvariantError{Rule: sentence})
	}
}
