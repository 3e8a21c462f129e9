package node

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// Members is the configuration in force, as this member knows it.
type Members struct {
	raft.Configuration
	// Index is the index of the entry that holds the configuration. Pass it as ChangeOptions.IfIndex. It is 0 if there is no
	// cluster yet; then the configuration is Config.Initial.
	Index raft.Index
	// Committed reports whether this member knows that the configuration is committed. While it is false, the configuration
	// may still be rolled back.
	Committed bool
}

// ChangeOptions are the conditions of a change of members. The zero value suits a person who has looked at Status.
type ChangeOptions struct {
	// IfIndex, if not 0, must be the Members.Index of the configuration in force. Otherwise the change is refused with a
	// *ConfigChangedError. Set IfIndex if a program decides on the change from a configuration that it has read.
	IfIndex raft.Index
	// Despite names voters of the new configuration that may be silent, see *raft.QuorumLossError.
	Despite []raft.NodeID
	// Patience is how long a new voter may make no progress before the leader gives up the change. A new leader restarts this
	// measurement. Default 1 min; at most 24 h.
	Patience time.Duration
}

// AddMember adds a voter. Before the call, start the new member on an empty store and without Config.Initial. The new member
// first receives the log as a learner, and becomes a voter once it has caught up. If m.ID is the id of a learner, that
// learner becomes a voter. In this case the address and the Meta of m may be empty. The new voter has the Priority of m.
// AddMember ignores the Kind and the Incarnation of m.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) AddMember(ctx context.Context, m raft.Member, o ChangeOptions) (Members, error) {
	m.Kind, m.Incarnation = raft.Voter, 0
	return n.change(ctx, raft.Change{Add: []raft.Member{m}}, o)
}

// AddLearner adds a member that receives and applies the log, and does not vote. Otherwise it is like AddMember.
func (n *Node) AddLearner(ctx context.Context, m raft.Member, o ChangeOptions) (Members, error) {
	m.Kind, m.Incarnation = raft.Learner, 0
	return n.change(ctx, raft.Change{Add: []raft.Member{m}}, o)
}

// RemoveMember removes a member. The removed member then ends with a *RemovedError. If a leader is removed, it first answers
// and transfers its leadership. If a replacement was given up, two members may have the id. RemoveMember then fails: use
// ChangeMembers to remove one of them by its incarnation.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) RemoveMember(ctx context.Context, id raft.NodeID, o ChangeOptions) (Members, error) {
	return n.change(ctx, raft.Change{Remove: []raft.Peer{{ID: id}}}, o)
}

// DemoteMember makes a voter a learner. AddMember makes it a voter again.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) DemoteMember(ctx context.Context, id raft.NodeID, o ChangeOptions) (Members, error) {
	return n.change(ctx, raft.Change{Demote: []raft.Peer{{ID: id}}}, o)
}

// ReplaceMember removes a member, and adds a new member on an empty store in its place. If by.ID is empty, the new member has
// the same id: use that if a member's disk was lost or emptied. If by.Address or by.Meta is empty, the new member takes the
// value of the replaced member. If the replaced member is a voter, so is the new one, with the same priority: it catches up
// first, and both change roles at once.
//
// If the id stays the same, the leader asks the process at the address for its incarnation. If the process answers with the
// incarnation of the member to be replaced, the error is a *MemberExistsError with Answers, and no replacement is needed. The new
// incarnation takes the place at once if it answers at the former address, after 2 s in which every known address has refused the
// leader, and otherwise after 10 s of silence: ReplaceMember waits for that. If the leader hears the former incarnation meanwhile,
// the error is a *joining.InUseError: end that process first.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) ReplaceMember(ctx context.Context, id raft.NodeID, by raft.Member, o ChangeOptions) (Members, error) {
	by.Incarnation = 0
	return n.change(ctx, raft.Change{Replace: []raft.Replacement{{Old: raft.Peer{ID: id}, New: by}}}, o)
}

// UpdateMember changes the address of a member, its Meta, its priority, or several of them.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) UpdateMember(ctx context.Context, u raft.Update, o ChangeOptions) (Members, error) {
	return n.change(ctx, raft.Change{Update: []raft.Update{u}}, o)
}

// SetPriority sets the priority of a voter: 1 to raft.PriorityMax, or raft.PriorityNever for a standby, which votes and
// stores, and leads only if no other voter can. See raft.Priority. A new voter has priority 1, unless AddMember gives it
// another one. A replacement keeps the priority, and a demotion ends it.
//
// The first priority other than 1 raises the feature level of the cluster, after which no earlier release can read its log:
// see docs/versions.md. While a member runs such a release, the error is an *EarlierReleaseError, and nothing has changed. A
// priority that is out of range, or of a learner, is refused with a *raft.PriorityError. If no voter would be left that may
// lead, the error is a *raft.NotElectableError: give another voter a priority above 0 first, as its Raise says.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) SetPriority(ctx context.Context, id raft.NodeID, p raft.Priority) (Members, error) {
	return n.UpdateMember(ctx, raft.Update{Peer: raft.Peer{ID: id}, Priority: &p}, ChangeOptions{})
}

// CancelChange gives up a change that waits for members to catch up. These members stay learners. If no change is running,
// CancelChange does nothing. If the change has already begun to change the voters, CancelChange cannot cancel it, and fails
// with a *ChangePendingError.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) CancelChange(ctx context.Context) (Members, error) {
	return n.ChangeMembers(ctx, raft.Change{Cancel: true}, 0)
}

func (n *Node) change(ctx context.Context, c raft.Change, o ChangeOptions) (Members, error) {
	c.Despite, c.Patience = o.Despite, o.Patience
	return n.ChangeMembers(ctx, c, o.IfIndex)
}

// ChangeMembers changes several members at once: the voters change together or not at all. ifIndex is as in ChangeOptions.
// AddMember and the similar methods call ChangeMembers. Only the leader changes members; with Config.Forward, any member takes
// the call and sends it on, as in Propose. Then further errors are *RemoteChangesError, *NotMemberError and *ForwardLimitError.
//
// ChangeMembers returns once the last entry of the change is committed. It returns the configuration in that entry. If ctx or
// the leader ends meanwhile, the change continues: the next leader finishes it, and Members, WatchMembers and Status show its
// progress. A change without effect succeeds once a majority has confirmed that this member still leads.
//
// A member that sent the call on may learn of the change after the answer: its Members shows the change later, as on every other
// follower. Use the result, or wait with WatchMembers.
//
// If the Incarnation of a joining member is 0, the leader first makes contact with that member, in both directions. If there
// is no contact within 5 s, or within 20 election timeouts if they are longer, nothing changes. Start the member before you
// add it.
//
// With these errors the change was refused, and nothing has changed:
//
//   - *NotLeaderError: ask its Leader.
//   - *ChangePendingError: another change is running. Wait until Status().Change is nil, or call CancelChange.
//   - *ConfigChangedError, *UnknownMemberError, *MemberExistsError, *LastVoterError, *NotElectableError, *AddressInUseError
//     or *ConfigError, which may wrap a *PriorityError: look at Members and correct the call. After a call with an unknown outcome, *MemberExistsError and
//     *UnknownMemberError say that the change took place.
//   - *UnreachableError, *NotEmptyError, *WasRemovedError: the joining member is not ready.
//   - *joining.InUseError: the member whose id another store is to take over may still run.
//   - *EarlierReleaseError: upgrade the members that it names.
//   - *raft.AppVersionError: the program of the member that joins or is promoted is too old: start a newer one there.
//   - *QuorumLossError that does not match ErrChangeGivenUp: too few of the new voters are heard. Bring them back, or
//     name them in Despite.
//   - ErrOverloaded (more than 16 callers wait, or the disk has stalled), ErrWithinFSM, ErrClosed, ErrWiped, *RemovedError,
//     *StaleImageError, *ContradictedError, or ctx.Err() without ErrOutcomeUnknown.
//
// If the error matches ErrChangeGivenUp, the change began, and then the leader gave it up. No member was demoted or removed,
// and the members that have joined stay learners. To continue, add one of them as a voter again.
//
// If the error matches ErrOutcomeUnknown, the change may have begun. If it has begun, it continues. If ctx has ended, the
// error also matches ctx.Err(). Unlike a command, the same change may be requested again. If the answer of another member was
// lost and ctx has no deadline, the call ends so within 30 s (or 60 election timeouts) after no change runs any more.
func (n *Node) ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (Members, error) {
	if n.withinFSM() {
		return Members{}, ErrWithinFSM
	}
	m, err := n.changeAnywhere(ctx, c, ifIndex)
	n.counters.changedMembers(err)
	return m, err
}

// changeHere changes the members on this member, which must be the leader, and the leader of that term if term is not 0.
func (n *Node) changeHere(ctx context.Context, term raft.Term, c raft.Change, ifIndex raft.Index) (Members, error) {
	if err := n.usable(ctx); err != nil {
		return Members{}, err
	}
	c, end, err := n.invitations.invite(ctx, c, ifIndex)
	if err != nil {
		return Members{}, err
	}
	defer end()
	if err := n.petitions.awaitPlaces(ctx, c); err != nil {
		return Members{}, err
	}
	req, err := n.requests.change(raft.ChangeRequested{Term: term, IfIndex: ifIndex, Change: c})
	if err != nil {
		return Members{}, err
	}
	if o := n.requests.wait(ctx, req); o.err != nil {
		return Members{}, o.err
	} else {
		return n.membersAt(o.index), nil
	}
}

// prepared fills in the fields that the change leaves empty: the address and Meta of a learner that becomes a voter, and
// the id, address and Meta of a replacement. It does not modify the caller's slices.
func prepared(c raft.Change, in raft.Configuration) raft.Change {
	c.Add, c.Replace = slices.Clone(c.Add), slices.Clone(c.Replace)
	for i := range c.Add {
		m := &c.Add[i]
		old, known := in.Member(m.ID)
		if !known || m.Kind != raft.Voter || old.Kind != raft.Learner || m.Incarnation != 0 {
			continue
		}
		if m.Address == "" || m.Address == old.Address {
			m.Incarnation = old.Incarnation
		}
		inherit(m, old)
	}
	for i := range c.Replace {
		r := &c.Replace[i]
		if old, known := in.Member(r.Old.ID); known {
			inherit(&r.New, old)
			r.New.Incarnation = cmp.Or(r.New.Incarnation, leftBehind(in, *r, old))
		}
	}
	return c
}

// leftBehind returns the incarnation of the learner that an earlier attempt of the same replacement left behind when it was
// given up. It returns 0 if there is no such learner. The configuration already names this learner, so no contact with it is
// needed.
func leftBehind(in raft.Configuration, r raft.Replacement, old raft.Member) raft.Incarnation {
	for _, m := range in.Members {
		replaced := m.Peer() == old.Peer() || m.Peer() == r.Old
		if m.ID == r.New.ID && m.Address == r.New.Address && m.Kind == raft.Learner && !replaced {
			return m.Incarnation
		}
	}
	return 0
}

// inherit fills the empty fields of m from old.
func inherit(m *raft.Member, old raft.Member) {
	if m.ID == "" {
		m.ID = old.ID
	}
	if m.Address == "" {
		m.Address = old.Address
	}
	if m.Meta == "" {
		m.Meta = old.Meta
	}
}

// addressProblem returns a *ConfigError if an address of the change has no port, and nil otherwise.
func addressProblem(c raft.Change) error {
	var addresses []string
	for _, m := range c.Add {
		addresses = append(addresses, m.Address)
	}
	for _, r := range c.Replace {
		addresses = append(addresses, r.New.Address)
	}
	for _, u := range c.Update {
		if u.Address != nil {
			addresses = append(addresses, *u.Address)
		}
	}
	for _, address := range addresses {
		if len(address) > raft.AddressBytesMax {
			continue // the core refuses it
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return &raft.ConfigError{Field: "Address", Err: fmt.Errorf("%q is not \"host:port\": %w", address, err)}
		}
	}
	return nil
}

// changeUnknownError says that a change may have begun. It matches ErrOutcomeUnknown.
type changeUnknownError struct{}

func (changeUnknownError) Error() string {
	return "raft: outcome unknown: if the change of members has begun, it continues, also under the next leader: look at Members, and request it again"
}

func (changeUnknownError) Unwrap() error { return ErrOutcomeUnknown }

// membership is the configuration in force, and the one before it.
type membership struct {
	now    Members
	since  time.Time // when it came into force here
	before Members
	// committed is the newest configuration that is known to be committed. It is zero until one is.
	committed raft.Configuration
	// appVersionMin is that of the newest committed configuration.
	appVersionMin uint64
}

// Members returns the configuration in force. It neither waits nor allocates, so it may be called before each request.
func (n *Node) Members() Members {
	m, _ := n.members.load()
	return m.now
}

// AppVersionMin returns the lowest version of the application that a member of the cluster runs or may run from now on, as far
// as this member knows; 0 if there is none. Once it has reached a version, propose the commands of that version on any member:
// every member that applies them runs at least that version (Config.AppVersion). It never falls. It neither waits nor
// allocates. WatchMembers yields when it has risen.
func (n *Node) AppVersionMin() uint64 {
	m, _ := n.members.load()
	return m.appVersionMin
}

// WatchMembers yields the configuration in force: first the present value, then every change. It also yields when a
// configuration becomes committed. If a reader is slow, it misses intermediate changes, but delays nothing. The sequence ends
// when ctx or the node ends.
func (n *Node) WatchMembers(ctx context.Context) iter.Seq[Members] {
	return func(yield func(Members) bool) {
		m, changed := n.members.load()
		for yield(m.now) {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-n.stop:
				return
			}
			m, changed = n.members.load()
		}
	}
}

// membersAt returns the committed configuration of the entry at the index. If this member no longer keeps that configuration,
// membersAt returns the configuration in force.
func (n *Node) membersAt(index raft.Index) Members {
	m, _ := n.members.load()
	for _, of := range []Members{m.now, m.before} {
		if of.Index == index {
			of.Committed = true
			return of
		}
	}
	return m.now
}

// publishMembers publishes the configuration. The loop calls it when the configuration, or its known commit, may have
// changed.
func (n *Node) publishMembers(s raft.CoreStatus) {
	old, _ := n.members.load()
	now := Members{Configuration: s.Config, Index: s.ConfigIndex, Committed: s.ConfigIndex > 0 && s.ConfigCommitted == s.ConfigIndex}
	if len(now.Members) == 0 {
		now.Configuration = n.identity.initial
	}
	next := membership{now: now, since: old.since, before: old.before, committed: old.committed, appVersionMin: s.AppVersionMin}
	if now.Index != old.now.Index {
		next.since, next.before = time.Now(), old.now
	}
	for _, of := range []Members{next.before, now} {
		if s.ConfigCommitted > 0 && of.Index == s.ConfigCommitted {
			next.committed = of.Configuration
		}
	}
	if now.Index == old.now.Index && now.Committed == old.now.Committed && now.Equal(old.now.Configuration) &&
		next.committed.Equal(old.committed) && next.appVersionMin == old.appVersionMin {
		return
	}
	n.members.publish(next)
	if now.Index != old.now.Index && old.now.Index > 0 {
		n.logger.log(hclog.Info, "the members have changed", "configuration", uint64(now.Index), "members", listed(now))
	}
}

// listed returns the members and their roles, as text.
func listed(m Members) string {
	if joint := phase(m.Configuration); joint != "" {
		return joint
	}
	words := make([]string, 0, len(m.Members))
	for _, of := range m.Members {
		words = append(words, fmt.Sprintf("%s (%s)", of.ID, standing(m.Configuration, of)))
	}
	return strings.Join(words, ", ")
}
