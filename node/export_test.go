package node

import "github.com/coxswain/raft"

// unheardOf is an event that no core knows.
type unheardOf struct{ raft.Event }

// BreakCore makes the core panic in its next Step.
func (n *Node) BreakCore() { n.post(unheardOf{}) }
