package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// Explain returns the answer for an error of a member. Its code tells the caller how to react, and whether the request was
// carried out. Use it for the errors of Propose and ReadIndex, too, so that clients get all errors in one form. An *Error stays
// as it is. After a loss of the majority, neither a wait nor a change of the members helps, and the answer says so.
func Explain(m Member, err error) *Error {
	e := *explained(err)
	e.Message = strings.TrimPrefix(e.Message, "raft: ")
	if e.Code == NoLeader || errors.Is(err, node.ErrWiped) {
		if lost := m.Status().MajorityLost; lost != "" {
			e.Message, e.Remedy = lost, "see docs/recovery.md"
		}
	}
	if e.Leader != "" && e.LeaderURL == "" {
		if leader := m.Status().LeaderMember; leader != nil && e.Leader == string(leader.ID) {
			e.LeaderURL = leader.Meta
		}
	}
	return &e
}

func explained(err error) *Error {
	if e := explainChange(err); e != nil {
		return e
	}
	var mine *Error
	var notLeader *node.NotLeaderError
	var noChanges *node.RemoteChangesError
	var stranger *node.NotMemberError
	var remote *node.RemoteError
	var answer *node.AnswerTooLargeError
	var tooLarge *raft.TooLargeError
	var snapshot *node.SnapshotError
	var stale *node.TooStaleError
	var room *raft.SpaceError
	var full *raft.NoRoomError
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.Is(err, node.ErrOutcomeUnknown):
		return errorf(OutcomeUnknown, "the request may or may not be carried out: read before you try again", "%v", err)
	case errors.As(err, &answer):
		return errorf(AnswerTooLarge, "read the state instead", "%v", err)
	case errors.As(err, &full):
		return errorf(Overloaded, "try again; if this persists, GET /status says which disk needs room", "%v", err)
	case errors.Is(err, raft.ErrOverloaded), errors.Is(err, node.ErrBackupRuns):
		return errorf(Overloaded, "try again in a second", "%v", err)
	case errors.Is(err, raft.ErrRemoved):
		return errorf(RemovedMember, "ask another member", "%v", err)
	case errors.Is(err, node.ErrWiped):
		return errorf(Closed, "ask another member; a replacement puts this one in its former place", "%v", err)
	case errors.As(err, &stranger):
		return errorf(Closed, `ask another member; a change with "add" adds this one, or a replacement if its disk was emptied`, "%v", err)
	case servesNothing(err):
		return errorf(Closed, "ask another member", "%v", err)
	case errors.Is(err, node.ErrReadTimedOut):
		return errorf(ReadTimedOut, "try again, or read the state of this member, which may be old", "%v", err)
	case errors.As(err, &stale):
		return tooStale(stale)
	case errors.Is(err, node.ErrNoTarget), errors.Is(err, node.ErrTransferTimedOut):
		return errorf(TransferFailed, "GET /status shows the members; then try again", "%v", err)
	case errors.As(err, &room):
		remedy := "make room on the disk of this member"
		if room.Need <= room.Free {
			remedy += ", or lower Config.SnapshotReserveBytes"
		}
		return errorf(NoRoom, remedy, "no snapshot was taken: it needs %d bytes, %d are free, and %d of them stay free for the log", room.Need, room.Free, room.Reserve)
	case errors.As(err, &snapshot):
		return errorf(SnapshotFailed, "look at the log of this member; it tries again by itself", "%v", err)
	case errors.Is(err, node.ErrSnapshotUnsupported):
		return errorf(Unsupported, "ask another member", "%v", err)
	case errors.As(err, &noChanges):
		e := errorf(NotLeader, "ask the leader", "%v", err)
		e.Leader = string(noChanges.Leader)
		return e
	case errors.As(err, &notLeader) && notLeader.Leader != nil:
		e := errorf(NotLeader, "ask the leader, or try again later", "%v", err)
		e.Leader, e.LeaderURL = string(notLeader.Leader.ID), notLeader.Leader.Meta
		return e
	case errors.As(err, &notLeader):
		return errorf(NoLeader, "try again in a second; /status says why there is none", "%v", err)
	case errors.As(err, &tooLarge):
		return errorf(ValueTooLarge, "propose less at once", "%v", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errorf(NoLeader, "try again; /status says why it took so long", "the request did not begin in time: %v", err)
	case errors.As(err, &remote):
		return errorf(Refused, "upgrade this member and the leader to the same release, or ask the leader", "%v", err)
	}
	return errorf(Internal, "look at the log of this member", "%v", err)
}

// tooStale returns the answer for a read of a state that is too old, or whose age is not proved.
func tooStale(err *node.TooStaleError) *Error {
	const remedy = "ask another member, read with Linearizable, or accept an older state"
	if err.Age == 0 {
		return errorf(TooStale, remedy, "this member has not proved yet how old its state is, and the read takes at most %v", err.MaxAge)
	}
	return errorf(TooStale, remedy, "the state of this member may be %v old, and the read takes at most %v", err.Age, err.MaxAge)
}

// servesNothing reports whether err means that this member no longer serves requests. In that case the request was not
// carried out.
func servesNothing(err error) bool {
	var stale *raft.StaleImageError
	var contradicted *raft.ContradictedError
	return errors.Is(err, raft.ErrClosed) || errors.Is(err, node.ErrWiped) || errors.Is(err, raft.ErrRemoved) || errors.As(err, &stale) || errors.As(err, &contradicted)
}

// explainChange returns the API's error for an error of a membership change, with the command that helps. It returns nil for
// any other error. Some errors of membership changes also match the error of a context that has ended.
func explainChange(err error) *Error {
	if e := explainMember(err); e != nil {
		return e
	}
	var pending *raft.ChangePendingError
	var changed *raft.ConfigChangedError
	var last *raft.LastVoterError
	var standbys *raft.NotElectableError
	var priority *raft.PriorityError
	var silent *raft.QuorumLossError
	var earlier *raft.EarlierReleaseError
	var lease *raft.LeaseTooLongError
	var field *raft.ConfigError
	switch {
	case errors.As(err, &pending) && pending.Joint:
		return errorf(ChangePending, "try again when it is done; GET /members shows it", "%v", err)
	case errors.As(err, &pending):
		return errorf(ChangePending, `try again when it is done; GET /members shows it, and a change with "cancel" ends it`, "%v", err)
	case errors.As(err, &changed):
		return errorf(ConfigChanged, "look at GET /members, and decide again", "%v", err)
	case errors.As(err, &last):
		return errorf(LastVoter, `a change with "add" adds another voter`, "%v", err)
	case errors.As(err, &standbys):
		return errorf(NotElectable, fmt.Sprintf("a change of the priority of %s to 1 lets it lead; then try again", cmp.Or(standbys.Raise, "ID")), "%v", err)
	case errors.As(err, &priority) && priority.Learner:
		return errorf(BadRequest, fmt.Sprintf("a promotion of %s makes it a voter", priority.ID), "%v", err)
	case errors.As(err, &silent):
		return errorf(QuorumLoss, `bring them back; if enough of them will return: "despite" `+joined(silent.Silent, ","), "%v", err)
	case errors.As(err, &earlier):
		return errorf(EarlierRelease, "upgrade "+joined(earlier.IDs, ", ")+" first, then try again", "%v", err)
	case errors.As(err, &lease):
		return errorf(LeaseTooLong, fmt.Sprintf("ask for %v at most, or give all members a longer ElectionTimeout first", lease.Limit), "%v", err)
	case errors.As(err, &field):
		return errorf(BadRequest, "see the documentation of raft.Change", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// explainMember is like explainChange, for errors about one member.
func explainMember(err error) *Error {
	var late *raft.CatchUpError
	var unknown *raft.UnknownMemberError
	var exists *raft.MemberExistsError
	var unreachable *node.UnreachableError
	var insecure *transport.InsecureError
	var full *raft.NotEmptyError
	var before *raft.WasRemovedError
	var used *raft.AddressInUseError
	var outdated *raft.AppVersionError
	var inUse *joining.InUseError
	switch {
	case errors.As(err, &inUse) && errors.Is(err, context.DeadlineExceeded): // it may be free soon: explained says so
		return nil
	case errors.As(err, &inUse):
		return errorf(MemberRuns, fmt.Sprintf("end the process of %s at %s first", inUse.Member.ID, inUse.Member.Address), "%v", err)
	case errors.As(err, &outdated):
		return errorf(AppVersion, fmt.Sprintf("start a newer program on %s first", outdated.ID), "%v", err)
	case errors.As(err, &late):
		return errorf(GivenUp, `send the same change again: it continues from there; "patience" waits longer`, "%v", err)
	case errors.Is(err, raft.ErrChangeGivenUp):
		return errorf(GivenUp, "GET /members shows what is left of it; send the same change again: it continues from there", "%v", err)
	case errors.As(err, &unknown):
		return errorf(UnknownMember, "GET /members shows the members", "%v", err)
	case errors.As(err, &exists) && exists.Answers:
		return errorf(MemberRuns, "GET /members shows the incarnations", "%v", err)
	case errors.As(err, &exists):
		id := exists.Member.ID
		return errorf(MemberExists, fmt.Sprintf("if it has moved: an update of %s with its new address; "+
			"if its disk was lost: a replacement of %s", id, id), "%v", err)
	case errors.As(err, &unreachable) && errors.As(err, &insecure):
		return errorf(MemberUnreachable, "give all members certificates, or Insecure on a private network",
			"the members were not changed: %s at %s: other machines reach that address, and there is no TLS", unreachable.ID, unreachable.Address)
	case errors.As(err, &unreachable):
		return errorf(MemberUnreachable, fmt.Sprintf("check that %s runs, that it listens at %s, and that it can reach the leader",
			unreachable.ID, unreachable.Address), "%v", err)
	case errors.As(err, &full) && full.Removed > 0:
		return errorf(WasRemoved, fmt.Sprintf("start %s with an empty directory", full.ID), "%v", err)
	case errors.As(err, &full):
		return errorf(NotEmpty, fmt.Sprintf("start %s with an empty directory", full.ID), "%v", err)
	case errors.As(err, &before):
		return errorf(WasRemoved, fmt.Sprintf("start %s with an empty directory", before.ID), "%v", err)
	case errors.As(err, &used):
		return errorf(AddressInUse, "give each member its own address; GET /members shows them", "%v", err)
	}
	return nil
}

func joined(ids []raft.NodeID, separator string) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, separator)
}
