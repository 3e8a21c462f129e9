// Package session makes commands take effect exactly once, although clients retry them (dissertation §6.3).
//
// Wrap the FSM on every member, then open a session on any member, with node.Config.Forward, and propose through it:
//
//	fsm, err := session.Wrap(store)        // and give fsm to node.Start or member.Start
//	s, err := session.Open(ctx, m, session.Config{})
//	result, err := s.Propose(ctx, cmd)     // retried until its answer is known or ctx ends
//
// [Session.Propose] retries across leaders, time-outs and unknown outcomes. The table of sessions, which every member keeps beside
// its FSM, applies the command at most once, and gives each attempt the first answer. Commands without a session work beside it,
// and logs and snapshots from before the first session stay readable.
//
// The first session of a cluster raises its feature level, for which no member may run an earlier release. Every member's program
// must wrap its FSM by then: a member whose program does not ends with a *node.NoSessionsError.
package session
