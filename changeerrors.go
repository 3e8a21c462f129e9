package raft

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrChangeGivenUp: a change of the members has begun and was given up, on request or because of the *CatchUpError or
// *QuorumLossError that the error also matches. No member was demoted or removed. New members stay learners: add them as
// voters again to continue.
var ErrChangeGivenUp = errors.New("raft: the change of the members was given up; members that have joined stay learners")

// ErrRemoved: this member was removed from the cluster, see RemovedError.
var ErrRemoved = errors.New("raft: this member was removed from the cluster")

const notChanged = "raft: the members were not changed: "

// ConfigChangedError refuses a change: the configuration in force is that of entry Index, not of IfIndex as asked. Look at
// it and decide again.
type ConfigChangedError struct{ IfIndex, Index Index }

func (e *ConfigChangedError) Error() string {
	return fmt.Sprintf(notChanged+"the configuration is %d now, not %d: look at it and decide again", e.Index, e.IfIndex)
}

// ChangePendingError refuses a change while another one runs: wait, or cancel it.
type ChangePendingError struct {
	Index Index         // of the entry of the configuration in force
	Joint bool          // the voters are changing: that cannot be canceled, and the next leader finishes it, too
	Waits []NodeID      // the members that must catch up before they vote
	Since time.Duration // how long the change has been waiting
}

func (e *ChangePendingError) Error() string {
	s := fmt.Sprintf(notChanged+"configuration %d ", e.Index)
	switch {
	case e.Joint:
		s += "is changing the voters; the next leader finishes it, too: wait"
	case len(e.Waits) > 0:
		s += fmt.Sprintf("waits for %s, since %v: wait, or cancel the change", idList(e.Waits), e.Since.Round(time.Millisecond))
	default:
		s += "is not committed yet, or another change has been asked for: wait"
	}
	return s
}

// UnknownMemberError refuses a change that names an unknown member.
type UnknownMemberError struct {
	ID      NodeID
	Known   []NodeID // the members, each once
	Removed Index    // the entry that last removed a member with this id; 0: none is remembered
}

func (e *UnknownMemberError) Error() string {
	s := fmt.Sprintf(notChanged+"there is no %s", e.ID)
	if e.Removed > 0 {
		s += fmt.Sprintf(": it was removed by configuration %d", e.Removed)
	}
	return s + fmt.Sprintf("; there are %s", idList(e.Known))
}

// MemberExistsError refuses to add a member whose id is present. Change its address with Change.Update, or its store with
// Change.Replace. If it Answers at the address of its replacement, its own store runs there: to replace that, end its
// process and start the other one first.
type MemberExistsError struct {
	Member  Member // as it is
	Answers bool   // the member itself answered where its replacement was to be
}

func (e *MemberExistsError) Error() string {
	if e.Answers {
		return fmt.Sprintf(notChanged+"at the address of its replacement, %s itself answers, with the incarnation %v: "+
			"to put another store in its place, end its process and start the other one first", e.Member.ID, e.Member.Incarnation)
	}
	return fmt.Sprintf(notChanged+"%s is a %v, at %s: to move it, update its address; to put another store in its place, replace it",
		e.Member.ID, e.Member.Kind, e.Member.Address)
}

// LastVoterError refuses to remove or demote the last voter. Add another one first; to end the cluster, close its nodes.
type LastVoterError struct{ ID NodeID }

func (e *LastVoterError) Error() string {
	return fmt.Sprintf(notChanged+"%s is the last voter: add another one first; to end the cluster, close its nodes", e.ID)
}

// AddressInUseError refuses a change that gives two members one address.
type AddressInUseError struct {
	ID      NodeID // the member that is to get the address
	Address string
	By      NodeID // the member that has it
}

func (e *AddressInUseError) Error() string {
	return fmt.Sprintf(notChanged+"%s cannot be at %s: that is the address of %s", e.ID, e.Address, e.By)
}

// QuorumLossError refuses or ends a change: too few of the future voters are heard. Bring the silent ones back, or name them
// in Change.Despite if enough of them will return.
type QuorumLossError struct{ Silent, Voters []NodeID }

func (e *QuorumLossError) Error() string {
	return fmt.Sprintf(notChanged+"of the voters %s, %s not heard, and the others would be no majority: bring them back, or name them in Despite: see docs/runbook.md#not-connected",
		idList(e.Voters), idList(e.Silent)+areOrIs(len(e.Silent)))
}

// EarlierReleaseError refuses a change that members of an earlier release cannot read. Upgrade them first, or remove them
// with the same change.
type EarlierReleaseError struct {
	IDs    []NodeID
	Speaks uint16 // the lowest of their protocol versions
	Needs  uint16 // the protocol version that the change needs
}

func (e *EarlierReleaseError) Error() string {
	return fmt.Sprintf(notChanged+"%s speak%s protocol %d, and this needs %d: upgrade first", idList(e.IDs), singular(len(e.IDs)), e.Speaks, e.Needs)
}

// WasRemovedError refuses to add an incarnation that the entry at Index removed. Set its store aside to get another one.
type WasRemovedError struct {
	ID    NodeID
	Index Index
}

func (e *WasRemovedError) Error() string {
	return fmt.Sprintf(notChanged+"%s, with this store, was removed by configuration %d: empty its store first", e.ID, e.Index)
}

// CatchUpError says that a change was given up because a future voter made no progress for Patience. It matches
// ErrChangeGivenUp.
type CatchUpError struct {
	ID       NodeID
	Match    Index // as far as is known, the member holds the log up to here
	Last     Index // where the log ended
	Patience time.Duration
}

func (e *CatchUpError) Error() string {
	return fmt.Sprintf("%v: %s has made no progress for %v, at entry %d of %d", ErrChangeGivenUp, e.ID, e.Patience, e.Match, e.Last)
}

func (e *CatchUpError) Unwrap() error { return ErrChangeGivenUp }

// RemovedError ended a node, or refused its start: the committed entry at Index removed this member. To let it join again,
// set its store aside (storage.SetAside) and add it; member.Config.Rejoin with this Index does both. It matches ErrRemoved.
type RemovedError struct{ Index Index }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("%v, by configuration %d: to let it join again, set its store aside (storage.SetAside) and add it, "+
		"or start it with member.Config.Rejoin %d: see docs/runbook.md#removed", ErrRemoved, e.Index, e.Index)
}

func (e *RemovedError) Unwrap() error { return ErrRemoved }

func idList(ids []NodeID) string {
	words := make([]string, 0, len(ids))
	for _, id := range ids {
		words = append(words, string(id))
	}
	return strings.Join(words, " ")
}

func areOrIs(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

func singular(n int) string {
	if n == 1 {
		return "s"
	}
	return ""
}

// NotEmptyError refuses to add a member whose store belongs to another cluster, or perhaps to a removed incarnation. Set it
// aside (storage.SetAside), or name another address.
type NotEmptyError struct {
	ID      NodeID
	Address string    // as advertised
	Cluster ClusterID // to which the store belongs
	Removed Index     // the entry that removed the store's incarnation; 0: none is remembered
	Before  Index     // the oldest remembered removal, if the store is of this cluster and its configuration not newer; else 0
}

func (e *NotEmptyError) Error() string {
	switch {
	case e.Before > 0:
		return fmt.Sprintf("raft: the store of %s at %s is of this cluster, and its configuration is not newer than entry %d, the "+
			"oldest removal that is remembered: its member may have been removed. Set it aside (storage.SetAside), so that the member gets another incarnation",
			e.ID, e.Address, e.Before)
	case e.Removed > 0:
		return fmt.Sprintf("raft: the store of %s at %s was that of a member which entry %d has removed: set it aside "+
			"(storage.SetAside), so that the member gets another incarnation", e.ID, e.Address, e.Removed)
	}
	return fmt.Sprintf("raft: the store of %s at %s belongs to cluster %v: empty its directory, or name another address",
		e.ID, e.Address, e.Cluster)
}

// ValidateFor returns the error with which a leader of this configuration refuses the change if it hears all members. nil: a
// leader may still refuse.
func (ch Change) ValidateFor(run ConfigRun) error {
	at := run.Index
	for _, r := range run.Config.Removed {
		at = max(at, r.Index)
	}
	if _, why := run.Config.plan(ch, at+1, func(Peer) bool { return true }); why.kind != 0 {
		return run.refusalError(ch, why)
	}
	return nil
}

// refuseChange refuses a change with an error that names the value and the remedy.
func (c *Core) refuseChange(e *ChangeRequested, why refusal) {
	run := c.log.config()
	err := run.refusalError(e.Change, why)
	switch why.kind {
	case RefusedConfigIndex:
		err = &ConfigChangedError{e.IfIndex, run.Index}
	case RefusedChanging:
		since := time.Duration(c.now.Mono - c.leader.change.since)
		err = &ChangePendingError{run.Index, run.Config.Joint(), why.concerns, since}
	case RefusedEarlierRelease:
		err = &EarlierReleaseError{why.concerns, why.protocol, why.needs}
	case RefusedLeaseTooLong:
		err = &LeaseTooLongError{*e.Change.LeaseDuration, c.leaseLimit(), c.cfg.ElectionTimeout}
	}
	a := Answer{RequestID: e.RequestID, Kind: AnswerRefused, Refusal: why.kind, Err: err}
	if why.kind.aboutConfiguration() {
		c.answerConfirmed(a)
		return
	}
	c.answer(a)
}

// aboutConfiguration reports whether the reason describes the present configuration. If a caller does not learn the outcome
// of a change, it repeats the change. It then takes such an answer as proof that the change was made.
func (k RefusalKind) aboutConfiguration() bool {
	switch k {
	case RefusedConfigIndex, RefusedUnknownMember, RefusedMemberExists, RefusedLastVoter, RefusedNotElectable, RefusedAddressInUse, RefusedWasRemoved:
		return true
	}
	return false
}

// refusalError returns the typed error for a change that is refused because of the configuration in force; nil for any
// other reason.
func (r ConfigRun) refusalError(ch Change, why refusal) error {
	var id NodeID
	if len(why.concerns) > 0 {
		id = why.concerns[0]
	}
	switch why.kind {
	case RefusedChanging:
		return &ChangePendingError{Index: r.Index, Joint: r.Config.Joint(), Waits: why.concerns}
	case RefusedUnknownMember:
		return &UnknownMemberError{id, r.Config.ids(), r.Config.removedLast(id)}
	case RefusedMemberExists:
		m, _ := r.Config.Member(id)
		return &MemberExistsError{Member: m}
	case RefusedLastVoter:
		return &LastVoterError{id}
	case RefusedNotElectable:
		return fmt.Errorf(notChanged+"%w", &NotElectableError{why.voters, id})
	case RefusedAddressInUse:
		return &AddressInUseError{id, why.address, why.concerns[1]}
	case RefusedQuorumLoss:
		return &QuorumLossError{why.concerns, why.voters}
	case RefusedWasRemoved:
		return &WasRemovedError{id, why.index}
	case RefusedAppVersion:
		return fmt.Errorf(notChanged+"%w", &AppVersionError{id, why.appVersion, r.Config.AppVersionMin})
	case RefusedMalformed:
		return ch.malformed(r.Config.withID(id), id, why.invalid)
	}
	return nil
}

// malformed returns what is wrong with a change that was refused as malformed. If id is set, the change names that id twice,
// or without saying which of the members in "of" it means. If id is "", the change's first configuration is wrong, and
// invalid says how.
func (ch Change) malformed(of []Member, id NodeID, invalid error) error {
	if err := ch.validate(); err != nil {
		return err
	}
	if refused := (*PriorityError)(nil); errors.As(invalid, &refused) {
		return &ConfigError{"Change.Update", refused}
	}
	if len(of) > 1 {
		return &ConfigError{"Change", fmt.Errorf("two members have the id %q, the %v %s.%v and the %v %s.%v: name one of them, once, with its incarnation",
			id, of[0].Kind, id, of[0].Incarnation, of[1].Kind, id, of[1].Incarnation)}
	}
	if id != "" {
		return &ConfigError{"Change", fmt.Errorf("it names member %q twice, or names two members with that id: give the incarnation", id)}
	}
	return &ConfigError{"Change", fmt.Errorf("its configuration would not be valid: %w; to make room, remove members first, in a change of their own", invalid)}
}
