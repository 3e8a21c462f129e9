package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

const (
	// A joining member must answer and dial back within contactMin, or within contactTimeouts election timeouts if they
	// are longer.
	contactMin      = 5 * time.Second
	contactTimeouts = 20
	// invitedMax is how many members may join in one change.
	invitedMax = 16
)

// invitations makes contact with joining members before the leader appends anything. A member with a wrong address, or
// with a store that is not empty, would otherwise count from its entry on and could not answer. Each member sends only
// on connections that it has dialed. So there is contact once each of the two has accepted a connection of the other.
type invitations struct {
	node *Node

	mu    sync.Mutex
	open  map[raft.NodeID]*invitation // invitations of the one change that makes contact at present
	since time.Time                   // when that change began to make contact
	// callers holds, for each peer, its last start that has dialed this member. Such a start can reach this member, even
	// if it dialed before it was invited.
	callers map[raft.Peer]raft.StartID
}

// invitation is the contact with one joining member.
type invitation struct {
	member  raft.Member
	changed signal
	// asks is an unused incarnation, or 0. If a configuration already names the id, this member first dials the id under the
	// incarnation in asks. The process at the address rejects this dial and states its own identity. If the member to be
	// replaced runs, a dial of any incarnation (0) would break its connection.
	asks raft.Incarnation

	// The transport's goroutines write the next two fields, under the lock of invitations.
	answered *raft.Hello     // hello of a store that no configuration names; nil: none yet
	refusal  *raft.Rejection // rejection of this member by the process at the address; nil: none
}

func newInvitations(n *Node) *invitations {
	return &invitations{node: n, open: make(map[raft.NodeID]*invitation), callers: make(map[raft.Peer]raft.StartID)}
}

// invite makes contact with the joining members, and returns the change with their incarnations. The caller must call
// end once the leader has decided about the change.
func (v *invitations) invite(ctx context.Context, c raft.Change, ifIndex raft.Index) (filled raft.Change, end func(), err error) {
	m, _ := v.node.members.load()
	c = prepared(c, m.now.Configuration)
	if err := addressProblem(c); err != nil {
		return c, nil, err
	}
	joining := withoutIncarnation(&c)
	if len(joining) == 0 {
		return c, func() {}, nil
	}
	if err := v.refused(c, joining, m, ifIndex); err != nil {
		return c, nil, v.confirmed(ctx, m.now.Index, err)
	}
	if err := v.node.contacts.settled(ctx); err != nil {
		return c, nil, err
	}
	invited, err := v.begin(joining, m.now)
	if err != nil {
		return c, nil, err
	}
	limit, cancel := context.WithTimeout(ctx, max(contactMin, contactTimeouts*v.node.cfg.ElectionTimeout))
	defer cancel()
	for i, inv := range invited {
		if joining[i].Incarnation, err = v.await(ctx, limit, inv); err != nil {
			v.end()
			return c, nil, v.confirmed(ctx, m.now.Index, err)
		}
		joining[i].AppVersion = inv.member.AppVersion
	}
	return c, v.end, nil
}

// withoutIncarnation returns the joining members that have no incarnation yet.
func withoutIncarnation(c *raft.Change) (joining []*raft.Member) {
	for i := range c.Replace {
		joining = append(joining, &c.Replace[i].New)
	}
	for i := range c.Add {
		joining = append(joining, &c.Add[i])
	}
	return slices.DeleteFunc(joining, func(m *raft.Member) bool { return m.Incarnation != 0 })
}

// refused returns the reason if the change can be refused before contact, or nil otherwise. The core checks the change again.
func (v *invitations) refused(c raft.Change, joining []*raft.Member, m membership, ifIndex raft.Index) error {
	n := v.node
	if now, _ := n.watched.load(); now.Role != raft.Leader {
		return n.notLeader(now.Leader, "")
	}
	if ifIndex != 0 && ifIndex != m.now.Index {
		return &raft.ConfigChangedError{IfIndex: ifIndex, Index: m.now.Index}
	}
	if len(joining) > invitedMax {
		return &raft.ConfigError{Field: "Change", Err: fmt.Errorf("%d members would join; a change takes up to %d at once", len(joining), invitedMax)}
	}
	for i, j := range joining {
		j.Incarnation, j.AppVersion = unusedIncarnation(m.now.Configuration, j.ID, i), m.now.AppVersionMin
	}
	err := c.ValidateFor(raft.ConfigRun{Index: m.now.Index, Config: m.now.Configuration})
	for _, j := range joining {
		j.Incarnation = 0
	}
	var pending *raft.ChangePendingError
	if errors.As(err, &pending) {
		pending.Since = time.Since(m.since)
	}
	if err != nil {
		return err
	}
	for _, r := range c.Replace {
		if r.New.ID == n.cfg.ID {
			return &UnreachableError{ID: r.New.ID, Address: r.New.Address,
				Err: errors.New("this member has that id and leads: transfer its leadership first, and ask the next leader")}
		}
	}
	return nil
}

// confirmed returns err if this member can confirm it, or otherwise the error of the attempt to confirm. err says that the
// configuration at the given index refuses a change. A caller takes some of these errors as proof that its change was made.
// So the configuration must be committed, and this member must still lead. A change without effect confirms both.
func (v *invitations) confirmed(ctx context.Context, index raft.Index, err error) error {
	var notLeader *NotLeaderError
	var pending *raft.ChangePendingError
	var malformed *raft.ConfigError
	var unreachable *UnreachableError
	if errors.As(err, &notLeader) || errors.As(err, &pending) || errors.As(err, &malformed) || errors.As(err, &unreachable) {
		return err
	}
	req, failed := v.node.requests.change(raft.ChangeRequested{IfIndex: index})
	if failed == nil {
		failed = v.node.requests.wait(ctx, req).err
	}
	if failed != nil {
		return failed
	}
	return err
}

// unusedIncarnation returns an incarnation of the id that the configuration does not name. The incarnation is a placeholder
// for the real one, which contact will show. i makes it different for each joining member.
func unusedIncarnation(c raft.Configuration, id raft.NodeID, i int) raft.Incarnation {
	for x := ^raft.Incarnation(0) - raft.Incarnation(i); ; x-- {
		if _, named := c.Peer(raft.Peer{ID: id, Incarnation: x}); !named {
			return x
		}
	}
}

// begin makes this member dial the joining members. It fails while another change makes contact.
func (v *invitations) begin(joining []*raft.Member, in Members) (invited []*invitation, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.open) > 0 {
		return nil, &raft.ChangePendingError{Index: in.Index, Since: time.Since(v.since)}
	}
	v.since = time.Now()
	for _, m := range joining {
		inv := &invitation{member: *m, changed: newSignal()}
		if _, named := in.Member(m.ID); named {
			inv.asks = unusedIncarnation(in.Configuration, m.ID, 0)
		}
		invited, v.open[m.ID] = append(invited, inv), inv
		v.dial(inv)
	}
	return invited, nil
}

// dial has a member dialed. v.mu is held.
func (v *invitations) dial(inv *invitation) {
	m := inv.member
	m.Incarnation = inv.asks
	v.node.contacts.invite(m)
}

// peer returns the name under which the member is dialed.
func (inv *invitation) peer() raft.Peer { return raft.Peer{ID: inv.member.ID, Incarnation: inv.asks} }

func (v *invitations) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.open {
		v.node.contacts.uninvite(id)
	}
	clear(v.open)
}

// making returns the sorted ids of the members with which this member is making contact, and when it began to do so.
func (v *invitations) making() (ids []raft.NodeID, since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.open)), v.since
}

// await waits for contact with one member. limit is ctx with a deadline for the contact.
func (v *invitations) await(ctx, limit context.Context, inv *invitation) (raft.Incarnation, error) {
	for {
		now, led := v.node.watched.load()
		if now.Role != raft.Leader {
			return 0, v.node.notLeader(now.Leader, "")
		}
		if found, err := v.met(inv); found != 0 || err != nil {
			return found, err
		}
		select {
		case <-inv.changed:
		case <-led:
		case <-v.node.stop:
			return 0, v.node.ended()
		case <-limit.Done():
			return 0, v.missed(ctx.Err(), inv)
		}
	}
}

// met returns the incarnation of the member if there is contact, or an error if the member cannot join. If neither is known
// yet, met returns zero values.
func (v *invitations) met(inv *invitation) (raft.Incarnation, error) {
	own, named := v.refusalOf(inv), v.node.Members()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch r := firstRejection(inv.refusal, own); {
	case r == nil || mayPass(r.Reason):
	case inv.asks != 0 && r.Reason == raft.RejectWrongIncarnation && r.From.ID == inv.member.ID:
		if m, is := named.Peer(r.From); is {
			return 0, &raft.MemberExistsError{Member: m, Answers: true}
		}
		inv.asks, inv.refusal = 0, nil
		v.dial(inv)
	case r.Reason == raft.RejectOtherCluster && r.From != v.node.identity.self:
		return 0, &raft.NotEmptyError{ID: inv.member.ID, Address: inv.member.Address, Cluster: r.Cluster}
	case r.Reason == raft.RejectRemoved && r.From == v.node.identity.self:
		return 0, &raft.WasRemovedError{ID: inv.member.ID, Index: r.Index}
	default:
		return 0, v.unreachable(inv, r)
	}
	h := inv.answered
	if h == nil {
		return 0, nil
	}
	if needs := max(named.Protocol(), raft.ProtocolMembership); h.Protocol < needs {
		return 0, &raft.EarlierReleaseError{IDs: []raft.NodeID{h.From.ID}, Speaks: h.Protocol, Needs: needs}
	}
	if err := v.node.identity.mayJoin(*h); err != nil {
		return 0, err
	}
	if v.callers[h.From] != h.Lineage.Last() {
		return 0, nil
	}
	inv.member.AppVersion = h.AppVersion
	return h.From.Incarnation, nil
}

func firstRejection(theirs, own *raft.Rejection) *raft.Rejection {
	if theirs != nil {
		return theirs
	}
	return own
}

// mayPass reports whether a rejection may end by itself within the time for contact.
func mayPass(r raft.RejectReason) bool {
	return r == raft.RejectSlowDisk || r == raft.RejectTwin || r == raft.RejectLate
}

// refusalOf returns this member's own rejection of the process that answered, as the transport reports it. It returns nil if
// there is no such rejection.
func (v *invitations) refusalOf(inv *invitation) *raft.Rejection {
	var r *raft.Rejection
	if errors.As(v.node.connection(raft.Peer{ID: inv.member.ID}).Err, &r) && r.From == v.node.identity.self {
		return r
	}
	return nil
}

func (v *invitations) unreachable(inv *invitation, err error) error {
	return &UnreachableError{ID: inv.member.ID, Address: inv.member.Address, Err: err}
}

// missed returns why there was no contact in time. ended is the error of the caller's context, or nil if that context has not
// ended.
func (v *invitations) missed(ended error, inv *invitation) error {
	v.mu.Lock()
	answered, dialed := inv.answered, inv.peer()
	v.mu.Unlock()
	open := v.node.connection(dialed)
	var why error
	switch {
	case answered != nil:
		why = fmt.Errorf("it answers, but has not reached this member at %s: check that address, and the network between the two",
			v.node.identity.hello(answered.From).Address)
	case open.Connected:
		why = errors.New("it answers, but has not finished the handshake")
	case open.Err != nil:
		why = open.Err
	default:
		why = errors.New("it has not answered")
	}
	if ended != nil {
		why = fmt.Errorf("%w (%w)", why, ended)
	}
	return v.unreachable(inv, why)
}

// up notes a connection that this member has dialed.
func (v *invitations) up(h raft.Hello) {
	_, named := v.node.Members().Peer(h.From)
	v.mu.Lock()
	defer v.mu.Unlock()
	if inv := v.open[h.From.ID]; inv != nil && !named {
		inv.answered = &h
		inv.changed.wake()
	}
}

// accepted notes a connection that this member has accepted.
func (v *invitations) accepted(h raft.Hello) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.callers[h.From]; !known && len(v.callers) >= strangersMax {
		clear(v.callers)
	}
	v.callers[h.From] = h.Lineage.Last()
	if inv := v.open[h.From.ID]; inv != nil {
		inv.changed.wake()
	}
}

// failed notes a dial that has failed. refusal is the peer's rejection, or nil if the peer did not answer with a rejection.
// failed reports whether the dial only asked the peer for its identity.
func (v *invitations) failed(p raft.Peer, refusal *raft.Rejection) (asked bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	inv := v.open[p.ID]
	if inv == nil || p != inv.peer() {
		return false
	}
	inv.refusal = refusal
	inv.changed.wake()
	return inv.asks != 0
}
