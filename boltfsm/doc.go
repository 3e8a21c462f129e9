// Package boltfsm makes a state machine of a bbolt file: the program writes one function, which applies a command in a bbolt
// transaction.
//
// There are only a few types. [Open] opens the file and returns a [FSM], a raft.DurableFSM: after a restart only later entries
// are applied, there are no snapshot files, and the table of sessions (package session) is in the same transactions as the
// state. The program reads with [FSM.View]; examples/queue uses all of it.
package boltfsm
