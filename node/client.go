package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coxswain/raft"
)

// Result is the outcome of a command.
type Result struct {
	Index raft.Index // the command's place in the log
	Term  raft.Term  // the term of the leader that appended it
	Data  []byte     // the FSM's answer; it belongs to the caller
}

// Propose appends a command to the log. It returns the FSM's answer once this member, which must be the leader, has applied
// the command. Propose copies cmd, so the caller may reuse cmd at once. ctx cancels the wait, not the entry. Any goroutine
// may call Propose.
//
// It fails with
//
//   - *NotLeaderError: not applied; ask its Leader. With Config.Forward, that is rare: see below.
//   - ErrOverloaded: not applied; try again later.
//   - *TooLargeError: not applied, and never will be.
//   - ErrClosed, ErrWiped, *RemovedError, *StaleImageError, *ContradictedError: not applied; ask another member.
//   - ErrWithinFSM: the FSM called Propose; not applied, unless the error also matches ErrOutcomeUnknown.
//   - ErrOutcomeUnknown: it may be applied, now or later; do not retry blindly.
//   - ctx.Err(): not applied if the command never reached the log; otherwise the error also matches ErrOutcomeUnknown.
//
// With Config.Forward, any member takes the command, and the leader applies it. When Propose returns on another member, that
// member may not have applied the command yet: WaitApplied with the index of the Result lets it read its own write. Propose
// waits for a leader, and sends the command again when a leader says that it has not applied it, until ctx ends; without a
// deadline, for 10 s or 20 election timeouts, and as long for an answer. The error is a *NotLeaderError if the leader's
// release, or its Config, takes no commands from other members, and ErrOutcomeUnknown if the connection to the leader ends
// before its answer. The errors of the leader come back as they are, or in a *RemoteError. Further errors are
// *ForwardLimitError (too many commands are under way), *NotMemberError, and *AnswerTooLargeError, after which the command is
// applied.
func (n *Node) Propose(ctx context.Context, cmd []byte) (Result, error) {
	began := time.Now()
	result, err := n.proposeAnywhere(ctx, raft.EntryCommand, cmd)
	n.counters.proposed(err, time.Since(began))
	return result, err
}

// Barrier appends an empty entry to the log. It returns the entry's index once this member, which must be the leader, has
// applied the entry. By then this member has applied every command that was acknowledged before the call. The errors are
// those of Propose.
func (n *Node) Barrier(ctx context.Context) (raft.Index, error) {
	result, err := n.proposeEntry(ctx, raft.EntryNoop, nil)
	return result.Index, n.withReason(err)
}

// proposeEntry proposes an entry on this member.
func (n *Node) proposeEntry(ctx context.Context, kind raft.EntryKind, data []byte) (Result, error) {
	if err := n.usable(ctx); err != nil {
		return Result{}, err
	}
	if err := n.hasRoom(); err != nil {
		return Result{}, err
	}
	req, err := n.requests.propose(kind, data, nil)
	if err != nil {
		return Result{}, err
	}
	o := n.requests.wait(ctx, req)
	return o.result, o.err
}

// usable returns the error of a call that cannot begin.
func (n *Node) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-n.stop:
		return n.ended()
	default:
	}
	if removed := n.removed.Load(); removed != nil {
		return removed
	}
	if n.identity.wiped.Load() {
		return ErrWiped
	}
	return n.markError()
}

// ReadIndex makes a read of the FSM linearizable. Once it has returned, the FSM of this member contains everything
// that any member acknowledged before the call. It returns the index up to which that is applied. A follower asks the
// leader. After *NotLeaderError (no leader can be reached), ErrReadTimedOut, ErrOverloaded and ctx.Err(), try again later.
// After ErrWithinFSM, call it from another goroutine. After ErrClosed, ErrWiped, *raft.RemovedError, *raft.StaleImageError
// and *raft.ContradictedError, ask another member.
func (n *Node) ReadIndex(ctx context.Context) (raft.Index, error) {
	if err := n.usable(ctx); err != nil {
		return 0, err
	}
	n.counters.reads.Add(1)
	req, err := n.requests.read()
	if err != nil {
		return 0, err
	}
	o := n.requests.wait(ctx, req)
	if o.err != nil {
		return 0, n.withReason(o.err)
	}
	return o.index, n.WaitApplied(ctx, o.index)
}

// ReadIndexWith is ReadIndex for a state that is as fresh as c says: see [raft.Consistency]. Its errors are those of ReadIndex,
// and *raft.MaxAgeError.
func (n *Node) ReadIndexWith(ctx context.Context, c raft.Consistency) (raft.Index, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if c == raft.Lease {
		return n.readByLease(ctx)
	}
	return n.ReadIndex(ctx)
}

// WaitApplied returns once this member has applied the log up to index. If the entry is not for the FSM, it counts as applied
// once all earlier entries are applied. WaitApplied fails with ErrClosed, ErrWithinFSM, ctx.Err(), or ErrOverloaded if more
// than Config.ProposalsMax callers wait.
func (n *Node) WaitApplied(ctx context.Context, index raft.Index) error {
	return n.applied.wait(ctx, index, n.limits().ProposalsMax)
}

// Ready returns once this member can serve:
//
//   - A leader is known.
//   - This member has applied everything that was committed when Ready was called.
//   - Its disk has not stalled.
//   - If it leads: its disk has room for more entries, and everything that was in its log has been applied.
//
// Ready fails with ErrWithinFSM, ErrClosed or ErrWiped. If ctx ends first, it fails with a *NotReadyError that names what it
// waited for.
func (n *Node) Ready(ctx context.Context) error {
	if n.fsmCalls.within() {
		return ErrWithinFSM
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	refused, err := n.awaitReady(ctx)
	if err != nil && err == ctx.Err() {
		return &NotReadyError{Reason: unready(n.Status(), refused), Err: err}
	}
	return err
}

// awaitReady waits until this member can serve. It does not explain why it waited: see Ready. refused is the error of the
// last failed read, or nil if no read failed.
func (n *Node) awaitReady(ctx context.Context) (refused, err error) {
	for {
		if _, err := n.awaitLeader(ctx); err != nil {
			return refused, err
		}
		_, changed := n.watched.load()
		_, err := n.ReadIndex(ctx)
		switch {
		case err == nil && n.writesFinish(ctx):
			return nil, nil
		case ctx.Err() != nil:
			return refused, ctx.Err()
		case errors.Is(err, raft.ErrClosed) || errors.Is(err, ErrWiped) || errors.Is(err, raft.ErrRemoved):
			return refused, err
		}
		refused = err
		if err := n.pause(ctx, changed); err != nil {
			return refused, err
		}
	}
}

// unready returns, as a sentence, what a member waits for before it is ready. refused is the error of its last failed read,
// or nil if no read failed.
func unready(s Status, refused error) string {
	var own, others string
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.isSelf():
			own = m.Problem
		case m.votes() && m.Problem != "":
			others += fmt.Sprintf("; %s: %s", m.ID, m.Problem)
		}
	}
	switch {
	case s.Leader == "" || s.Role == raft.Leader && (s.DiskStalled || s.FSMHangs || s.NoRoom != ""):
		return s.LeaderReason
	case own != "":
		return "this member serves nothing yet: " + own
	case s.Applied < s.Commit:
		return fmt.Sprintf("entries up to %d are committed, and this member has applied those up to %d", s.Commit, s.Applied)
	case s.Role == raft.Leader && s.Applied < s.Last.Index:
		return fmt.Sprintf("this member leads, but the entries from %d to %d do not reach a quorum%s", s.Applied+1, s.Last.Index, others)
	case refused != nil:
		return fmt.Sprintf("reads are not confirmed: %v", refused)
	case s.Snapshot.ReceiveErr != nil:
		return fmt.Sprintf("%s; the last snapshot that it sent did not arrive: %v", s.LeaderReason, s.Snapshot.ReceiveErr)
	}
	return s.LeaderReason
}

// writesFinish reports whether a write would finish. If a quorum answers heartbeats, reads are confirmed, but the disks of
// that quorum may have stalled. So a leader also waits until the entries that are now in its log are applied.
func (n *Node) writesFinish(ctx context.Context) bool {
	s := n.coreStatus()
	if s.DiskStalled || s.Role != raft.Leader {
		return !s.DiskStalled
	}
	if n.hasRoom() != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, 2*max(n.cfg.DiskStallMax, n.cfg.ElectionTimeout))
	defer cancel()
	return n.WaitApplied(limited, s.Last.Index) == nil
}

// pause waits for a change of leadership, for a third of an election timeout at most.
func (n *Node) pause(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(n.cfg.ElectionTimeout / 3)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-n.stop:
		return raft.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// TransferLeadership transfers leadership to another voter, and returns once that voter leads. If to is empty, the
// leader chooses the voter with the longest log. Only the leader can transfer. If to is this member and it leads, nothing
// changes and the error is nil.
//
// The leader first applies every proposal that it has accepted. Proposals that arrive meanwhile wait, within the same limits
// as all others. Once the transfer has succeeded, they fail with a *NotLeaderError that names the new leader. If it fails,
// they are proposed here. So no proposal ends with ErrOutcomeUnknown because of a transfer.
//
// With Config.Forward, any member takes the call and asks the leader.
//
// TransferLeadership fails with *NotLeaderError, ErrNoTarget, ErrTransferTimedOut, ErrWithinFSM, ErrClosed, ErrWiped and
// ctx.Err(). If ctx or the leader ends after the transfer has begun, the error also matches ErrOutcomeUnknown: the transfer may
// take place. Look at Status, and call again.
func (n *Node) TransferLeadership(ctx context.Context, to raft.NodeID) error {
	if n.withinFSM() {
		return ErrWithinFSM
	}
	return n.transferAnywhere(ctx, to)
}

// transferHere transfers the leadership of this member, in one term alone if term is not 0.
func (n *Node) transferHere(ctx context.Context, term raft.Term, to raft.NodeID) error {
	if err := n.usable(ctx); err != nil {
		return err
	}
	if now, _ := n.watched.load(); now.Role == raft.Leader && to == n.cfg.ID {
		return nil
	}
	return n.transferTo(ctx, raft.TransferRequested{Term: term, To: to})
}

func (n *Node) transferTo(ctx context.Context, e raft.TransferRequested) error {
	req, err := n.requests.transfer(e)
	if err != nil {
		return err
	}
	return n.requests.wait(ctx, req).err
}

// explain returns the error for a request that was refused or lost.
func (n *Node) explain(req *call, a raft.Answer) error {
	switch a.Kind {
	case raft.AnswerUnknown:
		return req.unknown()
	case raft.AnswerNotApplied:
		return n.notLeader(a.Leader, "another leader has overwritten the entry; it was not applied")
	}
	if a.Err != nil {
		return a.Err
	}
	switch a.Refusal {
	case raft.RefusedOverloaded:
		return raft.ErrOverloaded
	case raft.RefusedStalled:
		return &DiskStalledError{Limit: n.cfg.DiskStallMax}
	case raft.RefusedFSMHangs:
		return &FSMHangsError{Limit: n.cfg.ApplyStallMax}
	case raft.RefusedClosing:
		return raft.ErrClosed
	case raft.RefusedNoTarget:
		return ErrNoTarget
	case raft.RefusedUnsupported:
		return ErrSnapshotUnsupported
	case raft.RefusedSnapshotFailed:
		return firstError(n.taker.trouble.get(), raft.ErrClosed) // the end of the node is no trouble
	case raft.RefusedTransferring:
		return n.notLeader(a.Leader, "leadership is being transferred")
	case raft.RefusedTimedOut:
		if req.kind == transferCall {
			return ErrTransferTimedOut
		}
		return ErrReadTimedOut
	}
	return n.notLeader(a.Leader, "")
}

func (n *Node) notLeader(leader raft.NodeID, reason string) error {
	if leader == "" {
		return &NotLeaderError{Reason: reason}
	}
	now, _ := n.watched.load()
	if now.Leader != leader { // it does not lead yet
		now = raft.Leadership{Leader: leader}
	}
	return &NotLeaderError{Leader: n.leaderIn(now), Reason: reason}
}

func (n *Node) leaderIn(now raft.Leadership) *raft.Member {
	m := n.identity.leader(now)
	return &m
}
