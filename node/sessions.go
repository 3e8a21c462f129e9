package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// This file holds what a node knows of sessions: it passes their entries on, and keeps them from an FSM that cannot apply them.
// Package session has the rest.

// ProposeSession is Propose for an entry of a session: package session makes these entries, and reads their results. It is for
// that package, and for programs that put something between it and a node.
//
// Besides the errors of Propose, it fails with a *NoSessionsError, and, if there was no session in this cluster yet, with a
// *raft.EarlierReleaseError or a *raft.ChangePendingError: nothing was applied.
func (n *Node) ProposeSession(ctx context.Context, entry []byte) (Result, error) {
	if no := n.requests.noSessions; no != nil {
		return Result{}, no
	}
	began := time.Now()
	result, err := n.proposeAnywhere(ctx, raft.EntrySession, entry)
	n.counters.proposed(err, time.Since(began))
	return result, err
}

// ClusterID returns the id of the cluster that this member belongs to; zero: none yet. Any goroutine may call it.
func (n *Node) ClusterID() raft.ClusterID { return n.identity.belongsTo() }

// forFSM reports whether the FSM sees an entry: commands and, of a raft.SessionFSM, the entries of sessions.
func forFSM(e *raft.Entry) bool { return e.Kind == raft.EntryCommand || e.Kind == raft.EntrySession }

// refuseSessions returns an error if the FSM would have to apply an entry of a session, and cannot. Nothing of the batch was
// applied, so that a program with sessions can continue here.
func (a *applier) refuseSessions(entries []raft.Entry) error {
	no := a.node.requests.noSessions
	if no != nil && slices.ContainsFunc(entries, func(e raft.Entry) bool { return e.Kind == raft.EntrySession }) {
		return no
	}
	return nil
}

// NoSessionsError says that the FSM of a member cannot apply the entries of sessions, because session.Wrap has not made it. It
// refuses those entries, and nothing is applied. If other members have sessions already, it refuses the start of this member or
// ends it before its FSM is touched: start a program there that wraps its FSM; nothing is lost.
type NoSessionsError struct {
	Member raft.NodeID
}

func (e *NoSessionsError) Error() string {
	return fmt.Sprintf("raft: the FSM of %s keeps no sessions: start a program there that wraps it with session.Wrap; nothing is lost", e.Member)
}
