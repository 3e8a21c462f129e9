package raft

type unheardOf struct{}

func (unheardOf) event() {}

// BreakCore makes the core find itself in an impossible state with its next Step.
func (n *Node) BreakCore() { n.happen(unheardOf{}) }
